"""Lines and rows of OpenClaw."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import (
    Record,
    exchanges,
    names,
    openclaw,
    openclaw_database,
    openclaw_talk,
    read,
    stored_as_zstd,
    write_lines,
)

from lorelog.core.session import ToolCall
from lorelog.ingest.transcripts import openclaw as openclaw_reader
from lorelog.ingest.transcripts.conversation import open_conversation

EXPECTED = [("How long is it up?", "Three days."), ("Thanks", "You are welcome.")]


def test_lines(tmp_path: Path) -> None:
    """Messages become turns, results are assigned to their calls, and other records are skipped."""
    path = write_lines(tmp_path / "claw-1.jsonl", openclaw_talk())

    turns, stats = read(path)

    assert open_conversation(str(path)).host == "openclaw"
    assert exchanges(turns) == EXPECTED
    assert turns[0].tools == (ToolCall("exec", "uptime", "up 3 days"),)
    assert (stats.session, stats.skipped) == ("claw-1", 2)
    assert names(path) == [{"u1", "a1", "r1", "a2"}, {"u2", "a3"}]


def test_results_inside_the_assistants_message(tmp_path: Path) -> None:
    """A result that stands in the message of its call belongs to the call that it names, or else to the last one before it."""
    content = [
        {"type": "toolCall", "id": "c1", "name": "exec", "input": {"command": "uptime"}},
        {"type": "toolCall", "name": "exec", "input": {"command": "make lint"}},
        {"type": "toolResult", "text": "clean"},
        {"type": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "up 3 days"}]},
    ]
    talk = [openclaw("u1", "user", "Check it"), openclaw("a1", "assistant", content)]

    (turn,), _ = read(write_lines(tmp_path / "claw-1.jsonl", talk))

    assert turn.tools == (ToolCall("exec", "uptime", "up 3 days"), ToolCall("exec", "make lint", "clean"))


def test_rows(tmp_path: Path) -> None:
    """The database has the same records by session; a broken row is skipped."""
    path = openclaw_database(
        tmp_path / "openclaw-agent.sqlite", {"claw-1": openclaw_talk(), "claw-2": [openclaw("u", "user", "Later")]}
    )
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO transcript_events VALUES ('claw-1', 90, '{\"type\": \"mess', NULL)")

    turns, stats = read(path, "claw-1")

    assert exchanges(turns) == EXPECTED
    assert (stats.broken, stats.notes) == (1, {})
    assert exchanges(read(path, "claw-2")[0]) == [("Later", "")]
    assert open_conversation(str(path)).format == "sqlite"


@pytest.mark.parametrize("how", [{"stopReason": "aborted"}, {"stopReason": "stop", "openclawAbort": {"aborted": True}}])
def test_a_turn_that_was_stopped_says_so(tmp_path: Path, how: Record) -> None:
    """An aborted turn is marked, whether the agent or the gateway wrote it."""
    talk = [*openclaw_talk(), openclaw("u3", "user", "Go on"), openclaw("a4", "assistant", "I begin and", **how)]

    turns, _ = read(write_lines(tmp_path / "claw-1.jsonl", talk))

    assert [turn.interrupted for turn in turns] == [False, False, True]


def test_long_messages_are_unpacked(tmp_path: Path) -> None:
    """A compressed message is read, and a damaged one is noted."""
    path = openclaw_database(tmp_path / "openclaw-agent.sqlite", {"claw-1": openclaw_talk()})
    packed = stored_as_zstd(json.dumps(openclaw("u9", "user", "Long")).encode())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO transcript_events VALUES ('claw-1', 90, NULL, ?)", (packed,))
        database.execute("INSERT INTO transcript_events VALUES ('claw-1', 91, NULL, x'00')")

    turns, stats = read(path)

    assert exchanges(turns) == [*EXPECTED, ("Long", "")]
    assert stats.notes == {openclaw_reader.COMPRESSED_NOTE: 1}


def test_a_session_in_which_nothing_was_said_is_known(tmp_path: Path) -> None:
    """A session with only its first line is recognised."""
    path = write_lines(tmp_path / "claw-1.jsonl", openclaw_talk()[:2])

    assert read(path)[0] == []
