"""OpenClaw: our plugin sends its events and passes our replies on.

Since 2026.8 an agent's sessions are in one SQLite database; before, each was a JSONL file. The transcript in a hook's
payload differs between versions (a path, a session key, nothing), so the first existing file is used.
"""

from __future__ import annotations

from os import path

from lorelog.hosts import answer_hash, path_field, plugin_answer, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


MOMENTS = {
    "session_start": "session-start",
    "before_prompt_build": "prompt",
    "before_tool_call": "tool-before",
    "tool_result": "tool-after",
    "agent_end": "turn-end",
    "agent_failed": "turn-failed",
    "before_compaction": "compact",
    "session_end": "session-end",
}


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a payload's fields under their names in the spool."""
    agent, session = text_field(payload, "agent"), text_field(payload, "session")
    return {
        "session": session,
        "turn": text_field(payload, "turn"),
        "transcript": _find_transcript(payload, agent or "main", session, environment),
        "directory": path_field(payload, "directory"),
        "agent": agent,
        "source": text_field(payload, "source"),
        "answer": answer_hash(payload.get("answer_text")),
        "again": False,
    }


def read_tool_call(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a tool call in the form of `hosts.tool_calls`."""
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
    return plugin_answer(context, notice, decision)


def _find_transcript(payload: dict[str, Any], agent: str, session: str, environment: Mapping[str, str]) -> str:
    """Return the first existing candidate, else the first: it may be written a moment later."""
    candidates = [*_reported_transcripts(payload), *_default_transcripts(agent, session, environment)]
    return next((candidate for candidate in candidates if path.isfile(candidate)), candidates[0] if candidates else "")


def _reported_transcripts(payload: dict[str, Any]) -> Iterator[str]:
    reported = payload.get("transcript")
    for entry in reported[:16] if isinstance(reported, list) else [reported]:
        if transcript := path_field({"transcript": entry}, "transcript"):
            yield transcript


def _default_transcripts(agent: str, session: str, environment: Mapping[str, str]) -> Iterator[str]:
    home = path_field(environment, "HOME")
    state = path_field(environment, "OPENCLAW_STATE_DIR") or (home and f"{home}/.openclaw")
    if not state or not _is_file_name(agent):
        return
    # The database first: if both exist, the file is left over from an older version.
    yield f"{state}/agents/{agent}/agent/openclaw-agent.sqlite"
    if _is_file_name(session):
        yield f"{state}/agents/{agent}/sessions/{session}.jsonl"


def _is_file_name(text: str) -> bool:
    """Return True if a text is a plain file name: it is untrusted and must not contain a path."""
    return bool(text) and "/" not in text and text not in {".", ".."}
