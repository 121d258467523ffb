"""The daemon's lock, socket and server: a connection has a thread to itself, which runs its operations one after the other.

A thread may wait for a slow reader or a hanging embedder. None waits for another one, so `daemon.status` and `daemon.stop` are
always answered. The main thread accepts connections, and every second it looks after all of them: a client whose operation is at work gets a sign of life.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core import VERSION
from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError
from lorelog.core.processes import acquire_file_lock, resident_bytes
from lorelog.light.daemon_connection import (
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
    RunningCode,
    ServerLimits,
    WorkSlots,
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
_THREAD_IDLE_S = 20.0
_LARGE_REQUEST_BYTES = 65_536

DAEMON_OPS = ("daemon.status", "daemon.stop", "daemon.wake")
_OUTLASTING = "session.recall"
"""The operation that goes on without its client: the answer is left for the session's next hook."""
_PROGRESS_INTERVAL_S = 0.05


class DaemonHooks(Struct, frozen=True, kw_only=True):
    """Callbacks of the process that runs the server. They must be quick, and may run in any thread."""

    status_fields: Callable[[], dict[str, Any]] = dict
    """Return further fields of `daemon.status`."""
    idle_s: float = 1800.0
    """Seconds without a request after which the daemon stops; 0 never."""
    on_shutdown: Callable[[], None] = lambda: None
    on_tick: Callable[[], None] = lambda: None
    """Called every second."""
    on_wake: Callable[[], None] = lambda: None
    """Called when a hook has written to the spool."""


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
    """Serves requests until it is told to stop, has been idle for too long, or its lock or socket file is replaced."""

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
            self, address=instance_lock.address, runner=runner, hooks=hooks, slots=WorkSlots(limits.workers)
        )
        self._connections: set[ClientConnection] = set()
        self._idle, self._next = threading.Semaphore(0), SimpleQueue[ClientConnection]()
        """Threads that wait for a connection, and where they get it."""
        self._ticked_at = 0.0
        self.shutdown_mode = ""
        """`now`, `after work`, or '' while the server runs."""
        self._stop_reason = ""
        self._stop_by = float("inf")
        self._lock = Lock()
        self._wake_reader, self.waker = socket.socketpair()
        """Writing to `waker` wakes the main thread: the number of a signal, or 0."""
        self._listener = listener
        for end in (listener, self._wake_reader, self.waker):
            end.setblocking(False)

    def run(self) -> str:
        """Serve requests until it is time to stop. Return the reason."""
        poll = select.poll()
        for source in (self._listener, self._wake_reader):
            poll.register(source, select.POLLIN)
        while not self.shutdown_mode:
            for descriptor, _ in poll.poll(_TICK_S * 1000):
                if descriptor == self._listener.fileno():
                    self._accept()
                    continue
                with suppress(BlockingIOError):
                    for number in filter(None, self._wake_reader.recv(4096)):
                        self.shut_down(f"signal {number}")  # written by the interpreter
            self._tick_if_due()
        with suppress(OSError):  # tell clients that connected a moment too late that nothing was done for them
            while True:
                client, _ = self._listener.accept()
                send_and_close(client, error_response(DaemonError("the daemon is stopping"), leaving=True))
        self._listener.close()
        while time.monotonic() < self._stop_by and self._is_busy():
            time.sleep(_STOPPING_POLL_S)
            self._tick_if_due()
        for connection in list(self._connections):
            connection.hang_up()
        return self._stop_reason

    def shut_down(self, reason: str, *, after_work: bool = False) -> None:
        """Begin to stop: accept no connection and start no operation. Any thread may call it."""
        mode = "after work" if after_work else "now"
        with self._lock:
            if self.shutdown_mode in {mode, "now"}:
                return
            first, self._stop_reason = not self.shutdown_mode, reason
            if first:
                self._instance_lock.write_holder(mode)
                self._instance_lock.remove_socket()
                self._hooks.on_shutdown()
            self.shutdown_mode = mode
            self._runner.close(mode)
            if not after_work:
                self._stop_by = time.monotonic() + self._limits.stop_timeout_s
        with suppress(OSError):  # the buffer is full: the main thread is about to wake up anyway
            self.waker.send(b"\0")

    def is_idle(self) -> bool:
        """Return whether no connection has a part of a request or a reply."""
        return not (self.shutdown_mode or self._is_busy() or any(each.incoming for each in list(self._connections)))

    def close(self) -> None:
        """Close the wake-up sockets after `run` has returned. Not needed if the process exits."""
        self._wake_reader.close()
        self.waker.close()

    def connection_count(self) -> int:
        return len(self._connections)

    # -- the main thread ---------------------------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        return bool(self._runner.running()) or any(connection.started_at for connection in list(self._connections))

    def _tick_if_due(self) -> None:
        now = time.monotonic()
        if now - self._ticked_at < _TICK_S:
            return
        self._ticked_at = now
        clear_marker(self._instance_lock.address)  # this daemon answers again
        for connection in list(self._connections):
            connection.show_life(now)
        if self.shutdown_mode:
            return
        with self._lock:  # a thread that shuts down removes the socket
            is_lost = not (self.shutdown_mode or self._instance_lock.is_valid())
        if is_lost:
            self.shut_down("its home was deleted or its socket replaced")
        elif self._hooks.idle_s and now - self._runner.last_used_at > self._hooks.idle_s and not self._is_busy():
            self.shut_down("idle for too long")
        else:
            try:
                self._hooks.on_tick()
            except Exception as error:
                self._runner.record_failure("background", error)

    def _accept(self) -> None:
        while True:
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
                connection = ClientConnection(client, self._limits, over_limit=count >= self._limits.connections)
                self._connections.add(connection)
                if self._idle.acquire(blocking=False):
                    self._next.put(connection)
                else:
                    threading.Thread(target=self._work, args=(connection,), name="lorelog-client", daemon=True).start()

    # -- the thread of a connection ----------------------------------------------------------------------------------

    def _work(self, connection: ClientConnection) -> None:
        """Serve a connection, and later ones: a client makes a new one for each call, and a new thread for each costs CPU."""
        while True:
            self._serve(connection)
            del connection  # with its buffers
            self._idle.release()
            try:
                connection = self._next.get(timeout=_THREAD_IDLE_S)
            except Empty:
                if self._idle.acquire(blocking=False):
                    return
                connection = self._next.get()  # one was promised to this thread in this moment

    def _serve(self, connection: ClientConnection) -> None:
        """Answer the requests of a connection. An unexpected exception closes it and does not end the daemon."""
        try:
            while (line := connection.read_line(self._check_buffers)) is not None:
                if line.strip():
                    self._router.handle(connection, line)
        except LorelogError as error:  # the rest of its input cannot be parsed
            connection.reject(error)
        except OSError:
            pass  # the client disconnected, or does not read
        except Exception as error:
            self._runner.record_failure("connection", error)
        finally:
            self._connections.discard(connection)
            connection.close()

    def _check_buffers(self, connection: ClientConnection) -> None:
        """Raise DaemonError if incomplete requests are too large together."""
        if len(connection.incoming) <= _LARGE_REQUEST_BYTES:
            return
        with self._lock:  # of two at the same time, one goes on
            if sum(len(other.incoming) for other in list(self._connections)) <= self._limits.buffered_bytes:
                return
            connection.incoming.clear()
        raise DaemonError("the daemon is busy with large requests", hint="try again")


