"""Start, show or stop the daemon that keeps everything warm.

One process for each person and home holds models and indexes; commands are thin clients of it. The first one that profits
starts it, and it leaves by itself when nobody has asked for a while (daemon.idle_s), so none of this is needed day to day.
'status' ends with 1 when no daemon is running.

examples:
  lorelog warm status          what is running, since when, how much memory, what it watches, its last error
  lorelog warm start
  lorelog warm stop            it finishes or rolls back what it is writing, and is gone within five seconds
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonAbsent
from lorelog.surfaces.cli.paper import one_line, plural, print_json, short_path
from lorelog.surfaces.daemon import client
from lorelog.surfaces.daemon.address import find_address

if TYPE_CHECKING:
    import argparse

    from lorelog.surfaces.daemon.address import Address

_MOST_ROOTS = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, said in (
        ("start", "start it, unless it is running"),
        ("status", "show what is running"),
        ("stop", "stop it"),
    ):
        verb = verbs.add_parser(name, help=said, allow_abbrev=False)
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    address = find_address()
    if args.verb == "start":
        return _start(address, as_json=args.json)
    if args.verb == "stop":
        return _stop(address, as_json=args.json)
    return _status(address, as_json=args.json)


def daemon_status(address: Address) -> dict[str, Any]:
    """Return what the daemon says of itself, or that none is running. Raise DaemonError when one is, and is silent."""
    try:
        return {"running": True, **client.ask("daemon.status", {}, directory="/", home=address.home)}
    except DaemonAbsent:
        from lorelog.surfaces.daemon.control import holder

        held = holder(address)
        if held is None:
            return {"running": False, "home": address.home}
        if held.get("leaving"):
            return {"running": False, "home": address.home, "leaving": held["leaving"], "pid": held.get("pid")}
        raise


def status_lines(status: dict[str, Any]) -> list[str]:
    """Return what a person wants to know of a daemon, on one screen."""
    if not status["running"]:
        gone = f"leaving (process {status.get('pid')})" if status.get("leaving") else "not running"
        return [f"daemon   {gone}; the next command that profits starts one", f"home     {short_path(status['home'])}"]
    stays = status["leaves_after_s"]
    when = f"leaves after {lasting(stays)} without a call" if stays else "stays until it is stopped"
    busy = ", ".join(f"{one['op']} for {lasting(one['seconds'])}" for one in status["at_work"]) or "nothing"
    fault, http = status["last_error"], status.get("http")
    since = f"{status['started_at'][:19].replace('T', ' ')} ({lasting(status['uptime_s'])})"
    linked = f"{plural(status['connections'], 'connection')}, {plural(status['streams'], 'agent')}"
    lines = [
        f"daemon   running, process {status['pid']}, lorelog {status['version']}",
        f"home     {short_path(status['home'])}",
        f"since    {since}, idle for {lasting(status['idle_s'])}, {when}",
        f"memory   {status['rss_bytes'] / 1e6:,.1f} MB, {plural(status.get('models_loaded', 0), 'model')} loaded",
        f"calls    {status['calls']:,}, {status['errors']:,} failed, {linked}",
        f"at work  {busy}" + (f", {status['waiting']:,} waiting" if status["waiting"] else ""),
        *_watch_lines(status.get("watch")),
        f"http     {http['url'] if http else 'off'}",
        f"log      {short_path(status['log'])}",
        "error    none"
        if fault is None
        else one_line(f"error    {fault['op']}: {fault['message']} ({lasting(fault['ago_s'])} ago)"),
    ]
    return [*lines, f"leaving  {status['leaving']}"] if status["leaving"] else lines


def lasting(seconds: float) -> str:
    """Return a duration as one would say it."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _watch_lines(watch: dict[str, Any] | None) -> list[str]:
    if watch is None:
        return ["watches  nothing"]
    roots = [short_path(root) + (" (not there)" if root in watch["missing"] else "") for root in watch["roots"]]
    more = [f"and {len(roots) - _MOST_ROOTS:,} more"] if len(roots) > _MOST_ROOTS else []
    how = "" if watch["mode"] == "events" else f", by looking now and then: {watch['why']}"
    lines = [f"watches  {plural(len(roots), 'root')}, changes followed {plural(watch['passes'], 'time')}{how}"]
    lines += [f"         {one}" for one in [*roots[:_MOST_ROOTS], *more]]
    if watch["last_error"]:
        at, said = watch["last_error"]["at"][:19].replace("T", " "), watch["last_error"]["message"]
        lines.append(one_line(f"         {at}: {said}" + (" (is tried again)" if watch["pending"] else "")))
    return lines


def _start(address: Address, *, as_json: bool) -> int:
    from lorelog.surfaces.daemon.control import start

    before = client.answers_at(address)
    start(address, insists=True)
    status = daemon_status(address)
    if as_json:
        print_json({**status, "started": not before})
    else:
        said = "Running already" if before else "Started"
        print(f"{said}: process {status.get('pid')}, for {short_path(address.home)}.")
    return 0


def _stop(address: Address, *, as_json: bool) -> int:
    from lorelog.surfaces.daemon.control import stop

    held = stop(address)
    if as_json:
        print_json({"stopped": held is not None, "pid": held.get("pid") if held else None})
    else:
        print("No daemon is running." if held is None else f"Stopped: process {held.get('pid')}.")
    return 0


def _status(address: Address, *, as_json: bool) -> int:
    status = daemon_status(address)
    if as_json:
        print_json(status)
    else:
        print("\n".join(status_lines(status)))
    return 0 if status["running"] else 1
