"""Tasks and records are found by a unique prefix of their id, and never by a guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.records.drafts import draft

from lorelog.core.errors import NotFound
from lorelog.services.records.record_scope import resolve_record, resolve_task_id
from lorelog.services.records.store import RecordStore

TASKS = ("0195aaaa-1111", "0195aaaa-2222", "0195bbbb-3333")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[RecordStore]:
    """Three tasks, two with a common prefix; the record of each is named after it."""
    made = RecordStore(tmp_path / "data" / "t")
    made.append([draft("task_start", {"goal": f"goal {item}"}, task=item, id=f"r{item}") for item in TASKS])
    yield made
    made.close()


@pytest.mark.parametrize("given", [TASKS[2], f" {TASKS[2]} ", "0195bbbb", "0195bb"])
def test_a_task_is_named_by_its_id_or_its_beginning(book: RecordStore, given: str) -> None:
    """A task is resolved from its id, with white space around it, or from a unique prefix."""
    assert resolve_task_id(book.tables(), given) == TASKS[2]


@pytest.mark.parametrize("given", [f"r{TASKS[0]}", "r0195aaaa-1", f"r{TASKS[0]}:0123456789ab"])
def test_a_record_is_named_likewise(book: RecordStore, given: str) -> None:
    """A record is resolved from its id or a unique prefix."""
    assert resolve_record(book.tables(), given).id == f"r{TASKS[0]}"


@pytest.mark.parametrize(
    ("given", "told", "hint"),
    [
        ("0195aaaa", "several tasks begin with", TASKS[1]),
        ("0195b", "too short", "at least 6"),
        ("0195aaaa-1112", "there is no task", TASKS[0]),
        ("qqqqqqqq", "there is no task", "task list"),
        ("", "the id of the task is empty", "give the id"),
        ("   ", "the id of the task is empty", "give the id"),
        (f"r{TASKS[2]}", "is a record of a task, not a task", TASKS[2]),
        ("0195%", "there is no task", ""),
        ("______", "there is no task", ""),
        ("r0195aaaa", "several records begin with", f"r{TASKS[1]}"),
        ("r0195aaaa-1x", "there is no record", f"r{TASKS[0]}"),
        (TASKS[1], "is a task, not a record", f"r{TASKS[1]}"),
        ("r01", "too short for the id of a record", "at least 6"),
    ],
)
def test_an_id_that_does_not_resolve_is_an_error_with_candidates(
    book: RecordStore, given: str, told: str, hint: str
) -> None:
    """An unknown, ambiguous, too short or wrong id of a task or record is an error whose hint suggests candidates."""
    resolve = resolve_record if "record" in told.replace("a record of a task", "") else resolve_task_id
    with pytest.raises(NotFound, match=told) as raised:
        resolve(book.tables(), given)

    assert hint in raised.value.hint


def test_an_empty_home_knows_no_task(tmp_path: Path) -> None:
    """Resolving an id in an empty home raises NotFound and creates no file."""
    book = RecordStore(tmp_path / "data" / "none")
    with pytest.raises(NotFound):
        resolve_task_id(book.tables(), "0195aaaa")
    assert not (tmp_path / "none").exists()
