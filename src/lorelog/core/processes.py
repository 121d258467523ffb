"""File locks, detached processes and the heap: the only module that calls the operating system for them.

Kept apart from heavier modules because hooks import it. Callers raise their own error, which names the lock's holder.

A lock (flock) belongs to an open file and ends with it, even after kill -9.
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


_POLL_INTERVAL_S = 0.002


def try_file_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file; return False if another process, or another open file of this one, has locked it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def acquire_file_lock(descriptor: int, wait_s: float = float("inf"), *, shared: bool = False) -> bool:
    """Lock an open file; return False if that takes longer than `wait_s`."""
    deadline = time.monotonic() + wait_s
    while not try_file_lock(descriptor, shared=shared):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


class FileLock:
    """A lock file, created if missing and locked by `with`, which gets its descriptor.

    Raises `busy` if that takes longer than `wait_s`; without `busy` it waits.
    """

    def __init__(self, path: str | os.PathLike[str], busy: Exception | None = None, wait_s: float = 0.0) -> None:
        self._path = path
        self._busy = busy
        self._wait_s = wait_s if busy else float("inf")

    def __enter__(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if acquire_file_lock(self._descriptor, self._wait_s):
            return self._descriptor
        os.close(self._descriptor)
        raise self._busy or TimeoutError

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


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
        more: dict[str, Any] = {"file_actions": actions, "setsigmask": (), "setsigdef": signals, **group}
        os.posix_spawn(words[0], words, environment, **more)

    try:
        spawn(setsid=True)
    except NotImplementedError:  # older macOS: a process group of its own survives the host as well
        spawn(setpgroup=0)


def process_activity(pid: int) -> tuple[str, str]:
    """Return the state of a process (R: on a CPU or waiting for one, T: stopped) and its CPU time so far; empty if unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].decode().split()
        return fields[0], " ".join(fields[11:13])
    except (OSError, IndexError):
        import subprocess

        words = ["ps", "-o", "stat=", "-o", "time=", "-p", str(pid)]
        try:
            shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
        except OSError:
            shown = []
        return (shown[0][:1], shown[1]) if len(shown) == 2 else ("", "")


def trim_heap() -> None:
    """Return free memory of the heap to the system. Only glibc has a function for it; other allocators do it themselves."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """Return the resident memory of this process, mapped files included; its peak where only that is available."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource
        import sys

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
