"""The daemon's socket: one thread waits for all connections, others do the work.

Whoever waits never works and whoever works never waits for a socket: a hung embedder, a slow reader or a hundred callers leave
status and stop answered at once. One request at a time is under way on each connection; what follows it waits in a
bounded buffer.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError, LorelogError, UsageError
from lorelog.surfaces.daemon.answers import is_own, refusal, send_off, too_many
from lorelog.surfaces.daemon.desk import Desk, House
from lorelog.surfaces.daemon.job import Crew
from lorelog.surfaces.daemon.line import Line
from lorelog.surfaces.daemon.wire import BEAT_S, MOST_BYTES

if TYPE_CHECKING:
    from lorelog.surfaces.daemon.presence import Presence
    from lorelog.surfaces.daemon.work import Work

_TICK_S = 1.0
_PAUSE_S = 0.05
_LARGE = 65_536


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is borne, and how long."""

    connections: int = 128
    spare: int = 16
    """Further ones that may ask for status and stop."""
    workers: int = 64
    held_bytes: int = 4 * MOST_BYTES
    """Of requests that have not come whole, all connections together."""
    write_s: float = 30.0
    """A reader that takes nothing for so long is let go."""
    rest_s: float = 60.0
    """The rest of a request that has begun must come in this time."""
    quiet_s: float = 600.0
    """A connection that asks nothing for so long is closed."""
    linger_s: float = 5.0
    leave_s: float = 4.0
    """Running work is given this long when the daemon is told to stop."""


