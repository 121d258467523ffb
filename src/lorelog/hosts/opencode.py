"""OpenCode: our plugin sends its events and passes our replies on.

OpenCode keeps all sessions in one SQLite database. Its plugin API does not give the path, but the path is fixed.
"""

from __future__ import annotations

from lorelog.core.ids import answer_hash
from lorelog.hosts import block_reason, event_fields, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOMENTS = {
    "session.created": "session-start",
    "chat.message": "prompt",
    "tool.execute.before": "tool-before",
    "tool.execute.after": "tool-after",
    "session.idle": "turn-end",
    "session.error": "turn-failed",
    "experimental.session.compacting": "compact",
    "dispose": "session-end",
}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    data, home = path_field(environment, "XDG_DATA_HOME"), path_field(environment, "HOME")
    data = data or (home and f"{home}/.local/share")
    return event_fields(
        payload,
        text_field(payload, "session"),
        path_field(payload, "directory"),
        turn=text_field(payload, "turn"),
        transcript=path_field(payload, "transcript") or (data and f"{data}/opencode/opencode.db"),
        agent=text_field(payload, "agent"),
        source=text_field(payload, "source"),
        answer=answer_hash(payload.get("answer_text")),
        again=False,
    )


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    from lorelog.hosts.tool_calls import build_call

    return build_call(
        text_field(payload, "tool"),
        payload.get("input", payload),  # a truncated payload has its fields at the top
        call_id=text_field(payload, "call"),
        output=payload.get("output"),
        failed=payload.get("failed") is True,
    ) | {"agent": ""}


def answer(moment: str, context: str, notice: str, decision: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the plugin's JSON: context, notice and the reason of a block, if not empty."""
    texts = {"context": context, "notice": notice, "block": block_reason(decision)}
    return {name: text for name, text in texts.items() if text}
