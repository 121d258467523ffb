"""How good a ranking is, and how sure one can be of it: pure arithmetic over judged questions.

Each measure is first taken per question and then averaged, so that a question with many answers counts no more than
one with few. Only judged questions count: those for which at least one document with a gain above zero is known. Gain
is taken as it is given (linear), and the ideal ranking that nDCG divides by is made of all judged documents, found or not.

Intervals are bootstrapped: the questions are drawn anew, with replacement, a thousand times, from a fixed seed, so
that the same values always give the same interval. Two rankings of the same questions are compared question by
question, which is far sharper than looking whether their intervals overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log2, nan

DEPTH = 100
"""How far down the first relevant document is looked for."""

_RESAMPLES = 1_000
_SEED = 20_260_301
_AT_ONCE = 1 << 21
_BINS = 10


@dataclass(frozen=True, slots=True)
class Interval:
    """An average and the 95 % interval it may lie in."""

    mean: float
    low: float
    high: float


def names_of(k: int = 10) -> tuple[str, ...]:
    """Return the names of the measures at a depth, in the order they are shown."""
    shares = tuple(f"R@{depth}" for depth in sorted({1, 5, k}))
    return (*shares, f"all@{k}", f"nDCG@{k}", "MRR")


def measure(ranked: Sequence[str], gains: Mapping[str, float], k: int = 10) -> dict[str, float]:
    """Return the measures of one question's ranking, best first, by name.

    `gains` are its judged documents. Of a document that is ranked twice only the first place counts.
    """
    relevant = {name for name, gain in gains.items() if gain > 0}
    if not relevant:
        raise ValueError("a question without a relevant document cannot be measured")
    places: dict[str, int] = {}
    for name in ranked:
        places.setdefault(name, len(places) + 1)
    found = {name: places[name] for name in relevant if name in places}
    values = {f"R@{depth}": sum(place <= depth for place in found.values()) / len(relevant) for depth in {1, 5, k}}
    values[f"all@{k}"] = float(sum(place <= k for place in found.values()) == len(relevant))
    values[f"nDCG@{k}"] = _discounted_gain(found, gains, k) / _ideal_gain(gains, k)
    first = min(found.values(), default=DEPTH + 1)
    values["MRR"] = 1.0 / first if first <= DEPTH else 0.0
    return {name: values[name] for name in names_of(k)}


def _discounted_gain(places: Mapping[str, int], gains: Mapping[str, float], k: int) -> float:
    return fsum(gains[name] / log2(place + 1) for name, place in places.items() if place <= k)


def _ideal_gain(gains: Mapping[str, float], k: int) -> float:
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:k]
    return fsum(gain / log2(place + 1) for place, gain in enumerate(best, 1))


def interval(values: Sequence[float]) -> Interval:
    """Return the average of one value per question, with its bootstrap interval."""
    if not values:
        raise ValueError("there is nothing to average")
    import numpy as np

    given = np.asarray(values, dtype=np.float64)
    draw = np.random.default_rng(_SEED)
    rows = max(1, _AT_ONCE // len(given))
    means: list[float] = []
    while len(means) < _RESAMPLES:
        drawn = draw.integers(0, len(given), size=(min(rows, _RESAMPLES - len(means)), len(given)))
        means += given[drawn].mean(axis=1).tolist()
    low, high = np.percentile(means, (2.5, 97.5)).tolist()
    return Interval(fsum(values) / len(values), low, high)


def difference(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return by how much the first ranking is better, on average, with the paired bootstrap interval.

    Both hold one value per question, in the same order. An interval that holds zero is no difference to speak of.
    """
    return interval([one - other for one, other in zip(first, second, strict=True)])


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """Return how often a score of the true outranks a score of the false, ties by half; NaN where one kind is missing."""
    order = sorted(zip(scores, labels, strict=True), key=lambda pair: pair[0])
    positives = sum(labels)
    negatives = len(order) - positives
    if not positives or not negatives:
        return nan
    wins = 0.0
    below = start = 0
    while start < len(order):
        end = start
        while end < len(order) and order[end][0] == order[start][0]:
            end += 1
        true = sum(label for _, label in order[start:end])
        false = end - start - true
        wins += true * (below + false / 2)
        below += false
        start = end
    return wins / (positives * negatives)


def calibration_error(probabilities: Sequence[float], labels: Sequence[bool], bins: int = _BINS) -> float:
    """Return the expected calibration error: how far promise and outcome lie apart, averaged over bins of equal width."""
    sums: dict[int, list[float]] = {}
    for probability, label in zip(probabilities, labels, strict=True):
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"{probability} is not a probability")
        kept = sums.setdefault(min(int(probability * bins), bins - 1), [0.0, 0.0])
        kept[0] += probability
        kept[1] += label
    if not sums:
        return nan
    return fsum(abs(promised - true) for promised, true in sums.values()) / len(labels)
