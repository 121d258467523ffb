"""Codex rollouts in all formats."""

from __future__ import annotations

import json
from pathlib import Path

from tests.ingest.transcripts.conversations import Record, codex, codex_message, exchanges, names, read, write_lines

from lorelog.core.session import ToolCall

META = codex("session_meta", {"id": "thread-1", "cwd": "/p", "cli_version": "0.166.0"})
ENVIRONMENT = "<environment_context>\n<cwd>/p</cwd>\n</environment_context>"


def call(name: str, identity: str, arguments: Record, output: object) -> list[Record]:
    return [
        codex(
            "response_item",
            {"type": "function_call", "name": name, "call_id": identity, "arguments": json.dumps(arguments)},
        ),
        codex("response_item", {"type": "function_call_output", "call_id": identity, "output": output}),
    ]


def new_turn(turn: str, request: str, answer: str, extra: list[Record]) -> list[Record]:
    def completed(item: Record) -> Record:
        return codex("event_msg", {"type": "item_completed", "turn_id": turn, "item": item})

    text = {"type": "text", "text": request}
    return [
        codex("event_msg", {"type": "task_started", "turn_id": turn}),
        codex("turn_context", {"turn_id": turn, "cwd": "/p", "model": "fake-model"}),
        codex("response_item", codex_message("developer", "Be brief.", turn, ["permissions"])),
        codex("response_item", codex_message("user", ENVIRONMENT, turn, ["environments.environment_context"])),
        codex("response_item", codex_message("user", request, turn, ["user.text"])),
        completed({"type": "UserMessage", "id": f"item-{turn}", "content": [text]}),
        *extra,
        completed({"type": "AgentMessage", "id": f"out-{turn}", "content": [{"type": "Text", "text": answer}]}),
        codex("response_item", codex_message("assistant", answer, turn)),
        codex("event_msg", {"type": "task_complete", "turn_id": turn, "last_agent_message": answer}),
        {"type": "token_usage_record", "payload": {"total": 1}},
    ]


def test_the_new_form(tmp_path: Path) -> None:
    """Items and their events are one conversation without duplicates; instructions and environment are skipped."""
    tool = call("exec_command", "c1", {"cmd": "ls"}, "a\nb")
    execution = {"type": "CommandExecution", "id": "other", "command": "ls", "aggregated_output": "a\nb"}
    tool.append(codex("event_msg", {"type": "item_completed", "turn_id": "t1", "item": execution}))
    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            META,
            {"type": "world_state", "payload": {}},
            *new_turn("t1", "List it", "Two files.", tool),
            *new_turn("t2", "List it", "Two files.", []),
        ],
    )

    turns, stats = read(path)

    assert exchanges(turns) == [("List it", "Two files.")] * 2
    assert [turn.id for turn in turns] == ["t1", "t2"]
    assert turns[0].tools == (ToolCall("exec_command", "ls", "a\nb"),)
    assert (stats.session, stats.broken) == ("thread-1", 0)
    assert {"t1", "item-t1", "out-t1"} <= names(path)[0]


def test_the_old_form(tmp_path: Path) -> None:
    """In the earlier format each message is both an item and an event; a repeated question is a new turn."""

    def turn(request: str, answer: str) -> list[Record]:
        return [
            codex("response_item", codex_message("user", request)),
            codex("event_msg", {"type": "user_message", "message": request, "kind": "plain"}),
            codex("turn_context", {"cwd": "/p", "model": "m"}),
            codex("event_msg", {"type": "agent_reasoning", "text": "hm"}),
            codex("event_msg", {"type": "agent_message", "message": answer}),
            codex("response_item", codex_message("assistant", answer)),
            codex("event_msg", {"type": "token_count", "info": None}),
        ]

    wrapped = json.dumps({"output": "a.txt\n", "metadata": {"exit_code": 0}})
    shell = call("shell", "c1", {"command": ["bash", "-lc", "ls"]}, wrapped)
    patch = [
        codex(
            "response_item", {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"}
        ),
        codex("response_item", {"type": "custom_tool_call_output", "call_id": "c2", "output": "Success"}),
    ]
    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            META,
            codex("response_item", codex_message("user", "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>x")),
            codex("response_item", codex_message("user", ENVIRONMENT)),
            *turn("continue", "4"),
            *shell,
            *patch,
            *turn("continue", "5"),
        ],
    )

    turns, _ = read(path)

    assert exchanges(turns) == [("continue", "4"), ("continue", "5")]
    assert [turn.id for turn in turns] == ["turn-1", "turn-2"]
    assert turns[0].tools == (
        ToolCall("shell", "bash -lc ls", "a.txt"),
        ToolCall("apply_patch", "*** Begin", "Success"),
    )


