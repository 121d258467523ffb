"""Show one memory by its id, as the index has it.

'expand' shows the section around it, from its file. A memory that was deleted is said to be so.

examples:
  lorelog get 65fcbf6e
  lorelog get 65fcbf6e --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import fate_told, labelled, note, one_line, print_json, printable, styled
from lorelog.surfaces.cli.records_paper import place_told, worth_told

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import GetShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show it; fail when there is none."""
    reply = ask(args, "memory.get", {"id": args.id})
    if args.json:
        print_json(reply)
    else:
        _show(reply, args.id)
    return 0 if reply["found"] and not reply["deleted"] else 1


def _show(reply: GetShape, asked: str) -> None:
    memory = reply["memory"]
    if reply["deleted"]:
        note(f"it was deleted on {reply['deleted_at'][:10]}; 'lorelog restore {one_line(asked)}' brings it back")
    elif memory is None:
        note(f"no chunk or memory has an id that starts with {asked!r}")
    else:
        place = styled(place_told(memory, reply["trust"]), "cyan")
        parts = (place, memory["date"].replace("T", " "), labelled(memory["type"], memory["tags"]), memory["id"])
        print("  ".join(part for part in parts if part))
        trust, origin = reply["trust"], (memory["anchor"] or {}).get("origin", "")
        for told in (styled(fate_told(memory.get("fate")), "yellow"), worth_told(trust, origin) if trust else ""):
            if told:
                print(told)
        if memory["heading_path"]:
            print(styled(one_line(" > ".join(memory["heading_path"])), "bold"))
        print(f"\n{printable(memory['content'])}")
