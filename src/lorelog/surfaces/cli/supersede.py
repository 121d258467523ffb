"""Put a new memory in the place of an old one, which is hidden from then on.

Both stay in their files; the new one says whose place it takes. It keeps type and tags of the old one unless others are
given. Deleting the new one brings the old one back, and 'lorelog search --include-superseded' shows both.

examples:
  lorelog supersede 65fcbf6e "Redis TTL is 10 minutes since the price feed is slower"
  lorelog supersede 65fcbf6e - --type decision < decision.md
"""

from __future__ import annotations

from lorelog.surfaces.cli.add import read_text, show_added
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of the memory that no longer holds, or its first characters")
    parser.add_argument("text", metavar="TEXT", help="what holds now; '-' reads standard input")
    parser.add_argument("--type", default="", metavar="TYPE", help="kind of memory (default: the old one's)")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable; default: the old one's)"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Supersede, and fail when it is saved but cannot be searched for."""
    request = {"id": args.id, "text": read_text(args.text), "type": args.type, "tags": args.tag}
    reply = ask(args, "memory.supersede", request, starts=True)
    if args.json:
        print_json(reply)
    else:
        show_added(reply)
        note(f"in the place of {one_line(reply['supersedes'])}; 'lorelog delete {reply['id'][:8]}' takes it back")
    return 0 if reply["searchable"] else 1
