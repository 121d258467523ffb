"""Search memories and notes by keywords and by meaning.

Keyword and semantic matches are combined into one score. Each hit shows its score, how likely it is relevant, its location,
date, a snippet with the matching words marked, and how many tokens it takes to expand it; a record shows its id, task
and trust level. --explain shows the parts of each score. With --token-budget the best set of hits that fits is shown, full
sections first, and the hits left out are named. Questions about code ("who calls parse_config", "where is Engine
defined", "what imports requests") are also answered from the code index, if 'lorelog code index' has built one.

examples:
  lorelog search "why did we choose redis"
  lorelog search parse_config --lane lexical
  lorelog search "webhook retries" --since 2w --type decision --json
  lorelog search "deploy steps" --all-projects -k 10 --explain
  lorelog search "how do deploys work" -k 20 --token-budget 2000
  lorelog search "which cache did we decide on" --trust verified
  lorelog search who calls parse_config
  lorelog search "why did we choose redis" --short
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import (
    FUSIONS,
    LANES,
    add_common,
    add_filters,
    add_lifecycle_filters,
    filters_of,
    fraction,
    lifecycle_filters_of,
)
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    format_expand_hint,
    format_freshness,
    format_labels,
    format_lifecycle,
    format_origin,
    format_repository,
    highlight,
    one_line,
    print_json,
    print_note,
    printable,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lorelog.operations.replies import Json

_MAX_K = 100_000
"""The operation returns at most this many hits; larger values are lowered to it."""
_MIN_SHOWN_VALUE = 0.00005
"""Smaller parts would be printed as 0.0000."""
_RECORD_TIERS = ("canonical_record", "verified_record")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="a question or keywords")
    parser.add_argument("-k", "--top-k", dest="k", type=int, metavar="N", help="number of hits (search.k)")
    parser.add_argument("--lane", choices=LANES, help="keywords (lexical), meaning (dense), or both (search.lane)")
    parser.add_argument("--fusion", choices=FUSIONS, help="how both scores are combined (search.fusion)")
    parser.add_argument(
        "--token-budget",
        type=int,
        metavar="N",
        help="show the best hits that fit into N tokens, as full sections where possible (search.token_budget)",
    )
    parser.add_argument(
        "--min-relevance",
        type=fraction,
        metavar="P",
        help="omit hits that are less likely to be relevant than P, 0 to 1 (search.min_relevance)",
    )
    parser.add_argument(
        "--trust",
        choices=("canonical", "verified"),
        help="only records, or only records confirmed by a second writer",
    )
    parser.add_argument("--explain", action="store_true", help="show the parts of each score")
    parser.add_argument(
        "--short", action="store_true", help="print one short entry per memory, as plain text: for agents"
    )
    add_lifecycle_filters(parser)
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Search and print the hits; no hits is not a failure."""
    request = {
        "query": " ".join(args.query),
        "k": args.k and min(args.k, _MAX_K),
        "lane": args.lane,
        "fusion": args.fusion,
        "token_budget": args.token_budget,
        "min_relevance": args.min_relevance,
        "explain": args.explain,
        "trust": args.trust or "any",
        "one_per_memory": args.short,
        **lifecycle_filters_of(args),
        **filters_of(args),
    }
    reply = call_operation(args, "memory.search", request, start_daemon=True)
    if args.json:
        print_json(reply)
    elif args.short and not reply["packing"]:
        _show_short(reply)
    else:
        _show(reply, explain=args.explain)
    return 0


def _show_short(reply: Json) -> None:
    from lorelog.surfaces.mcp.short_hits import render_short_hits

    if reply["code"]:
        from lorelog.surfaces.cli.render.code import show_code_answer

        show_code_answer(reply["code"])
    print(printable(render_short_hits(reply["hits"], "lorelog show", short_path)))
    for text in reply["notes"]:
        print_note(text)


def _show(reply: Json, *, explain: bool) -> None:
    packing = reply["packing"]
    if reply["code"]:
        from lorelog.surfaces.cli.render.code import show_code_answer

        show_code_answer(reply["code"])
    elif not reply["hits"] and not (packing and packing["dropped"]):
        print("Nothing found.")
    records = _short_record_ids(reply["hits"])
    for number, hit in enumerate(reply["hits"], 1):
        _show_hit(number, hit, records.get(hit["id"], ""), explain=explain)
    if explain and reply["weighing"]:
        print_note(f"lane weights: {reply['weighing']}")
    if packing:
        print_note(f"about {packing['spent']:,} of {packing['budget']:,} tokens")
        for omitted in packing["dropped"]:
            place = f"{short_path(omitted['source'])}:{omitted['start_line']}-{omitted['end_line']}"
            cost = f"at least {omitted['tokens']:,} tokens"
            print_note(f"left out: {omitted['id']}  {place}  {cost}; {omitted['reason']}")
    for text in reply["notes"]:
        print_note(text)


