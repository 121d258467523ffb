"""The cost of evaluating cues at a tool call, in CPU time, including opening the files.

Responsible for the claim "10,000 cues in at most 5 ms". Three tables of 10,000 cues: as memories name things (paths,
commands, symbols, errors), all of them in one bucket of the table, and all of them matching. The calls are an edit of
20,000 characters, a long compound command, and an output of 20,000 characters. Each evaluation opens the files anew, as
a hook does. Exits with 1 when a median is over the limit.

    python -m bench.delivery.cues [--cues 10000] [--runs 200]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.light.cue_table import MAX_CALL_CHARS, match_cues
from lorelog.services.standing.memories import StandingMemory, encode_cue_table

LIMIT_MS = 5.0
ROOT = "/project"


def make_memory(number: int, cue: str) -> StandingMemory:
    """Return a memory with one cue and a text of usual length."""
    return StandingMemory(
        id=f"{number:08x}-0000-4000-8000-000000000000",
        type="correction",
        text=f"rule {number}: " + "do it as it was agreed. " * 8,
        date="2026-03-05T14:30",
        origin="user",
        source="/project/.lorelog/memory/2026-03-05.md:12",
        project=ROOT,
        own=True,
        is_standing=True,
        cues=(cue,),
    )


def usual_cues(count: int) -> Iterator[str]:
    """Yield cues as memories of a large project name them."""
    rng = random.Random(1)
    folders = ["src", "lib", "web", "api", "db", "core", "tests", "tools", "jobs", "ui"]
    for number in range(count):
        folder = "/".join(rng.sample(folders, 2))
        yield (
            f"path={folder}/module_{number}.py",
            f"path={folder}/part_{number % 500}/**",
            f"symbol=resolve_name_{number}",
            f"command=tool{number % 300} run task_{number}",
            f"error=Failure{number}Error",
        )[number % 5]


def bucket_cues(count: int) -> Iterator[str]:
    """Yield cues that share one key of the table and do not match."""
    return (f"path=src/**/*part_{number}_*.py" for number in range(count))


def matching_cues(count: int) -> Iterator[str]:
    """Yield cues that all match the edit."""
    return (f"path=src/{'*' * (1 + number % 2)}/*.py" for number in range(count))


def calls() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the tool calls by name, each with its moment."""
    rng = random.Random(2)
    words = [f"name_{rng.randrange(5_000)} = compute(value_{rng.randrange(5_000)})" for _ in range(2_000)]
    text = "\n".join(words)[:MAX_CALL_CHARS]
    command = " && ".join(f"cd part{number} && tool{number} run x" for number in range(60))
    return {
        "edit": ("tool-before", {"kind": "edit", "paths": [f"{ROOT}/src/db/module_7.py"], "content": text}),
        "run": ("tool-before", {"kind": "run", "command": command}),
        "output": ("tool-failed", {"kind": "run", "command": command, "output": text, "failed": True}),
    }


def measure(files: tuple[str, ...], moment: str, call: dict[str, Any], runs: int) -> tuple[float, float, int]:
    """Return the median and the worst CPU milliseconds of an evaluation, and how many memories it found."""
    times, found = [], 0
    for _ in range(runs):
        started = time.process_time_ns()
        found = len(match_cues(files, call, root=ROOT, moment=moment))
        times.append((time.process_time_ns() - started) / 1e6)
    return statistics.median(times), max(times), found


def main() -> int:
    """Print a table; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cues", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args()
    slow = False
    print(f"{args.cues:,} cues, CPU ms per evaluation including opening the files (limit {LIMIT_MS:g})\n")
    print(f"{'table':<10}{'call':<10}{'median':>8}{'worst':>8}{'found':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("usual", usual_cues), ("bucket", bucket_cues), ("matching", matching_cues)):
            file = Path(folder) / f"{name}.cues"
            file.write_bytes(encode_cue_table([make_memory(*pair) for pair in enumerate(make(args.cues))]))
            for call_name, (moment, call) in calls().items():
                median, worst, found = measure((str(file), str(file) + ".none"), moment, call, args.runs)
                slow |= median > LIMIT_MS
                print(f"{name:<10}{call_name:<10}{median:>8.2f}{worst:>8.2f}{found:>7}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
