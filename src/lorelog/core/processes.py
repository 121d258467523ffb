"""Locks with a time limit, and detached processes.

Kept apart from heavier modules because hooks import it. Callers raise their own error, which names the lock's holder.
"""

from __future__ import annotations

import fcntl
import os
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from sqlite3 import Connection
    from typing import Any
else:
    import _signal as signal  # `signal` imports `enum`


_POLL_INTERVAL_S = 0.01


def acquire_file_lock(descriptor: int, wait_s: float) -> bool:
    """Lock an open file exclusively; return False if that takes longer than `wait_s`."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_INTERVAL_S)
        else:
            return True


def enable_wal(database: Connection, wait_s: float) -> None:
    """Switch to WAL mode. Raise sqlite3.OperationalError if that takes longer than `wait_s`.

    While another connection does the same for a new file, SQLite fails at once despite its own timeout: so we retry.
    """
    from sqlite3 import OperationalError

    deadline = time.monotonic() + wait_s
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except OperationalError as error:
            if not error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)
        else:
            return


def spawn_detached(words: list[str], environment: Mapping[str, str], actions: Sequence[tuple[Any, ...]]) -> None:
    """Start a program in its own session, with no signal blocked or ignored. Raise OSError if it cannot be started."""
    signals = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

    def spawn(**group: Any) -> None:
        os.posix_spawn(words[0], words, environment, file_actions=actions, setsigmask=(), setsigdef=signals, **group)

    try:
        spawn(setsid=True)
    except NotImplementedError:  # older macOS: a process group of its own survives the host as well
        spawn(setpgroup=0)
