"""That a daemon is there, told to others: its lock, its socket and its pid file, and whether they are still its own."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress

from lorelog.core.errors import DaemonError
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon.address import Address, found_folders
from lorelog.surfaces.daemon.wire import PROTOCOL

_PAUSE_S = 0.01
_BACKLOG = 128


class Presence:
    """Holds the lock from when it is made until the process ends."""

    def __init__(self, address: Address, *, wait_s: float = 5.0) -> None:
        """Take the lock. Raise DaemonError when another daemon keeps it longer than `wait_s`."""
        found_folders(address)
        self.address = address
        self._socket_is = (0, 0)
        self._descriptor = os.open(address.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._take(wait_s)
        self.sign()

    def listen(self) -> socket.socket:
        """Open the socket. Whatever stands at its path is stale: we hold the lock."""
        path = self.address.socket
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108
            listener.bind(path)
            os.chmod(path, 0o600)  # noqa: PTH101  (nobody else can enter its directory, whatever the mask made of it)
            self._socket_is = _identity(path)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise DaemonError(f"{path} cannot be listened at: {error.strerror or error}") from error
        listener.setblocking(False)
        self._write_pid()
        with suppress(OSError):  # whoever started us without waiting sees by this that we came
            os.unlink(self.address.tried)  # noqa: PTH108
        return listener

    def sign(self, leaving: str = "") -> None:
        """Write into the lock who holds it, and whether it is leaving: `now` or `after work`."""
        signed = json.dumps({"pid": os.getpid(), "version": VERSION, "protocol": PROTOCOL, "leaving": leaving})
        with suppress(OSError):  # a full disk; whoever asks then knows that there is a daemon, and not which
            os.pwrite(self._descriptor, signed.encode(), 0)
            os.ftruncate(self._descriptor, len(signed))

    def is_whole(self) -> bool:
        """Say whether lock and socket still stand where others look for them, and are ours."""
        try:
            held = os.fstat(self._descriptor)
            return _identity(self.address.lock) == (held.st_dev, held.st_ino) and (
                _identity(self.address.socket) == self._socket_is
            )
        except OSError:
            return False

    def hide(self) -> None:
        """Take the socket's file away, so that nobody comes any more."""
        with suppress(OSError):
            if _identity(self.address.socket) == self._socket_is:
                os.unlink(self.address.socket)  # noqa: PTH108

    def leave(self) -> None:
        """Take the rest away and give the lock back."""
        self.hide()
        with suppress(OSError):
            held = os.fstat(self._descriptor)
            if _identity(self.address.lock) == (held.st_dev, held.st_ino):
                os.unlink(self.address.pid)  # noqa: PTH108
                os.ftruncate(self._descriptor, 0)
        if self.address.folder != self.address.run:
            with suppress(OSError):
                os.rmdir(self.address.folder)  # noqa: PTH106
        os.close(self._descriptor)

    def _take(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(self._descriptor)
                    raise DaemonError(f"another daemon holds {self.address.lock}") from None
                time.sleep(_PAUSE_S)
            else:
                return

    def _write_pid(self) -> None:
        with suppress(OSError), open(self.address.pid, "w", encoding="ascii", opener=_private) as file:
            os.fchmod(file.fileno(), 0o600)  # one that stood there before may have been made by others' rules
            file.write(f"{os.getpid()}\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
