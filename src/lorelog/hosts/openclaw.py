"""OpenClaw: our plugin sends its events and passes our replies on.

Since 2026.8 an agent's sessions are in one SQLite database; before, each was a JSONL file. The transcript in a hook's
payload differs between versions (a path, a session key, nothing), so the first existing file is used.
"""

from __future__ import annotations

from os import path

from lorelog.hosts import opencode, path_field, text_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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


answer, read_tool_call = opencode.answer, opencode.read_tool_call  # both plugins send and expect the same JSON


def read_event(moment: str, payload: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    given = payload.get("transcript")
    entries = given[:16] if isinstance(given, list) else [given]
    candidates = [*filter(None, (path_field({"transcript": entry}, "transcript") for entry in entries))]
    agent, session = text_field(payload, "agent") or "main", text_field(payload, "session")
    home = path_field(environment, "HOME")
    state = path_field(environment, "OPENCLAW_STATE_DIR") or (home and f"{home}/.openclaw")
    if state and _is_file_name(agent):
        # The database first: if both exist, the file is left over from an older version.
        candidates.append(f"{state}/agents/{agent}/agent/openclaw-agent.sqlite")
        if _is_file_name(session):
            candidates.append(f"{state}/agents/{agent}/sessions/{session}.jsonl")
    # The first that exists, else the first: it may be written a moment later.
    transcript = next(filter(path.isfile, candidates), candidates[0] if candidates else "")
    return {**opencode.read_event(moment, payload, environment), "transcript": transcript}


def _is_file_name(text: str) -> bool:
    """Return True if a text is a plain file name: it is untrusted and must not contain a path."""
    return bool(text) and "/" not in text and text not in {".", ".."}
