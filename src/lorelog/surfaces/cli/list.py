"""List memories or documents, newest first.

examples:
  lorelog list                              the newest memories of this project
  lorelog list --documents
  lorelog list --due                        what should be looked at again
  lorelog list --since 7d --type decision
  lorelog list --all-projects -n 100 --json
"""

from __future__ import annotations

import re

from lorelog.surfaces.cli.arguments import add_common, add_filters, add_hidden, filters_of, hidden_of
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import fate_told, labelled, note, one_line, plural, print_json, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import ListShape

_WIDTH = 100
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--documents", action="store_true", help="list files instead of memories")
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="at most so many (default 20)")
    parser.add_argument("--due", action="store_true", help="only memories that should be looked at again by now")
    add_hidden(parser)
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """List."""
    chosen = {"documents": args.documents, "limit": args.limit, "due": args.due, **hidden_of(args)}
    reply = ask(args, "memory.list", {**chosen, **filters_of(args)})
    if args.json:
        print_json(reply)
    else:
        _show(reply, due=args.due)
    return 0


def _show(reply: ListShape, *, due: bool) -> None:
    for document in reply["documents"]:
        source = styled(short_path(document["source"]), "cyan")
        print(f"{document['date']}  {source}  {one_line(document['title'])}  ({plural(document['chunks'], 'chunk')})")
    for memory in reply["memories"]:
        place = styled(f"{short_path(memory['source'])}:{memory['start_line']}", "cyan")
        labels = labelled(memory["type"], memory["tags"])
        gist = _gist(memory["content"], memory["heading"])
        parts = (
            f"{memory['date'].replace('T', ' '):<16}",
            place,
            labels,
            gist,
            styled(memory["id"], "dim"),
            fate_told(memory.get("fate")),
        )
        print("  ".join(part for part in parts if part))
    if due and not reply["memories"]:
        note("no memory is due to be looked at again")
    elif not reply["documents"] and not reply["memories"]:
        note("nothing here yet: 'lorelog index PATH' or 'lorelog add \"…\"'")
    elif reply["more"]:
        note("there are more; -n shows them")


def _gist(text: str, heading: str) -> str:
    lines = [line.strip() for line in _COMMENT.sub("", text).split("\n") if line.strip()]
    body = " ".join(line for line in lines if line.lstrip("# ").rstrip("# ") != heading)
    whole = one_line(body or heading)
    return whole if len(whole) <= _WIDTH else whole[: _WIDTH - 1] + "…"
