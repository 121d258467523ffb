"""Requests of the daemon: parsing, the queue and its worker threads, and counts of running operations."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError

if TYPE_CHECKING:
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import ClientIdentity


_THREAD_IDLE_S = 30.0
"""Seconds after which a worker thread without work exits."""
_TYPE_NAMES = {dict: "an object", str: "a string", bool: "true or false", int: "an integer", list: "a list"}
CLIENT_ERROR_CODES = frozenset({"usage", "config", "not_found", "cancelled", "source"})
"""Codes of errors caused by the client, which are not failures of the daemon."""


class DaemonRequest(Struct, frozen=True, kw_only=True):
    """One parsed request."""

    op: str
    arguments: dict[str, Any]
    directory: str
    environment: dict[str, str]
    own: bool
    """Whether the client is this user's process, which may name local files to read."""
    names_files: bool
    """False for a page in this user's browser, which may not."""
    umask: int | None
    """The client's umask, if sent."""
    zone: list[Any] | None
    """The client's time zone as `local_zone` returns it, if sent."""
    wants_value: bool
    """Whether the client is the Python library, which makes a typed value from the reply."""
    wants_progress: bool
    protocol: int
    version: str
    code: str = ""
    """Folder of the client's modules, if sent."""


def parse_request(line: bytes) -> DaemonRequest:
    """Return the request in a line. Raise UsageError if it is malformed."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(fields, dict):
        raise UsageError("the request must be a JSON object on one line")
    caller = _typed_field(fields, "caller", dict, {})
    environment = _typed_field(caller, "environment", dict, {})
    if not all(isinstance(value, str) for value in environment.values()):
        raise UsageError("the values of the caller's environment must be strings")
    op = _typed_field(fields, "op", str, "")
    if not op:
        raise UsageError("the request has no 'op'", hint="'lorelog ops' lists the operations")
    return DaemonRequest(
        op=op,
        arguments=_typed_field(fields, "arguments", dict, {}),
        directory=_typed_field(caller, "directory", str, "/"),
        environment=environment,
        own=_typed_field(caller, "own", bool, True),
        names_files=_typed_field(caller, "names_files", bool, True),
        umask=_typed_field(caller, "umask", int, None),
        zone=_typed_field(caller, "zone", list, None),
        wants_value=_typed_field(caller, "wants_value", bool, False),
        wants_progress=_typed_field(fields, "progress", bool, False),
        protocol=_typed_field(fields, "protocol", int, 0),
        version=_typed_field(fields, "version", str, ""),
        code=_typed_field(caller, "code", str, ""),
    )


def _typed_field(fields: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name!r} of the request must be {_TYPE_NAMES[kind]}")
    return value


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
        """Return the number of jobs that wait for a thread."""
        return len(self._queue)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run(job)
            del job  # do not keep its response until the next job arrives

    def _next(self) -> Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._queue, _THREAD_IDLE_S)
            self._idle -= 1
            if self._queue:
                return self._queue.popleft()
            self._threads -= 1
            return None


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
        self,
        call: Callable[[str, Any, ClientIdentity, Progress | None], dict[str, Any]],
        log: Callable[[str], None],
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
        self.restarts = 0
        """How often this daemon has restarted itself to give back its memory."""
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
