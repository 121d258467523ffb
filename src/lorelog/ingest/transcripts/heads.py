"""What a conversation tells of itself before anything is said: where it was held, since when, and what it was forked from."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from lorelog.core.errors import LorelogError
from lorelog.ingest.transcripts.building import Record, Tally, instant, kind_of, record_of, text_of
from lorelog.ingest.transcripts.databases import open_database, tables
from lorelog.ingest.transcripts.detect import Conversation
from lorelog.ingest.transcripts.documents import read_members
from lorelog.ingest.transcripts.lines import parse, read_records

_LINES = 200


@dataclass(frozen=True, slots=True)
class Head:
    """What is known; empty where nothing says so."""

    session: str = ""
    directory: str = ""
    created: float | None = None
    """Seconds since 1970. What was said before belongs to the conversation that this one was forked from."""
    parent: str = ""
    branch: str = ""
    side: bool = False
    """It is a subagent's."""


def read_head(conversation: Conversation) -> Head:
    """Return what a conversation tells of itself; what cannot be read tells nothing."""
    try:
        if conversation.format == "sqlite":
            return _of_database(conversation)
        if conversation.format == "json":
            return _of_document(conversation.path)
        readers = {"codex": _of_codex, "openclaw": _of_openclaw, "claude": _of_claude}
        reader = readers.get(conversation.host)
        if reader is None:
            return Head(conversation.session)
        return reader(list(read_records(conversation.path, Tally(), _LINES)))
    except (LorelogError, sqlite3.Error):
        return Head(conversation.session)


def _of_claude(records: list[Record]) -> Head:
    """No line tells when the session began: a fork repeats its parent's lines with their times."""
    first = next((one for one in records if one.get("cwd")), {})
    session = next((text_of(one["sessionId"]) for one in records if isinstance(one.get("sessionId"), str)), "")
    spoken = [one for one in records if kind_of(one) in {"user", "assistant"}]
    side = bool(spoken) and all(bool(one.get("isSidechain")) for one in spoken)
    branch = text_of(first.get("gitBranch"))
    return Head(session, text_of(first.get("cwd")), None, "", "" if branch == "HEAD" else branch, side)


def _of_codex(records: list[Record]) -> Head:
    meta = next((record_of(one.get("payload")) for one in records if kind_of(one) == "session_meta"), {})
    meta = meta or next((one for one in records if "instructions" in one and not kind_of(one)), {})
    return Head(
        text_of(meta.get("id")),
        text_of(meta.get("cwd")),
        _seconds(meta.get("timestamp")),
        text_of(meta.get("forked_from_id")),
        text_of(record_of(meta.get("git")).get("branch")),
        "subagent" in record_of(meta.get("source")),
    )


def _of_openclaw(records: list[Record]) -> Head:
    first = next((one for one in records if kind_of(one) == "session"), {})
    return Head(
        text_of(first.get("id")),
        text_of(first.get("cwd")),
        _seconds(first.get("timestamp")),
        text_of(first.get("parentSession")),
    )


def _of_document(path: str) -> Head:
    for name, value in read_members(path, frozenset({"messages", "items"}), Tally()):
        if name == "info":
            info = record_of(value)
            created = _seconds(record_of(info.get("time")).get("created"))
            parent = text_of(info.get("parentID"))
            return Head(text_of(info.get("id")), text_of(info.get("directory")), created, parent, "", bool(parent))
        if name == "session":
            return _of_codex([{**record_of(value), "instructions": None}])
    return Head()


def _of_database(conversation: Conversation) -> Head:
    with open_database(conversation.path) as connection:
        if conversation.host == "openclaw":
            row = connection.execute(
                "SELECT event_json FROM transcript_events WHERE session_id = ? ORDER BY seq LIMIT 1",
                (conversation.session,),
            ).fetchone()
            first = parse(row[0], Tally()) if row and isinstance(row[0], (str, bytes)) else None
            return _of_openclaw([first] if first else [])
        columns = tables(connection).get("session", frozenset())
        wanted = [name if name in columns else f"NULL AS {name}" for name in ("directory", "time_created", "parent_id")]
        row = connection.execute(
            f"SELECT {', '.join(wanted)} FROM session WHERE id = ?",  # noqa: S608
            (conversation.session,),
        ).fetchone()
    if not row:
        return Head(conversation.session)
    parent = text_of(row[2])
    return Head(conversation.session, text_of(row[0]), _seconds(row[1]), parent, "", bool(parent))


def _seconds(value: object) -> float | None:
    when = instant(value)
    return None if when is None else when.timestamp()
