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

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError, LorelogError, UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.daemon import daemon_status, format_daemon_status, format_duration
from lorelog.surfaces.cli.render import known_width, one_line, plural, print_json, short_path, stylize, wrap
from lorelog.surfaces.daemon_client.address import find_address

if TYPE_CHECKING:
    import argparse

    from lorelog.surfaces.daemon_client.address import DaemonAddress

_RECENT_ERROR_S = 3600.0
"""Older errors of the daemon do not fail the check."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--daemon-only", dest="daemon", action="store_true", help="check only the daemon, in detail")
    parser.add_argument("--store", action="store_true", help="only compare the catalog with the search index")
    parser.add_argument("--repair", action="store_true", help="with --store: fix the differences")
    parser.add_argument(
        "--chaos", action="store_true", help="kill a writer in a temporary home, and check what is left"
    )
    parser.add_argument("--cycles", type=int, metavar="N", help="with --chaos: number of kills (10)")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Run the checks and print them."""
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
    from lorelog.surfaces.cli.hosts import host_checks

    return host_checks(args)


def _check_daemon(address: DaemonAddress) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the daemon's status, or None if it does not respond, and the checks of it."""
    from lorelog.core.version import VERSION
    from lorelog.surfaces.daemon_client.control import last_failure

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
