"""The record store follows the ledger, and creates no file before the first record."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.records.drafts import draft

from lorelog.core.paths import cache_folder
from lorelog.core.record import TrustTier
from lorelog.light.session_start import OPEN_TASKS_FILE
from lorelog.records.ledger import Ledger
from lorelog.services.records.keyring import Keyring, SignatureState, check_ledger
from lorelog.services.records.store import RecordStore


def test_asking_an_empty_home_makes_no_file(tmp_path: Path) -> None:
    """Reading from an empty home creates no file or folder."""
    book = RecordStore(tmp_path / "data" / "t")

    assert not book.exists()
    assert book.tables().get("nobody") is None
    assert book.trust(["nobody"]) == {}
    assert not (tmp_path / "tenant").exists()


def test_what_is_appended_is_there_at_once(tmp_path: Path) -> None:
    """A record is readable and rated as soon as it was appended, even in an empty home."""
    book = RecordStore(tmp_path / "data" / "t")
    assert book.tables().applied_after(0) == []

    (written,) = book.append([draft("task_start")])

    assert book.tables().get(written.id) == written
    assert written.verified
    assert book.trust([written.id])[written.id].tier is TrustTier.CANONICAL


def test_what_others_append_is_seen(tmp_path: Path) -> None:
    """Records appended by another process are seen by the next read."""
    book = RecordStore(tmp_path / "data" / "t")
    book.append([draft("task_start")])
    (other,) = Ledger(tmp_path / "data" / "t").append([draft("task_start")])

    assert book.tables().get(other.id) is not None


def test_a_closed_book_opens_itself_again(tmp_path: Path) -> None:
    """A closed store opens again on the next call."""
    book = RecordStore(tmp_path / "data" / "t")
    (written,) = book.append([draft("task_start")])
    book.close()
    book.close()

    assert book.tables().get(written.id) == written


def test_what_is_on_disk_is_not_said_to_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appending does not fail if the tables cannot be updated: the caller would write the record again."""
    book = RecordStore(tmp_path / "data" / "t")
    book.append([draft("task_start")])

    def full(*_: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("lorelog.records.tables.RecordTables._apply", full)
        (written,) = book.append([draft("task_start")])

    assert [item.id for item in book.ledger.read()][1:] == [written.id]
    assert book.tables().get(written.id) is not None


def test_tables_that_cannot_be_written_are_made_in_memory(tmp_path: Path) -> None:
    """Tables that cannot be written are built in memory for each store."""
    (written,) = Ledger(tmp_path / "data" / "t").append([draft("task_start")])
    (tmp_path / "cache").write_text("a file where the folder should be", "utf-8")
    book = RecordStore(tmp_path / "data" / "t")

    assert book.tables().get(written.id) is not None
    (later,) = book.append([draft("task_start")])
    assert book.tables().get(later.id) is not None
    assert book.tables().position().seq == 2


def test_a_redaction_reaches_every_derived_file(tmp_path: Path) -> None:
    """A redaction is signed where keys are in use, and leaves no text in ledger, tables, log or list of open tasks."""
    Keyring(tmp_path / "keys").create("mara")
    keyring = Keyring(tmp_path / "keys", "mara")
    book = RecordStore(tmp_path / "data" / "t", keyring.signing_key)
    (start,) = book.append([keyring.sign(draft("task_start", {"goal": "ask why the walrus sleeps"}))])
    (progress,) = book.append([draft("task_progress", {"next_step": "wake the walrus"}, task=start.task)])
    cache = Path(cache_folder(tmp_path / "data" / "t"))
    book.purge()  # the list of open tasks needs its folder
    assert b"walrus" in (cache / OPEN_TASKS_FILE).read_bytes()

    book.redact([start.id, progress.id], actor="mara", reason="asked to", sign=keyring.sign)
    files = [path for name in ("data", "cache") for path in (tmp_path / name).rglob("*") if path.is_file()]
    assert {"ledger.jsonl", "records.db", OPEN_TASKS_FILE} <= {path.name for path in files}
    assert not [path.name for path in files if b"walrus" in path.read_bytes()]
    check = check_ledger(book, keyring, 10)
    assert (check.ok, check.chain.redacted, check.states[SignatureState.VALID], check.states.total()) == (True, 2, 1, 1)
    assert book.trust([start.id])[start.id].reason.startswith("redacted")
    book.close()
