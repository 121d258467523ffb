"""Say until when a memory is shown, or when it should be looked at again.

After its day a memory is hidden from searches and lists; its file is not touched, and 'lorelog search --include-expired'
shows it. 'lorelog list --due' lists what should be looked at again.

examples:
  lorelog expire 65fcbf6e 14d
  lorelog expire 65fcbf6e 2026-12-31
  lorelog expire 65fcbf6e never
  lorelog expire 65fcbf6e --review 3m
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import one_line, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a memory, or its first characters")
    parser.add_argument(
        "day",
        metavar="DAY",
        nargs="?",
        help="the last day it is shown on: 2026-03-05, today, or 14d, 2w, 3m, 1y from now; 'never' keeps it for good",
    )
    parser.add_argument(
        "--review", metavar="DAY", help="from which day on it should be looked at again; 'never' takes that back"
    )
    add_common(parser)


def _today() -> str:
    from datetime import date

    return date.today().isoformat()  # noqa: DTZ011  (a person's own day)


def run(args: argparse.Namespace) -> int:
    """Set its days."""
    given = {"expires": args.day, "review_after": args.review}
    days = {name: day for name, day in given.items() if day is not None}
    if not days:
        raise UsageError("which day?", hint="lorelog expire ID 14d, or --review 3m")
    reply = ask(args, "memory.set_expiry", {"id": args.id, **days})
    if args.json:
        print_json(reply)
        return 0
    shown = f"shown until {reply['expires']}" if reply["expires"] else "shown for good"
    if "" < reply["expires"] < _today():
        shown = f"hidden from now on, its last day was {reply['expires']}"
    review = f", to be looked at again from {reply['review_after']} on" if reply["review_after"] else ""
    print(f"{one_line(reply['memory'])}: {shown}{review}")
    return 0
