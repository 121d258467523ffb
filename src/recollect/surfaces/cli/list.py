"""List memories or documents, newest first.

examples:
  recollect list                              the newest memories of this project
  recollect list --documents
  recollect list --since 7d --type decision
  recollect list --all-projects -n 100 --json
"""

from __future__ import annotations

import argparse

from recollect.core.memory import ListReply
from recollect.surfaces.cli.arguments import add_common, add_filters, engine_of, filters_of
from recollect.surfaces.cli.paper import labelled, note, one_line, plural, short_path, styled
from recollect.surfaces.cli.shapes import list_shape, print_json

_WIDTH = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--documents", action="store_true", help="list files instead of memories")
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="at most so many (default 20)")
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """List."""
    with engine_of(args) as engine:
        reply = engine.list(
            filters_of(args), documents=args.documents, limit=args.limit, all_projects=args.all_projects
        )
    if args.json:
        print_json(list_shape(reply))
    else:
        _show(reply)
    return 0


def _show(reply: ListReply) -> None:
    for document in reply.documents:
        source = styled(short_path(document.source), "cyan")
        print(f"{document.date}  {source}  {one_line(document.title)}  ({plural(document.chunk_count, 'chunk')})")
    for stored in reply.memories:
        chunk = stored.chunk
        place = styled(f"{short_path(chunk.source)}:{chunk.start_line}", "cyan")
        labels = labelled(chunk.type, chunk.tags)
        gist = _gist(chunk.text, chunk.heading)
        parts = (f"{chunk.date.replace('T', ' '):<16}", place, labels, gist, styled(stored.id, "dim"))
        print("  ".join(part for part in parts if part))
    if not reply.documents and not reply.memories:
        note("nothing here yet: 'recollect index PATH' or 'recollect add \"…\"'")
    elif reply.more:
        note("there are more; -n shows them")


def _gist(text: str, heading: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    body = " ".join(line for line in lines if line.lstrip("# ").rstrip("# ") != heading)
    whole = one_line(body or heading)
    return whole if len(whole) <= _WIDTH else whole[: _WIDTH - 1] + "…"
