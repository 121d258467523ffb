"""What is known of captured turns, and that a damaged file is no obstacle."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from lorelog.core.errors import StoreIncompatible, StoreUnwritable
from lorelog.core.session import is_unique, turn_memory
from lorelog.services.session.captures import DONE, WRITING, Row, open_captures


def row(memory: str, state: str, time: str = "2026-03-05T14:30:00+00:00", **more: str) -> Row:
    return Row(memory, "claude", "s", more.get("turn", "t"), time, "/j.md", 1, 2, state, more.get("entry", ""))


def test_turns_are_found_as_they_were_noted(tmp_path: Path) -> None:
    """Also by another process; what is being written is there with its entry until it is written."""
    with open_captures(tmp_path) as captures:
        captures.note(row("a", WRITING, entry="the entry"), row("b", DONE))
        assert captures.find("a") == row("a", WRITING, entry="the entry")
    with open_captures(tmp_path) as captures:
        assert captures.unfinished() == [row("a", WRITING, entry="the entry")]
        captures.note(row("a", DONE, entry="the entry"))
        assert captures.find("a") == row("a", DONE)
        assert captures.unfinished() == []
        assert captures.find("c") is None


def test_since_when_a_host_is_known_is_its_earliest_event(tmp_path: Path) -> None:
    """Backfilling is no event; a session's beginning is known only where it was seen."""
    with open_captures(tmp_path) as captures:
        assert captures.see("claude", "s", 100.0, begins=True).created == 100.0
        assert captures.see("claude", "t", 50.0).epoch == 50.0
        seen = captures.see("claude", "s", 200.0)
        assert (seen.epoch, seen.created) == (50.0, 100.0)
        assert captures.see("codex", "s", 100.0, backfill=True).epoch > 1e9
        status = {one.host: one for one in captures.status(0)}
    assert status["claude"].last_event == "1970-01-01T00:03:20Z"
    assert status["codex"].last_event == ""


def test_the_last_turn_of_a_session_is_known(tmp_path: Path) -> None:
    """By the turn's own time, not by when it was captured."""
    with open_captures(tmp_path) as captures:
        captures.note(row("a", DONE, "2026-03-05T15:00:00+00:00", turn="late"))
        captures.note(row("b", DONE, "2026-03-05T14:00:00+00:00", turn="early"))
        assert captures.last_turn("claude", "s") == "late"
        assert captures.last_turn("claude", "other") == ""


def test_it_is_for_its_owner_only(tmp_path: Path) -> None:
    """Like everything in the home."""
    with open_captures(tmp_path):
        assert stat.S_IMODE((tmp_path / "captures.db").stat().st_mode) == 0o600


def test_one_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    """What another version wrote is neither read nor set aside."""
    with open_captures(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "captures.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreIncompatible), open_captures(tmp_path):
        pass
    assert len(list(tmp_path.glob("captures*.db"))) == 1


def test_one_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """As a fault that a person can do something about."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritable), open_captures(tmp_path / "file"):
        pass


def test_a_turns_memory_is_always_the_same() -> None:
    """A UUID of its own version; one turn in two sessions is one memory where its id is unique in the world."""
    unique = "46d503e3-c274-4a7f-a77e-86434720e745"
    memory = turn_memory("claude", "s", unique)

    assert memory == turn_memory("claude", "another session", unique)
    assert memory[14] == "8"
    assert memory[19] in "89ab"
    assert [len(part) for part in memory.split("-")] == [8, 4, 4, 4, 12]
    assert turn_memory("openclaw", "s", "a1b2c3d4") != turn_memory("openclaw", "t", "a1b2c3d4")
    assert len({memory, turn_memory("codex", "s", unique), turn_memory("claude", "s", unique, "1 0")}) == 3
    assert [is_unique(one) for one in (unique, "msg_1dee495a8001RZes1g0FZqyTMq", "turn-3", "a1b2c3d4")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_sessions_beginning_may_be_told_after_its_first_prompt(tmp_path: Path) -> None:
    """Hosts tell both at once; but one that is taken up again was begun when it was."""
    with open_captures(tmp_path) as captures:
        captures.see("opencode", "s", 100.0)
        assert captures.see("opencode", "s", 100.5, begins=True).created == 100.5
        assert captures.see("opencode", "s", 900.0, begins=True).created == 100.5
