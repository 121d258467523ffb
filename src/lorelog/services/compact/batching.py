"""Batches: sources that belong together, as many as a model reads at once.

Time decides first: the oldest source that is left begins a batch. What is near to it, by meaning or by words, and near in time joins it
as long as there is room; only so many of the next sources are looked at, so that a batch stays within its time and the work grows
with the number of sources. The same sources give the same batches.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from datetime import date
from itertools import islice
from operator import mul

from lorelog.core.ports import Store
from lorelog.services.compact.sources import Source
from lorelog.services.telling import content_words

LOOKED_AT = 200
_A_DAY = 0.02
"""How much nearer in meaning something must be that is a day further away."""
_MOST_DAYS = 30

Near = Callable[[Source, Sequence[Source]], Sequence[float]]
"""Says how near each of some sources is to one of them, 0 to 1."""


def make_batches(
    sources: Sequence[Source], tokens: Callable[[Source], int], most: int, near: Near
) -> list[tuple[Source, ...]]:
    """Return the sources, given in the order of time, in batches of at most `most` tokens; each fits by itself."""
    batches: list[tuple[Source, ...]] = []
    following = iter(sources)
    waiting: list[Source] = []
    while True:
        waiting += islice(following, LOOKED_AT - len(waiting))
        if not waiting:
            return batches
        first, others = waiting[0], waiting[1:]
        nearness = near(first, others) if others else ()
        weighed = [one - _A_DAY * _days(first, other) for one, other in zip(nearness, others, strict=True)]
        taken, room = {0}, most - tokens(first)
        for place in sorted(range(len(others)), key=lambda place: (-weighed[place], place)):
            if tokens(others[place]) <= room:
                taken.add(place + 1)
                room -= tokens(others[place])
        batches.append(tuple(one for place, one in enumerate(waiting) if place in taken))
        waiting = [one for place, one in enumerate(waiting) if place not in taken]


def by_words(one: Source, others: Sequence[Source]) -> list[float]:
    """Say what share of their words two sources have in common."""
    words = content_words(one.text)
    return [_shared(words, content_words(other.text)) for other in others]


def by_meaning(store: Store) -> Near:
    """Return what compares sources by their vectors, and by words where one of them has none."""

    def near(one: Source, others: Sequence[Source]) -> list[float]:
        vectors = store.vectors([source.stored.key for source in (one, *others)])
        if len(vectors) <= len(others):
            return by_words(one, others)
        first = _numbers(vectors[one.stored.key])
        return [sum(map(mul, first, _numbers(vectors[other.stored.key]))) for other in others]

    return near


def _numbers(vector: bytes) -> array[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _shared(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0


def _days(one: Source, other: Source) -> int:
    try:
        apart = date.fromisoformat(other.day) - date.fromisoformat(one.day)
    except ValueError:
        return _MOST_DAYS
    return min(abs(apart.days), _MOST_DAYS)
