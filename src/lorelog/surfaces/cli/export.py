"""Export memories as Markdown, or memories and records as JSON Lines.

For people and other programs. Use 'lorelog backup' for a copy that can be restored, and 'lorelog ledger export' to move records
to another home. Without --out the text is printed.

examples:
  lorelog export --out memories.md
  lorelog export --format jsonl --all-projects --out all.jsonl
  lorelog export --format jsonl --since 7d | jq .text
"""

from __future__ import annotations

import sys

from lorelog.surfaces.cli.arguments import add_common, expand_path
from lorelog.surfaces.cli.client import OperationClient, with_scope_flags
from lorelog.surfaces.cli.render import plural, print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--format", choices=("markdown", "jsonl"), default="markdown", help="markdown (default) or jsonl"
    )
    parser.add_argument("--out", metavar="FILE", help="file to write, or an existing directory; replaced if it exists")
    parser.add_argument("--all-projects", action="store_true", help="export the memories of all projects")
    parser.add_argument("--since", metavar="DAY", help="from this day on: 2026-03-05, yesterday, or an age such as 7d")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Export."""
    arguments = {"format": args.format, "all_projects": args.all_projects, "since": args.since}
    if args.out:
        arguments["out"] = expand_path(args.out)
    # In this process: the text may be larger than what the daemon sends.
    reply = OperationClient("off").call("memory.export", with_scope_flags(args, arguments))
    if args.json:
        print_json(reply)
    elif args.out:
        records = f" and {plural(reply['records'], 'record')}" if args.format == "jsonl" else ""
        print(f"Wrote {plural(reply['memories'], 'memory')}{records} to {short_path(reply['path'])}.")
    else:
        sys.stdout.write(reply["text"])
    return 0
