"""Record what was decided, and why.

A decision is found by every search, stands in briefs, and is in force until another supersedes it. It becomes verified when
somebody else speaks for it ('lorelog verify').

examples:
  lorelog decide "Redis TTL of five minutes" --because "legal accepts no more" --as mara
  lorelog decide "A unique constraint on event_id" --because "the database refuses the second insert" --task 0195f3a2-7c1e
  lorelog decide "Redis TTL of one minute" --because "five were too long" --supersedes 0195f3b0-11aa
"""

from __future__ import annotations

from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import print_json
from lorelog.surfaces.cli.task_write import add_texts, add_writing, say_written, writing_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("decision", metavar="TEXT", help="what was decided")
    parser.add_argument("--because", required=True, metavar="TEXT", help="why")
    parser.add_argument("--task", metavar="TASK", help="the task that it belongs to; none if not given")
    parser.add_argument("--supersedes", metavar="ARTIFACT", help="the decision that it takes the place of")
    add_texts(parser, "--validation", "how it was checked")
    add_texts(parser, "--uncertain", "what is not certain")
    parser.add_argument("--global", dest="to_global", action="store_true", help="without a task: for every project")
    add_writing(parser)


def run(args: argparse.Namespace) -> int:
    """Record it."""
    request = {
        "summary": args.decision,
        "motivation": args.because,
        "task_id": args.task,
        "supersedes": args.supersedes,
        "validation": args.validation,
        "uncertainty": args.uncertain,
        "to_global": args.to_global,
        **writing_of(args),
    }
    reply = ask(args, "artifact.decision", request)
    if args.json:
        print_json(reply)
    else:
        say_written("Decided", reply)
    return 0
