"""Delete the index. Your Markdown files stay, and 'lorelog index' makes the index anew.

examples:
  lorelog reset
  lorelog reset --yes
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, then delete."""
    if not args.yes and not _confirmed(args):
        print("Nothing deleted.", file=sys.stderr)
        return 1
    reply = ask(args, "memory.reset", {})
    if args.json:
        print_json(reply)
    else:
        print(f"Deleted the index in {short_path(reply['deleted'])}. Your files are untouched.")
    return 0


def _confirmed(args: argparse.Namespace) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("reset deletes the index and cannot ask here", hint="say so with --yes")
    location = ask(args, "memory.stats", {})["location"]
    print(f"Delete the index in {short_path(location)}? Your files stay. [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
