"""Learns the numbers of `retrieval/relevance.py` from examples.

Lanes. The score of a candidate is a sum of features, each with a weight whose logarithm is linear in the evidence. What is
learned maximises the probability that a softmax over the scores gives to relevant chunks; of that, the square root counts, because its
logarithm would be about the questions that no mixture answers, and those want vectors in every language. The scale of all scores may
depend on the evidence, too: it changes no ranking, and without it the numbers would have to say how sure a ranking is
besides how it is mixed. Every set of a hundred questions or more counts alike; stressed questions and small indexes count
for less.

Relevance. A logistic function of the features of first hits, with each set and each size counting alike; the hits after
the first count for less together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log, log2, log10
from typing import Any

import numpy as np
from bench.quality.examples import WHOLE, Example

from lorelog.retrieval.fusion import MAX_COVERAGE, MAX_HEIGHT, MIN_REACH, USUAL_RARITY, relative_length
from lorelog.retrieval.relevance import (
    RELEVANCE_FEATURES,
    LaneNumbers,
    QueryFeatures,
    RelevanceNumbers,
    relevance_features,
)
from lorelog.retrieval.score_features import MatchFeatures

FEATURES = ("words", "vectors", "proximity", "part_words", "entry")
TIED = (
    ("words", "rarity"),
    ("words", "coverage"),
    ("words", "length"),
    ("words", "keywords"),
    ("vectors", "known"),
    ("vectors", "unread"),
    ("vectors", "foreign"),
    ("vectors", "height"),
    ("vectors", "lead"),
    ("vectors", "length"),
    ("proximity", "known"),
    ("entry", "long"),
)
SCALE = ("height", "lead", "coverage", "rarity", "unread", "known", "chunks")
MEASURED = ("height", "foreign")
"""Evidence that counts only for a measured encoder: nobody knows which languages another one reads."""
SIGNS = {
    ("words", "coverage"): 1,
    ("vectors", "known"): 1,
    ("vectors", "unread"): -1,
    ("vectors", "foreign"): -1,
    ("vectors", "lead"): 1,
    ("words", "length"): 1,
    ("words", "keywords"): 1,
    ("vectors", "length"): -1,
    ("entry", "long"): -1,
}
"""Numbers whose sign is known: more of it never speaks against."""
LEAST_KNOWN = 0.1
"""How much the fit to the corpus counts at least for an encoder that was not measured: nobody knows what it reads."""
MOST = {("entry", "one"): 2.0}
"""Upper bounds. Where every entry is one chunk, its size changes no ranking, but would have most of the score."""
SHARES = {
    ("judged", True): 1.5,
    ("judged", False): 0.7,
    ("stressed", True): 0.6,
    ("stressed", False): 0.2,
    ("keywords", True): 0.25,
    ("keywords", False): 0.1,
}
"""How much kinds of questions count, of a whole set and of its parts."""
HOPELESS = 0.5
"""How much less questions count whose answer is far down: 0 for the logarithm of its probability, 1 for the probability."""
LATER = 0.5
"""How much the hits after the first count, together."""
_ENOUGH = {True: 100, False: 40}
"""Questions from which on a set, or a part of one, counts in full."""
_HEIGHT_STEP = 4.0
"""Heights are learned in steps of so many deviations, so that all evidence is about as large as 1."""
_START = {"words": 2.0, "vectors": 0.8, "proximity": 2.5, "part_words": 2.0, "entry": 1.0}
_HARDLY_READ = 0.5
_PENALTY = 1e-4
_ROUNDS = 300
_PATIENCE = 4
_RESTARTS = 3

Array = np.ndarray[Any, Any]
Sets = Mapping[str, Sequence[Example]]


@dataclass(frozen=True)
class Unit:
    """What cosines are counted in: deviations of an encoder (0 if it is not measured), and its usual mean cosine."""

    spread: float = 0.0
    level: float = 0.0

    def of(self, example: Example) -> float:
        """Return the unit in the index of an example."""
        return self.spread or max(example.evidence["deviation"], 1e-6)

    def evidence(self, example: Example) -> dict[str, float]:
        """Return what the weights depend on."""
        seen = example.evidence
        height = (seen["highest"] - seen["mean_cosine"]) / self.spread if self.spread else 0.0
        return {
            "one": 1.0,
            "rarity": log(max(seen["full"], 1.0) / USUAL_RARITY),
            "coverage": min(seen["best"] / seen["full"], MAX_COVERAGE) if seen["full"] > 0 else 0.0,
            "known": seen["known"],
            "unread": seen["unread"],
            "foreign": seen["foreign"],
            "keywords": seen["keywords"],
            "height": min(max(height, 0.0), MAX_HEIGHT) / _HEIGHT_STEP,
            "lead": seen["lead"],
            "chunks": log10(max(seen["chunks"], 1)) - 2.0,
            "length": relative_length(seen["length"]),
            "long": max(relative_length(seen["length"]), 0.0),
        }

    def features(self, example: Example) -> Array:
        """Return the features of all candidates."""
        words = example.lexical / max(example.evidence["full"], 1e-9)
        vectors = (example.cosine - example.evidence["lowest"]) / self.of(example)
        return np.column_stack([words, vectors, example.readings[:, 2:]])


class LaneModel:
    """The numbers of the lanes."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._tied = [(name, "one") for name in FEATURES] + [
            item for item in TIED if unit.spread or item[1] not in MEASURED
        ]
        self._tied += [("all", name) for name in SCALE if unit.spread or name != "height"]
        self._touches = np.array([[float(name in (feature, "all")) for feature in FEATURES] for name, _ in self._tied])
        self._numbers = np.array([_START.get(name, 0.0) if on == "one" else 0.0 for name, on in self._tied])
        self._is_free = np.array([on == "one" for _, on in self._tied])

    def _table(self, evidence: Sequence[Mapping[str, float]]) -> Array:
        """Return the evidence that each number is tied to, a row for each question."""
        return np.array([[item[on] for _, on in self._tied] for item in evidence])

    def _weights(self, table: Array, numbers: Array) -> Array:
        """Return the weight of each feature for each question."""
        weights: Array = np.exp(np.clip((table * numbers) @ self._touches, -12.0, 6.0))
        return weights

    def scores(self, example: Example) -> Array:
        """Return the scores of all candidates, between 0 and 1."""
        weights = self._weights(self._table([self.unit.evidence(example)]), self._numbers)[0]
        features = self.unit.features(example)
        seen = example.evidence
        coverage = seen["best"] / seen["full"] if seen["full"] > 0 else 0.0
        reach = max((seen["highest"] - seen["lowest"]) / self.unit.of(example), MIN_REACH)
        scores: Array = features @ weights / (weights @ np.array([coverage, reach, 1.0, 1.0, 1.0]))
        return scores

    def learn(self, sets: Sets) -> LaneModel:
        """Learn from sets, and return itself."""
        batch = _Batch(sets, self.unit)
        table = self._table(batch.evidence)
        low = np.array([0.0 if SIGNS.get(item) == 1 else -np.inf for item in self._tied])
        if not self.unit.spread:
            low[self._tied.index(("vectors", "known"))] = LEAST_KNOWN
        high = np.array([0.0 if SIGNS.get(item) == -1 else MOST.get(item, np.inf) for item in self._tied])

        def loss(numbers: Array) -> tuple[float, Array]:
            value, slope = batch.loss(self._weights(table, numbers))
            slope = ((slope @ self._touches.T) * table).sum(0)
            tied = np.where(self._is_free, 0.0, numbers)
            return value + _PENALTY * float(tied @ tied), slope + 2 * _PENALTY * tied

        for _ in range(_RESTARTS):  # bounds make the curve that BFGS follows a wrong one
            self._numbers = minimise(loss, self._numbers, lambda numbers: np.clip(numbers, low, high))
        return self

    @property
    def numbers(self) -> LaneNumbers:
        """The learned numbers, rounded."""
        found = {
            f"{name}_{on}" if on != "one" else name: round(float(value), 3)
            for (name, on), value in zip(self._tied, self._numbers, strict=True)
            if name != "all"
        }
        if "vectors_height" in found:
            found["vectors_height"] = round(found["vectors_height"] / _HEIGHT_STEP, 4)
        for name in FEATURES[2:]:
            found[name] = round(exp(found[name]), 2)
        return LaneNumbers(**found)