class Server:
    """Runs until it is told to leave, nobody needs it, or its place is not its own any more.

    What is public is for the desk, and for the thread that waits; `post` alone may be called from any thread.
    """

    def __init__(self, listener: socket.socket, presence: Presence, work: Work, house: House, limits: Limits) -> None:
        self._presence, self._work, self._house, self._limits = presence, work, house, limits
        self._desk = Desk(self, presence.address, work, house, Crew(limits.workers))
        self._lines: dict[int, Line] = {}
        self._posted: deque[tuple[Line, Callable[[], None]]] = deque()
        self._ticked = 0.0
        self.leaving = ""
        """`now`, `after work`, or nothing."""
        self._why = ""
        self._leave_by = float("inf")
        self._selector = selectors.DefaultSelector()
        self._woken, self.waker = socket.socketpair()
        for end in (self._woken, self.waker):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listener: socket.socket | None = listener
        self._selector.register(listener, selectors.EVENT_READ)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Answer until it is time to leave; return why."""
        while not self._may_leave():
            for key, events in self._selector.select(_PAUSE_S if self.leaving else _TICK_S):
                if key.fileobj is self._woken:
                    self._wake_up()
                elif key.fileobj is self._listener:
                    self._accept()
                elif line := self._lines.get(key.fd):
                    self._attend(line, events)
            while self._posted:
                line, then = self._posted.popleft()
                self._guarded(line, then)
            if time.monotonic() - self._ticked >= _TICK_S:
                self._tick()
        for line in list(self._lines.values()):
            self._drop(line)
        return self._why

    def leave(self, why: str, *, after_work: bool = False) -> None:
        """Begin to leave: nobody comes any more, and nothing more begins. Only for the thread that waits."""
        how = "after work" if after_work else "now"
        if self.leaving in {how, "now"}:
            return
        if not self.leaving:
            self._why = why
            self._presence.sign(how)
            self._presence.hide()
            self._close_listener()
            self._house.leaving()
        self.leaving = how
        self._work.close(how)
        if not after_work:
            self._leave_by = time.monotonic() + self._limits.leave_s

    def post(self, line: Line, then: Callable[[], None]) -> None:
        """Have the thread that waits do something about a line. From any thread."""
        self._posted.append((line, then))
        with suppress(OSError):  # full: it is about to wake up anyway
            self.waker.send(b"\0")

    def _guarded(self, line: Line, then: Callable[[], None]) -> None:
        """Do something about a line; a fault of ours ends the line and not the daemon."""
        try:
            then()
        except Exception as error:  # noqa: BLE001
            self._work.note("connection", error)
            self._drop(line)

    def _may_leave(self) -> bool:
        if not self.leaving:
            return False
        if time.monotonic() >= self._leave_by:
            return True
        unheard = any(line.job or line.outgoing for line in self._lines.values())
        return not unheard and not self._work.running()

    def close(self) -> None:
        """Close what it waits with, after it has left. A process that ends need not."""
        self._selector.close()
        self._woken.close()
        self.waker.close()

    def _close_listener(self) -> None:
        """Tell those who came a moment too late that nothing was done for them."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        self._selector.unregister(listener)
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                send_off(connection, refusal(DaemonError("the daemon is leaving"), leaving=True))
        listener.close()

    def _wake_up(self) -> None:
        with suppress(BlockingIOError):
            for number in self._woken.recv(4096):
                if number:  # a signal, written by the interpreter
                    self.leave(f"signal {number}")

    def _tick(self) -> None:
        now = self._ticked = time.monotonic()
        for line in list(self._lines.values()):
            self._guarded(line, partial(self._look_after, line, now))
        if self.leaving:
            return
        if not self._presence.is_whole():
            self.leave("its home or its socket is not its own any more")
        elif self._house.idle_s and now - self._work.used > self._house.idle_s and not self._is_busy():
            self.leave("nobody has asked for a while")
        else:
            try:
                self._house.chores()
            except Exception as error:  # noqa: BLE001  (a chore must not end the daemon)
                self._work.note("chores", error)

    def _is_busy(self) -> bool:
        return bool(self._desk.streams or self._work.running()) or any(line.job for line in self._lines.values())

    def _look_after(self, line: Line, now: float) -> None:
        limits, still = self._limits, now - line.moved
        if line.outgoing:
            stale = still > limits.write_s
        elif line.closing:
            stale = still > limits.linger_s or now > line.close_by
        elif line.job is not None:
            stale = False
            if now - line.job.said >= BEAT_S - _TICK_S / 2:
                self.say(line, {"working": round(now - line.job.since, 1)})
        else:
            stale = still > (limits.rest_s if line.incoming else limits.quiet_s)
        if stale:
            self._drop(line)

    # -- connections -------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Out of descriptors, most likely. Those who wait in the backlog go on waiting.
                self._work.note("accept", error)
                time.sleep(0.05)
                return
            connection.setblocking(False)
            crowd = len(self._lines)
            if not is_own(connection):
                send_off(connection, refusal(DaemonError("this daemon belongs to another user")))
            elif crowd >= self._limits.connections + self._limits.spare:
                send_off(connection, refusal(too_many()))
            else:
                line = Line(connection, crowded=crowd >= self._limits.connections)
                self._lines[connection.fileno()] = line
                self._selector.register(connection, selectors.EVENT_READ)

    def _attend(self, line: Line, events: int) -> None:
        self._guarded(line, partial(self._move, line, events))

    def _move(self, line: Line, events: int) -> None:
        if events & selectors.EVENT_WRITE and line.outgoing:
            line.flush()
        if events & selectors.EVENT_READ:
            line.receive()
            if len(line.incoming) > _LARGE and self._held() > self._limits.held_bytes:
                self._refuse(line, DaemonError("the daemon is busy with large requests", hint="try again"))
        self.advance(line)

    def advance(self, line: Line) -> None:
        """Go on with a line as far as it can go now."""
        while line.job is None and not line.closing and not line.outgoing:
            raw = line.next_line()
            if raw is None:
                break
            if raw.strip():
                self._desk.take(line, raw)
        if line.is_full() and line.job is None and not line.closing and not line.outgoing:
            self._refuse(line, UsageError(f"a request must not be larger than {MOST_BYTES:,} bytes"))
        if line.ended and line.job is not None:
            line.job.cancelled = True
        if line.ended and line.job is None and not line.outgoing:
            if line.incoming and not line.closing:
                line.say(refusal(UsageError("the request ends before its line does")))
            self._drop(line)
        elif line.closing and not line.outgoing and not line.shut_down:
            line.shut(self._limits.linger_s)
        self._listen_to(line)

    def _listen_to(self, line: Line) -> None:
        number = line.connection.fileno()
        if number < 0 or number not in self._lines:
            return
        wanted = (selectors.EVENT_READ if line.wants_more() else 0) | (selectors.EVENT_WRITE if line.outgoing else 0)
        known = self._selector.get_map().get(number)
        if known is None and wanted:
            self._selector.register(line.connection, wanted)
        elif known is not None and not wanted:
            self._selector.unregister(line.connection)
        elif known is not None and known.events != wanted:
            self._selector.modify(line.connection, wanted)

    def say(self, line: Line, answer: dict[str, Any] | bytes) -> bool:
        stands = line.say(answer)
        if line.job is not None:
            line.job.said = time.monotonic()
        self._listen_to(line)
        return stands

    def _refuse(self, line: Line, error: LorelogError) -> None:
        """Answer with an error and hang up: what follows cannot be understood."""
        line.say(refusal(error))
        line.shut(self._limits.linger_s)

    def _drop(self, line: Line) -> None:
        number = line.connection.fileno()
        if line.job is not None:
            line.job.cancelled = True
        with suppress(KeyError, ValueError):
            self._selector.unregister(line.connection)
        self._lines.pop(number, None)
        line.close()

    def release(self, line: Line) -> socket.socket:
        """Give a connection away: to whoever speaks another language on it."""
        self._selector.unregister(line.connection)
        self._lines.pop(line.connection.fileno())
        line.connection.setblocking(True)
        return line.connection

    def count(self) -> int:
        """Return how many connections there are."""
        return len(self._lines)

    def _held(self) -> int:
        return sum(len(line.incoming) for line in self._lines.values())
