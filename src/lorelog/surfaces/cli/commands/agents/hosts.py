"""Install lorelog into coding agents, check the installation, or remove it.

Hosts are the programs that run agents: claude (Claude Code), codex, opencode, openclaw, gemini (Gemini CLI),
qwen (Qwen Code) and copilot (GitHub Copilot CLI). For cursor, antigravity, vscode, cline, windsurf, zed and kiro, lorelog
writes what their documentation asks for: the MCP server and instructions. These were not run, and their sessions are
not captured.

'install' without a name finds the hosts on this machine, lists them and asks once. It adds lorelog's own files and entries
and changes nothing else: it shows changed files as a diff and keeps a copy of each, and 'uninstall' restores them. If a
host wants you to approve something, the command says so.

examples:
  lorelog hosts install                     find the agents on this machine and install into them
  lorelog hosts install claude --dry-run    show what would change
  lorelog hosts status                      check the installation
  lorelog hosts uninstall openclaw
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from lorelog.core.errors import ConfigError, LorelogError, NotFound, UsageError
from lorelog.hosts import HOSTS
from lorelog.hosts.documented import ALL_TITLES, BY_THE_BOOK, DOCUMENTED_HOSTS
from lorelog.surfaces.cli.arguments import add_common, add_daemon_option, parse_any_host
from lorelog.surfaces.cli.client import OperationClient, call_operation
from lorelog.surfaces.cli.render import (
    one_line,
    plural,
    print_json,
    print_note,
    print_problem,
    printable,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.services.install.plan import InstallChange, InstallContext
    from lorelog.services.install.status import HostCaptureStats, HostStatus
    from lorelog.services.sessions.drain import Drainer, DrainReport

_FLUSH_HELP = """\
Capture the spooled events of hooks now, without waiting for the daemon.

Hooks run this themselves if the daemon is turned off (daemon.warm = off). Incomplete transcripts are waited for; events
that fail stay in the spool and are tried again the next time.

examples:
  lorelog hosts flush
  lorelog hosts flush --wait 0       do not wait for incomplete transcripts
