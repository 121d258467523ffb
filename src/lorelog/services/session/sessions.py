"""Which conversations a host keeps on this machine, and where each was held: for backfilling.

Hosts are asked nothing: their folders are looked through. What cannot be read is passed over here; capturing it says why.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lorelog.core.errors import LorelogError
from lorelog.ingest.transcripts.databases import open_database, tables
from lorelog.ingest.transcripts.detect import Conversation, open_conversation
from lorelog.ingest.transcripts.heads import Head, read_head

# Patterns with `**` in folders of tens of thousands of files: `os` and `glob` rather than pathlib.
# ruff: noqa: PTH111, PTH113, PTH118, PTH119, PTH120, PTH207


@dataclass(frozen=True, slots=True)
class HostSession:
    """A conversation that a host keeps."""

    host: str
    session: str
    transcript: str
    directory: str
    branch: str = ""
    agent: str = ""
    changed: float = 0.0
    """When its file was last written, seconds since 1970; of a database, when the session was."""


def find_sessions(host: str, environment: Mapping[str, str]) -> Iterator[HostSession]:
    """Yield the main conversations of a host; those of subagents are part of others."""
    finders = {"claude": _of_claude, "codex": _of_codex, "opencode": _of_opencode, "openclaw": _of_openclaw}
    yield from finders[host](environment)


def _of_claude(environment: Mapping[str, str]) -> Iterator[HostSession]:
    base = environment.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    for path in _files(os.path.join(base, "projects", "*", "*.jsonl")):
        yield from _of_file("claude", path)


def _of_codex(environment: Mapping[str, str]) -> Iterator[HostSession]:
    base = environment.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    for folder in ("sessions", "archived_sessions"):
        for path in _files(os.path.join(base, folder, "**", "*.jsonl*")):
            yield from _of_file("codex", path)


def _of_opencode(environment: Mapping[str, str]) -> Iterator[HostSession]:
    base = environment.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    for path in _files(os.path.join(base, "opencode", "opencode*.db")):
        yield from _of_database("opencode", path, "")


def _of_openclaw(environment: Mapping[str, str]) -> Iterator[HostSession]:
    base = environment.get("OPENCLAW_STATE_DIR") or os.path.expanduser("~/.openclaw")
    for path in _files(os.path.join(base, "agents", "*", "sessions", "*.jsonl")):
        agent = os.path.basename(os.path.dirname(os.path.dirname(path)))
        yield from _of_file("openclaw", path, agent)
    for path in _files(os.path.join(base, "agents", "*", "agent", "openclaw-agent.sqlite")):
        yield from _of_database("openclaw", path, os.path.basename(os.path.dirname(os.path.dirname(path))))


def _files(pattern: str) -> list[str]:
    """Return files by their age, oldest first: of a conversation and its fork the first is the one that was there before."""
    found = [(path, _changed(path)) for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    return [path for path, _ in sorted(found, key=lambda one: (one[1], one[0]))]


def _of_file(host: str, path: str, agent: str = "") -> Iterator[HostSession]:
    with suppress(LorelogError):
        conversation = open_conversation(path)
        if conversation.host == host:
            head = read_head(conversation)
            if not head.side:
                yield _session(conversation, head, agent, _changed(path))


def _of_database(host: str, path: str, agent: str) -> Iterator[HostSession]:
    for session, changed in _rows(host, path):
        with suppress(LorelogError):
            conversation = open_conversation(path, session)
            head = read_head(conversation)
            if conversation.host == host and not head.side:
                yield _session(conversation, head, agent, changed or _changed(path))


def _rows(host: str, path: str) -> list[tuple[str, float]]:
    with suppress(LorelogError), open_database(path) as connection:
        if host == "openclaw":
            query = "SELECT session_id, 0 FROM transcript_events GROUP BY session_id ORDER BY min(rowid)"
        else:
            known = tables(connection).get("session", frozenset())
            clock = "time_updated" if "time_updated" in known else "0"
            order = "time_created" if "time_created" in known else "rowid"
            query = f"SELECT id, {clock} FROM session WHERE parent_id IS NULL ORDER BY {order}"  # noqa: S608
        return [(str(session), (changed or 0) / 1000) for session, changed in connection.execute(query)]
    return []


def _session(conversation: Conversation, head: Head, agent: str, changed: float) -> HostSession:
    name = os.path.basename(conversation.path).partition(".jsonl")[0]
    session = head.session or conversation.session or name
    return HostSession(conversation.host, session, conversation.path, head.directory, head.branch, agent, changed)


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime  # noqa: PTH116
    except OSError:
        return 0.0
