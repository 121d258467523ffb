"""Show statistics: documents, chunks, vectors, projects, size on disk, and tokens of memories shown to agents per day.

examples:
  lorelog stats
  lorelog stats --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


_MAX_DAYS = 7


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the statistics."""
    reply = call_operation(args, "memory.stats", {})
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(stats: Json) -> None:
    coverage, model = stats["coverage"], stats["model"]
    print(f"documents  {stats['documents']:,}")
    print(f"chunks     {stats['chunks']:,}")
    share = f" ({coverage['with_vectors'] / coverage['chunks']:.0%} of the chunks)" if coverage["chunks"] else ""
    print(f"vectors    {stats['vectors']:,} of {model}{share}")
    if stats["other_vectors"]:
        print(
            f"           {stats['other_vectors']:,} of other models ('lorelog index --reembed --drop-old' deletes them)"
        )
    print(f"on disk    {stats['bytes_on_disk'] / 1e6:,.1f} MB in {short_path(stats['location'])}")
    if stats["bytes_mapped"]:
        mapped = f"{stats['bytes_mapped'] / 1e6:,.1f} MB"
        print(f"mapped     {mapped} of it mapped into memory by search; the system reclaims it when needed")
    for project, chunks in sorted(stats["projects"].items(), key=lambda item: -item[1]):
        if chunks:
            print(f"project    {short_path(project) if project else '(global)'}: {plural(chunks, 'chunk')}")
    _show_deliveries(stats["deliveries"])
    if model.startswith("fake/"):
        print_note("the fake provider is for tests: its vectors compare spelling, not meaning")


def _show_deliveries(deliveries: Json) -> None:
    """Print the tokens of memories shown to agents: the sums, and each day of the last week."""
    if not deliveries["days"]:
        return
    week, month = deliveries["tokens_7_days"], deliveries["tokens_30_days"]
    print(f"delivered  {week:,} tokens of memories in 7 days, {month:,} in 30 ('lorelog deliveries' lists them)")
    for day in deliveries["days"][:_MAX_DAYS]:
        print(f"           {day['day']}  {day['tokens']:>8,} tokens in {plural(day['deliveries'], 'delivery')}")