"""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_STATE_COLOURS = {"current": "green", "native": "green", "stale": "yellow", "missing": "dim"}
_FLUSH_WAIT_S = 70.0
"""A transcript that is not complete after a minute never will be."""
_BUSY_WAIT_S = 10.0
_POLL_S = 0.1


def configure_flush(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--wait",
        type=float,
        default=_FLUSH_WAIT_S,
        metavar="SECONDS",
        help="how long to wait for incomplete transcripts (default: %(default).0f)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")
    add_daemon_option(parser)


def run_flush(args: argparse.Namespace) -> int:
    """Capture the spooled events; fail if one could not be captured."""
    from lorelog.light.daemon_address import find_address
    from lorelog.services.sessions.drain import Drainer, capture_arguments, event_directory

    home = find_address(None, None).home
    client = OperationClient(args.warm, shared=True)

    def capture(event: dict[str, Any]) -> dict[str, Any]:
        return client.call(
            "session.capture",
            capture_arguments(event),
            directory=event_directory(event, home),
            environment=event.get("environment"),
        )

    try:
        drained = _drain_spool(Drainer(home, capture), args.wait)
    finally:
        client.close()
    _show_flush(drained, as_json=args.json)
    return 1 if drained.failed or drained.parked else 0


def _drain_spool(drainer: Drainer, wait_s: float) -> DrainReport:
    """Drain until no event is left that may still succeed, including events that hooks add meanwhile."""
    started = time.monotonic()
    drained = last = drainer.drain()
    while last.pause_s is not None or last.events or last.parked:
        if last.pause_s is not None:
            left = started + (_BUSY_WAIT_S if last.busy else wait_s) - time.monotonic()
            if left <= 0 or not (last.waiting or last.busy):
                break
            time.sleep(max(0.0, min(left, max(_POLL_S, min(last.pause_s, 1.0)))))
        last = drainer.drain()
        drained += last
    return drained


def _show_flush(drained: DrainReport, *, as_json: bool) -> None:
    if as_json:
        fields = to_builtins(drained)
        del fields["pause_s"]
        print_json(fields)
        return
    for text in drained.notes:
        print_note(text)
    if drained.busy:
        print("Another process is already capturing the spooled events.")
        return
    print(f"Captured {plural(drained.captured, 'turn')} of {plural(drained.events, 'event')}.")
    if drained.waiting:
        print_note(f"{plural(drained.waiting, 'event')} left in the spool: the transcript is incomplete")
    if drained.failed:
        print_note(f"{plural(drained.failed, 'event')} left in the spool; the next run tries again")
    if drained.parked:
        print_note(f"{plural(drained.parked, 'event')} moved to spool/failed")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    install = verbs.add_parser("install", help="install into the agents found here, or into HOST", allow_abbrev=False)
    install.add_argument(
        "hosts",
        nargs="*",
        metavar="HOST",
        help="claude, codex, cursor … (default: all found; lorelog docs hosts has the list)",
    )
    install.add_argument("--yes", action="store_true", help="do not ask before installing into all found hosts")
    install.add_argument(
        "--approve",
        action="store_true",
        help="openclaw: also allow the plugin to read conversations, which capture requires",
    )
    status = verbs.add_parser("status", help="show installed hosts and whether capture works", allow_abbrev=False)
    status.add_argument("host", nargs="?", metavar="HOST", help="only this host")
    status.add_argument("--versions", action="store_true", help="run each host to show its version")
    add_common(status)
    uninstall = verbs.add_parser(
        "uninstall", help="remove lorelog from a host and restore its files", allow_abbrev=False
    )
    uninstall.add_argument("host", metavar="HOST", help="claude, codex, cursor … (lorelog docs hosts)")
    for verb in (install, uninstall):
        verb.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        verb.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")
    flush = verbs.add_parser(
        "flush",
        help="capture the spooled events of hooks now",
        description=_FLUSH_HELP.strip(),
        formatter_class=parser.formatter_class,
        allow_abbrev=False,
    )
    configure_flush(flush)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if args.verb == "flush":
        return run_flush(args)
    if args.verb == "status":
        return _status(args)
    if args.verb == "install":
        return _install(args)
    change = _change_host(parse_any_host(args.host), args)
    _show_changes([change], args)
    return 0


def host_checks(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the check of the installed hosts for `lorelog doctor`."""
    statuses = [status for status in _host_statuses(args, tuple(ALL_TITLES), {}) if status.installed != "missing"]
    if not statuses:
        message = "not installed into any agent, so no session is captured"
        return [{"name": "hosts", "ok": True, "message": message, "hint": "lorelog hosts install"}]
    problems = [f"{status.title}: {text}" for status in statuses for text in (*status.approve, *status.warnings)]
    message = "; ".join(problems) or f"installed into {', '.join(status.title for status in statuses)}"
    stale = [status.host for status in statuses if status.installed == "stale"]
    hint = f"lorelog hosts install {' '.join(stale)}" if stale else "lorelog hosts status" if problems else ""
    return [{"name": "hosts", "ok": not problems, "message": message, "hint": hint}]


class _HostChange(Struct, frozen=True):
    """What was changed in one host, or would be."""

    host: str
    files: list[InstallChange]
    approvals: list[str]
    backups: str


def _install(args: argparse.Namespace) -> int:
    """Install into the named hosts, or into all that are found. With several, a failure does not stop the others."""
    from lorelog.services.install.status import is_host_available

    context = install_context(approve=args.approve)
    named = tuple(dict.fromkeys(map(parse_any_host, args.hosts)))
    hosts = named or tuple(host for host in ALL_TITLES if is_host_available(host, context))
    if not named and not _confirm_found(hosts, args):
        print("Nothing was changed.")
        return 1
    if not args.json:
        for host in hosts:
            if not is_host_available(host, context):
                print_note(f"{ALL_TITLES[host]} was not found on this machine; it loads lorelog once it is installed")
    changes, problems = [], []
    for host in hosts:
        try:
            changes.append(_change_host(host, args))
        except LorelogError as error:
            if len(hosts) == 1:
                raise
            problems.append(error)
            print_problem(ALL_TITLES[host], error.message, error.hint)
    _show_changes(changes, args, several=len(args.hosts) != 1)
    if changes and not args.dry_run and not args.json:
        _print_next_steps(changes, context)
    return 1 if problems else 0


