"""Lines of Gemini CLI, Qwen Code and Copilot CLI."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.transcripts.conversations import exchanges, read, write_lines

from lorelog.ingest.transcripts.conversation import TranscriptTail, open_conversation, read_conversation_head
from lorelog.ingest.transcripts.json_files import read_records
from lorelog.ingest.transcripts.turns import TranscriptStats, number_turns, read_turns

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


def test_gemini_lines(tmp_path: Path) -> None:
    """Each message counts once although a resumed session repeats it, and context of hooks is not the user's words."""
    path = write_lines(tmp_path / "session-1.jsonl", gemini_talk("/src/app"))

    turns, stats = read(path)

    assert open_conversation(str(path)).host == "gemini"
    assert stats.session == "s-1"
    assert exchanges(turns) == [("Run the checks", "I run them.\n\nThey pass."), ("Thanks", "")]
    assert [(tool.name, tool.result) for tool in turns[0].tools] == [("run_shell_command", "3 passed")]
    assert turns[0].id == "u1"


def test_a_gemini_document_of_an_older_version(tmp_path: Path) -> None:
    """A session stored as one document has the same turns and metadata as one stored in lines."""
    messages = [record for record in gemini_talk("/src/app") if "id" in record]
    path = tmp_path / ".gemini" / "tmp" / "abc" / "chats" / "session-1.json"
    path.parent.mkdir(parents=True)
    (path.parent.parent / ".project_root").write_text("/src/app")
    document = {"sessionId": "s-1", "projectHash": digest("/src/app"), "messages": messages}
    path.write_text(json.dumps(document, indent=2))

    head = read_conversation_head(open_conversation(str(path)))

    assert exchanges(read(path)[0])[0] == ("Run the checks", "I run them.\n\nThey pass.")
    assert (head.session, head.directory) == ("s-1", "/src/app")


@pytest.mark.parametrize(
    ("root", "known", "expected"),
    [
        ("/src/app", [], "/src/app"),
        ("/src/other", ["/src/app"], "/src/app"),
        ("/src/other", ["/src-app"], ""),
        ("", [], ""),
    ],
)
def test_a_gemini_session_is_filed_by_the_hash_inside_it(
    root: str, known: list[str], expected: str, tmp_path: Path
) -> None:
    """The folder's name and the files beside a session are believed only if the session's own hash agrees."""
    folder = tmp_path / ".gemini" / "tmp" / "other"
    (folder / "chats").mkdir(parents=True)
    (folder / ".project_root").write_text(root)
    (tmp_path / ".gemini" / "projects.json").write_text(json.dumps({"projects": dict.fromkeys(known, "x")}))
    path = write_lines(folder / "chats" / "session-1.jsonl", gemini_talk("/src/app"))

    assert read_conversation_head(open_conversation(str(path))).directory == expected


def test_a_gemini_file_that_begins_in_the_middle_keeps_its_answer(tmp_path: Path) -> None:
    """A file that another process deleted meanwhile lacks the request; the answer is a turn all the same."""
    path = write_lines(tmp_path / "s.jsonl", [record for record in gemini_talk("/src") if record.get("id") == "g2"])

    assert exchanges(read(path)[0]) == [("", "They pass.")]


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


def test_qwen_lines(tmp_path: Path) -> None:
    """Lines are those of Qwen Code, not of Claude Code; results belong to their calls, and thoughts are left out."""
    path = write_lines(tmp_path / "s-2.jsonl", qwen_talk())

    turns, stats = read(path)
    head = read_conversation_head(open_conversation(str(path)))

    assert open_conversation(str(path)).host == "qwen"
    assert exchanges(turns) == [("Run the checks", "One fails.")]
    assert [(tool.failed, tool.result) for tool in turns[0].tools] == [(True, "1 failed\nExit Code: 2")]
    assert (stats.session, head.directory, head.branch) == ("s-2", "/src/app", "main")


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


def test_copilot_events(tmp_path: Path) -> None:
    """A turn is a person's message with what followed; hooks, skills and subagents are not part of it."""
    path = write_lines(tmp_path / "events.jsonl", copilot_talk())

    turns, stats = read(path)
    head = read_conversation_head(open_conversation(str(path)))

    assert open_conversation(str(path)).host == "copilot"
    assert exchanges(turns) == [("Run the checks", "One fails."), ("Stop it", "")]
    assert [(tool.failed, tool.result) for tool in turns[0].tools] == [(True, "1 failed")]
    assert [turn.interrupted for turn in turns] == [False, True]
    assert (stats.session, head.session, head.directory, head.branch) == ("s-3", "s-3", "/src/app", "main")


