"""Show one memory by its id, as it is in the index.

'lorelog expand' shows the section around it, from its file.

examples:
  lorelog get 65fcbf6e
  lorelog get 65fcbf6e --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    format_cues,
    format_labels,
    format_lifecycle,
    format_repository,
    one_line,
    print_json,
    print_note,
    printable,
    stylize,
)
from lorelog.surfaces.cli.render.records import format_location, format_trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the memory; fail if it does not exist or was deleted."""
    reply = call_operation(args, "memory.get", {"id": args.id})
    if args.json:
        print_json(reply)
    else:
        _show(reply, args.id)
    return 0 if reply["found"] and not reply["deleted"] else 1


def _show(reply: Json, identity: str) -> None:
    memory = reply["memory"]
    if reply["deleted"]:
        print_note(f"deleted on {reply['deleted_at'][:10]}; 'lorelog restore {one_line(identity)}' restores it")
    elif memory is None:
        print_note(f"no chunk or memory has an id that starts with {identity!r}")
    else:
        place = stylize(format_location(memory, reply["trust"]), "cyan")
        parts = (place, memory["date"].replace("T", " "), format_labels(memory["type"], memory["tags"]), memory["id"])
        print("  ".join(part for part in parts if part))
        trust, origin = reply["trust"], (memory["anchor"] or {}).get("origin", "")
        lifecycle = stylize(format_lifecycle(memory.get("fate")), "yellow")
        repository = stylize(format_repository(memory), "yellow")
        cues = format_cues(memory["anchor"])
        for line in (lifecycle, repository, format_trust(trust, origin) if trust else "", cues and f"shown on {cues}"):
            if line:
                print(line)
        if memory["heading_path"]:
            print(stylize(one_line(" > ".join(memory["heading_path"])), "bold"))
        print(f"\n{printable(memory['content'])}")
