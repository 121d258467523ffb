"""Connections and requests of the daemon: limits, reading and sending, parsing, and counts of running operations."""

# ruff: noqa: PTH116, PTH117, PTH118, PTH123  (hundreds of files between two requests: pathlib takes three times as long)
from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert, field

from lorelog.core import VERSION
from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError
from lorelog.light.daemon_connection import HEARTBEAT_S, MAX_REQUEST_BYTES, PACKAGE_FOLDER, PROTOCOL

if TYPE_CHECKING:
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import ClientIdentity

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
    walk = os.walk(folder)
    return sorted(os.path.join(parent, name) for parent, _, names in walk for name in names if name.endswith(".py"))


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


def is_same_user(client: socket.socket) -> bool:
    """Return whether the peer process belongs to this user. Outside Linux the mode of the socket's directory ensures it."""
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


class ServerLimits(Struct, frozen=True, kw_only=True):
    connections: int = 128
    reserved_connections: int = 16
    """Further connections, for `daemon.*` operations only."""
    workers: int = 64
    """Operations at work; further ones wait."""
    buffered_bytes: int = 4 * MAX_REQUEST_BYTES
    """Total size of incomplete requests over all connections."""
    write_timeout_s: float = 30.0
    """A client that reads nothing for this long is disconnected."""
    request_timeout_s: float = 60.0
    """An incomplete request must grow within this time."""
    idle_timeout_s: float = 600.0
    """A connection without a request is closed after this time."""
    linger_s: float = 5.0
    stop_timeout_s: float = 4.0
    """How long running operations may take when the daemon stops."""


class ClientConnection:
    """A client's socket. Its thread reads requests and answers them; the main thread sends signs of life in between."""

    def __init__(self, client: socket.socket, limits: ServerLimits, *, over_limit: bool) -> None:
        client.setblocking(False)
        self.over_limit = over_limit
        """Whether it was accepted above the connection limit: only `daemon.*` operations are answered."""
        self.incoming = bytearray()
        self.started_at = 0.0
        """When the request at work was taken; 0 without one."""
        self._socket, self._limits = client, limits
        self._outgoing = bytearray()
        self._sent_at = 0.0
        self._sending = Lock()

    def read_line(self, check: Callable[[ClientConnection], None]) -> bytes | None:
        """Return the next line without its newline, or None if the client has left or was silent for too long.

        `check` may raise an error about what has been received. Raise UsageError for a line that is too long or incomplete.
        """
        searched = 0
        while (end := self.incoming.find(b"\n", searched)) < 0:
            searched = len(self.incoming)
            if searched >= MAX_REQUEST_BYTES:
                raise UsageError(f"a request may have at most {MAX_REQUEST_BYTES:,} bytes")
            limits = self._limits
            try:
                received = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                if not self._wait(select.POLLIN, limits.request_timeout_s if searched else limits.idle_timeout_s):
                    return None
                continue
            if not received and self.incoming:
                raise UsageError("the request ends without a newline")
            if not received:
                return None
            self.incoming += received
            check(self)
        line = bytes(self.incoming[:end])
        del self.incoming[: end + 1]
        return line

    def begin(self) -> None:
        """Note that a request is at work."""
        self.started_at = self._sent_at = time.monotonic()

    def end(self, response: bytes) -> None:
        """Send the response. Raise OSError if the client has left, or does not read."""
        with self._sending:
            try:
                self._send(response, self._limits.write_timeout_s)
            finally:
                self.started_at = 0.0

    def send(self, message: dict[str, Any] | bytes, *, waits: bool = True) -> None:
        """Send a message. Unless it `waits`, a client that has not read what was sent before does not get it."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        if self._sending.acquire(blocking=waits):
            try:
                if waits or not self._outgoing:
                    self._send(line, self._limits.write_timeout_s if waits else 0.0)
            finally:
                self._sending.release()

    def show_life(self, now: float) -> None:
        """Tell the client that its request is at work, if it was told nothing for a while."""
        if self.started_at and now - self._sent_at >= HEARTBEAT_S - 0.5 and self._sending.acquire(blocking=False):
            try:
                if self.started_at and not self._outgoing:
                    line = json.dumps({"working": round(now - self.started_at, 1)}).encode() + b"\n"
                    self._send(line, 0.0)
            except OSError:
                pass  # its thread finds that it has left
            finally:
                self._sending.release()

    def is_gone(self) -> bool:
        """Return whether the client has closed its side."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def reject(self, error: LorelogError) -> None:
        """Send an error, then discard what the client still sends: closing a socket that has unread input could discard the error."""
        with suppress(OSError):
            self.end(error_response(error))
            self._socket.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + self._limits.linger_s
            while self._wait(select.POLLIN, max(0.0, deadline - time.monotonic())) and self._socket.recv(_CHUNK_BYTES):
                pass

    def hang_up(self) -> None:
        """End the connection from another thread: its own one then closes it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _send(self, line: bytes, timeout_s: float) -> None:
        """Send what is queued and a line; each part within a time, else raise TimeoutError. With 0, the rest stays queued."""
        self._sent_at = time.monotonic()
        self._outgoing += line
        while self._outgoing:
            try:
                del self._outgoing[: self._socket.send(self._outgoing[:_CHUNK_BYTES])]
            except BlockingIOError:
                if not self._wait(select.POLLOUT, timeout_s):
                    if timeout_s:
                        raise TimeoutError from None
                    return

    def _wait(self, events: int, timeout_s: float) -> bool:
        """Return whether the socket is ready in time."""
        poll = select.poll()
        poll.register(self._socket, events)
        return bool(poll.poll(timeout_s * 1000))


CLIENT_ERROR_CODES = frozenset({"usage", "config", "not_found", "cancelled", "source", "capped"})
"""Codes of errors caused by the client or by a limit of the settings, which are not failures of the daemon."""


class DaemonCaller(Struct, frozen=True, kw_only=True):
    """The client of a request, as it describes itself."""

    directory: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    own: bool = True
    """Whether the client is this user's process, which may name local files to read."""
    names_files: bool = True
    """False for a page in this user's browser and for MCP, which may not."""
    agent: str = ""
    """Name of the agent that calls, where the environment does not tell."""
    umask: int | None = None
    """The client's umask, if sent."""
    zone: list[Any] | None = None
    """The client's time zone as `local_zone` returns it, if sent."""
    wants_value: bool = False
    """Whether the client is the Python library, which makes a typed value from the reply."""
    code: str = ""
    """Folder of the client's modules, if sent."""


