"""Show one record, what it is worth and what was said to it; or the whole thread that it stands in.

examples:
  lorelog artifact show 0195f3a2-9f01
  lorelog artifact thread 0195f3a2-9f01
"""

from __future__ import annotations

from lorelog.core.errors import NotFound
from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import print_json, styled
from lorelog.surfaces.cli.records_paper import show_record, show_records
from lorelog.surfaces.cli.task_write import say_notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    shown = add_verb(parser, verbs, "show", "show a record, and what replies to it")
    thread = add_verb(parser, verbs, "thread", "show the thread that a record stands in")
    for verb in (shown, thread):
        verb.add_argument("artifact", metavar="ARTIFACT", help="the record's id or its first characters")
        add_common(verb)


def run(args: argparse.Namespace) -> int:
    """Show it."""
    op = "artifact.get" if args.verb == "show" else "artifact.list_thread"
    reply = ask(args, op, {"artifact_id": args.artifact})
    if args.json:
        print_json(reply)
        return 0
    if args.verb == "thread":
        show_records(reply["artifacts"])
        return 0
    if reply["artifact"] is None:
        raise NotFound(f"there is no record {args.artifact!r}", hint="'lorelog task show TASK' lists a task's records")
    near = [*reply["replies"], *reply["superseded_by"]]
    show_record(reply["artifact"], {one["artifact_id"]: one.get("agent_id", "") for one in near})
    for title, records in (("Replies", reply["replies"]), ("Superseded by", reply["superseded_by"])):
        if records:
            print(f"\n{styled(title, 'bold')}")
            show_records(records)
    say_notes(reply)
    return 0
