"""Speak for another's record, or against it, after having checked it.

A record is verified when somebody other than its writer speaks for it. Whether that counts is computed from the ledger and said:
promotion granted, or refused and why. The record is written either way. Signed records prove who wrote them ('lorelog
identity'); unsigned ones only say so.

examples:
  lorelog verify 0195f3a2-9f01 --as otto --note "replayed 400 deliveries, 400 charges"
  lorelog verify 0195f3a2-9f01 --as otto --against --note "fails with two workers"
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
    parser.add_argument("artifact", metavar="ARTIFACT", help="the record's id or its first characters")
    parser.add_argument("--note", metavar="TEXT", help="what you found")
    parser.add_argument("--against", action="store_true", help="speak against it")
    add_texts(parser, "--validation", "how you checked")
    add_writing(parser)


def run(args: argparse.Namespace) -> int:
    """Record the verification. It succeeds when it is written, also where it moves no tier."""
    request = {
        "reply_to_artifact_id": args.artifact,
        "supports_claim": not args.against,
        "summary": args.note,
        "validation": args.validation,
        **writing_of(args),
    }
    reply = ask(args, "artifact.verification", request)
    if args.json:
        print_json(reply)
    else:
        say_written("Recorded objection" if args.against else "Recorded verification", reply)
    return 0
