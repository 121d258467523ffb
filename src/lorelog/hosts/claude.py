"""Claude Code: JSON on standard input, JSON on standard output.

Only `additionalContext` reaches the model; a `systemMessage` is shown to the user. After an API error, a turn ends
with StopFailure instead of Stop.
"""

from __future__ import annotations

from lorelog.core.ids import answer_hash
from lorelog.hosts import claude_answer, event_fields, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    "SessionStart": "session-start",
    "SubagentStart": "subagent-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "tool-before",
    "PostToolUse": "tool-after",
    "PostToolUseFailure": "tool-failed",
    "Stop": "turn-end",
    "StopFailure": "turn-failed",
    "PreCompact": "compact",
    "SessionEnd": "session-end",
}
answer = claude_answer(MOMENTS)


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    return event_fields(
        payload,
        text_field(payload, "session_id") or environment.get("CLAUDE_CODE_SESSION_ID", "")[:512],
        path_field(payload, "cwd") or path_field(environment, "CLAUDE_PROJECT_DIR"),
        turn=text_field(payload, "prompt_id"),
        answer=answer_hash(payload.get("last_assistant_message")),
    )


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    from lorelog.hosts.tool_calls import build_call, exit_failed

    result, error = payload.get("tool_response"), payload.get("error")
    failed = exit_failed(result) or (bool(error) and payload.get("is_interrupt") is not True)
    return build_call(
        text_field(payload, "tool_name"),
        payload.get("tool_input", payload),  # a truncated payload has its fields at the top
        call_id=text_field(payload, "tool_use_id"),
        output=error or result,
        failed=failed,
    ) | {"agent": text_field(payload, "agent_id")}
