"""The scores that a short text borrows from its neighbours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import ChunkKey
from lorelog.core.ports import ChunkNeighbours
from lorelog.retrieval.fusion import (
    MAX_BORROWER_CHARS,
    MAX_NEIGHBOUR_SHARE,
    MIN_NEIGHBOUR_SHARE,
    NO_SUPPORT,
    neighbour_share,
    support_from_neighbours,
)

KEYS = st.integers(0, 6)
SCORES = st.dictionaries(KEYS, st.floats(0.0, 100.0))
COSINES = st.dictionaries(KEYS, st.floats(-1.0, 1.0))
PLACES = st.builds(
    ChunkNeighbours,
    st.integers(0, 2 * MAX_BORROWER_CHARS),
    st.lists(KEYS, max_size=2, unique=True).map(tuple),
    st.lists(KEYS, max_size=2, unique=True).map(tuple),
)
AROUND = st.dictionaries(KEYS, PLACES)


def test_an_answer_borrows_from_the_question_before_it() -> None:
    """A turn without any word of the query borrows from the turn before it."""
    support = support_from_neighbours({2: ChunkNeighbours(0, near=(1,))}, {1: 10.0}, {1: 0.9, 2: 0.5})
    assert support.lexical == {2: pytest.approx(MAX_NEIGHBOUR_SHARE * 10.0)}
    assert support.dense == {2: pytest.approx((0.5 + MAX_NEIGHBOUR_SHARE * 0.9) / (1 + MAX_NEIGHBOUR_SHARE))}


def test_the_nearer_lends_more() -> None:
    """The adjacent chunk counts twice as much as the next one."""
    place = ChunkNeighbours(0, near=(1,), far=(2,))
    near, far = (support_from_neighbours({0: place}, {key: 9.0}, {}).lexical[0] for key in (1, 2))
    assert near == pytest.approx(2 * far)


@given(SCORES, COSINES)
def test_a_long_text_borrows_nothing(lexical: dict[ChunkKey, float], cosines: dict[ChunkKey, float]) -> None:
    """A long chunk borrows nothing."""
    around: dict[ChunkKey, ChunkNeighbours] = {0: ChunkNeighbours(MAX_BORROWER_CHARS + 1, (1, 2), (3, 4))}
    assert support_from_neighbours(around, lexical, cosines) == NO_SUPPORT


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_shorter_borrows_more(length: int, more: int) -> None:
    """Each further character lowers the borrowed share, down to almost nothing at the maximum length."""
    assert neighbour_share(length + more) <= neighbour_share(length) <= MAX_NEIGHBOUR_SHARE
    assert neighbour_share(MAX_BORROWER_CHARS + 1) < MIN_NEIGHBOUR_SHARE <= neighbour_share(MAX_BORROWER_CHARS - 10)


@given(st.integers(0, MAX_BORROWER_CHARS), SCORES, COSINES)
def test_no_neighbours(length: int, lexical: dict[ChunkKey, float], cosines: dict[ChunkKey, float]) -> None:
    """A chunk without neighbours borrows nothing."""
    assert support_from_neighbours({0: ChunkNeighbours(length)}, lexical, cosines) == NO_SUPPORT
    assert support_from_neighbours({}, lexical, cosines) == NO_SUPPORT


@given(AROUND, SCORES, COSINES)
def test_never_more_than_the_best_neighbour_gives(
    around: dict[ChunkKey, ChunkNeighbours], lexical: dict[ChunkKey, float], cosines: dict[ChunkKey, float]
) -> None:
    """The borrowed score is at most the share of the best neighbour's, and a cosine ends between both."""
    support = support_from_neighbours(around, lexical, cosines)
    for key, score in support.lexical.items():
        place = around[key]
        best = max(lexical.get(other, 0.0) for other in (*place.near, *place.far))
        own = lexical.get(key, 0.0)
        assert own <= score <= own + neighbour_share(place.length) * best + 1e-9
    for key, cosine in support.dense.items():
        place = around[key]
        known = [cosines[other] for other in (*place.near, *place.far) if other in cosines]
        assert min(cosines[key], *known) - 1e-9 <= cosine <= max(cosines[key], *known) + 1e-9


@given(AROUND, SCORES, COSINES, st.sampled_from([math.nan, math.inf, -math.inf]), KEYS)
def test_faulty_scores_are_ignored(
    around: dict[ChunkKey, ChunkNeighbours],
    lexical: dict[ChunkKey, float],
    cosines: dict[ChunkKey, float],
    fault: float,
    key: int,
) -> None:
    """A score that is not finite is ignored in either lane."""
    without = support_from_neighbours(
        around, *({other: score for other, score in lane.items() if other != key} for lane in (lexical, cosines))
    )
    assert support_from_neighbours(around, lexical | {key: fault}, cosines | {key: fault}) == without
