"""One client connection of the daemon with its bounded buffers, and the responses that are sent over it."""

from __future__ import annotations

# ruff: noqa: PTH116, PTH117, PTH118, PTH123  (hundreds of files between two requests: pathlib takes three times as long)
import json
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon_client.connection import PACKAGE_FOLDER
from lorelog.surfaces.daemon_client.wire import MAX_REQUEST_BYTES, PROTOCOL

if TYPE_CHECKING:
    from lorelog.core.errors import LorelogError
    from lorelog.surfaces.daemon.worker_pool import Job
    from lorelog.surfaces.daemon_client.address import DaemonAddress

_CHUNK_BYTES = 262_144
_CODE_CHECK_S = 2.0


class RunningCode:
    """The modules that this process runs. They may be replaced on disk, and a client may have others of the same version."""

    def __init__(self, folder: str = PACKAGE_FOLDER) -> None:
        self._folder = folder
        self._stamp = _stamp_modules(folder)
        self._digest = ""
        self._checked_at = time.monotonic()
        self._is_replaced = False
        self._others: dict[tuple[str, int], bool] = {}

    def is_replaced(self) -> bool:
        """Return True if a module was added, changed or removed since the start. Looks at the files every few seconds only."""
        if not self._is_replaced and time.monotonic() - self._checked_at >= _CODE_CHECK_S:
            self._is_replaced = _stamp_modules(self._folder) != self._stamp
            self._checked_at = time.monotonic()
        return self._is_replaced

    def is_same(self, folder: str) -> bool:
        """Return True if the modules in another folder have the same text, or are not there to be read."""
        if folder == self._folder or not os.path.isabs(folder):
            return True
        key = (folder, _stamp_modules(folder))
        if key not in self._others:
            self._digest = self._digest or _digest_modules(self._folder)
            self._others[key] = _digest_modules(folder) in ("", self._digest)
        return self._others[key]


def _module_files(folder: str) -> list[str]:
    found = [
        os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names if name.endswith(".py")
    ]
    return sorted(found)


def _stamp_modules(folder: str) -> int:
    """Return a number that changes when a module is written, replaced or removed."""
    stamps = []
    for path in _module_files(folder):
        with suppress(OSError):
            status = os.stat(path)
            stamps.append((path, status.st_size, status.st_mtime_ns, status.st_ino))
    return hash(tuple(stamps))


def _digest_modules(folder: str) -> str:
    """Return a digest of all modules below a folder; empty if there are none."""
    whole = sha256()
    paths = _module_files(folder)
    for path in paths:
        with suppress(OSError), open(path, "rb") as file:
            whole.update(f"{path[len(folder) :]}\0".encode("utf-8", "surrogateescape") + sha256(file.read()).digest())
    return whole.hexdigest() if paths else ""


def daemon_identity() -> dict[str, Any]:
    """Return the `daemon` field of a response."""
    return {"pid": os.getpid(), "version": VERSION, "protocol": PROTOCOL}


def success_response(result: dict[str, Any]) -> bytes:
    """Return the line that ends a successful request."""
    return _encode_response({"ok": True, "result": result, "daemon": daemon_identity()})


def error_response(error: LorelogError, *, leaving: bool = False) -> bytes:
    """Return the line that ends a failed request. `leaving`: another daemon could still do it."""
    fields = {"code": error.code, "message": error.message, "hint": error.hint}
    response: dict[str, Any] = {"ok": False, "error": fields, "daemon": daemon_identity()}
    return _encode_response({**response, "leaving": True} if leaving else response)


def too_many_connections() -> DaemonError:
    """Return the error for a client above the connection limit."""
    return DaemonError("the daemon is busy: too many connections", hint="try again, or use --daemon off")


def send_and_close(client: socket.socket, response: bytes) -> None:
    """Send one response without waiting, and close the connection."""
    with suppress(OSError):
        client.setblocking(False)
        client.send(response)
    client.close()


def is_same_user(client: socket.socket, address: DaemonAddress) -> bool:
    """Return whether the peer process belongs to this user. Outside Linux the mode of the socket's directory ensures it.

    On loopback it is the token that ensures it.
    """
    if address.loopback:
        from lorelog.surfaces.daemon_client.loopback import has_token

        return has_token(client, address.socket)
    if sys.platform == "linux":
        with suppress(OSError):
            _, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            return bool(user == os.geteuid())
        return False
    else:  # noqa: RET505  (type checkers pass over a branch of another system)
        return True


def _encode_response(response: dict[str, Any]) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(response) + b"\n"
    except (UnicodeEncodeError, TypeError):  # a lone surrogate, from a path that is not UTF-8
        return json.dumps(response, default=str).encode() + b"\n"


class ClientConnection:
    """A client's socket with its input and output buffers. Used only by the server's I/O thread."""

    def __init__(self, client: socket.socket, *, over_limit: bool) -> None:
        self.socket = client
        self.over_limit = over_limit
        """Whether it was accepted above the connection limit: only `daemon.*` operations are answered."""
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.job: Job | None = None
        self.at_eof = False
        """Whether the client has closed its side."""
        self.closing = False
        """Whether input is ignored: the connection closes once the output is sent."""
        self.close_by = float("inf")
        self.writes_shut_down = False
        self.last_active_at = time.monotonic()
        """When bytes were last received or sent."""
        self._searched = 0

    def receive(self) -> None:
        """Read the bytes that are available."""
        try:
            received = self.socket.recv(_CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            received = b""
        if not received:
            self.at_eof = True
            return
        self.last_active_at = time.monotonic()
        if not self.closing:
            self.incoming += received

    def next_line(self) -> bytes | None:
        """Return the next complete line without its newline, or None."""
        end = self.incoming.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self.incoming)
            return None
        line = bytes(self.incoming[:end])
        del self.incoming[: end + 1]
        self._searched = 0
        return line

    def is_full(self) -> bool:
        """Return whether the input is too large for a request, if it contains no complete line."""
        return len(self.incoming) >= MAX_REQUEST_BYTES

    def can_receive(self) -> bool:
        """Return whether to read more. Requests sent before a response is ready wait in the buffer."""
        return not self.at_eof and not self.is_full()

    def send(self, response: dict[str, Any] | bytes) -> bool:
        """Queue a response and send as much as the client accepts now. Return False if the connection is lost."""
        self.outgoing += response if isinstance(response, bytes) else json.dumps(response).encode() + b"\n"
        return self.flush()

    def flush(self) -> bool:
        """Send queued output. Return False if the connection is lost."""
        while self.outgoing:
            try:
                sent = self.socket.send(self.outgoing[:_CHUNK_BYTES])
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                self.outgoing.clear()
                self.at_eof = True
                return False
            self.last_active_at = time.monotonic()
            del self.outgoing[:sent]
        return True

    def shut_down_writes(self, linger_s: float) -> None:
        """Send nothing after the queued output. Read and discard further input for `linger_s` seconds.

        Closing a socket that has unread input could discard the response before the client reads it.
        """
        if not self.closing:
            self.closing = True
            self.close_by = time.monotonic() + linger_s
        self.incoming.clear()
        self._searched = 0
        if not self.outgoing:
            self.writes_shut_down = True
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket."""
        with suppress(OSError):
            self.socket.close()
