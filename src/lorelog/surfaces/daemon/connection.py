"""Connections and requests of the daemon: bounded buffers and responses, parsing, the queue with its worker threads, and counts of
running operations.
"""

# ruff: noqa: PTH116, PTH117, PTH118, PTH123  (hundreds of files between two requests: pathlib takes three times as long)
from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert, field

from lorelog.core import VERSION
from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError
from lorelog.light.daemon_connection import MAX_REQUEST_BYTES, PACKAGE_FOLDER, PROTOCOL

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
        with suppress(OSError):
            self.socket.close()


_THREAD_IDLE_S = 30.0
"""Seconds after which a worker thread without work exits."""
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


class Job(Struct, eq=False, kw_only=True):
    """Work done by a worker thread while its connection waits."""

    run: Callable[[Job], None]
    request: DaemonRequest | None = None
    raw: bytes = b""
    response: bytes = b""
    cancelled: bool = False
    """Whether the client has disconnected."""
    pending_progress: tuple[str, int, int] | None = None
    """The latest progress that has not been sent."""
    posted_at: float = 0.0
    """When progress was last posted to the I/O thread."""
    started_at: float = field(default_factory=time.monotonic)
    last_sent_at: float = field(default_factory=time.monotonic)
    """When the client was last sent anything."""


class WorkerPool:
    """Worker threads, started on demand and stopped when idle."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        """Waiting threads, including notified ones that have not taken their job from the queue yet."""

    def submit(self, job: Job) -> None:
        """Queue a job. It runs at once if a thread is idle or may be started."""
        with self._changed:
            self._queue.append(job)
            if self._idle < len(self._queue) and self._threads < self._max_threads:
                self._threads += 1
                threading.Thread(target=self._work, name="lorelog-worker", daemon=True).start()
            else:
                self._changed.notify()

    def queue_length(self) -> int:
        return len(self._queue)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._queue, _THREAD_IDLE_S)
                self._idle -= 1
                if not self._queue:
                    self._threads -= 1
                    return
                job = self._queue.popleft()
            job.run(job)
            del job  # do not keep its response until the next job arrives


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
