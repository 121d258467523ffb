"""The spool is drained in order, once, and a failing session does not block others."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields

from lorelog.core.errors import DaemonError, StoreUnwritable, UsageError
from lorelog.core.session import HookEvent
from lorelog.light import spool
from lorelog.operations.session import CaptureRequest
from lorelog.services.sessions import drain
from lorelog.services.sessions.drain import Drainer, capture_arguments, event_directory


def event(home: Path, session: str, moment: str = "turn-end") -> str:
    time.sleep(0.002)  # events are named by the millisecond
    return spool.write_event(str(home), {"host": "claude", "session": session, "moment": moment})


class Captures:
    """Records events, and reacts to each session as configured."""

    def __init__(self, **sessions: Callable[[], dict[str, Any]]) -> None:
        self.sessions = sessions
        self.seen: list[tuple[str, str]] = []

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        self.seen.append((event["session"], event["moment"]))
        return self.sessions.get(event["session"], lambda: {"captured": [1], "waiting": False, "notes": []})()


def fail(error: Exception) -> Callable[[], dict[str, Any]]:
    def raising() -> dict[str, Any]:
        raise error

    return raising


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that are over at the next check."""
    for name in ("_RETRY_WAIT_S", "_FAILURE_WAIT_S"):
        monkeypatch.setattr(drain, name, 0.0)


def test_events_are_seen_to_in_order_and_leave(home: Path) -> None:
    """Each event is captured once, oldest first, and the spool is empty afterwards."""
    for moment in ("session-start", "prompt", "turn-end"):
        event(home, "a", moment)
    capture = Captures()

    drained = Drainer(str(home), capture).drain()

    assert capture.seen == [("a", "session-start"), ("a", "prompt"), ("a", "turn-end")]
    assert (drained.events, drained.captured, drained.pause_s) == (3, 3, None)
    assert drain.list_events(str(home)) == []


def test_what_waits_keeps_only_its_own_session_back(home: Path) -> None:
    """A waiting event blocks the later ones of its session only, until it is ready."""
    for session in ("a", "b", "a", "b"):
        event(home, session)
    ready = [False]
    capture = Captures(a=lambda: {"captured": [], "waiting": not ready[0]})
    drainer = Drainer(str(home), capture)

    drained = drainer.drain()
    assert [session for session, _ in capture.seen] == ["a", "b", "b"]
    assert (drained.events, drained.waiting, drained.failed) == (2, 2, 0)
    assert drained.pause_s is not None

    ready[0] = True
    assert drainer.drain().events == 2
    assert drain.list_events(str(home)) == []


@pytest.mark.parametrize("error", [StoreUnwritable("full"), ValueError("a fault of ours")])
def test_what_fails_stays_and_is_tried_again(home: Path, error: Exception) -> None:
    """A failure is reported once, other sessions continue, and nothing is lost."""
    for session in ("a", "a", "b"):
        event(home, session)
    told: list[Exception] = []
    capture = Captures(a=fail(error))
    drainer = Drainer(str(home), capture, lambda _, fault: told.append(fault))

    first, second = drainer.drain(), drainer.drain()

    assert (first.events, first.failed, second.failed) == (1, 2, 2)
    assert told == [error]
    assert len(drain.list_events(str(home))) == 2
    capture.sessions = {}
    assert drainer.drain().events == 2


