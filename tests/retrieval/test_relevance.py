"""The probability that a hit is relevant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lorelog.retrieval.relevance import (
    CONFIDENCE_THRESHOLDS,
    UNKNOWN_RELEVANCE,
    UNMEASURED,
    EncoderCalibration,
    QueryFeatures,
    calibration_of,
    confidence_words,
    load_calibrations,
    never_rising,
    relevance_probability,
)
from lorelog.retrieval.score_features import MatchFeatures


@dataclass(frozen=True)
class Found:
    """A hit: its reading, margin and cosine."""

    reading: MatchFeatures
    margin: float | None = None
    cosine: float | None = None


def likely(asked: QueryFeatures, hit: Found, encoder: EncoderCalibration) -> float:
    return relevance_probability(asked, hit.reading, encoder, margin=hit.margin, cosine=hit.cosine)


SHARE = st.floats(0.0, 1.0)
COSINE = st.floats(-1.0, 1.0)
ANY = st.floats(allow_nan=False)
ASKED = st.builds(QueryFeatures, st.integers(0, 2_000), st.integers(200, 10**6), st.floats(0.0, 5.0), COSINE)
READING = st.builds(MatchFeatures, SHARE, SHARE, SHARE, SHARE)
HIT = st.builds(Found, READING, st.none() | st.floats(-1.0, 1.0), st.none() | COSINE)
ENCODER = st.sampled_from(list(load_calibrations().values()))
MEASURED = [found for found in load_calibrations().values() if found.is_measured]
NOTHING = MatchFeatures(0.0, 0.0, 0.0, 0.0)


@given(ASKED, READING, st.none() | ANY, st.none() | ANY, ENCODER)
def test_a_probability(
    asked: QueryFeatures,
    reading: MatchFeatures,
    margin: float | None,
    cosine: float | None,
    encoder: EncoderCalibration,
) -> None:
    """It is between 0 and 1 for any input."""
    assert 0.0 < likely(asked, Found(reading, margin, cosine), encoder) <= 1.0


@given(ASKED, HIT, SHARE, ENCODER)
def test_rises_with_coverage(asked: QueryFeatures, hit: Found, more: float, encoder: EncoderCalibration) -> None:
    """More coverage never lowers it."""
    better = replace(hit, reading=structs.replace(hit.reading, coverage=max(hit.reading.coverage, more)))
    assert likely(asked, better, encoder) >= likely(asked, hit, encoder)


@given(ASKED, HIT, SHARE, ENCODER)
def test_rises_with_the_margin(asked: QueryFeatures, hit: Found, more: float, encoder: EncoderCalibration) -> None:
    """A larger margin over other hits never lowers it."""
    low = replace(hit, margin=hit.margin or 0.0)
    high = replace(low, margin=max(hit.margin or 0.0, more))
    assert likely(asked, high, encoder) >= likely(asked, low, encoder)


@given(ASKED, HIT, COSINE, ENCODER)
def test_rises_with_the_cosine(asked: QueryFeatures, hit: Found, more: float, encoder: EncoderCalibration) -> None:
    """A higher cosine never lowers it."""
    low = replace(hit, cosine=hit.cosine if hit.cosine is not None else -1.0)
    high = replace(low, cosine=max(low.cosine or -1.0, more))
    assert likely(asked, high, encoder) >= likely(asked, low, encoder)


@pytest.mark.parametrize("encoder", load_calibrations())
@pytest.mark.parametrize("cosine", [None, 0.9])
def test_all_of_the_question_or_none_of_it(cosine: float | None, encoder: str) -> None:
    """A hit with every word of the query, close together and alone, is likely relevant; one with none of it is not."""
    known = calibration_of(encoder)
    near = None if cosine is None else 8 * known.spread if known.is_measured else cosine
    far = None if cosine is None else 0.0 if known.is_measured else cosine
    asked = QueryFeatures(terms=5, chunks=1_000, lead=1.5)
    whole = Found(MatchFeatures(1.0, 0.8, 0.8, 0.0), 0.3, near)
    assert likely(asked, whole, known) > 0.6
    assert likely(asked, Found(NOTHING, 0.0, far), known) < 0.1


@pytest.mark.parametrize("encoder", MEASURED)
def test_a_paraphrase_in_a_small_memory(encoder: EncoderCalibration) -> None:
    """Among ten notes, one without a shared word whose vector stands out is not called unlikely, and one that does not is."""
    asked = QueryFeatures(terms=3, chunks=10, lead=1.2)
    near = Found(NOTHING, 0.2, 6 * encoder.spread)
    far = Found(NOTHING, 0.02, encoder.spread)
    assert likely(asked, near, encoder) > 0.4
    assert likely(asked, far, encoder) < 0.25


def test_says_nothing_where_nothing_is_known() -> None:
    """Without a shared word, a measured encoder or enough chunks to compare with, there is no probability and no word."""
    encoder = calibration_of(UNMEASURED)
    hit = Found(NOTHING, 0.3, 0.8)
    small, large = QueryFeatures(3, chunks=10), QueryFeatures(3, chunks=1_000)
    assert likely(small, hit, encoder) == UNKNOWN_RELEVANCE
    assert likely(large, hit, encoder) > UNKNOWN_RELEVANCE
    assert confidence_words([UNKNOWN_RELEVANCE]) == (None,)


@given(st.lists(SHARE, max_size=12))
def test_confidence_agrees_with_the_order(relevances: list[float]) -> None:
    """A later hit is never more likely relevant than an earlier one, and values already in order stay."""
    falling = [value for value in never_rising(relevances) if value != UNKNOWN_RELEVANCE]
    words = [[word for word, _ in CONFIDENCE_THRESHOLDS].index(word) for word in confidence_words(relevances) if word]

    assert all(first >= second for first, second in pairwise(falling))
    assert words == sorted(words)
    assert never_rising(sorted(relevances, reverse=True)) == tuple(sorted(relevances, reverse=True))


def test_an_unknown_hit_lowers_no_other() -> None:
    """A hit of which nothing is known keeps its place and does not change what others claim."""
    assert never_rising([0.9, UNKNOWN_RELEVANCE, 0.95, 0.2]) == (0.9, UNKNOWN_RELEVANCE, 0.9, 0.2)
    assert confidence_words([0.9, 0.1, 0.7, UNKNOWN_RELEVANCE]) == ("strong", "weak", "weak", None)
