"""A running daemon: its lock, socket and pid file, of which there is one per home, and its memory.

Free memory is returned. Python never gives back what its modules and libraries have allocated: a daemon that had loaded a model kept
82 MB, a new one needs 26. So an idle daemon exits and starts another one (`process.py`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from lorelog.core import VERSION
from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import DaemonError
from lorelog.core.processes import acquire_file_lock, trim_heap
from lorelog.light.daemon_connection import (
    PROTOCOL,
    DaemonAddress,
    clear_marker,
    create_folders,
)

_BACKLOG = 128


class InstanceLock:
    """Holds the lock from construction until `release` or the end of the process."""

    def __init__(self, address: DaemonAddress, *, wait_s: float = 5.0) -> None:
        """Take the lock. Raise DaemonError if another daemon holds it for longer than `wait_s`."""
        self.address = address
        self._socket_identity = (0, 0)
        create_folders(address)
        self._descriptor = os.open(address.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not acquire_file_lock(self._descriptor, wait_s):
            os.close(self._descriptor)
            raise DaemonError(f"another daemon holds {address.lock}")
        self.write_holder()

    def listen(self) -> socket.socket:
        """Open the socket. Any file at its path is stale, because this process holds the lock."""
        path = self.address.socket
        try:
            listener = _bind_unix(path)
            self._socket_identity = _file_identity(path)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise DaemonError(f"cannot listen on {path}: {error.strerror or error}") from error
        listener.setblocking(False)
        with suppress(OSError):
            write_atomic(self.address.pid, f"{os.getpid()}\n".encode(), durable=False)
        with suppress(OSError):  # tells the process that started this daemon without waiting that it listens
            Path(self.address.start_marker).unlink()
        clear_marker(self.address)  # of a previous daemon
        return listener

    def write_holder(self, leaving: str = "") -> None:
        """Write pid and version into the lock file, and whether the daemon is stopping: `now` or `after work`."""
        holder = json.dumps({"pid": os.getpid(), "version": VERSION, "protocol": PROTOCOL, "leaving": leaving})
        with suppress(OSError):  # on a full disk the lock still tells that a daemon runs, but not which
            os.pwrite(self._descriptor, holder.encode(), 0)
            os.ftruncate(self._descriptor, len(holder))

    def is_valid(self) -> bool:
        """Return whether the lock and socket files at their paths are still those of this daemon."""
        try:
            return self._owns_lock_file() and _file_identity(self.address.socket) == self._socket_identity
        except OSError:
            return False

    def remove_socket(self) -> None:
        """Delete the socket file, so that no new client connects."""
        with suppress(OSError):
            if _file_identity(self.address.socket) == self._socket_identity:
                Path(self.address.socket).unlink()

    def release(self) -> None:
        """Delete the daemon's files and release the lock."""
        self.remove_socket()
        with suppress(OSError):
            if self._owns_lock_file():
                Path(self.address.pid).unlink()
                os.ftruncate(self._descriptor, 0)
        if self.address.folder != self.address.run:
            with suppress(OSError):
                Path(self.address.folder).rmdir()
        os.close(self._descriptor)

    def _owns_lock_file(self) -> bool:
        status = os.fstat(self._descriptor)
        return _file_identity(self.address.lock) == (status.st_dev, status.st_ino)


def _bind_unix(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        Path(path).chmod(0o600)  # its directory is private, so no one can connect before this
    except OSError:
        listener.close()
        raise
    return listener


def _file_identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


_M_ARENA_MAX, _MADV_PAGEOUT = -8, 21
"""Constants of the C library."""


def limit_arenas() -> None:
    """Let all threads share two heaps, if the allocator supports it: each thread's own keeps what its largest task needed."""
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 2)


def trim_memory(*, mapped: bool = False) -> None:
    """Return free memory to the operating system, if the allocator supports it. `mapped`: the pages of mapped files, too.

    A write allocates tens of megabytes for a moment, and the process keeps what is freed: after 2,000 operations a daemon
    had 105 MB, and 92 MB after this. Libraries and the index are mapped; their pages come back when they are used.
    """
    import ctypes
    import gc

    gc.collect()
    trim_heap()
    if mapped and sys.platform.startswith("linux"):
        for start, size in _clean_mappings():
            # Not MADV_DONTNEED: a thread may map its own memory at an address that was a file's a moment ago, and would lose it.
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_PAGEOUT)


def _clean_mappings() -> list[tuple[int, int]]:
    """Return address and size of mapped files that cannot be written and of which no page has been changed."""
    found: list[tuple[int, int]] = []
    address, is_file = (0, 0), False
    with suppress(OSError), Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                start, _, end = words[0].partition("-")
                address = (int(start, 16), int(end, 16) - int(start, 16))
                is_file = "w" not in words[1] and words[4] != "0"
            elif words[0] == "Anonymous:" and is_file and words[1] == "0":
                found.append(address)
    return found