def test_events_alone_are_enough(tmp_path: Path) -> None:
    """Events alone make up the conversation, as does the last message of a task."""
    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            META,
            codex("event_msg", {"type": "task_started", "turn_id": "t1"}),
            codex("event_msg", {"type": "user_message", "message": "Run it"}),
            codex(
                "event_msg",
                {"type": "exec_command_end", "call_id": "c", "command": ["make", "test"], "aggregated_output": "ok"},
            ),
            codex("event_msg", {"type": "task_complete", "turn_id": "t1", "last_agent_message": "It passes."}),
            codex("event_msg", {"type": "task_started", "turn_id": "t2"}),
            codex("event_msg", {"type": "user_message", "message": "And now?"}),
            codex("event_msg", {"type": "turn_aborted", "reason": "interrupted"}),
        ],
    )

    turns, _ = read(path)

    assert exchanges(turns) == [("Run it", "It passes."), ("And now?", "")]
    assert turns[0].tools == (ToolCall("exec", "make test", "ok"),)
    assert [turn.interrupted for turn in turns] == [False, True]


def test_what_is_typed_meanwhile_is_a_turn_of_its_own(tmp_path: Path) -> None:
    """Each message sent during a turn is kept as its own, with the work that follows it, under the turn's name."""
    records = new_turn("t1", "Build it", "Built.", [])
    for text in ("use make", "and ninja"):
        records.insert(-3, codex("response_item", codex_message("user", text, "t1", ["user.text"])))
        records.insert(-3, codex("event_msg", {"type": "user_message", "message": text}))

    turns = read(write_lines(tmp_path / "rollout.jsonl", [META, *records]))[0]
    assert [request for request, _ in exchanges(turns)] == ["Build it", "use make", "and ninja"]
    assert [turn.id for turn in turns] == ["t1", "t1#2", "t1#3"]


def test_a_subagents_rollout_is_marked(tmp_path: Path) -> None:
    """Turns of a rollout whose source is a subagent are marked."""
    meta = codex("session_meta", {"id": "thread-2", "source": {"subagent": {"depth": 1}}})

    turns, _ = read(write_lines(tmp_path / "rollout.jsonl", [meta, *new_turn("t1", "Look", "Seen.", [])]))

    assert [turn.sidechain for turn in turns] == [True]


def test_a_manual_compaction_is_not_a_turn(tmp_path: Path) -> None:
    """A manual compaction is a task without a request, and its summary is not an answer."""
    done = {"type": "item_completed", "turn_id": "t2", "item": {"type": "ContextCompaction", "id": "c1"}}
    compaction = [
        codex("event_msg", {"type": "task_started", "turn_id": "t2"}),
        codex("response_item", codex_message("assistant", "What was said so far.")),
        codex("compacted", {"message": "Another model began. What was said so far."}),
        codex("turn_context", {"turn_id": "t2", "cwd": "/p"}),
        codex("event_msg", done),
        codex("event_msg", {"type": "task_complete", "turn_id": "t2", "last_agent_message": None}),
    ]
    lines = [META, *new_turn("t1", "One?", "1.", []), *compaction, *new_turn("t3", "Two?", "2.", [])]
    path = write_lines(tmp_path / "rollout.jsonl", lines)

    turns, _ = read(path)

    assert exchanges(turns) == [("One?", "1."), ("Two?", "2.")]
