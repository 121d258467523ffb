"""What is listed, in which order, and when there is more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.stores.making import PlainAnalyser, TemporaryStore, chunk, update
from tests.surfaces.conftest import run_process, write

from lorelog.core.document import Chunk
from lorelog.core.memory import ListReply
from lorelog.core.options import ListOptions
from lorelog.core.ports import DocumentUpdate
from lorelog.core.query import Filters
from lorelog.services.memories.listing import list_documents, list_memories
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

Listed = Callable[[TemporaryStore, Filters], list[str]]
TODAY = date(2026, 3, 6)


def list_both(store: TemporaryStore, filters: Filters, limit: int = 20) -> tuple[ListReply, ListReply]:
    return list_documents(store, filters, limit, state_of(store)), recent(store, filters, limit)


def recent(store: TemporaryStore, filters: Filters, limit: int = 20) -> ListReply:
    return list_memories(store, filters, limit, state_of(store), ListOptions())


def state_of(store: TemporaryStore) -> LifecycleIndex:
    return LifecycleIndex(store, Path("/home/nobody"), TODAY)


def shelved(*updates: DocumentUpdate) -> TemporaryStore:
    store = TemporaryStore(PlainAnalyser(), provider="fake", model="fake-64")
    with store.writer() as writer:
        writer.put(updates)
    return store


def of_chunks(day: str, *chunks: Chunk, project: str = "/p") -> DocumentUpdate:
    made = update(chunks[0].source, chunks, project=project)
    return replace(made, document=replace(made.document, date=day))


def of_day(day: str, source: str, project: str = "/p", **more: object) -> DocumentUpdate:
    return of_chunks(day, chunk(source, source, 1, date=day, **more), project=project)


def documents(store: TemporaryStore, filters: Filters) -> list[str]:
    return [Path(document.source).stem for document in list_both(store, filters)[0].documents]


def memories(store: TemporaryStore, filters: Filters) -> list[str]:
    return [Path(memory.chunk.source).stem for memory in recent(store, filters).memories]


@pytest.fixture
def week() -> TemporaryStore:
    return shelved(
        of_day("2026-03-03", "/docs/tuesday.md"),
        of_day("2026-03-02", "/docs/monday.md", type="decision", tags=("db", "schema")),
        of_day("2026-03-05", "/other/thursday.md", project="/q"),
        of_day("2026-03-04", "/docs-old/wednesday.md", type="lesson", tags=("db",)),
    )


both = pytest.mark.parametrize("listed", [documents, memories])


@both
def test_the_newest_come_first(listed: Listed, week: TemporaryStore) -> None:
    """Both lists go by the day a text speaks of, newest first, not by name or by the order of indexing."""
    assert listed(week, Filters()) == ["thursday", "wednesday", "tuesday", "monday"]


@both
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (Filters(projects=("/p",)), ["wednesday", "tuesday", "monday"]),
        (Filters(projects=("/q", "")), ["thursday"]),
        (Filters(projects=()), []),
        (Filters(source_prefix="/docs"), ["tuesday", "monday"]),
        (Filters(source_prefix="/docs/monday.md"), ["monday"]),
        (Filters(source_prefix="/doc"), []),
        (Filters(since="2026-03-04"), ["thursday", "wednesday"]),
        (Filters(until="2026-03-03"), ["tuesday", "monday"]),
        (Filters(since="2026-03-03", until="2026-03-04"), ["wednesday", "tuesday"]),
        (Filters(projects=("/p",), source_prefix="/docs", since="2026-03-03"), ["tuesday"]),
    ],
)
def test_filters_hold_for_both_lists(listed: Listed, week: TemporaryStore, filters: Filters, wanted: list[str]) -> None:
    """Projects, a path and days, first and last included, admit the same documents and memories."""
    assert listed(week, filters) == wanted


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (Filters(types=("decision",)), ["monday"]),
        (Filters(types=("decision", "lesson")), ["wednesday", "monday"]),
        (Filters(tags=("db",)), ["wednesday", "monday"]),
        (Filters(tags=("db", "schema")), ["monday"]),
        (Filters(types=("lesson",), tags=("schema",)), []),
    ],
)
def test_memories_are_filtered_by_type_and_tags(week: TemporaryStore, filters: Filters, wanted: list[str]) -> None:
    """Any of the types and all of the tags must be there."""
    assert memories(week, filters) == wanted


@pytest.mark.parametrize(("limit", "more"), [(1, True), (3, True), (4, False), (5, False)])
def test_more_is_said_when_there_is_more(week: TemporaryStore, limit: int, more: bool) -> None:  # noqa: FBT001
    """A list is as long as asked for, and says whether the last one shown is the last there is."""
    found_documents, found_memories = list_both(week, Filters(), limit)

    assert len(found_documents.documents) == len(found_memories.memories) == min(limit, 4)
    assert (found_documents.more, found_memories.more) == (more, more)
    assert found_documents.memories == ()
    assert found_memories.documents == ()


def test_more_counts_only_what_the_filters_admit(week: TemporaryStore) -> None:
    """What a filter keeps out is not more of what was asked for."""
    assert [reply.more for reply in list_both(week, Filters(source_prefix="/docs"), 2)] == [False, False]


def test_within_a_day_the_later_comes_first() -> None:
    """Memories of one day go by their time, and those of one time by their place, the last first."""
    day = "2026-03-02"
    entries = [
        chunk("/j.md", text, line, date=when)
        for line, (text, when) in enumerate(
            [("noon", f"{day}T12:00"), ("dawn", f"{day}T06:00"), ("dusk", f"{day}T18:00"), ("late", f"{day}T18:00")], 1
        )
    ]

    reply = recent(shelved(of_chunks(day, *entries)), Filters())

    assert [memory.chunk.text for memory in reply.memories] == ["late", "dusk", "noon", "dawn"]


def test_a_section_in_pieces_is_one_memory() -> None:
    """A long section is listed once, by its first piece, and its other pieces are not more."""
    pieces = [chunk("/j.md", f"piece {n}", n + 1, piece=n) for n in range(3)]

    reply = recent(shelved(of_chunks("2026-03-02", *pieces)), Filters(), 1)

    assert [memory.chunk.text for memory in reply.memories] == ["piece 0"]
    assert not reply.more


def test_an_empty_index_lists_nothing() -> None:
    """Nothing indexed is an empty list, and nothing more."""
    for reply in list_both(shelved(), Filters()):
        assert (reply.documents, reply.memories, reply.more) == ((), (), False)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--type", "decision"], ["--tag", "db"]])
def test_documents_have_no_type_and_no_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Asking for documents of a type or with a tag is a usage error; memories can be asked for so."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    write(tmp_path / "notes" / "a.md", "the otter swims\n")
    assert run_process(["index", "notes"], tmp_path).status == 0

    refused = run_process(["list", "--documents", *words], tmp_path)

    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("lorelog: ")
    assert run_process(["list", "--documents"], tmp_path).status == 0
    assert run_process(["list", *words], tmp_path).status == 0
