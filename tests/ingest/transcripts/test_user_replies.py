"""The user's own words in tool results, in the format of every host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.transcripts.conversations import (
    claude,
    codex,
    codex_message,
    openclaw,
    opencode_message,
    text_part,
    tool_part,
    tool_result,
    tool_use,
    write_lines,
)

from lorelog.core.session import TurnDigest, UserStatement
from lorelog.ingest.transcripts.conversation import open_conversation
from lorelog.ingest.transcripts.turns import TranscriptStats
from lorelog.ingest.transcripts.user_replies import CallResult, pending_call, read_reply

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT"
    " written to the file). "
)
ADVICE = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention to it."
CLARIFY = (
    "The user wants to clarify these questions.\n    This means they may have more to say.\n    Start by asking them.\n\n"
    "    Questions asked:\n"
)
QUESTION = {
    "question": "Which cache?",
    "header": "Cache",
    "options": [{"label": "Redis", "description": "Shared."}, {"label": "In memory", "description": "Fast."}],
}


def digests(path: Path) -> list[TurnDigest]:
    return [turn.digest for turn in open_conversation(str(path)).turns(TranscriptStats())]


def statements(path: Path) -> list[UserStatement]:
    return [statement for digest in digests(path) for statement in digest.statements]


def claude_call(tmp_path: Path, use: dict[str, Any], result: dict[str, Any], **more: object) -> list[UserStatement]:
    lines = [
        claude("user", "u1", "Set it up"),
        claude("assistant", "a1", [use]),
        claude("user", "r1", [result], **more),
        claude("assistant", "a2", [{"type": "text", "text": "Ok."}]),
    ]
    return statements(write_lines(tmp_path / "s.jsonl", lines))


@pytest.mark.parametrize(
    "text",
    [
        REJECTED + "To tell you how to proceed, the user said:\nuse pnpm\nand no lockfile",
        REJECTED + "To tell you how to proceed, the user said:\nuse pnpm\nand no lockfile" + ADVICE,
        REJECTED + "The user provided the following reason for the rejection:  use pnpm\nand no lockfile",
        "Permission for this tool use was denied. The tool use was rejected. The user said:\nuse pnpm\nand no lockfile",
    ],
)
def test_words_of_a_rejection_are_a_correction(tmp_path: Path, text: str) -> None:
    """Words typed at a rejection are kept without the host's text, with the rejected command."""
    use, result = tool_use("t1", "Bash", command="npm install"), tool_result("t1", text, is_error=True)

    assert claude_call(tmp_path, use, result) == [
        UserStatement("correction", "use pnpm\nand no lockfile", "rejected Bash npm install", "reply t1")
    ]


def test_a_rejection_without_words_says_nothing(tmp_path: Path) -> None:
    """The host's own text is never taken for the user's words, nor a file that quotes it."""
    stop = REJECTED + "STOP what you are doing and wait for the user to tell you how to proceed."
    quoted = REJECTED + "To tell you how to proceed, the user said:\nquoted"

    use = tool_use("t1", "Bash", command="cat log")
    assert claude_call(tmp_path, use, tool_result("t1", stop, is_error=True)) == []
    assert claude_call(tmp_path, use, tool_result("t1", quoted)) == []
    assert claude_call(tmp_path, use, tool_result("t1", f"log: {quoted}", is_error=True)) == []


def test_each_answer_is_a_decision(tmp_path: Path) -> None:
    """Every answered question is a decision with the question, the choice and the options that were not chosen."""
    second = {"question": 'Say "hi"?', "header": "Hi", "options": []}
    third = {"question": "And then?", "options": []}
    answers = {"Which cache?": "Redis", 'Say "hi"?': "(notes only)"}
    details = {"questions": [QUESTION], "answers": answers, "annotations": {'Say "hi"?': {"notes": "only once"}}}
    use = tool_use("t1", "AskUserQuestion", questions=[QUESTION, second, third])

    found = claude_call(tmp_path, use, tool_result("t1", "User has answered."), toolUseResult=details)

    assert found == [
        UserStatement("decision", "Which cache? → Redis", "Shared; not chosen: In memory", "answer t1 1"),
        UserStatement("decision", 'Say "hi"? → only once', "", "answer t1 2"),
    ]


def test_answers_are_read_from_the_text_without_a_structured_form(tmp_path: Path) -> None:
    """Older transcripts have only the text; free answers with quotes and commas are kept."""
    text = 'User has answered your questions: "Which cache?"="none, "memory" is ok", "And?"="go". You can now continue.'
    use = tool_use("t1", "AskUserQuestion", questions=[QUESTION, {"question": "And?"}])

    found = claude_call(tmp_path, use, tool_result("t1", text))

    assert [item.text for item in found] == ['Which cache? → none, "memory" is ok', "And? → go"]


