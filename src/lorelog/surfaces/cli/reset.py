"""Delete the index of all projects. Your Markdown files, memories and records are kept.

All projects of a tenant share one index. 'lorelog index' in a project, or the daemon, builds it again; to drop the files of one
directory only, use 'lorelog index --remove PATH'.

examples:
  lorelog reset
  lorelog reset --yes
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_setting_options
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_setting_options(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Ask for confirmation, then delete."""
    if not args.yes and not _confirm(args):
        print("Nothing deleted.", file=sys.stderr)
        return 1
    reply = call_operation(args, "memory.reset", {})
    if args.json:
        print_json(reply)
    else:
        print(f"Deleted the index of all projects in {short_path(reply['deleted'])}. Your files are unchanged.")
        print_note("'lorelog index' in each project, or the daemon, builds it again")
    return 0


def _confirm(args: argparse.Namespace) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "cannot ask for confirmation: standard input is not a terminal", hint="use --yes to delete the index"
        )
    stats = call_operation(args, "memory.stats", {})
    amount = f"{plural(stats['documents'], 'document')} of all projects"
    question = f"Delete the index in {short_path(stats['location'])} ({amount})? Your files are kept. [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
