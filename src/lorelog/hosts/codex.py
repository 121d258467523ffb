"""Codex: the hooks of Claude Code with an id for each turn, and rollouts as transcripts."""

from __future__ import annotations

from lorelog.hosts import claude, claude_answer, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    event: moment for event, moment in claude.MOMENTS.items() if event not in {"PostToolUseFailure", "StopFailure"}
}
answer = claude_answer(MOMENTS)


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    return claude.read_event(moment, payload, {}) | {"turn": text_field(payload, "turn_id")}


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a tool call in the form of `hosts.tool_calls`.

    Codex has no event for a failed call and reports no exit status, so its output has to tell.
    """
    from lorelog.hosts.tool_calls import build_call, cut_output, exit_failed, looks_failed, output_text

    result = payload.get("tool_response")
    return build_call(
        text_field(payload, "tool_name"),
        payload.get("tool_input", payload),  # a truncated payload has its fields at the top
        call_id=text_field(payload, "tool_use_id"),
        output=result,
        failed=exit_failed(result) or looks_failed(cut_output(output_text(result))),
    ) | {"agent": text_field(payload, "agent_id")}
