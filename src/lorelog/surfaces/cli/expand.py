"""Show the whole section around a hit, from its file.

The id is what search and list show; its first characters are enough. An anchor's session and transcript are shown with it,
and about how many tokens the section and the transcript cost to read.

examples:
  lorelog expand 65fcbf6e
  lorelog expand 65fcbf6e --lines 5         five lines before and after instead
  lorelog expand 65fcbf6e --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, print_json, printable, short_path, styled
from lorelog.surfaces.cli.records_paper import place_told, worth_told

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import ExpandShape, TranscriptPlaceShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    parser.add_argument(
        "-n", "--lines", type=int, metavar="N", help="show N lines around the hit instead of its section"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the section."""
    reply = ask(args, "memory.expand", {"id": args.id, "lines": args.lines})
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(reply: ExpandShape) -> None:
    place = place_told(reply, reply["trust"])
    cost = styled(f"~{reply['tokens']:,} tokens", "dim")
    head = (styled(place, "cyan"), reply["date"].replace("T", " "), one_line(reply["type"]), cost)
    print("  ".join(part for part in head if part))
    if reply["heading_path"]:
        print(styled(one_line(" > ".join(reply["heading_path"])), "bold"))
    anchor = reply["anchor"] or {}
    if told := worth_told(reply["trust"], anchor.get("origin", "")):
        print(told)
    if anchor.get("session"):
        turn = f"  turn {anchor['turn']}" if anchor.get("turn") else ""
        print(one_line(f"session {anchor['session']}{turn}"))
    if reply["transcript"]:
        _show_place(reply["transcript"], reply["id"])
    print()
    print(printable(reply["content"]))
    if reply["covers"]:
        print()
        for one in reply["covers"]:
            where = f"{short_path(one['source'])}:{one['start_line']}-{one['end_line']}"
            print(f"  {one['content_hash'][:8]}  {one['date'][:10]}  {styled(where, 'cyan')}")
        if reply["covered"] > len(reply["covers"]):
            print(f"  and {reply['covered'] - len(reply['covers']):,} more")
    for text in reply["notes"]:
        note(text)


def _show_place(transcript: TranscriptPlaceShape, identity: str) -> None:
    address, tokens = transcript["address"], transcript["tokens"]
    missing = "" if transcript["exists"] or "://" in address else "  (not there)"
    cost = "" if tokens is None else f"  ~{tokens:,} tokens: lorelog transcript {identity[:8]}"
    print(one_line(f"transcript {short_path(address)}{missing}{cost}"))
