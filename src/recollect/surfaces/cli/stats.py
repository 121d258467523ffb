"""Show what the index holds: documents, chunks, vectors, projects, size on disk.

examples:
  recollect stats
  recollect stats --json
"""

from __future__ import annotations

import argparse

from recollect.core.ports import StoreStats
from recollect.core.query import Coverage
from recollect.surfaces.cli.arguments import add_common, engine_of
from recollect.surfaces.cli.paper import note, plural, short_path
from recollect.surfaces.cli.shapes import print_json, stats_shape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the sizes."""
    with engine_of(args) as engine:
        stats, coverage, model = engine.stats(), engine.coverage(), engine.model
    if args.json:
        print_json(stats_shape(stats, coverage, model))
    else:
        _show(stats, coverage, model)
    return 0


def _show(stats: StoreStats, coverage: Coverage, model: str) -> None:
    print(f"documents  {stats.documents:,}")
    print(f"chunks     {stats.chunks:,}")
    share = f" ({coverage.with_vectors / coverage.chunks:.0%} of the chunks)" if coverage.chunks else ""
    print(f"vectors    {stats.vectors:,} of {model}{share}")
    if stats.other_vectors:
        print(f"           {stats.other_vectors:,} of other models, kept until 'recollect reset'")
    print(f"on disk    {stats.bytes_on_disk / 1e6:,.1f} MB in {short_path(stats.location)}")
    if stats.bytes_mapped:
        print(
            f"mapped     {stats.bytes_mapped / 1e6:,.1f} MB of it by a search; the system takes that memory back when it needs it"
        )
    for project, chunks in sorted(stats.projects.items(), key=lambda item: -item[1]):
        if not chunks:
            continue
        print(f"project    {short_path(project) if project else '(global)'}: {plural(chunks, 'chunk')}")
    if model.startswith("fake/"):
        note("the fake provider is for tests: its vectors compare spelling, not meaning")
