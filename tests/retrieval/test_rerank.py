"""Blending of a cross-encoder's logits with the scores of the first stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.options import RerankOptions
from lorelog.core.query import Explanation, ScorePart
from lorelog.retrieval.rerank import (
    MAX_RERANK_WEIGHT,
    RERANK_PART_NAME,
    SURE_LOGIT,
    RerankResult,
    blend,
    code_share,
    rerank,
)

QUESTION = "where did the otter sleep"
PROSE = "We saw it sleeping below the old bridge, on a bed of dry reed."
CODE = "def find(otter_id: int) -> Bed | None: return self._beds.get(otter_id, DEFAULT_BED)"


class Stub:
    """A cross-encoder with fixed replies."""

    provider, model = "stub", "stub"

    def __init__(self, answer: Sequence[float | None] | ModelError) -> None:
        self.answer = answer
        self.texts: Sequence[str] = ()

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        self.texts = texts
        if isinstance(self.answer, ModelError):
            raise self.answer
        return list(self.answer)

    def close(self) -> None:
        pass


def scores_after(first: Sequence[float], done: RerankResult) -> list[float]:
    """Return the scores of candidates with the cross-encoder's parts added."""
    return [
        Explanation((ScorePart("before", score), *([part] if part else []))).score
        for score, part in zip(first, done.parts, strict=True)
    ]


def order(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: -scores[place])


def blended(
    first: Sequence[float], cross: Sequence[float | None], text: str = PROSE, query: str = QUESTION
) -> RerankResult:
    return blend(query, first, [text] * len(first), cross)


# -- what it moves --------------------------------------------------------------------------------------------------------


def test_prose_that_is_called_relevant_goes_first() -> None:
    """In prose the candidate with by far the best logit comes first, and its part gives the reason."""
    first = [0.9, 0.8, 0.7, 0.6]
    done = blended(first, [-8.0, -9.0, 6.0, -9.0])
    assert order(scores_after(first, done))[0] == 2
    assert done.weight == MAX_RERANK_WEIGHT
    part = done.parts[2]
    assert part is not None
    assert part.name == RERANK_PART_NAME
    assert "logit 6.00" in part.note
    assert done.reason == "cross-encoder 0.70: prose"


def test_code_keeps_its_order() -> None:
    """If the candidates are code the cross-encoder has no weight, and the reason says so."""
    first = [0.9, 0.8, 0.7]
    done = blended(first, [-8.0, -9.0, 6.0], text=CODE)
    assert scores_after(first, done) == pytest.approx(first)
    assert done.weight == 0.0
    assert "look like code" in done.reason


def test_a_question_of_identifiers_keeps_its_order() -> None:
    """A query of identifiers is not reranked by a model of prose."""
    assert blended([0.9, 0.1], [-8.0, 6.0], query="BedFinder.find_otter otter_id").weight == 0.0


def test_letters_that_the_model_does_not_read_lower_its_weight() -> None:
    """The more of a query is outside the Latin script, the lower the weight."""
    weights = [
        blended([0.9, 0.1], [1.0, 2.0], query=query).weight
        for query in (QUESTION, "where did 水獭 sleep", "水獭在哪里")
    ]
    assert weights[0] > weights[1] > weights[2] == 0.0


def test_nothing_relevant_moves_little() -> None:
    """The same lead counts in full if the best is relevant, and less otherwise."""
    first = [0.9, 0.5, 0.1]
    sure = scores_after(first, blended(first, [SURE_LOGIT - 4.0, SURE_LOGIT - 4.0, SURE_LOGIT]))
    unsure = scores_after(first, blended(first, [-11.0, -11.0, -7.0]))
    assert sure[2] - sure[0] > unsure[2] - unsure[0]
    assert order(unsure)[0] == 0


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        (PROSE, 0.0, 0.0),
        ("- **Root cause**: see the notes of 2026-03-04, 14:30, e.g. (the) first; it's fine.", 0.0, 0.05),
        (CODE, 0.5, 1.0),
        ("git log --oneline -n 5 | head", 0.2, 0.7),
        ("", 0.0, 0.0),
        ("Wir haben den Otter am Fluss gesehen, nicht wahr?", 0.0, 0.0),
        ("水獭睡在桥下。", 0.0, 0.0),
    ],
)
def test_code_is_told_from_prose(text: str, least: float, most: float) -> None:
    """Markup, dates and other languages are not code; calls, operators and flags are."""
    assert least <= code_share(text) <= most


