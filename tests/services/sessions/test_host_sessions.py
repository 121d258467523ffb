"""Conversations of hosts found for backfilling: filed by what is recorded in them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lorelog.services.sessions.transcripts import SeenTranscripts, find_host_sessions

AT = "2026-11-16T10:00:00.000Z"
HERE = "/src/app-one"
"""Its folder in Claude Code and Qwen Code, -src-app-one, is also that of /src/app/one."""
CLAUDE = {"sessionId": "s", "uuid": "u", "parentUuid": None, "timestamp": AT, "type": "user", "cwd": HERE}
SESSIONS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "claude": (".claude/projects/-src-app/s.jsonl", [{**CLAUDE, "message": {"role": "user", "content": "Go"}}]),
    "codex": (
        ".codex/sessions/2026/11/16/rollout-2026-11-16T10-00-00-s.jsonl",
        [{"timestamp": AT, "type": "session_meta", "payload": {"id": "s", "cwd": HERE, "timestamp": AT}}],
    ),
    "gemini": (
        ".gemini/tmp/app/chats/session-s.jsonl",
        [
            {"sessionId": "s", "projectHash": hashlib.sha256(HERE.encode()).hexdigest(), "startTime": AT},
            {"id": "u", "timestamp": AT, "type": "user", "content": [{"text": "Go"}]},
        ],
    ),
    "qwen": (
        ".qwen/projects/-src-app/chats/s.jsonl",
        [{**CLAUDE, "version": "0.24.4", "message": {"role": "user", "parts": [{"text": "Go"}]}}],
    ),
    "copilot": (
        ".copilot/session-state/s/events.jsonl",
        [
            {
                "type": "session.start",
                "data": {"sessionId": "s", "context": {"cwd": HERE}},
                "id": "e",
                "timestamp": AT,
                "parentId": None,
            }
        ],
    ),
}


def write_session(host: str, home: Path) -> None:
    """Write a session of /src/app-one into the folder of another project."""
    name, records = SESSIONS[host]
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "projects.json").write_text(json.dumps({"projects": {"/src/app": "app", HERE: "app-one"}}))


@pytest.mark.parametrize("host", SESSIONS)
def test_a_session_is_filed_by_the_directory_recorded_in_it(host: str, tmp_path: Path) -> None:
    """A session in the folder of another project belongs to the directory that the session itself names."""
    write_session(host, Path.home())

    (found,) = find_host_sessions(host, {}, SeenTranscripts(tmp_path))

    assert (found.host, found.directory) == (host, HERE)


@pytest.mark.parametrize("host", SESSIONS)
def test_a_session_without_a_directory_is_not_filed_by_its_folder(host: str, tmp_path: Path) -> None:
    """Without a recorded directory a session has none, whatever its folder is called."""
    write_session(host, Path.home())
    path = Path.home() / SESSIONS[host][0]
    text = path.read_text().replace(json.dumps(HERE), '""')
    path.write_text(text.replace(hashlib.sha256(HERE.encode()).hexdigest(), "0" * 64))

    assert [found.directory for found in find_host_sessions(host, {}, SeenTranscripts(tmp_path))] == [""]
