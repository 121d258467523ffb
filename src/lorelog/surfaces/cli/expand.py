"""Show the full section around a search hit, from its file.

ID is shown by search and list; its first characters are enough. Also shown are the session and transcript that the memory
came from, and about how many tokens the section and the transcript have.

examples:
  lorelog expand 65fcbf6e
  lorelog expand 65fcbf6e --lines 5     five lines before and after instead
  lorelog expand 65fcbf6e --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    format_repository,
    one_line,
    print_json,
    print_note,
    printable,
    short_path,
    stylize,
)
from lorelog.surfaces.cli.render.records import format_location, format_trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", metavar="ID", help="id of a chunk or memory, or its first characters")
    parser.add_argument(
        "-n", "--lines", type=int, metavar="N", help="show N lines around the hit instead of its section"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the section."""
    reply = call_operation(args, "memory.expand", {"id": args.id, "lines": args.lines})
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(reply: Json) -> None:
    place = format_location(reply, reply["trust"])
    cost = stylize(f"~{reply['tokens']:,} tokens", "dim")
    head = (stylize(place, "cyan"), reply["date"].replace("T", " "), one_line(reply["type"]), cost)
    print("  ".join(part for part in head if part))
    if reply["heading_path"]:
        print(stylize(one_line(" > ".join(reply["heading_path"])), "bold"))
    anchor = reply["anchor"] or {}
    if trust := format_trust(reply["trust"], anchor.get("origin", "")):
        print(trust)
    if repository := format_repository(reply):
        print(stylize(repository, "yellow"))
    if anchor.get("session"):
        turn = f"  turn {anchor['turn']}" if anchor.get("turn") else ""
        print(one_line(f"session {anchor['session']}{turn}"))
    if reply["transcript"]:
        _show_transcript_location(reply["transcript"], reply["id"])
    print()
    print(printable(reply["content"]))
    if reply["covers"]:
        print()
        for source in reply["covers"]:
            where = f"{short_path(source['source'])}:{source['start_line']}-{source['end_line']}"
            print(f"  {source['content_hash'][:8]}  {source['date'][:10]}  {stylize(where, 'cyan')}")
        if reply["covered"] > len(reply["covers"]):
            print(f"  and {reply['covered'] - len(reply['covers']):,} more")
    for text in reply["notes"]:
        print_note(text)


def _show_transcript_location(transcript: Json, identity: str) -> None:
    address, tokens = transcript["address"], transcript["tokens"]
    missing = "" if transcript["exists"] or "://" in address else "  (not available)"
    cost = "" if tokens is None else f"  ~{tokens:,} tokens: lorelog transcript {identity[:8]}"
    print(one_line(f"transcript {short_path(address)}{missing}{cost}"))
