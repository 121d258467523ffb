"""Find near-duplicate memories. Nothing is changed.

Memories are compared by their words, and by meaning where vectors exist. The newest of each group comes first and is
usually the one to keep. 'lorelog delete' hides another; 'lorelog supersede' replaces one.

examples:
  lorelog duplicates
  lorelog duplicates --type decision --threshold 0.9
  lorelog duplicates --all-projects --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, stylize
from lorelog.surfaces.cli.render.hits import INDENT, location_fields, short_ids
from lorelog.surfaces.cli.render.layout import join_fields, known_width, shorten, text_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="minimum similarity, 0 to 1: the cosine of vectors (default 0.84 with the built-in model, else 0.94) or the share of common words (default 0.8)",
    )
    parser.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help="maximum number of groups (default 20)"
    )
    parser.add_argument("--type", action="append", default=[], metavar="TYPE", help="only this type (repeatable)")
    parser.add_argument("--all-projects", action="store_true", help="include the memories of all projects")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the groups; finding none is not a failure."""
    request = {
        "threshold": args.threshold,
        "limit": args.limit,
        "types": args.type,
        "all_projects": args.all_projects,
    }
    reply = call_operation(args, "memory.find_near_duplicates", request)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(reply: Json) -> None:
    for number, group in enumerate(reply["groups"], 1):
        print(stylize(f"{number}. {plural(len(group), 'memory')}", "bold"))
        ids = short_ids(memory["id"] for memory in group)
        for memory in group:
            similarity = "keep" if memory["keep"] else f"{memory['similarity']:.2f}"
            fields = location_fields({**memory, "tags": ()}, str(memory["start_line"]), ids[memory["id"]])
            width = known_width()
            room = width - len(INDENT) - 6 if width else None
            print(f"{INDENT}{similarity:<4}  " + join_fields(fields, INDENT * 2, room))
            print(INDENT * 2 + shorten(one_line(memory["text"]), text_width() - 2 * len(INDENT)))
        print()
    if not reply["groups"]:
        print("No near-duplicate memories.")
    compared = f"{plural(reply['compared'], 'memory')} compared, {reply['by_vectors']:,} of them by meaning"
    print_note(compared + ("; there are more groups, use -n to show them" if reply["more"] else ""))
    for text in reply["notes"]:
        print_note(text)
