"""The recency part of a score."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.score_features import Recency

TODAY = dt.date(2026, 3, 12)
RECENCY = Recency(0.2, 10.0, TODAY)


@pytest.mark.parametrize(
    ("date", "value"),
    [
        ("2026-03-12", 0.2),
        ("2026-03-02T14:30", 0.1),
        ("2026-02-20", 0.05),
        ("2027-01-01", 0.2),
        ("", 0.0),
        ("someday", 0.0),
        ("2026-02-31", 0.0),
    ],
)
def test_it_halves_with_every_half_life(date: str, value: float) -> None:
    """Today gets all, one half-life ago half; future days count as today, and no date gets nothing."""
    assert RECENCY.value(date) == pytest.approx(value)
    assert RECENCY.part(date).value == RECENCY.value(date)


@given(st.dates(), st.dates(), st.floats(0.01, 100_000.0))
def test_the_newer_never_gets_less(one: dt.date, other: dt.date, half_life: float) -> None:
    """Of two dates the later one gets at least as much, between 0 and the weight."""
    recency = Recency(0.3, half_life, TODAY)
    older, newer = sorted((one, other))
    assert 0.0 <= recency.value(older.isoformat()) <= recency.value(newer.isoformat()) <= 0.3