def _short_record_ids(hits: Sequence[Json]) -> dict[str, str]:
    """Return the short record id of each hit that comes from a record."""
    record_ids = {
        hit["id"]: hit["grounding_refs"][0]["artifact_id"]
        for hit in hits
        if hit["trust"]["tier"] in _RECORD_TIERS and hit["grounding_refs"]
    }
    if not record_ids:
        return {}
    from lorelog.surfaces.cli.render.records import shorten_ids

    short = shorten_ids(record_ids.values())
    return {hit: short[record] for hit, record in record_ids.items()}


def _show_hit(number: int, hit: Json, record: str, *, explain: bool) -> None:
    rank = [f"{number}.", stylize(f"{hit['score']:.3f}", "green"), f"{hit['relevance']:.0%} likely"]
    parts = [*rank, *(_format_record(hit, record) if record else _format_location(hit))]
    print("  ".join(part for part in parts if part))
    path = hit["heading_path"][:1] if record else hit["heading_path"]
    if path:
        print("   " + stylize(one_line(" > ".join(path)), "bold"))
    warnings = (format_lifecycle(hit.get("fate")), format_freshness(hit.get("freshness")), format_repository(hit))
    for warning in warnings:
        if warning:
            print("   " + stylize(warning, "yellow"))
    trust = _format_trust(hit)
    if trust:
        print("   " + trust)
    _show_text(hit, record)
    for other in hit["duplicates"]:
        print("   " + stylize(f"also in {short_path(other)}", "dim"))
    if explain:
        _show_explanation(hit)
    print()


def _format_location(hit: Json) -> list[str]:
    packed = hit.get("packed")
    start, end = hit["start_line"], hit["end_line"]
    if packed and not packed["within"]:
        start, end = packed["start_line"], packed["end_line"]
    place = stylize(f"{short_path(hit['source'])}:{start}-{end}", "cyan")
    labels = format_labels(hit["type"], hit["tags"])
    return [place, hit["date"].replace("T", " "), labels, stylize(hit["id"], "dim")]


def _format_record(hit: Json, record: str) -> list[str]:
    """Return the record's id, date, type and writer. Its file is generated from the ledger, so its path is not shown."""
    writer = hit["heading"].partition(" by ")[2]
    label = f"{one_line(hit['type'])}{f' by {one_line(writer)}' if writer else ''}"
    return [stylize(f"record {record}", "cyan"), hit["date"].replace("T", " "), label]


def _format_trust(hit: Json) -> str:
    """Return a record's trust badge, or the origin of a tainted memory, or ''."""
    trust = hit["trust"]
    if trust["tier"] == "semantic_candidate":
        origin = (hit["anchor"] or {}).get("origin", "")
        return stylize(f"from {format_origin(origin)}", "yellow") if trust["tainted"] else ""
    from lorelog.surfaces.cli.render.records import format_badge

    badge = format_badge(trust, {})
    return "" if badge == "record" else badge  # the first line already says that it is a record


def _show_explanation(hit: Json) -> None:
    parts = [part for part in hit["explanation"] if abs(part["value"]) >= _MIN_SHOWN_VALUE or part["name"] in LANES]
    width = max(len(part["name"]) for part in parts)
    for part in parts:
        print(f"   {part['value']:+.4f}  {part['name']:<{width}}  {part['note']}")
    print(f"   {hit['score']:+.4f}  total")


def _show_text(hit: Json, record: str) -> None:
    """Print a hit's text; without a token budget also the command that shows more, and its cost."""
    packed = hit.get("packed")
    if packed is None:
        print("   " + highlight(printable(hit["snippet"]), hit["matches"]))
        more = f"lorelog show {record}" if record else format_expand_hint(hit["id"], hit["expand_tokens"])
        print("   " + stylize(more, "dim"))
    elif packed["within"]:
        print("   " + stylize(f"in the section shown for {packed['within']}", "dim"))
    elif packed["form"] == "snippet":
        print("   " + printable(packed["text"]))
    else:
        print(printable(packed["text"]))