class _Batch:
    """Examples with a relevant and an irrelevant candidate, as arrays."""

    def __init__(self, sets: Sets, unit: Unit) -> None:
        chosen: list[tuple[Example, float]] = []
        for examples in sets.values():
            usable = [item for item in examples if item.relevant.any() and not item.relevant.all() and _teaches(item)]
            parts = {key: list(found) for key, found in groupby(sorted(usable, key=_part_key), _part_key)}
            for (kind, size), found in parts.items():
                alike = sum(other == kind and (number == WHOLE) == (size == WHOLE) for other, number in parts)
                share = SHARES[kind, size == WHOLE] / alike / len(found) * min(1.0, len(found) / _ENOUGH[size == WHOLE])
                chosen += [(item, share) for item in found]
        widest = max(len(item.relevant) for item, _ in chosen)
        self.evidence = [unit.evidence(item) for item, _ in chosen]
        self._shares = np.array([share for _, share in chosen])
        self._shares /= self._shares.sum()
        self._features = np.zeros((len(chosen), widest, len(FEATURES)), np.float32)
        self._relevant = np.zeros((len(chosen), widest), np.float32)
        self._absent = np.full((len(chosen), widest), -1e9, np.float32)
        for row, (item, _) in enumerate(chosen):
            count = len(item.relevant)
            self._features[row, :count] = unit.features(item)
            self._relevant[row, :count] = item.relevant
            self._absent[row, :count] = 0.0

    def loss(self, weights: Array) -> tuple[float, Array]:
        """Return the loss, and its slope by the logarithm of each weight."""
        scores = np.matmul(self._features, weights.astype(np.float32)[:, :, None])[:, :, 0] + self._absent
        likely = np.exp(scores - scores.max(1, keepdims=True))
        right = np.maximum((likely * self._relevant).sum(1), 1e-30)
        whole = likely.sum(1)
        found = (right / whole) ** HOPELESS
        pull = likely / whole[:, None] - likely * self._relevant / right[:, None]
        pull *= (self._shares * found)[:, None]
        slope = np.matmul(pull[:, None, :], self._features)[:, 0, :] * weights
        return float((1.0 - found) @ self._shares) / HOPELESS, slope


