"""Install lorelog into agents' hosts, show its status there, or uninstall it.

Hosts: claude (Claude Code), codex, opencode, openclaw. Only lorelog's own files and entries are changed. Each change is shown
as a diff, changed files are backed up, and 'uninstall' restores them. Approvals that a host requires are listed.

examples:
  lorelog hosts install claude --dry-run    show what would change
  lorelog hosts install codex
  lorelog hosts status                      check the installation
  lorelog hosts backfill claude --since 2w  capture earlier sessions
  lorelog hosts uninstall openclaw
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import ConfigError, LorelogError
from lorelog.hosts import HOST_TITLES, HOSTS
from lorelog.surfaces.cli.arguments import add_common, add_host, parse_host
from lorelog.surfaces.cli.client import OperationClient, add_daemon_option, call_operation
from lorelog.surfaces.cli.render import (
    one_line,
    plural,
    print_json,
    print_note,
    print_problem,
    printable,
    progress_bar,
    short_path,
    stylize,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorelog.services.install.plan import InstallChange, InstallContext
    from lorelog.services.install.status import HostCaptureStats, HostStatus
    from lorelog.services.sessions.drain import Drainer, DrainReport
    from lorelog.services.sessions.host_sessions import HostSession


_BACKFILL_HELP = """\
Capture sessions from before lorelog was installed, or that its hooks missed.

Reads the conversations that a host keeps, and writes turns that are in no journal yet to the journal of their day. Running
it again writes nothing twice. Only sessions of the current project are captured, unless --all-projects is given.

With --upgrade, notes that an older version wrote are replaced by the notes of this version. Notes that somebody edited, or
that a model worded, are kept. A replaced note stays in the journal; searches show the new one.

examples:
  lorelog hosts backfill claude --dry-run
  lorelog hosts backfill codex --since 2w
  lorelog hosts backfill opencode --all-projects
  lorelog hosts backfill claude --upgrade
"""
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


@dataclass(slots=True)
class _BackfillReport:
    host: str
    dry_run: bool
    sessions: int = 0
    turns: int = 0
    skipped: int = 0
    gone: int = 0
    statements: int = 0
    upgraded: int = 0
    projects: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    memories: set[str] = field(default_factory=set)


def configure_backfill(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_host(parser)
    parser.add_argument("--since", metavar="DAY", help="only turns on or after DAY: 2026-03-05, yesterday, 7d, 2w, 3m")
    parser.add_argument(
        "--all-projects", action="store_true", help="capture the sessions of every project, each to its own journals"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be captured, and write nothing")
    parser.add_argument(
        "--upgrade", action="store_true", help="replace notes of an older version, unless somebody edited them"
    )
    add_common(parser)


def run_backfill(args: argparse.Namespace) -> int:
    """Capture the host's sessions; fail if one could not be captured."""
    from lorelog.operations.arguments import parse_past_day

    host = parse_host(args.host)
    since = parse_past_day(args.since) if args.since else ""
    report = _BackfillReport(host, args.dry_run)
    client = OperationClient(args.warm, shared=True)
    try:
        with progress_bar() as progress:
            sessions = list(_select_sessions(host, args, since, report))
            for number, session in enumerate(sessions, 1):
                _capture_session(session, since, args, client, report)
                progress("sessions", number, len(sessions))
    finally:
        client.close()
    _show_backfill(report, as_json=args.json)
    return 1 if report.problems else 0


def _select_sessions(host: str, args: argparse.Namespace, since: str, report: _BackfillReport) -> Iterator[HostSession]:
    from datetime import date, datetime, time

    from lorelog.services.places.project import find_project
    from lorelog.services.sessions.host_sessions import find_host_sessions
    from lorelog.wiring import resolve_location

    project = None if args.all_projects else resolve_location(project=args.project, tenant=args.tenant).project.id
    since_time = datetime.combine(date.fromisoformat(since), time()).timestamp() if since else 0.0
    for session in find_host_sessions(host, os.environ):
        if session.changed < since_time:
            continue
        if project is not None and (not session.directory or find_project(session.directory).id != project):
            continue
        if not os.path.isdir(session.directory):  # noqa: PTH112
            report.gone += 1  # its project was deleted, so there is no journal to write to
            continue
        yield session


