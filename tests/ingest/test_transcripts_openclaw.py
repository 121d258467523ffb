"""OpenClaw's lines and rows, and DSH's events."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.ingest.conversations import (
    Record,
    names,
    openclaw,
    openclaw_database,
    openclaw_talk,
    read,
    said,
    stored_as_zstd,
    write_lines,
)

from lorelog.core.transcript import ToolCall
from lorelog.ingest.transcripts import openclaw as openclaw_reader
from lorelog.ingest.transcripts.detect import open_conversation
from lorelog.ingest.transcripts.lines import unpack

EXPECTED = [("How long is it up?", "Three days."), ("Thanks", "You are welcome.")]


def test_lines(tmp_path: Path) -> None:
    """Messages become turns, results go to their calls, and other records are passed over."""
    path = write_lines(tmp_path / "claw-1.jsonl", openclaw_talk())

    turns, tally = read(path)

    assert open_conversation(str(path)).host == "openclaw"
    assert said(turns) == EXPECTED
    assert turns[0].tools == (ToolCall("exec", "uptime", "up 3 days"),)
    assert (tally.session, tally.skipped) == ("claw-1", 2)
    assert names(path) == [{"u1", "a1", "r1", "a2"}, {"u2", "a3"}]


def test_rows(tmp_path: Path) -> None:
    """The database holds the same records, by session; a broken row is passed over."""
    path = openclaw_database(
        tmp_path / "openclaw-agent.sqlite", {"claw-1": openclaw_talk(), "claw-2": [openclaw("u", "user", "Later")]}
    )
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO transcript_events VALUES ('claw-1', 90, '{\"type\": \"mess', NULL)")

    turns, tally = read(path, "claw-1")

    assert said(turns) == EXPECTED
    assert (tally.broken, tally.notes) == (1, {})
    assert said(read(path, "claw-2")[0]) == [("Later", "")]
    assert open_conversation(str(path)).format == "sqlite"


@pytest.mark.parametrize("how", [{"stopReason": "aborted"}, {"stopReason": "stop", "openclawAbort": {"aborted": True}}])
def test_a_turn_that_was_stopped_says_so(tmp_path: Path, how: Record) -> None:
    """An agent's run writes how it ended; for one in the terminal program the gateway writes what had been said."""
    talk = [*openclaw_talk(), openclaw("u3", "user", "Go on"), openclaw("a4", "assistant", "I begin and", **how)]

    turns, _ = read(write_lines(tmp_path / "claw-1.jsonl", talk))

    assert [turn.interrupted for turn in turns] == [False, False, True]


def test_long_messages_are_unpacked_or_missed(tmp_path: Path) -> None:
    """Newer versions compress a long message; where nothing here can unpack it, a note says what to install."""
    path = openclaw_database(tmp_path / "openclaw-agent.sqlite", {"claw-1": openclaw_talk()})
    packed = stored_as_zstd(json.dumps(openclaw("u9", "user", "Long")).encode())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO transcript_events VALUES ('claw-1', 90, NULL, ?)", (packed,))
        database.execute("INSERT INTO transcript_events VALUES ('claw-1', 91, NULL, x'00')")

    turns, tally = read(path)

    is_unpacked = unpack(packed, 1000) is not None
    assert said(turns) == EXPECTED + [("Long", "")] * is_unpacked
    assert tally.notes == {openclaw_reader.PACKED: 2 - is_unpacked}


def test_a_session_in_which_nothing_was_said_is_known(tmp_path: Path) -> None:
    """The first line alone is enough to know what it is."""
    path = write_lines(tmp_path / "claw-1.jsonl", openclaw_talk()[:2])

    assert read(path)[0] == []


def test_dsh_events(tmp_path: Path) -> None:
    """Turns have numbers; what plugins put in and streamed pieces are left aside."""

    def event(kind: str, **data: object) -> Record:
        return {"type": kind, "seq": 1, "time": 1_772_721_000_000, "data": data}

    def user(text: str, kind: str = "user") -> Record:
        return event("user/message", id="u", content=[{"type": "text", "text": text}], source={"kind": kind})

    def assistant(turn: int, text: str) -> Record:
        return event("assistant/message", turn=turn, message={"id": "a", "content": [{"type": "text", "text": text}]})

    path = write_lines(
        tmp_path / "session.jsonl",
        [
            {"type": "session", "version": 3, "id": "dsh-1", "createdAt": 1, "cwd": "/p"},
            event("turn/start", turn=1),
            user("[memory] attached", "plugin"),
            user("Which port?"),
            {"type": "text-chunks", "seq0": 3, "data": {"turn": 1, "texts": ["80", "80"]}},
            event("tool/call", turn=1, callId="c", name="bash", arguments='{"command": "ss -l"}'),
            event("tool/result", turn=1, callId="c", content=[{"type": "text", "text": ":8080"}]),
            assistant(1, "8080"),
            event("turn/end", turn=1, reason={"kind": "completed"}),
            event("turn/start", turn=2),
            user("And TLS?"),
            assistant(2, "8443"),
        ],
    )

    turns, tally = read(path)

    assert open_conversation(str(path)).host == "dsh"
    assert [turn.id for turn in turns] == ["1", "2"]
    assert said(turns) == [("Which port?", "8080"), ("And TLS?", "8443")]
    assert turns[0].tools == (ToolCall("bash", "ss -l", ":8080"),)
    assert (turns[0].time, tally.session) == ("2026-03-05T14:30:00Z", "dsh-1")
