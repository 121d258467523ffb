"""Learns the numbers of `retrieval/relevance.py`: how likely a hit is relevant at all.

python -m bench.quality.fit_relevance --data DIR [--sets a,b] [--vectors DIR] [--keep DIR] [--limit N]

The first hits of three kinds of questions are looked at: judged ones, those a set says nothing answers, and those asked
of the wrong documents. What is learned is a logistic function of what `relevance_probability` is given, with every set counting alike;
once as it is, once without the score (other rankings than ours), and once without score and distance (words alone).
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from bench.quality.calibration import spread
from bench.quality.fit import arguments
from bench.quality.pipeline import Bench
from bench.quality.sets import JudgedSet, Question, load, load_questions, names_in

from lorelog.retrieval.ranking_metrics import auroc, calibration_error
from lorelog.retrieval.relevance import QueryFeatures
from lorelog.retrieval.score_features import MatchFeatures
from lorelog.services.search import searcher

LOOKED_AT = 5
NAMES = ("base", "terms", "coverage", "proximity", "part-words", "unread", "unread x coverage", "distance", "score")
FORMS = {"ours": NAMES, "another ranking": NAMES[:-1], "words alone": NAMES[:-2]}
PENALTY = 1e-3

Array = np.ndarray[Any, Any]
Row = tuple[list[float], bool]


def main() -> int:
    args = arguments("Learn the numbers of relevance.")
    names = (
        args.sets.split(",") if args.sets else [item for item in names_in(args.data) if not item.startswith("memd_")]
    )
    features: list[list[float]] = []
    labels: list[bool] = []
    weights: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        for position, name in enumerate(names):
            strangers = load_questions(args.data, names[(position + 1) % len(names)])
            rows = list(_rows(load(args.data, name), strangers, args, args.keep or Path(scratch)))
            features += [row[0] for row in rows]
            labels += [row[1] for row in rows]
            weights += [1 / len(rows)] * len(rows)
            print(f"{name}: {len(rows)} hits, {sum(row[1] for row in rows)} relevant", flush=True)
    for form, columns in FORMS.items():
        _report(form, columns, np.array(features), np.array(labels, dtype=float), np.array(weights))
    return 0


def _report(form: str, columns: tuple[str, ...], features: Array, labels: Array, weights: Array) -> None:
    used = features[:, : len(columns)]
    numbers = learn(used, labels, weights / weights.mean())
    claimed = 1 / (1 + np.exp(-(used @ numbers)))
    right = [bool(label) for label in labels]
    print(f"\n{form}: AUROC {auroc(claimed.tolist(), right):.3f}, ECE {calibration_error(claimed.tolist(), right):.3f}")
    for name, value in zip(columns, numbers, strict=True):
        print(f"  {name:18} {value:7.2f}")


def learn(features: Array, labels: Array, weights: Array) -> Array:
    """Logistic regression by Newton's method."""
    numbers = np.zeros(features.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-(features @ numbers)))
        slope = features.T @ (weights * (labels - likely)) - PENALTY * numbers
        bend = (features * (weights * likely * (1 - likely))[:, None]).T @ features
        step = np.linalg.solve(bend + PENALTY * np.eye(len(numbers)), slope)
        numbers += step
        if np.abs(step).max() < 1e-6:
            break
    return numbers


def _rows(given: JudgedSet, strangers: tuple[Question, ...], args: argparse.Namespace, keep: Path) -> Iterator[Row]:
    folder = keep / given.name
    folder.mkdir(parents=True, exist_ok=True)
    groups = sorted({text.group for text in given.texts})
    after = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
    with Bench(given, folder, args.vectors or keep / "vectors") as bench:
        bench.index()
        for question in spread(given.judged, args.limit):
            gains = given.gains[question.id]
            yield from _looked_at(bench, question.text, question.group, {gain for gain in gains if gains[gain] > 0})
        for question in spread(given.unanswerable, args.limit // 2):
            yield from _looked_at(bench, question.text, question.group, set())
        if len(groups) > 1:
            astray = [(item.text, after[item.group]) for item in spread(given.judged, args.limit // 2)]
        else:
            astray = [(item.text, groups[0]) for item in spread(strangers, args.limit // 2)]
        for text, group in astray:
            yield from _looked_at(bench, text, group, set())


def _looked_at(bench: Bench, text: str, group: str, relevant: set[str]) -> Iterator[Row]:
    """The first hits of a query: the inputs of `relevance_probability`, and whether each is relevant."""
    told: list[list[float]] = []

    def listen(asked: QueryFeatures, reading: MatchFeatures, score: float | None, distance: float | None) -> float:
        told.append(_features(asked, reading, score or 0.0, distance or 0.0))
        return len(told) / 1_000_000  # which it was, in place of how likely it is

    with mock.patch.object(searcher, "relevance_probability", listen):
        hits = bench.hits(text, group, LOOKED_AT)
    for hit in hits:
        yield told[round(hit.relevance * 1_000_000) - 1], bool(relevant.intersection(bench.owners(hit)))


def _features(asked: QueryFeatures, reading: MatchFeatures, score: float, distance: float) -> list[float]:
    length = math.log1p(min(asked.terms, 40))
    held = reading.coverage
    literal = [1.0, length, held, reading.proximity, reading.part_words, asked.unread, asked.unread * held]
    return [*literal, min(max(distance, -5.0), 10.0), min(max(score, 0.0), 1.0)]


if __name__ == "__main__":
    sys.exit(main())
