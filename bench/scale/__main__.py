"""The scale run: lorelog's embedded store beside Milvus Lite, LanceDB, Chroma and Qdrant local, one table a size.

Responsible for the command; `rounds.py` does the work, `report.py` judges it. Exits with 0 whether targets are met or
missed, as the numbers are the result; with 1 when it could not be run.

    python -m bench.scale [--size 100000 | --sizes 20000,100000] [--rivals NAME,… | --only lorelog]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.measure import CommandFailed
from bench.result import note_figure
from bench.scale.contender import CONTENDERS, OURS
from bench.scale.material import QUERIES
from bench.scale.processes import REPOSITORY, Workplace
from bench.scale.report import contenders_table, judge, judged_table, notes
from bench.scale.rounds import Outcome, Plan, run

RIVALS = tuple(name for name in CONTENDERS if name != OURS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale", description="Lorelog's store beside other embedded stores."
    )
    parser.add_argument("--size", type=between(100, 10**8), default=100_000, metavar="N", help="rows (100000)")
    parser.add_argument("--sizes", type=sizes, metavar="N,N", help="several sizes, one after the other")
    parser.add_argument("--rivals", type=rivals, default=RIVALS, help=f"some of {','.join(RIVALS)}, or none")
    parser.add_argument("--only", choices=[OURS], help="no rivals; the same as --rivals none")
    parser.add_argument("--vectors", type=Path, metavar="DIR", help="real vectors, *.npy, instead of made-up ones")
    parser.add_argument("--queries", type=between(10, QUERIES), default=200, metavar="N", help="warm questions (200)")
    parser.add_argument("--rounds", type=between(1, 100), default=10, metavar="N", help="... in so many rounds (10)")
    parser.add_argument("--cold", type=between(1, 100), default=5, metavar="N", help="cold starts of each (5)")
    parser.add_argument("--limit", type=float, default=900.0, metavar="S", help="seconds a rival may insert (900)")
    parser.add_argument("--fresh", action="store_true", help="insert the rivals' rows anew, not once and for all")
    parser.add_argument("--reuse", action="store_true", help="ask our store of an earlier run, too, without inserting")
    parser.add_argument("--place", type=Path, default=REPOSITORY / ".bench" / "scale", metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="every sample, for later comparison")
    options = parser.parse_args()
    if options.only:
        options.rivals = ()
    return options


def between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"a number from {least} to {most}")
        return value

    return number


def sizes(text: str) -> tuple[int, ...]:
    return tuple(between(100, 10**8)(part) for part in text.split(","))


def rivals(text: str) -> tuple[str, ...]:
    named = () if text == "none" else tuple(text.split(","))
    if unknown := [name for name in named if name not in RIVALS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose of {', '.join(RIVALS)}, or none")
    return named


def plan_of(options: argparse.Namespace, size: int) -> Plan:
    return Plan(
        place=Workplace(options.place.resolve()),
        size=size,
        names=(OURS, *options.rivals),
        queries=options.queries,
        rounds=options.rounds,
        cold_rounds=options.cold,
        limit_s=options.limit,
        vectors=options.vectors,
        fresh=options.fresh,
        reuse=options.reuse,
    )


def show(outcome: Outcome, plan: Plan) -> None:
    """Print one size."""
    kind = "made-up" if plan.vectors is None else "real"
    versions = "; ".join(dict.fromkeys(seen.inserted.version for seen in outcome.seen.values()))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"\n### {plan.size:,} rows, {kind} vectors\n\n{machine}; load {os.getloadavg()[0]:.1f}; {versions}.\n")
    print(contenders_table(outcome))
    lines = judge(outcome, plan.size)
    if lines:
        print(f"\n{judged_table(lines)}")
    for line in lines:
        note_figure(line.figure())
    print()
    for note in notes(outcome, plan.size):
        print(f"- {note}")
    if lines:
        print(f"- {sum(line.met for line in lines)} of {len(lines)} targets met.")
    sys.stdout.flush()


def main() -> int:
    options = arguments()
    raw = {}
    try:
        for size in options.sizes or (options.size,):
            plan = plan_of(options, size)
            outcome = run(plan)
            show(outcome, plan)
            raw[str(size)] = asdict(outcome) | {"judged": [asdict(line) for line in judge(outcome, size)]}
    except CommandFailed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.output:
        options.output.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
