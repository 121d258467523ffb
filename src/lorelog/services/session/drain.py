"""Draining the spool: each event is seen to once, in the order they came within a session.

An event leaves the spool only after what it asked for is done. One whose transcript is not complete yet, or whose project cannot
be written just now, stays and is tried again after growing pauses; it keeps back the later ones of its own session and of no
other. Some sessions are seen to at a time, because wording a note may take a model a minute. What cannot be read, or did not
work for a week, is set aside with the reason. One process drains at a time.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lorelog.core.errors import Cancelled, DaemonError, LorelogError, SourceError, UsageError
from lorelog.services.session import spool

GIVE_UP_S = 7 * 24 * 3600.0
_WAITING_S, _WAITING_MOST_S = 0.2, 5.0
_FAILING_S, _FAILING_MOST_S = 2.0, 300.0
_LOOK_S = 0.5
"""How often a pass that takes its time looks for what came meanwhile."""

Capture = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Carries out `session.capture` for an event, where the event's session is, and returns its answer."""
Session = tuple[str, str]
"""A host and its session."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What came of one pass over the spool."""

    events: int = 0
    """Seen to."""
    captured: int = 0
    """Turns that were written."""
    waiting: int = 0
    """Events whose transcript is not complete yet, and those behind them."""
    failed: int = 0
    """Events that did not work, and those behind them."""
    parked: int = 0
    busy: bool = False
    """Another process drains."""
    notes: tuple[str, ...] = ()
    pause_s: float | None = None
    """After so long something is worth another try; None when nothing is left."""

    def __add__(self, other: Drained) -> Drained:
        """Return what two passes came to; what is left is what the later one left."""
        return replace(
            other,
            events=self.events + other.events,
            captured=self.captured + other.captured,
            parked=self.parked + other.parked,
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
        )


@dataclass(slots=True)
class _Later:
    tries: int = 0
    due: float = 0.0
    failed: bool = False


@dataclass(slots=True)
class _Pass:
    events: int = 0
    captured: int = 0
    waiting: int = 0
    failed: int = 0
    parked: int = 0
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, other: _Pass) -> None:
        """Take in what was done beside it."""
        self.events += other.events
        self.captured += other.captured
        self.parked += other.parked
        self.notes |= other.notes


@dataclass(frozen=True, slots=True)
class _Outcome:
    session: Session
    done: _Pass
    behind: _Later | None = None
    """What keeps the session back."""
    fault: BaseException | None = None


