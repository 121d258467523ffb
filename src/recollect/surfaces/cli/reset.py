"""Delete the index. Your Markdown files stay, and 'recollect index' makes the index anew.

examples:
  recollect reset
  recollect reset --yes
"""

from __future__ import annotations

import argparse
import sys

from recollect.core.errors import UsageError
from recollect.surfaces.cli.arguments import add_common, engine_of
from recollect.surfaces.cli.paper import short_path
from recollect.surfaces.cli.shapes import print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, then delete."""
    with engine_of(args) as engine:
        location = str(engine.place.tenant_folder / "index")
        if not args.yes and not _confirmed(location):
            print("Nothing deleted.", file=sys.stderr)
            return 1
        engine.reset()
    if args.json:
        print_json({"deleted": location})
    else:
        print(f"Deleted the index in {short_path(location)}. Your files are untouched.")
    return 0


def _confirmed(location: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("reset deletes the index and cannot ask here", hint="say so with --yes")
    print(f"Delete the index in {short_path(location)}? Your files stay. [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