def _confirm_found(hosts: tuple[str, ...], args: argparse.Namespace) -> bool:
    """List the hosts that were found and ask once. Raise NotFound if there are none, UsageError if nobody can answer."""
    if not hosts:
        raise NotFound(
            "no coding agent was found on this machine",
            hint=f"looked for {', '.join(ALL_TITLES)}; name one to install anyway, as in: lorelog hosts install claude",
        )
    titles = ", ".join(ALL_TITLES[host] for host in hosts if host in HOSTS)
    documented = ", ".join(ALL_TITLES[host] for host in hosts if host in DOCUMENTED_HOSTS)
    titles = "; ".join(filter(None, (titles, f"{BY_THE_BOOK}: {documented}" if documented else "")))
    if args.yes or args.dry_run:
        if not args.json:
            print(f"Found: {titles}.")
        return True
    if args.json or sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"found {titles}; cannot ask for confirmation: standard input is not a terminal",
            hint=f"lorelog hosts install --yes, or name them: lorelog hosts install {' '.join(hosts)}",
        )
    print(f"Found: {titles}.")
    which = "all of them" if len(hosts) > 1 else "it"
    print(f"Install lorelog into {which}? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"", "y", "yes"}


def _change_host(host: str, args: argparse.Namespace) -> _HostChange:
    """Install into one host or uninstall from it, unless --dry-run is given."""
    from lorelog.services.install import plan
    from lorelog.services.install.manifests import build_manifest
    from lorelog.services.install.status import native_install, pending_approvals

    context = install_context(approve=getattr(args, "approve", False))
    installing = args.verb == "install"
    native = native_install(host, context)
    if installing and native:
        raise ConfigError(
            f"lorelog is already installed in {ALL_TITLES[host]} by its own installer ({native})",
            hint="to install from here, uninstall it there first",
        )
    if native and not plan.read_receipt(context.home, host).files:
        raise ConfigError(
            f"lorelog was installed in {ALL_TITLES[host]} by its own installer ({native})", hint="uninstall it there"
        )
    manifest = build_manifest(host, context)
    changes = (plan.plan_install if installing else plan.plan_uninstall)(host, manifest, context)
    if not args.dry_run:
        (plan.apply_install if installing else plan.apply_uninstall)(host, changes, context)
    folder = plan.backup_folder(context.home, host)
    backups = str(folder) if folder.is_dir() and not args.dry_run else ""
    approvals = pending_approvals(host, context) if installing and not args.dry_run else []
    return _HostChange(host, plan.effective_changes(changes), approvals, backups)


def _show_changes(changes: list[_HostChange], args: argparse.Namespace, *, several: bool = False) -> None:
    """Print what changed: after applying it, so that a failed change is not shown as made."""
    if args.json:
        replies = [_change_json(change, dry_run=args.dry_run) for change in changes]
        print_json({"hosts": replies} if several else replies[0])
        return
    for change in changes:
        for file in change.files:
            _show_change(file, full=args.dry_run)
        _print_summary(change, args)
        for approval in change.approvals:
            print(f"{stylize('still to do:', 'yellow')} {one_line(approval)}")
        if args.verb == "install" and change.host in DOCUMENTED_HOSTS:
            documented = DOCUMENTED_HOSTS[change.host]
            print_note(f"{documented.title} is {BY_THE_BOOK} with the program ({documented.source})")
            print_note(f"sessions of {documented.title} are not captured; its agent can search and add memories")


def _change_json(change: _HostChange, *, dry_run: bool) -> dict[str, Any]:
    from lorelog.services.install.plan import format_diff

    files = [{"path": str(file.path), "change": _change_kind(file), "diff": format_diff(file)} for file in change.files]
    return {
        "host": change.host,
        "dry_run": dry_run,
        "files": files,
        "approve": change.approvals,
        "backups": change.backups,
        "untested": change.host in DOCUMENTED_HOSTS,
    }


def _print_summary(change: _HostChange, args: argparse.Namespace) -> None:
    title, count = ALL_TITLES[change.host], plural(len(change.files), "file")
    backup = f" Backups are in {short_path(change.backups)}." if change.backups else ""
    if not change.files:
        print(f"{title}: {'already installed' if args.verb == 'install' else 'lorelog is not installed'}.")
    elif args.dry_run:
        print(f"{title}: {count} would change. Nothing was written.")
    elif args.verb == "install":
        print(f"{title}: installed, {count}.{backup}")
    else:
        print(f"{title}: uninstalled, {count}.{backup}")
        print("Your memories are kept.")


def _print_next_steps(changes: list[_HostChange], context: InstallContext) -> None:
    """Print how to get memories of earlier sessions, and how to see the first new one."""
    from lorelog.services.install.status import count_sessions

    sessions = sum(count_sessions(change.host, context) for change in changes)
    if sessions:
        print(f"{plural(sessions, 'earlier session')} found: 'lorelog backfill' makes memories of this project's,")
        print("  'lorelog backfill --all-projects' of all.")
    if any(change.host in HOSTS for change in changes):
        print("The first new memory appears when an agent has finished a turn: lorelog list.")
    if any(change.files for change in changes):
        print("Restart open sessions to pick this up.")


def _status(args: argparse.Namespace) -> int:
    hosts = (parse_any_host(args.host),) if args.host else tuple(ALL_TITLES)
    spool: dict[str, Any] = {}
    statuses = _host_statuses(args, hosts, spool)
    if not args.host:  # a documented host that is not here is not worth a line
        statuses = [
            status for status in statuses if not status.untested or status.found or status.installed != "missing"
        ]
    if args.json:
        print_json({"hosts": [_status_json(status) for status in statuses], **spool})
        return 0
    _print_status_table(statuses)
    if not args.host and all(status.installed == "missing" for status in statuses):
        print_note("lorelog is not installed in any of them: lorelog hosts install")
    if documented := [status.title for status in statuses if status.untested]:
        print_note(f"{BY_THE_BOOK}: {', '.join(documented)}; their sessions are not captured")
    for status in statuses:
        for text in status.approve:
            print(f"{stylize('still to do:', 'yellow')} {status.title}: {one_line(text)}")
        for text in status.warnings:
            print(f"{stylize('warning:', 'red')} {status.title}: {one_line(text)}")
    if spool.get("waiting"):
        print_note(f"{plural(spool['waiting'], 'event')} in the spool; 'lorelog hosts flush' captures now")
    if spool.get("failed"):
        print_note(
            f"{plural(spool['failed'], 'event')} could not be captured in the last 7 days; see spool/failed/*.why"
        )
    return 0


def _print_status_table(statuses: list[HostStatus]) -> None:
    rows = [("host", "found", "installed", "last capture", "today", "last used")]
    for status in statuses:
        name = f"{status.title} {status.version}".strip()
        times = (_format_age(status.last_capture), str(status.today), _format_age(status.newest_session))
        if status.untested:
            times = ("-", "-", "-")
        rows.append((name, "yes" if status.found else "no", status.installed, *times))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if number:
            cells[2] = stylize(cells[2], _STATE_COLOURS[row[2]])
        line = "  ".join(cells).rstrip()
        print(line if number else stylize(line, "dim"))


def _host_statuses(args: argparse.Namespace, hosts: tuple[str, ...], spool: dict[str, Any]) -> list[HostStatus]:
    """Return the status of each host, and add the counts of the spool to `spool`."""
    from lorelog.services.install.status import HostCaptureStats, host_status

    stats: dict[str, HostCaptureStats] = {}
    spool.update({"waiting": 0, "oldest_s": 0.0, "failed": 0})
    try:
        reply = call_operation(args, "session.status", {})
    except LorelogError as error:
        print_note(f"cannot read the capture statistics: {error.message}")
    else:
        spool.update({name: reply[name] for name in ("waiting", "oldest_s", "failed")})
        stats = {fields["host"]: _capture_stats(fields) for fields in reply["hosts"]}
    context = install_context()
    versions = getattr(args, "versions", False)
    return [host_status(host, context, stats.get(host, HostCaptureStats()), versions=versions) for host in hosts]


def _status_json(status: HostStatus) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(status)
    for name in ("last_event", "last_capture", "newest_session"):
        fields[name] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(fields[name])) if fields[name] else ""
    return fields


