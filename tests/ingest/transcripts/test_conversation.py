"""Metadata of conversations, and reading from a given turn."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from tests.ingest.transcripts.conversations import (
    claude_turn,
    codex,
    codex_message,
    openclaw_database,
    openclaw_talk,
    opencode_database,
    opencode_message,
    text_part,
    write_lines,
)

from lorelog.ingest.transcripts.conversation import ConversationHead, open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turns import TranscriptStats

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


def test_a_long_conversation_is_read_on_from_a_turn(tmp_path: Path) -> None:
    """Reading starts at the named turn; for an unknown one it starts at the beginning."""
    lines = [line for number in range(5) for line in claude_turn(f"turn-{number}", f"ask {number}", "done")]
    conversation = open_conversation(str(write_lines(tmp_path / "a.jsonl", lines)))

    assert [parsed.turn.user for parsed in conversation.turns_since("turn-3", TranscriptStats())] == ["ask 3", "ask 4"]
    assert len(list(conversation.turns_since("unknown", TranscriptStats()))) == 5
