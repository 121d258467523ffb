"""What is new before what is old, for who wants that: a part of the score that halves with every half-life.

It counts nothing unless a weight is set: measured with .1 and 30 days, dialogues lost .011 to .013 and one set gained .005
(nDCG@10). A question that means a time says so ("last week"), which is looked after elsewhere (`when`).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from lorelog.core.query import Part


@dataclass(frozen=True, slots=True)
class Recency:
    """What a text of today gets, and after how many days it is half of that."""

    weight: float
    half_life_days: float
    today: dt.date

    def value(self, date: str) -> float:
        """Return what a date adds to the score: nothing where there is none, and days to come count as today."""
        age = self._age(date)
        return 0.0 if age is None else self.weight * 0.5 ** (age / self.half_life_days)

    def part(self, date: str) -> Part:
        """Return that by name."""
        age = self._age(date)
        said = "no date" if age is None else f"{age} days old, half-life {self.half_life_days:g} days"
        return Part("recency", self.value(date), said)

    def _age(self, date: str) -> int | None:
        try:
            day = dt.date.fromisoformat(date[:10])
        except ValueError:
            return None
        return max((self.today - day).days, 0)
