"""Find what was learned.

Words and meaning are searched together and fused; each hit shows its score, how likely it is relevant at all, where it
stands, its date, a snippet with the matching words marked, and what it would cost to expand it. --explain shows the parts of each score, which add up to
it. Under a token budget the best set that fits is shown, whole sections first, and what was left out is named.

examples:
  recollect search "why did we choose redis"
  recollect search parse_config --lane lexical
  recollect search "webhook retries" --since 2w --type decision --json
  recollect search "deploy steps" --all-projects -k 10 --explain
  recollect search "how do deploys work" -k 20 --token-budget 2000
"""

from __future__ import annotations

from recollect.surfaces.cli.arguments import FUSIONS, LANES, add_common, add_filters, filters_of
from recollect.surfaces.cli.asking import ask
from recollect.surfaces.cli.paper import (
    expandable,
    labelled,
    marked,
    note,
    one_line,
    print_json,
    printable,
    short_path,
    styled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from recollect.operations.replies import HitShape, SearchShape

_MOST = 100_000
"""Hits that an operation gives at once; whoever asks for more gets these."""
_SHOWN = 0.00005
"""Parts below this would be printed as 0.0000."""


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
    parser.add_argument("--explain", action="store_true", help="show the parts of each score")
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
    if not reply["hits"] and not (packing and packing["dropped"]):
        print("Nothing found.")
    for number, hit in enumerate(reply["hits"], 1):
        _show_hit(number, hit, explain=explain)
    if explain and reply["weighing"]:
        note(f"lanes weighed {reply['weighing']}")
    if packing:
        note(f"about {packing['spent']:,} of {packing['budget']:,} tokens")
        for one in packing["dropped"]:
            place = f"{short_path(one['source'])}:{one['start_line']}-{one['end_line']}"
            note(f"left out: {one['id']}  {place}  at least {one['tokens']:,} tokens; {one['reason']}")
    for text in reply["notes"]:
        note(text)


def _show_hit(number: int, hit: HitShape, *, explain: bool) -> None:
    packed = hit.get("packed")
    start, end = hit["start_line"], hit["end_line"]
    if packed and not packed["within"]:
        start, end = packed["start_line"], packed["end_line"]
    rank = [f"{number}.", styled(f"{hit['score']:.3f}", "green"), f"{hit['relevance']:.0%} likely"]
    place = styled(f"{short_path(hit['source'])}:{start}-{end}", "cyan")
    labels = labelled(hit["type"], hit["tags"])
    parts = [*rank, place, hit["date"].replace("T", " "), labels, styled(hit["id"], "dim")]
    print("  ".join(part for part in parts if part))
    if hit["heading_path"]:
        print("   " + styled(one_line(" > ".join(hit["heading_path"])), "bold"))
    _show_text(hit)
    for other in hit["duplicates"]:
        print("   " + styled(f"also in {short_path(other)}", "dim"))
    if explain:
        _explain(hit)
    print()


def _explain(hit: HitShape) -> None:
    parts = [part for part in hit["explanation"] if abs(part["value"]) >= _SHOWN or part["name"] in LANES]
    width = max(len(part["name"]) for part in parts)
    for part in parts:
        print(f"   {part['value']:+.4f}  {part['name']:<{width}}  {part['note']}")
    print(f"   {hit['score']:+.4f}  together")


def _show_text(hit: HitShape) -> None:
    """Print what a hit says; without a budget, also what its section would cost."""
    packed = hit.get("packed")
    if packed is None:
        print("   " + marked(printable(hit["snippet"]), hit["matches"]))
        print("   " + styled(expandable(hit["id"], hit["expand_tokens"]), "dim"))
    elif packed["within"]:
        print("   " + styled(f"in the section of {packed['within']}", "dim"))
    elif packed["form"] == "snippet":
        print("   " + printable(packed["text"]))
    else:
        print(printable(packed["text"]))
