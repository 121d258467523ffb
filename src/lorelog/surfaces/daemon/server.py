"""The daemon's lock, socket and server: one I/O thread for all connections, worker threads for the operations.

The I/O thread never runs operations, and workers never wait for a socket. A hanging embedder, a slow reader or a hundred
clients therefore cannot delay `daemon.status` and `daemon.stop`. Each connection has one request in progress; further
requests wait in a bounded buffer.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core import VERSION
from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError
from lorelog.core.processes import acquire_file_lock, resident_bytes
from lorelog.light.daemon_connection import (
    HEARTBEAT_S,
    MAX_REQUEST_BYTES,
    NON_IDEMPOTENT,
    PROTOCOL,
    DaemonAddress,
    clear_marker,
    create_folders,
    local_zone,
    version_key,
)
from lorelog.surfaces.daemon.connection import (
    ClientConnection,
    DaemonRequest,
    Job,
    RunningCode,
    WorkerPool,
    daemon_identity,
    error_response,
    is_same_user,
    parse_request,
    send_and_close,
    success_response,
    too_many_connections,
)

if TYPE_CHECKING:
    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.surfaces.daemon.connection import OperationRunner


_BACKLOG = 128
_TICK_S = 1.0
_STOPPING_POLL_S = 0.05
_LARGE_REQUEST_BYTES = 65_536


DAEMON_OPS = ("daemon.status", "daemon.stop", "daemon.wake")
_OUTLASTING = "session.recall"
"""The operation that goes on without its client: the answer is left for the session's next hook."""
_MAX_INLINE_BYTES = 65_536
"""Larger requests are parsed by a worker, so that they do not block the I/O thread."""
_PROGRESS_INTERVAL_S = 0.05


