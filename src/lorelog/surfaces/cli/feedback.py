"""Mark a search result as relevant or irrelevant to a query.

Results marked irrelevant rank lower when the same query is searched again, and 'lorelog eval --feedback' measures
search quality by these marks. They are kept in feedback.jsonl beside the index, readable by you alone.

examples:
  lorelog feedback "why redis?" 65fcbf6e relevant
  lorelog feedback "why redis?" 0aa1b2c3 irrelevant
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, print_json, print_note
from lorelog.surfaces.cli.show import describe_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", help="the query")
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    parser.add_argument("relevance", choices=("relevant", "irrelevant"), help="whether it answers the query")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Record the feedback."""
    reply = call_operation(args, "memory.feedback", {"query": args.query, "id": args.id, "relevance": args.relevance})
    if args.json:
        print_json(reply)
        return 0
    print(f"{describe_memory(args, args.id)} is {reply['relevance']} to {one_line(reply['query'])!r}")
    if not reply["changed"]:
        print_note("already recorded")
    return 0