class DaemonRequest(Struct, frozen=True, kw_only=True):
    """One parsed request. A hook that only wakes the daemon sends no caller."""

    op: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    sender: DaemonCaller | None = field(default=None, name="caller")
    progress: bool = False
    protocol: int = 0
    version: str = ""

    @property
    def caller(self) -> DaemonCaller:
        """The client, with defaults for what it did not send."""
        return self.sender or DaemonCaller()


def parse_request(line: bytes) -> DaemonRequest:
    """Return the request in a line. Raise UsageError if it is malformed."""
    try:
        # Not msgspec: it refuses lone surrogates, which stand for bytes of paths that are not UTF-8.
        request = convert(json.loads(line), DaemonRequest)
    except ValidationError as error:
        raise UsageError(f"the request is malformed: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not valid JSON: {str(error)[:200]}") from None
    if not request.op:
        raise UsageError("the request has no 'op'", hint="'lorelog ops' lists the operations")
    return request


class WorkSlots:
    """Limits how many operations are at work."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._changed = threading.Condition()
        self.waiting = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a slot and hold it."""
        with self._changed:
            self.waiting += 1
            self._changed.wait_for(lambda: self._free)
            self.waiting -= 1
            self._free -= 1
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify()


class DaemonFailure(Struct, frozen=True):
    """An error in the daemon that its client did not cause."""

    what: str
    """The operation or background task."""
    code: str
    message: str
    at: float
    """Time of `time.monotonic`."""


class OperationRunner:
    """Runs operations for all surfaces of the daemon, counts them, and remembers the last failure. Thread-safe."""

    def __init__(
        self, call: Callable[[str, Any, ClientIdentity, Progress | None], dict[str, Any]], log: Callable[[str], None]
    ) -> None:
        self._call = call
        self._log = log
        self._lock = Lock()
        self._running: dict[object, tuple[str, float]] = {}
        self._shutdown_mode = ""
        self.last_failure: DaemonFailure | None = None
        self.last_used_at = time.monotonic()
        """When a request last began or ended."""
        self.calls = 0
        self.errors = 0
        self.started = time.monotonic()
        self.started_at = time.time()

    def call(self, op: str, arguments: Any, caller: ClientIdentity, progress: Progress | None = None) -> dict[str, Any]:
        """Run an operation. Raise LorelogError for any failure."""
        token = self._begin(op)

        def report(stage: str, done: int, total: int) -> None:
            if self._shutdown_mode == "now":
                raise Cancelled(
                    "the daemon is stopping; finished work is kept", hint="run the command again to continue"
                )
            if progress is not None:
                progress(stage, done, total)

        try:
            return self._call(op, arguments, caller, report)
        except LorelogError as error:
            self.errors += 1
            if error.code not in CLIENT_ERROR_CODES:
                self.record_failure(op, error)
            raise
        except Exception as error:
            self.errors += 1
            self.record_failure(op, error)
            raise LorelogError(
                f"internal error: {type(error).__name__}: {error}",
                hint="your files are unchanged; please report this with the traceback from the daemon's log",
            ) from error
        finally:
            with self._lock:
                del self._running[token]
                self.last_used_at = time.monotonic()

    def record_failure(self, what: str, error: BaseException) -> None:
        """Log a failure, with a traceback if it is a bug, and keep it for `daemon.status`."""
        expected = isinstance(error, LorelogError)
        code = error.code if isinstance(error, LorelogError) else type(error).__name__
        message = error.message if isinstance(error, LorelogError) else str(error)
        self.last_failure = DaemonFailure(what, code, message[:500], time.monotonic())
        trace = "" if expected else "\n" + "".join(traceback.format_exception(error))[-3000:]
        self._log(f"{what}: {code}: {message}{trace}")

    def close(self, mode: str) -> None:
        """Refuse new operations. `now` also cancels running ones that report progress; `after work` lets them finish."""
        with self._lock:
            self._shutdown_mode = mode

    def running(self) -> list[tuple[str, float]]:
        """Return the running operations, each with its duration so far in seconds."""
        now = time.monotonic()
        with self._lock:
            return [(op, now - started_at) for op, started_at in self._running.values()]

    def mark_used(self) -> None:
        """Restart the idle timer."""
        self.last_used_at = time.monotonic()

    def _begin(self, op: str) -> object:
        token = object()
        with self._lock:
            if self._shutdown_mode:
                raise DaemonError("the daemon is stopping")
            self._running[token] = (op, time.monotonic())
            self.calls += 1
            self.last_used_at = time.monotonic()
        return token
