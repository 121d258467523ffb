"""Learns the numbers of `retrieval/relevance.py` from examples.

Lanes. The share of the vectors is a logistic function of the evidence of a question (`fusion.lane_features`). It is learned on
nDCG@10 itself: each question is ranked with 17 shares, and between them its nDCG is interpolated and smoothed. What is
maximised is the mean, less the squares of what is lost against the better lane, each over cells: a set with one kind of
questions, or a family of sets in parts of one size. So a large loss in one cell outweighs many small gains. A cell of few questions loses some
by chance, and so much is forgiven. The weights of readings are found by trying larger and smaller ones.

Relevance. A logistic function of the features of first hits. Every set counts alike, and its parts half as much as the whole; in each,
questions with and without an answer are as many as were asked, which is what a probability is about. The hits after the first count for
less together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log2
from typing import Any

import numpy as np
from bench.quality.examples import WHOLE, Example
from bench.quality.sets import FAMILIES, family_of

from lorelog.retrieval.fusion import (
    MAX_COVERAGE,
    MIN_COVERAGE,
    SHARPNESS,
    USUAL_REACH,
    dense_share,
    lane_features,
    limit_dense,
)
from lorelog.retrieval.relevance import (
    RELEVANCE_FEATURES,
    LaneNumbers,
    QueryFeatures,
    RelevanceNumbers,
    relevance_features,
)
from lorelog.retrieval.score_features import MatchFeatures, entry_mix

EVIDENCE = ("constant", "coverage", "terms", "lead", "keywords", "unread", "agreement")
SIGNS = {"coverage": -1, "lead": 1, "keywords": -1, "unread": -1, "agreement": 1}
"""Numbers whose sign is known: more of it never speaks against."""
READINGS = {"bm25_power": 0.75, "proximity": 2.0, "part_words": 1.0, "entry": 0.3}
"""Where the search for the other numbers starts."""
_STEPS = (0.75, 1.33)
SHARES = {
    ("judged", True): 1.5,
    ("judged", False): 0.7,
    ("stressed", True): 0.6,
    ("stressed", False): 0.3,
    ("keywords", True): 0.25,
    ("keywords", False): 0.1,
}
"""How much kinds of questions count in the mean, of a whole set and of its parts."""
REGRET = 30.0
"""How much the squares of losses count against the mean."""
_KEYWORDS_REGRET = 0.3
_CHANCE = 0.0625
"""Loss of a single question that is forgiven; of more, divided by the root of their number."""
_ENOUGH = {True: 100, False: 40}
"""Questions from which on a set, or a part of one, counts in full."""
PARTS, LATER = 0.5, 0.5
"""How much parts of sets, and hits after the first, count together."""
KINDS = {"stressed": 0.3, "keywords": 0.3}
"""How much other kinds of questions count beside those as they are."""
_LOGITS = np.linspace(-6.0, 6.0, 17)
_KERNEL = np.exp(-0.5 * np.arange(-3.0, 4.0) ** 2)
_HARDLY_READ = 0.5
_PENALTY = 1e-4
_SHARE_PENALTY = 3e-4
_ROUNDS = 300
_PATIENCE = 4

Array = np.ndarray[Any, Any]
Sets = Mapping[str, Sequence[Example]]


@dataclass(frozen=True)
class Unit:
    """What cosines are counted in: deviations of an encoder; 0 if it is not measured."""

    spread: float = 0.0


def evidence(example: Example) -> tuple[float, ...]:
    """Return what the share of the vectors depends on."""
    seen = example.evidence
    best = max(float(example.own_lexical.max()), 1e-9)
    agreement = float(example.own_lexical[example.own_cosine.argmax()]) / best
    return lane_features(coverage(example), seen["terms"], seen["lead"], seen["keywords"], seen["unread"], agreement)


def coverage(example: Example) -> float:
    """Return the best BM25 as a share of that of a text with every word, within limits."""
    seen = example.evidence
    found = seen["best"] / seen["full"] if seen["full"] > 0 else 0.0
    return min(max(found, MIN_COVERAGE), MAX_COVERAGE)


def lane_shares(example: Example, unit: Unit) -> tuple[Array, Array]:
    """Return the shares of all candidates in each lane."""
    seen = example.evidence
    reach = max(seen["highest"] - seen["lowest"], USUAL_REACH * unit.spread, 1e-9)
    return (
        np.maximum(example.lexical / max(seen["best"], 1e-9), 0.0) ** SHARPNESS,
        np.clip(1.0 - (seen["highest"] - example.cosine) / reach, 0.0, 1.0) ** SHARPNESS,
    )


def sides(example: Example, unit: Unit, readings: Mapping[str, float]) -> tuple[Array, Array]:
    """Return the scores of all candidates by words and by vectors, each with the readings that go with it."""
    words, vectors = lane_shares(example, unit)
    words = words * coverage(example) ** readings["bm25_power"]
    words += readings["proximity"] * example.readings[:, 2] + readings["part_words"] * example.readings[:, 3]
    sizes = example.readings[:, 4]
    return words, vectors + readings["entry"] * entry_mix(list(sizes)) * sizes


class LaneModel:
    """The numbers of the lanes. Nobody knows what an encoder reads that was not measured, so letters do not count for it."""

    def __init__(self, unit: Unit, numbers: LaneNumbers | None = None) -> None:
        self.unit = unit
        self.numbers = numbers or LaneNumbers()

    def scores(self, example: Example) -> Array:
        """Return the scores of all candidates, between 0 and 1, as `fusion.weigh_lanes` weighs them."""
        numbers = self.numbers
        share = dense_share(evidence(example), numbers)
        words, vectors = sides(example, self.unit, {name: getattr(numbers, name) for name in READINGS})
        best = coverage(example) ** numbers.bm25_power
        scores: Array = (1 - share) * words + share * vectors
        lanes = (1 - share) * best + share
        moved = share - lanes * limit_dense(share / lanes, example.evidence["literal"])
        if moved > 0.0:
            by_words, by_vectors = lane_shares(example, self.unit)
            scores += moved * (by_words - by_vectors)
        scores /= lanes + (1 - share) * (numbers.proximity + numbers.part_words) + share * numbers.entry
        return scores

    def learn(self, sets: Sets, readings: Mapping[str, float] | None = None) -> LaneModel:
        """Learn from sets, and return itself. Weights of readings that are given are not tried."""
        asked = Questions(sets, self.unit)
        tried = dict(readings or READINGS)
        value, share = asked.learn_share(tried)
        for name in () if readings else READINGS:
            for step in _STEPS:
                other = {**tried, name: round(tried[name] * step, 3)}
                new, found = asked.learn_share(other)
                if new < value:
                    value, share, tried = new, found, other
                    break
        named = dict(zip(EVIDENCE, (round(float(number), 3) for number in share), strict=True))
        self.numbers = LaneNumbers(**named, **tried)
        return self


class Questions:
    """Questions with an answer, as arrays, and their cells."""

    def __init__(self, sets: Sets, unit: Unit) -> None:
        self._unit = unit
        asked = [(name, item) for name, found in sets.items() for item in found if item.gains and _teaches(item)]
        self._examples = [item for _, item in asked]
        self._evidence = np.array([evidence(item) for item in self._examples])
        cells = [_cell(name, item) for name, item in asked]
        self._cells = list(dict.fromkeys(cells))
        places = {cell: place for place, cell in enumerate(self._cells)}
        self._cell_of = np.array([places[cell] for cell in cells])
        self._counts = np.bincount(self._cell_of)
        self._ndcg = DocumentGains(self._examples)
        lanes = [
            self._ndcg.of(np.concatenate([words_alone(item) for item in self._examples])),
            self._ndcg.of(np.concatenate([item.own_cosine for item in self._examples])),
        ]
        self._better = np.max([self._means(lane) for lane in lanes], axis=0)
        self._shares = np.array([_share(cell, count) for cell, count in zip(self._cells, self._counts, strict=True)])
        self._shares /= self._shares.sum()

    def _means(self, values: Array) -> Array:
        means: Array = np.bincount(self._cell_of, values) / self._counts
        return means

    def learn_share(self, readings: Mapping[str, float]) -> tuple[float, Array]:
        """Return the loss and the numbers of the evidence."""
        both = [sides(item, self._unit, readings) for item in self._examples]
        words, vectors = (np.concatenate([side[lane] for side in both]) for lane in (0, 1))
        shares = 1.0 / (1.0 + np.exp(-_LOGITS))
        curves = [self._ndcg.of((1 - share) * words + share * vectors) for share in shares]
        smooth = _smoothed(np.array(curves).T)
        deviations = self._evidence.std(0)
        deviations[0] = 0.0
        signs = [SIGNS.get(name, 0) for name in EVIDENCE]
        low = np.array([0.0 if sign > 0 else -30.0 for sign in signs])
        high = np.array([0.0 if sign < 0 else 30.0 for sign in signs])
        if not self._unit.spread:
            low[EVIDENCE.index("unread")] = 0.0
        kinds = np.array([_KEYWORDS_REGRET if cell[1] == "keywords" else 1.0 for cell in self._cells])
        regrets = REGRET * kinds * np.minimum(self._counts / 60, 1.0) / len(self._cells)
        forgiven = _CHANCE / np.sqrt(self._counts)

        def loss(numbers: Array) -> tuple[float, Array]:
            values, slopes = _interpolated(smooth, self._evidence @ numbers)
            means = self._means(values)
            lost = np.maximum(self._better - means - forgiven, 0.0)
            scaled = numbers * deviations
            value = -self._shares @ means + regrets @ lost**2 + _SHARE_PENALTY * scaled @ scaled
            slope = (-self._shares - 2 * regrets * lost) / self._counts
            pulled = self._evidence.T @ (slope[self._cell_of] * slopes)
            return float(value), pulled + 2 * _SHARE_PENALTY * scaled * deviations

        numbers = np.zeros(len(EVIDENCE))
        for _ in range(2):  # bounds make the curve that BFGS follows a wrong one
            numbers = minimise(loss, numbers, lambda found: np.clip(found, low, high))
        return loss(numbers)[0], numbers


class DocumentGains:
    """Computes nDCG@10 of many questions at once. A document is as good as its best chunk."""

    def __init__(self, examples: Sequence[Example]) -> None:
        owners = [(row, name) for row, item in enumerate(examples) for name in item.documents]
        groups: dict[tuple[int, str], int] = {}
        self._document = np.array([groups.setdefault(owner, len(groups)) for owner in owners])
        self._order = np.argsort(self._document, kind="stable")
        self._starts = np.searchsorted(self._document[self._order], np.arange(len(groups)))
        rows = np.array([row for row, _ in groups])
        gains = np.array([examples[row].gains.get(name, 0.0) for row, name in groups])
        self._relevant = np.flatnonzero(gains > 0)
        self._gains = gains[self._relevant]
        self._row = rows[self._relevant]
        counts = np.bincount(rows, minlength=len(examples))
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        beside = np.arange(counts.max())
        self._others = np.minimum(first[self._row][:, None] + beside, len(rows) - 1)
        self._is_other = beside < counts[self._row][:, None]
        self._is_earlier = self._others < self._relevant[:, None]
        self._ideal = np.array([_ideal(item.gains.values()) for item in examples])

    def of(self, scores: Array) -> Array:
        """Return nDCG@10 of each question for the scores of its candidates, those of all questions in a row."""
        best = np.maximum.reduceat(scores[self._order], self._starts)
        others, own = best[self._others], best[self._relevant]
        ahead = (others > own[:, None]) | ((others == own[:, None]) & self._is_earlier)
        ranks = (ahead & self._is_other).sum(1)
        found = np.where((ranks < 10) & np.isfinite(own), self._gains / np.log2(ranks + 2), 0.0)
        values: Array = np.bincount(self._row, found, minlength=len(self._ideal)) / self._ideal
        return values


def words_alone(example: Example) -> Array:
    """Return the scores of the lexical lane, which does not find what shares no word."""
    scores: Array = np.where(example.own_lexical > 0, example.own_lexical, -np.inf)
    return scores


def _ideal(gains: Iterable[float]) -> float:
    return sum(gain / log2(rank + 2) for rank, gain in enumerate(sorted(gains, reverse=True)[:10]))


def _smoothed(curves: Array) -> Array:
    """Return curves in which a step of a rank is a slope."""
    half = len(_KERNEL) // 2
    padded = np.pad(curves, ((0, 0), (half, half)), "edge")
    width = curves.shape[1]
    smooth: Array = sum(weight * padded[:, at : at + width] for at, weight in enumerate(_KERNEL / _KERNEL.sum()))
    return smooth


def _interpolated(curves: Array, logits: Array) -> tuple[Array, Array]:
    """Return the value and the slope of each curve at its logit."""
    step = _LOGITS[1] - _LOGITS[0]
    places = np.clip((logits - _LOGITS[0]) / step, 0.0, len(_LOGITS) - 1.001)
    left = places.astype(int)
    rows = np.arange(len(logits))
    before, after = curves[rows, left], curves[rows, left + 1]
    return before + (after - before) * (places - left), (after - before) / step * (np.abs(logits) < _LOGITS[-1])


def _cell(name: str, example: Example) -> tuple[str, str, int]:
    """Return the cell of an example: parts of a set are too few to count alone."""
    return (name if example.size == WHOLE else family_of(name), example.kind, example.size)


def _share(cell: tuple[str, str, int], count: int) -> float:
    """Return how much a cell counts in the mean."""
    name, kind, size = cell
    sets = 1.0 if size == WHOLE else len(FAMILIES.get(name, (name,))) / 5
    return SHARES[kind, size == WHOLE] * sets * min(1.0, count / _ENOUGH[size == WHOLE])


def _teaches(example: Example) -> bool:
    """Return whether lanes are learned from an example; without its words, nothing answers a question that the encoder hardly reads."""
    return example.kind in ("judged", "keywords") or (
        example.kind == "stressed" and example.evidence["unread"] < _HARDLY_READ
    )


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


FORMS = {
    "hybrid": RELEVANCE_FEATURES,
    "other": tuple(name for name in RELEVANCE_FEATURES if name != "margin"),
    "words": tuple(name for name in RELEVANCE_FEATURES if name not in ("margin", "lead", "height")),
}
_RISING = ("coverage", "proximity", "part_words", "lead", "height", "margin")
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
                other = order[1 if number == 0 else 0] if len(order) > 1 else None
                margin = float(scores[place] - (0.0 if other is None else scores[other]))
                features = _relevance_features(item, unit, place, margin)
                found.append(Claimed(name, item, features, bool(item.relevant[place]), bool(item.gains), number))
    return found


def _relevance_features(example: Example, unit: Unit, place: int, margin: float) -> dict[str, float]:
    seen = example.evidence
    height = (float(example.own_cosine[place]) - seen["mean_cosine"]) / unit.spread if unit.spread else 0.0
    query = QueryFeatures(int(seen["terms"]), int(seen["chunks"]), seen["lead"], keywords=seen["keywords"])
    return relevance_features(query, MatchFeatures(*map(float, example.readings[place][:4])), height, margin)


def learn_relevance(claims: Sequence[Claimed], form: str) -> RelevanceNumbers:
    """Return the numbers of one form: logistic regression in which features that cannot speak against a hit do not."""
    columns = FORMS[form]
    features = np.array([[item.features[name] for name in columns] for item in claims])
    labels = np.array([float(item.is_relevant) for item in claims])
    kinds = (item.example.kind if item.example.kind in KINDS else "" for item in claims)
    keys = [
        (item.name, item.example.size == WHOLE, kind, item.place > 0) for item, kind in zip(claims, kinds, strict=True)
    ]
    counts = Counter(keys)
    shares = np.array(
        [
            (1.0 if is_whole else PARTS)
            * KINDS.get(kind, 1.0)
            * (LATER if is_later else 1.0)
            / max(counts[name, is_whole, kind, is_later], _ENOUGH[True])
            for name, is_whole, kind, is_later in keys
        ]
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
