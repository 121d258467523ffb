"""Finds the conversations that a host keeps on this machine, for backfilling.

Only the hosts' folders are read. Unreadable files are skipped here; capturing them reports the reason.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from lorelog.core.errors import LorelogError
from lorelog.hosts import TRANSCRIPT_FILES, host_data_folder
from lorelog.ingest.transcripts.conversation import (
    Conversation,
    ConversationHead,
    open_conversation,
    read_conversation_head,
)
from lorelog.ingest.transcripts.json_files import open_database, table_columns

# Patterns with `**` in folders of tens of thousands of files: `os` and `glob` rather than pathlib.
# ruff: noqa: PTH113, PTH118, PTH119, PTH120, PTH207


class HostSession(Struct, frozen=True, kw_only=True):
    """A conversation kept by a host."""

    host: str
    session: str
    transcript: str
    directory: str
    branch: str = ""
    agent: str = ""
    changed: float = 0.0
    """Modification time of its file, or of its row in a database; seconds since 1970."""


_FILES = {"codex": ("sessions/**/*.jsonl*", "archived_sessions/**/*.jsonl*"), "opencode": ()}
_DATABASES = {"opencode": "opencode*.db", "openclaw": "agents/*/agent/openclaw-agent.sqlite"}
"""Conversations below a host's folder, where `TRANSCRIPT_FILES` does not name all of them."""


def find_host_sessions(host: str, environment: Mapping[str, str]) -> Iterator[HostSession]:
    """Yield the main conversations of a host, without those of subagents."""
    base = host_data_folder(host, environment)
    for pattern in _FILES[host] if host in _FILES else (TRANSCRIPT_FILES[host],):
        for path in _files_by_age(os.path.join(base, pattern)):
            yield from _sessions_in_file(host, path, _agent_of(host, path))
    if host in _DATABASES:
        for path in _files_by_age(os.path.join(base, _DATABASES[host])):
            yield from _sessions_in_database(host, path, _agent_of(host, path))


def _agent_of(host: str, path: str) -> str:
    """Return the agent of OpenClaw that a file belongs to; empty for other hosts."""
    return os.path.basename(os.path.dirname(os.path.dirname(path))) if host == "openclaw" else ""


def _files_by_age(pattern: str) -> list[str]:
    """Return files, oldest first: a conversation comes before its forks."""
    files = [(_modified_at(path), path) for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    return [path for _, path in sorted(files)]


def _sessions_in_file(host: str, path: str, agent: str) -> Iterator[HostSession]:
    with suppress(LorelogError):
        conversation = open_conversation(path)
        if conversation.host == host:
            head = read_conversation_head(conversation)
            if not head.is_sidechain:
                yield _make_session(conversation, head, agent, _modified_at(path))


def _sessions_in_database(host: str, path: str, agent: str) -> Iterator[HostSession]:
    for session, changed in _database_rows(host, path):
        with suppress(LorelogError):
            conversation = open_conversation(path, session)
            head = read_conversation_head(conversation)
            if conversation.host == host and not head.is_sidechain:
                yield _make_session(conversation, head, agent, changed or _modified_at(path))


def _database_rows(host: str, path: str) -> list[tuple[str, float]]:
    with suppress(LorelogError), open_database(path) as connection:
        if host == "openclaw":
            query = "SELECT session_id, 0 FROM transcript_events GROUP BY session_id ORDER BY min(rowid)"
        else:
            columns = table_columns(connection).get("session", frozenset())
            clock = "time_updated" if "time_updated" in columns else "0"
            order = "time_created" if "time_created" in columns else "rowid"
            query = f"SELECT id, {clock} FROM session WHERE parent_id IS NULL ORDER BY {order}"  # noqa: S608
        return [(str(session), (changed or 0) / 1000) for session, changed in connection.execute(query)]
    return []


def _make_session(conversation: Conversation, head: ConversationHead, agent: str, changed: float) -> HostSession:
    name = os.path.basename(conversation.path).partition(".jsonl")[0]
    return HostSession(
        host=conversation.host,
        session=head.session or conversation.session or name,
        transcript=conversation.path,
        directory=head.directory,
        branch=head.branch,
        agent=agent,
        changed=changed,
    )


def _modified_at(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0