def _capture_stats(fields: dict[str, Any]) -> HostCaptureStats:
    from datetime import datetime

    from lorelog.services.install.status import HostCaptureStats

    event, capture = (
        datetime.fromisoformat(fields[name]).timestamp() if fields[name] else 0.0
        for name in ("last_event", "last_capture")
    )
    return HostCaptureStats(event, capture, fields["today"])


def install_context(*, approve: bool = False) -> InstallContext:
    """Return what an installation from this process depends on."""
    from lorelog.light.daemon_address import find_address
    from lorelog.services.install.manifests import resolve_command
    from lorelog.services.install.plan import InstallContext

    environment = dict(os.environ)
    return InstallContext(Path.home(), Path(find_address().home), resolve_command(environment), environment, approve)


def _show_change(change: InstallChange, *, full: bool) -> None:
    """Print a diff. Created and removed files are only named, unless `full`."""
    from lorelog.services.install.plan import format_diff

    if not full and _change_kind(change) != "changed":
        print(f"{_change_kind(change)} {short_path(str(change.path))}")
        return
    for line in format_diff(change).splitlines():
        style = "bold" if line[:3] in {"---", "+++"} else _COLOURS.get(line[:1], "")
        print(stylize(printable(line), style) if style else printable(line))


def _change_kind(change: InstallChange) -> str:
    return "removed" if change.after is None else "created" if change.before is None else "changed"


def _format_age(moment: float) -> str:
    if not moment:
        return "never"
    age_s = max(0.0, time.time() - moment)
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= seconds:
            return f"{age_s // seconds:,.0f} {unit} ago"
    return "just now"
