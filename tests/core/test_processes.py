"""File locks are exclusive, and waiting for one ends."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lorelog.core import processes
from lorelog.core.processes import acquire_file_lock, enable_wal, try_file_lock


@pytest.mark.slow
def test_processes_that_open_a_new_database_at_once_get_wal(tmp_path: Path) -> None:
    """Processes that open a new database at once all get WAL mode, although SQLite rejects simultaneous switches."""
    faults: list[Exception] = []

    def choose(path: Path, start: threading.Barrier) -> None:
        database = sqlite3.connect(path, isolation_level=None)
        try:
            start.wait()
            enable_wal(database, 10)
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


def test_waiting_for_the_journal_mode_ends_in_time(tmp_path: Path) -> None:
    """Waiting for another transaction on the file ends after the time limit."""
    holder, other = (sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0) for _ in range(2))
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        enable_wal(other, 0.03)
    holder.execute("ROLLBACK")
    enable_wal(other, 0.03)
    holder.close()
    other.close()


def test_shared_locks_exclude_an_exclusive_one_only(tmp_path: Path) -> None:
    """Two readers hold a file together, a writer waits for both and another one for it, and a closed file is free."""
    path = tmp_path / "file"
    path.touch()
    reader, other, writer, last = (os.open(path, os.O_RDWR) for _ in range(4))

    assert try_file_lock(reader, shared=True)
    assert try_file_lock(other, shared=True)
    assert not try_file_lock(writer)
    assert not acquire_file_lock(writer, 0.01)
    os.close(reader)
    os.close(other)
    assert acquire_file_lock(writer)
    assert not acquire_file_lock(last, 0.03)
    os.close(writer)
    assert acquire_file_lock(last, 0)
    os.close(last)


def test_locks_have_one_seam() -> None:
    """No module but core/processes.py locks files by itself: another system needs a change in one place."""
    texts = {path.name: path.read_text("utf-8") for path in Path(processes.__file__).parents[1].rglob("*.py")}
    users = {name for name, text in texts.items() if "fcntl." in text or "from fcntl" in text}

    assert users == {"processes.py"}


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc has the options")
def test_large_blocks_go_back_to_the_system_when_they_are_freed() -> None:
    """A process with a limited heap keeps no megabytes that it freed, although small blocks between them stay."""
    program = """
from lorelog.core.processes import limit_heap, resident_bytes
limit_heap()
before, small = resident_bytes(), []
for _ in range(3):
    large = [(b"x" * 2_000_000, small.append(b"y" * 20_000)) for _ in range(30)]
    del large
print(resident_bytes() - before)
"""
    kept = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert int(kept) < 10_000_000
