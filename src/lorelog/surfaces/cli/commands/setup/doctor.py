"""Commands about the state of the machine: doctor and daemon."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import DaemonError, LorelogError, UsageError
from lorelog.light.daemon_address import find_address
from lorelog.light.daemon_connection import is_listening
from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import known_width, one_line, plural, print_json, short_path, stylize, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.light.daemon_address import DaemonAddress

_RECENT_ERROR_S = 3600.0
"""Older errors of the daemon do not fail the check."""


def configure_doctor(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--daemon-only", dest="daemon", action="store_true", help="check only the daemon, in detail")
    parser.add_argument("--store", action="store_true", help="only compare the catalog with the search index")
    parser.add_argument("--repair", action="store_true", help="with --store: fix the differences")
    parser.add_argument(
        "--chaos", action="store_true", help="kill a writer in a temporary home, and check what is left"
    )
    parser.add_argument("--cycles", type=int, metavar="N", help="with --chaos: number of kills (10)")
    add_common(parser)


def run_doctor(args: argparse.Namespace) -> int:
    """Check index, daemon, agents' hosts and settings, and suggest fixes.

    Each line is one check: ok, warn or fail, with a hint what to do. A failed one makes the exit status 1. Besides the index the checks are
    free disk space, whether the home is writable and private, the end of the ledger, and lines that cannot be read. For the
    embedding model the checks are its key, package and files (no server is contacted) and whether a change of model was left unfinished; for configured language models,
    their key or program. --daemon-only checks only the daemon and shows its process, memory use, watched files and last error.
    Nothing is started or changed without --repair.

    --store checks the catalog and compares it with the search index row by row: the rows in Milvus if store.uri is set, else the
    vector files, by their checksums and with the vectors in the catalog. --repair fixes the differences without embedding anything again.

    --chaos tries the promises on this machine, in a temporary home: a process that writes is killed at random moments and its home is opened
    again, then the cache is deleted. Everything acknowledged must be found, once. It takes a second or two for each kill. Your own memories are
    not touched.

    examples:
      lorelog doctor
      lorelog doctor --store --repair
      lorelog doctor --daemon-only
      lorelog doctor --chaos --cycles 100
      lorelog doctor --json
    """
    if args.repair and not args.store:
        raise UsageError("--repair requires --store", hint="lorelog doctor --store --repair")
    if args.chaos:
        from lorelog.surfaces.cli.self_test import run_self_test

        return run_self_test(args)
    if args.cycles is not None:
        raise UsageError("--cycles requires --chaos", hint="lorelog doctor --chaos --cycles 100")
    if args.store:
        return _print_report(args, _check_store(args), None)
    checks = []
    if not args.daemon:
        checks = [*_check_settings(args), *_check_language_models(args), *_check_index(args), *_check_hosts(args)]
    status, daemon_checks = _check_daemon(find_address())
    return _print_report(args, [*checks, *daemon_checks], status)


def _print_report(args: argparse.Namespace, checks: list[dict[str, Any]], status: dict[str, Any] | None) -> int:
    ok = all(check["ok"] for check in checks)
    if args.json:
        print_json({"ok": ok, "checks": checks, "daemon": status})
        return 0 if ok else 1
    if args.daemon and status:
        print("\n".join(format_daemon_status(status)))
        checks = [check for check in checks if not check["ok"]]
    for check in checks:
        _show_check(check)
    return 0 if ok else 1


def _check_settings(args: argparse.Namespace) -> list[dict[str, Any]]:
    from lorelog.core.extras import require_extra
    from lorelog.wiring import check_embedder, resolve_location, settings_at

    try:
        location = resolve_location(project=args.project)
        settings = settings_at(location)
        changed = [setting for setting in settings if setting.origin != "default"]
        settings.embed_options(location.environment)
        settings.language_options(location.environment)
        settings.http_options(location.environment)
    except LorelogError as error:
        return [_failed("settings", error)]
    summary = (
        f"{plural(len(changed), 'setting')} changed ('lorelog config list'), home {short_path(str(location.home))}"
    )
    checks = [_make_check("settings", summary), *(_make_check("settings", warning) for warning in settings.warnings)]
    try:
        checks.append(_make_check("model", check_embedder(location, settings)))
    except LorelogError as error:
        checks.append(_failed("model", error))
    if settings.value("store.uri"):
        try:
            require_extra("milvus", "store.uri")
        except LorelogError as error:
            checks.append(_failed("store", error))
    return [*checks, *_check_extras()]


def _check_extras() -> list[dict[str, Any]]:
    """Say which commands of the shell need an extra that is not installed; that is not a fault."""
    from lorelog.core.extras import install_hint, missing_package

    features = {"code": "lorelog code", "signing": "signed records", "serve": "lorelog serve"}
    return [
        _make_check("extras", f"not installed: {feature} ({install_hint(extra)})")
        for extra, feature in features.items()
        if missing_package(extra)
    ]


def _check_language_models(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Check the key or program of each configured language model. Invalid settings are reported by `_check_settings`."""
    from lorelog.wiring import check_language_models, resolve_location, settings_at

    try:
        location = resolve_location(project=args.project)
        models = list(check_language_models(settings_at(location), location.home, location.environment))
    except LorelogError:
        return []
    return [
        _make_check("language model", f"{model} ({setting})")
        if error is None
        else _make_check("language model", f"{model} ({setting}): {error.message}", error.hint, ok=False)
        for setting, model, error in models
    ]


