"""Sessions that end without a word: what they left is captured when the next one begins, once, and not before its time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.services.session.talks import Talk, World

HOURS = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A project in which one session was answered once, and then left in the middle of an answer."""
    return World(tmp_path)


def left(world: World) -> Talk:
    talk = Talk(world)
    world.capture(talk.event("session-start", source="startup"))
    talk.ask("first question")
    talk.say("first answer")
    world.capture(talk.event("turn-end"))
    talk.ask("second question")
    world.capture(talk.event("prompt"))
    touch(talk, world)
    return talk


def touch(talk: Talk, world: World) -> None:
    """The file system's clock is the world's."""
    os.utime(talk.path, (world.clock.timestamp(), world.clock.timestamp()))


def begin(world: World) -> int:
    """Another session begins; return how many turns that captured."""
    return len(world.capture(Talk(world).event("session-start", source="startup")).captured)


def test_what_a_killed_host_left_is_captured_when_the_next_session_begins(world: World) -> None:
    """No turn is lost because nothing told of its end."""
    left(world)
    world.tick(3 * HOURS)

    assert begin(world) == 1
    assert "User asked: second question\n- Ended: interrupted" in world.text()
    assert world.text().count("first question") == 1


def test_it_is_captured_once(world: World) -> None:
    """A session that was seen to is not looked at again."""
    left(world)
    world.tick(3 * HOURS)
    begin(world)
    before = world.text()
    world.tick(3 * HOURS)

    assert begin(world) == 0
    assert world.text() == before


def test_a_session_that_may_go_on_is_left_alone(world: World) -> None:
    """Two sessions of one project at once: the other one may wait for a tool just now."""
    left(world)
    world.tick(HOURS)

    assert begin(world) == 0


def test_a_transcript_that_was_written_to_lately_is_left_alone(world: World) -> None:
    """A long turn tells no event, but its transcript grows."""
    talk = left(world)
    world.tick(3 * HOURS)
    touch(talk, world)

    assert begin(world) == 0


def test_a_session_whose_end_was_told_is_not_looked_at(world: World) -> None:
    """What a person says after the end, in a session that hooks do not see, is not captured by another one's beginning."""
    talk = left(world)
    world.capture(talk.event("session-end", source="other"))
    before = world.text()
    talk.ask("third question")
    touch(talk, world)
    world.tick(3 * HOURS)

    assert begin(world) == 0
    assert world.text() == before


def test_a_transcript_that_is_gone_is_forgotten(world: World) -> None:
    """Nothing fails, and nothing is tried for ever."""
    left(world).path.unlink()
    world.tick(3 * HOURS)

    assert begin(world) == 0
