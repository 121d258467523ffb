"""Hide a memory from every search and list. Its file is not touched, and 'recollect restore' brings it back.

It stays hidden when the index is made anew. What is hidden is written down in tombstones.jsonl beside the index, without
its text.

examples:
  recollect delete 65fcbf6e
  recollect restore 65fcbf6e
"""

from __future__ import annotations

from recollect.surfaces.cli.arguments import add_common
from recollect.surfaces.cli.asking import ask
from recollect.surfaces.cli.paper import note, plural, print_json, short_path

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
            f"The file is untouched; 'recollect restore {reply['id'][:8]}' brings it back."
        )
    for text in reply["notes"]:
        note(text)
    return 0
