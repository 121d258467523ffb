"""Set a memory's expiry or review date.

After its last day a memory is hidden from search and list; its file is not changed, and 'lorelog search
--include-expired' still shows it. 'lorelog list --due' lists the memories to review.

examples:
  lorelog expire 65fcbf6e 14d
  lorelog expire 65fcbf6e 2026-12-31
  lorelog expire 65fcbf6e never
  lorelog expire 65fcbf6e --review 3m
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json
from lorelog.surfaces.cli.show import describe_memory

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
        help="last day it is shown: 2026-12-31, today, or 14d, 2w, 3m, 1y (from now); 'never' removes the date",
    )
    parser.add_argument("--review", metavar="DAY", help="day on which it should be reviewed; 'never' removes the date")
    add_common(parser)


def _today() -> str:
    from datetime import date

    return date.today().isoformat()  # noqa: DTZ011  (the user's local day)


def run(args: argparse.Namespace) -> int:
    """Set the dates."""
    dates = {"expires": args.day, "review_after": args.review}
    days = {name: day for name, day in dates.items() if day is not None}
    if not days:
        raise UsageError("DAY or --review is required", hint="lorelog expire ID 14d, or lorelog expire ID --review 3m")
    reply = call_operation(args, "memory.set_expiry", {"id": args.id, **days})
    if args.json:
        print_json(reply)
        return 0
    shown = f"shown until {reply['expires']}" if reply["expires"] else "never expires"
    if "" < reply["expires"] < _today():
        shown = f"hidden, expired on {reply['expires']}"
    review = f", review on {reply['review_after']}" if reply["review_after"] else ""
    print(f"{describe_memory(args, args.id)}: {shown}{review}")
    return 0
