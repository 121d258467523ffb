"""Hide a memory from search and list. Its file is not changed, and 'lorelog restore' shows it again.

It stays hidden when the index is rebuilt. The ids of hidden memories, without their text, are in tombstones.jsonl beside
the index.

examples:
  lorelog delete 65fcbf6e
  lorelog restore 65fcbf6e
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Hide the memory."""
    reply = call_operation(args, "memory.delete", {"id": args.id})
    if args.json:
        print_json(reply)
        return 0
    if reply["changed"]:
        print(
            f"Hidden: {plural(reply['chunks'], 'chunk')} of {short_path(reply['source'])}. "
            f"The file is unchanged; 'lorelog restore {reply['id'][:8]}' shows it again, 'lorelog forget' takes it out for good."
        )
    for text in reply["notes"]:
        print_note(text)
    return 0
