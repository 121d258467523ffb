"""Request routing: answer daemon operations at once, give other requests to a worker, or turn a connection into a stream.

Methods run in the server's I/O thread unless their docstring says otherwise.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from lorelog.core import VERSION
from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError
from lorelog.light.daemon_connection import NON_IDEMPOTENT, PROTOCOL, local_zone, version_key
from lorelog.operations.operation import resident_bytes
from lorelog.surfaces.daemon.connection import (
    ClientConnection,
    DaemonRequest,
    Job,
    RunningCode,
    WorkerPool,
    daemon_identity,
    error_response,
    parse_request,
    success_response,
    too_many_connections,
)

if TYPE_CHECKING:
    from lorelog.light.daemon_address import DaemonAddress
    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.surfaces.daemon.connection import OperationRunner

DAEMON_OPS = ("daemon.status", "daemon.stop", "daemon.wake", "daemon.mcp")
_MAX_INLINE_BYTES = 65_536
"""Larger requests are parsed by a worker, so that they do not block the I/O thread."""
_PROGRESS_INTERVAL_S = 0.05


class Transport(Protocol):
    """What the router needs of the server. Only `post` may be called from other threads."""

    shutdown_mode: str
    """`now`, `after work`, or '' while the server runs."""

    def send(self, connection: ClientConnection, response: dict[str, Any] | bytes) -> None:
        """Queue a response."""

    def advance(self, connection: ClientConnection) -> None:
        """Continue with the next request of a connection."""

    def post(self, connection: ClientConnection, callback: Callable[[], None]) -> None:
        """Run a callback in the I/O thread."""

    def release(self, connection: ClientConnection) -> socket.socket:
        """Hand over a connection's socket and stop serving it."""

    def shut_down(self, reason: str, *, after_work: bool = False) -> None:
        """Begin to stop."""

    def connection_count(self) -> int:
        """Return the number of open connections."""


class DaemonHooks(Struct, frozen=True, kw_only=True):
    """Callbacks of the process that runs the server. All but `streams` run in the I/O thread and must be quick."""

    client_of: Callable[[DaemonRequest], ClientIdentity]
    streams: dict[str, Callable[[socket.socket, ClientIdentity], None]] = field(default_factory=dict)
    """Operations that turn their connection into a stream. Each runs in a thread of its own."""
    status_fields: Callable[[], dict[str, Any]] = dict
    """Return further fields of `daemon.status`."""
    idle_s: float = 1800.0
    """Seconds without a request after which the daemon stops; 0 never."""
    on_shutdown: Callable[[], None] = lambda: None
    on_tick: Callable[[], None] = lambda: None
    """Called every second."""
    on_wake: Callable[[], None] = lambda: None
    """Called when a hook has written to the spool."""


