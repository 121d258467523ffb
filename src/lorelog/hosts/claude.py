"""Claude Code: JSON on standard input, JSON on standard output.

Only `additionalContext` reaches the model; a `systemMessage` is for the person. An API error ends a turn with StopFailure in
the place of Stop.
"""

from __future__ import annotations

from lorelog.hosts.fields import answer_mark, hook_answer, place, word

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
_HEARD = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}
"""The moments at which a hook is listened to, by the name that the answer must repeat."""


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a payload tells, in the words of the spool."""
    return {
        "session": word(payload, "session_id") or environment.get("CLAUDE_CODE_SESSION_ID", "")[:512],
        "turn": word(payload, "prompt_id"),
        "transcript": place(payload, "transcript_path"),
        "directory": place(payload, "cwd") or place(environment, "CLAUDE_PROJECT_DIR"),
        "agent": "",
        "source": word(payload, "source") or word(payload, "reason") or word(payload, "trigger"),
        "answer": answer_mark(payload.get("last_assistant_message")),
        "again": payload.get("stop_hook_active") is True,
    }


def answer(moment: str, context: str, notice: str) -> dict[str, Any]:
    """Return the host's JSON; at moments when nobody listens, an empty object."""
    return hook_answer(_HEARD[moment], context, notice) if moment in _HEARD else {}
