"""OpenCode: our plugin there speaks for it, and puts what it hears where OpenCode wants it.

OpenCode keeps all sessions in one SQLite database. Its plugin interface does not say where, but its place is fixed.
"""

from __future__ import annotations

from lorelog.hosts.fields import answer_mark, place, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    "session.created": "session-start",
    "chat.message": "prompt",
    "session.idle": "turn-end",
    "session.error": "turn-failed",
    "experimental.session.compacting": "compact",
    "dispose": "session-end",
}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a payload tells, in the words of the spool."""
    return {
        "session": word(payload, "session"),
        "turn": word(payload, "turn"),
        "transcript": place(payload, "transcript") or _database(environment),
        "directory": place(payload, "directory"),
        "agent": word(payload, "agent"),
        "source": word(payload, "source"),
        "answer": answer_mark(payload.get("answer_text")),
        "again": False,
    }


def answer(moment: str, context: str, notice: str) -> dict[str, Any]:
    """Return what the plugin reads: both words, where there is anything to say."""
    return {name: text for name, text in (("context", context), ("notice", notice)) if text}


def _database(environment: Mapping[str, str]) -> str:
    data = place(environment, "XDG_DATA_HOME")
    home = place(environment, "HOME")
    if not data and home:
        data = f"{home}/.local/share"
    return f"{data}/opencode/opencode.db" if data else ""
