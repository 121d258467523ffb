"""Gemini CLI: hooks in an extension, which speak JSON like those of Claude Code, with other names.

What a hook answers before a tool call does not reach the model, so memories follow with the result. The context of a
session's start stands in front of the first prompt, in `hook_context`. There are no ids of turns, and the answer that a
turn's end reports is put together of fragments, so the transcript decides which turns have ended.
"""

from __future__ import annotations

from lorelog.hosts import block_reason, event_fields, hook_answer, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    "SessionStart": "session-start",
    "BeforeAgent": "prompt",
    "BeforeTool": "tool-before",
    "AfterTool": "tool-after",
    "AfterAgent": "turn-end",
    "SessionEnd": "session-end",
}
CONTEXT_FOLLOWS_CALL = True
_ANSWERED_EVENTS = {"session-start": "SessionStart", "prompt": "BeforeAgent", "tool-after": "AfterTool"}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    session = text_field(payload, "session_id") or text_field(environment, "GEMINI_SESSION_ID")
    return event_fields(payload, session, path_field(payload, "cwd") or path_field(environment, "GEMINI_CWD"))


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    from lorelog.hosts.tool_calls import build_call, exit_failed, names_exit_code

    result = payload.get("tool_response")
    output = result.get("llmContent") if isinstance(result, dict) else result
    error = result.get("error") if isinstance(result, dict) else None
    return build_call(
        text_field(payload, "tool_name"),
        payload.get("tool_input", payload),  # a truncated payload has its fields at the top
        output=output or error,
        failed=bool(error) or exit_failed(result) or names_exit_code(output),
    ) | {"agent": ""}


def answer(moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the host's JSON; an empty object for events whose reply is ignored."""
    if moment == "tool-before":
        reason = block_reason(decision)
        return {"decision": "deny", "reason": reason} if reason else {}
    event = _ANSWERED_EVENTS.get(moment)
    return hook_answer(event, context, notice) if event else {}
