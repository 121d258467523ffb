"""How the daemon grows with the number of chunks: answers over the socket, the moment after a write, memory.

    python -m bench.growth [--sizes 1000,10000,100000] [--rounds 60] [--idle 600] [--quick] [--keep DIR]

Each size has a home of its own, filled from made-up journals: the files, catalog and words are real, the vectors are made
up, because the built-in model would take hours for 100,000 texts. Questions are embedded by the built-in model, so a
search does all that it does for a user. All daemons run at the same time and are asked in turn; no question is
asked twice, and the cache of answers is off. `--idle S` sets daemon.model_idle_s to S and reads the memory S seconds after the
last question, as `daemon.model_idle_s` is 600 by default; the heading says which.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.corpus import questions, write_journals
from bench.measure import median
from bench.result import Verdicts
from bench.scale.making import Cone
from bench.warm_home import (
    WarmHome,
    home_environment,
    new_project,
    percentile,
    show_mb,
    show_ms,
    show_p50_p99,
    start_daemon,
)

from lorelog.core.ports import EmbeddedTexts, Embedder, Vector
from lorelog.wiring import ResourcePool, resolve_location

SIZES = (1_000, 10_000, 100_000)
IDLE_S = 600.0
AFTER_WRITE_S = 2.0
WRITES = 12
LARGE = 100_000
"""Targets are of this size, except memory, which also has one for the smallest."""
HYBRID_S, STATS_S, AFTER_WRITE_P99_S = 0.020, 0.005, 0.030
CPU_S = {
    ("lexical, k = 5", 1_000): 0.006,
    ("lexical, k = 5", LARGE): 0.008,
    ("hybrid, k = 5", 1_000): 0.012,
    ("hybrid, k = 5", LARGE): 0.016,
}
"""Most CPU time of the daemon for a question, by kind and size."""
RESIDENT = {1_000: 130e6, 100_000: 260e6}
IDLE_RESIDENT = 45e6
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "hybrid, k = 5": ("memory.search", {"k": 5}),
    "hybrid, k = 10": ("memory.search", {"k": 10}),
    "lexical, k = 5": ("memory.search", {"k": 5, "lane": "lexical"}),
    "dense, k = 5": ("memory.search", {"k": 5, "lane": "dense"}),
    "memory.stats": ("memory.stats", {}),
    "memory.list": ("memory.list", {"limit": 5}),
}


@dataclass
class Seen:
    """What was measured at one size."""

    fill_s: float
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    add: list[float] = field(default_factory=list)
    after_write: list[float] = field(default_factory=list)
    resident: int = 0
    anonymous: int = 0
    idle: int = 0


def main() -> int:
    options = _arguments()
    verdicts = Verdicts()
    with ExitStack() as held:
        made = options.keep or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="growth-")))
        seen: dict[int, Seen] = {}
        homes: dict[int, WarmHome] = {}
        for size in options.sizes:
            place = made / f"{size}"
            environment = home_environment(place, DAEMON_MODEL_IDLE_S=f"{options.idle or IDLE_S:g}")
            seen[size] = Seen(_fill(place, size, environment))
            homes[size] = held.enter_context(start_daemon(place / "app", environment))
        _ask_in_turn(homes, seen, options.rounds)
        for size, home in homes.items():
            _ask_after_writes(home, seen[size])
            seen[size].resident, seen[size].anonymous = home.resident(), home.anonymous()
        if options.idle:
            _say(f"waiting {options.idle + 30:g} s for idle daemons")
            time.sleep(options.idle + 30)
            for size, home in homes.items():
                seen[size].idle = home.resident()
        _show(seen, options)
        _judge(seen, options, verdicts)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    def sizes(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=sizes, default=SIZES, metavar="N,N")
    parser.add_argument("--rounds", type=int, default=60, metavar="N", help="questions of each kind (60)")
    parser.add_argument(
        "--idle", type=float, default=IDLE_S, metavar="S", help="daemon.model_idle_s; 0 does not wait for it (600)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the homes here, and use those that are there")
    parser.add_argument("--quick", action="store_true", help="200 and 1,000 chunks, 5 rounds, 5 s idle")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.rounds, options.idle = (200, 1_000), 5, 5.0
    return options


def _fill(place: Path, size: int, environment: dict[str, str]) -> float:
    """Write and index journals of so many chunks, with made-up vectors; return the seconds of the index run."""
    if (place / "filled").exists():
        return float((place / "filled").read_text("ascii"))
    project = new_project(place)
    write_journals(project / ".lorelog" / "memory", size)
    _say(f"indexing {size:,} chunks")
    holdings = ResourcePool()
    began = time.perf_counter()
    here = resolve_location(directory=str(project), environment=environment)
    with holdings.engine(here, {}) as engine:
        engine.with_embedder(MadeUpVectors).maintenance().index()
    holdings.close()
    took = time.perf_counter() - began
    (place / "filled").write_text(f"{took:.1f}", "ascii")
    return took


class MadeUpVectors:
    """An embedder in the place of a model: vectors that depend on the text alone, drawn as those of the scale run are."""

    def __init__(self, inner: Embedder) -> None:
        self.provider = inner.provider
        self.model = inner.model
        self._cone = Cone()

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        return EmbeddedTexts(tuple(vector.tobytes() for vector in self._cone.of_texts(texts)) if texts else ())

    def embed_query(self, text: str) -> Vector:
        return self.embed_documents([text]).vectors[0]

    def close(self) -> None:
        """Nothing to close."""


def _ask_in_turn(homes: dict[int, WarmHome], seen: dict[int, Seen], rounds: int) -> None:
    """Ask all daemons in turn, each kind of question; the first round is not counted."""
    for at, (name, (op, given)) in enumerate(CALLS.items()):
        _say(f"asking: {name}")
        asked = questions(rounds + 1, seed=500 + at)
        before = dict.fromkeys(homes, 0.0)
        for number, query in enumerate(asked):
            for size, home in homes.items():
                if number == 1:
                    home.settle()  # work that the first question began: reading what recent memories mention, once in a daemon's life
                    before[size] = home.cpu_s()
                arguments = {"query": f"{query} {name}", **given} if op == "memory.search" else given
                took = home.timed(op, **arguments)
                if number:
                    seen[size].seconds.setdefault(name, []).append(took)
        for size, home in homes.items():
            seen[size].cpu_s[name] = (home.cpu_s() - before[size]) / rounds


def _ask_after_writes(home: WarmHome, seen: Seen) -> None:
    """Add memories; for two seconds after each, search by words without a pause."""
    asked = iter(questions(100_000, seed=900))
    for number in range(WRITES):
        seen.add.append(home.timed("memory.add", text=f"{next(asked)}, said for the {number}th time"))
        end = time.perf_counter() + AFTER_WRITE_S
        while time.perf_counter() < end:
            seen.after_write.append(home.timed("memory.search", query=next(asked), k=5, lane="lexical"))


def _show(seen: dict[int, Seen], options: argparse.Namespace) -> None:
    idle = f"daemon.model_idle_s = {options.idle:g}" if options.idle else "not waited for"
    shortened = "" if options.idle >= IDLE_S else " (shortened for this run)"
    print(f"The built-in model embeds questions; vectors of chunks are made up. Idle: {idle}{shortened}.\n")
    rows = {
        name: [show_p50_p99(of.seconds[name]) + f" ({of.cpu_s[name] * 1e3:.1f})" for of in seen.values()]
        for name in CALLS
    }
    rows["memory.add"] = [show_p50_p99(of.add) for of in seen.values()]
    rows[f"lexical, in the {AFTER_WRITE_S:g} s after a write"] = [show_p50_p99(of.after_write) for of in seen.values()]
    rows["resident memory in use"] = [show_mb(of.resident) for of in seen.values()]
    rows["… of it anonymous"] = [show_mb(of.anonymous) for of in seen.values()]
    rows["resident memory, idle"] = [show_mb(of.idle) if of.idle else "" for of in seen.values()]
    rows["first index with made-up vectors"] = [f"{of.fill_s:.1f} s" for of in seen.values()]
    print("| over the socket: p50 / p99 in ms (CPU of the daemon) | " + " | ".join(f"{size:,}" for size in seen) + " |")
    print("|---|" + "--:|" * len(seen))
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")


def _judge(seen: dict[int, Seen], options: argparse.Namespace, verdicts: Verdicts) -> None:
    """Targets are of the sizes that they name; a run without such a size does not judge them."""
    for size, most in RESIDENT.items():
        if size in seen:
            held = seen[size].resident
            what = f"daemon in use, {size:,} chunks: resident memory"
            verdicts.judge(what, show_mb(held), f"<= {show_mb(most)}", met=held <= most, headline=True)
    for (name, size), most in CPU_S.items():
        if size in seen:
            used = seen[size].cpu_s[name]
            what = f"{name} over the socket, question new, {size:,} chunks: CPU of the daemon"
            verdicts.judge(what, show_ms(used), f"<= {show_ms(most)}", met=used <= most)
    for size, of in seen.items():
        if of.idle and size in RESIDENT:
            what = f"daemon idle for {options.idle:g} s, {size:,} chunks: resident memory"
            met = of.idle <= IDLE_RESIDENT
            verdicts.judge(what, show_mb(of.idle), f"<= {show_mb(IDLE_RESIDENT)}", met=met, headline=True)
    if LARGE not in seen:
        return
    of = seen[LARGE]
    for what, value, most in (
        ("hybrid search over the socket, question new: p50", median(of.seconds["hybrid, k = 5"]), HYBRID_S),
        ("lexical search in the 2 s after a write: p99", percentile(of.after_write, 99), AFTER_WRITE_P99_S),
        ("memory.stats: p50", median(of.seconds["memory.stats"]), STATS_S),
    ):
        verdicts.judge(
            f"{what}, {LARGE:,} chunks", show_ms(value), f"<= {show_ms(most)}", met=value <= most, headline=True
        )


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
