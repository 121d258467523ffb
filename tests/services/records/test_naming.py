"""Tasks and records are found by what people copy of their ids, and never by a guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.records.drafts import draft

from lorelog.core.errors import NotFound
from lorelog.services.records.book import Book
from lorelog.services.records.naming import find_record, find_task

TASKS = ("0195aaaa-1111", "0195aaaa-2222", "0195bbbb-3333")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    """Three tasks, two of which begin alike; the record of each is named after it."""
    made = Book(tmp_path)
    made.append([draft("task_start", {"goal": f"goal {one}"}, task=one, id=f"r{one}") for one in TASKS])
    yield made
    made.close()


@pytest.mark.parametrize("given", [TASKS[2], f" {TASKS[2]} ", "0195bbbb", "0195bb"])
def test_a_task_is_named_by_its_id_or_its_beginning(book: Book, given: str) -> None:
    """The whole id, with white space around it, or the first characters, if they are its own."""
    assert find_task(book.tables(), given) == TASKS[2]


@pytest.mark.parametrize("given", [f"r{TASKS[0]}", "r0195aaaa-1", f"r{TASKS[0]}:0123456789ab"])
def test_a_record_is_named_likewise(book: Book, given: str) -> None:
    """Its id or its beginning."""
    assert find_record(book.tables(), given).id == f"r{TASKS[0]}"


@pytest.mark.parametrize(
    ("given", "told", "hint"),
    [
        ("0195aaaa", "several tasks begin with", TASKS[1]),
        ("0195b", "too short", "at least 6"),
        ("0195aaaa-1112", "there is no task", TASKS[0]),
        ("qqqqqqqq", "there is no task", "task list"),
        ("", "no task is named", "give the id"),
        ("   ", "no task is named", "give the id"),
        (f"r{TASKS[2]}", "is no task but a record of one", TASKS[2]),
        ("0195%", "there is no task", ""),
        ("______", "there is no task", ""),
    ],
)
def test_what_cannot_be_told_is_an_error_that_helps(book: Book, given: str, told: str, hint: str) -> None:
    """Unknown, ambiguous, too short, or something else: the message says which, the hint what may have been meant."""
    with pytest.raises(NotFound, match=told) as raised:
        find_task(book.tables(), given)

    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("given", "told", "hint"),
    [
        ("r0195aaaa", "several records begin with", f"r{TASKS[1]}"),
        ("r0195aaaa-1x", "there is no record", f"r{TASKS[0]}"),
        (TASKS[1], "is no record but a task", f"r{TASKS[1]}"),
        ("r01", "too short for the id of a record", "at least 6"),
    ],
)
def test_records_that_cannot_be_told_neither(book: Book, given: str, told: str, hint: str) -> None:
    """The same for records."""
    with pytest.raises(NotFound, match=told) as raised:
        find_record(book.tables(), given)

    assert hint in raised.value.hint


def test_an_empty_home_knows_no_task(tmp_path: Path) -> None:
    """Where nothing was ever written, nothing is found, and nothing is made."""
    book = Book(tmp_path / "none")
    with pytest.raises(NotFound):
        find_task(book.tables(), "0195aaaa")
    assert not (tmp_path / "none").exists()
