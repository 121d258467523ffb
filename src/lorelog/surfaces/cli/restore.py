"""Bring a deleted memory back, as its file has it now.

examples:
  lorelog restore 65fcbf6e
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="the id it had, or its first characters")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show it again."""
    reply = ask(args, "memory.restore", {"id": args.id})
    if args.json:
        print_json(reply)
        return 0
    print(f"Restored in {short_path(reply['source'])}.")
    for text in reply["notes"]:
        note(text)
    return 0
