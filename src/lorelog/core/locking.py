"""Waiting for a lock, of a file or of a database, with an end. Whoever waits says by its own error who holds it and what to do."""

from __future__ import annotations

import fcntl
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

_PAUSE_S = 0.01


def locks_within(descriptor: int, wait_s: float) -> bool:
    """Take the lock of an open file for this process alone; return whether it came in so many seconds."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def choose_wal(database: Connection, wait_s: float) -> None:
    """Choose the journal that readers do not wait for. Raise sqlite3.OperationalError when that cannot be done in so many seconds.

    While another connection chooses it for a new file SQLite refuses at once, whatever time-out it was given: so we wait.
    """
    from sqlite3 import OperationalError

    deadline = time.monotonic() + wait_s
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except OperationalError as error:
            if not error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
