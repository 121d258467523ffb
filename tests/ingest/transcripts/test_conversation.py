"""Metadata of conversations, and transcripts that grow."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import (
    Record,
    claude,
    claude_turn,
    codex,
    codex_message,
    copilot_talk,
    gemini_talk,
    openclaw_database,
    openclaw_talk,
    opencode_database,
    opencode_message,
    qwen_talk,
    text_part,
    tool_result,
    tool_use,
    write_lines,
)

from lorelog.ingest.transcripts.conversation import (
    ConversationHead,
    TranscriptTail,
    open_conversation,
    read_conversation_head,
)
from lorelog.ingest.transcripts.json_files import read_records
from lorelog.ingest.transcripts.turns import TranscriptStats, number_turns, read_turns

MADE = datetime(2026, 3, 5, 14, 0, tzinfo=UTC).timestamp()


def head(path: Path, session: str = "") -> ConversationHead:
    return read_conversation_head(open_conversation(str(path), session))


def test_claude_tells_where_and_on_which_branch(tmp_path: Path) -> None:
    """Claude Code gives directory and branch but no start time; a subagent's file is recognised."""
    lines = claude_turn("u", "hi", "hello", cwd="/app", gitBranch="main")
    assert head(write_lines(tmp_path / "a.jsonl", lines)) == ConversationHead(
        session="session-1", directory="/app", branch="main"
    )

    side = claude_turn("u", "hi", "hello", cwd="/app", isSidechain=True)
    assert head(write_lines(tmp_path / "b.jsonl", side)).is_sidechain
    detached = claude_turn("u", "hi", "hello", cwd="/app", gitBranch="HEAD")
    assert head(write_lines(tmp_path / "c.jsonl", detached)).branch == ""


def test_codex_tells_what_it_was_forked_from(tmp_path: Path) -> None:
    """The first line of a rollout has all metadata, including the parent session."""
    meta = {
        "id": "s",
        "cwd": "/app",
        "timestamp": "2026-03-05T14:00:00Z",
        "forked_from_id": "p",
        "git": {"branch": "b"},
    }
    message = codex("response_item", codex_message("user", "hi", "t"))
    assert head(write_lines(tmp_path / "a.jsonl", [codex("session_meta", meta), message])) == ConversationHead(
        session="s", directory="/app", created=MADE, parent="p", branch="b"
    )

    meta["source"] = {"subagent": "review"}
    assert head(write_lines(tmp_path / "b.jsonl", [codex("session_meta", meta), message])).is_sidechain


def test_opencode_tells_it_in_its_database_and_exports(tmp_path: Path) -> None:
    """Databases and exports of OpenCode have the metadata; a session with a parent is a subagent's."""
    talk = [opencode_message("m1", "user", [text_part("hi")])]
    path = opencode_database(tmp_path / "o.db", {"s": talk, "c": talk[:0]}, {"c": "s"})
    assert head(path, "s") == ConversationHead(session="s")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE session ADD COLUMN directory TEXT")
        database.execute("ALTER TABLE session ADD COLUMN time_created INTEGER")
        database.execute("UPDATE session SET directory = '/app', time_created = ?", (MADE * 1000,))
    assert head(path, "s") == ConversationHead(session="s", directory="/app", created=MADE)
    assert head(path, "c").is_sidechain

    info = {"id": "s", "directory": "/app", "time": {"created": MADE * 1000}}
    (tmp_path / "e.json").write_text(json.dumps({"info": info, "messages": talk}))
    assert head(tmp_path / "e.json") == ConversationHead(session="s", directory="/app", created=MADE)


def test_openclaw_tells_it_in_its_first_record(tmp_path: Path) -> None:
    """The first record of OpenClaw has the metadata, as a line or as a row."""
    first = {"type": "session", "version": 4, "id": "s", "timestamp": "2026-03-05T14:00:00Z", "cwd": "/app"}
    talk = [first, *openclaw_talk()[1:]]
    assert head(write_lines(tmp_path / "a.jsonl", talk)) == ConversationHead(
        session="s", directory="/app", created=MADE
    )
    assert head(openclaw_database(tmp_path / "o.sqlite", {"s": talk}), "s") == ConversationHead(
        session="s", directory="/app", created=MADE
    )


