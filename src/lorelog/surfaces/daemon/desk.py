"""Where requests are understood: who may ask, what is answered at once, what a worker is given, what becomes a stream.

Methods run in the thread that waits for sockets unless they say otherwise.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import Cancelled, DaemonError, LorelogError, UsageError
from lorelog.core.version import VERSION
from lorelog.operations.meter import resident_bytes
from lorelog.surfaces.daemon.answers import me, refusal, success, too_many
from lorelog.surfaces.daemon.job import Crew, Job, Request, read_request
from lorelog.surfaces.daemon.line import Line
from lorelog.surfaces.daemon.wire import ONCE, PROTOCOL, local_zone, version_key

if TYPE_CHECKING:
    from lorelog.operations.dispatch import Caller
    from lorelog.surfaces.daemon.address import Address
    from lorelog.surfaces.daemon.server import Server
    from lorelog.surfaces.daemon.work import Work

DAEMON_OPS = ("daemon.status", "daemon.stop", "daemon.wake", "daemon.mcp")
_READ_HERE = 65_536
"""Longer requests are parsed by a worker: the one who waits must not be kept."""
_EVERY_S = 0.05
"""Progress is told no more often."""


@dataclass(frozen=True, slots=True)
class House:
    """What desk and server need to know of the process around it."""

    caller_of: Callable[[Request], Caller]
    streams: dict[str, Callable[[socket.socket, Caller], None]] = field(default_factory=dict)
    """Operations that turn their connection into a stream of their own."""
    describe: Callable[[], dict[str, Any]] = dict
    """What status says beside the server's own."""
    idle_s: float = 1800.0
    """The daemon leaves when nobody has asked for so long; 0 stays."""
    leaving: Callable[[], None] = lambda: None
    """Called when the daemon begins to leave; must not take long."""
    chores: Callable[[], None] = lambda: None
    """Called every second, by the thread that waits; must not take long."""
    wake: Callable[[], None] = lambda: None
    """Called when a hook has left something to be seen to; must not take long."""