class DaemonHooks(Struct, frozen=True, kw_only=True):
    """Callbacks of the process that runs the server. They run in the I/O thread and must be quick."""

    status_fields: Callable[[], dict[str, Any]] = dict
    """Return further fields of `daemon.status`."""
    idle_s: float = 1800.0
    """Seconds without a request after which the daemon stops; 0 never."""
    on_shutdown: Callable[[], None] = lambda: None
    on_tick: Callable[[], None] = lambda: None
    """Called every second."""
    on_wake: Callable[[], None] = lambda: None
    """Called when a hook has written to the spool."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    connections: int = 128
    reserved_connections: int = 16
    """Further connections, for `daemon.*` operations only."""
    workers: int = 64
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


class DaemonServer:
    """Serves requests until it is told to stop, has been idle for too long, or its lock or socket file is replaced.

    Methods belong to the I/O thread; only `post` may be called from other threads.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        instance_lock: InstanceLock,
        runner: OperationRunner,
        hooks: DaemonHooks,
        limits: ServerLimits,
    ) -> None:
        self._instance_lock, self._runner, self._hooks, self._limits = instance_lock, runner, hooks, limits
        self._router = RequestRouter(
            self, address=instance_lock.address, runner=runner, hooks=hooks, pool=WorkerPool(limits.workers)
        )
        self._connections: dict[int, ClientConnection] = {}
        self._callbacks: deque[tuple[ClientConnection, Callable[[], None]]] = deque()
        self._ticked_at = 0.0
        self.shutdown_mode = ""
        """`now`, `after work`, or '' while the server runs."""
        self._stop_reason = ""
        self._stop_by = float("inf")
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self.waker = socket.socketpair()
        """Writing to `waker` wakes the I/O thread: 0 for a posted callback, otherwise the number of a signal."""
        for end in (self._wake_reader, self.waker):
            end.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._listener: socket.socket | None = listener
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self) -> str:
        """Serve requests until it is time to stop. Return the reason."""
        while not self.shutdown_mode or (time.monotonic() < self._stop_by and self._is_answering()):
            for key, events in self._selector.select(_STOPPING_POLL_S if self.shutdown_mode else _TICK_S):
                if key.fileobj is self._wake_reader:
                    with suppress(BlockingIOError):
                        for number in filter(None, self._wake_reader.recv(4096)):
                            self.shut_down(f"signal {number}")  # written by the interpreter
                elif key.fileobj is self._listener:
                    self._accept()
                elif connection := self._connections.get(key.fd):
                    self._guarded(connection, partial(self._handle_events, connection, events))
            while self._callbacks:
                connection, callback = self._callbacks.popleft()
                self._guarded(connection, callback)
            if time.monotonic() - self._ticked_at >= _TICK_S:
                self._tick()
        for connection in list(self._connections.values()):
            self._drop(connection)
        return self._stop_reason

    def shut_down(self, reason: str, *, after_work: bool = False) -> None:
        """Begin to stop: accept no connection and start no operation."""
        mode = "after work" if after_work else "now"
        first, self._stop_reason = not self.shutdown_mode, reason
        if self.shutdown_mode in {mode, "now"}:
            return
        if first and self._listener is not None:
            self._instance_lock.write_holder(mode)
            self._instance_lock.remove_socket()
            listener, self._listener = self._listener, None
            self._selector.unregister(listener)
            with suppress(OSError):  # tell clients that connected a moment too late that nothing was done for them
                while True:
                    client, _ = listener.accept()
                    send_and_close(client, error_response(DaemonError("the daemon is stopping"), leaving=True))
            listener.close()
            self._hooks.on_shutdown()
        self.shutdown_mode = mode
        self._runner.close(mode)
        if not after_work:
            self._stop_by = time.monotonic() + self._limits.stop_timeout_s

    def post(self, connection: ClientConnection, callback: Callable[[], None]) -> None:
        """Run a callback in the I/O thread; if it fails, the connection is closed."""
        self._callbacks.append((connection, callback))
        with suppress(OSError):  # the buffer is full: the thread is about to wake up anyway
            self.waker.send(b"\0")

    def adopt(self, client: socket.socket, *, over_limit: bool) -> None:
        client.setblocking(False)
        self._connections[client.fileno()] = ClientConnection(client, over_limit=over_limit)
        self._selector.register(client, selectors.EVENT_READ)

    def is_idle(self) -> bool:
        """Return whether no connection has a part of a request or a reply."""
        if self.shutdown_mode or self._callbacks or self._is_busy():
            return False
        return not any(connection.incoming or connection.outgoing for connection in self._connections.values())

    def close(self) -> None:
        """Close the selector and wake-up sockets after `run` has returned. Not needed if the process exits."""
        self._selector.close()
        self._wake_reader.close()
        self.waker.close()

    def connection_count(self) -> int:
        return len(self._connections)

    def send(self, connection: ClientConnection, response: dict[str, Any] | bytes) -> None:
        """Queue a response, and restart the heartbeat interval."""
        connection.send(response)
        if connection.job is not None:
            connection.job.last_sent_at = time.monotonic()
        self._update_selector(connection)

    def advance(self, connection: ClientConnection) -> None:
        """Handle as many buffered requests of a connection as possible now."""
        while connection.job is None and not connection.closing and not connection.outgoing:
            raw = connection.next_line()
            if raw is None:
                break
            if raw.strip():
                self._router.handle(connection, raw)
        idle = connection.job is None and not connection.outgoing
        if connection.is_full() and idle and not connection.closing:
            self._reject(connection, UsageError(f"a request may have at most {MAX_REQUEST_BYTES:,} bytes"))
        if connection.at_eof and connection.job is not None:
            connection.job.cancelled = True
        if connection.at_eof and connection.job is None and not connection.outgoing:
            if connection.incoming and not connection.closing:
                connection.send(error_response(UsageError("the request ends without a newline")))
            self._drop(connection)
        elif connection.closing and not connection.outgoing and not connection.writes_shut_down:
            connection.shut_down_writes(self._limits.linger_s)
        self._update_selector(connection)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _guarded(self, connection: ClientConnection, callback: Callable[[], None]) -> None:
        """Run a callback. An unexpected exception closes its connection and does not end the daemon."""
        try:
            callback()
        except Exception as error:
            self._runner.record_failure("connection", error)
            self._drop(connection)

    def _is_answering(self) -> bool:
        unanswered = any(connection.job or connection.outgoing for connection in self._connections.values())
        return unanswered or bool(self._runner.running())

    def _tick(self) -> None:
        now = self._ticked_at = time.monotonic()
        clear_marker(self._instance_lock.address)  # this daemon answers again
        for connection in list(self._connections.values()):
            self._guarded(connection, partial(self._check_timeouts, connection, now))
        if self.shutdown_mode:
            return
        if not self._instance_lock.is_valid():
            self.shut_down("its home was deleted or its socket replaced")
        elif self._hooks.idle_s and now - self._runner.last_used_at > self._hooks.idle_s and not self._is_busy():
            self.shut_down("idle for too long")
        else:
            try:
                self._hooks.on_tick()
            except Exception as error:
                self._runner.record_failure("background", error)

    def _is_busy(self) -> bool:
        if self._runner.running():
            return True
        return any(connection.job for connection in self._connections.values())

    def _check_timeouts(self, connection: ClientConnection, now: float) -> None:
        limits, idle_s = self._limits, now - connection.last_active_at
        if connection.outgoing:
            expired = idle_s > limits.write_timeout_s
        elif connection.closing:
            expired = idle_s > limits.linger_s or now > connection.close_by
        elif connection.job is not None:
            expired = False
            if now - connection.job.last_sent_at >= HEARTBEAT_S - _TICK_S / 2:
                self.send(connection, {"working": round(now - connection.job.started_at, 1)})
        else:
            expired = idle_s > (limits.request_timeout_s if connection.incoming else limits.idle_timeout_s)
        if expired:
            self._drop(connection)

    # -- connections -------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Most likely out of descriptors. Clients in the backlog keep waiting.
                self._runner.record_failure("accept", error)
                time.sleep(0.05)
                return
            count = len(self._connections)
            if not is_same_user(client):
                send_and_close(client, error_response(DaemonError("this daemon belongs to another user")))
            elif count >= self._limits.connections + self._limits.reserved_connections:
                send_and_close(client, error_response(too_many_connections()))
            else:
                self.adopt(client, over_limit=count >= self._limits.connections)

    def _handle_events(self, connection: ClientConnection, events: int) -> None:
        if events & selectors.EVENT_WRITE and connection.outgoing:
            connection.flush()
        if events & selectors.EVENT_READ:
            connection.receive()
            buffered = sum(len(other.incoming) for other in self._connections.values())
            if len(connection.incoming) > _LARGE_REQUEST_BYTES and buffered > self._limits.buffered_bytes:
                self._reject(connection, DaemonError("the daemon is busy with large requests", hint="try again"))
        self.advance(connection)

    def _update_selector(self, connection: ClientConnection) -> None:
        number = connection.socket.fileno()
        if number < 0 or number not in self._connections:
            return
        events = (selectors.EVENT_READ if connection.can_receive() else 0) | (
            selectors.EVENT_WRITE if connection.outgoing else 0
        )
        registered = self._selector.get_map().get(number)
        if registered is None and events:
            self._selector.register(connection.socket, events)
        elif registered is not None and not events:
            self._selector.unregister(connection.socket)
        elif registered is not None and registered.events != events:
            self._selector.modify(connection.socket, events)

    def _reject(self, connection: ClientConnection, error: LorelogError) -> None:
        """Send an error and close the connection: the rest of its input cannot be parsed."""
        connection.send(error_response(error))
        connection.shut_down_writes(self._limits.linger_s)

    def _drop(self, connection: ClientConnection) -> None:
        if connection.job is not None:
            connection.job.cancelled = True
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        self._connections.pop(connection.socket.fileno(), None)
        connection.close()


