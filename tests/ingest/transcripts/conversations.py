"""Small made-up conversations in the formats of the hosts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lorelog.core.session import TranscriptTurn
from lorelog.ingest.transcripts.conversation import open_conversation
from lorelog.ingest.transcripts.turns import TranscriptStats

Record = dict[str, Any]


def read(path: Path, session: str = "", turn: str = "") -> tuple[list[TranscriptTurn], TranscriptStats]:
    """Return all turns of a conversation, and its statistics."""
    stats = TranscriptStats()
    turns = [parsed.turn for parsed in open_conversation(str(path), session, turn).turns(stats)]
    return turns, stats


def names(path: Path) -> list[frozenset[str]]:
    """Return the aliases of each turn."""
    return [parsed.aliases for parsed in open_conversation(str(path)).turns(TranscriptStats())]


def exchanges(turns: Iterable[TranscriptTurn]) -> list[tuple[str, str]]:
    """Return request and answer of each turn."""
    return [(turn.user, turn.assistant) for turn in turns]


def write_lines(path: Path, records: Iterable[Mapping[str, Any] | str]) -> Path:
    """Write one record per line; texts are written unchanged."""
    rows = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    return path


def stored_as_zstd(data: bytes) -> bytes:
    """Return a Zstandard frame with one raw block, which needs no package to make."""
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd" + b"\xa0" + len(data).to_bytes(4, "little") + block + data


# -- Claude Code ---------------------------------------------------------------------------------------------------------


def claude(kind: str, uuid: str, content: object, **more: object) -> Record:
    """A message line of Claude Code."""
    message: Record = {"role": kind, "content": content}
    if kind == "assistant":
        message["id"] = more.pop("message_id", f"msg_{uuid}")
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "session-1",
        "isSidechain": False,
        "timestamp": "2026-03-05T14:30:00.123Z",
        "message": message,
    } | more


def claude_turn(uuid: str, request: str, answer: str, **more: object) -> list[Record]:
    """A request and its answer."""
    return [
        claude("user", uuid, request, **more),
        claude("assistant", f"{uuid}-a", [{"type": "text", "text": answer}], **more),
    ]


def tool_use(identity: str, name: str, **given: object) -> Record:
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def tool_result(identity: str, content: object, *, is_error: bool = False) -> Record:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, "is_error": is_error}


# -- Codex ---------------------------------------------------------------------------------------------------------------


def codex(kind: str, payload: Mapping[str, Any], time: str = "2026-03-05T14:30:00Z") -> Record:
    return {"timestamp": time, "type": kind, "payload": dict(payload)}


def codex_message(role: str, text: str, turn: str = "", kinds: Sequence[str] = ()) -> Record:
    message: Record = {
        "type": "message",
        "role": role,
        "content": [{"type": "input_text" if role == "user" else "output_text", "text": text}],
    }
    if turn or kinds:
        message["internal_chat_message_metadata_passthrough"] = {"turn_id": turn, "content_item_kinds": list(kinds)}
    return message


# -- OpenCode ------------------------------------------------------------------------------------------------------------


def opencode_message(identity: str, role: str, parts: Sequence[Record], **more: object) -> Record:
    """A message and its parts, nested as in an export."""
    info = {"id": identity, "role": role, "time": {"created": 1_772_721_000_000}} | more
    return {"info": info, "parts": [dict(part) for part in parts]}


def text_part(text: str, **more: object) -> Record:
    return {"type": "text", "text": text} | more


def tool_part(name: str, given: Record, output: str = "", error: str = "") -> Record:
    state: Record = {"status": "error" if error else "completed", "input": given}
    state |= {"error": error} if error else {"output": output}
    return {"type": "tool", "tool": name, "callID": f"call-{name}", "state": state}


def opencode_database(path: Path, sessions: Mapping[str, Sequence[Record]], parents: Mapping[str, str]) -> Path:
    """Write sessions in the 1.x format of the database."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, title TEXT)")
        database.execute("CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)")
        database.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT)")
        database.execute("CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, data TEXT)")
        clock = 0
        for session, messages in sessions.items():
            database.execute("INSERT INTO session VALUES (?, ?, '')", (session, parents.get(session)))
            for message in messages:
                clock += 1
                info = {key: value for key, value in message["info"].items() if key != "id"}
                row = (message["info"]["id"], session, clock, json.dumps(info))
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                for number, part in enumerate(message["parts"]):
                    row_of_part = (f"prt_{clock:04}_{number:04}", row[0], session, json.dumps(part))
                    database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row_of_part)
    return path


# -- OpenClaw ------------------------------------------------------------------------------------------------------------


def openclaw(identity: str, role: str, content: object, **more: object) -> Record:
    return {
        "type": "message",
        "id": identity,
        "parentId": None,
        "timestamp": "2026-03-05T14:30:00.000Z",
        "message": {"role": role, "content": content} | more,
    }


def openclaw_talk() -> list[Record]:
    """Two turns, the first with a tool call."""
    call = {"type": "toolCall", "id": "call-1", "name": "exec", "arguments": {"command": "uptime"}}
    return [
        {"type": "session", "version": 3, "id": "claw-1", "timestamp": "2026-03-05T14:29:00.000Z"},
        {"type": "model_change", "id": "m0", "modelId": "fake"},
        openclaw("u1", "user", "How long is it up?"),
        openclaw("a1", "assistant", [{"type": "thinking", "thinking": "hm"}, call]),
        openclaw("r1", "toolResult", [{"type": "text", "text": "up 3 days"}], toolCallId="call-1", toolName="exec"),
        openclaw("a2", "assistant", [{"type": "text", "text": "Three days."}]),
        openclaw("u2", "user", [{"type": "text", "text": "Thanks"}]),
        openclaw("a3", "assistant", "You are welcome."),
    ]


def openclaw_database(path: Path, sessions: Mapping[str, Sequence[Record]]) -> Path:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE transcript_events"
            " (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB, PRIMARY KEY (session_id, seq))"
        )
        for session, records in sessions.items():
            for number, record in enumerate(records):
                row = (session, number, json.dumps(record))
                database.execute("INSERT INTO transcript_events VALUES (?, ?, ?, NULL)", row)
    return path
