"""OpenClaw: our plugin there speaks for it, and puts what it hears where OpenClaw wants it.

Since 2026.8 an agent's sessions are in one SQLite database; before, each was a JSONL file. What a hook is told of it differs
from version to version (a path, a session key, nothing), so the file that is there is looked for.
"""

from __future__ import annotations

from os import path

from lorelog.hosts.fields import answer_mark, place, word

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
    """Return what a payload tells, in the words of the spool."""
    agent, session = word(payload, "agent"), word(payload, "session")
    return {
        "session": session,
        "turn": word(payload, "turn"),
        "transcript": _transcript(payload, agent or "main", session, environment),
        "directory": place(payload, "directory"),
        "agent": agent,
        "source": word(payload, "source"),
        "answer": answer_mark(payload.get("answer_text")),
        "again": False,
    }


def answer(moment: str, context: str, notice: str) -> dict[str, Any]:
    """Return what the plugin reads: both words, where there is anything to say."""
    return {name: text for name, text in (("context", context), ("notice", notice)) if text}


def _transcript(payload: dict[str, Any], agent: str, session: str, environment: Mapping[str, str]) -> str:
    """Return the first candidate that is there, else the first: it may be written a moment later."""
    candidates = [*_told(payload), *_usual(agent, session, environment)]
    return next((one for one in candidates if path.isfile(one)), candidates[0] if candidates else "")


def _told(payload: dict[str, Any]) -> Iterator[str]:
    told = payload.get("transcript")
    for one in told[:16] if isinstance(told, list) else [told]:
        if found := place({"one": one}, "one"):
            yield found


def _usual(agent: str, session: str, environment: Mapping[str, str]) -> Iterator[str]:
    home = place(environment, "HOME")
    state = place(environment, "OPENCLAW_STATE_DIR") or (home and f"{home}/.openclaw")
    if not state or not _is_name(agent):
        return
    # The database first: where both are there, the file is what an older version left behind.
    yield f"{state}/agents/{agent}/agent/openclaw-agent.sqlite"
    if _is_name(session):
        yield f"{state}/agents/{agent}/sessions/{session}.jsonl"


def _is_name(text: str) -> bool:
    """Say whether a text can be the name of one file: it comes from outside, and must not lead elsewhere."""
    return bool(text) and "/" not in text and text not in {".", ".."}
