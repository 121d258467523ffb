"""A book answers from the ledger, whoever wrote it, and leaves no trace where nothing was ever written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.records.drafts import draft

from lorelog.core.record import Tier
from lorelog.records.ledger import Ledger
from lorelog.services.records.book import Book


def test_asking_an_empty_home_makes_no_file(tmp_path: Path) -> None:
    """Whoever only asks leaves the folder as it was: not even there."""
    book = Book(tmp_path / "tenant")

    assert not book.exists()
    assert book.tables().get("nobody") is None
    assert book.trust(["nobody"]) == {}
    assert not (tmp_path / "tenant").exists()


def test_what_is_appended_is_there_at_once(tmp_path: Path) -> None:
    """A record can be asked for, and is judged, as soon as it was acknowledged; also in a home that was empty before."""
    book = Book(tmp_path)
    assert book.tables().counts() == {}

    (written,) = book.append([draft("task_start")])

    assert book.tables().get(written.id) == written
    assert written.verified
    assert book.trust([written.id])[written.id].tier is Tier.CANONICAL


def test_what_others_append_is_seen(tmp_path: Path) -> None:
    """A ledger that another process has written to is caught up with before each answer."""
    book = Book(tmp_path)
    book.append([draft("task_start")])
    (other,) = Ledger(tmp_path).append([draft("task_start")])

    assert book.tables().get(other.id) is not None


def test_a_closed_book_opens_itself_again(tmp_path: Path) -> None:
    """Closing lets go of files and takes nothing away."""
    book = Book(tmp_path)
    (written,) = book.append([draft("task_start")])
    book.close()
    book.close()

    assert book.tables().get(written.id) == written


def test_what_is_on_disk_is_not_said_to_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a record is safe, tables that cannot follow are no failure: whoever was told so would write it again."""
    book = Book(tmp_path)
    book.append([draft("task_start")])

    def full(*_: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("lorelog.records.tables.RecordTables._apply", full)
        (written,) = book.append([draft("task_start")])

    assert [one.id for one in book.ledger.read()][1:] == [written.id]
    assert book.tables().get(written.id) is not None


def test_tables_that_cannot_be_written_are_made_in_memory(tmp_path: Path) -> None:
    """Where there is no place for the tables, what the ledger says is answered all the same, time after time."""
    (written,) = Ledger(tmp_path).append([draft("task_start")])
    (tmp_path / "index").write_text("a file where the folder should be", "utf-8")
    book = Book(tmp_path)

    assert book.tables().get(written.id) is not None
    (later,) = book.append([draft("task_start")])
    assert book.tables().get(later.id) is not None
    assert book.tables().position().seq == 2
