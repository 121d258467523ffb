"""File locks, detached processes and memory: the only module that calls the operating system for them.

Kept apart from heavier modules because hooks import it. Callers raise their own error, which names the lock's holder.

A lock (flock) belongs to an open file and ends with it, even after kill -9.
"""

from __future__ import annotations

import fcntl
import os
import sys
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


def spawn_detached(words: list[str], environment: Mapping[str, str], actions: Sequence[tuple[Any, ...]]) -> int:
    """Start a program in its own session, with no signal blocked or ignored; return its id. Raise OSError if it cannot be started."""
    signals = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

    def spawn(**group: Any) -> int:
        more: dict[str, Any] = {"file_actions": actions, "setsigmask": (), "setsigdef": signals, **group}
        return os.posix_spawn(words[0], words, environment, **more)

    try:
        return spawn(setsid=True)
    except NotImplementedError:  # older macOS: a process group of its own survives the host as well
        return spawn(setpgroup=0)


def find_on_path(name: str, path: str) -> str:
    """Return the path of a program in one of the folders of PATH; empty if there is none. `shutil` loads the libraries of archives."""
    paths = [name] if "/" in name else [os.path.join(folder, name) for folder in path.split(os.pathsep)]
    return next((path for path in paths if os.access(path, os.X_OK) and not os.path.isdir(path)), "")


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


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX, _MADV_PAGEOUT = -1, -3, -8, 21
"""Constants of the C library."""


def limit_heap() -> None:
    """Let all threads share two heaps, and give what is freed back to the system, if the allocator supports it.

    Each thread's own heap keeps what its largest task needed. And the first large block that is freed raises glibc's threshold for
    blocks of their own to its size: from then on a model's memory is in the heap, below small blocks that stay.
    """
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, value in ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, 1 << 20), (_M_TRIM_THRESHOLD, 1 << 21)):
            set_option(option, value)


def trim_memory(*, mapped: bool = False) -> None:
    """Return free memory to the operating system, if the allocator supports it. `mapped`: the pages of mapped files, too.

    A write allocates tens of megabytes for a moment, and the process keeps what is freed: after 2,000 operations a daemon
    had 105 MB, and 92 MB after this. Libraries and the index are mapped; their pages come back when they are used.
    """
    import ctypes
    import gc

    gc.collect()
    trim_heap()
    if mapped and os.path.exists("/proc/self/smaps"):
        for start, size in _clean_mappings():
            # Not MADV_DONTNEED: a thread may map its own memory at an address that was a file's a moment ago, and would lose it.
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_PAGEOUT)


def _clean_mappings() -> list[tuple[int, int]]:
    """Return address and size of mapped files that cannot be written and of which no page has been changed."""
    found: list[tuple[int, int]] = []
    address, is_file = (0, 0), False
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                start, _, end = words[0].partition("-")
                address = (int(start, 16), int(end, 16) - int(start, 16))
                is_file = "w" not in words[1] and words[4] != "0"
            elif words[0] == "Anonymous:" and is_file and words[1] == "0":
                found.append(address)
    return found


def resident_bytes() -> int:
    """Return the resident memory of this process, mapped files included; its peak where only that is available."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:  # noqa: RET505  (type checkers pass over a branch of another system)
        return os.cpu_count() or 1