def copilot_hook(name: str, event: str, second: int, **given: Any) -> dict[str, Any]:
    data = {"hookType": event, "input": {"timestamp": 1000 + second, **given}}
    return copilot_event(name, "hook.start", data, second)


@pytest.mark.parametrize(("hook", "field"), [("userPromptSubmitted", "prompt"), ("sessionStart", "initialPrompt")])
def test_a_prompt_that_copilot_did_not_write_before_it_was_killed(tmp_path: Path, hook: str, field: str) -> None:
    """A prompt that only its hook's line holds is an interrupted turn, once the session goes on."""
    records = [
        *copilot_talk()[:1],
        copilot_hook("h1", hook, 1, **{field: "Run the checks"}),
        copilot_event("e2", "session.resume", {"eventCount": 2}, 2),
        copilot_hook("h2", "userPromptSubmitted", 3, prompt="And now?"),
        copilot_event("u1", "user.message", {"content": "And now?"}, 3),
        copilot_event("a1", "assistant.message", {"content": "They pass."}, 4),
        copilot_event("e3", "session.resume", {"eventCount": 6}, 5),
    ]

    turns, _ = read(write_lines(tmp_path / "events.jsonl", records))

    assert exchanges(turns) == [("Run the checks", ""), ("And now?", "They pass.")]
    assert [(turn.id, turn.interrupted) for turn in turns] == [("h1", True), ("u1", False)]


def droid_message(name: str, role: str, content: list[dict[str, Any]], second: int, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more}
    return {"type": "message", "id": name, "timestamp": AT.format(second), "message": message}


def test_droid_lines(tmp_path: Path) -> None:
    """Droid's lines are read as OpenClaw's: its hooks and reminders are not turns, and results belong to their calls."""
    reminder = {"type": "text", "text": "<system-reminder>\nAvailable skills\n</system-reminder>"}
    call = {"type": "tool_use", "id": "t1", "name": "Execute", "input": COMMAND}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "1 failed"}
    records: list[dict[str, Any]] = [
        {"type": "session_start", "id": "s-4", "title": "Run the checks", "version": 2, "cwd": "/src/app"},
        droid_message("h1", "user", [], 0, visibility="user_only", hookEventName="SessionStart"),
        droid_message("context-u1", "user", [reminder, reminder], 1),
        droid_message("u1", "user", [{"type": "text", "text": "Run the checks"}], 1),
        droid_message("a1", "assistant", [call], 2),
        droid_message("r1", "user", [result], 3),
        droid_message("a2", "assistant", [{"type": "text", "text": "One fails."}], 4),
        {"type": "agent_turn_outcome", "outcome": "completed"},
    ]
    path = write_lines(tmp_path / "s-4.jsonl", records)

    turns, stats = read(path)
    head = read_conversation_head(open_conversation(str(path)))

    assert exchanges(turns) == [("Run the checks", "One fails.")]
    assert [(tool.failed, tool.result) for tool in turns[0].tools] == [(True, "1 failed")]
    assert (stats.session, head.session, head.directory) == ("s-4", "s-4", "/src/app")


def test_a_turn_in_progress_is_open(tmp_path: Path) -> None:
    """In each format, a turn whose last event is the request has not ended."""
    talks = {
        "gemini": [{"sessionId": "s", "projectHash": "x"}, gemini_message("u", "user", [{"text": "Go"}], 1)],
        "qwen": [qwen_line("u", "user", [{"text": "Go"}], 1)],
        "copilot": [copilot_event("u", "user.message", {"content": "Go"}, 1)],
    }
    for host, records in talks.items():
        conversation = open_conversation(str(write_lines(tmp_path / f"{host}.jsonl", records)))
        assert conversation.host == host
        assert [turn.is_open for turn in conversation.turns(TranscriptStats())] == [True]


@pytest.mark.parametrize("talk", [gemini_talk("/src/app"), qwen_talk(), copilot_talk()])
def test_reading_on_gives_the_turns_of_the_whole_file(talk: list[dict[str, Any]], tmp_path: Path) -> None:
    """Whatever was appended last, also half a line, the turns of the tail are those of the whole file."""
    path = tmp_path / "a.jsonl"
    data = write_lines(path, talk).read_bytes()
    tail = TranscriptTail(open_conversation(str(path)))
    path.write_bytes(b"")
    for end in range(0, len(data) + 90, 90):
        with path.open("ab") as file:
            file.write(data[end - 90 : end] if end else b"")
        whole = read_turns(tail.conversation.new_reader(TranscriptStats()), read_records(str(path), TranscriptStats()))  # type: ignore[misc]

        assert tail.read_on()
        assert tail.turns() == (list(number_turns(whole)), 0)
    assert tail.turns()[0]
