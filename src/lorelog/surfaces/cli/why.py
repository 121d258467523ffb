"""Find earlier occurrences of an error, and what fixed it.

TEXT is an error as it was printed: one line or a whole stack trace, as an argument or on standard input. It is matched by
signature, then by message, then by similarity, in agents' turns. The output
shows when it happened, the turns around it, the changes made before the same command passed again, and decisions, tasks
and memories that mention it.

examples:
  lorelog why "KeyError: 'customer_id'"
  pytest 2>&1 | lorelog why -
  lorelog why "error[E0308]: mismatched types" --all-projects --json
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json
from lorelog.surfaces.cli.render.debug import show_why

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_MAX_TEXT_CHARS = 900_000
"""Only the end of a longer text is used: it is the most informative part of a program's output."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("text", metavar="TEXT", nargs="+", help="the error; '-' reads standard input")
    parser.add_argument("--all-projects", action="store_true", help="include all projects")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is known about the error."""
    text = _read_input() if args.text == ["-"] else " ".join(args.text)
    if not text.strip():
        raise UsageError("the error text is empty", hint="lorelog why \"KeyError: 'id'\"")
    reply = call_operation(
        args, "debug.why", {"text": text[-_MAX_TEXT_CHARS:], "all_projects": args.all_projects}, start_daemon=True
    )
    if args.json:
        print_json(reply)
    else:
        show_why(reply)
    return 0


def _read_input() -> str:
    """Return the end of standard input; bytes that are not UTF-8 are replaced."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("standard input is empty", hint="make test 2>&1 | lorelog why -")
    text = ""
    while piece := sys.stdin.buffer.read(_MAX_TEXT_CHARS):
        text = (text + piece.decode("utf-8", "replace"))[-_MAX_TEXT_CHARS:]
    return text
