"""Find what was learned.

Words and meaning are searched together and fused; each hit shows its score, how likely it is relevant at all, where it
stands, its date, a snippet with the matching words marked, and what it would cost to expand it. Of a record it shows the id, the task
and what it is worth. --explain shows the parts of each score, which add up to it. Under a token budget the best set that fits
is shown, whole sections first, and what was left out is named. A question about code ("who calls parse_config", "where is Engine
defined", "what imports requests") is answered from the code, too, above the hits, where 'lorelog code index' has read it.

examples:
  lorelog search "why did we choose redis"
  lorelog search parse_config --lane lexical
  lorelog search "webhook retries" --since 2w --type decision --json
  lorelog search "deploy steps" --all-projects -k 10 --explain
  lorelog search "how do deploys work" -k 20 --token-budget 2000
  lorelog search "which cache did we decide on" --trust verified
  lorelog search who calls parse_config
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import FUSIONS, LANES, add_common, add_filters, add_hidden, filters_of, hidden_of
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import (
    expandable,
    fate_told,
    labelled,
    marked,
    note,
    one_line,
    origin_told,
    print_json,
    printable,
    short_path,
    stale_told,
    styled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lorelog.operations.replies import HitShape, SearchShape

_MOST = 100_000
"""Hits that an operation gives at once; whoever asks for more gets these."""
_SHOWN = 0.00005
"""Parts below this would be printed as 0.0000."""
_OF_RECORDS = ("canonical_record", "verified_record")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="a question or words")
    parser.add_argument("-k", "--top-k", dest="k", type=int, metavar="N", help="how many hits (search.k)")
    parser.add_argument("--lane", choices=LANES, help="words, meaning, or both (search.lane)")
    parser.add_argument("--fusion", choices=FUSIONS, help="how both become one score (search.fusion)")
    parser.add_argument(
        "--token-budget",
        type=int,
        metavar="N",
        help="show the best that fits into N tokens, whole sections where they fit (search.token_budget)",
    )
    parser.add_argument(
        "--min-relevance",
        type=float,
        metavar="P",
        help="leave out hits that are less likely than this to be relevant, 0 to 1 (search.min_relevance)",
    )
    parser.add_argument(
        "--trust",
        choices=("canonical", "verified"),
        help="only records, or only those that a second writer stands by",
    )
    parser.add_argument("--explain", action="store_true", help="show the parts of each score")
    add_hidden(parser)
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Search and show the hits; finding nothing is not a failure."""
    request = {
        "query": " ".join(args.query),
        "k": args.k and min(args.k, _MOST),
        "lane": args.lane,
        "fusion": args.fusion,
        "token_budget": args.token_budget,
        "min_relevance": args.min_relevance,
        "explain": args.explain,
        "trust": args.trust or "any",
        **hidden_of(args),
        **filters_of(args),
    }
    reply = ask(args, "memory.search", request, starts=True)
    if args.json:
        print_json(reply)
    else:
        _show(reply, explain=args.explain)
    return 0


def _show(reply: SearchShape, *, explain: bool) -> None:
    packing = reply["packing"]
    if reply["code"]:
        from lorelog.surfaces.cli.code_paper import show_answer

        show_answer(reply["code"])
    elif not reply["hits"] and not (packing and packing["dropped"]):
        print("Nothing found.")
    records = _records(reply["hits"])
    for number, hit in enumerate(reply["hits"], 1):
        _show_hit(number, hit, records.get(hit["id"], ""), explain=explain)
    if explain and reply["weighing"]:
        note(f"lanes weighed {reply['weighing']}")
    if packing:
        note(f"about {packing['spent']:,} of {packing['budget']:,} tokens")
        for one in packing["dropped"]:
            place = f"{short_path(one['source'])}:{one['start_line']}-{one['end_line']}"
            note(f"left out: {one['id']}  {place}  at least {one['tokens']:,} tokens; {one['reason']}")
    for text in reply["notes"]:
        note(text)


