"""BM25 as every store of ours reckons it: from how many chunks there are, how long they are, and how many hold each word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lorelog.core.query import Term

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Statistics:
    """What BM25 must know of chunks as a whole; those of several machines add up."""

    count: int = 0
    """Chunks."""
    total: int = 0
    """Words of all of them, each counted as at least `SHORT` long."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """How many chunks hold each of the words that were asked about."""

    def __add__(self, other: Statistics) -> Statistics:
        words = dict.fromkeys([*self.holds, *other.holds])
        holds = {word: self.holds.get(word, 0) + other.holds.get(word, 0) for word in words}
        return Statistics(self.count + other.count, self.total + other.total, holds)

    def at_least(self, seen: Statistics) -> Statistics:
        """Return the same, where each word is held by as many chunks as were seen to hold it, at least."""
        holds = {word: max(many, seen.holds.get(word, 0)) for word, many in self.holds.items()}
        most = max([self.count, *holds.values()], default=0)
        return Statistics(most, self.total or most, holds)

    @property
    def average(self) -> float:
        """How long a chunk is."""
        return self.total / self.count if self.count else 1.0

    def rarity(self, word: str) -> float:
        """Return the weight of a word: the fewer chunks hold it the higher."""
        held = self.holds.get(word, 0)
        return math.log1p((self.count - min(held, self.count) + 0.5) / (held + 0.5)) if self.count else 0.0

    def weights(self, terms: Sequence[Term]) -> list[float]:
        """Return what each term of a question weighs."""
        return [term.weight * self.rarity(term.text) for term in terms]


def gain(count: int, length: float) -> float:
    """Return what a word adds, by how often a chunk holds it and by how long that is beside the average."""
    return (_K1 + 1) * count / (count + _K1 * (1 - _B + _B * length))
