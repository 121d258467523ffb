"""Show, start, stop or restart the daemon.

The daemon is one background process per home that keeps models and indexes in memory, so that commands respond quickly. It
starts automatically when needed and stops after 30 minutes without a request (daemon.idle_s); you rarely need this command.
'status' exits with status 1 if no daemon is running.

examples:
  lorelog daemon status        process, memory use, watched files, last error
  lorelog daemon start
  lorelog daemon stop          stop within five seconds; finished work is kept
  lorelog daemon restart       replace a daemon that does not answer
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorelog.surfaces.cli.arguments import add_verb
from lorelog.surfaces.cli.render import one_line, plural, print_json, short_path
from lorelog.surfaces.daemon_client.address import find_address
from lorelog.surfaces.daemon_client.connection import is_listening

if TYPE_CHECKING:
    import argparse

    from lorelog.surfaces.daemon_client.address import DaemonAddress

_MAX_ROOTS = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, help_text in (
        ("status", "show the running daemon"),
        ("start", "start the daemon unless it is running"),
        ("stop", "stop the daemon, by force if it does not answer"),
        ("restart", "stop the daemon and start another"),
    ):
        verb = add_verb(parser, verbs, name, help_text)
        verb.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    verb = {"start": _start, "stop": _stop, "restart": _restart, "status": _status}[args.verb]
    return verb(find_address(), as_json=args.json)


def daemon_status(address: DaemonAddress) -> dict[str, Any]:
    """Return the daemon's status, or that none is running. Raise DaemonError if one runs but does not respond."""
    from lorelog.surfaces.daemon_client.control import read_status

    return read_status(address)


def format_daemon_status(status: dict[str, Any]) -> list[str]:
    """Return the lines of `lorelog daemon status`."""
    if not status["running"]:
        state = f"stopping (process {status.get('pid')})" if status.get("leaving") else "not running"
        return [f"daemon   {state}; starts automatically when needed", f"home     {short_path(status['home'])}"]
    idle_limit_s = status["leaves_after_s"]
    lifetime = f"stops after {format_duration(idle_limit_s)} idle" if idle_limit_s else "runs until stopped"
    running = ", ".join(f"{job['op']} for {format_duration(job['seconds'])}" for job in status["at_work"]) or "nothing"
    error, http = status["last_error"], status.get("http")
    since = f"{status['started_at'][:19].replace('T', ' ')} ({format_duration(status['uptime_s'])})"
    clients = f"{plural(status['connections'], 'connection')}, {plural(status['streams'], 'agent')}"
    lines = [
        f"daemon   running, process {status['pid']}, lorelog {status['version']}",
        f"home     {short_path(status['home'])}",
        f"since    {since}, idle for {format_duration(status['idle_s'])}, {lifetime}",
        f"memory   {status['rss_bytes'] / 1e6:,.1f} MB, {plural(status.get('models_loaded', 0), 'model')} loaded",
        f"calls    {status['calls']:,}, {status['errors']:,} failed, {clients}",
        f"at work  {running}" + (f", {status['waiting']:,} waiting" if status["waiting"] else ""),
        *_format_watch(status.get("watch")),
        f"http     {http['url'] if http else 'off'}",
        f"log      {short_path(status['log'])}",
        "error    none"
        if error is None
        else one_line(f"error    {error['op']}: {error['message']} ({format_duration(error['ago_s'])} ago)"),
    ]
    return [*lines, f"stopping {status['leaving']}"] if status["leaving"] else lines


def format_duration(seconds: float) -> str:
    """Return a duration in its largest useful unit, such as `3 min`."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _format_watch(watch: dict[str, Any] | None) -> list[str]:
    if watch is None:
        return ["watches  nothing"]
    roots = [short_path(root) + (" (missing)" if root in watch["missing"] else "") for root in watch["roots"]]
    more = [f"and {len(roots) - _MAX_ROOTS:,} more"] if len(roots) > _MAX_ROOTS else []
    polling = "" if watch["mode"] == "events" else f", polling every 30 s: {watch['why']}"
    lines = [f"watches  {plural(len(roots), 'root')}, changes indexed {plural(watch['passes'], 'time')}{polling}"]
    lines += [f"         {root}" for root in [*roots[:_MAX_ROOTS], *more]]
    if watch["waiting_for"]:
        lines.append(one_line(f"         waiting for another index run: {watch['waiting_for']}"))
    if watch["last_error"]:
        at, message = watch["last_error"]["at"][:19].replace("T", " "), watch["last_error"]["message"]
        lines.append(one_line(f"         {at}: {message}" + (" (will retry)" if watch["pending"] else "")))
    return lines


def _start(address: DaemonAddress, *, as_json: bool) -> int:
    from lorelog.surfaces.daemon_client.control import mark_announced, start

    was_running = is_listening(address)
    start(address, force=True)
    mark_announced(address)
    status = daemon_status(address)
    if as_json:
        print_json({**status, "started": not was_running})
    else:
        outcome = "Already running" if was_running else "Started"
        print(f"{outcome}: process {status.get('pid')}, home {short_path(address.home)}.")
    return 0


def _stop(address: DaemonAddress, *, as_json: bool) -> int:
    from lorelog.surfaces.daemon_client.control import stop

    holder = stop(address)
    if as_json:
        print_json({"stopped": holder is not None, "pid": holder.get("pid") if holder else None})
    else:
        print("No daemon is running." if holder is None else f"Stopped: process {holder.get('pid')}.")
    return 0


def _restart(address: DaemonAddress, *, as_json: bool) -> int:
    from lorelog.surfaces.daemon_client.control import start, stop

    holder = stop(address)
    start(address, force=True)
    status = daemon_status(address)
    if as_json:
        print_json({**status, "started": True, "stopped": holder is not None})
    else:
        before = f" instead of {holder.get('pid')}" if holder else ""
        print(f"Started: process {status.get('pid')}{before}, home {short_path(address.home)}.")
    return 0


def _status(address: DaemonAddress, *, as_json: bool) -> int:
    status = daemon_status(address)
    if as_json:
        print_json(status)
    else:
        print("\n".join(format_daemon_status(status)))
    return 0 if status["running"] else 1
