"""Summarize this project's tasks, failures, decisions and evidence for a newcomer.

The summary is compiled from records. Every sentence cites its records and has a trust badge; 'lorelog show ID'
shows a record.

examples:
  lorelog brief
  lorelog brief --query "the cache"
  lorelog brief --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, print_json, stylize
from lorelog.surfaces.cli.render.records import short_record_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_OVERVIEW = "Overview"
_FOREIGN_ORIGINS = ("tool", "import")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--query", default="", metavar="TEXT", help="topic; matching entries come first")
    parser.add_argument(
        "-k",
        type=int,
        default=10,
        metavar="N",
        help="maximum number of failures, decisions and pieces of evidence, each (default 10)",
    )
    parser.add_argument("--no-related", action="store_true", help="omit related projects")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the brief."""
    request = {"query": args.query, "k": args.k, "include_related_projects": not args.no_related}
    reply = call_operation(args, "context.brief_project", request)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def format_item_badge(item: dict[str, Any]) -> str:
    """Return the trust badge of an item's record."""
    trust, origin = item["trust"], item["origin"]
    if trust["tainted"]:
        mark = f"tainted: {origin}" if origin in _FOREIGN_ORIGINS else "tainted"
        return f"[{mark}, verified]" if _is_verified(trust) else f"[{mark}]"
    if not _is_verified(trust):
        return "[record]"
    return "[verified, signed]" if trust["tier"] == "verified_record" and trust["signed"] else "[verified]"


def _is_verified(trust: dict[str, Any]) -> bool:
    return trust["tier"] == "verified_record" or bool(trust["verified_by"])


def _show(reply: dict[str, Any]) -> None:
    digest, brief = reply["artifact"], reply["brief"]
    if not digest["lines"]:
        print("Nothing is recorded here yet; use 'lorelog task start \"…\"'.")
        return
    print(one_line(brief["overview"]))
    items = {item["artifact_id"]: item for name in ("failures", "decisions", "evidence") for item in brief[name]}
    ids = short_record_ids(digest["related_artifact_ids"])
    section = _OVERVIEW
    for line in digest["lines"]:
        if line["section"] == _OVERVIEW:
            continue
        if line["section"] != section:
            section = line["section"]
            print(f"\n{stylize(section, 'bold')}")
        item = items.get(line["artifact_ids"][0])
        badge = format_item_badge(item) if item else ("[tainted]" if line["tainted"] else "[record]")
        cited = " ".join(ids[record] for record in line["artifact_ids"])
        print(f"  {one_line(line['text'])} {_colour_badge(badge)} {stylize(one_line(cited), 'dim')}")


def _colour_badge(badge: str) -> str:
    return stylize(badge, "yellow" if "tainted" in badge else "green" if "verified" in badge else "dim")
