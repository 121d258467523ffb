"""Show what the index holds: documents, chunks, vectors, projects, size on disk.

examples:
  lorelog stats
  lorelog stats --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, plural, print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import StatsShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the sizes."""
    reply = ask(args, "memory.stats", {})
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(stats: StatsShape) -> None:
    coverage, model = stats["coverage"], stats["model"]
    print(f"documents  {stats['documents']:,}")
    print(f"chunks     {stats['chunks']:,}")
    share = f" ({coverage['with_vectors'] / coverage['chunks']:.0%} of the chunks)" if coverage["chunks"] else ""
    print(f"vectors    {stats['vectors']:,} of {model}{share}")
    if stats["other_vectors"]:
        print(
            f"           {stats['other_vectors']:,} kept beside them ('lorelog index --forget-old' drops those that do not answer)"
        )
    print(f"on disk    {stats['bytes_on_disk'] / 1e6:,.1f} MB in {short_path(stats['location'])}")
    if stats["bytes_mapped"]:
        mapped = f"{stats['bytes_mapped'] / 1e6:,.1f} MB"
        print(f"mapped     {mapped} of it by a search; the system takes that memory back when it needs it")
    for project, chunks in sorted(stats["projects"].items(), key=lambda item: -item[1]):
        if chunks:
            print(f"project    {short_path(project) if project else '(global)'}: {plural(chunks, 'chunk')}")
    if model.startswith("fake/"):
        note("the fake provider is for tests: its vectors compare spelling, not meaning")