def _records(hits: Sequence[HitShape]) -> dict[str, str]:
    """Return for each hit that is made from a record the first characters of the record's id."""
    behind = {
        hit["id"]: hit["grounding_refs"][0]["artifact_id"]
        for hit in hits
        if hit["trust"]["tier"] in _OF_RECORDS and hit["grounding_refs"]
    }
    if not behind:
        return {}
    from lorelog.surfaces.cli.records_paper import shortened

    short = shortened(behind.values())
    return {one: short[record] for one, record in behind.items()}


def _show_hit(number: int, hit: HitShape, record: str, *, explain: bool) -> None:
    rank = [f"{number}.", styled(f"{hit['score']:.3f}", "green"), f"{hit['relevance']:.0%} likely"]
    parts = [*rank, *(_record_told(hit, record) if record else _place_told(hit))]
    print("  ".join(part for part in parts if part))
    path = hit["heading_path"][:1] if record else hit["heading_path"]
    if path:
        print("   " + styled(one_line(" > ".join(path)), "bold"))
    told = fate_told(hit.get("fate"))
    if told:
        print("   " + styled(told, "yellow"))
    stale = stale_told(hit.get("freshness"))
    if stale:
        print("   " + styled(stale, "yellow"))
    worth = _worth(hit)
    if worth:
        print("   " + worth)
    _show_text(hit, record)
    for other in hit["duplicates"]:
        print("   " + styled(f"also in {short_path(other)}", "dim"))
    if explain:
        _explain(hit)
    print()


def _place_told(hit: HitShape) -> list[str]:
    packed = hit.get("packed")
    start, end = hit["start_line"], hit["end_line"]
    if packed and not packed["within"]:
        start, end = packed["start_line"], packed["end_line"]
    place = styled(f"{short_path(hit['source'])}:{start}-{end}", "cyan")
    labels = labelled(hit["type"], hit["tags"])
    return [place, hit["date"].replace("T", " "), labels, styled(hit["id"], "dim")]


def _record_told(hit: HitShape, record: str) -> list[str]:
    """Return which record it is. Where its page lies says nothing: pages are made from the ledger, and made anew."""
    by = hit["heading"].partition(" by ")[2]
    said = f"{one_line(hit['type'])}{f' by {one_line(by)}' if by else ''}"
    return [styled(f"record {record}", "cyan"), hit["date"].replace("T", " "), said]


def _worth(hit: HitShape) -> str:
    """Return what a record is worth, and where text comes from that nobody here has written; nothing for other memories."""
    trust = hit["trust"]
    if trust["tier"] == "semantic_candidate":
        origin = (hit["anchor"] or {}).get("origin", "")
        return styled(f"from {origin_told(origin)}", "yellow") if trust["tainted"] else ""
    from lorelog.surfaces.cli.records_paper import badge_of

    worth = badge_of(trust, {})
    return "" if worth == "record" else worth  # that it is one has been said


def _explain(hit: HitShape) -> None:
    parts = [part for part in hit["explanation"] if abs(part["value"]) >= _SHOWN or part["name"] in LANES]
    width = max(len(part["name"]) for part in parts)
    for part in parts:
        print(f"   {part['value']:+.4f}  {part['name']:<{width}}  {part['note']}")
    print(f"   {hit['score']:+.4f}  together")


def _show_text(hit: HitShape, record: str) -> None:
    """Print what a hit says; without a budget, also what it would cost to read on, and how."""
    packed = hit.get("packed")
    if packed is None:
        print("   " + marked(printable(hit["snippet"]), hit["matches"]))
        more = f"lorelog artifact show {record}" if record else expandable(hit["id"], hit["expand_tokens"])
        print("   " + styled(more, "dim"))
    elif packed["within"]:
        print("   " + styled(f"in the section of {packed['within']}", "dim"))
    elif packed["form"] == "snippet":
        print("   " + printable(packed["text"]))
    else:
        print(printable(packed["text"]))
