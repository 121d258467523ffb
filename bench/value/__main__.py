"""Does an agent with lorelog do better? Public tasks, judged by execution and by gold answers, without a model.

    python -m bench.value --part c --sources DIR [--keep DIR]

`--sources` holds bare clones of the public repositories that a part reads (`python -m bench.value.fetch DIR` makes them); nothing of
them is committed. `--keep` holds captured memories, vectors and outcomes, so that a second run only asks. Parts: a (real sessions,
counterfactual), b1 (is the file of a related issue named), b2 (steps of a scripted explorer), c (tasks graded by execution), d (structure).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from bench.result import Verdicts
from bench.value.sources import SourceMissing

PARTS = {
    "a": "part_a",
    "a-held-out": "part_a_held_out",
    "b1": "part_b",
    "b1-held-out": "part_b_held_out",
    "b2": "part_b2",
    "b2-held-out": "part_b2_held_out",
    "c": "part_c",
    "d": "part_d",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one part and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--sources", type=Path, default=Path(".bench/value/sources"), metavar="DIR")
    parser.add_argument("--keep", type=Path, default=Path(".bench/value/keep"), metavar="DIR")
    parser.add_argument(
        "--seconds", type=float, default=3_000, help="ask nothing more after this time, and report what there is"
    )
    options = parser.parse_args(argv)
    deadline = time.monotonic() + options.seconds
    options.keep.mkdir(parents=True, exist_ok=True)
    part = import_module(f"bench.value.{PARTS[options.part]}")
    verdicts = Verdicts()
    try:
        lines = list(part.report(part.run_part(options.sources.resolve(), options.keep.resolve(), deadline), verdicts))
    except SourceMissing as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    print(f"\n{verdicts.table()}")
    return int(bool(verdicts.missed))


if __name__ == "__main__":
    sys.exit(main())
