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

import argparse
from dataclasses import replace

from recollect.core.query import Form, Fusion, Hit, Lane, SearchReply
from recollect.surfaces.cli.arguments import add_common, add_filters, engine_of, filters_of
from recollect.surfaces.cli.paper import expandable, labelled, marked, note, one_line, printable, short_path, styled
from recollect.surfaces.cli.shapes import print_json, search_shape

_SHOWN = 0.00005
"""Parts below this would be printed as 0.0000."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="a question or words")
    parser.add_argument("-k", "--top-k", dest="k", type=int, metavar="N", help="how many hits (search.k)")
    parser.add_argument("--lane", choices=[lane.value for lane in Lane], help="words, meaning, or both (search.lane)")
    parser.add_argument(
        "--fusion", choices=[one.value for one in Fusion], help="how both become one score (search.fusion)"
    )
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
    with engine_of(args) as engine:
        options = engine.defaults.search
        options = replace(
            options,
            k=options.k if args.k is None else args.k,
            lane=Lane(args.lane) if args.lane else options.lane,
            fusion=Fusion(args.fusion) if args.fusion else options.fusion,
            filters=filters_of(args),
            token_budget=options.token_budget if args.token_budget is None else args.token_budget,
            min_relevance=options.min_relevance if args.min_relevance is None else args.min_relevance,
        )
        reply = engine.search(" ".join(args.query), options, all_projects=args.all_projects)
    if args.json:
        print_json(search_shape(reply, explain=args.explain))
    else:
        _show(reply, explain=args.explain)
    return 0


def _show(reply: SearchReply, *, explain: bool) -> None:
    if not reply.hits and not (reply.packing and reply.packing.dropped):
        print("Nothing found.")
    for number, hit in enumerate(reply.hits, 1):
        _show_hit(number, hit, explain=explain)
    if explain and reply.weighing:
        note(f"lanes weighed {reply.weighing}")
    if reply.packing:
        note(f"about {reply.packing.spent:,} of {reply.packing.budget:,} tokens")
        for one in reply.packing.dropped:
            place = f"{short_path(one.source)}:{one.start_line}-{one.end_line}"
            note(f"left out: {one.id}  {place}  at least {one.tokens:,} tokens; {one.reason}")
    for text in reply.notes:
        note(text)


def _show_hit(number: int, hit: Hit, *, explain: bool) -> None:
    shown = hit.packed if hit.packed and not hit.packed.within else hit
    place = f"{short_path(hit.source)}:{shown.start_line}-{shown.end_line}"
    labels = labelled(hit.type, hit.tags)
    rank = [f"{number}.", styled(f"{hit.score:.3f}", "green"), f"{hit.relevance:.0%} likely"]
    head = [*rank, styled(place, "cyan"), hit.date.replace("T", " ")]
    print("  ".join(part for part in [*head, labels, styled(hit.id, "dim")] if part))
    if hit.heading_path:
        print("   " + styled(one_line(" > ".join(hit.heading_path)), "bold"))
    _show_text(hit)
    for other in hit.duplicates:
        print("   " + styled(f"also in {short_path(other)}", "dim"))
    if explain:
        parts = [part for part in hit.explanation.parts if abs(part.value) >= _SHOWN or part.name in set(Lane)]
        width = max(len(part.name) for part in parts)
        for part in parts:
            print(f"   {part.value:+.4f}  {part.name:<{width}}  {part.note}")
        print(f"   {hit.score:+.4f}  together")
    print()


def _show_text(hit: Hit) -> None:
    """Print what a hit says; without a budget, also what its section would cost."""
    if hit.packed and hit.packed.within:
        print("   " + styled(f"in the section of {hit.packed.within}", "dim"))
    elif hit.packed and hit.packed.form is not Form.SNIPPET:
        print(printable(hit.packed.text))
    else:
        print("   " + marked(printable(hit.snippet), hit.matches))
    if hit.packed is None:
        print("   " + styled(expandable(hit.id, hit.expand_tokens), "dim"))
