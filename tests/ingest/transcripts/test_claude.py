"""Transcripts of Claude Code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.transcripts.conversations import (
    claude,
    claude_turn,
    exchanges,
    names,
    read,
    tool_result,
    tool_use,
    write_lines,
)

from lorelog.core.session import ToolCall


def test_a_message_split_over_lines_is_one_answer(tmp_path: Path) -> None:
    """Text and tool calls of all lines of a message belong to the turn; thinking does not."""
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            claude("user", "u1", "Why is it slow?", promptId="p1"),
            claude("assistant", "a1", [{"type": "thinking", "thinking": "secret"}], message_id="m1"),
            claude("assistant", "a2", [{"type": "text", "text": "I look."}], message_id="m1"),
            claude("assistant", "a3", [tool_use("t1", "Bash", command="top -b")], message_id="m1"),
            claude("user", "r1", [tool_result("t1", [{"type": "text", "text": "load 9"}])]),
            claude("assistant", "a4", [tool_use("t2", "Read", file_path="/etc/x", limit=3)], message_id="m2"),
            claude("user", "r2", [tool_result("t2", "no such file", is_error=True)]),
            claude("assistant", "a5", [{"type": "text", "text": "The load is 9."}], message_id="m3"),
        ],
    )

    (turn,), stats = read(path)

    assert (turn.id, turn.number, turn.time) == ("u1", 1, "2026-03-05T14:30:00Z")
    assert (turn.user, turn.assistant) == ("Why is it slow?", "I look.\n\nThe load is 9.")
    assert turn.tools == (ToolCall("Bash", "top -b", "load 9"), ToolCall("Read", "/etc/x", "no such file", failed=True))
    assert (stats.session, stats.skipped, stats.broken) == ("session-1", 0, 0)
    assert names(path) == [{"u1", "p1", "a1", "a2", "a3", "r1", "a4", "r2", "a5", "m1", "m2", "m3"}]


def test_unknown_and_broken_lines_are_survived(tmp_path: Path) -> None:
    """Lines of other types or shapes, truncated ones and ones that are not JSON change no turn and are counted."""
    first, second = claude_turn("u1", "One?", "1"), claude_turn("u2", "Two?", "2")
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
            '{"type": "user", "message": {"con',
            "",
            *first,
            {"type": "something-new", "data": [1]},
            {"type": ["user"], "message": 3},
            {"type": "user", "message": "text"},
            '"a text"',
            "\x00\x00",
            *second,
            '{"type":"assistant","message":{"content":[{"type":"te',
        ],
    )

    turns, stats = read(path)

    assert exchanges(turns) == [("One?", "1"), ("Two?", "2")]
    assert (stats.skipped, stats.broken) == (5, 3)


def test_inserted_lines_are_not_requests(tmp_path: Path) -> None:
    """Reminders, meta lines, command output and notifications begin no turn; commands read as typed."""
    command = "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>158</command-args>"
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            claude("user", "u1", command),
            claude("user", "meta", [{"type": "text", "text": "You are an expert reviewer."}], isMeta=True),
            claude("assistant", "a1", [{"type": "text", "text": "Fine."}]),
            claude("user", "n1", "<local-command-stdout>Set model</local-command-stdout>"),
            claude("user", "n2", "<task-notification>done</task-notification>"),
            claude("user", "u2", "<bash-input>git status</bash-input>"),
            claude("user", "n3", "<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>"),
            claude("user", "u3", "<system-reminder>\nnever\n</system-reminder>Merge it"),
            claude("assistant", "a3", [{"type": "text", "text": "Merged."}]),
            claude("user", "n4", [{"type": "text", "text": "<system-reminder>x</system-reminder>"}]),
        ],
    )

    turns, _ = read(path)

    assert exchanges(turns) == [("/review 158", "Fine."), ("! git status", ""), ("Merge it", "Merged.")]
    assert turns[1].tools == (ToolCall("shell", "", "clean"),)
    assert "meta" in names(path)[0]


def test_an_interruption_belongs_to_the_turn_it_interrupts(tmp_path: Path) -> None:
    """`[Request interrupted by user]` marks the current turn and is not a request; the synthetic answer after it changes no turn."""
    stand_in = claude("assistant", "a2", [{"type": "text", "text": "No response requested."}])
    stand_in["message"]["model"] = "<synthetic>"
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            *claude_turn("u1", "Rewrite all of it", "I begin."),
            claude("user", "i1", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
            stand_in,
            *claude_turn("u2", "Only the tests", "Done."),
        ],
    )

    turns, _ = read(path)

    assert [(turn.id, turn.interrupted) for turn in turns] == [("u1", True), ("u2", False)]
    assert exchanges(turns) == [("Rewrite all of it", "I begin."), ("Only the tests", "Done.")]


def test_subagents_have_turns_of_their_own(tmp_path: Path) -> None:
    """Interleaved lines of two concurrent subagents are separated from each other and the main conversation."""
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            claude("user", "u1", "Compare both"),
            claude("assistant", "a1", [tool_use("t1", "Task", prompt="left"), tool_use("t2", "Task", prompt="right")]),
            claude("user", "l1", "Look left", isSidechain=True, parentUuid=None),
            claude("user", "r1", "Look right", isSidechain=True, parentUuid=None),
            claude("assistant", "r2", [tool_use("t3", "Grep", pattern="right")], isSidechain=True, parentUuid="r1"),
            claude("assistant", "l2", [{"type": "text", "text": "left is old"}], isSidechain=True, parentUuid="l1"),
            claude("user", "r3", [tool_result("t3", "3 hits")], isSidechain=True, parentUuid="r2"),
            claude("assistant", "r4", [{"type": "text", "text": "right is new"}], isSidechain=True, parentUuid="r3"),
            claude("user", "x1", [tool_result("t1", "left is old"), tool_result("t2", "right is new")]),
            claude("assistant", "a2", [{"type": "text", "text": "They differ."}]),
            *claude_turn("u2", "Thanks", "Welcome."),
        ],
    )

    turns, _ = read(path)

    assert [(turn.id, turn.sidechain) for turn in turns] == [("u1", False), ("l1", True), ("r1", True), ("u2", False)]
    assert [turn.assistant for turn in turns] == ["They differ.", "left is old", "right is new", "Welcome."]
    assert [tool.result for tool in turns[0].tools] == ["left is old", "right is new"]
    assert turns[2].tools == (ToolCall("Grep", "right", "3 hits"),)


def test_a_file_of_one_subagent_is_read(tmp_path: Path) -> None:
    """All turns in a subagent's own file are marked."""
    more = {"isSidechain": True, "agentId": "agent-7"}
    records = [*claude_turn("u1", "Look", "Seen.", **more), *claude_turn("u2", "Again", "Same.", **more)]

    turns, _ = read(write_lines(tmp_path / "agent-7.jsonl", records))

    assert [(turn.user, turn.assistant, turn.sidechain) for turn in turns] == [
        ("Look", "Seen.", True),
        ("Again", "Same.", True),
    ]


