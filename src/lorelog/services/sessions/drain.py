"""Drains the spool: captures each hook event once, in order within its session.

An event leaves the spool only after its capture has succeeded. One whose transcript is not complete yet, or whose
project cannot be written, is retried with growing pauses; it blocks later events of its own session only. Several
sessions are captured at a time, because a model may take a minute to word a note. An unreadable event, or one that
failed for a week, is parked with the reason. One process drains at a time.
"""

from __future__ import annotations

import json
import os
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from lorelog.core.atomic_file import Writing, open_regular, write_atomic
from lorelog.core.errors import Cancelled, DaemonError, LorelogError, SourceError, UsageError
from lorelog.core.processes import FileLock
from lorelog.core.session import HookEvent
from lorelog.light.spool import MAX_EVENT_BYTES, is_event_name

_DEFAULT_MOMENT = "turn-end"
_CALLER_FIELDS = frozenset({"project", "environment"})
"""Fields of HookEvent that identify the caller; all others are fields of the request."""


def capture_arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    names = (attribute.name for attribute in fields(HookEvent) if attribute.name not in _CALLER_FIELDS)
    arguments = {name: event[name] for name in names if event.get(name) not in (None, "")}
    return {"moment": _DEFAULT_MOMENT, **arguments}


def list_events(home: str) -> list[str]:
    """Return the paths of the waiting events, oldest first, and remove temporary files that are no longer being written."""
    folder = Path(home, "spool")
    for file in folder.glob("*.tmp"):
        with suppress(OSError):
            if time.time() - file.lstat().st_mtime > _STALE_S:
                file.unlink()
    return _list_names(folder)


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(str(file) for file in folder.iterdir() if is_event_name(file.name))
    except OSError:
        return []


def read_event(path: str) -> dict[str, Any]:
    """Return an event; missing fields are empty, unknown ones are kept. Raise SourceError for an invalid file."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(MAX_EVENT_BYTES + 1)
        if len(data) > MAX_EVENT_BYTES:
            raise SourceError(f"{path} is larger than the limit of {MAX_EVENT_BYTES:,} bytes")
        event = json.loads(data)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is not an event: {error}") from None
    if not isinstance(event, dict):
        raise SourceError(f"{path} is not an event: it is not a JSON object")
    for attribute in fields(HookEvent):
        value = event.get(attribute.name)
        if attribute.type is int:
            event[attribute.name] = value if isinstance(value, int) and not isinstance(value, bool) else 0
        elif attribute.type is bool:
            event[attribute.name] = value is True
        elif attribute.name != "environment":
            event[attribute.name] = value if isinstance(value, str) else ""
    variables = event.get("environment")
    pairs = variables.items() if isinstance(variables, dict) else ()
    event["environment"] = {name: value for name, value in pairs if isinstance(value, str)}
    event["id"] = str(event.get("id") or Path(path).stem)
    return event


def remove_event(path: str) -> None:
    with Writing(path, "removed"):
        Path(path).unlink(missing_ok=True)


def park_event(path: str, why: str) -> None:
    """Move an event aside with the reason of its failure; the oldest parked events are deleted."""
    event = Path(path)
    folder = event.parent / "failed"
    with Writing(path, "moved aside"), suppress(FileNotFoundError):  # without it, another process has handled it
        folder.mkdir(mode=0o700, exist_ok=True)
        write_atomic(folder / f"{event.stem}.why", why[:1_000].encode("utf-8", "replace") + b"\n")
        event.replace(folder / event.name)
        for parked in _list_names(folder)[:-_MAX_PARKED]:
            remove_event(parked)
            remove_event(f"{parked.removesuffix('.json')}.why")


def event_directory(event: Mapping[str, Any], home: str) -> str:
    """Return the directory to run in for an event: its own, else its project, else the home."""
    for name in ("directory", "project"):
        directory = event.get(name)
        if isinstance(directory, str) and Path(directory).is_absolute() and Path(directory).is_dir():
            return directory
    return home


GIVE_UP_S = 7 * 24 * 3600.0
_RETRY_WAIT_S, _RETRY_MAX_WAIT_S = 0.2, 5.0
_FAILURE_WAIT_S, _FAILURE_MAX_WAIT_S = 2.0, 300.0
_STALE_S = 3600.0
"""Age after which a temporary file is no longer being written."""
_MAX_PARKED = 1_000
_POLL_S = 0.5
"""How often a running pass checks for new events."""

CaptureCall = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Runs `session.capture` for an event, in its directory, and returns the reply."""
SessionKey = tuple[str, str]
"""A host and its session."""


