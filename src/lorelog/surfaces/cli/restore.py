"""Restore a deleted memory, with the current text of its file.

examples:
  lorelog restore 65fcbf6e
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of the deleted memory, or its first characters")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Restore the memory."""
    reply = call_operation(args, "memory.restore", {"id": args.id})
    if args.json:
        print_json(reply)
        return 0
    print(f"Restored in {short_path(reply['source'])}.")
    for text in reply["notes"]:
        print_note(text)
    return 0
