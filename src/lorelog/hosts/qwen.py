"""Qwen Code: hooks in an extension, with the names of Claude Code and most fields of it.

What a hook answers before a tool call reaches the model only if it stops the call, so memories follow with the result.
After each tool call the prompt hook runs again without a prompt, which is not an event.
"""

from __future__ import annotations

from lorelog.hosts import answer_hash, hook_answer, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "tool-before",
    "PostToolUse": "tool-after",
    "PostToolUseFailure": "tool-failed",
    "Stop": "turn-end",
    "StopFailure": "turn-failed",
    "PreCompact": "compact",
    "SessionEnd": "session-end",
}
CONTEXT_FOLLOWS_CALL = True
_ANSWERED_EVENTS = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "tool-before": "PreToolUse",
    "tool-after": "PostToolUse",
    "tool-failed": "PostToolUseFailure",
}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a payload's fields under their names in the spool; empty for a prompt without words."""
    if moment == "prompt" and payload.get("prompt") == "":
        return {}
    return {
        "session": text_field(payload, "session_id") or text_field(environment, "QWEN_CODE_SESSION_ID"),
        "turn": "",
        "transcript": path_field(payload, "transcript_path"),
        "directory": path_field(payload, "cwd") or path_field(environment, "QWEN_PROJECT_DIR"),
        "agent": "",
        "source": text_field(payload, "source") or text_field(payload, "reason") or text_field(payload, "trigger"),
        "answer": answer_hash(payload.get("last_assistant_message")),
        "again": payload.get("stop_hook_active") is True,
    }


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a tool call in the form of `hosts.tool_calls`."""
    from lorelog.hosts.tool_calls import build_call, exit_failed

    result, error = payload.get("tool_response"), payload.get("error")
    failed = exit_failed(result) or (bool(error) and payload.get("is_interrupt") is not True)
    return build_call(
        text_field(payload, "tool_name"),
        payload.get("tool_input", payload),  # a truncated payload has its fields at the top
        call_id=text_field(payload, "tool_call_id") or text_field(payload, "tool_use_id"),
        output=error or result,
        failed=failed,
    ) | {"agent": text_field(payload, "agent_id")}


def answer(moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the host's JSON; an empty object for events whose reply is ignored."""
    event = _ANSWERED_EVENTS.get(moment)
    return hook_answer(event, context, notice, decision) if event else {}
