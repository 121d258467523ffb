"""Host adapters: payloads become the same fields, without conversation text."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.ids import answer_hash
from lorelog.hosts import (
    HOST_TITLES,
    HOSTS,
    MOMENTS,
    TOOL_MOMENTS,
    detect_host,
    host_adapter,
    prompt_field,
    resolve_host,
)

FIELDS = {"session", "turn", "transcript", "directory", "agent", "source", "answer", "again"}
CLAUDE_STOP = {
    "session_id": "0b5e",
    "transcript_path": "/h/.claude/projects/-src-app/0b5e.jsonl",
    "cwd": "/src/app",
    "hook_event_name": "Stop",
    "prompt_id": "p-7",
    "permission_mode": "default",
    "stop_hook_active": False,
    "last_assistant_message": "  Done: the cache is Redis.\n",
    "background_tasks": [],
}
CODEX_STOP = {
    "session_id": "019a",
    "transcript_path": "/h/.codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-019a.jsonl",
    "cwd": "/src/app",
    "hook_event_name": "Stop",
    "model": "m",
    "turn_id": "t-3",
    "stop_hook_active": True,
    "last_assistant_message": "Done.",
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_CLAUDE = ("session_id", "transcript_path", "cwd", "prompt_id", "turn_id", "source", "reason", "trigger")
_OURS = ("session", "turn", "directory", "transcript", "agent", "answer_text", "prompt")
names = st.sampled_from((*_CLAUDE, "stop_hook_active", "last_assistant_message", *_OURS))


def test_every_host_has_a_title_and_a_dialect() -> None:
    """Each host has a title and a module that maps its events to ours."""
    assert set(HOST_TITLES) == set(HOSTS)
    for host in HOSTS:
        assert set(host_adapter(host).MOMENTS.values()) <= {*MOMENTS, *TOOL_MOMENTS}


def test_gemini_denies_at_the_top_and_speaks_after_the_call() -> None:
    """Gemini CLI reads a block at the top of the reply, and context only where it reaches the model."""
    adapter, block = host_adapter("gemini"), {"action": "block", "message": "no"}

    assert adapter.answer("tool-before", "text", "", block) == {"decision": "deny", "reason": "no"}
    assert adapter.answer("tool-before", "text", "") == {}
    after = adapter.answer("tool-after", "text", "")
    assert after == {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "text"}}


def test_copilot_replies_have_no_envelope(tmp_path: Path) -> None:
    """Copilot CLI reads context and a block at the top of the reply, and its transcript has a fixed place."""
    adapter, block = host_adapter("copilot"), {"action": "block", "message": "no"}

    assert adapter.answer("prompt", "text", "") == {"additionalContext": "text"}
    denied = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    assert adapter.answer("tool-before", "", "", block) == denied
    event = adapter.read_event("prompt", {"sessionId": "s", "cwd": "/src"}, {"COPILOT_HOME": str(tmp_path)})
    assert event["transcript"] == f"{tmp_path}/session-state/s/events.jsonl"
    assert adapter.read_event("prompt", {"sessionId": "../s"}, {"HOME": "/h"})["transcript"] == ""


def test_kimi_finds_its_transcript_and_answers_in_its_own_form(tmp_path: Path) -> None:
    """Kimi Code names no transcript, reads the context of a prompt as a message, and a block in its envelope."""
    adapter, block = host_adapter("kimi"), {"action": "block", "message": "no"}
    file = tmp_path / "sessions" / "wd_app" / "session_1" / "agents" / "main" / "wire.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    home = {"KIMI_CODE_HOME": str(tmp_path)}

    payload = {"session_id": "session_1", "cwd": "/src", "prompt": [{"type": "text", "text": "Go"}]}
    assert adapter.read_event("prompt", payload, home)["transcript"] == str(file)
    assert adapter.read_event("prompt", {"session_id": "../session_1"}, home)["transcript"] == ""
    assert prompt_field(payload) == "Go"
    assert adapter.answer("prompt", "text", "") == {"message": "text"}
    assert adapter.answer("session-start", "text", "") == {}
    denied = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    assert adapter.answer("tool-before", "", "", block) == {"hookSpecificOutput": denied}


def test_qwen_has_its_own_names_for_a_session_and_a_call() -> None:
    """Qwen Code speaks as Claude Code does, but sets its own variables and names a call by its own id."""
    adapter = host_adapter("qwen")
    variables = {"QWEN_CODE_SESSION_ID": "s", "QWEN_PROJECT_DIR": "/src", "CLAUDE_CODE_SESSION_ID": "outer"}

    event = adapter.read_event("turn-end", {"prompt_id": "p"}, variables)
    assert (event["session"], event["directory"], event["turn"]) == ("s", "/src", "")
    call = {"tool_name": "edit", "tool_call_id": "own", "tool_use_id": "other"}
    assert adapter.read_tool_call(call)["id"] == "own"


def test_an_empty_prompt_of_qwen_is_not_spooled() -> None:
    """Qwen Code runs its prompt hook again after each tool call, without a prompt; that is not spooled."""
    adapter = host_adapter("qwen")

    assert adapter.read_event("prompt", {"session_id": "s", "prompt": ""}, {}) == {}
    assert adapter.read_event("prompt", {"session_id": "s", "prompt": "Go"}, {})["session"] == "s"


@pytest.mark.parametrize(
    ("host", "result", "failed"),
    [
        ("gemini", {"tool_response": {"llmContent": "Output: x\nExit Code: 3\nPGID: 1"}}, True),
        ("gemini", {"tool_response": {"llmContent": "Output: x\nExit Code: 0"}}, False),
        ("gemini", {"tool_response": {"error": {"message": "no such file"}}}, True),
        ("qwen", {"error": "Exit Code: 3", "is_interrupt": False}, True),
        ("qwen", {"tool_response": {"llmContent": "fine"}}, False),
        (
            "copilot",
            {"toolResult": {"resultType": "success", "textResultForLlm": "<shellId: 0 completed with exit code 3>"}},
            True,
        ),
        ("copilot", {"toolResult": {"resultType": "success", "textResultForLlm": "it said exit code 3"}}, False),
        ("copilot", {"toolResult": {"resultType": "failure", "textResultForLlm": "x"}}, True),
    ],
)
def test_a_failed_call_is_recognised(host: str, result: dict[str, Any], failed: bool) -> None:  # noqa: FBT001
    """An exit status other than 0 or an error of the tool is a failure, words about one are not."""
    names = {"tool_name": "run_shell_command", "toolName": "bash", "tool_input": {}, "toolArgs": {"command": "x"}}

    assert host_adapter(host).read_tool_call({**names, **result})["failed"] is failed


def test_the_prompt_of_gemini_is_without_the_context_of_the_session_start() -> None:
    """Context that the host puts in front of a prompt is not the user's words."""
    assert prompt_field({"prompt": "<hook_context>memory</hook_context>\n\nGo on"}) == "Go on"
    assert prompt_field({"prompt": "Go <hook_context>"}) == "Go <hook_context>"
    assert prompt_field({"prompt": 3}) == ""


