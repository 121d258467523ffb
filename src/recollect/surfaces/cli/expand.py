"""Show the whole section around a hit, from its file.

The id is what search and list show; its first characters are enough. An anchor's session and transcript are shown with it,
and about how many tokens the section and the transcript cost to read.

examples:
  recollect expand 65fcbf6e
  recollect expand 65fcbf6e --lines 5         five lines before and after instead
  recollect expand 65fcbf6e --json
"""

from __future__ import annotations

import argparse

from recollect.core.memory import ExpandReply
from recollect.surfaces.cli.arguments import add_common, engine_of
from recollect.surfaces.cli.paper import note, one_line, printable, short_path, styled
from recollect.surfaces.cli.shapes import expand_shape, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    parser.add_argument(
        "-n", "--lines", type=int, metavar="N", help="show N lines around the hit instead of its section"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the section."""
    with engine_of(args) as engine:
        reply = engine.expand(args.id, lines=args.lines)
    if args.json:
        print_json(expand_shape(reply))
    else:
        _show(reply)
    return 0


def _show(reply: ExpandReply) -> None:
    chunk = reply.chunk.chunk
    place = f"{short_path(chunk.source)}:{reply.start_line}-{reply.end_line}"
    cost = styled(f"~{reply.tokens:,} tokens", "dim")
    head = (styled(place, "cyan"), chunk.date.replace("T", " "), one_line(chunk.type), cost)
    print("  ".join(part for part in head if part))
    if chunk.heading_path:
        print(styled(one_line(" > ".join(chunk.heading_path)), "bold"))
    if chunk.anchor and chunk.anchor.session:
        turn = f"  turn {chunk.anchor.turn}" if chunk.anchor.turn else ""
        print(one_line(f"session {chunk.anchor.session}{turn}"))
    if reply.transcript:
        missing = "" if reply.transcript_exists or "://" in reply.transcript else "  (not there)"
        cost = "" if reply.transcript_tokens is None else f"  ~{reply.transcript_tokens:,} tokens"
        print(one_line(f"transcript {short_path(reply.transcript)}{missing}{cost}"))
    print()
    print(printable(reply.content))
    for text in reply.notes:
        note(text)
