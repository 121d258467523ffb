"""A time that a question names, from the question to the ranking."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from tests.stores.making import TemporaryStore, chunk, update

from lorelog.core.document import Chunk
from lorelog.core.options import SearchOptions
from lorelog.core.query import Hit, SearchReply
from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.time_expressions import TIME_WEIGHT
from lorelog.services.search.searcher import SearchDeps, Searcher

TODAY = dt.date(2026, 3, 12)
"""A Thursday."""
LAST_WEEK, LONG_AGO = "2026-03-04", "2025-06-01"


def ask(query: str, chunks: Sequence[Chunk], k: int = 5) -> SearchReply:
    """Ask on that day, of chunks that are each a document of their own."""
    store = TemporaryStore(WordAnalyser(), provider="none", model="none")
    with store.writer() as writer:
        writer.put([update(chunk.source, [chunk]) for chunk in chunks])
    return Searcher(store, None, WordAnalyser(), SearchDeps(today=lambda: TODAY)).search(query, SearchOptions(k=k))


def note(text: str, date: str, number: int = 0) -> Chunk:
    return chunk(f"/{number:03}-{date}.md", text, date=date)


def found(reply: SearchReply) -> list[str]:
    return [hit.content for hit in reply.hits]


def time_part(hit: Hit) -> tuple[float, str] | None:
    return next(((part.value, part.note) for part in hit.explanation.parts if part.name == "time"), None)


def test_last_week_is_preferred() -> None:
    """Of two notes that say the same of the matter, the one of the named week comes first, and the ranking says why."""
    reply = ask(
        "otter decision last week", [note("otter decision old", LONG_AGO), note("otter decision new", LAST_WEEK)]
    )

    assert found(reply) == ["otter decision new", "otter decision old"]
    assert '"last week" is 2026-03-02 to 2026-03-08' in reply.weighing
    inside, outside = map(time_part, reply.hits)
    assert inside is not None
    assert outside is not None
    assert inside[0] == pytest.approx(TIME_WEIGHT)
    assert outside[0] < 0.1 * TIME_WEIGHT
    assert "this is of 2026-03-04" in inside[1]


def test_a_time_is_a_preference_and_no_filter() -> None:
    """What answers the question best is found though it is of another time."""
    texts = [
        note("the otter decision: keep the pond", LONG_AGO),
        note("weather", LAST_WEEK),
        note("otter", LAST_WEEK, 1),
    ]

    assert found(ask("otter decision pond last week", texts))[0] == "the otter decision: keep the pond"


def test_a_time_that_no_candidate_is_of_changes_nothing() -> None:
    """A year that is the subject of a text is no date of any note: no part, no word of it, and the same ranking."""
    texts = [note("otter census in March 2010", LONG_AGO), note("otter swims", LAST_WEEK)]
    reply = ask("otter census in March 2010", texts)

    assert [time_part(hit) for hit in reply.hits] == [None, None]
    assert reply.weighing == ""
    assert found(reply)[0] == "otter census in March 2010"


def test_all_candidates_are_measured_alike() -> None:
    """Whether a time counts is decided once: repeats that make a search read on do not give the later ones a part alone."""
    copies = [note("otter decision otter decision", LONG_AGO, number) for number in range(60)]
    later = [note("otter decision beside others", LAST_WEEK, number) for number in range(100, 104)]
    reply = ask("otter decision last week", [*copies, *later], k=2)

    assert len({time_part(hit) is None for hit in reply.hits}) == 1
