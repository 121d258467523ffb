"""Claude Code: JSON on standard input, JSON on standard output.

Only `additionalContext` reaches the model; a `systemMessage` is shown to the user. After an API error, a turn ends
with StopFailure instead of Stop.
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
    "Stop": "turn-end",
    "StopFailure": "turn-failed",
    "PreCompact": "compact",
    "SessionEnd": "session-end",
}
_ANSWERED_EVENTS = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}
"""The events whose reply the host reads, with the event name that the reply must repeat."""


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a payload's fields under their names in the spool."""
    return {
        "session": text_field(payload, "session_id") or environment.get("CLAUDE_CODE_SESSION_ID", "")[:512],
        "turn": text_field(payload, "prompt_id"),
        "transcript": path_field(payload, "transcript_path"),
        "directory": path_field(payload, "cwd") or path_field(environment, "CLAUDE_PROJECT_DIR"),
        "agent": "",
        "source": text_field(payload, "source") or text_field(payload, "reason") or text_field(payload, "trigger"),
        "answer": answer_hash(payload.get("last_assistant_message")),
        "again": payload.get("stop_hook_active") is True,
    }


def answer(moment: str, context: str, notice: str) -> dict[str, Any]:
    """Return the host's JSON; an empty object for events whose reply is ignored."""
    return hook_answer(_ANSWERED_EVENTS[moment], context, notice) if moment in _ANSWERED_EVENTS else {}
