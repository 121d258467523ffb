"""Ask whether an error was seen before, and what was done about it.

TEXT is an error as it was printed: one line of it, or a whole stack trace, from the command line or from standard input. It is looked
for by its signature, then by what it says, then by what is nearly the same, in the turns of agents and in logs that were
taken in (lorelog debug ingest). Shown are when it happened, the turns around it, what was written before the same command
passed again, and decisions, tasks and memories that mention it.

examples:
  lorelog why "KeyError: 'customer_id'"
  pytest 2>&1 | lorelog why -
  lorelog why "error[E0308]: mismatched types" --all-projects --json
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.debug_paper import show_why
from lorelog.surfaces.cli.paper import print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_MOST = 900_000
"""Characters of an error that are looked at: the end of what a program printed tells most."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("text", metavar="TEXT", nargs="+", help="the error; - reads standard input")
    parser.add_argument("--all-projects", action="store_true", help="look beyond this project")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and show what is known."""
    text = _input() if args.text == ["-"] else " ".join(args.text)
    if not text.strip():
        raise UsageError("there is no error to ask about", hint="lorelog why \"KeyError: 'id'\"")
    reply = ask(args, "debug.why", {"text": text[-_MOST:], "all_projects": args.all_projects}, starts=True)
    if args.json:
        print_json(reply)
    else:
        show_why(reply)
    return 0


def _input() -> str:
    """Return the end of what is on standard input, whatever bytes it is."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("there is nothing to read", hint="make test 2>&1 | lorelog why -")
    text = ""
    while piece := sys.stdin.buffer.read(_MOST):
        text = (text + piece.decode("utf-8", "replace"))[-_MOST:]
    return text
