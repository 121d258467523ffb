"""The probability that a hit is relevant."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.relevance import (
    CONFIDENCE_THRESHOLDS,
    QueryFeatures,
    confidence_words,
    falling_relevances,
    relevance_probability,
)
from lorelog.retrieval.score_features import MatchFeatures

SHARE = st.floats(0.0, 1.0)
ASKED = st.builds(QueryFeatures, st.integers(0, 2_000), SHARE)
READING = st.builds(MatchFeatures, SHARE, SHARE, SHARE, SHARE)
DISTANCE = st.floats(allow_nan=False)
SCORE = st.floats(allow_nan=False)


@given(ASKED, READING, SCORE, st.none() | DISTANCE)
def test_a_probability(asked: QueryFeatures, reading: MatchFeatures, score: float, distance: float | None) -> None:
    """It is between 0 and 1 for any input."""
    assert 0.0 <= relevance_probability(asked, reading, score, distance) <= 1.0


@given(ASKED, READING, SHARE, st.none() | DISTANCE, SHARE)
def test_rises_with_coverage(
    asked: QueryFeatures, reading: MatchFeatures, score: float, distance: float | None, coverage: float
) -> None:
    """More coverage never lowers it."""
    more = replace(reading, coverage=max(reading.coverage, coverage))
    assert relevance_probability(asked, more, score, distance) >= relevance_probability(asked, reading, score, distance)


@given(ASKED, READING, SHARE, DISTANCE, SHARE)
def test_rises_with_the_score(
    asked: QueryFeatures, reading: MatchFeatures, score: float, distance: float, other: float
) -> None:
    """A higher score never lowers it."""
    assert relevance_probability(asked, reading, max(score, other), distance) >= relevance_probability(
        asked, reading, score, distance
    )


@given(ASKED, READING, SHARE, DISTANCE, DISTANCE)
def test_rises_with_the_distance(
    asked: QueryFeatures, reading: MatchFeatures, score: float, distance: float, other: float
) -> None:
    """A cosine that stands out more never lowers it."""
    assert relevance_probability(asked, reading, score, max(distance, other)) >= relevance_probability(
        asked, reading, score, distance
    )


@pytest.mark.parametrize("distance", [None, 3.0])
def test_all_of_the_question_or_none_of_it(distance: float | None) -> None:
    """A hit with every word of the query, close together, is likely relevant; one with none is not."""
    asked = QueryFeatures(terms=5, unread=0.0)
    assert relevance_probability(asked, MatchFeatures(1.0, 0.8, 0.8, 0.0), 1.0, distance) > 0.5
    assert relevance_probability(asked, MatchFeatures(0.0, 0.0, 0.0, 0.0), 0.3, distance) < 0.05


@given(st.lists(SHARE, max_size=12))
def test_confidence_agrees_with_the_order(relevances: list[float]) -> None:
    """A later hit never has more confidence than an earlier one, values already in order stay, and their mean stays."""
    falling = falling_relevances(relevances)
    words = [[word for word, _ in CONFIDENCE_THRESHOLDS].index(word) for word in confidence_words(relevances)]

    assert len(falling) == len(relevances)
    assert all(first >= second - 1e-12 for first, second in pairwise(falling))
    assert words == sorted(words)
    assert sum(falling) == pytest.approx(sum(relevances))
    assert falling_relevances(sorted(relevances, reverse=True)) == tuple(sorted(relevances, reverse=True))


def test_two_hits_in_the_wrong_order_share_a_word() -> None:
    """A better hit below a worse one pulls both to their mean, so that they show the same word."""
    assert falling_relevances([0.24, 0.30, 0.01]) == (0.27, 0.27, 0.01)
    assert confidence_words([0.9, 0.1, 0.7, 0.0]) == ("strong", "likely", "likely", "weak")