def _capture_session(
    session: HostSession, since: str, args: argparse.Namespace, client: OperationClient, report: _BackfillReport
) -> None:
    arguments: dict[str, Any] = {
        "host": session.host,
        "session": session.session,
        "transcript": session.transcript,
        "directory": session.directory,
        "branch": session.branch,
        "agent": session.agent,
        "since": since,
        "everything": True,
        "dry_run": args.dry_run,
        "upgrade": args.upgrade,
        "tenant": args.tenant,
    }
    try:
        reply = client.call("session.capture", arguments, directory=session.directory)
    except LorelogError as error:
        report.problems.append({"path": session.transcript, "message": error.message, "hint": error.hint})
        return
    # A forked session repeats the turns of its parent.
    new = [turn for turn in reply["captured"] if turn["memory"] not in report.memories]
    report.memories.update(turn["memory"] for turn in new)
    turns = len(new)
    report.skipped += reply["skipped"]
    report.statements += reply["statements"]
    report.upgraded += reply["upgraded"]
    report.notes.update(dict.fromkeys(reply["notes"]))
    if turns:
        report.sessions += 1
        report.turns += turns
        source = os.path.dirname(new[0]["source"])  # noqa: PTH120
        report.projects[source] = report.projects.get(source, 0) + turns


def _show_backfill(report: _BackfillReport, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "host": report.host,
                "dry_run": report.dry_run,
                "sessions": report.sessions,
                "turns": report.turns,
                "skipped": report.skipped,
                "statements": report.statements,
                "upgraded": report.upgraded,
                "gone": report.gone,
                "journals": [{"path": path, "turns": turns} for path, turns in sorted(report.projects.items())],
                "problems": report.problems,
                "notes": list(report.notes),
            }
        )
        return
    for problem in report.problems:
        print_problem(problem["path"], problem["message"], problem["hint"])
    for text in report.notes:
        print_note(text)
    action = "Would capture" if report.dry_run else "Captured"
    print(f"{action} {plural(report.turns, 'turn')} of {plural(report.sessions, 'session')}.")
    if report.statements:
        kept = "Would keep" if report.dry_run else "Kept"
        print(
            f"{kept} {plural(report.statements, 'statement')} of the user: corrections, preferences, decisions, plans."
        )
    if report.upgraded:
        replaced = "Would replace" if report.dry_run else "Replaced"
        print(f"{replaced} {plural(report.upgraded, 'older note')}.")
    for path, turns in sorted(report.projects.items()):
        print(f"  {turns:>6,}  {short_path(path)}")
    if report.gone:
        print_note(f"{plural(report.gone, 'session')} skipped: the project directory does not exist")


