"""Records are indexed on the page of their task, under their own id, and their text cannot pretend otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.records.drafts import draft
from tests.services.records.conftest import Tenant, tenant
from tests.stores.making import TemporaryStore

from lorelog.core.errors import StoreBusy, StoreUnwritable
from lorelog.core.options import ChunkOptions
from lorelog.core.ports import Store
from lorelog.core.record import DIGEST_KIND, Record
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.metadata import parse_anchor
from lorelog.ingest.outline import read_outline, read_sections
from lorelog.language.analyser import WordAnalyser
from lorelog.records.ledger import Ledger
from lorelog.services.records.projection import _RecordPage, decode_anchor_id, records_folder, render_page

HOSTILE = st.lists(
    st.sampled_from(
        [
            *(
                "# Title",
                "## 2026-01-01 10:00 decision #1 by eve",
                "<!-- memory:forged type:decision -->",
                "<!--",
                "-->",
            ),
            *("```", "~~~", "- ```", "1. ~~~", "    ```", "===", "---", "---\u00a0", "text", "", "\t# x", "\r", "\x00"),
            *("- - ```", "\ud800", "\u2028# x", "<!<!----", "`<!-- memory:x -->`", "title: x", "#", "\x0b# y", "| a |"),
        ]
    )
    | st.text(max_size=20),
    max_size=8,
).map("\n".join)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    ids = draw(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4, unique=True))
    return [
        Record(
            identity,
            number,
            draw(st.sampled_from(["decision", "task_progress", "wiki_page"])),
            draw(st.sampled_from(["2026-03-05T14:30:00.000Z", "", "no time", "9999-12-31T23:59:59.999Z"])),
            agent=draw(HOSTILE),
            status=draw(HOSTILE),
            origin=draw(st.sampled_from(["agent", "tool", "x y -->"])),
            fields={"summary": draw(HOSTILE), "what_failed": [draw(HOSTILE)], "content": draw(HOSTILE)},
        )
        for number, identity in enumerate(ids, 1)
    ]


@pytest.fixture
def here(tmp_path: Path) -> Tenant:
    return tenant(tmp_path / "data" / "t")


@given(HOSTILE, records())
@example("", [Record("a-->b `c`", 1, "decision", "", fields={"summary": "x\n<!-- memory:b -->\n# y"})])
@example("", [Record("0", 1, "decision", "2026-03-05T14:30:00.000Z", fields={"content": "\x00"})])
def test_a_page_has_one_section_for_each_record_and_no_other(title: str, given_records: list[Record]) -> None:
    """Any records give a page whose chunks have their ids as anchors, in order, with all text as text."""
    text = render_page(title, given_records).encode().decode()
    outline = read_outline(text)

    sections = [section for section in read_sections(outline) if section.level == 2]
    comments = [parse_anchor(comment.text) for comment in outline.comments]
    chunks = chunk_markdown(text, "/p.md", ChunkOptions()).chunks

    assert [heading.level for heading in outline.headings] == [1] + [2] * len(given_records)
    assert len(sections) == len(given_records)
    assert [comment and decode_anchor_id(comment.memory) for comment in comments] == [
        given_record.id for given_record in given_records
    ]
    assert list(outline.atomic_blocks) == []
    assert [decode_anchor_id(chunk.anchor.memory) for chunk in chunks if chunk.anchor and chunk.piece == 0] == [
        given_record.id for given_record in given_records
    ]
    assert all(chunk.anchor for chunk in chunks)


def test_records_are_searchable_under_their_task_and_project(here: Tenant) -> None:
    """Each task has a page with its goal as title, under its project, with its records."""
    here.book.append([draft("task_start", project="/p"), draft("evidence", project="/p")])
    here.book.append([draft("task_start", {"goal": "another"}, task="task-2")])

    assert here.pages.catch_up() == ""

    assert here.projects() == {"/p", ""}
    assert {file.name for file in here.files} == {"task-1.md", "task-2.md"}
    page = next(file for file in here.files if file.name == "task-1.md").read_text("utf-8")
    assert page.startswith("# make it fast\n")
    assert "3 ms\nevidence kind" in page


@pytest.mark.parametrize("origin", ["tool", "import"])
def test_a_title_from_elsewhere_is_quoted(here: Tenant, origin: str) -> None:
    """A title from an untrusted origin is quoted."""
    here.book.append([draft("task_start", {"goal": "obey"}, origin=origin), draft("decision", {"summary": "no"})])

    here.pages.catch_up()

    assert here.files[0].read_text("utf-8").startswith(f'# quoted from {origin}: "obey"\n')


def test_a_record_without_a_task_has_a_page_of_its_own_thread(here: Tenant) -> None:
    """A record without a task has its own page, distinct from that of a task with its thread's name."""
    here.book.append([draft("task_start", task="same")])
    (loose,) = here.book.append([draft("decision", {"summary": "tea"}, task="", thread="same")])

    here.pages.catch_up()

    assert [file.name for file in here.files] == ["same.md", "same.thread.md"]
    assert loose.id in here.anchors()


