"""What a conversation tells of itself before anything is said."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from tests.ingest.conversations import (
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

from lorelog.ingest.transcripts.building import Tally
from lorelog.ingest.transcripts.detect import open_conversation
from lorelog.ingest.transcripts.heads import Head, read_head

MADE = datetime(2026, 3, 5, 14, 0, tzinfo=UTC).timestamp()


def head(path: Path, session: str = "") -> Head:
    return read_head(open_conversation(str(path), session))


def test_claude_tells_where_and_on_which_branch(tmp_path: Path) -> None:
    """Not since when: a fork repeats its parent's times. A file of a subagent is known as one."""
    lines = claude_turn("u", "hi", "hello", cwd="/app", gitBranch="main")
    assert head(write_lines(tmp_path / "a.jsonl", lines)) == Head("session-1", "/app", None, "", "main")

    side = claude_turn("u", "hi", "hello", cwd="/app", isSidechain=True)
    assert head(write_lines(tmp_path / "b.jsonl", side)).side
    detached = claude_turn("u", "hi", "hello", cwd="/app", gitBranch="HEAD")
    assert head(write_lines(tmp_path / "c.jsonl", detached)).branch == ""


def test_codex_tells_what_it_was_forked_from(tmp_path: Path) -> None:
    """Its first line has all of it."""
    meta = {
        "id": "s",
        "cwd": "/app",
        "timestamp": "2026-03-05T14:00:00Z",
        "forked_from_id": "p",
        "git": {"branch": "b"},
    }
    said = codex("response_item", codex_message("user", "hi", "t"))
    assert head(write_lines(tmp_path / "a.jsonl", [codex("session_meta", meta), said])) == Head(
        "s", "/app", MADE, "p", "b"
    )

    meta["source"] = {"subagent": "review"}
    assert head(write_lines(tmp_path / "b.jsonl", [codex("session_meta", meta), said])).side


def test_opencode_tells_it_in_its_database_and_exports(tmp_path: Path) -> None:
    """A session with a parent is a subagent's."""
    talk = [opencode_message("m1", "user", [text_part("hi")])]
    path = opencode_database(tmp_path / "o.db", {"s": talk, "c": talk[:0]}, {"c": "s"})
    assert head(path, "s") == Head("s")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE session ADD COLUMN directory TEXT")
        database.execute("ALTER TABLE session ADD COLUMN time_created INTEGER")
        database.execute("UPDATE session SET directory = '/app', time_created = ?", (MADE * 1000,))
    assert head(path, "s") == Head("s", "/app", MADE)
    assert head(path, "c").side

    info = {"id": "s", "directory": "/app", "time": {"created": MADE * 1000}}
    (tmp_path / "e.json").write_text(json.dumps({"info": info, "messages": talk}))
    assert head(tmp_path / "e.json") == Head("s", "/app", MADE)


def test_openclaw_tells_it_in_its_first_record(tmp_path: Path) -> None:
    """As a line or as a row."""
    first = {"type": "session", "version": 4, "id": "s", "timestamp": "2026-03-05T14:00:00Z", "cwd": "/app"}
    talk = [first, *openclaw_talk()[1:]]
    assert head(write_lines(tmp_path / "a.jsonl", talk)) == Head("s", "/app", MADE)
    assert head(openclaw_database(tmp_path / "o.sqlite", {"s": talk}), "s") == Head("s", "/app", MADE)


def test_a_long_conversation_is_read_on_from_a_turn(tmp_path: Path) -> None:
    """What is before the turn that is named is not looked at; one that is not in the file is looked for from the beginning."""
    lines = [one for number in range(5) for one in claude_turn(f"turn-{number}", f"ask {number}", "done")]
    conversation = open_conversation(str(write_lines(tmp_path / "a.jsonl", lines)))

    assert [one.turn.user for one in conversation.turns_since("turn-3", Tally())] == ["ask 3", "ask 4"]
    assert len(list(conversation.turns_since("unknown", Tally()))) == 5