def test_a_pause_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed event is retried with growing pauses, up to a limit."""
    monkeypatch.setattr(drain, "_FAILURE_WAIT_S", 3600.0)
    event(home, "a")
    capture = Captures(a=fail(StoreUnwritable("full")))
    drainer = Drainer(str(home), capture)

    pauses = [drainer.drain().pause_s for _ in range(3)]

    assert len(capture.seen) == 1
    assert all(pause is not None and 0 < pause <= 300 for pause in pauses)


def test_what_cannot_be_understood_is_set_aside(home: Path) -> None:
    """An unreadable event, a rejected one and one that failed for a week are parked with the reason."""
    refused, old = event(home, "a"), event(home, "b")
    broken = Path(event(home, "c"))
    broken.write_bytes(b"{")
    os.utime(old, (0, 0))
    capture = Captures(a=fail(UsageError("too long")), b=fail(StoreUnwritable("gone")))

    drained = Drainer(str(home), capture).drain()

    assert drained.parked == 3
    assert drain.list_events(str(home)) == []
    parked = home / "spool" / "failed"
    assert len(list(parked.glob("*.json"))) == 3
    assert (parked / Path(refused).with_suffix(".why").name).read_text().strip() == "too long"


def test_only_one_drains(home: Path) -> None:
    """While another process drains, nothing is done and nothing fails."""
    event(home, "a")
    capture = Captures()
    with (home / "spool" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        drained = Drainer(str(home), capture).drain()
    assert (drained.busy, capture.seen) == (True, [])

    assert Drainer(str(home), capture).drain().events == 1


def test_a_session_that_takes_its_time_keeps_no_other_waiting(home: Path) -> None:
    """While a model words a note of one session, others are captured, and so are new events."""
    for session in ("a", "b", "a"):
        event(home, session)
    released = threading.Event()

    def slow() -> dict[str, Any]:
        assert released.wait(30)
        return {"captured": [1]}

    def then() -> dict[str, Any]:
        event(home, "c")
        return {"captured": [1]}

    def last() -> dict[str, Any]:
        released.set()
        return {"captured": [1]}

    drained = Drainer(str(home), Captures(a=slow, b=then, c=last), max_sessions=2).drain()

    assert (drained.events, drained.captured, drained.failed, drained.pause_s) == (4, 4, 0, None)


def test_order_is_kept_within_a_session_however_many_are_seen_to_at_a_time(home: Path) -> None:
    """Events of one session are captured one at a time, in order."""
    moments = [f"m{number}" for number in range(8)]
    for moment in moments:
        for session in "abcdef":
            event(home, session, moment)
    capture = Captures()

    assert Drainer(str(home), capture, max_sessions=4).drain().events == 48

    for session in "abcdef":
        assert [moment for item, moment in capture.seen if item == session] == moments


@pytest.mark.parametrize("sessions", ["a", "cba"])
def test_a_daemon_that_stops_leaves_events_as_they_are(home: Path, sessions: str) -> None:
    """A stopping daemon ends the pass, whichever session reports it, and does not count as a failure."""
    for session in sessions:
        event(home, session)
    with pytest.raises(DaemonError):
        Drainer(str(home), Captures(a=fail(DaemonError("leaving"))), max_sessions=len(sessions)).drain()
    assert len(drain.list_events(str(home))) >= 1


def test_an_empty_or_missing_spool_is_nothing_to_do(home: Path) -> None:
    """Draining a missing spool creates no folder."""
    assert Drainer(str(home), Captures()).drain().pause_s is None
    assert not home.exists()


def test_an_event_is_asked_for_where_its_session_is(tmp_path: Path) -> None:
    """An event runs in its directory, else its project, else the home, with the fields of the request only."""
    told = {
        "host": "claude",
        "session": "s",
        "directory": str(tmp_path / "gone"),
        "project": str(tmp_path),
        "v": 1,
        "branch": "",
    }

    assert event_directory(told, "/home") == str(tmp_path)
    assert event_directory({"directory": "relative"}, "/home") == "/home"
    assert capture_arguments(told) == {
        "moment": "turn-end",
        "host": "claude",
        "session": "s",
        "directory": str(tmp_path / "gone"),
    }


def test_the_request_has_every_field_of_an_event() -> None:
    """An event with all fields becomes a valid request, so that a field added to events reaches the operation."""
    values: dict[str, Any] = {attribute.name: "x" for attribute in fields(HookEvent)}
    values |= {"offset": 0, "again": True, "environment": {}, "moment": "turn-end"}

    request = msgspec.convert(capture_arguments(values), CaptureRequest)

    assert request.again