def test_a_resumed_session_repeats_nothing(tmp_path: Path) -> None:
    """Lines copied by a resumed session count once, and a session resumed in the same file continues."""
    old = [*claude_turn("u1", "One?", "1"), *claude_turn("u2", "Two?", "2")]
    resumed = [line | {"sessionId": "session-2"} for line in old]
    path = write_lines(tmp_path / "s.jsonl", [*old, *resumed, *claude_turn("u3", "Three?", "3", sessionId="session-2")])

    turns, stats = read(path)

    assert exchanges(turns) == [("One?", "1"), ("Two?", "2"), ("Three?", "3")]
    assert stats.session == "session-2"


def test_a_compaction_is_told_and_no_turn(tmp_path: Path) -> None:
    """A compaction's summary is not a turn, and the compaction is noted."""
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            *claude_turn("u1", "One?", "1"),
            {"type": "system", "subtype": "compact_boundary", "sessionId": "session-1", "uuid": "c"},
            claude("user", "c2", "This session is being continued …", isCompactSummary=True),
            *claude_turn("u2", "Two?", "2"),
        ],
    )

    turns, stats = read(path)

    assert exchanges(turns) == [("One?", "1"), ("Two?", "2")]
    assert list(stats.notes.values()) == [1]


@pytest.mark.parametrize("stored", ["attachment", "queue", "both"])
def test_a_prompt_that_waited_in_the_queue_is_a_request(tmp_path: Path, stored: str) -> None:
    """A prompt typed while the assistant works is a request once it is handed over, however a version stores it."""
    attachment = {"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"}
    added, removed, given_back = (
        {"type": "queue-operation", "operation": operation, "sessionId": "session-1"}
        for operation in ("enqueue", "remove", "popAll")
    )
    queue = [{**added, "content": "no, wait"}, given_back]
    for text in ("and the docs", '{"task_id": "1"}', "<task-notification>done</task-notification>"):
        queue += [{**added, "content": text, "timestamp": "2026-03-05T14:00:00Z"}, removed]
    path = write_lines(
        tmp_path / "s.jsonl",
        [
            *claude_turn("u1", "Fix it", "Working."),
            *([] if stored == "attachment" else queue),
            *(
                []
                if stored == "queue"
                else [{"type": "attachment", "uuid": "q1", "attachment": attachment, "sessionId": "session-1"}]
            ),
            claude("assistant", "a2", [{"type": "text", "text": "Docs too."}]),
        ],
    )

    assert exchanges(read(path)[0]) == [("Fix it", "Working."), ("and the docs", "Docs too.")]


def test_a_file_that_begins_in_the_middle_is_read(tmp_path: Path) -> None:
    """An answer without its request is a turn without a request."""
    (_, answer), rest = claude_turn("u1", "One?", "1"), claude_turn("u2", "Two?", "2")

    assert exchanges(read(write_lines(tmp_path / "s.jsonl", [answer, *rest]))[0]) == [("", "1"), ("Two?", "2")]


def test_images_are_named(tmp_path: Path) -> None:
    """An image is shown as a placeholder without its bytes."""
    content = [{"type": "image", "source": {"data": "AAAA"}}, {"type": "text", "text": "What is this?"}]

    (turn,), _ = read(write_lines(tmp_path / "s.jsonl", [claude("user", "u1", content)]))

    assert turn.user == "What is this?\n[image]"