def _check_index(args: argparse.Namespace) -> list[dict[str, Any]]:
    try:
        health = call_operation(args, "memory.health", {})
    except LorelogError as error:
        return [_failed("index", error)]
    checks: list[dict[str, Any]] = list(health["checks"])
    if health["duplicates"]:
        files = " and ".join(map(short_path, health["duplicates"][0][:2]))
        message = f"{plural(len(health['duplicates']), 'text')} found in more than one file, such as {files}"
        checks.append(_make_check("duplicates", message))
    return checks


def _check_store(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare the search index with the catalog; with --repair also fix it."""
    try:
        reply = call_operation(args, "memory.check_store", {"repair": args.repair})
    except LorelogError as error:
        return [_failed("store", error)]
    place = reply["place"] or "beside the catalog"
    counts = [(reply["missing"], "missing"), (reply["surplus"], "surplus"), (reply["unlike"], "with another vector")]
    differences = ", ".join(f"{count:,} {kind}" for count, kind in counts if count)
    if reply["damage"]:
        differences = "; ".join(filter(None, [differences, f"damaged: {reply['damage']}"]))
    if not differences:
        return [_make_check("store", f"{plural(reply['here'], 'chunk')}, all of them {place}")]
    message = f"of {plural(reply['here'], 'chunk')} in the catalog, {differences} {place}"
    if reply["repaired"]:
        return [_make_check("store", f"repaired: {message}")]
    return [_make_check("store", message, "lorelog doctor --store --repair", ok=False)]


def _check_hosts(args: argparse.Namespace) -> list[dict[str, Any]]:
    from lorelog.surfaces.cli.commands.agents.hosts import host_checks

    return host_checks(args)


def _check_daemon(address: DaemonAddress) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the daemon's status, or None if it does not respond, and the checks of it."""
    from lorelog.core import VERSION
    from lorelog.light.daemon_control import last_failure

    try:
        status = daemon_status(address)
    except DaemonError as error:
        return None, [_make_check("daemon", error.message, error.hint or "lorelog daemon stop", ok=False)]
    if not status["running"]:
        failure = last_failure(address)
        if failure:
            hint = f"see {short_path(address.log)}; 'lorelog daemon start' tries again"
            return status, [_make_check("daemon", failure, hint, ok=False)]
        return status, [_make_check("daemon", "not running; starts automatically when needed")]
    summary = f"process {status['pid']}, up {format_duration(status['uptime_s'])}, {status['rss_bytes'] / 1e6:,.1f} MB"
    checks = [_make_check("daemon", summary)]
    if status["version"] != VERSION:
        message = f"the daemon is lorelog {status['version']}, this is {VERSION}"
        checks.append(
            _make_check("version", message, "lorelog daemon stop; the next command starts it again", ok=False)
        )
    failure = status["last_error"]
    if failure and failure["ago_s"] < _RECENT_ERROR_S:
        message = f"{failure['op']}: {failure['message']} ({format_duration(failure['ago_s'])} ago)"
        checks.append(_make_check("last error", message, f"see {short_path(status['log'])}", ok=False))
    watch = status.get("watch")
    if watch and watch["last_error"]:
        checks.append(_make_check("watch", watch["last_error"]["message"], watch["last_error"]["hint"], ok=False))
    return status, checks


def _make_check(name: str, message: str, hint: str = "", *, ok: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": ok, "message": message, "hint": hint}


def _failed(name: str, error: LorelogError) -> dict[str, Any]:
    return _make_check(name, error.message, error.hint, ok=False)


def _show_check(check: dict[str, Any]) -> None:
    mark = stylize("ok  ", "green") if check["ok"] else stylize("fail", "red")
    if check["ok"] and check["hint"]:
        mark = stylize("warn", "yellow")
    text = f"{check['name']}: {one_line(check['message'])}"
    print(f"{mark}  {_hang(text, 6)}")
    if check["hint"]:
        print(f"      hint: {_hang(one_line(check['hint']), 12)}")


def _hang(text: str, indent: int) -> str:
    """Return a text that is wrapped at the terminal's width, with the lines after the first indented."""
    width = known_width()
    return wrap(text, " " * indent, width=width).lstrip() if width else text


_MAX_ROOTS = 8


def configure_daemon(parser: argparse.ArgumentParser) -> None:
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


def run_daemon(args: argparse.Namespace) -> int:
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
    verb = {"start": _start, "stop": _stop, "restart": _restart, "status": _status}[args.verb]
    return verb(find_address(), as_json=args.json)


def daemon_status(address: DaemonAddress) -> dict[str, Any]:
    """Return the daemon's status, or that none is running. Raise DaemonError if one runs but does not respond."""
    from lorelog.light.daemon_control import read_status

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
    from lorelog.light.daemon_control import mark_announced, start

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
    from lorelog.light.daemon_control import stop

    holder = stop(address)
    if as_json:
        print_json({"stopped": holder is not None, "pid": holder.get("pid") if holder else None})
    else:
        print("No daemon is running." if holder is None else f"Stopped: process {holder.get('pid')}.")
    return 0


def _restart(address: DaemonAddress, *, as_json: bool) -> int:
    from lorelog.light.daemon_control import start, stop

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
