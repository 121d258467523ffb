"""Find memories that say nearly the same. Nothing is changed.

Compared by their words, and by what they mean where there are vectors. The newest of each group comes first: it is the one to keep,
as a rule. 'lorelog delete' hides another, 'lorelog supersede' puts one in the place of both.

examples:
  lorelog duplicates
  lorelog duplicates --type decision --threshold 0.9
  lorelog duplicates --all-projects --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.lifecycle_replies import TwinsShape

_WIDTH = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="how near, 0 to 1: a cosine of meaning (default 0.94), or the share of common words (0.8)",
    )
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="at most so many groups (default 20)")
    parser.add_argument("--type", action="append", default=[], metavar="TYPE", help="only this type (repeatable)")
    parser.add_argument("--all-projects", action="store_true", help="look beyond this project and the global memories")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Look for them; finding none is not a failure."""
    request = {
        "threshold": args.threshold,
        "limit": args.limit,
        "types": args.type,
        "all_projects": args.all_projects,
    }
    reply = ask(args, "memory.find_near_duplicates", request)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(reply: TwinsShape) -> None:
    for number, group in enumerate(reply["groups"], 1):
        print(styled(f"{number}. {plural(len(group), 'memory')}", "bold"))
        for one in group:
            place = styled(f"{short_path(one['source'])}:{one['start_line']}", "cyan")
            near = "keep" if one["keep"] else f"{one['similarity']:.2f}"
            text = one_line(one["text"])
            gist = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
            print(f"   {near:<4}  {one['date'][:10]}  {place}  {gist}  {styled(one['id'], 'dim')}")
        print()
    if not reply["groups"]:
        print("No memories say nearly the same.")
    compared = f"{plural(reply['compared'], 'memory')} compared, {reply['by_vectors']:,} of them by meaning"
    note(compared + ("; there are more groups, -n shows them" if reply["more"] else ""))
    for text in reply["notes"]:
        note(text)
