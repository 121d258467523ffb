"""Capture sessions from before lorelog was installed, or that its hooks missed.

Reads the conversations that a host keeps and writes the turns that are in no journal yet, each to the journal of its own day.
Asked again it writes nothing again. Only sessions of the current project are taken unless --all-projects is given.

examples:
  lorelog hosts backfill claude --dry-run
  lorelog hosts backfill codex --since 2w
  lorelog hosts backfill opencode --all-projects
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import LorelogError
from lorelog.surfaces.cli.arguments import add_host, host_named
from lorelog.surfaces.cli.asking import add_warm
from lorelog.surfaces.cli.elsewhere import Elsewhere
from lorelog.surfaces.cli.paper import note, plural, print_json, problem, progress_bar, short_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lorelog.services.session.sessions import HostSession


@dataclass(slots=True)
class _Report:
    host: str
    dry_run: bool
    sessions: int = 0
    turns: int = 0
    skipped: int = 0
    gone: int = 0
    projects: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    memories: set[str] = field(default_factory=set)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_host(parser)
    parser.add_argument("--since", metavar="DAY", help="only turns from this day on: 2026-03-05, yesterday, 7d, 2w, 3m")
    parser.add_argument(
        "--all-projects", action="store_true", help="sessions of every project, each to its own journals"
    )
    parser.add_argument("--dry-run", action="store_true", help="tell what would be captured, and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    parser.add_argument("--project", metavar="DIR", help="stand in another project than the current directory's")
    parser.add_argument("--tenant", metavar="NAME", help="whose memories (scope.tenant); nothing crosses tenants")
    add_warm(parser)


def run(args: argparse.Namespace) -> int:
    """Capture what the host keeps, and fail when a session did."""
    from lorelog.operations.days import day_of

    host = host_named(args.host)
    since = day_of(args.since) if args.since else ""
    report = _Report(host, args.dry_run)
    asker = Elsewhere(args.warm)
    try:
        with progress_bar() as progress:
            sessions = list(_chosen(host, args, since, report))
            for number, session in enumerate(sessions, 1):
                _take(session, since, args, asker, report)
                progress("sessions", number, len(sessions))
    finally:
        asker.close()
    _show(report, as_json=args.json)
    return 1 if report.problems else 0


def _chosen(host: str, args: argparse.Namespace, since: str, report: _Report) -> Iterator[HostSession]:
    from datetime import date, datetime, time

    from lorelog.services.scope import find_project
    from lorelog.services.session.sessions import find_sessions
    from lorelog.wiring import standpoint

    here = None if args.all_projects else standpoint(project=args.project, tenant=args.tenant).project.id
    first = datetime.combine(date.fromisoformat(since), time()).timestamp() if since else 0.0
    for session in find_sessions(host, os.environ):
        if session.changed < first:
            continue
        if here is not None and (not session.directory or find_project(session.directory).id != here):
            continue
        if not os.path.isdir(session.directory):  # noqa: PTH112
            report.gone += 1  # its project is not there any more, and nothing is written where it was
            continue
        yield session


def _take(session: HostSession, since: str, args: argparse.Namespace, asker: Elsewhere, report: _Report) -> None:
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
        "tenant": args.tenant,
    }
    try:
        reply = asker.ask("session.capture", arguments, session.directory)
    except LorelogError as error:
        report.problems.append({"path": session.transcript, "message": error.message, "hint": error.hint})
        return
    new = [one for one in reply["captured"] if one["memory"] not in report.memories]  # a fork repeats its parent's
    report.memories.update(one["memory"] for one in new)
    turns = len(new)
    report.skipped += reply["skipped"]
    report.notes.update(dict.fromkeys(reply["notes"]))
    if turns:
        report.sessions += 1
        report.turns += turns
        source = os.path.dirname(new[0]["source"])  # noqa: PTH120
        report.projects[source] = report.projects.get(source, 0) + turns


def _show(report: _Report, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "host": report.host,
                "dry_run": report.dry_run,
                "sessions": report.sessions,
                "turns": report.turns,
                "skipped": report.skipped,
                "gone": report.gone,
                "journals": [{"path": path, "turns": turns} for path, turns in sorted(report.projects.items())],
                "problems": report.problems,
                "notes": list(report.notes),
            }
        )
        return
    for one in report.problems:
        problem(one["path"], one["message"], one["hint"])
    for text in report.notes:
        note(text)
    did = "Would capture" if report.dry_run else "Captured"
    print(f"{did} {plural(report.turns, 'turn')} of {plural(report.sessions, 'session')}.")
    for path, turns in sorted(report.projects.items()):
        print(f"  {turns:>6,}  {short_path(path)}")
    if report.gone:
        note(f"{plural(report.gone, 'session')} left out: the directory is gone")
