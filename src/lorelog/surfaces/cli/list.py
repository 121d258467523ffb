"""List memories or documents, newest first.

examples:
  lorelog list                              the newest memories of this project
  lorelog list --documents
  lorelog list --due                        memories to review
  lorelog list --since 7d --type decision
  lorelog list --all-projects -n 100 --json
"""

from __future__ import annotations

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
    format_lifecycle,
    format_repository,
    one_line,
    plural,
    print_json,
    print_note,
    short_path,
    stylize,
    without_comments,
)
from lorelog.surfaces.cli.render.hits import (
    INDENT,
    field,
    format_date,
    format_head,
    location_fields,
    short_ids,
    wrap_styled,
)
from lorelog.surfaces.cli.render.layout import link_file, shorten, text_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


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
        is_filtered = any(filters_of(args)[name] for name in ("source", "since", "until", "types", "tags"))
        _show(reply, due=args.due, is_filtered=is_filtered)
    return 0


def _show(reply: Json, *, due: bool, is_filtered: bool) -> None:
    for document in reply["documents"]:
        _show_document(document)
    ids = short_ids(memory["id"] for memory in reply["memories"])
    for memory in reply["memories"]:
        _show_memory(memory, ids[memory["id"]])
    if due and not reply["memories"]:
        print_note("no memory is due for review")
    elif not reply["documents"] and not reply["memories"] and is_filtered:
        print("Nothing found.")
    elif not reply["documents"] and not reply["memories"]:
        print_note("nothing is indexed here yet; run 'lorelog index PATH' or 'lorelog add'")
    elif reply["more"]:
        print_note("there are more; use -n to show them")
    for text in reply["notes"]:
        print_note(text)


def _show_document(document: Json) -> None:
    place = short_path(document["source"])
    link = link_file(document["source"], stylize(place, "cyan"))
    count = plural(document["chunks"], "chunk")
    print(format_head("", [(place, link, 2), field(format_date(document)), field(count, "dim")]))
    if document["title"]:
        print(INDENT + shorten(one_line(document["title"]), text_width() - len(INDENT)))


def _show_memory(memory: Json, identity: str) -> None:
    print(format_head("", location_fields(memory, str(memory["start_line"]), identity)))
    if excerpt := _format_excerpt(memory["content"], memory["heading"]):
        print(INDENT + shorten(excerpt, text_width() - len(INDENT)))
    for warning in (format_lifecycle(memory.get("lifecycle")), format_repository(memory)):
        if warning:
            print(wrap_styled(warning, "yellow"))
    if cues := format_cues(memory["anchor"]):
        print(wrap_styled(cues, "dim"))


def _format_excerpt(text: str, heading: str) -> str:
    lines = [line.strip() for line in without_comments(text).split("\n") if line.strip()]
    body = " ".join(line for line in lines if line.lstrip("# ").rstrip("# ") != heading)
    return one_line(body or heading)