class Drainer:
    """Drains one home's spool. It remembers what to try again when, so keep it as long as the process lasts."""

    def __init__(
        self, home: str, capture: Capture, on_fault: Callable[[str, Exception], None] | None = None, at_once: int = 1
    ) -> None:
        self._home = home
        self._capture = capture
        self._on_fault = on_fault or (lambda _, __: None)
        self._at_once = at_once
        """So many sessions are seen to at a time; with one, in the caller's thread."""
        self._later: dict[str, _Later] = {}
        self._sessions: dict[str, Session] = {}
        """Of the events that wait, so that they are not all read again and again."""
        self._outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()

    def drain(self) -> Drained:
        """See to every event that is due. Nothing is done where another process is at it."""
        if not spool.spooled(self._home):
            self._later.clear()
            self._sessions.clear()
            return Drained()
        with _only_one(self._home) as is_one:
            if not is_one:
                return Drained(busy=True, pause_s=_WAITING_MOST_S)
            return self._pass()

    def _pass(self) -> Drained:
        done = _Pass()
        held: dict[Session, _Later] = {}
        """Sessions that an event keeps back."""
        under_way: set[Session] = set()
        waiting = self._waiting(done)
        for gone in self._later.keys() - self._sessions.keys():
            del self._later[gone]
        while True:
            for session, paths in waiting.items():
                if session not in held and session not in under_way and len(under_way) < self._at_once:
                    under_way.add(session)
                    self._begin(session, paths)
            if not under_way:
                break
            outcome = self._next()
            if outcome is not None:
                under_way.discard(outcome.session)
                done.add(outcome.done)
                if outcome.fault is not None:
                    raise outcome.fault
                if outcome.behind is not None:
                    held[outcome.session] = outcome.behind
            waiting = self._waiting(done)
        for session, behind in held.items():
            done.failed += behind.failed * len(waiting.get(session, ()))
            done.waiting += (not behind.failed) * len(waiting.get(session, ()))
        due = min((one.due for one in held.values()), default=None)
        pause = None if due is None else max(0.0, due - time.monotonic())
        return Drained(
            done.events, done.captured, done.waiting, done.failed, done.parked, notes=tuple(done.notes), pause_s=pause
        )

    def _waiting(self, done: _Pass) -> dict[Session, list[str]]:
        """Return the events that wait, by session, each in their order."""
        waiting: dict[Session, list[str]] = {}
        paths = spool.spooled(self._home)
        for gone in self._sessions.keys() - set(paths):
            del self._sessions[gone]
        for path in paths:
            if path not in self._sessions:
                event = self._read(path, done)
                if event is None:
                    continue
                self._sessions[path] = (str(event["host"]), str(event["session"]))
            waiting.setdefault(self._sessions[path], []).append(path)
        return waiting

    def _begin(self, session: Session, paths: Sequence[str]) -> None:
        if self._at_once == 1:
            self._see_through(session, paths)
        else:
            name = f"lorelog-capture-{session[0]}"
            threading.Thread(target=self._see_through, args=(session, paths), name=name, daemon=True).start()

    def _next(self) -> _Outcome | None:
        """Wait until a session was seen to, or until it is time to look whether there are others."""
        try:
            return self._outcomes.get(timeout=_LOOK_S)
        except queue.Empty:
            return None

    def _see_through(self, session: Session, paths: Sequence[str]) -> None:
        """See to events of one session until there are no more, or one keeps the others back."""
        done = _Pass()
        behind: _Later | None = None
        fault: BaseException | None = None
        try:
            for path in paths:
                event = self._read(path, done)
                behind = None if event is None else self._see_to(path, event, done)
                if behind is not None:
                    break
        except BaseException as error:  # noqa: BLE001  (the pass raises it)
            fault = error
        self._outcomes.put(_Outcome(session, done, behind, fault))

    def _read(self, path: str, done: _Pass) -> dict[str, Any] | None:
        try:
            return spool.read_event(path)
        except SourceError as error:
            if os.path.lexists(path):
                spool.park(path, error.message)
                done.parked += 1
                done.notes[error.message] = None
            return None

    def _see_to(self, path: str, event: dict[str, Any], done: _Pass) -> _Later | None:
        """Have an event carried out; return when to try again, or None when it is done with."""
        later = self._later.get(path)
        if later is not None and later.due > time.monotonic():
            return later
        later = self._later.setdefault(path, _Later())
        try:
            reply = self._capture(event)
        except (Cancelled, DaemonError):
            raise  # we are to leave: nothing is wrong with the event
        except LorelogError as error:
            return self._failed(path, error, later, done)
        except Exception as error:  # noqa: BLE001  (a fault of ours must not keep all other sessions back)
            return self._failed(path, error, later, done)
        done.captured += len(reply.get("captured", ()))
        if reply.get("waiting"):
            return _put_off(later, _WAITING_S, _WAITING_MOST_S, failed=False)
        spool.remove(path)
        del self._later[path]
        done.events += 1
        done.notes.update(dict.fromkeys(reply.get("notes", ())))
        return None

    def _failed(self, path: str, error: Exception, later: _Later, done: _Pass) -> _Later | None:
        said = error.message if isinstance(error, LorelogError) else f"{type(error).__name__}: {error}"
        if later.tries == 0:
            self._on_fault("capture", error)
        done.notes[said] = None
        if isinstance(error, UsageError) or _age(path) > GIVE_UP_S:
            spool.park(path, said)
            done.parked += 1
            self._later.pop(path, None)
            return None
        return _put_off(later, _FAILING_S, _FAILING_MOST_S, failed=True)


def _put_off(later: _Later, first_s: float, most_s: float, *, failed: bool) -> _Later:
    if later.failed != failed:
        later.tries = 0
    later.failed = failed
    later.due = time.monotonic() + min(most_s, first_s * 2 ** min(later.tries, 30))
    later.tries += 1
    return later


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime  # noqa: PTH116
    except OSError:
        return 0.0


@contextmanager
def _only_one(home: str) -> Iterator[bool]:
    """Say whether nobody else drains, and keep it so."""
    try:
        descriptor = os.open(f"{home}/spool/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
