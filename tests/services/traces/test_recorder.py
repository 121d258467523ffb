"""Recorded calls: what is stored, that recording is cheap and safe, and that nothing is lost or repeated."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from lorelog.core.errors import UsageError
from lorelog.core.options import TraceOptions
from lorelog.services.traces import SPOOL_FILE
from lorelog.services.traces.recorder import CallEvent, TraceStore, record_call, summarize_arguments
from lorelog.services.traces.tables import TraceFilter

SECRET = "ghp_x7Kq2mZ9vB4nT1wY6rL8" + "sD3fG5hJ0pQaCeUi"


@pytest.fixture
def book(tmp_path: Path) -> TraceStore:
    return TraceStore(tmp_path / "traces.db", TraceOptions())


def note(book: TraceStore, op: str = "memory.search", arguments: object = None, outcome: object = None) -> None:
    """Record a call that took 12 ms."""
    record_call(lambda: book, "/app", CallEvent(op, arguments, 0.012, outcome or {"hits": [1, 2]}))  # type: ignore[arg-type]


def test_a_call_is_noted_and_can_be_asked_for(book: TraceStore) -> None:
    """A call is stored with time, duration, numbers, names and result counts."""
    before = int(time.time() * 1000) - 100
    note(book, arguments={"query": "why redis", "k": 5, "lane": "lexical", "session": "s-1"})
    (call,), total = book.tables().calls(TraceFilter())
    assert (call.tool, call.duration_ms, call.failed, total) == ("memory.search", 12.0, False, 1)
    assert json.loads(call.input) == {"query": "9 characters", "k": 5, "lane": "lexical", "session": "s-1"}
    assert json.loads(call.output) == {"hits": 2}
    assert (call.source, call.project, call.session) == ("operation", "/app", "s-1")
    assert before <= call.at <= int(time.time() * 1000)


@pytest.mark.parametrize("field", ["text", "query", "summary", "prompt", "claim", "notes", "goal", "command", "tags"])
def test_texts_are_never_noted(book: TraceStore, field: str) -> None:
    """Of texts only the length is stored, in every field."""
    secret = "the otter moved to Lisbon"
    note(
        book,
        "memory.add",
        {field: secret, "id": secret, "memories": [{"text": secret}], secret: 1, "extra": {"x": secret}},
    )
    note(book, "memory.add", {field: [secret]}, UsageError(f"there is no {secret!r} and no field {field!r}"))
    book.tables().calls(TraceFilter())
    kept = b"".join(path.read_bytes() for path in book.path.parent.iterdir())
    assert b"otter" not in kept
    calls, _ = book.tables().calls(TraceFilter(errors_only=True))
    assert calls[0].error == f"usage: there is no '…' and no field '{field}'"


def test_a_fault_of_our_own_is_an_error_with_its_stack(book: TraceStore) -> None:
    """An unexpected exception is stored as an error, without secrets."""

    def fail() -> None:
        raise ValueError(f"token {SECRET}")

    try:
        fail()
    except ValueError as error:
        note(book, "memory.stats", {}, error)
    (kept,), total = book.tables().errors(TraceFilter())
    assert (kept.trace.type, kept.command, total) == ("ValueError", "memory.stats", 1)
    assert kept.trace.frames[0].function == "fail"
    assert SECRET not in kept.trace.message + kept.text


def test_nothing_is_made_or_raised_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A missing or read-only home stays as it is, and the caller gets no error."""
    absent = TraceStore(tmp_path / "none" / "traces.db", TraceOptions())
    note(absent)
    assert not (tmp_path / "none").exists()
    assert absent.tables().calls(TraceFilter()) == ([], 0)
    assert not (tmp_path / "none").exists()
    (tmp_path / SPOOL_FILE).mkdir()
    note(TraceStore(tmp_path / "traces.db", TraceOptions()))

    def broken() -> TraceStore:
        raise RuntimeError

    record_call(broken, "/app", CallEvent("memory.search", {}, 0.0, {}))


