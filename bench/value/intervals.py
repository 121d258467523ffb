"""Means with 95 % bootstrap intervals over tasks, and paired differences."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import fmean, quantiles

_DRAWS = 2_000


def bootstrap(values: Sequence[float], statistic: Callable[[Sequence[float]], float] = fmean) -> tuple[float, float]:
    """Return the 95 % interval of a statistic over tasks, from a fixed seed."""
    chance = random.Random(7)
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    draws = [statistic(chance.choices(values, k=len(values))) for _ in range(_DRAWS)]
    low, *_, high = quantiles(draws, n=40)
    return low, high


def share(hits: Sequence[bool]) -> str:
    """Return `n of N, x % (low-high)`."""
    if not hits:
        return "none"
    low, high = bootstrap([float(hit) for hit in hits])
    return f"{sum(hits)} of {len(hits)}, {100 * fmean(map(float, hits)):.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def share_of_groups(groups: Sequence[Sequence[bool]]) -> str:
    """Return `n of N, x % (low-high)` of all hits, with the interval over groups, drawn whole."""
    hits, total = sum(map(sum, groups)), sum(map(len, groups))
    if not total:
        return "none"
    chance = random.Random(7)
    draws = []
    for _ in range(_DRAWS):
        drawn = chance.choices(groups, k=len(groups))
        draws.append(sum(map(sum, drawn)) / sum(map(len, drawn)))
    low, *_, high = quantiles(draws, n=40)
    return f"{hits} of {total}, {100 * hits / total:.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def mean(values: Sequence[float], digits: int = 0) -> str:
    """Return `x (low-high)`."""
    if not values:
        return "none"
    low, high = bootstrap(values)
    return f"{fmean(values):,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"
