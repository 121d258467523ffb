"""The rest of a session that ended without an event is captured by the next session's start, once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.services.sessions.talks import CaptureHome, ClaudeTalk

HOURS = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> CaptureHome:
    """A project with a session that was answered once and then abandoned."""
    return CaptureHome(tmp_path)


def left(world: CaptureHome) -> ClaudeTalk:
    talk = ClaudeTalk(world)
    world.capture(talk.event("session-start", source="startup"))
    talk.ask("first question")
    talk.say("first answer")
    world.capture(talk.event("turn-end"))
    talk.ask("second question")
    world.capture(talk.event("prompt"))
    touch(talk, world)
    return talk


def touch(talk: ClaudeTalk, world: CaptureHome) -> None:
    """Set the modification time of the transcript to the test's clock."""
    os.utime(talk.path, (world.clock.timestamp(), world.clock.timestamp()))


def begin(world: CaptureHome) -> int:
    """Start another session; return the number of turns captured by it."""
    return len(world.capture(ClaudeTalk(world).event("session-start", source="startup")).captured)


def test_what_a_killed_host_left_is_captured_when_the_next_session_begins(world: CaptureHome) -> None:
    """The last turn of an abandoned session is captured."""
    left(world)
    world.tick(3 * HOURS)

    assert begin(world) == 1
    assert "User asked: second question\n- Ended: interrupted" in world.text()
    assert world.text().count("first question") == 1


def test_it_is_captured_once(world: CaptureHome) -> None:
    """A captured session is not checked again."""
    left(world)
    world.tick(3 * HOURS)
    begin(world)
    before = world.text()
    world.tick(3 * HOURS)

    assert begin(world) == 0
    assert world.text() == before


def test_a_session_that_may_go_on_is_left_alone(world: CaptureHome) -> None:
    """A concurrent session that is silent for a short time is left alone."""
    left(world)
    world.tick(HOURS)

    assert begin(world) == 0


def test_a_transcript_that_was_written_to_lately_is_left_alone(world: CaptureHome) -> None:
    """A long turn without events is left alone while its transcript grows."""
    talk = left(world)
    world.tick(3 * HOURS)
    touch(talk, world)

    assert begin(world) == 0


def test_a_session_whose_end_was_told_is_not_looked_at(world: CaptureHome) -> None:
    """Turns after a session's end, without hooks, are not captured by another session's start."""
    talk = left(world)
    world.capture(talk.event("session-end", source="other"))
    before = world.text()
    talk.ask("third question")
    touch(talk, world)
    world.tick(3 * HOURS)

    assert begin(world) == 0
    assert world.text() == before


def test_a_transcript_that_is_gone_is_forgotten(world: CaptureHome) -> None:
    """A missing transcript raises nothing and is not retried."""
    left(world).path.unlink()
    world.tick(3 * HOURS)

    assert begin(world) == 0