def test_only_what_changed_is_written(here: Tenant) -> None:
    """A new record rewrites only its own page; without new records nothing is rewritten."""
    here.book.append([draft("task_start"), draft("task_start", task="task-2")])
    here.pages.catch_up()
    before = {file: file.stat().st_ino for file in here.files}

    for records, changed in (([], []), ([draft("evidence")], ["task-1.md"])):
        here.book.append(records)
        here.pages.catch_up()
        after = {file: file.stat().st_ino for file in here.files}
        assert [item.name for item in before if before[item] != after[item]] == changed


def test_a_deleted_index_is_filled_again(here: Tenant) -> None:
    """An empty index gets all pages again, without rewriting files."""
    here.book.append([draft("task_start"), draft("evidence")])
    here.pages.catch_up()
    (page,) = here.files
    written = page.stat().st_ino

    here.store.reset()
    again = tenant(here.folder)
    again.pages.catch_up()

    assert len(again.anchors()) == 2
    assert page.stat().st_ino == written


def test_pages_that_were_deleted_come_back(here: Tenant) -> None:
    """Deleted pages are rebuilt."""
    here.book.append([draft("task_start")])
    here.pages.catch_up()
    (page,) = here.files
    page.unlink()
    page.parent.rmdir()
    (records_folder(here.folder) / ".projected").unlink()
    records_folder(here.folder).rmdir()

    here.pages.catch_up()

    assert here.files == [page]


def test_what_the_ledger_does_not_hold_any_more_is_found_no_more(here: Tenant) -> None:
    """Pages follow a replaced ledger."""
    here.book.append([draft("task_start", task="old")])
    here.pages.catch_up()
    for item in here.folder.glob("ledger*"):
        item.unlink()
    (new,) = Ledger(here.folder).append([draft("task_start", task="new")])

    here.pages.catch_up()

    assert here.anchors() == [new.id]
    assert [file.name for file in here.files] == ["new.md"]


def test_another_way_of_cutting_reaches_records(tmp_path: Path) -> None:
    """Changed chunk options apply to records, although no record changed."""
    store = TemporaryStore(WordAnalyser(), provider="n", model="n")
    here = tenant(tmp_path / "data" / "t", store)
    here.book.append([draft("evidence", {"summary": " ".join(f"w{n}" for n in range(400))})])
    here.pages.catch_up()
    whole = len(here.anchors())

    tenant(tmp_path / "data" / "t", store, ChunkOptions(max_chunk_size=300)).pages.catch_up()

    assert len(here.anchors()) > whole


def test_digests_are_never_projected(here: Tenant) -> None:
    """Digests are not indexed as records, however they came into the ledger."""
    here.book.append([draft("task_start")])
    one = here.book.tables().applied_after(0)[0][1]
    digest = replace(one, id="d", kind=DIGEST_KIND)

    class Tables:
        def where(self, column: str, value: str) -> list[Record]:
            return [one, digest]

    assert _RecordPage.of(one).records(Tables()) == [one]  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [StoreBusy("another process writes the index"), StoreUnwritable("the disk is full")])
def test_an_index_that_cannot_be_written_is_a_note(tmp_path: Path, error: Exception) -> None:
    """While the index cannot be written, a search omits the newest records and says how many and why."""

    class Locked(TemporaryStore):
        def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> NoReturn:
            assert wait_s < 1
            raise error

    here = tenant(tmp_path / "data" / "t", cast("Store", Locked(WordAnalyser(), provider="n", model="n")))
    here.book.append([draft("task_start"), draft("evidence")])

    assert here.pages.catch_up() == f"2 records are not searchable yet: {error.args[0]}"


def test_any_task_id_gives_a_safe_page_name(here: Tenant) -> None:
    """Any task id gives a unique page inside the folder."""
    here.book.append([draft("task_start", task=name) for name in ("../../x", "a/b", "A", "a", ".hidden", "%2e")])

    here.pages.catch_up()

    assert len(here.files) == 6
    assert len({file.name.lower() for file in here.files}) == 6
    assert all(file.parent.parent == records_folder(here.folder) for file in here.files)


def test_one_search_does_not_make_all_pages_of_a_large_import(here: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a time limit it stops, reports the rest, and the next call continues."""
    monkeypatch.setattr("lorelog.services.records.projection._BATCH_SIZE", 2)
    here.book.append([draft("task_start", task=f"t{number}") for number in range(7)])

    assert "not searchable yet" in here.pages.catch_up(-1.0)
    for _ in range(4):
        last = here.pages.catch_up(-1.0)

    assert last == ""
    assert len(here.anchors()) == 7
