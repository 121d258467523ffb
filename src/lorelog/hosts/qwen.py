"""Qwen Code: the hooks of Claude Code in an extension, with other environment variables and without ids of prompts.

What a hook answers before a tool call reaches the model only if it stops the call, so memories follow with the result.
After each tool call the prompt hook runs again without a prompt, which is not an event.
"""

from __future__ import annotations

from lorelog.hosts import claude, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = claude.MOMENTS
CONTEXT_FOLLOWS_CALL = True
answer = claude.answer


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a payload's fields under their names in the spool; empty for a prompt without words."""
    if moment == "prompt" and payload.get("prompt") == "":
        return {}
    event = claude.read_event(moment, payload, {})
    return event | {
        "session": event["session"] or text_field(environment, "QWEN_CODE_SESSION_ID"),
        "turn": "",
        "directory": event["directory"] or path_field(environment, "QWEN_PROJECT_DIR"),
    }


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    call = claude.read_tool_call(payload)
    return call | {"id": text_field(payload, "tool_call_id") or call["id"]}
