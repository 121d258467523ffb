"""Record a decision and its reason.

Use 'decide' for what was settled with others and may be checked: it has a writer and can be verified or superseded. Use
'lorelog add' for everything else that is worth remembering: it goes into your own Markdown files.

Decisions are found by search, are listed in briefs, and apply until superseded. A decision becomes verified when someone else
confirms it ('lorelog verify').

examples:
  lorelog decide "Redis TTL of 5 minutes" --because "legal limit" --as mara
  lorelog decide "Unique event_id" --because "no doubles" --task 0195f3a2-7c1e
  lorelog decide "TTL of 1 minute" --because "…" --supersedes 0195f3b0-11aa
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_record_options, add_repeatable, record_options_of
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note
from lorelog.surfaces.cli.render.records import print_record_written

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("decision", metavar="TEXT", help="the decision")
    parser.add_argument("--because", default="", metavar="TEXT", help="the reason")
    parser.add_argument("--task", metavar="TASK", help="the task it belongs to (default: none)")
    parser.add_argument("--supersedes", metavar="ID", help="the decision it replaces")
    add_repeatable(parser, "--validation", "how it was checked")
    add_repeatable(parser, "--uncertain", "what is uncertain")
    parser.add_argument(
        "--global", dest="to_global", action="store_true", help="make it visible in every project (without --task)"
    )
    add_record_options(parser)


def run(args: argparse.Namespace) -> int:
    """Record the decision."""
    request = {
        "summary": args.decision,
        "motivation": args.because,
        "task_id": args.task,
        "supersedes": args.supersedes,
        "validation": args.validation,
        "uncertainty": args.uncertain,
        "to_global": args.to_global,
        **record_options_of(args),
    }
    reply = call_operation(args, "artifact.decision", request)
    if args.json:
        print_json(reply)
    else:
        print_record_written("Decided", reply)
        if not args.because:
            print_note("say why, too: the next reader asks for the reason first (--because TEXT)")
    return 0