class RequestRouter:
    """Takes requests and sends exactly one response to each."""

    def __init__(
        self,
        transport: DaemonServer,
        *,
        address: DaemonAddress,
        runner: OperationRunner,
        hooks: DaemonHooks,
        pool: WorkerPool,
    ) -> None:
        self._transport, self._address, self._runner, self._hooks, self._pool = transport, address, runner, hooks, pool
        self._code = RunningCode()
        self._umask = os.umask(0o077)
        os.umask(self._umask)

    def handle(self, connection: ClientConnection, raw: bytes) -> None:
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
        home = request.caller.environment.get("LORELOG_HOME", self._address.home)
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
        if request.version == VERSION and not self._code.is_same(request.caller.code):
            raise DaemonError(
                f"the daemon runs another lorelog {VERSION} than {request.caller.code}", hint="lorelog daemon restart"
            )
        self._check_environment(request)

    def _check_environment(self, request: DaemonRequest) -> None:
        """Reject a client whose time zone or umask differs: its timestamps and files would differ from its own work."""
        time.tzset()  # the machine's time zone may have changed
        if request.caller.zone is not None and request.caller.zone != local_zone():
            raise DaemonError("the daemon has another time zone", hint="lorelog daemon stop")
        if request.op in NON_IDEMPOTENT and request.caller.umask is not None and request.caller.umask != self._umask:
            raise DaemonError(
                f"the daemon has umask {self._umask:04o}, the client {request.caller.umask:04o}",
                hint="lorelog daemon stop",
            )

    def _submit(self, connection: ClientConnection, job: Job) -> None:
        connection.job = job
        self._runner.mark_used()
        self._pool.submit(job)

    def _parse(self, connection: ClientConnection, job: Job) -> None:
        """Parse a large request, and route it from the I/O thread. Runs in a worker thread."""

        def resume() -> None:
            if connection.job is job:
                connection.job = None
                if job.request is None:
                    self._transport.send(connection, job.response)
                elif not job.cancelled:
                    self._route(connection, job.request)
                self._transport.advance(connection)

        try:
            job.request = parse_request(job.raw)
        except UsageError as error:
            job.response = error_response(error)
        except MemoryError:
            job.response = error_response(DaemonError("the request does not fit in memory"))
        job.raw = b""
        self._transport.post(connection, resume)

    def _execute(self, connection: ClientConnection, job: Job, request: DaemonRequest) -> None:
        """Run an operation. Runs in a worker thread."""

        def check_cancelled() -> None:
            if job.cancelled and request.op != _OUTLASTING:
                raise Cancelled("the client disconnected; finished work is kept")

        def report(stage: str, done: int, total: int) -> None:
            check_cancelled()
            if request.progress and 0 < total == done:  # the last report of a stage: always sent
                job.pending_progress = None
                self._transport.post(connection, lambda: self._send_report(connection, job, stage, done, total))
            elif request.progress:
                job.pending_progress = (stage, done, total)
                if time.monotonic() - job.posted_at >= _PROGRESS_INTERVAL_S:
                    job.posted_at = time.monotonic()
                    self._transport.post(connection, lambda: self._send_progress(connection, job))

        try:
            check_cancelled()
            caller = self._client_of(request)
            job.response = success_response(self._runner.call(request.op, request.arguments, caller, report))
        except LorelogError as error:
            job.response = error_response(error, leaving=bool(self._transport.shutdown_mode))
        except BaseException as error:
            self._runner.record_failure(request.op, error)
            job.response = error_response(LorelogError(f"internal error: {type(error).__name__}: {error}"))
        self._transport.post(connection, lambda: self._finish(connection, job))

    def _client_of(self, request: DaemonRequest) -> ClientIdentity:
        from lorelog.operations.dispatch import ClientIdentity

        names = ("directory", "environment", "own", "names_files", "agent", "wants_value")
        return ClientIdentity(home=self._address.home, **{name: getattr(request.caller, name) for name in names})

    def _send_progress(self, connection: ClientConnection, job: Job) -> None:
        """Send the latest progress, unless the client has not read what was sent before."""
        progress, job.pending_progress = job.pending_progress, None
        if progress and not connection.outgoing:
            self._send_report(connection, job, *progress)

    def _send_report(self, connection: ClientConnection, job: Job, stage: str, done: int, total: int) -> None:
        if connection.job is job and not job.cancelled:
            self._transport.send(connection, {"progress": {"stage": stage, "done": done, "total": total}})

    def _finish(self, connection: ClientConnection, job: Job) -> None:
        self._send_progress(connection, job)
        if connection.job is job:
            connection.job = None
            self._transport.send(connection, job.response)
            self._transport.advance(connection)

    def _status(self) -> dict[str, Any]:
        now, failure, running = time.monotonic(), self._runner.last_failure, self._runner.running()
        idle_s = 0.0 if running else now - self._runner.last_used_at
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
