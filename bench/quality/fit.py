"""Learns the few numbers of the ranking: how the lanes are weighed, and what a close reading is worth.

python -m bench.quality.fit --data DIR [--sets a,b] [--vectors DIR] [--keep DIR] [--limit N] [--leave-out]

The candidates are those of the real pipeline, with both lanes' shares as it normalises them. What is learned maximises
the probability that a softmax over the scores gives to relevant chunks, with every set counting alike; a small penalty
keeps the numbers small. `--leave-out` learns once for each set without that set and reports what it then gets, which is
what a set that nobody looked at would get. The numbers go, rounded, into `retrieval/fusion.py` and
`retrieval/score_features.py`.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from bench.quality.pipeline import Bench
from bench.quality.sets import JudgedSet, Question, load, names_in

from lorelog.core.options import SearchOptions
from lorelog.core.query import Filters
from lorelog.core.vectors import unit_vector
from lorelog.retrieval import score_features
from lorelog.retrieval.fusion import LaneEvidence, LaneWeights, non_latin_share
from lorelog.retrieval.score_features import LANES_WEIGHT, CloseReader
from lorelog.services.search import candidates

EVIDENCE = ("base", "coverage", "terms", "lead", "unread", "known")
READING = ("coverage", "phrase", "proximity", "part-words", "entry")
MOST_READ = 60
PENALTY = 3e-4
STEPS = 1_500

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Example:
    """The candidates of a query: lane scores, shared words, and relevance."""

    evidence: Array
    lexical: Array
    dense: Array
    readings: Array
    relevant: Array
    documents: tuple[str, ...]
    gains: dict[str, float]


def main() -> int:
    args = arguments("Learn the ranking's numbers.")
    names = (
        args.sets.split(",") if args.sets else [item for item in names_in(args.data) if not item.startswith("memd_")]
    )
    with tempfile.TemporaryDirectory() as scratch:
        keep = args.keep or Path(scratch)
        examples = {name: list(_examples(load(args.data, name), args, keep)) for name in names}
    numbers = learn(list(examples.values()))
    _print(numbers)
    print("\n| set | learned on all | learned without it |\n|---|--:|--:|")
    for name in names:
        others = [examples[item] for item in names if item != name]
        without = f"{mean_ndcg(examples[name], learn(others)):.3f}" if args.leave_out and others else ""
        print(f"| {name} | {mean_ndcg(examples[name], numbers):.3f} | {without} |", flush=True)
    return 0


def learn(sets: Sequence[Sequence[Example]]) -> Array:
    """Return the learned numbers: evidence, the logarithm of the scale, readings."""
    numbers = np.zeros(len(EVIDENCE) + 1 + len(READING))
    numbers[len(EVIDENCE)] = math.log(12.0)
    first = np.zeros_like(numbers)
    second = np.zeros_like(numbers)
    for step in range(1, STEPS + 1):  # Adam: few numbers, smooth loss
        slope = sum((_slope(examples, numbers) for examples in sets), np.zeros_like(numbers)) / len(sets)
        slope += 2 * PENALTY * numbers * _is_penalised(len(numbers))
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        rate = 0.05 * min(1.0, 3.0 * (1.0 - step / (STEPS + 1)))
        numbers -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return numbers


def mean_ndcg(examples: Sequence[Example], numbers: Array) -> float:
    """Return nDCG@10 over the documents of the candidates."""
    total = 0.0
    for example in examples:
        scores, _ = _scores(example, numbers)
        order = dict.fromkeys(example.documents[place] for place in np.argsort(-scores, kind="stable"))
        found = sum(example.gains.get(name, 0.0) / math.log2(rank + 2) for rank, name in enumerate(list(order)[:10]))
        ideal = sorted(example.gains.values(), reverse=True)[:10]
        total += found / sum(gain / math.log2(rank + 2) for rank, gain in enumerate(ideal))
    return total / max(len(examples), 1)


def _scores(one: Example, numbers: Array) -> tuple[Array, float]:
    share = 1.0 / (1.0 + math.exp(-float(one.evidence @ numbers[: len(EVIDENCE)])))
    scale = math.exp(numbers[len(EVIDENCE)])
    scores = scale * ((1 - share) * one.lexical + share * one.dense) + one.readings @ numbers[len(EVIDENCE) + 1 :]
    return scores, share


def _slope(examples: Sequence[Example], numbers: Array) -> Array:
    slope = np.zeros_like(numbers)
    count = 0
    scale = math.exp(numbers[len(EVIDENCE)])
    for example in examples:
        if not example.relevant.any() or example.relevant.all():
            continue
        count += 1
        scores, share = _scores(example, numbers)
        likely = np.exp(scores - scores.max())
        wanted = likely * example.relevant
        pull = likely / likely.sum() - wanted / wanted.sum()
        mixed = (1 - share) * example.lexical + share * example.dense
        slope[: len(EVIDENCE)] += (
            scale * share * (1 - share) * (pull @ (example.dense - example.lexical)) * example.evidence
        )
        slope[len(EVIDENCE)] += scale * float(pull @ mixed)
        slope[len(EVIDENCE) + 1 :] += pull @ example.readings
    return slope / max(count, 1)


def _is_penalised(count: int) -> Array:
    mask = np.ones(count)
    mask[[0, len(EVIDENCE)]] = 0.0
    return mask


def _examples(given: JudgedSet, args: argparse.Namespace, keep: Path) -> Iterator[Example]:
    folder = keep / given.name
    folder.mkdir(parents=True, exist_ok=True)
    with Bench(given, folder, args.vectors or keep / "vectors") as bench:
        bench.index()
        step = max(1, -(-len(given.judged) // args.limit))
        for question in given.judged[::step]:
            example = _example(bench, question, dict(given.gains[question.id]))
            if example is not None:
                yield example


def _example(bench: Bench, question: Question, gains: dict[str, float]) -> Example | None:
    options = SearchOptions(k=10, filters=Filters(projects=(bench.project(question),)))
    terms = bench.analyser.query_terms(question.text)
    asked = candidates.SearchQuestion(question.text, terms, unit_vector(bench.embedder.embed_query(question.text)))
    seen: list[LaneEvidence] = []

    def found(share: float) -> candidates.CandidateSet:
        def fixed(_: str, evidence: LaneEvidence) -> LaneWeights:
            seen.append(evidence)
            return LaneWeights(share, "")

        with (
            mock.patch.object(candidates, "weigh_lanes", fixed),
            mock.patch.object(score_features, "ENTRY_WEIGHT", 0.0),
        ):
            return candidates.find_candidates(bench.store, asked, options)

    words = found(0.0)
    by_words = {item.key: item.score / LANES_WEIGHT for item in words.ranked}
    by_vectors = {item.key: item.score / LANES_WEIGHT for item in found(1.0).ranked}
    keys = sorted(by_words, key=lambda key: -(by_words[key] + by_vectors.get(key, 0.0)))[:MOST_READ]
    if not keys:
        return None
    stored = bench.store.fetch(keys)
    reader = CloseReader(terms, words.rarity)
    readings = [reader.read(bench.analyser.words(stored[key].chunk.matched_text)) for key in keys]
    sizes = bench.store.entry_sizes(keys, score_features.MAX_ENTRY_CHUNKS)
    evidence = seen[0]
    documents = tuple(bench.documents_of(key)[0] for key in keys)
    return Example(
        evidence=np.array(
            [
                1.0,
                evidence.coverage,
                math.log1p(evidence.terms),
                evidence.lead,
                non_latin_share(question.text),
                evidence.known,
            ]
        ),
        lexical=np.array([by_words[key] for key in keys]),
        dense=np.array([by_vectors.get(key, 0.0) for key in keys]),
        readings=np.array(
            [
                (item.coverage, item.phrase, item.proximity, item.part_words, score_features.entry_share(sizes[key]))
                for key, item in zip(keys, readings, strict=True)
            ]
        ),
        relevant=np.array([gains.get(name, 0.0) > 0.0 for name in documents]),
        documents=documents,
        gains={name: gain for name, gain in gains.items() if gain > 0.0},
    )


def _print(numbers: Array) -> None:
    print("retrieval/fusion.py")
    for name, value in zip(EVIDENCE, numbers, strict=False):
        print(f"  {name:10} {value:6.2f}")
    scale = math.exp(numbers[len(EVIDENCE)])
    worth = numbers[len(EVIDENCE) + 1 :] / scale
    whole = 1.0 + float(worth.sum())
    print(f"retrieval/score_features.py\n  {'lanes':10} {1 / whole:6.3f}")
    for name, value in zip(READING, worth, strict=True):
        print(f"  {name:10} {value / whole:6.3f}")


def arguments(description: str) -> argparse.Namespace:
    """Add the options that both learning programs share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds retrieval/SET/corpus.jsonl.gz")
    parser.add_argument("--sets", default="", metavar="A,B", help="only these; without: all but the smallest")
    parser.add_argument("--vectors", type=Path, metavar="DIR", help="keep vectors here from run to run")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep files and indexes here from run to run")
    parser.add_argument("--limit", type=int, default=300, metavar="N", help="questions of a set, at most")
    parser.add_argument("--leave-out", action="store_true", help="learn without each set in turn, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