def test_clarifications_keep_the_answers_given_so_far(tmp_path: Path) -> None:
    """A user who would rather talk has answered some questions; the host's instructions are dropped."""
    text = f'{REJECTED}To tell you how to proceed, the user said:\n{CLARIFY}- "Which cache?"\n  Answer: Redis\n  User notes: v7\n- "And?"\n  (No answer provided)'
    use = tool_use("t1", "AskUserQuestion", questions=[QUESTION, {"question": "And?"}])

    found = claude_call(tmp_path, use, tool_result("t1", text + ADVICE, is_error=True))

    assert [(item.kind, item.text) for item in found] == [("decision", "Which cache? → Redis, v7")]


def test_plans_are_kept_with_their_verdict(tmp_path: Path) -> None:
    """A plan is kept whether it was approved, edited, rejected with words, or never answered."""
    use = tool_use("t1", "ExitPlanMode", plan="# Add cache\n\n1. Redis")
    edited = "User has approved your plan. Go.\n\n## Approved Plan (edited by user):\n# Add cache\n\n1. In memory"
    words = REJECTED + "To tell you how to proceed, the user said:\nsmaller steps"

    approved = claude_call(tmp_path, use, tool_result("t1", "User has approved your plan. You can now start coding."))
    changed = claude_call(tmp_path, use, tool_result("t1", edited))
    rejected = claude_call(tmp_path, use, tool_result("t1", words, is_error=True))
    open_plan = claude_call(tmp_path, use, tool_result("other", "x"))

    plan = "# Add cache\n\n1. Redis"
    assert approved == [UserStatement("plan", plan, "plan approved by the user", "plan t1")]
    assert changed == [
        UserStatement("plan", "# Add cache\n\n1. In memory", "plan approved by the user, edited", "plan t1")
    ]
    assert rejected == [
        UserStatement("plan", plan, "plan rejected by the user", "plan t1"),
        UserStatement("correction", "smaller steps", "rejected plan: Add cache", "reply t1"),
    ]
    assert open_plan == [UserStatement("plan", plan, "plan shown to the user", "plan t1")]


def test_a_plan_in_a_file_is_kept(tmp_path: Path) -> None:
    """A plan that was written to a plan file is the plan of a call that has no text itself."""
    lines = [
        claude("user", "u1", "Plan it"),
        claude(
            "assistant", "a1", [tool_use("t1", "Write", file_path="/home/x/.claude/plans/a.md", content="# A\n- b")]
        ),
        claude("user", "r1", [tool_result("t1", "ok")]),
        claude("assistant", "a2", [tool_use("t2", "ExitPlanMode")]),
        claude("user", "r2", [tool_result("t2", "User has approved exiting plan mode.")]),
    ]

    assert [(item.kind, item.text) for item in statements(write_lines(tmp_path / "s.jsonl", lines))] == [
        ("plan", "# A\n- b")
    ]


def test_words_after_an_interruption_are_the_next_request(tmp_path: Path) -> None:
    """The prompt after an interruption is the next request and nothing else, also if it stands in the same line."""
    stop = "[Request interrupted by user for tool use]"
    for number, lines in enumerate(
        (
            [claude("user", "i1", [{"type": "text", "text": stop}]), claude("user", "u2", "port 8080 is taken")],
            [claude("user", "u2", [{"type": "text", "text": stop}, {"type": "text", "text": "port 8080 is taken"}])],
        )
    ):
        start = [
            claude("user", "u1", "Start it"),
            claude("assistant", "a1", [tool_use("t1", "Bash", command="make up")]),
        ]
        first, second = digests(write_lines(tmp_path / f"{number}.jsonl", [*start, *lines]))

        assert first.interrupted
        assert second.request == "port 8080 is taken"
        assert second.statements == ()


def test_words_for_a_subagent_belong_to_the_turn(tmp_path: Path) -> None:
    """The user's words at a rejected call of a subagent are kept in the main turn."""
    text = "Permission for this tool use was denied. The tool use was rejected. The user said:\nread only"
    lines = [
        claude("user", "u1", "Look at it"),
        claude("user", "s1", "Sub task", isSidechain=True, agentId="g"),
        claude("assistant", "s2", [tool_use("t1", "Edit", file_path="/x.py")], isSidechain=True, agentId="g"),
        claude("user", "s3", [tool_result("t1", text, is_error=True)], isSidechain=True, agentId="g"),
        claude("assistant", "a1", [{"type": "text", "text": "Ok."}]),
    ]

    main, _ = digests(write_lines(tmp_path / "s.jsonl", lines))

    assert [(item.text, item.context) for item in main.statements] == [("read only", "rejected Edit /x.py")]


def test_a_reply_after_the_next_request_is_kept(tmp_path: Path) -> None:
    """A request typed while a question is open does not lose the answer."""
    lines = [
        claude("user", "u1", "Set it up"),
        claude("assistant", "a1", [tool_use("t1", "AskUserQuestion", questions=[QUESTION])]),
        claude("user", "u2", "and hurry"),
        claude("user", "r1", [tool_result("t1", "x")], toolUseResult={"answers": {"Which cache?": "Redis"}}),
    ]

    assert [item.text for item in statements(write_lines(tmp_path / "s.jsonl", lines))] == ["Which cache? → Redis"]


