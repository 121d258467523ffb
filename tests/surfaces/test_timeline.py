"""`session.timeline`: days and sessions, what was asked and what came of it."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.transcripts.conversations import claude, claude_turn, tool_result, tool_use, write_lines

from lorelog import Lorelog
from lorelog.core.paths import tenant_folder
from lorelog.light.delivery_log import append_delivery


def capture(memory: Lorelog, tmp_path: Path) -> None:
    """Capture a session of two turns, one of which fails."""
    lines = [
        claude("user", "u1", "Why does the dam leak?"),
        claude("assistant", "a1", [tool_use("t1", "Bash", command="make dam")]),
        claude("user", "r1", [tool_result("t1", "dam.c:3: error: no mud", is_error=True)]),
        claude("assistant", "a2", [tool_use("t2", "Edit", file_path="dam.c", old_string="a", new_string="b")]),
        claude("user", "r2", [tool_result("t2", "ok")]),
        claude("assistant", "a3", [{"type": "text", "text": "A branch was missing; I added it."}]),
        *claude_turn("u2", "From now on always use willow.", "I will.", timestamp="2026-03-05T14:40:00.123Z"),
    ]
    talk = write_lines(tmp_path / "session-1.jsonl", lines)
    memory.capture(host="claude", session="session-1", transcript=str(talk), branch="main", everything=True)


def test_a_session_shows_what_was_asked_and_what_came_of_it(project: Path, tmp_path: Path) -> None:
    """A captured session is one entry of its day, with request, outcome, files and failures of each turn, and statements."""
    with Lorelog(project=project) as memory:
        capture(memory, tmp_path)
        (session,) = memory.timeline().sessions
    assert (session.day, session.session, session.host) == ("2026-03-05", "session-1", "claude")
    first, second = session.turns
    assert (first.asked, first.outcome) == ("Why does the dam leak?", "A branch was missing; I added it.")
    assert first.files == ("dam.c",)
    assert "no mud" in first.errors[0]
    assert second.asked == "From now on always use willow."
    assert [(note.type, note.origin) for note in session.notes] == [("preference", "user")]
    assert session.started == first.at
    assert session.ended == second.at


def test_memories_without_a_session_are_grouped_by_day(project: Path) -> None:
    """What was added by hand is one entry per day and project, documents are counted by file, and old memories are marked."""
    (project / "guide.md").write_text("# Guide\n\n## One\n\nFirst.\n\n## Two\n\nSecond.\n", "utf-8")
    with Lorelog(project=project) as memory:
        memory.index(["guide.md"])
        old = memory.add("The weir is closed.", type="fact").memory
        memory.supersede(old, "The weir is open.")
        (day,) = memory.timeline().sessions
        assert memory.timeline(until="2020-01-01").sessions == ()
    assert day.session == ""
    assert [(note.text, note.sections) for note in day.notes if not note.type] == [("Guide", 2)]
    assert {note.text: note.superseded for note in day.notes if note.type} == {
        "The weir is closed.": True,
        "The weir is open.": False,
    }


def test_a_running_session_is_listed_by_what_it_was_shown(project: Path, home: Path) -> None:
    """A session whose turns are not captured yet is listed once it was shown a memory; another can be left out by its id."""
    with Lorelog(project=project) as memory:
        memory.add("The weir is closed.")
        folder = str(Path(tenant_folder(str(home), "default")) / "deliveries")
        shown = {
            "project": str(project.resolve()),
            "moment": "prompt",
            "kind": "recall",
            "memories": ["x"],
            "tokens": 30,
        }
        append_delivery(folder, "codex", "c-1", shown)
        append_delivery(folder, "codex", "c-1", {**shown, "tokens": 12})
        (session,) = (each for each in memory.timeline().sessions if each.session)
        assert (session.host, session.deliveries, session.tokens, session.turns) == ("codex", 2, 42, [])
        assert [each.session for each in memory.timeline(session="c-1").sessions] == ["c-1"]
        assert memory.timeline(session="c-2").sessions == ()


def test_other_projects_are_listed_only_if_asked_for(project: Path, tmp_path: Path) -> None:
    """A memory of another project is not in this one's timeline, but in that of all projects; `more` tells that some are left out."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Lorelog(project=elsewhere) as other:
        other.add("A stork was seen.")
    with Lorelog(project=project) as memory:
        memory.add("A heron was seen.")
        assert [note.text for each in memory.timeline().sessions for note in each.notes] == ["A heron was seen."]
        assert len(memory.timeline(all_projects=True).sessions) == 2
        assert memory.timeline(all_projects=True, limit=1).more
