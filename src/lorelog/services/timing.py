"""The time that a question names, as a part of the score.

A hint counts only when some candidate is of that time: a year that is the subject of a text ("im Jahr 2010") is no date of
any note, and nothing must change then.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lorelog.core.document import StoredChunk
from lorelog.core.query import Part
from lorelog.retrieval.when import TimeHint, describe, find_time, preference

WEIGHT = 0.12
"""What a chunk of the very time gains over one far from it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A time that a question names, known to be the time of some candidate."""

    hint: TimeHint

    @property
    def said(self) -> str:
        """The time in words."""
        return describe(self.hint)

    def value(self, date: str) -> float:
        """Return what a chunk's date adds to its score."""
        return WEIGHT * preference(self.hint, date)

    def part(self, date: str) -> Part:
        """Return that in words."""
        return Part("time", self.value(date), f"{self.said}; this is of {date[:10] or 'no date'}")


def find_timing(
    query: str, today: dt.date, stored: Sequence[StoredChunk], event_day: Callable[[str], str]
) -> Timing | None:
    """Return the time that a question names, if any of these chunks is of that time."""
    hint = find_time(query, today)
    if hint is not None and hint.event:
        day = event_day(hint.event)
        hint = hint.resolved(dt.date.fromisoformat(day)) if day else None
    if hint is None or not any(_is_inside(hint, one.chunk.date[:10]) for one in stored):
        return None
    return Timing(hint)


def _is_inside(hint: TimeHint, day: str) -> bool:
    first, last = hint.first, hint.last
    return bool(day) and (first is None or first.isoformat() <= day) and (last is None or day <= last.isoformat())
