"""Ranking metrics and their confidence intervals: pure arithmetic over judged queries.

Each metric is computed per query and then averaged, so that a query with many answers counts no more than one with
few. Only judged queries count: those with at least one document with a gain above zero. Gain is linear, and the ideal
ranking of nDCG contains all judged documents, retrieved or not.

Intervals are bootstrapped: queries are resampled with replacement a thousand times from a fixed seed, so that the
same values always give the same interval. Two rankings of the same queries are compared query by query, which is far
more sensitive than checking whether their intervals overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, log2

from msgspec import Struct

from lorelog.core.serializable import Serializable

RANKING_DEPTH = 100
"""Depth to which the first relevant document is searched."""

_RESAMPLES = 1_000
_SEED = 20_260_301


class MeanInterval(Serializable, Struct, frozen=True):
    """A mean and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def metric_names(k: int = 10) -> tuple[str, ...]:
    """Return the names of the metrics at a depth, in display order."""
    shares = tuple(f"R@{depth}" for depth in sorted({1, 5, k}))
    return (*shares, f"all@{k}", f"nDCG@{k}", "MRR")


def measure_ranking(ranked: Sequence[str], gains: Mapping[str, float], k: int = 10) -> dict[str, float]:
    """Return the metrics of one query's ranking, best first, by name.

    `gains` are its judged documents. Of a document that is ranked twice only the first position counts.
    """
    relevant = {name for name, gain in gains.items() if gain > 0}
    if not relevant:
        raise ValueError("a query without a relevant document cannot be measured")
    places: dict[str, int] = {}
    for name in ranked:
        places.setdefault(name, len(places) + 1)
    retrieved = {name: places[name] for name in relevant if name in places}
    values = {f"R@{depth}": sum(place <= depth for place in retrieved.values()) / len(relevant) for depth in {1, 5, k}}
    values[f"all@{k}"] = float(sum(place <= k for place in retrieved.values()) == len(relevant))
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:k]
    gained = fsum(gains[name] / log2(place + 1) for name, place in retrieved.items() if place <= k)
    values[f"nDCG@{k}"] = gained / fsum(gain / log2(place + 1) for place, gain in enumerate(best, 1))
    first = min(retrieved.values(), default=RANKING_DEPTH + 1)
    values["MRR"] = 1.0 / first if first <= RANKING_DEPTH else 0.0
    return {name: values[name] for name in metric_names(k)}


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """Return the mean of one value per query, with its bootstrap interval."""
    if not values:
        raise ValueError("there is nothing to average")
    import numpy as np

    samples = np.asarray(values, dtype=np.float64)
    draw = np.random.default_rng(_SEED)
    means = [samples[draw.integers(0, len(samples), len(samples))].mean() for _ in range(_RESAMPLES)]
    low, high = np.percentile(means, (2.5, 97.5)).tolist()
    return MeanInterval(fsum(values) / len(values), low, high)


def paired_difference(first: Sequence[float], second: Sequence[float]) -> MeanInterval:
    """Return by how much the first ranking is better on average, with the paired bootstrap interval.

    Both have one value per query, in the same order. An interval that contains zero is not a significant difference.
    """
    return mean_interval([left - right for left, right in zip(first, second, strict=True)])
