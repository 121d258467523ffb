"""Show a record with its trust level and replies, or the thread it belongs to.

examples:
  lorelog artifact show 0195f3a2-9f01
  lorelog artifact thread 0195f3a2-9f01
"""

from __future__ import annotations

from lorelog.core.errors import NotFound
from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, stylize
from lorelog.surfaces.cli.render.records import print_notes, show_record, show_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    show = add_verb(parser, verbs, "show", "show a record and its replies")
    thread = add_verb(parser, verbs, "thread", "show the thread of a record")
    for verb in (show, thread):
        verb.add_argument("artifact", metavar="ARTIFACT", help="the record's id or its first characters")
        add_common(verb)


def run(args: argparse.Namespace) -> int:
    """Print the record or thread."""
    op = "artifact.get" if args.verb == "show" else "artifact.list_thread"
    reply = call_operation(args, op, {"artifact_id": args.artifact})
    if args.json:
        print_json(reply)
        return 0
    if args.verb == "thread":
        show_records(reply["artifacts"])
        return 0
    if reply["artifact"] is None:
        raise NotFound(f"there is no record {args.artifact!r}", hint="'lorelog task show TASK' lists a task's records")
    related = [*reply["replies"], *reply["superseded_by"]]
    show_record(reply["artifact"], {record["artifact_id"]: record.get("writer", "") for record in related})
    for title, records in (("Replies", reply["replies"]), ("Superseded by", reply["superseded_by"])):
        if records:
            print(f"\n{stylize(title, 'bold')}")
            show_records(records)
    print_notes(reply)
    return 0