def _teaches(example: Example) -> bool:
    """Return whether lanes are learned from an example; without its words, nothing answers a question that the encoder hardly reads."""
    is_read = max(example.evidence["unread"], example.evidence["foreign"]) < _HARDLY_READ
    return example.kind in ("judged", "keywords") or (example.kind == "stressed" and is_read)


def _part_key(example: Example) -> tuple[str, int]:
    return example.kind, example.size


def minimise(loss: Callable[[Array], tuple[float, Array]], start: Array, bound: Callable[[Array], Array]) -> Array:
    """Return a minimum near the start by BFGS, with a bound on the numbers."""
    numbers = start.copy()
    inverse = np.eye(len(numbers))
    value, slope = loss(numbers)
    idle = 0
    for _ in range(_ROUNDS):
        direction = -inverse @ slope
        if direction @ slope >= 0:
            inverse, direction = np.eye(len(numbers)), -slope
        length = min(1.0, 1.0 / np.abs(direction).max())
        while True:
            step = bound(numbers + length * direction) - numbers
            new_value, new_slope = loss(numbers + step)
            if new_value <= value + 1e-4 * float(step @ slope) or length < 1e-4:
                break
            length *= 0.4
        if length < 1e-4:
            if idle:
                break
            idle, inverse = _PATIENCE, np.eye(len(numbers))  # once more, straight down
            continue
        change = new_slope - slope
        curve = float(step @ change)
        if curve > 1e-10:
            left = np.eye(len(numbers)) - np.outer(step, change) / curve
            inverse = left @ inverse @ left.T + np.outer(step, step) / curve
        numbers = numbers + step
        gained, value, slope = value - new_value, new_value, new_slope
        idle = idle + 1 if gained < 1e-6 else 0
        if idle > _PATIENCE:
            break
    return numbers


def ndcg(example: Example, scores: Array, *, only: Array | None = None) -> float:
    """Return nDCG@10 of the documents in the order of the scores; `only` leaves candidates out."""
    places = [place for place in np.argsort(-scores, kind="stable") if only is None or only[place]]
    order = list(dict.fromkeys(example.documents[place] for place in places))[:10]
    found = sum(example.gains.get(name, 0.0) / log2(rank + 2) for rank, name in enumerate(order))
    ideal = sorted(example.gains.values(), reverse=True)[:10]
    return found / sum(gain / log2(rank + 2) for rank, gain in enumerate(ideal))


