"""Remember something: append it to today's journal, where it can be searched for at once.

The journal is <project>/.lorelog/memory/YYYY-MM-DD.md, plain Markdown. '-' reads the text from standard input.

examples:
  lorelog add "Redis TTL is 5 minutes; longer served stale prices" --type decision --tag redis
  git log -1 --format=%B | lorelog add - --tag release
  lorelog add "I prefer short commit subjects" --global
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import AddShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("text", metavar="TEXT", help="what to remember; '-' reads standard input")
    parser.add_argument("--type", default="", metavar="TYPE", help="kind of memory, such as decision, fact, lesson")
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable)")
    parser.add_argument(
        "--expires",
        default="",
        metavar="DAY",
        help="the last day it is shown on: 2026-03-05, or 14d, 2w, 3m, 1y from now",
    )
    parser.add_argument("--global", dest="to_global", action="store_true", help="remember it for every project")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Add, and fail when it is saved but cannot be searched for."""
    request = {
        "text": read_text(args.text),
        "type": args.type,
        "tags": args.tag,
        "to_global": args.to_global,
        "expires": args.expires,
    }
    reply = ask(args, "memory.add", request, starts=True)
    if args.json:
        print_json(reply)
    else:
        show_added(reply)
    return 0 if reply["searchable"] else 1


def show_added(reply: AddShape) -> None:
    """Print where a new memory stands."""
    place = f"{short_path(reply['source'])}:{reply['start_line']}-{reply['end_line']}"
    print(f"Remembered in {place}  {reply['id']}".rstrip())
    admission = reply["admission"]
    if admission["expires"]:
        note(f"shown until {admission['expires']}: {admission['reason']}")
    for text in reply["notes"]:
        note(text)


def read_text(given: str) -> str:
    """Return a text as it was given, or from standard input."""
    if given != "-":
        return given
    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="give the text as an argument")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text: {error.reason} at byte {error.start}") from error
