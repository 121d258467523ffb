"""What a short text borrows from the texts around it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import Key
from lorelog.core.ports import Surroundings
from lorelog.retrieval.neighbours import LEAST, LONGEST, NONE, SHARE, find_share, lend

KEYS = st.integers(0, 6)
SCORES = st.dictionaries(KEYS, st.floats(0.0, 100.0))
COSINES = st.dictionaries(KEYS, st.floats(-1.0, 1.0))
PLACES = st.builds(
    Surroundings,
    st.integers(0, 2 * LONGEST),
    st.lists(KEYS, max_size=2, unique=True).map(tuple),
    st.lists(KEYS, max_size=2, unique=True).map(tuple),
)
AROUND = st.dictionaries(KEYS, PLACES)


def test_an_answer_borrows_from_the_question_before_it() -> None:
    """A turn that holds no word of the question is lent a share of what the turn before it scores."""
    support = lend({2: Surroundings(0, near=(1,))}, {1: 10.0}, {1: 0.9, 2: 0.5})
    assert support.lexical == {2: pytest.approx(SHARE * 10.0)}
    assert support.dense == {2: pytest.approx((0.5 + SHARE * 0.9) / (1 + SHARE))}


def test_the_nearer_lends_more() -> None:
    """The chunk next to it counts twice as much as the one after that."""
    place = Surroundings(0, near=(1,), far=(2,))
    near, far = (lend({0: place}, {key: 9.0}, {}).lexical[0] for key in (1, 2))
    assert near == pytest.approx(2 * far)


@given(SCORES, COSINES)
def test_a_long_text_borrows_nothing(lexical: dict[Key, float], cosines: dict[Key, float]) -> None:
    """A chunk that can speak for itself keeps its own scores, whatever stands around it."""
    around: dict[Key, Surroundings] = {0: Surroundings(LONGEST + 1, (1, 2), (3, 4))}
    assert lend(around, lexical, cosines) == NONE


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_shorter_borrows_more(length: int, more: int) -> None:
    """Each character more lowers what is borrowed, and where nothing is asked for any more it is hardly anything."""
    assert find_share(length + more) <= find_share(length) <= SHARE
    assert find_share(LONGEST + 1) < LEAST <= find_share(LONGEST - 10)


@given(st.integers(0, LONGEST), SCORES, COSINES)
def test_no_neighbours(length: int, lexical: dict[Key, float], cosines: dict[Key, float]) -> None:
    """Who stands alone borrows nothing."""
    assert lend({0: Surroundings(length)}, lexical, cosines) == NONE
    assert lend({}, lexical, cosines) == NONE


@given(AROUND, SCORES, COSINES)
def test_never_more_than_the_best_neighbour_gives(
    around: dict[Key, Surroundings], lexical: dict[Key, float], cosines: dict[Key, float]
) -> None:
    """What is lent is at most the share of the best neighbour's score, and a cosine ends between both."""
    support = lend(around, lexical, cosines)
    for key, score in support.lexical.items():
        place = around[key]
        best = max(lexical.get(one, 0.0) for one in (*place.near, *place.far))
        own = lexical.get(key, 0.0)
        assert own <= score <= own + find_share(place.length) * best + 1e-9
    for key, cosine in support.dense.items():
        place = around[key]
        known = [cosines[one] for one in (*place.near, *place.far) if one in cosines]
        assert min(cosines[key], *known) - 1e-9 <= cosine <= max(cosines[key], *known) + 1e-9


@given(AROUND, SCORES, COSINES, st.sampled_from([math.nan, math.inf, -math.inf]), KEYS)
def test_faulty_scores_are_ignored(
    around: dict[Key, Surroundings], lexical: dict[Key, float], cosines: dict[Key, float], fault: float, key: int
) -> None:
    """A score that is no finite number counts as none, in either lane."""
    without = lend(around, *({one: score for one, score in lane.items() if one != key} for lane in (lexical, cosines)))
    assert lend(around, lexical | {key: fault}, cosines | {key: fault}) == without