FORMS = {
    "hybrid": RELEVANCE_FEATURES,
    "other": tuple(name for name in RELEVANCE_FEATURES if name not in ("score", "margin")),
    "words": tuple(name for name in RELEVANCE_FEATURES if name not in ("score", "margin", "lead", "height", "level")),
}
_RISING = ("coverage", "proximity", "part_words", "unread_coverage", "lead", "height", "score", "margin")
"""More of these never speaks against a hit."""


@dataclass(frozen=True)
class Claimed:
    """Features of one of the first hits, and whether it is relevant, and whether its question has an answer."""

    name: str
    example: Example
    features: Mapping[str, float]
    is_relevant: bool
    is_answerable: bool
    place: int = 0
    """0 for the first hit."""


def first_hits(sets: Sets, unit: Unit, rank: Callable[[str, Example], Array], count: int = 1) -> list[Claimed]:
    """Return the first hits of all questions in a ranking."""
    found = []
    for name, examples in sets.items():
        for item in examples:
            scores = rank(name, item)
            order = [int(place) for place in np.argsort(-scores, kind="stable")]
            for number, place in enumerate(order[:count]):
                other = order[1 if number == 0 else 0] if len(order) > 1 else place
                margin = float(scores[place] - scores[other])
                features = _relevance_features(item, unit, place, float(scores[place]), margin)
                found.append(Claimed(name, item, features, bool(item.relevant[place]), bool(item.gains), number))
    return found


def _relevance_features(example: Example, unit: Unit, place: int, score: float, margin: float) -> dict[str, float]:
    seen = example.evidence
    height = (float(example.own_cosine[place]) - seen["mean_cosine"]) / unit.spread if unit.spread else 0.0
    level = (seen["mean_cosine"] - unit.level) / unit.spread if unit.spread else 0.0
    unread = max(seen["unread"], seen["foreign"])
    query = QueryFeatures(int(seen["terms"]), unread, int(seen["chunks"]), seen["lead"])
    reading = MatchFeatures(*map(float, example.readings[place][:4]))
    return relevance_features(query, reading, height=height, level=level, score=score, margin=margin)


def learn_relevance(claims: Sequence[Claimed], form: str) -> RelevanceNumbers:
    """Return the numbers of one form: logistic regression in which features that cannot speak against a hit do not."""
    columns = FORMS[form]
    features = np.array([[item.features[name] for name in columns] for item in claims])
    labels = np.array([float(item.is_relevant) for item in claims])
    keys = [
        (item.name, item.example.size, item.is_answerable, item.example.kind == "stressed", item.place > 0)
        for item in claims
    ]
    counts = {key: keys.count(key) for key in set(keys)}
    shares = np.array(
        [(0.3 if key[3] else 1.0) * (LATER if key[4] else 1.0) / max(counts[key], _ENOUGH[False]) for key in keys]
    )
    shares /= shares.sum()
    penalised = np.array([name != "base" for name in columns], float)
    low = np.array([0.0 if name in _RISING else -np.inf for name in columns])

    def loss(numbers: Array) -> tuple[float, Array]:
        logit = np.clip(features @ numbers, -30.0, 30.0)
        likely = 1.0 / (1.0 + np.exp(-logit))
        value = -float(shares @ (labels * np.log(likely) + (1 - labels) * np.log(1 - likely)))
        value += _PENALTY * float(penalised @ numbers**2)
        return value, features.T @ (shares * (likely - labels)) + 2 * _PENALTY * penalised * numbers

    found = minimise(loss, np.zeros(len(columns)), lambda numbers: np.maximum(numbers, low))
    return {name: round(float(value), 3) for name, value in zip(columns, found, strict=True)}


def claimed_relevance(claims: Sequence[Claimed], numbers: RelevanceNumbers) -> list[float]:
    """Return the probabilities of first hits."""
    return [1.0 / (1.0 + exp(-sum(numbers[name] * item.features[name] for name in numbers))) for item in claims]
