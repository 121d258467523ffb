"""Lines of Gemini CLI, Qwen Code and Copilot CLI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.transcripts.conversations import (
    copilot_event,
    copilot_talk,
    digest,
    exchanges,
    gemini_message,
    gemini_talk,
    qwen_line,
    qwen_talk,
    read,
    write_lines,
)

from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turns import TranscriptStats


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


def test_qwen_lines(tmp_path: Path) -> None:
    """Lines are those of Qwen Code, not of Claude Code; results belong to their calls, and thoughts are left out."""
    path = write_lines(tmp_path / "s-2.jsonl", qwen_talk())

    turns, stats = read(path)
    head = read_conversation_head(open_conversation(str(path)))

    assert open_conversation(str(path)).host == "qwen"
    assert exchanges(turns) == [("Run the checks", "One fails.")]
    assert [(tool.failed, tool.result) for tool in turns[0].tools] == [(True, "1 failed\nExit Code: 2")]
    assert (stats.session, head.directory, head.branch) == ("s-2", "/src/app", "main")


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
