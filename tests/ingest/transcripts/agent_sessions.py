"""A small made-up session of each agent that no host adapter covers, where the agent would keep it.

Each has two requests in `PROJECT`: the first is answered after a command that failed, as far as the agent records commands, the second is a rule.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.ingest.transcripts.conversations import stored_as_zstd, write_lines

FIRST, ANSWER = "Why does the build fail?", "The lock file is stale."
SECOND, AGREED = "From now on use uv, never pip.", "Understood."
COMMAND, OUTPUT = "make build", "error: lock file is stale"
AT_S = 1_772_700_000
"""2026-03-05T08:40:00Z."""
EDITOR = ".config/Code/User"
SESSION = "5e12d300-1f90-4409-b098-1f5da9ca345d"


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return path


def make_database(path: Path, schema: str, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(schema)
        for table, values in rows.items():
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    return path


def told(call: object, result: object) -> list[tuple[str, list[Any]]]:
    """Return roles and contents of both requests, as most agents store them."""
    return [
        ("user", [{"type": "text", "text": FIRST}]),
        ("assistant", [{"type": "thinking", "thinking": "hm"}, call]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": ANSWER}]),
        ("user", [{"type": "text", "text": SECOND}]),
        ("assistant", [{"type": "text", "text": AGREED}]),
    ]


def cline_task(path: Path, *more: Mapping[str, Any]) -> Path:
    said = [
        ("say", "task", FIRST),
        ("say", "api_req_started", "{}"),
        ("ask", "command", COMMAND),
        ("ask", "command_output", "building"),
        ("ask", "command_output", OUTPUT),
        ("say", "completion_result", ANSWER),
        ("ask", "completion_result", ""),
        ("say", "user_feedback", SECOND),
        ("say", "text", AGREED),
    ]
    messages = [
        {"ts": AT_S * 1000 + number, "type": kind, kind: what, "text": text}
        for number, (kind, what, text) in enumerate(said)
    ]
    return write_json(path, [*messages, *more])


def _cline(home: Path, project: Path) -> Path:
    folder = home / EDITOR / "globalStorage" / "saoudrizwan.claude-dev"
    write_json(folder / "state" / "taskHistory.json", [{"id": "1772", "cwdOnTaskInitialization": str(project)}])
    return cline_task(folder / "tasks" / "1772" / "ui_messages.json")


def _roo(home: Path, project: Path) -> Path:
    folder = home / EDITOR / "globalStorage" / "rooveterinaryinc.roo-cline" / "tasks" / "1772"
    write_json(folder / "history_item.json", {"id": "1772", "workspace": str(project)})
    return cline_task(folder / "ui_messages.json")


def _kilo(home: Path, project: Path) -> Path:
    folder = home / EDITOR / "globalStorage" / "kilocode.kilo-code" / "tasks" / "1772"
    told = f"<environment_details>\n# Current Workspace Directory ({project}) Files\n"
    write_json(
        folder / "api_conversation_history.json", [{"role": "user", "content": [{"type": "text", "text": told}]}]
    )
    return cline_task(folder / "ui_messages.json")


def workspace(home: Path, project: Path, editor: str = EDITOR) -> Path:
    folder = home / editor / "workspaceStorage" / "abc"
    write_json(folder / "workspace.json", {"folder": project.as_uri()})
    return folder


def copilot_requests() -> list[dict[str, Any]]:
    answer = [{"kind": "thinking", "value": "hm"}, {"value": "The lock "}, {"kind": "inlineReference", "name": "file"}]
    call = {"id": "c1", "name": "run_in_terminal", "arguments": json.dumps({"command": COMMAND})}
    results = {"c1": {"content": [{"value": f"{OUTPUT}\nexit code: 1"}]}}
    result = {"metadata": {"toolCallRounds": [{"toolCalls": [call]}], "toolCallResults": results}}
    first = {"requestId": "r1", "timestamp": AT_S * 1000, "message": {"text": FIRST}, "result": result}
    second = {"requestId": "r2", "timestamp": AT_S * 1000, "message": {"text": SECOND}, "response": [{"value": AGREED}]}
    return [{**first, "response": [*answer, {"value": " is stale."}]}, second]


def _copilot_chat(home: Path, project: Path) -> Path:
    path = workspace(home, project) / "chatSessions" / f"{SESSION}.json"
    return write_json(path, {"version": 3, "responderUsername": "GitHub Copilot", "requests": copilot_requests()})


def cursor_database(path: Path, composer: Mapping[str, Any], bubbles: Sequence[Mapping[str, Any]]) -> Path:
    rows = [(f"composerData:{SESSION}", json.dumps(composer).encode())]
    rows += [(f"bubbleId:{SESSION}:{bubble['bubbleId']}", json.dumps(bubble).encode()) for bubble in bubbles]
    schema = "CREATE TABLE ItemTable (key TEXT, value BLOB); CREATE TABLE cursorDiskKV (key TEXT, value BLOB)"
    return make_database(path, schema, {"cursorDiskKV": rows})


def cursor_bubbles() -> list[dict[str, Any]]:
    run = {
        "toolCallId": "t1",
        "name": "run_terminal_cmd",
        "rawArgs": json.dumps({"command": COMMAND}),
        "status": "error",
    }
    return [
        {"bubbleId": "b1", "type": 1, "text": FIRST, "createdAt": "2026-03-05T08:40:00Z"},
        {"bubbleId": "b2", "type": 2, "text": "", "toolFormerData": {**run, "result": json.dumps({"output": OUTPUT})}},
        {"bubbleId": "b3", "type": 2, "text": ANSWER},
        {"bubbleId": "b4", "type": 1, "text": SECOND},
        {"bubbleId": "b5", "type": 2, "text": AGREED},
    ]


def _cursor(home: Path, project: Path) -> Path:
    workspace(home, project, ".config/Cursor/User")
    bubbles = cursor_bubbles()
    headers = [{"bubbleId": bubble["bubbleId"], "type": bubble["type"]} for bubble in bubbles]
    composer = {"createdAt": AT_S * 1000, "lastUpdatedAt": AT_S * 1000, "fullConversationHeadersOnly": headers}
    path = home / ".config/Cursor/User/globalStorage/state.vscdb"
    return cursor_database(path, composer | {"workspaceIdentifier": {"id": "abc"}}, bubbles)


def _zed(home: Path, project: Path) -> Path:
    run = {"ToolUse": {"id": "t1", "name": "terminal", "input": {"command": COMMAND}}}
    result = {"t1": {"tool_use_id": "t1", "is_error": True, "content": {"Text": OUTPUT}}}
    messages = [
        {"User": {"id": "u1", "content": [{"Text": FIRST}]}},
        {"Agent": {"content": [{"Thinking": {"text": "hm"}}, run], "tool_results": result}},
        {"Agent": {"content": [{"Text": ANSWER}], "tool_results": {}}},
        "Resume",
        {"User": {"id": "u2", "content": [{"Text": SECOND}]}},
        {"Agent": {"content": [{"Text": AGREED}], "tool_results": {}}},
    ]
    data = stored_as_zstd(json.dumps({"version": "0.3.0", "messages": messages}).encode())
    when = "2026-03-05T08:40:00+00:00"
    schema = """CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB, parent_id TEXT,
        folder_paths TEXT, created_at TEXT)"""
    rows = [(SESSION, "", when, "zstd", data, None, str(project), when)]
    return make_database(home / ".local/share/zed/threads/threads.db", schema, {"threads": rows})


def _aider(_home: Path, project: Path) -> Path:
    path = project / ".aider.chat.history.md"
    path.write_text(
        f"\n# aider chat started at 2026-03-05 08:40:00\n\n> Aider v0.86.0  \n\n#### {FIRST}  \n\n{ANSWER}\n\n> Applied edit to uv.lock  \n"
        f"\n#### {SECOND}  \n\n{AGREED}\n",
        "utf-8",
    )
    return path


def _specstory(_home: Path, project: Path) -> Path:
    path = project / ".specstory" / "history" / "2026-03-05_08-40-00Z-why.md"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# 2026-03-05\n\n<!-- Cursor IDE Session {SESSION} (2026-03-05 08:40:00Z) -->\n\n"
        f"_**User (2026-03-05 08:40:00Z)**_\n\n{FIRST}\n\n---\n\n_**Agent (model 2026-03-05 08:40:05Z)**_\n\n"
        f'<tool-use data-tool-type="shell" data-tool-name="Bash"><details>\n<summary>Tool use: **Bash**</summary>\n\n`{COMMAND}`\n\n'
        f"```text\n{OUTPUT}\n```\n</details></tool-use>\n\n_**Agent (model 2026-03-05 08:40:09Z)**_\n\n{ANSWER}\n\n---\n\n"
        f"_**User (2026-03-05 08:41:00Z)**_\n\n{SECOND}\n\n---\n\n_**Agent (model 2026-03-05 08:41:05Z)**_\n\n{AGREED}\n",
        "utf-8",
    )
    return path


def goose_messages() -> list[dict[str, Any]]:
    run = {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": COMMAND}}}
    failed = {"status": "success", "value": {"content": [{"type": "text", "text": OUTPUT}], "isError": True}}
    contents = told(
        {"type": "toolRequest", "id": "t1", "toolCall": run}, {"type": "toolResponse", "id": "t1", "toolResult": failed}
    )
    return [
        {"id": f"m{number}", "role": role, "created": AT_S + number, "content": content}
        for number, (role, content) in enumerate(contents)
    ]


def _goose(home: Path, project: Path) -> Path:
    when = "2026-03-05 08:40:00"
    schema = """CREATE TABLE sessions (id TEXT, working_dir TEXT, created_at TEXT, updated_at TEXT, session_type TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER)"""
    messages = [
        (None, SESSION, each["role"], json.dumps(each["content"]), each["created"]) for each in goose_messages()
    ]
    sessions = [(SESSION, str(project), when, when, "user")]
    rows: dict[str, list[tuple[Any, ...]]] = {"sessions": list(sessions), "messages": list(messages)}
    return make_database(home / ".local/share/goose/sessions/sessions.db", schema, rows)


def _kimi(home: Path, project: Path) -> Path:
    write_json(home / ".kimi" / "kimi.json", {"work_dirs": [{"path": "/elsewhere"}, {"path": str(project)}]})
    folder = home / ".kimi" / "sessions" / hashlib.md5(str(project).encode()).hexdigest() / SESSION
    folder.mkdir(parents=True)
    call = {
        "type": "function",
        "id": "t1",
        "function": {"name": "Shell", "arguments": json.dumps({"command": COMMAND})},
    }
    records: list[dict[str, Any]] = [
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "<system>CHECKPOINT 0</system>"},
        {"role": "user", "content": FIRST},
        {"role": "assistant", "content": [{"type": "think", "think": "hm"}], "tool_calls": [call]},
        {"role": "tool", "content": f"<system>ERROR: Command failed</system>\n{OUTPUT}", "tool_call_id": "t1"},
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
        {"role": "_usage", "token_count": 12},
        {"role": "user", "content": [{"type": "text", "text": SECOND}]},
        {"role": "assistant", "content": AGREED},
    ]
    path = write_lines(folder / "context.jsonl", records)
    os.utime(path, (AT_S, AT_S))
    return path


def _amp(home: Path, project: Path) -> Path:
    run = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"cmd": COMMAND}}
    result = {"type": "tool_result", "toolUseID": "t1", "run": {"status": "error", "error": {"message": OUTPUT}}}
    messages = [
        {"role": role, "messageId": number, "content": content, "meta": {"sentAt": AT_S * 1000}}
        for number, (role, content) in enumerate(told(run, result))
    ]
    thread = {"v": 1, "id": f"T-{SESSION}", "created": AT_S * 1000, "messages": messages}
    env = {"initial": {"trees": [{"displayName": "app", "uri": project.as_uri()}]}}
    return write_json(home / ".local/share/amp/threads" / f"T-{SESSION}.json", {**thread, "env": env})


def _droid(home: Path, project: Path) -> Path:
    when = "2026-03-05T08:40:00Z"
    run = {"type": "tool_use", "id": "t1", "name": "Execute", "input": {"command": COMMAND}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": OUTPUT}
    reminder = {"type": "text", "text": "<system-reminder>\nAvailable skills\n</system-reminder>"}
    contents = [("user", [reminder, reminder]), *told(run, result)]
    lines: list[dict[str, Any]] = [
        {"type": "message", "id": f"m{number}", "timestamp": when, "message": {"role": role, "content": content}}
        for number, (role, content) in enumerate(contents)
    ]
    hook = {"role": "user", "content": [], "visibility": "user_only", "hookEventName": "SessionStart"}
    lines[:0] = [{"type": "message", "id": "h1", "timestamp": when, "message": hook}]
    lines.append({"type": "agent_turn_outcome", "outcome": "completed"})
    folder = home / ".factory" / "sessions" / "-src-app"
    folder.mkdir(parents=True)
    header = {"type": "session_start", "id": SESSION, "cwd": str(project)}
    return write_lines(folder / f"{SESSION}.jsonl", [header, *lines])


def _cline_session(home: Path, project: Path) -> Path:
    call = {"type": "tool_use", "id": "t1", "name": "run_commands", "input": {"commands": [COMMAND]}}
    output = [{"query": COMMAND, "result": "", "error": OUTPUT, "success": False}]
    said = told(call, {"type": "tool_result", "tool_use_id": "t1", "content": output})
    said[0][1][0]["text"] = f'<user_input mode="act">{FIRST}</user_input>'
    messages: list[dict[str, Any]] = [
        {"id": f"m{number}", "role": role, "content": content, "ts": AT_S * 1000}
        for number, (role, content) in enumerate(said)
    ]
    shown = [{"type": "text", "text": '<hook_context source="RunStart">x</hook_context>'}]
    messages.insert(1, {"id": "h", "role": "user", "content": shown, "metadata": {"displayRole": "system"}})
    folder = home / ".cline" / "data" / "sessions" / SESSION
    write_json(folder / f"{SESSION}.json", {"started_at": "2026-03-05T08:40:00Z", "cwd": str(project)})
    whole = {"version": 1, "updated_at": "2026-03-05T08:40:00Z", "agent": "lead", "messages": messages}
    return write_json(folder / f"{SESSION}.messages.json", whole)


AGENT_SESSIONS: dict[str, Callable[[Path, Path], Path]] = {
    "cursor": _cursor,
    "cline": _cline,
    "cline session": _cline_session,
    "roo": _roo,
    "kilo": _kilo,
    "copilot-chat": _copilot_chat,
    "zed": _zed,
    "aider": _aider,
    "goose": _goose,
    "kimi": _kimi,
    "amp": _amp,
    "droid": _droid,
    "specstory": _specstory,
}
"""Writes the session below a home, for a project, and returns its file."""
