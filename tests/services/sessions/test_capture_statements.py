"""Words of the user become journal entries of their own type, exactly once."""

from __future__ import annotations

import re

from tests.services.sessions.talks import CaptureHome, ClaudeTalk

from lorelog.core.session import turn_memory_id
from lorelog.services.memory_state.tombstones import Tombstone, memory_key
from lorelog.services.sessions.capture import Backfill
from lorelog.services.sessions.capture_db import session_status


def corrected(world: CaptureHome, words: str = "use pnpm") -> ClaudeTalk:
    """Return a session with a turn in which the user rejected a call."""
    talk = ClaudeTalk(world)
    world.capture(talk.event("session-start", source="startup"))
    talk.ask("set it up")
    talk.reject("npm install", words)
    talk.say("It runs with pnpm, all green.")
    return talk


def of_type(world: CaptureHome, kind: str) -> list[str]:
    return [entry for entry in world.entries() if f"type:{kind}" in entry]


def test_a_rejection_is_an_entry_beside_the_note(world: CaptureHome) -> None:
    """The entry has its own type, the user as its origin, and the anchor of the turn."""
    talk = corrected(world)

    reply = world.capture(talk.event("turn-end"))

    assert (len(reply.captured), reply.statements) == (1, 1)
    (entry,) = of_type(world, "correction")
    assert entry.rstrip().endswith("-->\n- use pnpm\n- About: rejected Bash npm install")
    for field in (
        f"session:{talk.session}",
        f"turn:{talk.turn}",
        f"transcript:{talk.path}",
        "origin:user",
        "host:claude",
    ):
        assert field in entry
    assert len(of_type(world, "turn")) == 1


def test_a_typed_rule_is_the_request_and_an_entry(world: CaptureHome, talk: ClaudeTalk) -> None:
    """A prompt with a rule stays the request of its turn, and its entry says what it answers; others are turns only."""
    world.capture(talk.event("session-start", source="startup"))
    world.capture(talk.exchange("install it", "I installed it with npm."))
    world.capture(talk.exchange("no, always use pnpm", "Ok, pnpm."))
    world.capture(talk.exchange("Thanks. From now on, use pnpm.", "Noted."))

    (entry,) = of_type(world, "preference")
    assert entry.rstrip().endswith("- From now on, use pnpm.\n- About: Ok, pnpm.")
    assert "User asked: [I installed it with npm.] no, always use pnpm" in world.text()
    assert "User asked: Thanks. From now on, use pnpm." in world.text()
    assert of_type(world, "correction") == []


def test_statements_are_written_once_however_often_they_are_seen(world: CaptureHome) -> None:
    """Repeated events, a backfill, a fork and a lost database write no statement twice."""
    talk = corrected(world)
    event = talk.event("turn-end")
    for _ in range(2):
        world.capture(event)
    world.capture(event, Backfill())
    world.capture(talk.fork().event("session-end"), Backfill())
    (world.place.tenant_folder / "captures.db").unlink()
    world.capture(event, Backfill())

    assert len(of_type(world, "correction")) == 1
    assert len(world.entries()) == 2


def test_statements_of_a_removed_or_deleted_turn_stay_away(world: CaptureHome) -> None:
    """Neither a tombstone nor a note that somebody removed brings statements back; a deleted statement stays deleted."""
    talk = corrected(world)
    event = talk.event("turn-end")
    memory = turn_memory_id("claude", talk.session, talk.turn)
    world.tombstones.append([Tombstone(memory_key(memory), memory, "", (), "2026-03-05T00:00:00Z")])
    world.capture(event)
    assert world.entries() == []

    other = corrected(world)
    world.capture(other.event("turn-end"))
    world.journals()[0].write_text("# 2026-03-05\n")
    world.capture(other.event("session-end"), Backfill())
    assert world.entries() == []

    third = corrected(world, "words to forget")
    world.capture(third.event("turn-end"))
    (identity,) = re.findall(r"memory:(\S+)", of_type(world, "correction")[0])
    world.tombstones.append([Tombstone(memory_key(identity), identity, "", (), "2026-03-05T00:00:00Z")])
    world.journals()[0].write_text(re.sub(r"### [^#]*words to forget[^#]*", "", world.text()))
    (world.place.tenant_folder / "captures.db").unlink()
    world.capture(third.event("turn-end"), Backfill())
    assert of_type(world, "correction") == []


def test_secrets_in_statements_are_redacted(world: CaptureHome) -> None:
    """No secret of the user's words or their context reaches a journal."""
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    talk = corrected(world, f"use the token {secret}")
    world.capture(talk.event("turn-end"))

    assert of_type(world, "correction")
    assert secret not in world.text()


def test_the_status_counts_turns_and_not_entries(world: CaptureHome) -> None:
    """Statements do not count as turns."""
    talk = corrected(world)
    world.capture(talk.event("turn-end"))

    (host,) = session_status(world.place).hosts
    assert (host.captured, host.today) == (1, 1)


def test_a_dry_run_counts_statements(world: CaptureHome) -> None:
    """A dry run of a backfill reports statements and writes nothing."""
    talk = corrected(world)

    reply = world.capture(talk.event("session-end"), Backfill(dry_run=True))

    assert (len(reply.captured), reply.statements) == (1, 1)
    assert world.journals() == []
