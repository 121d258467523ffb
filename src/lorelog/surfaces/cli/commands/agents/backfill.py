"""Make memories of sessions from before lorelog was installed, or that its hooks missed.

Reads the conversations that agents' hosts keep on this machine, and adds turns that are in no journal yet to the journal of their
day. Without HOST, every host that has sessions is read. Running it again writes nothing twice. Only sessions of the current
project are read, unless --all-projects is given. No model is called.

With --upgrade, notes that an older version wrote are replaced by notes of this version. Notes that somebody edited, or that a
model worded, are kept. A replaced note stays in the journal; searches show the new one.

examples:
  lorelog backfill --dry-run             show what would be captured
  lorelog backfill --all-projects        every project, each to its own journals
  lorelog backfill claude --since 2w     the last two weeks of Claude Code
  lorelog backfill codex --upgrade
"""

from __future__ import annotations

import os
from typing import Any

from msgspec import Struct, field

from lorelog.core.errors import LorelogError
from lorelog.hosts import HOST_TITLES, HOSTS
from lorelog.surfaces.cli.arguments import add_common, parse_host
from lorelog.surfaces.cli.client import OperationClient
from lorelog.surfaces.cli.render import plural, print_json, print_note, print_problem, progress_bar, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from lorelog.services.sessions.host_sessions import HostSession


class _BackfillReport(Struct):
    dry_run: bool
    hosts: list[str] = field(default_factory=list)
    found: int = 0
    elsewhere: int = 0
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "hosts",
        nargs="*",
        metavar="HOST",
        help="claude, codex, opencode, openclaw, gemini, qwen or copilot (default: all that have sessions)",
    )
    parser.add_argument("--since", metavar="DAY", help="only turns on or after DAY: 2026-03-05, yesterday, 7d, 2w, 3m")
    parser.add_argument(
        "--all-projects", action="store_true", help="capture the sessions of every project, each to its own journals"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be captured, and write nothing")
    parser.add_argument(
        "--upgrade", action="store_true", help="replace notes of an older version, unless somebody edited them"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Capture the hosts' sessions; fail if one could not be captured."""
    from lorelog.operations.requests import parse_past_day

    hosts = tuple(dict.fromkeys(map(parse_host, args.hosts))) or HOSTS
    since = parse_past_day(args.since)
    report = _BackfillReport(args.dry_run)
    client = OperationClient(args.warm, shared=True)
    try:
        with progress_bar() as progress:
            sessions = list(_select_sessions(hosts, args, since, report))
            report.found = len(sessions)
            for number, session in enumerate(sessions, 1):
                _capture_session(session, since, args, client, report)
                progress("sessions", number, len(sessions))
    finally:
        client.close()
    _show_backfill(report, as_json=args.json)
    return 1 if report.problems else 0


def _select_sessions(
    hosts: Sequence[str], args: argparse.Namespace, since: str, report: _BackfillReport
) -> Iterator[HostSession]:
    from datetime import date, datetime, time

    from lorelog.services.places.project import find_project
    from lorelog.services.sessions.host_sessions import find_host_sessions
    from lorelog.wiring import resolve_location

    project = None if args.all_projects else resolve_location(project=args.project, tenant=args.tenant).project.id
    since_time = datetime.combine(date.fromisoformat(since), time()).timestamp() if since else 0.0
    for session in (found for host in hosts for found in find_host_sessions(host, os.environ)):
        if session.changed < since_time:
            continue
        if project is not None and (not session.directory or find_project(session.directory).id != project):
            report.elsewhere += 1
            continue
        if not os.path.isdir(session.directory):
            report.gone += 1  # its project was deleted, so there is no journal to write to
            continue
        if session.host not in report.hosts:
            report.hosts.append(session.host)
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
        source = os.path.dirname(new[0]["source"])
        report.projects[source] = report.projects.get(source, 0) + turns


def _show_backfill(report: _BackfillReport, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "hosts": report.hosts,
                "dry_run": report.dry_run,
                "found": report.found,
                "elsewhere": report.elsewhere,
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
    if report.hosts:
        titles = " and ".join(HOST_TITLES[host] for host in report.hosts)
        print(f"Found {plural(report.found, 'session')} of {titles}.")
    else:
        print("Found no sessions of this project." if report.elsewhere else "Found no sessions on this machine.")
    if report.hosts:
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
    if report.elsewhere:
        print_note(f"{plural(report.elsewhere, 'session')} of other projects: --all-projects captures them, too")
    if report.turns and not report.dry_run:
        print('Look at them: lorelog list. Search them: lorelog search "…".')