def test_nothing_is_noted_where_traces_are_switched_off(tmp_path: Path) -> None:
    """traces.enabled false stores nothing."""
    note(TraceStore(tmp_path / "traces.db", TraceOptions(enabled=False)))
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_may_read_it(book: TraceStore) -> None:
    """Spool and database are private."""
    note(book)
    modes = {path.name: path.stat().st_mode & 0o777 for path in book.path.parent.iterdir()}
    book.tables().calls(TraceFilter())
    modes |= {path.name: path.stat().st_mode & 0o777 for path in book.path.parent.iterdir()}
    assert modes[SPOOL_FILE] == modes["traces.db"] == 0o600


def test_threads_note_and_others_take_in_meanwhile(book: TraceStore) -> None:
    """Concurrent appends and moves lose and repeat nothing."""
    books = [TraceStore(book.path, book.options) for _ in range(4)]

    def work(item: TraceStore) -> None:
        for _ in range(200):
            note(item)

    def read() -> None:
        while any(thread.is_alive() for thread in threads):
            book.tables().calls(TraceFilter())

    threads = [threading.Thread(target=work, args=(item,)) for item in books]
    reader = threading.Thread(target=read)
    for thread in (*threads, reader):
        thread.start()
    for thread in (*threads, reader):
        thread.join()
    assert book.tables().calls(TraceFilter(limit=1000))[1] == 800
    assert not (book.path.parent / SPOOL_FILE).exists()


def test_what_somebody_was_stopped_over_is_taken_in_later_and_once(book: TraceStore) -> None:
    """An abandoned spool file is read once; incomplete lines are ignored."""
    note(book)
    note(book)
    spool = book.path.with_name(SPOOL_FILE)
    held = spool.read_bytes()
    assert book.tables().calls(TraceFilter())[1] == 2
    left = book.path.with_name(f"{SPOOL_FILE}.{(time.time_ns()) - 10**12}-1")
    left.write_bytes(held + b'{"id": "torn')
    note(book)
    assert book.tables().calls(TraceFilter())[1] == 3
    assert not left.exists()


def test_a_spool_that_has_grown_is_taken_in_beside_the_caller(book: TraceStore) -> None:
    """The spool is moved to the tables without a reader."""
    arguments = {"id": "x" * 150, "path": "y" * 150}
    while not book.path.exists():
        note(book, arguments=arguments)
    deadline = time.monotonic() + 30
    while any(item.name == "lorelog-traces" for item in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert book.tables().calls(TraceFilter())[1] > 100


def test_an_unread_spool_is_bounded(book: TraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spool that cannot be moved is dropped at its size limit."""
    spool = book.path.with_name(SPOOL_FILE)
    with spool.open("wb") as file:
        file.truncate(9_000_000)
    note(book)
    assert spool.stat().st_size < 1_000


def test_arguments_of_any_kind_are_told_within_bounds() -> None:
    """Any arguments give a small JSON summary."""
    assert summarize_arguments(None) == summarize_arguments([]) == summarize_arguments("x") == ""
    odd = {
        "k": 1.5,
        "id": "a b",
        "types": ["a", "b"],
        "paths": ["x y"],
        "f" * 50: 1,
        "a b": 2,
        "none": None,
        "o": object(),
    }
    assert json.loads(summarize_arguments(odd)) == {
        "k": 1.5,
        "id": "3 characters",
        "types": ["a", "b"],
        "paths": "1 items",
        "o": "object",
    }
    assert len(summarize_arguments({f"f{number}": "x" * 1000 for number in range(1000)})) < 2_000
    assert os.linesep not in summarize_arguments({"id": "a\nb"})


@pytest.mark.parametrize("field", ["type", "types", "kind", "status"])
def test_a_key_in_place_of_a_type_is_not_noted(book: TraceStore, field: str) -> None:
    """A key given as the type of a memory does not reach the traces; the name of a type does."""
    key = "ghp_" + "a1B2c3D4e5" * 4

    for value in (key, [key, "note"], key.replace("1", "x"), "decision", ["task:status"]):
        record_call(lambda: book, "p", CallEvent("memory.add", {field: value}, 0.1, {}))

    spool = book.path.with_name(SPOOL_FILE).read_text()
    assert "ghp_" not in spool
    assert "decision" in spool
    assert "task:status" in spool
