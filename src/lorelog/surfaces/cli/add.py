"""Add a memory to today's journal. It is searchable at once.

The journal is the Markdown file <project>/.lorelog/memory/YYYY-MM-DD.md. '-' reads the text from standard input.

examples:
  lorelog add "Redis TTL is 5 minutes" --type decision --tag redis
  git log -1 --format=%B | lorelog add - --tag release
  lorelog add "I prefer short commit subjects" --global
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("text", metavar="TEXT", help="text of the memory; '-' reads standard input")
    parser.add_argument("--type", default="", metavar="TYPE", help="type of memory, such as decision, fact or lesson")
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable)")
    parser.add_argument(
        "--expires",
        default="",
        metavar="DAY",
        help="last day it is shown: 2026-12-31, or 14d, 2w, 3m, 1y (from now)",
    )
    parser.add_argument("--global", dest="to_global", action="store_true", help="make it visible in every project")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Add; fail if the memory was saved but is not searchable."""
    request = {
        "text": read_text(args.text),
        "type": args.type,
        "tags": args.tag,
        "to_global": args.to_global,
        "expires": args.expires,
    }
    reply = call_operation(args, "memory.add", request, start_daemon=True)
    if args.json:
        print_json(reply)
    else:
        show_added(reply)
    return 0 if reply["searchable"] else 1


def show_added(reply: Json) -> None:
    """Print where a new memory was written."""
    place = f"{short_path(reply['source'])}:{reply['start_line']}-{reply['end_line']}"
    print(f"Remembered in {place}  {reply['id']}".rstrip())
    admission = reply["admission"]
    if admission["expires"]:
        print_note(f"shown until {admission['expires']}: {admission['reason']}")
    for text in reply["notes"]:
        print_note(text)


def read_text(argument: str) -> str:
    """Return the argument, or the text on standard input if it is `-`."""
    if argument != "-":
        return argument
    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="give the text as an argument")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text: {error.reason} at byte {error.start}") from error
