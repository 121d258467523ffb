"""Learns the numbers of the ranking and of relevance for the current encoder, from all sets at once.

python -m bench.quality.fit --data DIR --keep DIR [--vectors DIR] [--sets a,b] [--limit N] [--leave-out] [--write FILE]

A set, or a part of a large one (`--bytes`, `--limit`), is indexed and asked whole, stressed and in parts of several sizes (`examples`).
`learning` says what is learned.

The tables compare the better lane with the ranking, and what first hits claim with what they are. `--leave-out` learns
once for each family of sets without that family, and once without stressed questions: that is what a set would get that nobody looked at. The weights of
readings are those of all sets. `--write` puts the numbers into a
calibrations file (`src/lorelog/retrieval/calibrations.json`): those of this encoder, and with `--unmeasured` also those of
encoders that nobody measured. `--keep` keeps indexes and examples, by encoder.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from bench.quality import learning, tables
from bench.quality.calibration import auroc, calibration_error
from bench.quality.examples import SIZES, WHOLE, Example, examples_of, kept_examples
from bench.quality.learning import Claimed, LaneModel, Sets, Unit
from bench.quality.measuring import strangers_of
from bench.quality.pipeline import Bench
from bench.quality.samples import SAMPLE_BYTES, SAMPLE_QUESTIONS, sample_bytes
from bench.quality.sets import JudgedSet, Question, family_of, load, names_in
from bench.quality.vectors import KeptEmbedder, VectorFolder
from msgspec.structs import asdict

from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.core.vectors import unit_vector
from lorelog.models.embed.builtin import BuiltinEmbedder
from lorelog.retrieval.relevance import CONFIDENCE_THRESHOLDS, UNMEASURED, RelevanceNumbers

LEARNED_HITS = 4
STRESSED = "stressed"
"""The family of all stressed questions."""
BACKGROUND = Path(__file__).with_name("background.txt")
Array = np.ndarray[Any, Any]


def main() -> int:
    args = _arguments()
    names = args.sets.split(",") if args.sets else names_in(args.data)
    embedder = BuiltinEmbedder(EmbedOptions())
    model = f"{embedder.provider}/{embedder.model}"
    keep = args.keep / model.replace("/", "-")
    vectors = args.vectors or keep / "vectors"
    background = embed_background(KeptEmbedder(embedder, VectorFolder(vectors, model)))
    codes, step = quantise(background.mean(0))
    sets: dict[str, list[Example]] = {}
    asked: list[Question] = []
    kept = _Kept(keep, vectors, codes * step, args.data, args.bytes, args.limit)
    # Spawned, not forked: the lanes and the model have threads.
    with ProcessPoolExecutor(max(1, args.jobs), mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, made in zip(names, pool.map(kept.make, names), strict=True):
            print(f"{name}: {made:,} examples", file=sys.stderr, flush=True)
    for name in names:
        sets[name] = kept.examples(name)
        asked += kept.part(name).judged
    unit = _unit(asked, background, VectorFolder(vectors, model))
    found = _learn(sets, unit, args)
    if args.write:
        known = json.loads(args.write.read_text("utf-8")) if args.write.exists() else {}
        known[model] = {
            "centre": base64.b64encode(codes.tobytes()).decode(),
            "step": step,
            "spread": unit.spread,
            **found,
        }
        if args.unmeasured:
            known[UNMEASURED] = {"centre": "", "step": 0.0, "spread": 0.0, **_learn(sets, Unit(), args)}
        args.write.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    return 0


def _learn(sets: Sets, unit: Unit, args: argparse.Namespace) -> dict[str, Any]:
    """Learn, print what comes of it, and return all numbers."""
    lanes = LaneModel(unit).learn(sets)
    without: dict[str, LaneModel] = {}
    if args.leave_out:
        readings = {name: getattr(lanes.numbers, name) for name in learning.READINGS}
        without = {name: LaneModel(unit).learn(_others(sets, name), readings) for name in _families(sets)}
    print(
        f"\n{'Measured' if unit.spread else 'Unmeasured'} encoder: {lanes.numbers}\n\n{_lane_table(sets, lanes, without)}\n",
        flush=True,
    )
    ours = learning.first_hits(sets, unit, lambda _, item: lanes.scores(item), LEARNED_HITS)
    dense = learning.first_hits(sets, unit, lambda _, item: item.own_cosine, LEARNED_HITS)
    words = learning.first_hits(sets, unit, lambda _, item: item.own_lexical, LEARNED_HITS)
    found = {
        form: learning.learn_relevance(claims, form)
        for form, claims in (("hybrid", ours), ("other", [*ours, *dense]), ("words", words))
    }
    for form, numbers in found.items():
        print(f"{form}: {numbers}")
    claimed = learning.claimed_relevance(ours, found["hybrid"])
    if args.leave_out:
        claimed = _claimed_without(ours)
    print(f"\n{_relevance_table(ours, claimed)}\n\n{_word_table(ours, claimed)}\n", flush=True)
    return {"lanes": asdict(lanes.numbers), **{form: _used(numbers) for form, numbers in found.items()}}


def _families(sets: Sets) -> list[str]:
    return [*dict.fromkeys(map(family_of, sets)), STRESSED]


def _claimed_without(claims: Sequence[Claimed]) -> list[float]:
    """Return what first hits claim if their family was not learned from."""
    numbers = {
        family: learning.learn_relevance([item for item in claims if family_of(item.name) != family], "hybrid")
        for family in {family_of(item.name) for item in claims}
    }
    return [learning.claimed_relevance([item], numbers[family_of(item.name)])[0] for item in claims]


def _lane_table(sets: Sets, lanes: LaneModel, without: Mapping[str, LaneModel]) -> str:
    """Return the lanes and the ranking by set, and by family for parts of a size; the largest loss against the better lane first."""
    cells: dict[tuple[str, str, int], list[list[float]]] = {}
    for name, examples in sets.items():
        asked = [item for item in examples if item.gains and item.kind in ("judged", "stressed", "keywords")]
        gains = learning.DocumentGains(asked)
        family, unstressed = without.get(family_of(name), lanes), without.get(STRESSED, lanes)
        ranks = (learning.words_alone, attrgetter("own_cosine"), lanes.scores, family.scores, unstressed.scores)
        rankings = [gains.of(np.concatenate([rank(item) for item in asked])) for rank in ranks]
        for item, values in zip(asked, zip(*rankings, strict=True), strict=True):
            cell = (name if item.size == WHOLE else family_of(name), item.kind, item.size)
            cells.setdefault(cell, []).append([float(value) for value in values])
    rows = [["of", "questions", "chunks", "words", "vectors", "both", "lost", "without its family", "without stressed"]]
    means = {cell: [float(mean) for mean in np.mean(values, axis=0)] for cell, values in cells.items()}
    for cell in sorted(means, key=lambda cell: means[cell][3] - max(means[cell][:2])):
        name, kind, size = cell
        rows.append([name, f"{len(cells[cell])} {kind}", str(size or "all"), *_lane_cells(means[cell])])
    for kind, is_whole in learning.SHARES:
        found = [value for (_, other, size), value in means.items() if other == kind and (size == WHOLE) == is_whole]
        title = [f"mean of {len(found)}", kind, "all" if is_whole else "parts"]
        rows.append([*title, *_lane_cells([float(mean) for mean in np.mean(found, axis=0)])])
    return tables.format_table(rows)


def _lane_cells(values: Sequence[float]) -> list[str]:
    words, vectors, *ours = values
    better = max(words, vectors)
    family, stressed = (f"{value:.3f} ({better - value:+.3f})" for value in ours[1:])
    return [f"{words:.3f}", f"{vectors:.3f}", f"{ours[0]:.3f}", f"{better - ours[0]:+.3f}", family, stressed]


def _word_table(claims: Sequence[Claimed], claimed: Sequence[float]) -> str:
    """Return how many hits are relevant that each word is said of."""
    rows = [["word", "first hits", "relevant", f"first {LEARNED_HITS} hits", "relevant"]]
    above = 1.01
    for word, lowest in CONFIDENCE_THRESHOLDS:
        cells = []
        for places in (1, LEARNED_HITS):
            said = [
                item.is_relevant
                for item, value in zip(claims, claimed, strict=True)
                if lowest <= value < above and item.place < places and item.example.kind != "stressed"
            ]
            cells += [f"{len(said):,}", f"{_mean(said or [False]):.3f}"]
        rows.append([word, *cells])
        above = lowest
    return tables.format_table(rows)


def _relevance_table(claims: Sequence[Claimed], claimed: Sequence[float]) -> str:
    rows = [["first hits of", "number", "without an answer", "AUROC relevant", "AUROC answerable", "calibration error"]]
    pairs = [
        (item, value)
        for item, value in zip(claims, claimed, strict=True)
        if item.example.kind != "stressed" and not item.place
    ]
    titles = ["all", *map(_size_title, (*SIZES, WHOLE)), *dict.fromkeys(item.name for item in claims)]
    for title in titles:
        meant = [(item, value) for item, value in pairs if title in ("all", item.name, _size_title(item.example.size))]
        if not meant:
            continue
        values = [value for _, value in meant]
        relevant = [item.is_relevant for item, _ in meant]
        answerable = [item.is_answerable for item, _ in meant]
        measured = (auroc(values, relevant), auroc(values, answerable), calibration_error(values, relevant))
        rows.append([title, str(len(meant)), str(answerable.count(False)), *(f"{value:.3f}" for value in measured)])
    return tables.format_table(rows)


def _size_title(size: int) -> str:
    return f"{size} chunks" if size else "whole sets"


def _others(sets: Sets, family: str) -> Sets:
    """Return the sets without a family; that of the stressed questions is part of every set."""
    if family == STRESSED:
        return {name: [item for item in examples if item.kind != STRESSED] for name, examples in sets.items()}
    return {name: examples for name, examples in sets.items() if family_of(name) != family}


def _used(numbers: RelevanceNumbers) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


@dataclass(frozen=True)
class _Kept:
    """Where indexes, examples and vectors of one encoder are kept, and its centre."""

    folder: Path
    vectors: Path
    centre: Array
    data: Path
    size: int
    limit: int

    def part(self, name: str) -> JudgedSet:
        """Return the part of a set that is learned from."""
        return sample_bytes(load(self.data, name), self.size, self.limit)

    def make(self, name: str) -> int:
        """Make the examples of a set, unless they are kept, and return their number."""
        return len(self.examples(name))

    def examples(self, name: str) -> list[Example]:
        """Return the examples of a set, which is indexed and asked if they are not kept."""

        def make() -> list[Example]:
            given, folder = self.part(name), self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            with Bench(given, folder, self.vectors) as bench:
                bench.index()
                return list(examples_of(given, bench, self.centre, strangers_of(self.data, name)))

        return kept_examples(self.folder / "examples" / f"{name}-{self.size}-{self.limit}.pickle", make)


def embed_background(embedder: Embedder) -> Array:
    """Return the unit vectors of texts about anything."""
    texts = BACKGROUND.read_text("utf-8").splitlines()
    vectors = [unit_vector(vector) for vector in embedder.embed_documents(texts).vectors]
    return np.array([np.frombuffer(vector, "<f4") for vector in vectors])


def quantise(vector: Array) -> tuple[Array, float]:
    """Return a vector as bytes and the value of a step."""
    step = float(np.abs(vector).max()) / 127
    return np.round(vector / step).astype(np.int8), round(step, 8)


def _unit(questions: Sequence[Question], background: Array, vectors: VectorFolder) -> Unit:
    """Return the usual deviation of a question's cosines with the background."""
    deviations = []
    for question in questions:
        vector = vectors.get(f"query: {question.text}")
        if vector is not None:
            deviations.append(float((background @ np.frombuffer(unit_vector(vector), "<f4")).std()))
    return Unit(round(_mean(deviations), 5))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn the numbers of the ranking and of relevance.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds retrieval/SET/corpus.jsonl.gz")
    parser.add_argument("--keep", type=Path, required=True, metavar="DIR", help="keep files, indexes and examples here")
    parser.add_argument("--sets", default="", metavar="A,B", help="only these")
    parser.add_argument("--vectors", type=Path, metavar="DIR", help="keep vectors here from run to run")
    parser.add_argument("--bytes", type=int, default=SAMPLE_BYTES, metavar="N", help="of a set's documents, about")
    parser.add_argument("--limit", type=int, default=SAMPLE_QUESTIONS, metavar="N", help="questions of a set, at most")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="sets at a time that are indexed and asked")
    parser.add_argument("--leave-out", action="store_true", help="learn without each family of sets in turn, too")
    parser.add_argument("--unmeasured", action="store_true", help="learn the numbers of unmeasured encoders, too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the numbers into this calibrations file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