# -- what it keeps --------------------------------------------------------------------------------------------------------

finite = st.floats(-1e6, 1e6)
anything = st.one_of(st.none(), st.floats(), st.floats(-15, 15))
written = st.sampled_from([PROSE, CODE, "", "otter_id beds", "水獭睡在桥下"])


@given(st.lists(st.tuples(finite, anything, written), max_size=12), written)
def test_it_never_raises_and_stays_within_the_range(rows: list[tuple[float, float | None, str]], query: str) -> None:
    """For any logits scores stay finite and within the range of the scored candidates; the others are unchanged."""
    first = [row[0] for row in rows]
    done = blend(query, first, [row[2] for row in rows], [row[1] for row in rows])
    assert len(done.parts) == len(first)
    moved = [place for place, part in enumerate(done.parts) if part is not None]
    after = scores_after(first, done)
    for place, score in enumerate(after):
        if place in moved:
            assert math.isfinite(rows[place][1] or 0.0)
            room = 1e-6 * max(map(abs, first))
            assert min(first[index] for index in moved) - room <= score <= max(first[index] for index in moved) + room
        else:
            assert score == first[place]
    assert 0.0 <= done.weight <= MAX_RERANK_WEIGHT


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-12, 12)), min_size=2, max_size=12))
def test_both_agreeing_changes_no_order(rows: list[tuple[float, float]]) -> None:
    """If both stages agree, so does the result."""
    first = sorted((row[0] for row in rows), reverse=True)
    cross = sorted((row[1] for row in rows), reverse=True)
    after = scores_after(first, blended(first, cross))
    assert all(left >= right - 1e-12 for left, right in pairwise(after))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-12, 12)), min_size=2, max_size=12), st.sampled_from([0.01, 60.0]))
def test_the_scale_of_the_first_stage_does_not_matter(rows: list[tuple[float, float]], factor: float) -> None:
    """The move is proportional to the range of first-stage scores, such as the small ones of RRF."""
    first, cross = [row[0] for row in rows], [row[1] for row in rows]
    after = scores_after(first, blended(first, cross))
    scaled = [score * factor for score in first]
    assert scores_after(scaled, blended(scaled, cross)) == pytest.approx([score * factor for score in after])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_invalid_score_is_left_out_with_a_note(bad: float) -> None:
    """One invalid logit does not affect the others, its candidate keeps its score, and a note counts it."""
    first = [0.9, 0.8, 0.7]
    done = blended(first, [-8.0, bad, 6.0])
    assert done.parts[1] is None
    assert scores_after(first, done)[2] > 0.7
    assert done.notes == ("1 of the cross-encoder's scores were not finite numbers and are left out",)


# -- asking for it --------------------------------------------------------------------------------------------------------


def test_only_the_first_candidates_are_read() -> None:
    """The options limit how many candidates are read; the others keep their scores below them."""
    stub = Stub([-5.0, 5.0])
    first = [0.9, 0.8, 0.7, 0.6]
    done = rerank(QUESTION, first, [PROSE, PROSE, "third", "fourth"], stub, RerankOptions(candidates=2))
    assert stub.texts == [PROSE, PROSE]
    assert done.parts[2:] == (None, None)
    assert order(scores_after(first, done)) == [1, 0, 2, 3]
    assert done.notes == ()


def test_what_was_not_read_in_time_is_noted_and_stays_behind() -> None:
    """Candidates that were not read in time keep their score and their place behind those that were."""
    first = [0.9, 0.8, 0.7, 0.6]
    done = rerank(QUESTION, first, [PROSE] * 4, Stub([-5.0, 5.0, None, None]), RerankOptions(timeout_s=0.5))
    assert order(scores_after(first, done)) == [1, 0, 2, 3]
    (note,) = done.notes
    assert note.startswith("the cross-encoder read 2 of 4 candidates in 0.5 s")
    assert "rerank.timeout_s" in note


def test_code_is_not_even_shown_to_it() -> None:
    """With zero weight the cross-encoder is not called, which saves seconds, and the reason says so."""
    done = rerank(QUESTION, [0.9, 0.8], [CODE, CODE], Stub(ModelFault("it was asked")), RerankOptions())
    assert done.parts == (None, None)
    assert done.notes == ()
    assert done.reason.startswith("cross-encoder 0.00: ")


def test_no_candidates_need_no_cross_encoder() -> None:
    """Without candidates nothing is reranked."""
    assert rerank(QUESTION, [], [], Stub([]), RerankOptions()) == RerankResult(())
