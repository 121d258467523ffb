"""The score of an entry's size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.score_features import ENTRY_WEIGHT, MAX_ENTRY_CHUNKS, entry_score, entry_share, explain_entry


def test_fewer_chunks_are_worth_more() -> None:
    """Each further chunk of an entry lowers its score, up to the maximum."""
    worths = [entry_score(size) for size in range(1, MAX_ENTRY_CHUNKS + 1)]
    assert all(first > second for first, second in pairwise(worths))
    assert worths[0] == ENTRY_WEIGHT
    assert worths[-1] == 0.0


@given(st.integers(-3, 10_000))
def test_its_share_is_a_share(size: int) -> None:
    """For any size the share is between 0 and 1, and the part is the addition to the score."""
    assert 0.0 <= entry_share(size) <= 1.0
    (part,) = explain_entry(size)
    assert part.value == entry_score(size)


@pytest.mark.parametrize(
    ("size", "said"), [(1, "of its own"), (2, "has 2 chunks"), (MAX_ENTRY_CHUNKS, f"{MAX_ENTRY_CHUNKS} or more chunks")]
)
def test_it_is_said_in_words(size: int, said: str) -> None:
    """The part names the size, and whether counting stopped."""
    assert said in explain_entry(size)[0].note