class Desk:
    """Takes requests and sees that each is answered once."""

    def __init__(self, server: Server, address: Address, work: Work, house: House, crew: Crew) -> None:
        self._server, self._address, self._work, self._house, self._crew = server, address, work, house, crew
        self.streams: set[socket.socket] = set()
        """Connections that have become something else."""
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._started = time.monotonic()
        self._started_at = time.time()

    def take(self, line: Line, raw: bytes) -> None:
        """See to one request."""
        if len(raw) > _READ_HERE:
            self._hand_over(line, Job(lambda job: self._read(line, job), raw=raw))
            return
        try:
            request = read_request(raw)
        except UsageError as error:
            self._server.say(line, refusal(error))
            return
        self._route(line, request)

    def _route(self, line: Line, request: Request) -> None:
        try:
            self._check(request)
            if request.op == "daemon.status":
                self._server.say(line, success(self._status()))
            elif request.op == "daemon.stop":
                after_work = request.arguments.get("after_work") is True
                self._server.say(line, success({"pid": os.getpid(), "stopping": True}))
                self._server.leave("it was asked to stop", after_work=after_work)
            elif request.op == "daemon.wake":
                self._work.touch()
                self._house.wake()
                self._server.say(line, success({}))
            elif request.op in self._house.streams:
                self._open_stream(line, request)
            elif request.op.startswith("daemon."):
                raise UsageError(
                    f"there is no operation {request.op[:100]!r}", hint=f"the daemon's own are {', '.join(DAEMON_OPS)}"
                )
            elif line.crowded:
                raise too_many()
            elif request.op not in ONCE or line.say({"working": 0}):
                # Who has seen this knows that it may have been written. Where it cannot be said, nothing begins.
                self._hand_over(line, Job(lambda job: self._carry_out(line, job, request)))
        except LorelogError as error:
            self._server.say(line, refusal(error, leaving=bool(self._server.leaving)))

    def _check(self, request: Request) -> None:
        own = request.op in {"daemon.status", "daemon.stop"}
        if request.protocol != PROTOCOL:
            raise DaemonError(
                f"the daemon speaks protocol {PROTOCOL}, not {request.protocol}", hint="lorelog warm stop"
            )
        home = request.environment.get("LORELOG_HOME", self._address.home)
        if home != self._address.home and os.path.realpath(home) != self._address.home:
            raise DaemonError(f"this is the daemon of {self._address.home}, not of {home}")
        if not own and version_key(request.version) > version_key(VERSION):
            self._server.leave(f"a newer client came ({request.version[:50]})", after_work=True)
            raise DaemonError(f"the daemon is of an older version ({VERSION}) and makes room")
        if self._server.leaving and not own:
            raise DaemonError("the daemon is leaving")
        if not own:
            self._check_ways(request)

    def _check_ways(self, request: Request) -> None:
        """Refuse whoever would get other times and other files from us than they make themselves."""
        time.tzset()  # the machine may have been carried elsewhere since
        if request.zone is not None and request.zone != local_zone():
            raise DaemonError("the daemon keeps the time of another zone", hint="lorelog warm stop")
        writes = request.op in ONCE or request.op in self._house.streams
        if writes and request.umask is not None and request.umask != self._umask:
            raise DaemonError(
                f"the daemon makes files with umask {self._umask:04o}, not {request.umask:04o}",
                hint="lorelog warm stop",
            )

    def _hand_over(self, line: Line, job: Job) -> None:
        line.job = job
        self._work.touch()
        self._crew.take(job)

    def _read(self, line: Line, job: Job) -> None:
        """Read a large request. In a worker's thread."""
        try:
            job.request = read_request(job.raw)
        except UsageError as error:
            job.answer = refusal(error)
        except MemoryError:
            job.answer = refusal(DaemonError("the request does not fit into memory"))
        job.raw = b""
        self._server.post(line, lambda: self._go_on(line, job))

    def _carry_out(self, line: Line, job: Job, request: Request) -> None:
        """Do what was asked. In a worker's thread."""

        def tell(stage: str, done: int, total: int) -> None:
            _check_wanted(job)
            if request.wants_progress:
                job.told = (stage, done, total)
                if time.monotonic() - job.posted >= _EVERY_S:
                    job.posted = time.monotonic()
                    self._server.post(line, lambda: self._tell(line, job))

        try:
            _check_wanted(job)
            caller = self._house.caller_of(request)
            job.answer = success(self._work.call(request.op, request.arguments, caller, tell))
        except LorelogError as error:
            job.answer = refusal(error, leaving=bool(self._server.leaving))
        except BaseException as error:  # noqa: BLE001  (a worker must not die, nor leave its line without an answer)
            self._work.note(request.op, error)
            job.answer = refusal(LorelogError(f"a fault of lorelog itself: {type(error).__name__}: {error}"))
        self._server.post(line, lambda: self._finish(line, job))

    def _tell(self, line: Line, job: Job) -> None:
        """Pass progress on, unless the line has not taken what was said before."""
        told, job.told = job.told, None
        if told and line.job is job and not line.outgoing and not job.cancelled:
            stage, done, total = told
            self._server.say(line, {"progress": {"stage": stage, "done": done, "total": total}})

    def _finish(self, line: Line, job: Job) -> None:
        """Pass an answer on."""
        self._tell(line, job)
        if line.job is job:
            line.job = None
            self._server.say(line, job.answer)
            self._server.advance(line)

    def _go_on(self, line: Line, job: Job) -> None:
        """Go on with a large request that has been read."""
        if line.job is not job:
            return
        line.job = None
        if job.request is None:
            self._server.say(line, job.answer)
        elif not job.cancelled:
            self._route(line, job.request)
        self._server.advance(line)

    # -- streams and status ------------------------------------------------------------------------------------------

    def _open_stream(self, line: Line, request: Request) -> None:
        """Hand a connection over to whoever speaks another language on it."""
        if line.incoming or line.crowded:
            raise too_many() if line.crowded else UsageError("wait for the answer before you go on")
        line.say(success({}))
        if line.outgoing or line.ended:
            return  # it went away, or does not take a hundred bytes
        connection = self._server.release(line)
        self.streams.add(connection)
        threading.Thread(target=self._stream, args=(connection, request), name="lorelog-stream", daemon=True).start()

    def _stream(self, connection: socket.socket, request: Request) -> None:
        try:
            self._house.streams[request.op](connection, self._house.caller_of(request))
        except OSError:
            pass  # the other side went away
        except Exception as error:  # noqa: BLE001  (a surface's fault must not end the daemon)
            self._work.note(request.op, error)
        finally:
            self._work.touch()
            self.streams.discard(connection)
            with suppress(OSError):
                connection.close()

    def _status(self) -> dict[str, Any]:
        now, fault = time.monotonic(), self._work.last_fault
        used = 0.0 if self._work.running() or self.streams else now - self._work.used
        status: dict[str, Any] = {
            **me(),
            "home": self._address.home,
            "socket": self._address.socket,
            "log": self._address.log,
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(self._started_at)),
            "uptime_s": round(now - self._started, 1),
            "idle_s": round(used, 1),
            "leaves_after_s": self._house.idle_s,
            "leaving": self._server.leaving,
            "rss_bytes": resident_bytes(),
            "connections": self._server.count(),
            "streams": len(self.streams),
            "threads": threading.active_count(),
            "calls": self._work.calls,
            "errors": self._work.errors,
            "waiting": self._crew.waiting(),
            "at_work": [{"op": op, "seconds": round(seconds, 1)} for op, seconds in self._work.running()],
            "last_error": None
            if fault is None
            else {"op": fault.what, "code": fault.code, "message": fault.message, "ago_s": round(now - fault.at, 1)},
        }
        try:
            return status | self._house.describe()
        except Exception as error:  # noqa: BLE001  (what cannot be told must not hide the rest)
            self._work.note("status", error)
            return status


def _check_wanted(job: Job) -> None:
    if job.cancelled:
        raise Cancelled("nobody waits for the answer any more; what was done is kept")
