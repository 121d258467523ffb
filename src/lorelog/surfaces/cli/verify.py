"""Confirm or dispute a record written by someone else.

A record becomes verified when someone other than its writer confirms it. The output says whether the confirmation counts:
promotion granted, or refused and why. It is recorded either way. Signed records prove who wrote them ('lorelog identity');
unsigned ones only claim it.

examples:
  lorelog verify 0195f3a2-9f01 "replayed 400 deliveries" --as otto
  lorelog verify 0195f3a2-9f01 "fails with 2 workers" --as otto --against
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_record_options, add_repeatable, record_options_of
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json
from lorelog.surfaces.cli.render.records import print_record_written

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("artifact", metavar="ID", help="the record's id or its first characters")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="what you checked and found")
    parser.add_argument("--note", metavar="TEXT", help="the same as TEXT")
    parser.add_argument("--against", action="store_true", help="dispute the record")
    add_repeatable(parser, "--validation", "how you checked it")
    add_record_options(parser)


def run(args: argparse.Namespace) -> int:
    """Record the verification. It succeeds once written, even if the record's trust does not change."""
    if args.text and args.note:
        raise UsageError("TEXT and --note are the same", hint="give one of them")
    request = {
        "reply_to_artifact_id": args.artifact,
        "supports_claim": not args.against,
        "summary": args.text or args.note,
        "validation": args.validation,
        **record_options_of(args),
    }
    reply = call_operation(args, "artifact.verification", request)
    if args.json:
        print_json(reply)
    else:
        print_record_written("Recorded objection" if args.against else "Recorded verification", reply)
    return 0
