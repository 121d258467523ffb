"""Tell what somebody should know who comes to this project: tasks, failures, decisions, evidence.

It is compiled from records and worth a hint; every sentence names the records that it rests on, and a badge tells how far each
may be believed. 'lorelog artifact show ID' shows a record.

examples:
  lorelog brief
  lorelog brief --query "the cache"
  lorelog brief --json
"""

from __future__ import annotations

import sys

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import one_line, print_json, styled
from lorelog.surfaces.cli.records_paper import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_OVERVIEW = "Overview"
_FOREIGN = ("tool", "import")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--query", default="", metavar="TEXT", help="what it is wanted for: what fits comes first")
    parser.add_argument(
        "-k", type=int, default=10, metavar="N", help="how many failures, decisions and evidence, of each"
    )
    parser.add_argument("--no-related", action="store_true", help="do not name other projects that share a subject")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the brief."""
    asked = {"query": args.query, "k": args.k, "include_related_projects": not args.no_related}
    reply = ask(args, "context.brief_project", asked)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def badge(item: dict[str, Any]) -> str:
    """Return what an item's record is worth, at a glance."""
    trust, origin = item["trust"], item["origin"]
    if trust["tainted"]:
        mark = f"tainted: {origin}" if origin in _FOREIGN else "tainted"
        return f"[{mark}, verified]" if _is_verified(trust) else f"[{mark}]"
    if not _is_verified(trust):
        return "[record]"
    return "[verified, signed]" if trust["tier"] == "verified_record" and trust["signed"] else "[verified]"


def _is_verified(trust: dict[str, Any]) -> bool:
    return trust["tier"] == "verified_record" or bool(trust["verified_by"])


def _show(reply: dict[str, Any]) -> None:
    from lorelog.core.record import DIGEST_MARK

    digest, brief = reply["artifact"], reply["brief"]
    if not digest["lines"]:
        print("Nothing is recorded here yet. 'lorelog task start \"…\"' begins.")
        return
    if not sys.stdout.isatty():
        print(f"{DIGEST_MARK} {digest['artifact_id']} -->")  # whoever keeps it in a file keeps it out of the index
    print(one_line(brief["overview"]))
    items = {one["artifact_id"]: one for name in ("failures", "decisions", "evidence") for one in brief[name]}
    ids = shortened(digest["related_artifact_ids"])
    section = _OVERVIEW
    for line in digest["lines"]:
        if line["section"] == _OVERVIEW:
            continue
        if line["section"] != section:
            section = line["section"]
            print(f"\n{styled(section, 'bold')}")
        known = items.get(line["artifact_ids"][0])
        worth = badge(known) if known else ("[tainted]" if line["tainted"] else "[record]")
        cites = " ".join(ids[one] for one in line["artifact_ids"])
        print(f"  {one_line(line['text'])} {_coloured(worth)} {styled(one_line(cites), 'dim')}")


def _coloured(worth: str) -> str:
    return styled(worth, "yellow" if "tainted" in worth else "green" if "verified" in worth else "dim")
