"""Look over index, daemon, agents' hosts and settings, and say what to do.

Each line is one thing that was looked at; what is wrong comes with what to do about it, and with exit status 1. Of the embedding
model it is said whether its key, package and files are there (no server is asked), and whether a change to another was left
unfinished; of language models that were chosen, whether their key or program is there. --daemon looks at the daemon alone: what is
running, since when, how much memory, what it watches, its last error. Nothing is started or changed without --repair.

--store compares the catalog with what finds its chunks, row by row: the rows in Milvus where store.uri is set. --repair
mends what differs from the catalog, and embeds nothing again.

examples:
  lorelog doctor
  lorelog doctor --store --repair
  lorelog doctor --daemon
  lorelog doctor --json
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError, LorelogError, UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import one_line, plural, print_json, short_path, styled
from lorelog.surfaces.cli.warm import daemon_status, lasting, status_lines
from lorelog.surfaces.daemon.address import find_address

if TYPE_CHECKING:
    import argparse

    from lorelog.surfaces.daemon.address import Address

_FRESH_S = 3600.0
"""An error of the daemon counts for so long."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--daemon", action="store_true", help="look at the daemon only, in detail")
    parser.add_argument(
        "--store", action="store_true", help="compare the catalog with what finds its chunks, only that"
    )
    parser.add_argument("--repair", action="store_true", help="with --store: mend what differs")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Look, and say what was found."""
    if args.repair and not args.store:
        raise UsageError("--repair goes with --store", hint="lorelog doctor --store --repair")
    address = find_address()
    if args.store:
        return _report(args, _store(args), None)
    checks = [] if args.daemon else [*_settings(args), *_language(args), *_index(args), *_hosts(args)]
    status, daemon_checks = _daemon(address)
    checks += daemon_checks
    return _report(args, checks, status)


def _report(args: argparse.Namespace, checks: list[dict[str, Any]], status: dict[str, Any] | None) -> int:
    well = all(check["ok"] for check in checks)
    if args.json:
        print_json({"ok": well, "checks": checks, "daemon": status})
        return 0 if well else 1
    if args.daemon and status:
        print("\n".join(status_lines(status)))
        checks = [check for check in checks if not check["ok"]]
    for check in checks:
        _show(check)
    return 0 if well else 1


def _settings(args: argparse.Namespace) -> list[dict[str, Any]]:
    from lorelog.wiring import check_embedder, settings_at, standpoint

    try:
        here = standpoint(project=args.project)
        settings = settings_at(here)
        chosen = [one for one in settings if one.origin != "default"]
        settings.embedding(here.environment)
        settings.language(here.environment)
        settings.serving(here.environment)
    except LorelogError as error:
        return [_check("settings", error.message, error.hint, ok=False)]
    said = f"{plural(len(chosen), 'setting')} chosen ('lorelog config list'), home {short_path(str(here.home))}"
    checks = [_check("settings", said), *(_check("settings", warning) for warning in settings.warnings)]
    try:
        checks.append(_check("model", check_embedder(here, settings)))
    except LorelogError as error:
        checks.append(_check("model", error.message, error.hint, ok=False))
    return checks


def _language(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return whether those who write have their key or program, where some are chosen; settings that cannot be read were told."""
    from lorelog.wiring import settings_at, standpoint
    from lorelog.wiring_language import check_language

    try:
        here = standpoint(project=args.project)
        found = list(check_language(settings_at(here), here.home, here.environment))
    except LorelogError:
        return []
    return [
        _check("language model", f"{who} ({setting})")
        if fault is None
        else _check("language model", f"{who} ({setting}): {fault.message}", fault.hint, ok=False)
        for setting, who, fault in found
    ]


def _index(args: argparse.Namespace) -> list[dict[str, Any]]:
    try:
        health = ask(args, "memory.health", {})
    except LorelogError as error:
        return [_check("index", error.message, error.hint, ok=False)]
    checks: list[dict[str, Any]] = list(health["checks"])
    if health["duplicates"]:
        twice = f"{plural(len(health['duplicates']), 'text')} stand in more than one place, such as "
        checks.append(_check("duplicates", twice + " and ".join(map(short_path, health["duplicates"][0][:2]))))
    return checks


def _store(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return how what finds chunks differs from the catalog, or did before it was mended."""
    try:
        found = ask(args, "memory.check_store", {"repair": args.repair})
    except LorelogError as error:
        return [_check("store", error.message, error.hint, ok=False)]
    where = found["place"] or "beside the catalog"
    counted = [(found["missing"], "missing"), (found["surplus"], "too many"), (found["unlike"], "with another vector")]
    wrong = ", ".join(f"{count:,} {word}" for count, word in counted if count)
    if not wrong:
        return [_check("store", f"{plural(found['here'], 'chunk')}, all of them {where}")]
    told = f"of {plural(found['here'], 'chunk')} here, {wrong} {where}"
    if found["repaired"]:
        return [_check("store", f"mended: {told}")]
    return [_check("store", told, "lorelog doctor --store --repair", ok=False)]


def _hosts(args: argparse.Namespace) -> list[dict[str, Any]]:
    from lorelog.surfaces.cli.hosts import host_checks

    return host_checks(args)


def _daemon(address: Address) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return what the daemon says of itself, and what is to be said about it."""
    from lorelog.core.version import VERSION
    from lorelog.surfaces.daemon.control import last_failure

    try:
        status = daemon_status(address)
    except DaemonError as error:
        return None, [_check("daemon", error.message, error.hint or "lorelog warm stop", ok=False)]
    if not status["running"]:
        failure = last_failure(address)
        if failure:
            return status, [_check("daemon", failure, f"see {short_path(address.log)}; lorelog warm start", ok=False)]
        return status, [_check("daemon", "not running; the next command that profits starts one")]
    said = f"process {status['pid']}, up {lasting(status['uptime_s'])}, {status['rss_bytes'] / 1e6:,.1f} MB"
    checks = [_check("daemon", said)]
    if status["version"] != VERSION:
        other = f"the daemon is lorelog {status['version']}, this is {VERSION}"
        checks.append(_check("version", other, "lorelog warm stop; the next command starts the right one", ok=False))
    fault = status["last_error"]
    if fault and fault["ago_s"] < _FRESH_S:
        told = f"{fault['op']}: {fault['message']} ({lasting(fault['ago_s'])} ago)"
        checks.append(_check("last error", told, f"see {short_path(status['log'])}", ok=False))
    watch = status.get("watch")
    if watch and watch["last_error"] and watch["pending"]:
        # What was tried again and went well is told by status, and is nobody's trouble any more.
        checks.append(_check("watch", watch["last_error"]["message"], watch["last_error"]["hint"], ok=False))
    return status, checks


def _check(name: str, message: str, hint: str = "", *, ok: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": ok, "message": message, "hint": hint}


def _show(check: dict[str, Any]) -> None:
    mark = styled("ok   ", "green") if check["ok"] else styled("wrong", "red")
    print(f"{mark}  {check['name']}: {one_line(check['message'])}")
    if check["hint"] and not check["ok"]:
        print(f"       hint: {one_line(check['hint'])}")