class RequestRouter:
    """Takes requests and sends exactly one response to each."""

    def __init__(
        self,
        transport: Transport,
        *,
        address: DaemonAddress,
        runner: OperationRunner,
        hooks: DaemonHooks,
        pool: WorkerPool,
    ) -> None:
        self._transport, self._address, self._runner, self._hooks, self._pool = transport, address, runner, hooks, pool
        self.streams: set[socket.socket] = set()
        self._code = RunningCode()
        self._umask = os.umask(0o077)
        os.umask(self._umask)

    def handle(self, connection: ClientConnection, raw: bytes) -> None:
        """Handle one request."""
        if len(raw) > _MAX_INLINE_BYTES:
            self._submit(connection, Job(run=lambda job: self._parse(connection, job), raw=raw))
            return
        try:
            request = parse_request(raw)
        except UsageError as error:
            self._transport.send(connection, error_response(error))
            return
        self._route(connection, request)

    def _route(self, connection: ClientConnection, request: DaemonRequest) -> None:
        send = self._transport.send
        try:
            self._check(request)
            if request.op == "daemon.status":
                send(connection, success_response(self._status()))
            elif request.op == "daemon.stop":
                after_work = request.arguments.get("after_work") is True
                send(connection, success_response({"pid": os.getpid(), "stopping": True}))
                self._transport.shut_down("a client asked it to stop", after_work=after_work)
            elif request.op == "daemon.wake":
                self._runner.mark_used()
                self._hooks.on_wake()
                send(connection, success_response({}))
            elif request.op in self._hooks.streams:
                self._open_stream(connection, request)
            elif request.op.startswith("daemon."):
                raise UsageError(
                    f"there is no operation {request.op[:100]!r}", hint=f"the daemon has {', '.join(DAEMON_OPS)}"
                )
            elif connection.over_limit:
                raise too_many_connections()
            elif request.op not in NON_IDEMPOTENT or connection.send({"working": 0}):
                # `working` tells the client that a write may have begun. If it cannot be sent, the write does not begin.
                self._submit(connection, Job(run=lambda job: self._execute(connection, job, request)))
        except LorelogError as error:
            send(connection, error_response(error, leaving=bool(self._transport.shutdown_mode)))

    def _check(self, request: DaemonRequest) -> None:
        control = request.op in {"daemon.status", "daemon.stop"}
        if request.protocol != PROTOCOL:
            raise DaemonError(
                f"the daemon uses protocol {PROTOCOL}, the client {request.protocol}", hint="lorelog daemon stop"
            )
        home = request.environment.get("LORELOG_HOME", self._address.home)
        if home != self._address.home and os.path.realpath(home) != self._address.home:
            raise DaemonError(f"this is the daemon of {self._address.home}, not of {home}")
        if control:
            return
        if version_key(request.version) > version_key(VERSION):
            self._transport.shut_down(f"a newer client connected ({request.version[:50]})", after_work=True)
            raise DaemonError(f"the daemon has an older version ({VERSION}) and is stopping")
        if self._code.is_replaced():  # by an update of the same version: new modules would be loaded next to old ones
            self._transport.shut_down("lorelog was updated", after_work=True)
            raise DaemonError("lorelog was updated, and the daemon is stopping")
        if self._transport.shutdown_mode:
            raise DaemonError("the daemon is stopping")
        if request.version == VERSION and not self._code.is_same(request.code):
            raise DaemonError(
                f"the daemon runs another lorelog {VERSION} than {request.code}", hint="lorelog daemon restart"
            )
        self._check_environment(request)

    def _check_environment(self, request: DaemonRequest) -> None:
        """Reject a client whose time zone or umask differs: its timestamps and files would differ from its own work."""
        time.tzset()  # the machine's time zone may have changed
        if request.zone is not None and request.zone != local_zone():
            raise DaemonError("the daemon has another time zone", hint="lorelog daemon stop")
        writes = request.op in NON_IDEMPOTENT or request.op in self._hooks.streams
        if writes and request.umask is not None and request.umask != self._umask:
            raise DaemonError(
                f"the daemon has umask {self._umask:04o}, the client {request.umask:04o}", hint="lorelog daemon stop"
            )

    def _submit(self, connection: ClientConnection, job: Job) -> None:
        connection.job = job
        self._runner.mark_used()
        self._pool.submit(job)

    def _parse(self, connection: ClientConnection, job: Job) -> None:
        """Parse a large request. Runs in a worker thread."""
        try:
            job.request = parse_request(job.raw)
        except UsageError as error:
            job.response = error_response(error)
        except MemoryError:
            job.response = error_response(DaemonError("the request does not fit in memory"))
        job.raw = b""
        self._transport.post(connection, lambda: self._resume(connection, job))

    def _execute(self, connection: ClientConnection, job: Job, request: DaemonRequest) -> None:
        """Run an operation. Runs in a worker thread."""

        def report(stage: str, done: int, total: int) -> None:
            _check_cancelled(job)
            if request.wants_progress and 0 < total == done:  # the last report of a stage: always sent
                job.pending_progress = None
                self._transport.post(connection, lambda: self._send_report(connection, job, stage, done, total))
            elif request.wants_progress:
                job.pending_progress = (stage, done, total)
                if time.monotonic() - job.posted_at >= _PROGRESS_INTERVAL_S:
                    job.posted_at = time.monotonic()
                    self._transport.post(connection, lambda: self._send_progress(connection, job))

        try:
            _check_cancelled(job)
            caller = self._hooks.client_of(request)
            job.response = success_response(self._runner.call(request.op, request.arguments, caller, report))
        except LorelogError as error:
            job.response = error_response(error, leaving=bool(self._transport.shutdown_mode))
        except BaseException as error:
            self._runner.record_failure(request.op, error)
            job.response = error_response(LorelogError(f"internal error: {type(error).__name__}: {error}"))
        self._transport.post(connection, lambda: self._finish(connection, job))

    def _send_progress(self, connection: ClientConnection, job: Job) -> None:
        """Send the latest progress, unless the client has not read what was sent before."""
        progress, job.pending_progress = job.pending_progress, None
        if progress and not connection.outgoing:
            self._send_report(connection, job, *progress)

    def _send_report(self, connection: ClientConnection, job: Job, stage: str, done: int, total: int) -> None:
        if connection.job is job and not job.cancelled:
            self._transport.send(connection, {"progress": {"stage": stage, "done": done, "total": total}})

    def _finish(self, connection: ClientConnection, job: Job) -> None:
        """Send the response of a finished job."""
        self._send_progress(connection, job)
        if connection.job is job:
            connection.job = None
            self._transport.send(connection, job.response)
            self._transport.advance(connection)

    def _resume(self, connection: ClientConnection, job: Job) -> None:
        """Route a large request once a worker has parsed it."""
        if connection.job is not job:
            return
        connection.job = None
        if job.request is None:
            self._transport.send(connection, job.response)
        elif not job.cancelled:
            self._route(connection, job.request)
        self._transport.advance(connection)

    def _open_stream(self, connection: ClientConnection, request: DaemonRequest) -> None:
        if connection.over_limit:
            raise too_many_connections()
        if connection.incoming:
            raise UsageError("wait for the response before you use the stream")
        connection.send(success_response({}))
        if connection.outgoing or connection.at_eof:
            return  # the client has disconnected or reads nothing
        stream = self._transport.release(connection)
        self.streams.add(stream)
        threading.Thread(target=self._serve_stream, args=(stream, request), name="lorelog-stream", daemon=True).start()

    def _serve_stream(self, stream: socket.socket, request: DaemonRequest) -> None:
        """Serve a stream until it ends. Runs in a thread of its own."""
        try:
            self._hooks.streams[request.op](stream, self._hooks.client_of(request))
        except OSError:
            pass  # the client disconnected
        except Exception as error:
            self._runner.record_failure(request.op, error)
        finally:
            self._runner.mark_used()
            self.streams.discard(stream)
            with suppress(OSError):
                stream.close()

    def _status(self) -> dict[str, Any]:
        now, failure, running = time.monotonic(), self._runner.last_failure, self._runner.running()
        idle_s = 0.0 if running or self.streams else now - self._runner.last_used_at
        status: dict[str, Any] = {
            **daemon_identity(),
            "home": self._address.home,
            "socket": self._address.socket,
            "log": self._address.log,
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(self._runner.started_at)),
            "uptime_s": round(now - self._runner.started, 1),
            "idle_s": round(idle_s, 1),
            "leaves_after_s": self._hooks.idle_s,
            "leaving": self._transport.shutdown_mode,
            "rss_bytes": resident_bytes(),
            "connections": self._transport.connection_count(),
            "streams": len(self.streams),
            "threads": threading.active_count(),
            "calls": self._runner.calls,
            "errors": self._runner.errors,
            "waiting": self._pool.queue_length(),
            "at_work": [{"op": op, "seconds": round(seconds, 1)} for op, seconds in running],
            "last_error": None,
        }
        if failure is not None:
            fields = {"op": failure.what, "code": failure.code, "message": failure.message}
            status["last_error"] = {**fields, "ago_s": round(now - failure.at, 1)}
        try:
            return status | self._hooks.status_fields()
        except Exception as error:
            self._runner.record_failure("status", error)
            return status


def _check_cancelled(job: Job) -> None:
    if job.cancelled:
        raise Cancelled("the client disconnected; finished work is kept")
