"""List memories or documents, newest first.

examples:
  lorelog list                              the newest memories of this project
  lorelog list --documents
  lorelog list --due                        memories to review
  lorelog list --since 7d --type decision
  lorelog list --all-projects -n 100 --json
"""

from __future__ import annotations

import re

from lorelog.surfaces.cli.arguments import (
    add_common,
    add_filters,
    add_lifecycle_filters,
    filters_of,
    lifecycle_filters_of,
)
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    format_cues,
    format_labels,
    format_lifecycle,
    format_repository,
    one_line,
    plural,
    print_json,
    print_note,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json

_MAX_TEXT_CHARS = 100
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--documents", action="store_true", help="list files instead of memories")
    parser.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help="maximum number of entries (default 20)"
    )
    parser.add_argument("--due", action="store_true", help="only memories whose review date has come")
    add_lifecycle_filters(parser)
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the memories or documents."""
    options = {"documents": args.documents, "limit": args.limit, "due": args.due, **lifecycle_filters_of(args)}
    reply = call_operation(args, "memory.list", {**options, **filters_of(args)})
    if args.json:
        print_json(reply)
    else:
        _show(reply, due=args.due)
    return 0


def _show(reply: Json, *, due: bool) -> None:
    for document in reply["documents"]:
        source = stylize(short_path(document["source"]), "cyan")
        print(f"{document['date']}  {source}  {one_line(document['title'])}  ({plural(document['chunks'], 'chunk')})")
    for memory in reply["memories"]:
        place = stylize(f"{short_path(memory['source'])}:{memory['start_line']}", "cyan")
        labels = format_labels(memory["type"], memory["tags"])
        excerpt = _format_excerpt(memory["content"], memory["heading"])
        parts = (
            f"{memory['date'].replace('T', ' '):<16}",
            place,
            labels,
            excerpt,
            stylize(memory["id"], "dim"),
            format_lifecycle(memory.get("fate")),
            format_repository(memory),
            stylize(format_cues(memory["anchor"]), "dim"),
        )
        print("  ".join(part for part in parts if part))
    if due and not reply["memories"]:
        print_note("no memory is due for review")
    elif not reply["documents"] and not reply["memories"]:
        print_note("nothing is indexed here yet; use 'lorelog index PATH' or 'lorelog add \"…\"'")
    elif reply["more"]:
        print_note("there are more; use -n to show them")


def _format_excerpt(text: str, heading: str) -> str:
    lines = [line.strip() for line in _COMMENT.sub("", text).split("\n") if line.strip()]
    body = " ".join(line for line in lines if line.lstrip("# ").rstrip("# ") != heading)
    whole = one_line(body or heading)
    return whole if len(whole) <= _MAX_TEXT_CHARS else whole[: _MAX_TEXT_CHARS - 1] + "…"
