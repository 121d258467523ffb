"""GitHub Copilot CLI: hooks in a file of ours, with fields in camel case and replies without an envelope.

Only the end of a turn names the transcript, whose place is fixed. Context before a tool call is in the next request only,
so memories follow with the result, where they stay.
"""

from __future__ import annotations

from lorelog.hosts import block_reason, event_fields, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    "sessionStart": "session-start",
    "userPromptSubmitted": "prompt",
    "preToolUse": "tool-before",
    "postToolUse": "tool-after",
    "postToolUseFailure": "tool-failed",
    "agentStop": "turn-end",
    "preCompact": "compact",
    "sessionEnd": "session-end",
}
CONTEXT_FOLLOWS_CALL = True
_END_EVENTS = {moment: event for event, moment in MOMENTS.items() if moment in {"turn-end", "session-end"}}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    session, time = text_field(payload, "sessionId"), payload.get("timestamp")
    home = path_field(environment, "HOME")
    root = path_field(environment, "COPILOT_HOME") or (f"{home}/.copilot" if home else "")
    is_known = root and session and "/" not in session
    # The host writes its transcript late. Once it holds the line about this hook, as `ingest.transcripts.copilot` names
    # it, it holds the turn that ended.
    is_end = moment in _END_EVENTS and isinstance(time, int)
    return event_fields(
        payload,
        session,
        path_field(payload, "cwd") or path_field(environment, "COPILOT_PROJECT_DIR"),
        turn=f"{_END_EVENTS[moment]}@{time}" if is_end else "",
        transcript=path_field(payload, "transcriptPath")
        or (f"{root}/session-state/{session}/events.jsonl" if is_known else ""),
    )


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    from lorelog.hosts.tool_calls import build_call, names_exit_code

    result, error = payload.get("toolResult"), payload.get("error")
    output = result.get("textResultForLlm") if isinstance(result, dict) else result
    kind = result.get("resultType", "success") if isinstance(result, dict) else "success"
    return build_call(
        text_field(payload, "toolName"),
        payload.get("toolArgs", payload),  # a truncated payload has its fields at the top
        output=error or output,
        failed=bool(error) or kind == "failure" or names_exit_code(output),
    ) | {"agent": ""}


def answer(moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the host's JSON. A hook of Copilot cannot show a notice to the user."""
    reason = block_reason(decision)
    if reason:
        return {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"additionalContext": context} if context else {}
