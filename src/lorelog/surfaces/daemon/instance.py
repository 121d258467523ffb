"""A running daemon: its lock, socket and pid file, of which there is one per home, and its memory while it is not in use.

Free memory is returned, and after a long pause the process starts anew. Python never gives back what its modules and libraries have
allocated: a daemon that had loaded a model kept 82 MB, a new one needs 26. So it executes itself (`execve`): process id, lock,
listening socket and open connections stay, and everything else begins anew. A client that connects meanwhile waits in the
socket's queue, as at a start; no connection is refused and none is closed. SIGTERM and SIGINT are held back until the new
program handles them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import fields

from lorelog.core import VERSION
from lorelog.core.errors import DaemonError
from lorelog.core.paths import HOME_LAYOUT
from lorelog.core.processes import acquire_file_lock
from lorelog.light.daemon_address import AF_UNIX, DaemonAddress, create_folders
from lorelog.light.daemon_connection import LOOPBACK, PROTOCOL, TOKEN_BYTES, clear_marker
from lorelog.surfaces.daemon.connection import DaemonFailure

_BACKLOG = 128

LockIdentity = tuple[int, int, int]
"""Descriptor of the lock file, device and inode of the socket's file."""


class InstanceLock:
    """Holds the lock from construction until `release` or the end of the process."""

    def __init__(self, address: DaemonAddress, *, wait_s: float = 5.0, held: LockIdentity | None = None) -> None:
        """Take the lock. Raise DaemonError if another daemon holds it for longer than `wait_s`.

        `held`: the lock that this process holds already, since before it was restarted.
        """
        self.address = address
        self._socket_identity = (0, 0)
        if held is not None:
            self._descriptor, *identity = held
            self._socket_identity = (identity[0], identity[1])
            self.write_holder()
            self._write_pid()
            return
        create_folders(address)
        self._descriptor = os.open(address.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not acquire_file_lock(self._descriptor, wait_s):
            os.close(self._descriptor)
            raise DaemonError(f"another daemon holds {address.lock}")
        self.write_holder()

    @property
    def identity(self) -> LockIdentity:
        """What this process needs to hold the lock on after a restart."""
        return self._descriptor, *self._socket_identity

    def listen(self) -> socket.socket:
        """Open the socket. Any file at its path is stale, because this process holds the lock."""
        path = self.address.socket
        try:
            listener = _bind_loopback(path) if self.address.loopback else _bind_unix(path)
            self._socket_identity = _file_identity(path)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise DaemonError(f"cannot listen on {path}: {error.strerror or error}") from error
        listener.setblocking(False)
        self._write_pid()
        with suppress(OSError):  # tells the process that started this daemon without waiting that it listens
            Path(self.address.start_marker).unlink()
        clear_marker(self.address)  # of a previous daemon
        return listener

    def write_holder(self, leaving: str = "") -> None:
        """Write pid and version into the lock file, and whether the daemon is stopping: `now` or `after work`."""
        holder = json.dumps(
            {"pid": os.getpid(), "version": VERSION, "protocol": PROTOCOL, "leaving": leaving, "layout": HOME_LAYOUT}
        )
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

    def _write_pid(self) -> None:
        with suppress(OSError), open(self.address.pid, "w", encoding="ascii", opener=_open_private) as file:
            os.fchmod(file.fileno(), 0o600)  # an existing file may have another mode
            file.write(f"{os.getpid()}\n")


def _bind_unix(path: str) -> socket.socket:
    listener = socket.socket(AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        Path(path).chmod(0o600)  # its directory is private, so no one can connect before this
    except OSError:
        listener.close()
        raise
    return listener


def _bind_loopback(path: str) -> socket.socket:
    """Listen on a free port, and write port and a new token to `path`, readable by its owner only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, 0))
        Path(path).unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(f"{listener.getsockname()[1]} {os.urandom(TOKEN_BYTES // 2).hex()}\n")
    except OSError:
        listener.close()
        raise
    return listener


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _file_identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


_M_ARENA_MAX, _MADV_PAGEOUT = -8, 21
"""Constants of the C library."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
RESUME_OPTION = "--resume"
_MODULE = "lorelog.surfaces.daemon.process"


class Handover(Struct, frozen=True, kw_only=True):
    """What a restarted daemon takes over from itself."""

    lock: LockIdentity
    listener: int
    """Its descriptor."""
    connections: list[tuple[int, bool]]
    """Descriptors of connections without a request, each with whether it was accepted above the limit."""
    started: float = field(default_factory=time.monotonic)
    """Time of `time.monotonic`, as `last_used_at`; it continues in the same process."""
    started_at: float = field(default_factory=time.time)
    last_used_at: float = field(default_factory=time.monotonic)
    calls: int = 0
    errors: int = 0
    restarts: int = 1
    last_failure: DaemonFailure | None = None
    visited: list[tuple[str, str]] = field(default_factory=list)
    """Tenants and directories whose projects are watched."""


def restart(address: DaemonAddress, handover: Handover) -> None:
    """Execute the daemon's program anew in this process. Raise OSError, with nothing changed, if that is impossible."""
    if not Path(__file__).exists():  # lorelog was uninstalled or moved: this process still works
        raise FileNotFoundError(f"{__file__} is gone")
    state = _write_state(address, handover)
    inherited = (state, handover.lock[0], handover.listener, *(number for number, _ in handover.connections))
    words = [sys.executable, "-P", "-m", _MODULE, "--home", address.home, RESUME_OPTION, str(state)]
    try:
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        os.execv(sys.executable, words)  # noqa: S606
    finally:
        for descriptor in inherited:
            os.set_inheritable(descriptor, False)
        os.close(state)


def resume(descriptor: int) -> Handover:
    """Return what this program takes over, and close all other descriptors but the standard ones."""
    stored: dict[str, Any] = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    # Another version may have written it, if lorelog was updated since the daemon started.
    known = {name: stored[name] for name in (part.name for part in fields(Handover)) if name in stored}
    known["lock"] = tuple(known["lock"])
    for name in known.keys() & {"connections", "visited"}:
        known[name] = [tuple(pair) for pair in known[name]]
    if known.get("last_failure"):
        known["last_failure"] = DaemonFailure(**known["last_failure"])
    handover = Handover(**known)
    kept = sorted({handover.lock[0], handover.listener, *(number for number, _ in handover.connections)})
    for low, high in zip([2, *kept], [*kept, 1_048_576], strict=True):
        os.closerange(low + 1, high)
    for number in kept:
        os.set_inheritable(number, False)
    return handover


def _write_state(address: DaemonAddress, handover: Handover) -> int:
    """Return the descriptor of a file without a name that has the state."""
    path = f"{address.run}/daemon.handover"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123
        Path(path).unlink()
        file.write(json.dumps(to_builtins(handover)).encode())
        file.flush()
        return os.dup(descriptor)


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

    libc = ctypes.CDLL(None)
    gc.collect()
    trim = getattr(libc, "malloc_trim", None)  # glibc only; other allocators do it themselves
    if trim is not None:
        trim(0)
    if mapped and sys.platform.startswith("linux"):
        for start, size in _clean_mappings():
            # Not MADV_DONTNEED: a thread may map its own memory at an address that was a file's a moment ago, and would lose it.
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_PAGEOUT)


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
