"""How likely a hit is relevant at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.closeread import Reading
from lorelog.retrieval.relevance import Asked, judge

SHARE = st.floats(0.0, 1.0)
ASKED = st.builds(Asked, st.integers(0, 2_000), SHARE)
READING = st.builds(Reading, SHARE, SHARE, SHARE, SHARE)
DISTANCE = st.floats(allow_nan=False)
SCORE = st.floats(allow_nan=False)


@given(ASKED, READING, SCORE, st.none() | DISTANCE)
def test_a_probability(asked: Asked, reading: Reading, score: float, distance: float | None) -> None:
    """Whatever was found, it is a number within 0 and 1."""
    assert 0.0 <= judge(asked, reading, score, distance) <= 1.0


@given(ASKED, READING, SHARE, st.none() | DISTANCE, SHARE)
def test_rises_with_coverage(
    asked: Asked, reading: Reading, score: float, distance: float | None, coverage: float
) -> None:
    """The more of the question a hit holds, the likelier it is relevant, or as likely."""
    more = replace(reading, coverage=max(reading.coverage, coverage))
    assert judge(asked, more, score, distance) >= judge(asked, reading, score, distance)


@given(ASKED, READING, SHARE, DISTANCE, SHARE)
def test_rises_with_the_score(asked: Asked, reading: Reading, score: float, distance: float, other: float) -> None:
    """The higher the score, the likelier, or as likely."""
    assert judge(asked, reading, max(score, other), distance) >= judge(asked, reading, score, distance)


@given(ASKED, READING, SHARE, DISTANCE, DISTANCE)
def test_rises_with_the_distance(asked: Asked, reading: Reading, score: float, distance: float, other: float) -> None:
    """The farther its vector stands out, the likelier, or as likely."""
    assert judge(asked, reading, score, max(distance, other)) >= judge(asked, reading, score, distance)


@pytest.mark.parametrize("distance", [None, 3.0])
def test_all_of_the_question_or_none_of_it(distance: float | None) -> None:
    """A hit that holds every word of the question, close together, is likely; one that holds none is not."""
    asked = Asked(terms=5, unread=0.0)
    assert judge(asked, Reading(1.0, 0.8, 0.8, 0.0), 1.0, distance) > 0.5
    assert judge(asked, Reading(0.0, 0.0, 0.0, 0.0), 0.3, distance) < 0.05