class DrainReport(Struct, kw_only=True):
    """Result of one pass over the spool."""

    events: int = 0
    """Events captured."""
    captured: int = 0
    """Turns written."""
    waiting: int = 0
    """Events whose transcript is not complete yet, and those behind them."""
    failed: int = 0
    """Events that failed, and those behind them."""
    parked: int = 0
    busy: bool = False
    """Whether another process is draining."""
    notes: tuple[str, ...] = ()
    pause_s: float | None = None
    """Seconds until the next retry; None if nothing is left."""

    def add_notes(self, *notes: str) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, *notes)))

    def __add__(self, other: DrainReport) -> DrainReport:
        """Return the sum of two passes, with the remaining events of the later one."""
        return replace(
            other,
            events=self.events + other.events,
            captured=self.captured + other.captured,
            parked=self.parked + other.parked,
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
        )


class _RetryState(Struct):
    tries: int = 0
    due: float = 0.0
    failed: bool = False


class _SessionOutcome(Struct, frozen=True):
    session: SessionKey
    counts: DrainReport
    retry: _RetryState | None = None
    """Retry that blocks the session."""
    error: BaseException | None = None


class Drainer:
    """Drains one home's spool. It holds the retry times, so keep it as long as the process runs."""

    def __init__(
        self,
        home: str,
        capture: CaptureCall,
        on_fault: Callable[[str, Exception], None] | None = None,
        max_sessions: int = 1,
    ) -> None:
        self._home = home
        self._capture = capture
        self._on_fault = on_fault or (lambda _, __: None)
        self._max_sessions = max_sessions
        """Number of sessions captured at a time; with one, in the caller's thread."""
        self._retries: dict[str, _RetryState] = {}
        self._sessions: dict[str, SessionKey] = {}
        """Session of each waiting event, so that events are not read repeatedly."""
        self._outcomes: queue.SimpleQueue[_SessionOutcome] = queue.SimpleQueue()

    def drain(self) -> DrainReport:
        """Capture every event that is due; do nothing if another process is draining."""
        if not list_events(self._home):
            self._retries.clear()
            self._sessions.clear()
            return DrainReport()
        with ExitStack() as stack:
            try:
                stack.enter_context(FileLock(f"{self._home}/spool/.lock", BlockingIOError()))
            except OSError:
                return DrainReport(busy=True, pause_s=_RETRY_MAX_WAIT_S)
            return self._drain_pass()

    def _drain_pass(self) -> DrainReport:
        counts = DrainReport()
        blocked: dict[SessionKey, _RetryState] = {}
        """Sessions with a failed or waiting event."""
        running: set[SessionKey] = set()
        pending = self._events_by_session(counts)
        for gone in self._retries.keys() - self._sessions.keys():
            del self._retries[gone]
        while True:
            for session, paths in pending.items():
                if session not in blocked and session not in running and len(running) < self._max_sessions:
                    running.add(session)
                    if self._max_sessions == 1:
                        self._drain_session(session, paths)
                    else:
                        name = f"lorelog-capture-{session[0]}"
                        Thread(target=self._drain_session, args=(session, paths), name=name, daemon=True).start()
            if not running:
                break
            with suppress(queue.Empty):  # then it is time to check for new events
                outcome = self._outcomes.get(timeout=_POLL_S)
                running.discard(outcome.session)
                counts += outcome.counts
                if outcome.error is not None:
                    raise outcome.error
                if outcome.retry is not None:
                    blocked[outcome.session] = outcome.retry
            pending = self._events_by_session(counts)
        for session, retry in blocked.items():
            behind = len(pending.get(session, ()))
            counts.failed += behind if retry.failed else 0
            counts.waiting += 0 if retry.failed else behind
        due = min((retry.due for retry in blocked.values()), default=None)
        counts.pause_s = None if due is None else max(0.0, due - time.monotonic())
        return counts

    def _events_by_session(self, counts: DrainReport) -> dict[SessionKey, list[str]]:
        """Return the events in the spool by session, in order."""
        pending: dict[SessionKey, list[str]] = {}
        paths = list_events(self._home)
        for gone in self._sessions.keys() - set(paths):
            del self._sessions[gone]
        for path in paths:
            if path not in self._sessions:
                event = self._read(path, counts)
                if event is None:
                    continue
                self._sessions[path] = (str(event["host"]), str(event["session"]))
            pending.setdefault(self._sessions[path], []).append(path)
        return pending

    def _drain_session(self, session: SessionKey, paths: Sequence[str]) -> None:
        """Capture the events of one session until none is left or one blocks the rest."""
        counts = DrainReport()
        retry: _RetryState | None = None
        fault: BaseException | None = None
        try:
            for path in paths:
                event = self._read(path, counts)
                retry = None if event is None else self._process_event(path, event, counts)
                if retry is not None:
                    break
        except BaseException as error:  # noqa: BLE001  (the pass raises it)
            fault = error
        self._outcomes.put(_SessionOutcome(session, counts, retry, fault))

    def _read(self, path: str, counts: DrainReport) -> dict[str, Any] | None:
        try:
            return read_event(path)
        except SourceError as error:
            if os.path.lexists(path):
                park_event(path, error.message)
                counts.parked += 1
                counts.add_notes(error.message)
            return None

    def _process_event(self, path: str, event: dict[str, Any], counts: DrainReport) -> _RetryState | None:
        """Capture an event; return its retry, or None if it is done."""
        retry = self._retries.get(path)
        if retry is not None and retry.due > time.monotonic():
            return retry
        retry = self._retries.setdefault(path, _RetryState())
        try:
            reply = self._capture(event)
        except (Cancelled, DaemonError):
            raise  # the process is stopping; the event is fine
        except Exception as error:  # noqa: BLE001  (a bug must not block all other sessions)
            return self._handle_failure(path, error, retry, counts)
        counts.captured += len(reply.get("captured", ()))
        if reply.get("waiting"):
            return _schedule_retry(retry, _RETRY_WAIT_S, _RETRY_MAX_WAIT_S, failed=False)
        remove_event(path)
        del self._retries[path]
        counts.events += 1
        counts.add_notes(*reply.get("notes", ()))
        return None

    def _handle_failure(
        self, path: str, error: Exception, retry: _RetryState, counts: DrainReport
    ) -> _RetryState | None:
        message = error.message if isinstance(error, LorelogError) else f"{type(error).__name__}: {error}"
        if retry.tries == 0:
            self._on_fault("capture", error)
        counts.add_notes(message)
        age = 0.0
        with suppress(OSError):
            age = time.time() - Path(path).stat().st_mtime
        if isinstance(error, UsageError) or age > GIVE_UP_S:
            park_event(path, message)
            counts.parked += 1
            self._retries.pop(path, None)
            return None
        return _schedule_retry(retry, _FAILURE_WAIT_S, _FAILURE_MAX_WAIT_S, failed=True)


def _schedule_retry(retry: _RetryState, first_s: float, max_s: float, *, failed: bool) -> _RetryState:
    if retry.failed != failed:
        retry.tries = 0
    retry.failed = failed
    retry.due = time.monotonic() + min(max_s, first_s * 2 ** min(retry.tries, 30))
    retry.tries += 1
    return retry
