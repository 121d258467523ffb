"""Locks of files: one has it at a time, and waiting for it ends."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from lorelog.core.locking import choose_wal, locks_within


def test_a_lock_is_held_by_one_and_ends_with_its_descriptor(tmp_path: Path) -> None:
    """Who comes second waits in vain while the first has the file open, and gets it afterwards."""
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    try:
        assert locks_within(first, 0)
        assert not locks_within(second, 0.03)
    finally:
        os.close(first)
    assert locks_within(second, 0)
    os.close(second)


def test_all_who_open_a_new_database_at_once_get_its_journal(tmp_path: Path) -> None:
    """SQLite refuses whoever chooses a journal while another does; here they wait for each other."""
    faults: list[Exception] = []

    def choose(path: Path, start: threading.Barrier) -> None:
        database = sqlite3.connect(path, isolation_level=None)
        try:
            start.wait()
            choose_wal(database, 10)
            database.execute("CREATE TABLE IF NOT EXISTS t (x)")
        except sqlite3.Error as error:
            faults.append(error)
        finally:
            database.close()

    for number in range(30):
        start = threading.Barrier(6)
        threads = [threading.Thread(target=choose, args=(tmp_path / f"{number}.db", start)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert faults == []


def test_who_cannot_have_the_journal_in_time_is_told(tmp_path: Path) -> None:
    """Another's transaction on the file is waited for so long, and no longer."""
    holder, other = (sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0) for _ in range(2))
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        choose_wal(other, 0.03)
    holder.execute("ROLLBACK")
    choose_wal(other, 0.03)
    holder.close()
    other.close()
