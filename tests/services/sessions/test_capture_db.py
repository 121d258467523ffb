"""The captures database keeps the state of turns and survives damage."""

from __future__ import annotations

from pathlib import Path

from lorelog.core.session import is_unique_turn_id, turn_memory_id
from lorelog.services.sessions.capture_db import DONE, WRITING, CaptureRow, open_captures


def row(memory: str, state: str, time: str = "2026-03-05T14:30:00+00:00", **more: str) -> CaptureRow:
    turn, entry = more.get("turn", "t"), more.get("entry", "")
    return CaptureRow(memory, "claude", "s", turn, time, "/j.md", texts=1, calls=2, state=state, entry=entry)


def test_turns_are_found_as_they_were_noted(tmp_path: Path) -> None:
    """Saved rows are seen by another process; the entry is kept while it is being written."""
    with open_captures(tmp_path) as captures:
        captures.save_rows(row("a", WRITING, entry="the entry"), row("b", DONE))
        assert captures.find("a") == row("a", WRITING, entry="the entry")
    with open_captures(tmp_path) as captures:
        assert captures.unfinished() == [row("a", WRITING, entry="the entry")]
        captures.save_rows(row("a", DONE, entry="the entry"))
        assert captures.find("a") == row("a", DONE)
        assert captures.unfinished() == []
        assert captures.find("c") is None


def test_since_when_a_host_is_known_is_its_earliest_event(tmp_path: Path) -> None:
    """A backfill is not an event; the start of a session is known only if it was seen."""
    with open_captures(tmp_path) as captures:
        assert captures.note_event("claude", "s", 100.0, begins=True) == 100.0
        assert captures.note_event("claude", "t", 50.0) == 50.0
        assert captures.note_event("claude", "s", 200.0) == 100.0
        assert captures.note_event("codex", "s", 100.0, backfill=True) > 1e9
        status = {statu.host: statu for statu in captures.status(0)}
    assert status["claude"].last_event == "1970-01-01T00:03:20Z"
    assert status["codex"].last_event == ""


def test_a_turns_memory_is_always_the_same() -> None:
    """A memory id is a UUID; a turn in two sessions has one id if the turn's id is globally unique."""
    unique = "46d503e3-c274-4a7f-a77e-86434720e745"
    memory = turn_memory_id("claude", "s", unique)

    assert memory == turn_memory_id("claude", "another session", unique)
    assert memory[14] == "8"
    assert memory[19] in "89ab"
    assert [len(part) for part in memory.split("-")] == [8, 4, 4, 4, 12]
    assert turn_memory_id("openclaw", "s", "a1b2c3d4") != turn_memory_id("openclaw", "t", "a1b2c3d4")
    assert len({memory, turn_memory_id("codex", "s", unique), turn_memory_id("claude", "s", unique, "1 0")}) == 3
    assert [is_unique_turn_id(item) for item in (unique, "msg_1dee495a8001RZes1g0FZqyTMq", "turn-3", "a1b2c3d4")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_sessions_beginning_may_be_told_after_its_first_prompt(tmp_path: Path) -> None:
    """A start event may follow the first prompt closely; a resumed session keeps its start."""
    with open_captures(tmp_path) as captures:
        captures.note_event("opencode", "s", 100.0)
        assert captures.note_event("opencode", "s", 100.5, begins=True) == 100.5
        assert captures.note_event("opencode", "s", 900.0, begins=True) == 100.5
