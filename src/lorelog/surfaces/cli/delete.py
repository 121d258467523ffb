"""Hide a memory from every search and list. Its file is not touched, and 'lorelog restore' brings it back.

It stays hidden when the index is made anew. What is hidden is written down in tombstones.jsonl beside the index, without
its text.

examples:
  lorelog delete 65fcbf6e
  lorelog restore 65fcbf6e
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, plural, print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Hide it."""
    reply = ask(args, "memory.delete", {"id": args.id})
    if args.json:
        print_json(reply)
        return 0
    if reply["changed"]:
        print(
            f"Hidden: {plural(reply['chunks'], 'chunk')} of {short_path(reply['source'])}. "
            f"The file is untouched; 'lorelog restore {reply['id'][:8]}' brings it back."
        )
    for text in reply["notes"]:
        note(text)
    return 0