def test_claude_code_is_known_by_both_names() -> None:
    """`claude-code` is an alias of Claude Code; an unknown name is empty."""
    assert resolve_host("claude-code") == resolve_host("claude") == "claude"
    assert resolve_host("emacs") == ""
    with pytest.raises(KeyError):
        host_adapter("emacs")


def test_claude_tells_where_its_turn_lies() -> None:
    """A Stop event becomes pointers and a hash of the answer, without the answer."""
    event = host_adapter("claude").read_event("turn-end", dict(CLAUDE_STOP), {})

    assert event == {
        "session": "0b5e",
        "turn": "p-7",
        "transcript": "/h/.claude/projects/-src-app/0b5e.jsonl",
        "directory": "/src/app",
        "agent": "",
        "source": "",
        "answer": sha256(b"Done: the cache is Redis.").hexdigest()[:16],
        "again": False,
    }


def test_codex_tells_its_turn() -> None:
    """A Codex Stop has its own turn id, and reports a repeated stop."""
    event = host_adapter("codex").read_event("turn-end", dict(CODEX_STOP), {})

    assert (event["session"], event["turn"], event["again"]) == ("019a", "t-3", True)
    assert event["transcript"].endswith("-019a.jsonl")


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_context_reaches_the_model_and_a_notice_the_person(host: str) -> None:
    """Context is sent under the host's event name; other events get an empty reply."""
    answer = host_adapter(host).answer

    assert answer("session-start", "memory", "mind") == {
        "systemMessage": "mind",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "memory"},
    }
    assert answer("prompt", "hint", "")["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert answer("session-start", "", "") == {}
    for moment in ("turn-end", "turn-failed", "compact", "session-end"):
        assert answer(moment, "memory", "mind") == {}


@pytest.mark.parametrize("host", ["opencode", "openclaw"])
def test_our_own_plugins_hear_two_words(host: str) -> None:
    """Our own plugins receive context and notice by name."""
    assert host_adapter(host).answer("session-start", "memory", "mind") == {"context": "memory", "notice": "mind"}
    assert host_adapter(host).answer("turn-end", "", "") == {}


def test_codex_is_recognised_behind_claude() -> None:
    """Codex under a Claude Code bundle is recognised by its rollouts, or by its turn ids outside Claude Code."""
    assert detect_host("claude", CODEX_STOP, {"CLAUDECODE": "1"}) == "codex"
    assert detect_host("claude", {"turn_id": "t"}, {}) == "codex"
    assert detect_host("claude", {"turn_id": "t", "transcript_path": "/x/a.jsonl"}, {"CLAUDECODE": "1"}) == "claude"
    assert detect_host("claude", CLAUDE_STOP, {}) == "claude"
    assert detect_host("opencode", {"turn_id": "t"}, {}) == "opencode"


def test_opencode_is_where_it_always_is() -> None:
    """Without a path from the plugin, the database is below XDG_DATA_HOME or the home."""
    read = host_adapter("opencode").read_event

    assert read("turn-end", {"transcript": "/x/o.db"}, {"HOME": "/h"})["transcript"] == "/x/o.db"
    assert read("turn-end", {"transcript": ""}, {"HOME": "/h"})["transcript"] == "/h/.local/share/opencode/opencode.db"
    assert read("turn-end", {}, {"XDG_DATA_HOME": "/d"})["transcript"] == "/d/opencode/opencode.db"


def test_openclaw_is_found_in_either_form(tmp_path: Path) -> None:
    """A reported path comes first, then the agent's database, then the session's JSONL file."""
    environment = {"OPENCLAW_STATE_DIR": str(tmp_path)}
    payload: dict[str, Any] = {"session": "s1", "agent": "work", "transcript": "agent:work:main"}
    read = host_adapter("openclaw").read_event
    database = tmp_path / "agents/work/agent/openclaw-agent.sqlite"
    assert read("turn-end", payload, environment)["transcript"] == str(database)

    lines = tmp_path / "agents/work/sessions/s1.jsonl"
    lines.parent.mkdir(parents=True)
    lines.touch()
    assert read("turn-end", payload, environment)["transcript"] == str(lines)

    database.parent.mkdir(parents=True)
    database.touch()
    assert read("turn-end", payload, environment)["transcript"] == str(database)

    told = tmp_path / "other.jsonl"
    told.touch()
    payload["transcript"] = ["/nowhere.jsonl", str(told)]
    assert read("turn-end", payload, environment)["transcript"] == str(told)


def test_openclaw_names_lead_nowhere_else(tmp_path: Path) -> None:
    """An agent or session name with slashes is not used in a path."""
    event = host_adapter("openclaw").read_event(
        "turn-end", {"session": "../../x", "agent": "../.."}, {"OPENCLAW_STATE_DIR": str(tmp_path)}
    )

    assert event["transcript"] == ""


@given(host=st.sampled_from(HOSTS), payload=st.dictionaries(names, values))
def test_any_payload_is_read(host: str, payload: dict[str, Any]) -> None:
    """Any payload gives the same fields: short texts and one boolean."""
    event = host_adapter(host).read_event("turn-end", payload, {"HOME": "/h"})

    assert set(event) == FIELDS
    assert all(isinstance(value, bool) if name == "again" else isinstance(value, str) for name, value in event.items())
    assert len(json.dumps(event)) < 60_000


@given(payload=st.dictionaries(names, st.text()), canary=st.text("ABCDEF", min_size=8, max_size=8))
def test_no_conversation_is_passed_on(payload: dict[str, Any], canary: str) -> None:
    """Neither a prompt nor an answer is spooled, only a hash of the answer."""
    for host in HOSTS:
        said = {"prompt": f"x {canary}\n", "last_assistant_message": f"y {canary}\n", "answer_text": f"z {canary}\n"}
        event = host_adapter(host).read_event("turn-end", {**payload, **said}, {})

        rest = {name: value for name, value in event.items() if value != payload.get(name)}
        assert f"x {canary}" not in json.dumps(rest)
        assert f"y {canary}" not in json.dumps(rest)
        assert f"z {canary}" not in json.dumps(rest)
        assert len(event["answer"]) == (0 if host in {"gemini", "copilot"} else 16)


@given(st.text())
def test_a_mark_is_of_the_stripped_answer(text: str) -> None:
    """White space around an answer does not change its hash, and no answer has no hash."""
    expected = sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16] if text.strip() else ""

    assert answer_hash(text) == answer_hash(f" {text}\n") == expected
