"""The lock, socket and pid file of a running daemon. There is at most one daemon per home."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress

from lorelog.core.errors import DaemonError
from lorelog.core.paths import HOME_LAYOUT
from lorelog.core.processes import acquire_file_lock
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon_client.address import AF_UNIX, DaemonAddress, create_folders
from lorelog.surfaces.daemon_client.liveness import clear_marker
from lorelog.surfaces.daemon_client.wire import PROTOCOL

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
            os.unlink(self.address.start_marker)  # noqa: PTH108
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
                os.unlink(self.address.socket)  # noqa: PTH108

    def release(self) -> None:
        """Delete the daemon's files and release the lock."""
        self.remove_socket()
        with suppress(OSError):
            if self._owns_lock_file():
                os.unlink(self.address.pid)  # noqa: PTH108
                os.ftruncate(self._descriptor, 0)
        if self.address.folder != self.address.run:
            with suppress(OSError):
                os.rmdir(self.address.folder)  # noqa: PTH106
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
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101  (its directory is private, so no one can connect before this)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_loopback(path: str) -> socket.socket:
    from lorelog.surfaces.daemon_client.loopback import open_listener

    return open_listener(path)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _file_identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino
