"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import re
from datetime import date, timedelta

from recollect.core.errors import UsageError
from recollect.core.query import Filters
from recollect.engine import Engine
from recollect.services.scope import find_project
from recollect.wiring import open_engine, standpoint

_AGO = re.compile(r"(\d{1,5})\s*([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def add_common(
    parser: argparse.ArgumentParser, *, project: str = "stand in another project than the current directory's"
) -> None:
    """Declare what every command takes; `project` says what standing in another one means for it."""
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    parser.add_argument("--project", metavar="DIR", help=project)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Declare the filters of search and list."""
    group = parser.add_argument_group("filters")
    group.add_argument("--all-projects", action="store_true", help="look beyond this project and the global memories")
    group.add_argument("--source", metavar="PATH", help="only files at or below this path")
    group.add_argument(
        "--since", metavar="DAY", help="from this day on: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y ago"
    )
    group.add_argument("--until", metavar="DAY", help="up to and including this day")
    group.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="only this type (repeatable: any of them)"
    )
    group.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only with this tag (repeatable: all of them)"
    )


def filters_of(args: argparse.Namespace) -> Filters:
    """Return the filters that were asked for."""
    return Filters(
        source_prefix=args.source or "",
        since=day_of(args.since) if args.since else "",
        until=day_of(args.until) if args.until else "",
        types=tuple(args.type),
        tags=tuple(args.tag),
    )


def engine_of(args: argparse.Namespace) -> Engine:
    """Open the engine that a command's arguments ask for."""
    return open_engine(standpoint(project=args.project))


def project_id(directory: str) -> str:
    """Return the project that a directory lies in."""
    return find_project(directory).id


def day_of(text: str, today: date | None = None) -> str:
    """Return an ISO day: given as such, as today or yesterday, or as so many days, weeks, months or years ago."""
    today = today or date.today()  # noqa: DTZ011  (a person's own day)
    word = text.strip().lower()
    ago = _AGO.fullmatch(word)
    try:
        if ago:
            return (today - timedelta(days=int(ago[1]) * _DAYS[ago[2]])).isoformat()
        if word in {"today", "yesterday"}:
            return (today - timedelta(days=word == "yesterday")).isoformat()
        return date.fromisoformat(word).isoformat()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a day", hint="write 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y for so long ago"
        ) from None
