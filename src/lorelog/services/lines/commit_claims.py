"""Reads what a repository claims about the sessions behind a commit: trailers of its message, and notes of other tools.

They came with the repository. They are quoted as evidence, never followed as a path, never obeyed, and never written. A
trailer speaks of the whole commit; a note of git-ai or Agent Trace of lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from lorelog.code.git import BlamedLine, Git

_SESSION_ID = re.compile(r"[\w.:@-]{4,100}")
_HEX = frozenset("0123456789abcdef")
_CHECKPOINT_REFS = ("refs/heads/entire/checkpoints/v1", "refs/remotes/origin/entire/checkpoints/v1")
_AGENTS = ("claude", "codex", "copilot", "gemini", "cursor", "qwen", "opencode", "aider")
"""First words of the names under which agents sign as co-authors."""
_MAX_SESSIONS, _MAX_TRAILERS, _MAX_BLOB_BYTES = 8, 50, 1 << 16


class SessionClaim(Struct, frozen=True):
    """What a repository says about the sessions of a commit, in a trailer, or of a line, in a note."""

    name: str
    """The trailer or the tool, quoted."""
    sessions: tuple[str, ...]
    """Empty if only an agent is named."""
    is_of_line: bool = False


def find_claims(line: BlamedLine) -> list[SessionClaim]:
    """Return what a repository claims about a committed line, the best claim first."""
    git = Git(line.root)
    notes: list[SessionClaim] = []
    trailers = ""
    for ref, read in (("ai", _read_git_ai), ("agent-trace", _read_agent_trace)):
        trailers, note = git.words_of(line.commit, ref) or ("", "")
        try:
            notes += [SessionClaim(name, (session,), is_of_line=True) for name, session in read(note, line)]
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            continue  # somebody else's note, in another format
    return [*notes, *_read_trailers(trailers, git)][:_MAX_SESSIONS]


def _read_trailers(trailers: str, git: Git) -> Iterator[SessionClaim]:
    authors: list[SessionClaim] = []
    for trailer in trailers.splitlines()[:_MAX_TRAILERS]:
        key, _, value = (part.strip() for part in trailer.partition(":"))
        agent = value.partition(" ")[0]
        if key == "Entire-Checkpoint" and len(value) == 12 and set(value) <= _HEX:
            yield SessionClaim(f"{key}: {value}", tuple(_checkpoint_sessions(value, git)))
        elif key.lower().endswith(("session", "session-id")) and _SESSION_ID.fullmatch(value):
            yield SessionClaim(f"{key}: {value}", (value,))
        elif key.lower() == "co-authored-by" and agent.lower() in _AGENTS:
            authors.append(SessionClaim(f"{key}: {agent}", ()))
    yield from authors


def _checkpoint_sessions(checkpoint: str, git: Git) -> Iterator[str]:
    """Yield the sessions of a checkpoint of Entire, from its branch."""
    for ref in _CHECKPOINT_REFS:
        for number in range(_MAX_SESSIONS):
            file = f"{ref}:{checkpoint[:2]}/{checkpoint[2:]}/{number}/metadata.json"
            data = git.run("cat-file", "blob", file, max_bytes=_MAX_BLOB_BYTES)
            if data is None:
                break
            try:
                session = json.loads(data)["session_id"]
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
            if isinstance(session, str) and _SESSION_ID.fullmatch(session):
                yield session


def _read_git_ai(note: str, line: BlamedLine) -> Iterator[tuple[str, str]]:
    """Yield the sessions that a git-ai log (3.0.0) names for a line: files, with keys and their lines, then what keys mean."""
    log, _, about = note.partition("\n---")
    described: Mapping[str, Any] = json.loads(about) if about.strip() else {}
    file = ""
    for entry in log.splitlines():
        if not entry.startswith((" ", "\t")):
            file = entry.strip().strip('"')
            continue
        key, _, ranges = entry.strip().partition(" ")
        if file == line.path and _has_line(ranges, line.number):
            of_key = (described.get(part, {}).get(key) for part in ("prompts", "sessions"))
            agent = next((found["agent_id"] for found in of_key if found), None)
            if agent and _SESSION_ID.fullmatch(agent["id"]):
                yield "git-ai", agent["id"]


def _has_line(ranges: str, number: int) -> bool:
    bounds = (part.partition("-") for part in ranges.split(","))
    return any(int(first) <= number <= int(last or first) for first, _, last in bounds)


def _read_agent_trace(note: str, line: BlamedLine) -> Iterator[tuple[str, str]]:
    """Yield the sessions that a record of Agent Trace names for a line: the last part of a conversation's address."""
    if not note.strip():
        return
    for file in json.loads(note)["files"]:
        for conversation in file["conversations"] if file["path"] == line.path else ():
            ranges = conversation["ranges"]
            if any(part["start_line"] <= line.number <= part["end_line"] for part in ranges):
                session = conversation["url"].rstrip("/").rpartition("/")[2]
                if _SESSION_ID.fullmatch(session):
                    yield "Agent Trace", session