class RequestRouter:
    """Takes requests and sends exactly one response to each."""

    def __init__(
        self,
        server: DaemonServer,
        *,
        address: DaemonAddress,
        runner: OperationRunner,
        hooks: DaemonHooks,
        slots: WorkSlots,
    ) -> None:
        self._server, self._address, self._runner, self._hooks, self._slots = server, address, runner, hooks, slots
        self._code = RunningCode()
        self._umask = os.umask(0o077)
        os.umask(self._umask)

    def handle(self, connection: ClientConnection, raw: bytes) -> None:
        """Answer one request. Raise OSError if the client has left."""
        connection.begin()
        try:
            response = self._respond(connection, parse_request(raw))
        except LorelogError as error:
            response = error_response(error, leaving=bool(self._server.shutdown_mode))
        except MemoryError:
            response = error_response(DaemonError("the request does not fit in memory"))
        connection.end(response)

    def _respond(self, connection: ClientConnection, request: DaemonRequest) -> bytes:
        self._check(request)
        if request.op == "daemon.status":
            return success_response(self._status())
        if request.op == "daemon.stop":
            with suppress(OSError):  # before the socket is closed
                connection.send(success_response({"pid": os.getpid(), "stopping": True}))
            self._server.shut_down("a client asked it to stop", after_work=request.arguments.get("after_work") is True)
            return b""
        if request.op == "daemon.wake":
            self._runner.mark_used()
            self._hooks.on_wake()
            return success_response({})
        if request.op.startswith("daemon."):
            raise UsageError(
                f"there is no operation {request.op[:100]!r}", hint=f"the daemon has {', '.join(DAEMON_OPS)}"
            )
        if connection.over_limit:
            raise too_many_connections()
        if request.op in NON_IDEMPOTENT:
            # It tells the client that a write may have begun. If it cannot be sent, the write does not begin.
            connection.send({"working": 0})
        self._runner.mark_used()
        with self._slots.taken():
            return self._execute(connection, request)

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
            self._server.shut_down(f"a newer client connected ({request.version[:50]})", after_work=True)
            raise DaemonError(f"the daemon has an older version ({VERSION}) and is stopping")
        if self._code.is_replaced():  # by an update of the same version: new modules would be loaded next to old ones
            self._server.shut_down("lorelog was updated", after_work=True)
            raise DaemonError("lorelog was updated, and the daemon is stopping")
        if self._server.shutdown_mode:
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

    def _execute(self, connection: ClientConnection, request: DaemonRequest) -> bytes:
        reported_at = 0.0

        def check_cancelled() -> None:
            if request.op != _OUTLASTING and connection.is_gone():
                raise Cancelled("the client disconnected; finished work is kept")

        def report(stage: str, done: int, total: int) -> None:
            nonlocal reported_at
            is_last = 0 < total == done  # of a stage: always sent
            if time.monotonic() - reported_at < _PROGRESS_INTERVAL_S and not is_last:
                return
            reported_at = time.monotonic()
            check_cancelled()
            if request.progress:
                with suppress(OSError):  # the next report finds that the client has left
                    message = {"progress": {"stage": stage, "done": done, "total": total}}
                    connection.send(message, waits=is_last)

        try:
            check_cancelled()
            return success_response(self._runner.call(request.op, request.arguments, self._client_of(request), report))
        except LorelogError:
            raise
        except BaseException as error:
            self._runner.record_failure(request.op, error)
            return error_response(LorelogError(f"internal error: {type(error).__name__}: {error}"))

    def _client_of(self, request: DaemonRequest) -> ClientIdentity:
        from lorelog.operations.dispatch import ClientIdentity

        names = ("directory", "environment", "own", "names_files", "agent", "wants_value")
        return ClientIdentity(home=self._address.home, **{name: getattr(request.caller, name) for name in names})

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
            "leaving": self._server.shutdown_mode,
            "rss_bytes": resident_bytes(),
            "connections": self._server.connection_count(),
            "threads": threading.active_count(),
            "calls": self._runner.calls,
            "errors": self._runner.errors,
            "waiting": self._slots.waiting,
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
