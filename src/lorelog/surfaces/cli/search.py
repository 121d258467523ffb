"""Search memories and notes by keywords and by meaning.

Keyword and semantic matches are combined into one ranking. Each hit shows its location, whether it is a strong, likely or
weak match, its date, type, tags and id, and a snippet with the matching words marked; a record shows its id and trust
level. --explain shows scores, probabilities and full ids. With --token-budget the best set of hits that fits is shown, full
sections first. --format tsv prints one line per hit for fzf and other programs ('lorelog docs search'). Questions about code ("who calls parse_config", "where is Engine
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
  lorelog search redis -k 50 --format tsv
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import (
    FUSIONS,
    LANES,
    add_common,
    add_filters,
    add_lifecycle_filters,
    add_setting_options,
    filters_of,
    fraction,
    lifecycle_filters_of,
)
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    format_freshness,
    format_lifecycle,
    format_origin,
    format_repository,
    one_line,
    plural,
    print_json,
    print_note,
    printable,
    short_path,
    stylize,
)
from lorelog.surfaces.cli.render.hits import (
    INDENT,
    format_change,
    format_head,
    format_row,
    format_snippet,
    location_fields,
    record_fields,
    record_ids,
    short_ids,
    wrap_styled,
)
from lorelog.surfaces.cli.render.layout import wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from lorelog.operations.replies import Json

_MAX_K = 100_000
"""The operation returns at most this many hits; larger values are lowered to it."""
_MIN_SHOWN_VALUE = 0.00005
"""Smaller parts would be printed as 0.0000."""


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
    parser.add_argument("--explain", action="store_true", help="show scores, their parts, probabilities and full ids")
    parser.add_argument(
        "--format",
        choices=("text", "tsv"),
        default="text",
        help="tsv: id, path, line, confidence, date and first line of each hit, separated by tabs",
    )
    parser.add_argument(
        "--short", action="store_true", help="print one short entry per memory, as plain text: for agents"
    )
    add_lifecycle_filters(parser)
    add_filters(parser)
    add_setting_options(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Search and print the hits; no hits is not a failure."""
    if args.json and args.format != "text":
        raise UsageError("--json and --format exclude each other", hint="use one of them")
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
    elif args.format == "tsv":
        for hit in reply["hits"]:
            print(format_row(hit))
        _show_notes(reply)
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
    _show_notes(reply)


def _show_notes(reply: Json) -> None:
    for text in reply["notes"]:
        print_note(text)


def _show(reply: Json, *, explain: bool) -> None:
    hits, packing = reply["hits"], reply["packing"]
    if reply["code"]:
        from lorelog.surfaces.cli.render.code import show_code_answer

        show_code_answer(reply["code"])
    elif not hits and not (packing and packing["dropped"]):
        print("Nothing found.")
    records, ids = record_ids(hits), short_ids(hit["id"] for hit in hits)
    numbers = {hit["id"]: f"hit {number}" for number, hit in enumerate(hits, 1)}
    for number, hit in enumerate(hits, 1):
        _show_hit(number, hit, records.get(hit["id"], ""), ids, numbers, explain=explain)
    if hits and not packing:
        print(stylize("lorelog show ID shows one in full.", "dim"))
    if explain and reply["weighing"]:
        print_note(f"lane weights: {reply['weighing']}")
    if packing:
        print_note(f"about {packing['spent']:,} of {packing['budget']:,} tokens")
        if packing["dropped"]:
            print_note(_format_dropped(packing["dropped"]))
    _show_notes(reply)


def _format_dropped(dropped: Sequence[Json]) -> str:
    """Return one line about all hits that a token budget left out."""
    shortest = min(omitted["tokens"] for omitted in dropped)
    return f"left out: {plural(len(dropped), 'hit')}, of {shortest:,} tokens or more (--json lists them)"


def _show_hit(
    number: int, hit: Json, record: str, ids: Mapping[str, str], numbers: Mapping[str, str], *, explain: bool
) -> None:
    fields = record_fields(hit, record) if record else location_fields(hit, _format_lines(hit), ids[hit["id"]])
    print(format_head(f"{number}. ", fields))
    if explain:
        relevance = f"{hit['relevance']:.0%}" if hit["relevance"] else "unknown"
        print(f"{INDENT}score {hit['score']:.3f}  relevance {relevance}  id {hit['id']}")
    path = hit["heading_path"][:1] if record else hit["heading_path"]
    if path:
        print(wrap_styled(one_line(" > ".join(path)), "bold"))
    changes = (format_change(change, numbers.get(change["other"], change["other"])) for change in hit["now_was"])
    warnings = (
        format_lifecycle(hit.get("lifecycle")),
        format_freshness(hit.get("freshness")),
        format_repository(hit),
        *changes,
    )
    for warning in warnings:
        if warning:
            print(wrap_styled(warning, "yellow"))
    _show_trust(hit)
    _show_text(hit, ids)
    for other in hit["duplicates"]:
        print(wrap_styled(f"also in {short_path(other)}", "dim"))
    if explain:
        _show_explanation(hit)
    print()


def _format_lines(hit: Json) -> str:
    packed = hit.get("packed")
    shown = packed if packed and not packed["within"] else hit
    return f"{shown['start_line']}-{shown['end_line']}"


def _show_trust(hit: Json) -> None:
    """Print a record's trust badge, or the origin of a tainted memory."""
    trust = hit["trust"]
    if trust["tier"] == "semantic_candidate":
        origin = (hit["anchor"] or {}).get("origin", "")
        if trust["tainted"]:
            print(wrap_styled(f"from {format_origin(origin)}", "yellow"))
        return
    from lorelog.surfaces.cli.render.records import format_badge

    badge = format_badge(trust, {})
    if badge != "record":  # the first line already says that it is a record
        print(INDENT + badge)


def _show_explanation(hit: Json) -> None:
    parts = [part for part in hit["explanation"] if abs(part["value"]) >= _MIN_SHOWN_VALUE or part["name"] in LANES]
    width = max(len(part["name"]) for part in parts)
    margin = " " * (len(INDENT) + len("+0.0000  ") + width + 2)
    for part in parts:
        note = wrap(one_line(part["note"]), margin).lstrip(" ")
        print(f"{INDENT}{part['value']:+.4f}  {part['name']:<{width}}  {note}".rstrip())
    print(f"{INDENT}{hit['score']:+.4f}  total")


def _show_text(hit: Json, ids: Mapping[str, str]) -> None:
    """Print a hit's text: its snippet, or what a token budget allows. A whole section is printed as it is."""
    packed = hit.get("packed")
    if packed is None:
        print(format_snippet(hit))
    elif packed["within"]:
        print(wrap_styled(f"in the section shown for {ids.get(packed['within'], packed['within'])}", "dim"))
    elif packed["form"] == "snippet":
        print(wrap(printable(packed["text"]), INDENT))
    else:
        print(printable(packed["text"]))
