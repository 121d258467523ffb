"""Exports and databases of OpenCode."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import (
    Record,
    exchanges,
    names,
    opencode_database,
    opencode_message,
    read,
    text_part,
    tool_part,
)

from lorelog.core.errors import NotFound, SourceError
from lorelog.core.session import ToolCall
from lorelog.ingest.transcripts.conversation import open_conversation


def talk() -> list[Record]:
    return [
        opencode_message(
            "msg_1",
            "user",
            [
                text_part("Set it up with @docs"),
                text_part("Called the Read tool", synthetic=True),
                {"type": "file", "filename": "docs/"},
            ],
        ),
        opencode_message(
            "msg_2",
            "assistant",
            [
                {"type": "step-start"},
                {"type": "reasoning", "text": "hm"},
                tool_part("glob", {"pattern": "**/*", "path": "/p"}, "a.md"),
                tool_part("bash", {"command": "make"}, error="no rule"),
            ],
            parentID="msg_1",
        ),
        opencode_message("msg_3", "assistant", [text_part("Done.")], parentID="msg_1"),
        opencode_message("msg_4", "user", [text_part("Continue", synthetic=True)]),
        opencode_message("msg_5", "assistant", [text_part("Went on.")], parentID="msg_4"),
        opencode_message("msg_6", "user", [text_part("Stop")]),
        opencode_message("msg_7", "assistant", [], parentID="msg_6", error={"name": "MessageAbortedError"}),
    ]


EXPECTED = [("Set it up with @docs\n\n[file docs/]", "Done.\n\nWent on."), ("Stop", "")]


@pytest.mark.parametrize("indent", [None, 2])
def test_an_export(tmp_path: Path, indent: int | None) -> None:
    """An export is read message by message, on one line or on many."""
    path = tmp_path / "session.json"
    path.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": talk()}, indent=indent))

    turns, stats = read(path)

    assert exchanges(turns) == EXPECTED
    assert turns[0].tools == (ToolCall("glob", "**/*", "a.md"), ToolCall("bash", "make", "no rule", failed=True))
    assert [(turn.id, turn.interrupted) for turn in turns] == [("msg_1", False), ("msg_6", True)]
    assert turns[0].time == "2026-03-05T14:30:00Z"
    assert (stats.session, stats.broken) == ("ses_1", 0)
    assert names(path)[0] == {"msg_1", "msg_2", "msg_3", "msg_4", "msg_5"}


def test_an_export_that_is_cut_off(tmp_path: Path) -> None:
    """Messages before the cut of a truncated export are read, and the cut is counted."""
    path = tmp_path / "session.json"
    whole = json.dumps({"info": {"id": "ses_1"}, "messages": talk()})
    path.write_text(whole[: whole.index("msg_5")])

    turns, stats = read(path)

    assert exchanges(turns) == [(EXPECTED[0][0], "Done.")]
    assert stats.broken == 1


def test_a_database_reads_like_the_export(tmp_path: Path) -> None:
    """Messages and parts of a session are read in order: the newest main session, or the named one."""
    other = [opencode_message("msg_8", "user", [text_part("Elsewhere")])]
    child = [opencode_message("msg_9", "user", [text_part("Explore")])]
    path = opencode_database(
        tmp_path / "opencode.db", {"ses_0": other, "ses_1": talk(), "ses_2": child}, {"ses_2": "ses_1"}
    )

    newest = open_conversation(str(path))

    assert (newest.host, newest.format, newest.session) == ("opencode", "sqlite", "ses_1")
    assert "3 sessions" in newest.note
    assert exchanges(read(path)[0]) == EXPECTED
    assert exchanges(read(path, "ses_0")[0]) == [("Elsewhere", "")]
    assert exchanges(read(path, turn="msg_8")[0]) == [("Elsewhere", "")]
    assert [turn.sidechain for turn in read(path, "ses_2")[0]] == [True]
    assert [turn.sidechain for turn in read(path)[0]] == [False, False]


def test_the_second_generation(tmp_path: Path) -> None:
    """Messages stored as rows of `session_message` read the same."""
    path = tmp_path / "opencode.db"
    tool = {"type": "tool", "id": "c", "name": "bash", "state": {"status": "completed", "input": {"command": "ls"}}}
    tool["state"]["content"] = [{"type": "text", "text": "a.md"}]  # type: ignore[index]
    rows = [
        ("m1", "ses_1", "user", 1, {"text": "List", "time": {"created": 1_772_721_000_000}}),
        ("m2", "ses_1", "assistant", 2, {"content": [{"type": "text", "text": "One file."}, tool]}),
        ("m3", "ses_1", "model-switched", 3, {}),
    ]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE session (id TEXT, parent_id TEXT)")
        database.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
        database.execute(
            "CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT)"
        )
        for *row, data in rows:
            values = (*row, 0, json.dumps(data))
            database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", values)

    turns, stats = read(path)

    assert exchanges(turns) == [("List", "One file.")]
    assert turns[0].tools == (ToolCall("bash", "ls", "a.md"),)
    assert stats.skipped == 1


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    """Reading takes what the host has only written to the log, in use, closed or after a crash, and creates and changes no file."""
    path = opencode_database(tmp_path / "opencode.db", {"ses_1": talk()}, {})
    with closing(sqlite3.connect(path)) as host:
        host.execute("PRAGMA journal_mode = WAL")
        host.execute("INSERT INTO message VALUES ('msg_10', 'ses_1', 99, '{\"role\": \"user\"}')")
        host.execute("INSERT INTO part VALUES ('p', 'msg_10', 'ses_1', '{\"type\": \"text\", \"text\": \"Logged\"}')")
        host.commit()
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for name in ("opencode.db", "opencode.db-wal"):
            (crashed / name).write_bytes((tmp_path / name).read_bytes())
        assert exchanges(read(path)[0])[-1] == ("Logged", "")

    for folder in (tmp_path, crashed):
        before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(folder) if entry.is_file()}

        assert exchanges(read(folder / "opencode.db")[0])[-1] == ("Logged", "")
        assert {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(folder) if entry.is_file()} == before


def test_other_databases_are_refused(tmp_path: Path) -> None:
    """A database without conversations, an empty one and a damaged one are errors with the reason."""
    other, empty, damaged = tmp_path / "x.db", tmp_path / "y.db", tmp_path / "z.db"
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("CREATE TABLE logins (name TEXT)")
    opencode_database(empty, {}, {})
    damaged.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)

    with pytest.raises(SourceError, match="without a transcript in a known format"):
        open_conversation(str(other))
    with pytest.raises(NotFound, match="does not contain a conversation yet"):
        open_conversation(str(empty))
    with pytest.raises(SourceError, match="cannot be read as a database"):
        open_conversation(str(damaged))


def test_the_summary_of_a_compaction_is_not_an_answer(tmp_path: Path) -> None:
    """A compaction's summary is not part of a turn."""
    messages = [
        opencode_message("msg_1", "user", [text_part("One?")]),
        opencode_message("msg_2", "assistant", [text_part("1.")], parentID="msg_1"),
        opencode_message("msg_3", "user", [{"type": "compaction", "auto": False}]),
        opencode_message(
            "msg_4", "assistant", [text_part("So far.")], parentID="msg_3", summary=True, mode="compaction"
        ),
        opencode_message("msg_5", "user", [text_part("Two?")]),
        opencode_message("msg_6", "assistant", [text_part("2.")], parentID="msg_5"),
    ]
    path = opencode_database(tmp_path / "opencode.db", {"ses_1": messages}, {})

    turns, _ = read(path, "ses_1")

    assert exchanges(turns) == [("One?", "1."), ("Two?", "2.")]
