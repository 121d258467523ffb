"""Small made-up conversations in the formats of the hosts."""

from __future__ import annotations

import hashlib
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
    return [parsed.aliases for parsed in open_conversation(str(path)).turns(TranscriptStats())]


def exchanges(turns: Iterable[TranscriptTurn]) -> list[tuple[str, str]]:
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


AT = "2026-11-16T19:00:0{}.000Z"
SHOWN = "<hook_context>&lt;lorelog-memory&gt; the harbour opens at nine</hook_context>"
COMMAND = {"command": "make check"}


def digest(directory: str) -> str:
    return hashlib.sha256(directory.encode()).hexdigest()


def gemini_message(name: str, kind: str, content: Any, second: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": AT.format(second), "type": kind, "content": content, **more}


def gemini_talk(directory: str) -> list[dict[str, Any]]:
    context = gemini_message("c0", "user", [{"text": "<session_context>\nThis is a terminal.\n</session_context>"}], 0)
    asked = gemini_message("u1", "user", [{"text": f"{SHOWN}\n\nRun the checks"}, {"text": SHOWN}], 1)
    answer = gemini_message("g1", "gemini", "I run them.", 2)
    output = f"<untrusted_context>\nOutput: 3 passed\nExit Code: 0\n</untrusted_context>\n\n{SHOWN}"
    done = {"functionResponse": {"id": "t1", "name": "run_shell_command", "response": {"output": output}}}
    call = {"id": "t1", "name": "run_shell_command", "args": COMMAND, "status": "success", "result": [done]}
    last = gemini_message("g2", "gemini", "They pass.", 4)
    session = {"sessionId": "s-1", "projectHash": digest(directory), "startTime": AT.format(0), "kind": "main"}
    return [
        session,
        {"$set": {"messages": [context]}},
        asked,
        {"$set": {"lastUpdated": AT.format(1)}},
        answer,
        {**answer, "toolCalls": [call]},
        gemini_message("r1", "user", [done], 3),
        last,
        session,
        {"$set": {"messages": [context, {**answer, "content": [{"text": "I run them."}]}, {**last}]}},
        gemini_message("u2", "user", [{"text": "Thanks"}], 5),
        gemini_message("e1", "error", "quota exceeded", 6),
    ]


def qwen_line(name: str, kind: str, parts: list[dict[str, Any]], second: int, **more: Any) -> dict[str, Any]:
    place = {"sessionId": "s-2", "cwd": "/src/app", "gitBranch": "main", "version": "0.24.4"}
    message = {"role": "model" if kind == "assistant" else "user", "parts": parts}
    return {"uuid": name, "parentUuid": None, "timestamp": AT.format(second), "type": kind, **place} | {
        "message": message,
        **more,
    }


def qwen_talk() -> list[dict[str, Any]]:
    injected = {"text": "<qwen:user-prompt-submit-context>\nthe harbour\n</qwen:user-prompt-submit-context>"}
    system = {"uuid": "x", "sessionId": "s-2", "parentUuid": "u1", "type": "system", "subtype": "ui_telemetry"}
    call = {"functionCall": {"id": "t1", "name": "run_shell_command", "args": COMMAND}}
    output = "Command: make check\nDirectory: (root)\nOutput: 1 failed\nError: (none)\nExit Code: 2\nSignal: (none)"
    result = {"functionResponse": {"id": "t1", "name": "run_shell_command", "response": {"error": output}}}
    return [
        qwen_line("u1", "user", [{"text": "Run the checks"}, injected], 1, provenance="real_user"),
        *[{**system, "systemPayload": {"uiEvent": {}}}] * 6,
        qwen_line("a1", "assistant", [{"text": "hm", "thought": True}, call], 2),
        qwen_line("r1", "tool_result", [result], 3, toolCallResult={"callId": "t1", "status": "error"}),
        qwen_line("a2", "assistant", [{"text": "One fails."}], 4),
    ]


def copilot_event(name: str, kind: str, data: dict[str, Any], second: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": name, "timestamp": AT.format(second), "parentId": None, **more}


def copilot_talk() -> list[dict[str, Any]]:
    context = {"cwd": "/src/app", "branch": "main"}
    call = {"toolCallId": "t1", "name": "bash", "arguments": COMMAND}
    shown = '1 failed\n\nTool "bash" succeeded. Additional guidance from postToolUse hooks:\nthe harbour'
    done = {"toolCallId": "t1", "success": True, "result": {"content": shown}, "shellExecution": {"exitCode": 2}}
    return [
        copilot_event("e0", "session.start", {"sessionId": "s-3", "context": context}, 0),
        copilot_event("e1", "hook.start", {"hookType": "sessionStart", "input": {}}, 0),
        copilot_event("u1", "user.message", {"content": "Run the checks", "messageId": "m1"}, 1),
        copilot_event("u2", "user.message", {"content": "a skill's text", "source": "skill-recall"}, 1),
        copilot_event("a1", "assistant.message", {"content": "", "toolRequests": [call]}, 2),
        copilot_event("a2", "assistant.message", {"content": "a subagent's"}, 2, agentId="x"),
        copilot_event("r1", "tool.execution_complete", done, 3),
        copilot_event("a3", "assistant.message", {"content": "One fails."}, 4),
        copilot_event("u3", "user.message", {"content": "Stop it"}, 5),
        copilot_event("x1", "abort", {"reason": "user_initiated"}, 6),
    ]
