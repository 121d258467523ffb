"""Measures whether the caches pay off: a mix of new and repeated queries, with and without the cache.

Responsible for the default of `cache.answers`. One embedded store of made-up rows
(those of the scale run) is asked the same questions by the public `Searcher` in several arrangements, which take turns
question by question, so that a noisy minute falls on all. Times are processor time, in one thread, because what shares
the machine would drown the differences. A question's vector is given, as in the scale run, so they are times beyond the
model's own; `--model-ms` adds what a model takes to every question that would have been embedded.

    python -m bench.cache [--size 5000] [--questions 400] [--model-ms 0]

Half of the questions are new, the others repeat one of the last fifty to the letter. Half of the new questions are about twenty rows, the others about any.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before numpy loads

from bench.scale.contender import Deadline
from bench.scale.making import SEED, make
from bench.scale.material import Material, Question
from bench.scale.with_lorelog import STORE, GivenVectors

from lorelog.core.options import CacheOptions, SearchOptions
from lorelog.core.query import SearchReply
from lorelog.core.vectors import unit_vector
from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.cache import AnswerCache
from lorelog.services.search.searcher import Searcher
from lorelog.stores.embedded import EmbeddedStore

NEW, REPEATED = "new", "repeated"
SHARES = {NEW: 50, REPEATED: 50}
_LAST = 50
_FAVOURITES = 20
_WARM_UP = 40
_LONGEST_INSERT_S = 900.0
_LEAST_GAIN = 0.1
"""Share of time a cache must save to pay off."""
_MOST_LOSS = 0.05
"""Share of time that other queries may lose."""

ARRANGEMENTS = {"no cache": CacheOptions(answers=False), "answers": CacheOptions(answers=True)}


@dataclass(frozen=True)
class Step:
    """A query of the workload and its kind."""

    kind: str
    question: Question


class AskedVectors(GivenVectors):
    """Returns a given vector, and counts the calls."""

    asked = False

    def embed_query(self, text: str) -> bytes:
        self.asked = True
        return super().embed_query(text)


@dataclass
class Arrangement:
    """A searcher configuration with its times in milliseconds, by kind of query."""

    answers: AnswerCache
    model: AskedVectors
    model_ms: float
    search: Callable[[Question], SearchReply]
    times: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in SHARES})

    def ask(self, step: Step) -> None:
        """Run a query and record its time."""
        self.model.next, self.model.asked = step.question.vector, False
        began = time.process_time()
        self.search(step.question)
        took = (time.process_time() - began) * 1000
        self.times[step.kind].append(took + self.model_ms * self.model.asked)

    @property
    def all_times(self) -> list[float]:
        return [time_ for times in self.times.values() for time_ in times]


def arrange(folder: Path, options: CacheOptions, model_ms: float) -> Arrangement:
    """Return a searcher with these caches."""
    answers, analyser, given = AnswerCache(options), WordAnalyser(), AskedVectors()
    store = EmbeddedStore(folder, analyser, provider=given.provider, model=given.model)
    searcher = Searcher(store, given, analyser, answers=answers)
    return Arrangement(answers, given, model_ms, lambda question: searcher.search(question.text, SearchOptions()))


def workload(material: Material, count: int) -> list[Step]:
    """Return the queries in order."""
    draw = random.Random(SEED)
    sources = material.questions(0, 500)
    steps: list[Step] = []
    kinds = draw.choices(list(SHARES), list(SHARES.values()), k=count)
    for kind in kinds:
        asked = [step.question for step in steps[-_LAST:]]
        if kind == NEW or not asked:
            steps.append(Step(NEW, _new(draw, sources)))
        else:
            steps.append(Step(kind, draw.choice(asked)))
    return steps


def _new(draw: random.Random, sources: Sequence[Question]) -> Question:
    """Return a new query: some words of a synthetic one in another order, with a nearby vector."""
    about = draw.choice(sources[:_FAVOURITES] if draw.random() < 0.5 else sources)
    words = about.text.split()
    draw.shuffle(words)
    return Question(" ".join(words[: max(3, len(words) - draw.randrange(3))]), _moved(draw, about.vector, 0.02))


def _moved(draw: random.Random, vector: bytes, width: float) -> bytes:
    import numpy as np

    noise = np.random.default_rng(draw.randrange(1 << 30)).standard_normal(len(vector) // 4) * width
    return unit_vector((np.frombuffer(vector, "<f4") + noise).astype("<f4").tobytes())


def measure(folder: Path, steps: Sequence[Step], model_ms: float) -> dict[str, Arrangement]:
    """Run every query with every configuration, alternating."""
    ways = {name: arrange(folder, options, model_ms) for name, options in ARRANGEMENTS.items()}
    names = list(ways)
    for place, step in enumerate(steps):
        for turn in range(len(names)):
            ways[names[(place + turn) % len(names)]].ask(step)
        if place == _WARM_UP:
            for way in ways.values():
                for times in way.times.values():
                    times.clear()
    return ways


def tables(ways: Mapping[str, Arrangement]) -> list[str]:
    """Return the lines of the report."""
    lines = ["| arrangement | new | repeated | all, median | all, mean | from the cache |", "|---|--:|--:|--:|--:|---|"]
    for name, way in ways.items():
        medians = " | ".join(f"{statistics.median(way.times[kind]):.2f}" for kind in SHARES)
        every = way.all_times
        counts = way.answers.counters()
        found = f"{counts.exact} of {counts.lookups}" if counts.lookups else "nothing"
        lines.append(
            f"| {name} | {medians} | {statistics.median(every):.2f} | {statistics.fmean(every):.2f} | {found} |"
        )
    lines += ["", "| cache | saves | others lose | pays |", "|---|---|---|---|"]
    return [*lines, *verdicts(ways)]


def verdicts(ways: Mapping[str, Arrangement]) -> list[str]:
    """Return for each cache the time it saves, the time others lose, and whether it pays off."""

    def against(name: str, kinds: Sequence[str], before: str = "no cache") -> float:
        """Return the share of the median time that is saved."""
        old, new = (
            statistics.median([time_ for kind in kinds for time_ in ways[way].times[kind]]) for way in (before, name)
        )
        return 1 - new / old

    gain, loss = against("answers", [REPEATED]), -against("answers", [NEW])
    pays = gain >= _LEAST_GAIN and loss <= _MOST_LOSS
    return [f"| answers | {gain:.0%} of repeated questions | {max(loss, 0.0):.0%} | {'met' if pays else 'missed'} |"]


def main(words: Sequence[str] | None = None) -> int:
    """Build the store, run the queries, and print the report."""
    parser = argparse.ArgumentParser(description="Whether the caches pay.")
    parser.add_argument("--size", type=int, default=5_000, help="rows of the store")
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--model-ms", type=float, default=0.0, help="what a model takes for a question")
    parser.add_argument("--keep", type=Path, help="folder to keep the material and the store in")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        place = chosen.keep or Path(scratch)
        material = Material(place / f"material-{chosen.size}")
        if not material.complete:
            make(material.folder, chosen.size)
        folder = place / f"index-{chosen.size}"
        if not folder.exists():
            STORE.insert(folder, material, Deadline.after(_LONGEST_INSERT_S))
        ways = measure(folder, workload(material, chosen.questions), chosen.model_ms)
    print(
        f"{chosen.size:,} rows, {chosen.questions} questions, {chosen.model_ms:g} ms a question for a model; ms of processor time\n"
    )
    print("\n".join(tables(ways)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
