"""Find what was learned.

Words and meaning are searched together and fused; each hit shows its score, where it stands, its date, and a snippet with
the matching words marked. --explain shows the parts of each score, which add up to it.

examples:
  recollect search "why did we choose redis"
  recollect search parse_config --lane lexical
  recollect search "webhook retries" --since 2w --type decision --json
  recollect search "deploy steps" --all-projects -k 10 --explain
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from recollect.core.query import Fusion, Hit, Lane, SearchReply
from recollect.surfaces.cli.arguments import add_common, add_filters, engine_of, filters_of
from recollect.surfaces.cli.paper import labelled, marked, note, one_line, printable, short_path, styled
from recollect.surfaces.cli.shapes import print_json, search_shape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="a question or words")
    parser.add_argument("-k", "--top-k", dest="k", type=int, metavar="N", help="how many hits (search.k)")
    parser.add_argument("--lane", choices=[lane.value for lane in Lane], help="words, meaning, or both (search.lane)")
    parser.add_argument(
        "--fusion", choices=[one.value for one in Fusion], help="how both become one score (search.fusion)"
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
        )
        reply = engine.search(" ".join(args.query), options, all_projects=args.all_projects)
    if args.json:
        print_json(search_shape(reply, explain=args.explain))
    else:
        _show(reply, explain=args.explain)
    return 0


def _show(reply: SearchReply, *, explain: bool) -> None:
    if not reply.hits:
        print("Nothing found.")
    for number, hit in enumerate(reply.hits, 1):
        _show_hit(number, hit, explain=explain)
    if explain and reply.weighing:
        note(f"lanes weighed {reply.weighing}")
    for text in reply.notes:
        note(text)


def _show_hit(number: int, hit: Hit, *, explain: bool) -> None:
    place = f"{short_path(hit.source)}:{hit.start_line}-{hit.end_line}"
    labels = labelled(hit.type, hit.tags)
    head = [f"{number}.", styled(f"{hit.score:.3f}", "green"), styled(place, "cyan"), hit.date.replace("T", " ")]
    print("  ".join(part for part in [*head, labels, styled(hit.id, "dim")] if part))
    if hit.heading_path:
        print("   " + styled(one_line(" > ".join(hit.heading_path)), "bold"))
    print("   " + marked(printable(hit.snippet), hit.matches))
    for other in hit.duplicates:
        print("   " + styled(f"also in {short_path(other)}", "dim"))
    if explain:
        for part in hit.explanation.parts:
            print(f"   {part.value:+.4f}  {part.name:<8} {part.note}")
        print(f"   {hit.score:+.4f}  together")
    print()
