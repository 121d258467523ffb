"""OpenClaw: our plugin sends its events and passes our replies on.

Since 2026.8 an agent's sessions are in one SQLite database; before, each was a JSONL file. The transcript in a hook's
payload differs between versions (a path, a session key, nothing), so the first existing file is used.
"""

from __future__ import annotations

from os import path

from lorelog.hosts import answer_hash, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# ruff: noqa: PTH113  (pathlib takes longer to import than a hook should take)

MOMENTS = {
    "session_start": "session-start",
    "before_prompt_build": "prompt",
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


def answer(moment: str, context: str, notice: str) -> dict[str, Any]:
    """Return the plugin's JSON: context and notice, if not empty."""
    return {name: text for name, text in (("context", context), ("notice", notice)) if text}


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
