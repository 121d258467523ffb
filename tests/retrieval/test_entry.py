"""What the size of an entry is worth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.entry import ENTRY, MOST, explain, find_share, find_worth


def test_fewer_chunks_are_worth_more() -> None:
    """Up to the most that are counted, every further chunk of an entry takes something away."""
    worths = [find_worth(size) for size in range(1, MOST + 1)]
    assert all(first > second for first, second in pairwise(worths))
    assert worths[0] == ENTRY
    assert worths[-1] == 0.0


@given(st.integers(-3, 10_000))
def test_its_share_is_a_share(size: int) -> None:
    """Whatever a store counts, the share is within 0 and 1, and the part says what is added."""
    assert 0.0 <= find_share(size) <= 1.0
    (part,) = explain(size)
    assert part.value == find_worth(size)


@pytest.mark.parametrize(("size", "said"), [(1, "of its own"), (2, "has 2 chunks"), (MOST, f"{MOST} or more chunks")])
def test_it_is_said_in_words(size: int, said: str) -> None:
    """The part names the size, and that counting ended."""
    assert said in explain(size)[0].note