def talks() -> dict[str, list[Record]]:
    """Conversations of all hosts whose transcripts are lines; turns of each depend on earlier lines."""
    return {
        "claude": [
            *claude_turn("u1", "Which plan?", "Shall I add the cache?"),
            *claude_turn("u2", "Yes, do that", "Done."),
            claude("assistant", "a8", [tool_use("t", "Bash", command="ls")]),
            *claude_turn("s1", "Look", "Found it", isSidechain=True, agentId="x"),
            claude("user", "r8", [tool_result("t", "out")]),
            *claude_turn("u1", "Which plan?", "Shall I add the cache?"),
            claude("user", "u4", "And now?"),
        ],
        "codex": [
            codex("session_meta", {"id": "t"}),
            codex("event_msg", {"type": "user_message", "message": "go on"}),
            codex("response_item", codex_message("user", "go on")),
            codex("event_msg", {"type": "exec_command_end", "call_id": "c", "command": ["ls"], "stdout": "out"}),
            codex("event_msg", {"type": "task_complete", "last_agent_message": "Went on"}),
            codex("response_item", codex_message("user", "go on")),
            codex("event_msg", {"type": "user_message", "message": "go on"}),
            codex("event_msg", {"type": "task_complete", "last_agent_message": "Went on again"}),
        ],
        "gemini": gemini_talk("/src/app"),
        "qwen": qwen_talk() * 2,
        "copilot": copilot_talk(),
        "openclaw": openclaw_talk() * 2,
    }


@pytest.mark.parametrize("host", list(talks()))
def test_a_transcript_that_grows_gives_the_turns_of_the_whole_file(tmp_path: Path, host: str) -> None:
    """Whatever was appended last, also half a line, the turns of the tail are those of the whole file."""
    path = tmp_path / "a.jsonl"
    data = write_lines(path, talks()[host]).read_bytes()
    tail = TranscriptTail(open_conversation(str(path)))
    path.write_bytes(b"")
    for end in range(0, len(data) + 40, 40):
        with path.open("ab") as file:
            file.write(data[end - 40 : end] if end else b"")
        whole = read_turns(tail.conversation.new_reader(TranscriptStats()), read_records(str(path), TranscriptStats()))  # type: ignore[misc]

        assert tail.read_on()
        assert tail.turns() == ([turn for turn in number_turns(whole) if not turn.turn.sidechain], 0)
    assert len(tail.turns()[0]) >= 2


def test_a_transcript_that_was_rewritten_is_noticed(tmp_path: Path) -> None:
    """A file that was cut off, changed at its end or replaced is not read on."""
    path = tmp_path / "a.jsonl"
    data = write_lines(path, talks()["claude"]).read_bytes()
    for change in (data[:-20], data[:-4] + b"?" + data[-3:] + data):
        path.write_bytes(data)
        tail = TranscriptTail(open_conversation(str(path)))
        assert tail.read_on()
        assert tail.read_on()
        path.write_bytes(change)
        assert not tail.read_on()
    path.write_bytes(data)
    tail = TranscriptTail(open_conversation(str(path)))
    assert tail.read_on()
    (tmp_path / "b").write_bytes(data + data)
    (tmp_path / "b").replace(path)
    assert not tail.read_on()


def test_released_turns_are_dropped_but_the_last(tmp_path: Path) -> None:
    """A tail keeps the last released turns and all others, and knows the names of those that it dropped."""
    lines = [line for number in range(60) for line in claude_turn(f"turn-{number}", f"ask {number}", "done")]
    tail = TranscriptTail(open_conversation(str(write_lines(tmp_path / "a.jsonl", lines))))
    assert tail.read_on()

    tail.release(tail.turns()[0][:50])

    turns, dropped = tail.turns()
    assert (len(turns), dropped) == (33, 27)
    assert tail.has_dropped("turn-26")
    assert not tail.has_dropped("turn-27")
