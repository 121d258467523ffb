"""Replace a memory with a new one. The old one is hidden.

Both stay in their files; the new one names the old one. It takes the type, tags and cues of the old one unless others
are given.
Deleting the new one shows the old one again, and 'lorelog search --include-superseded' shows both.

examples:
  lorelog supersede 65fcbf6e "Redis TTL is 10 minutes now"
  lorelog supersede 65fcbf6e - --type decision < decision.md
"""

from __future__ import annotations

from lorelog.surfaces.cli.add import add_cue_options, add_keep_secrets, cues_of, read_text, show_added
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note
from lorelog.surfaces.cli.show import describe_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of the outdated memory, or its first characters")
    parser.add_argument("text", metavar="TEXT", help="text of the new memory; '-' reads standard input")
    parser.add_argument("--type", default="", metavar="TYPE", help="type of memory (default: that of the old one)")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable; default: those of the old one)"
    )
    add_cue_options(parser)
    add_keep_secrets(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Supersede; fail if the new memory was saved but is not searchable."""
    request = {
        "id": args.id,
        "text": read_text(args.text),
        "type": args.type,
        "tags": args.tag,
        "cues": cues_of(args),
        "keep_secrets": args.keep_secrets,
    }
    reply = call_operation(args, "memory.supersede", request, start_daemon=True)
    if args.json:
        print_json(reply)
    else:
        show_added(reply)
        print_note(f"replaces {describe_memory(args, args.id)}; 'lorelog delete {reply['id'][:8]}' undoes this")
    return 0 if reply["searchable"] else 1