def test_the_text_before_a_request_is_known(tmp_path: Path) -> None:
    """A turn knows the question that its request answers, and a typed rule what stood before it."""
    lines = [
        claude("user", "u1", "Set it up"),
        claude("assistant", "a1", [{"type": "text", "text": "I installed it with npm. Is that all?"}]),
        claude("user", "u2", "From now on, use pnpm."),
    ]

    _, second = digests(write_lines(tmp_path / "s.jsonl", lines))

    assert second.asked == "I installed it with npm. Is that all?"
    assert second.statements[0].context == second.asked


def test_codex_answers_and_plans_are_kept(tmp_path: Path) -> None:
    """Answers of request_user_input, notes included, and proposed plans are kept; secret answers are not."""
    questions = [{**QUESTION, "id": "cache"}, {"id": "key", "question": "Key?", "isSecret": True}]
    output = {"answers": {"cache": {"answers": ["Redis", "user_note: version 7"]}, "key": {"answers": ["hunter2"]}}}
    call = {"type": "function_call", "name": "request_user_input", "call_id": "c1"}
    lines = [
        codex("response_item", codex_message("user", "Set it up")),
        codex("response_item", {**call, "arguments": json.dumps({"questions": questions})}),
        codex("response_item", {"type": "function_call_output", "call_id": "c1", "output": json.dumps(output)}),
        codex("response_item", codex_message("assistant", "<proposed_plan>\n# Cache\n- Redis\n</proposed_plan>")),
        codex(
            "event_msg", {"type": "item_completed", "item": {"type": "Plan", "id": "p", "text": "# Cache\n- Redis\n"}}
        ),
        codex("response_item", codex_message("user", "Implement the plan.")),
    ]

    found = statements(write_lines(tmp_path / "rollout.jsonl", lines))

    assert [(item.kind, item.text, item.key) for item in found] == [
        ("decision", "Which cache? → Redis, version 7", "answer c1 1"),
        ("plan", "# Cache\n- Redis", "plan 1"),
        ("decision", "Implement the plan.", "request 1"),
    ]
    assert found[2].context == "approved plan: Cache"


def test_opencode_answers_and_rejections_are_kept(tmp_path: Path) -> None:
    """Answers of the question tool and the feedback of a rejected permission are kept."""
    asked = tool_part("question", {"questions": [QUESTION, {"question": "And?"}]}, "done")
    asked["state"]["metadata"] = {"answers": [["Redis"], []]}
    feedback = "The user rejected permission to use this specific tool call with the following feedback: read only"
    denied = tool_part("edit", {"filePath": "/app/x.py"}, error=feedback)
    dismissed = tool_part(
        "bash", {"command": "ls"}, error="The user rejected permission to use this specific tool call."
    )
    messages = [
        opencode_message("m1", "user", [text_part("Set it up")]),
        opencode_message("m2", "assistant", [asked, denied, dismissed, text_part("Ok.")]),
    ]
    path = tmp_path / "session.json"
    path.write_text(json.dumps({"info": {"id": "s"}, "messages": messages}))

    assert [(item.kind, item.text) for item in statements(path)] == [
        ("decision", "Which cache? → Redis"),
        ("correction", "read only"),
    ]


def test_openclaw_answers_are_kept(tmp_path: Path) -> None:
    """Answers of ask_user are read from the result's details, or from the JSON at the end of its text."""
    payload = {"status": "answered", "answers": {"answers": {"cache": ["Redis"]}}}
    question = {**QUESTION, "id": "cache"}

    for number, more in enumerate(({"details": payload}, {})):
        text = f"Cache: Redis\n\n{json.dumps(payload, indent=2)}"
        call = {"type": "toolCall", "id": "c1", "name": "ask_user", "arguments": {"questions": [question]}}
        lines = [
            {"type": "session", "version": 3, "id": "s"},
            openclaw("1", "user", "Set it up"),
            openclaw("2", "assistant", [call]),
            openclaw("3", "toolResult", [{"type": "text", "text": text}], toolCallId="c1", **more),
        ]

        assert [item.text for item in statements(write_lines(tmp_path / f"{number}.jsonl", lines))] == [
            "Which cache? → Redis"
        ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["answers", "question", "questions", "plan", "options", "label", "q"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(["AskUserQuestion", "question", "ExitPlanMode", "Bash"]), JSON, JSON, st.text(max_size=60))
def test_malformed_replies_are_survived(tool: str, arguments: object, details: object, text: str) -> None:
    """Arguments and results of any shape give statements with words, or none."""
    call = pending_call(tool, arguments, "x")
    for body in (text, REJECTED + "the user said:\n" + text, REJECTED + "the user said:\n" + CLARIFY + text):
        for result in (CallResult(body, details, failed=True), CallResult(body, details)):
            for statement in read_reply(call, result, "k"):
                assert statement.text
                assert statement.kind in {"correction", "preference", "decision", "plan"}
