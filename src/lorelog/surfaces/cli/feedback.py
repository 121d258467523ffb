"""Say whether a memory answers a question.

'lorelog eval --feedback' measures searches by what was said. Who asks the very same question again sees lower what was
judged irrelevant to it. Questions are kept in feedback.jsonl beside the index, for your eyes only.

examples:
  lorelog feedback "why redis?" 65fcbf6e relevant
  lorelog feedback "why redis?" 0aa1b2c3 irrelevant
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", help="what was searched for")
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    parser.add_argument("relevance", choices=("relevant", "irrelevant"), help="whether it answers that")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Write it down."""
    reply = ask(args, "memory.feedback", {"query": args.query, "id": args.id, "relevance": args.relevance})
    if args.json:
        print_json(reply)
        return 0
    print(f"{one_line(reply['memory'] or reply['id'])} is {reply['relevance']} to {one_line(reply['query'])!r}")
    if not reply["changed"]:
        note("it was said before")
    return 0
