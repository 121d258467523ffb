"""Lines of Kimi Code and of Pi, and the database of Kilo Code."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.ingest.transcripts import conversations

from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head


def event(kind: str, second: int, **fields: Any) -> dict[str, Any]:
    inner = {"type": kind, **fields}
    return {"type": "context.append_loop_event", "agentId": "main", "event": inner, "time": 1_795_099_000_000 + second}


def prompt(name: str, text: str, origin: str = "user") -> dict[str, Any]:
    said = [{"type": "text", "text": text}]
    return {"type": "turn.prompt", "agentId": "main", "input": said, "origin": {"kind": origin}, "promptId": name, "time": 1_795_099_000_000}  # fmt: skip


def test_kimi_lines(tmp_path: Path) -> None:
    """A turn has the prompt of a person, the answer's text, and its calls with their results; thoughts are left out."""
    folder = tmp_path / "sessions" / "wd_app_1" / "session_1"
    lines: list[dict[str, Any]] = [
        {"type": "metadata", "protocol_version": "1.5", "created_at": 1},
        {"type": "profile.bind", "agentId": "main", "systemPrompt": "You are Kimi."},
        prompt("m1", "Run the checks"),
        event("content.part", 1, part={"type": "think", "think": "hm"}),
        event("tool.call", 2, toolCallId="t1", name="Bash", args={"command": "make check"}),
        event("tool.result", 3, toolCallId="t1", result={"output": "1 failed", "isError": True}),
        event("content.part", 4, part={"type": "text", "text": "One fails."}),
        {"type": "turn.ended", "agentId": "main", "reason": "completed", "time": 1_795_099_000_005},
        prompt("x", "a reminder", "system_trigger"),
        prompt("m2", "Stop"),
        {"type": "turn.ended", "agentId": "main", "reason": "cancelled", "time": 1_795_099_000_006},
    ]
    path = folder / "agents" / "main" / "wire.jsonl"
    path.parent.mkdir(parents=True)
    conversations.write_lines(path, lines)
    (folder / "state.json").write_text(json.dumps({"id": "session_1", "cwd": "/src/app"}))

    turns, _ = conversations.read(path)
    head = read_conversation_head(open_conversation(str(path)))

    assert conversations.exchanges(turns) == [("Run the checks", "One fails."), ("Stop", "")]
    assert [(tool.name, tool.result, tool.failed) for tool in turns[0].tools] == [("Bash", "1 failed", True)]
    assert [turn.interrupted for turn in turns] == [False, True]
    assert (head.session, head.directory) == ("session_1", "/src/app")


def test_the_system_prompt_of_pi_is_not_a_turn(tmp_path: Path) -> None:
    """Pi writes its system prompt as a message, which begins no turn."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-19T14:31:01Z", "cwd": "/src/app"},
        {
            "type": "message",
            "id": "a",
            "message": {"role": "system", "content": "", "sections": {"preamble": "You are"}},
        },
        {"type": "message", "id": "b", "message": {"role": "user", "content": [{"type": "text", "text": "Go"}]}},
        {"type": "custom_message", "customType": "lorelog", "content": "memory", "id": "c"},
        {
            "type": "message",
            "id": "d",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Gone."}]},
        },
    ]

    turns, _ = conversations.read(conversations.write_lines(tmp_path / "s.jsonl", lines))

    assert conversations.exchanges(turns) == [("Go", "Gone.")]


def test_a_database_with_indexes_of_expressions_is_read(tmp_path: Path) -> None:
    """Indexes whose functions an untrusted schema may not call are left out, and the tables are read."""
    path = tmp_path / "kilo.db"
    conversations.opencode_database(
        path, {"s": [conversations.opencode_message("u", "user", [conversations.text_part("Go")])]}, {}
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE INDEX roles ON message (id, json_extract(data, '$.role'))")

    assert conversations.exchanges(conversations.read(path)[0]) == [("Go", "")]
