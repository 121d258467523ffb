"""Codex: the hooks of Claude Code with an id for each turn, and a rollout for a transcript."""

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
    "PreCompact": "compact",
    "SessionEnd": "session-end",
}
_HEARD = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a payload tells, in the words of the spool."""
    return {
        "session": word(payload, "session_id"),
        "turn": word(payload, "turn_id"),
        "transcript": place(payload, "transcript_path"),
        "directory": place(payload, "cwd"),
        "agent": "",
        "source": word(payload, "source") or word(payload, "reason") or word(payload, "trigger"),
        "answer": answer_mark(payload.get("last_assistant_message")),
        "again": payload.get("stop_hook_active") is True,
    }


def answer(moment: str, context: str, notice: str) -> dict[str, Any]:
    """Return the host's JSON; at moments when nobody listens, an empty object."""
    return hook_answer(_HEARD[moment], context, notice) if moment in _HEARD else {}
