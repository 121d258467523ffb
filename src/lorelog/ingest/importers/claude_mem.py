"""Reads claude-mem: its SQLite database, or the JSON that its export script writes.

Columns vary by version, so only those that are there are read. Observations are memories: they were written by a model, and keep
its name as author. Session summaries are archive material. Prompts are left out: `lorelog backfill` reads the conversations
themselves. Observations of the type `sensitive` are left out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import SourceError
from lorelog.ingest.importers.export_files import database_tables, file_head
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    clean_type,
    list_of,
    parse_time,
    text_of,
)
from lorelog.ingest.transcripts.json_files import (
    bounded_column,
    open_database,
    read_members,
    table_columns,
)
from lorelog.ingest.transcripts.turns import TranscriptStats

_TYPES = {"bugfix": "lesson", "discovery": "fact", "change": "fact", "refactor": "fact", "feature": "fact"}
_SENSITIVE_TYPES = frozenset({"sensitive"})
_TABLES = {"observations": "observation", "session_summaries": "session summary"}
_ARRAYS = {"observations": "observations", "summaries": "session_summaries", "sessions": "", "prompts": ""}
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_MAX_FILES = 20


class ClaudeMemSource:
    """A database or an export of claude-mem."""

    name = "claude-mem"
    title = "claude-mem"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the database in the home."""
        path = places.home / ".claude-mem" / "claude-mem.db"
        if path.is_file():
            yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a path is its folder, its database or its export."""
        if (path / "claude-mem.db").is_file():
            return True
        if {"observations", "sdk_sessions"} <= database_tables(path):
            return True
        head = file_head(path)
        return head.startswith("{") and '"exportedAtEpoch"' in head

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield observations and session summaries."""
        path = path / "claude-mem.db" if path.is_dir() else path
        if file_head(path).startswith("{"):
            yield from _read_export(path)
        else:
            yield from _read_database(path)


def _read_database(path: Path) -> Iterator[ImportedItem]:
    with open_database(str(path)) as connection:
        columns = table_columns(connection)
        if "observations" not in columns:
            raise SourceError(f"{path} has no observations", hint="name the file claude-mem.db of claude-mem")
        sessions = _read_sessions(connection, columns)
        for table, kind in _TABLES.items():
            for row in _rows(connection, table, columns.get(table, frozenset())):
                yield _read_row(row, kind, sessions)


def _rows(connection: sqlite3.Connection, table: str, columns: frozenset[str]) -> Iterator[dict[str, Any]]:
    if not columns:
        return
    names = sorted(name for name in columns if name.isidentifier())
    chosen = ", ".join(f'{bounded_column(f"{chr(34)}{name}{chr(34)}")} AS "{name}"' for name in names)
    order = "created_at_epoch, id" if {"created_at_epoch", "id"} <= columns else "rowid"
    for values in connection.execute(f'SELECT {chosen} FROM "{table}" ORDER BY {order}'):  # noqa: S608  (names of its own schema)
        yield dict(zip(names, values, strict=True))


def _read_sessions(connection: sqlite3.Connection, columns: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return Claude's session ids by claude-mem's."""
    if not {"memory_session_id", "content_session_id"} <= columns.get("sdk_sessions", frozenset()):
        return {}
    rows = connection.execute("SELECT memory_session_id, content_session_id FROM sdk_sessions")
    return {str(ours): str(theirs) for ours, theirs in rows if ours and theirs}


def _read_export(path: Path) -> Iterator[ImportedItem]:
    # Sessions follow the observations that name them, and the file may be large: it is read twice.
    sessions = {
        value["memory_session_id"]: text_of(value.get("content_session_id"))
        for name, value in read_members(str(path), frozenset(_ARRAYS), TranscriptStats())
        if name == "sessions" and isinstance(value, dict) and text_of(value.get("memory_session_id"))
    }
    stats = TranscriptStats()
    for name, value in read_members(str(path), frozenset(_ARRAYS), stats):
        if isinstance(value, dict) and _ARRAYS.get(name):
            yield _read_row(value, _TABLES[_ARRAYS[name]], sessions)
    if stats.broken:
        yield SkippedItem(path.name, "the file ends unexpectedly")


def _read_row(row: Mapping[str, Any], kind: str, sessions: Mapping[str, str]) -> ImportedItem:
    place = f"{kind} {row.get('id', '?')}"
    if text_of(row.get("type")) in _SENSITIVE_TYPES:
        return SkippedItem(place, "claude-mem marked it as sensitive")
    text = _observation_text(row) if kind == "observation" else _summary_text(row)
    if not text:
        return SkippedItem(place, "it has no text")
    session = sessions.get(text_of(row.get("memory_session_id")), "")
    native = text_of(row.get("type"))
    is_observation = kind == "observation"
    concepts = _texts(row.get("concepts")) if is_observation else []
    return ImportedEntry(
        text=text,
        kind=kind,
        place=place,
        type=clean_type(_TYPES.get(native, native)) if is_observation else "",
        tags=clean_tags(native, *concepts),
        at=parse_time(row.get("created_at_epoch")) or parse_time(row.get("created_at")),
        author=text_of(row.get("generated_by_model")) or text_of(row.get("agent_type")),
        project=text_of(row.get("merged_into_project")) or text_of(row.get("project")),
        anchor=(("session", session),) if session else (),
        archive=not is_observation,
    )


def _observation_text(row: Mapping[str, Any]) -> str:
    title = text_of(row.get("title"))
    body = text_of(row.get("narrative")) or text_of(row.get("text")) or text_of(row.get("subtitle"))
    facts = [f"- {fact}" for fact in _texts(row.get("facts"))]
    files = [f"`{name}`" for name in _texts(row.get("files_modified"))[:_MAX_FILES]]
    if not (title or body or facts):
        return ""
    parts = [f"**{title}**" if title else "", body, "\n".join(facts), f"Files: {', '.join(files)}" if files else ""]
    return "\n\n".join(filter(None, parts))


def _summary_text(row: Mapping[str, Any]) -> str:
    parts = [(name, text_of(row.get(name))) for name in _SUMMARY_PARTS]
    return "\n\n".join(f"**{name.replace('_', ' ').capitalize()}**\n\n{text}" for name, text in parts if text)


def _texts(value: object) -> list[str]:
    """Return the texts of a list, or of a JSON array in a text."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return [text for item in list_of(value) if (text := text_of(item))]


SOURCE = ClaudeMemSource()