def configure_flush(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--wait",
        type=float,
        default=_FLUSH_WAIT_S,
        metavar="SECONDS",
        help="how long to wait for incomplete transcripts (default: %(default).0f)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    add_daemon_option(parser)


def run_flush(args: argparse.Namespace) -> int:
    """Capture the spooled events; fail if one could not be captured."""
    from lorelog.services.sessions.drain import Drainer, capture_arguments, event_directory
    from lorelog.surfaces.daemon_client.address import find_address

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
        fields = asdict(drained)
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
    install = verbs.add_parser("install", help="install into a host, or update it", allow_abbrev=False)
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
    for verb in (install, uninstall):
        add_host(verb)
        verb.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    for name, description, configure_verb in (
        ("backfill", _BACKFILL_HELP.strip(), configure_backfill),
        ("flush", _FLUSH_HELP.strip(), configure_flush),
    ):
        verb = verbs.add_parser(
            name,
            help=description.partition("\n")[0].rstrip(".").lower(),
            description=description,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        configure_verb(verb)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if args.verb == "backfill":
        return run_backfill(args)
    if args.verb == "flush":
        return run_flush(args)
    if args.verb == "status":
        return _status(args)
    return _install_or_uninstall(parse_host(args.host), args)


def host_checks(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the check of the installed hosts for `lorelog doctor`."""
    statuses = [status for status in _host_statuses(args, HOSTS, {}) if status.installed != "missing"]
    if not statuses:
        message = "not installed into any agent ('lorelog hosts install HOST')"
        return [{"name": "hosts", "ok": True, "message": message, "hint": ""}]
    problems = [f"{status.title}: {text}" for status in statuses for text in (*status.approve, *status.warnings)]
    message = "; ".join(problems) or f"installed into {', '.join(status.title for status in statuses)}"
    hint = "lorelog hosts status" if problems else ""
    return [{"name": "hosts", "ok": not problems, "message": message, "hint": hint}]


def _install_or_uninstall(host: str, args: argparse.Namespace) -> int:
    from lorelog.services.install import plan
    from lorelog.services.install.manifests import build_manifest
    from lorelog.services.install.status import native_install, pending_approvals

    context = _install_context(approve=getattr(args, "approve", False))
    installing = args.verb == "install"
    native = native_install(host, context)
    if installing and native:
        raise ConfigError(
            f"lorelog is already installed in {HOST_TITLES[host]} by its own installer ({native})",
            hint="to install from here, uninstall it there first",
        )
    if native and not plan.read_receipt(context.home, host).files:
        raise ConfigError(
            f"lorelog was installed in {HOST_TITLES[host]} by its own installer ({native})", hint="uninstall it there"
        )
    manifest = build_manifest(host, context)
    changes = (plan.plan_install if installing else plan.plan_uninstall)(host, manifest, context)
    effective = plan.effective_changes(changes)
    if not args.dry_run:
        (plan.apply_install if installing else plan.apply_uninstall)(host, changes, context)
    if not args.json:
        for change in effective:  # after applying them: a failed change is not shown as made
            _show_change(change, full=args.dry_run)
    folder = plan.backup_folder(context.home, host)
    backups = str(folder) if folder.is_dir() and not args.dry_run else ""
    approvals = pending_approvals(host, context) if installing and not args.dry_run else []
    if args.json:
        files = [
            {"path": str(change.path), "change": _change_kind(change), "diff": plan.format_diff(change)}
            for change in effective
        ]
        print_json({"host": host, "dry_run": args.dry_run, "files": files, "approve": approvals, "backups": backups})
    else:
        _print_summary(host, args, effective, backups)
        for approval in approvals:
            print(f"{stylize('still to do:', 'yellow')} {one_line(approval)}")
    return 0


def _print_summary(host: str, args: argparse.Namespace, changes: list[InstallChange], backups: str) -> None:
    title, count = HOST_TITLES[host], plural(len(changes), "file")
    backup = f" Backups are in {short_path(backups)}." if backups else ""
    if not changes:
        print(f"{title}: {'already installed' if args.verb == 'install' else 'lorelog is not installed'}.")
    elif args.dry_run:
        print(f"{title}: {count} would change. Nothing was written.")
    elif args.verb == "install":
        print(f"{title}: installed, {count}.{backup}")
        print("Restart open sessions to pick this up.")
    else:
        print(f"{title}: uninstalled, {count}.{backup}")
        print("Your memories are kept.")


def _status(args: argparse.Namespace) -> int:
    hosts = (parse_host(args.host),) if args.host else HOSTS
    spool: dict[str, Any] = {}
    statuses = _host_statuses(args, hosts, spool)
    if args.json:
        print_json({"hosts": [_status_json(status) for status in statuses], **spool})
        return 0
    rows = [("host", "found", "installed", "last capture", "today", "last used")]
    for status in statuses:
        name = f"{status.title} {status.version}".strip()
        times = (_format_age(status.last_capture), str(status.today), _format_age(status.newest_session))
        rows.append((name, "yes" if status.found else "no", status.installed, *times))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if number:
            cells[2] = stylize(cells[2], _STATE_COLOURS[row[2]])
        line = "  ".join(cells).rstrip()
        print(line if number else stylize(line, "dim"))
    for status in statuses:
        for text in status.approve:
            print(f"{stylize('still to do:', 'yellow')} {status.title}: {one_line(text)}")
        for text in status.warnings:
            print(f"{stylize('warning:', 'red')} {status.title}: {one_line(text)}")
    if spool.get("waiting"):
        print_note(f"{plural(spool['waiting'], 'event')} in the spool; 'lorelog hosts flush' captures now")
    if spool.get("failed"):
        print_note(f"{plural(spool['failed'], 'event')} could not be captured and are kept in spool/failed")
    return 0


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
    context = _install_context()
    versions = getattr(args, "versions", False)
    return [host_status(host, context, stats.get(host, HostCaptureStats()), versions=versions) for host in hosts]


def _status_json(status: HostStatus) -> dict[str, Any]:
    fields = asdict(status)
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


def _install_context(*, approve: bool = False) -> InstallContext:
    from lorelog.services.install.manifests import resolve_command
    from lorelog.services.install.plan import InstallContext
    from lorelog.surfaces.daemon_client.address import find_address

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
