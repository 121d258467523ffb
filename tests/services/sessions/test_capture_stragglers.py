"""The rest of a session that ended without an event is captured by the next session's start, once."""

from __future__ import annotations

import os

import pytest
from tests.services.sessions.talks import CaptureHome, ClaudeTalk

HOURS = 3600.0


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


def test_the_rest_of_a_killed_session_is_captured_once_by_the_next_start(world: CaptureHome) -> None:
    """The last turn of an abandoned session is captured, and the session is not checked again."""
    left(world)
    world.tick(3 * HOURS)

    assert begin(world) == 1
    text = world.text()
    assert "User asked: second question\n- Ended: interrupted" in text
    assert text.count("first question") == 1
    world.tick(3 * HOURS)
    assert (begin(world), world.text()) == (0, text)


@pytest.mark.parametrize("state", ["silent for an hour", "transcript grows", "transcript is gone"])
def test_a_session_that_may_go_on_or_is_gone_is_left_alone(world: CaptureHome, state: str) -> None:
    """Silence for a short time, or a long turn without events, is not an end; a missing transcript raises nothing."""
    talk = left(world)
    world.tick(HOURS if state == "silent for an hour" else 3 * HOURS)
    if state == "transcript grows":
        touch(talk, world)
    elif state == "transcript is gone":
        talk.path.unlink()

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
