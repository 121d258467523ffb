"""What is left out after a search is made up for, as long as there is something to make up for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.options import SearchOptions
from lorelog.core.query import Explanation, Hit, Lane, SearchReply, VectorCoverage
from lorelog.services.search.postprocess import search_until


def hit(number: int) -> Hit:
    return Hit(
        id=str(number),
        score=-number,
        source="/a.md",
        start_line=1,
        end_line=1,
        heading="",
        heading_level=0,
        heading_path=(),
        project="",
        date="",
        type="",
        tags=(),
        content="",
        content_hash="",
        snippet="",
        matches=(),
        anchor=None,
        explanation=Explanation(()),
    )


class Shelf:
    """So many hits, and how many were asked for."""

    def __init__(self, count: int) -> None:
        self.asked: list[int] = []
        self._count = count

    def search(self, options: SearchOptions) -> SearchReply:
        self.asked.append(options.k)
        hits = tuple(hit(number) for number in range(min(self._count, options.k)))
        return SearchReply("q", Lane.HYBRID, hits, VectorCoverage(0, 0), ("a note",))


@given(st.integers(0, 300), st.integers(1, 20), st.integers(1, 12))
def test_the_best_that_are_kept_are_returned(count: int, k: int, nth: int) -> None:
    """As many as were asked for, in order, if that many are kept among all there are."""
    reply = search_until(Shelf(count).search, SearchOptions(k=k), lambda one: int(one.id) % nth == 0)

    assert [int(one.id) for one in reply.hits] == [number for number in range(count) if number % nth == 0][:k]
    assert reply.notes == ("a note",)


def test_nothing_is_asked_for_twice_where_nothing_falls_out() -> None:
    """A search from which nothing is hidden costs what it cost before."""
    shelf = Shelf(100)

    assert len(search_until(shelf.search, SearchOptions(k=5), lambda _: True).hits) == 5
    assert shelf.asked == [5]


def test_looking_further_has_an_end() -> None:
    """Where nothing is kept, a large index is not read through."""
    shelf = Shelf(10**9)

    assert search_until(shelf.search, SearchOptions(k=5), lambda _: False).hits == ()
    assert shelf.asked == [5, 20, 80, 320, 1000]
