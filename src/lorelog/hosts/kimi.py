"""Kimi Code: Claude Code's events in a plugin, with replies of its own.

Only the reply to a prompt reaches the model, and a block before a tool call; the context of a session's start follows with
its first prompt. No payload names the transcript, which lies in a folder of the session.
"""

from __future__ import annotations

import os

from lorelog.hosts import block_reason, claude, host_data_folder, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {event: moment for event, moment in claude.MOMENTS.items() if moment != "subagent-start"}
CONTEXT_FOLLOWS_CALL = True
START_WITH_PROMPT = True


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    event = claude.read_event(moment, payload, {})
    folder = f"{host_data_folder('kimi', environment, environment.get('HOME', ''))}/sessions"
    name = event["session"]
    try:
        places = os.listdir(folder) if name and "/" not in name else []
    except OSError:
        places = []
    paths = (f"{folder}/{place}/{name}/agents/main/wire.jsonl" for place in places)
    return event | {"transcript": next(filter(os.path.isfile, paths), "")}


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    call = claude.read_tool_call(payload | {"tool_response": payload.get("tool_output")})
    return call | {"id": text_field(payload, "tool_call_id")}


def answer(moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the host's JSON; an empty object for events whose reply is ignored."""
    reason = block_reason(decision)
    if moment == "tool-before" and reason:
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": reason}}
    return {"message": context} if moment == "prompt" and context else {}
