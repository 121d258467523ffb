"""Detect the format of a transcript, open it, and read its metadata: directory, start time, parent session.

A file is recognised by its content: names and locations of transcripts differ between machines, contents do not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial

from lorelog.core.dataclasses import dataclass, field
from lorelog.core.errors import LorelogError, NotFound, SourceError
from lorelog.core.patterns import lazy_pattern
from lorelog.ingest.files import printable_path
from lorelog.ingest.transcripts import claude, codex, dsh, openclaw, opencode
from lorelog.ingest.transcripts.json_files import (
    SQLITE_MAGIC,
    find_line_offset,
    open_database,
    parse_object,
    read_file_head,
    read_members,
    read_records,
    table_columns,
)
from lorelog.ingest.transcripts.turns import (
    JsonObject,
    ParsedTurn,
    TranscriptStats,
    TurnBuilder,
    as_object,
    number_turns,
    object_type,
    parse_time,
    to_text,
)

SUPPORTED_FORMATS = (
    "supported formats: Claude Code (.jsonl), Codex rollouts (.jsonl), OpenCode (opencode.db, exported .json),"
    " OpenClaw (.jsonl, openclaw-agent.sqlite), DSH (session.jsonl, also .zstd)"
)
_MAX_LINES_CHECKED, _MIN_KNOWN_LINES = 2000, 20
"""Lines that are checked for a known format, and known lines after which the format is certain."""
_JSON_DOCUMENT_HEAD = lazy_pattern(rb'\A\s*\{\s*"(info|messages|session|items)"\s*:\s*[{\["]')
_LineReader = Callable[[Iterator[JsonObject], TranscriptStats], Iterator[TurnBuilder]]
_LINE_FORMATS: tuple[tuple[str, Callable[[JsonObject], bool], _LineReader], ...] = (
    ("claude", claude.is_claude, claude.read_claude),
    ("openclaw", openclaw.is_openclaw, openclaw.read_openclaw),
    ("dsh", dsh.is_dsh, dsh.read_dsh),
    ("codex", codex.is_codex, codex.read_codex),
    # A session without messages has only its first line.
    ("openclaw", openclaw.is_session_header, openclaw.read_openclaw),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation that can be read any number of times."""

    path: str
    host: str
    format: str
    session: str
    """The session to read if the file contains several."""
    read: Callable[[TranscriptStats], Iterator[TurnBuilder]] = field(repr=False)
    note: str = ""
    read_from: Callable[[int, TranscriptStats], Iterator[TurnBuilder]] | None = field(default=None, repr=False)
    """Reads from the offset of a line; only for files of lines."""

    @property
    def address(self) -> str:
        """The path, with the session id for a database."""
        return f"{self.path}#{self.session}" if self.format == "sqlite" else self.path

    def turns(self, stats: TranscriptStats) -> Iterator[ParsedTurn]:
        """Yield all turns; skipped and broken records are counted in `stats`."""
        return number_turns(self.read(stats))

    def turns_since(self, name: str, stats: TranscriptStats) -> Iterator[ParsedTurn]:
        """Yield the turns from the first one that contains an id; all turns if that is unknown.

        Earlier lines are not read, so this is only for hosts whose turns have ids of their own.
        """
        start = find_line_offset(self.path, name) if self.read_from is not None else 0
        if not start or self.read_from is None:
            return self.turns(stats)
        return number_turns(self.read_from(start, stats))


def open_conversation(path: str, session: str = "", turn: str = "") -> Conversation:
    """Detect a file's format. In a database select `session`, or the session of `turn`, or the newest one.

    Raise NotFound if the file or session does not exist, SourceError if it cannot be read or is not a transcript.
    """
    head = read_file_head(path)
    if head.startswith(SQLITE_MAGIC):
        return _open_database(path, session, turn)
    if document := _JSON_DOCUMENT_HEAD.match(head):
        if document[1] in {b"info", b"messages"}:
            host, read = "opencode", partial(_read_export, path)
        else:
            host, read = "codex", partial(_read_rollout, path)
        return Conversation(path=path, host=host, format="json", session=session, read=read)
    host, reader = _detect_line_format(path, is_empty=not head.strip())

    def read_from(start: int, stats: TranscriptStats) -> Iterator[TurnBuilder]:
        return reader(read_records(path, stats, start=start), stats)

    return Conversation(
        path=path, host=host, format="jsonl", session=session, read=partial(read_from, 0), read_from=read_from
    )


def _detect_line_format(path: str, *, is_empty: bool) -> tuple[str, _LineReader]:
    if is_empty:
        raise SourceError(
            f"{printable_path(path)} is empty", hint="a host that has just started may not have written to it yet"
        )
    counts: dict[int, int] = {}
    for record in read_records(path, TranscriptStats(), _MAX_LINES_CHECKED):
        for index, (_, matches, _) in enumerate(_LINE_FORMATS):
            if matches(record):
                counts[index] = counts.get(index, 0) + 1
                break
        if sum(counts.values()) >= _MIN_KNOWN_LINES:
            break
    if not counts:
        raise SourceError(f"{printable_path(path)} is not a transcript in a known format", hint=SUPPORTED_FORMATS)
    # A single line in another format (a quoted record, a stray import) must not decide.
    last = len(_LINE_FORMATS) - 1
    host, _, reader = _LINE_FORMATS[max(counts, key=lambda index: (index != last, counts[index], -index))]
    return host, reader


def _open_database(path: str, session: str, turn: str) -> Conversation:
    with open_database(path) as connection:
        columns = table_columns(connection)
        if {"session_id", "seq", "event_json"} <= columns.get("transcript_events", frozenset()):
            host = "openclaw"
            newest, count = openclaw.newest_session(connection)
        elif opencode.is_opencode(columns):
            host = "opencode"
            session = session or (opencode.find_session(connection, columns, turn) if turn else "")
            newest, count = opencode.newest_session(connection, columns)
        else:
            raise SourceError(
                f"{printable_path(path)} is a database without a transcript in a known format", hint=SUPPORTED_FORMATS
            )
        if not newest:
            raise NotFound(f"{printable_path(path)} does not contain a conversation yet")
    note = (
        "" if session or count == 1 else f"showing the newest of {count} sessions; select another one with FILE#SESSION"
    )
    selected = session or newest
    read = partial(_read_database, path, host, selected)
    return Conversation(path=path, host=host, format="sqlite", session=selected, read=read, note=note)


def _read_database(path: str, host: str, session: str, stats: TranscriptStats) -> Iterator[TurnBuilder]:
    with open_database(path) as connection:
        if host == "openclaw":
            yield from openclaw.read_rows(connection, session, stats)
        else:
            yield from opencode.read_rows(connection, table_columns(connection), session, stats)


def _read_export(path: str, stats: TranscriptStats) -> Iterator[TurnBuilder]:
    return opencode.read_export(read_members(path, frozenset({"messages"}), stats), stats)


def _read_rollout(path: str, stats: TranscriptStats) -> Iterator[TurnBuilder]:
    def items() -> Iterator[JsonObject]:
        for name, value in read_members(path, frozenset({"items"}), stats):
            if name == "session" and isinstance(value, dict):
                yield {**value, "instructions": None}
            elif name == "items" and isinstance(value, dict):
                yield value
            else:
                stats.skipped += 1

    return codex.read_codex(items(), stats)


_MAX_HEAD_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationHead:
    """Metadata of a conversation; empty where unknown."""

    session: str = ""
    directory: str = ""
    created: float | None = None
    """Seconds since 1970. Earlier messages belong to the conversation that this one was forked from."""
    parent: str = ""
    branch: str = ""
    is_sidechain: bool = False
    """True for a conversation of a subagent."""


def read_conversation_head(conversation: Conversation) -> ConversationHead:
    """Read a conversation's metadata; only the session id if it cannot be read."""
    try:
        if conversation.format == "sqlite":
            return _database_head(conversation)
        if conversation.format == "json":
            return _document_head(conversation.path)
        readers = {"codex": _codex_head, "openclaw": _openclaw_head, "claude": _claude_head}
        reader = readers.get(conversation.host)
        if reader is None:
            return ConversationHead(session=conversation.session)
        return reader(list(read_records(conversation.path, TranscriptStats(), _MAX_HEAD_LINES)))
    except (LorelogError, sqlite3.Error):
        return ConversationHead(session=conversation.session)


def _claude_head(records: list[JsonObject]) -> ConversationHead:
    """Read the metadata without a start time: a fork repeats its parent's lines with their times."""
    first = next((record for record in records if record.get("cwd")), {})
    session = next((to_text(record["sessionId"]) for record in records if isinstance(record.get("sessionId"), str)), "")
    messages = [record for record in records if object_type(record) in {"user", "assistant"}]
    branch = to_text(first.get("gitBranch"))
    return ConversationHead(
        session=session,
        directory=to_text(first.get("cwd")),
        branch="" if branch == "HEAD" else branch,
        is_sidechain=bool(messages) and all(bool(message.get("isSidechain")) for message in messages),
    )


def _codex_head(records: list[JsonObject]) -> ConversationHead:
    meta = next((as_object(record.get("payload")) for record in records if object_type(record) == "session_meta"), {})
    meta = meta or next((record for record in records if "instructions" in record and not object_type(record)), {})
    return ConversationHead(
        session=to_text(meta.get("id")),
        directory=to_text(meta.get("cwd")),
        created=_timestamp(meta.get("timestamp")),
        parent=to_text(meta.get("forked_from_id")),
        branch=to_text(as_object(meta.get("git")).get("branch")),
        is_sidechain="subagent" in as_object(meta.get("source")),
    )


def _openclaw_head(records: list[JsonObject]) -> ConversationHead:
    first = next((record for record in records if object_type(record) == "session"), {})
    return ConversationHead(
        session=to_text(first.get("id")),
        directory=to_text(first.get("cwd")),
        created=_timestamp(first.get("timestamp")),
        parent=to_text(first.get("parentSession")),
    )


def _document_head(path: str) -> ConversationHead:
    for name, value in read_members(path, frozenset({"messages", "items"}), TranscriptStats()):
        if name == "info":
            info = as_object(value)
            parent = to_text(info.get("parentID"))
            return ConversationHead(
                session=to_text(info.get("id")),
                directory=to_text(info.get("directory")),
                created=_timestamp(as_object(info.get("time")).get("created")),
                parent=parent,
                is_sidechain=bool(parent),
            )
        if name == "session":
            return _codex_head([{**as_object(value), "instructions": None}])
    return ConversationHead()


def _database_head(conversation: Conversation) -> ConversationHead:
    with open_database(conversation.path) as connection:
        if conversation.host == "openclaw":
            row = connection.execute(
                "SELECT event_json FROM transcript_events WHERE session_id = ? ORDER BY seq LIMIT 1",
                (conversation.session,),
            ).fetchone()
            first = parse_object(row[0], TranscriptStats()) if row and isinstance(row[0], (str, bytes)) else None
            return _openclaw_head([first] if first else [])
        columns = table_columns(connection).get("session", frozenset())
        names = [name if name in columns else f"NULL AS {name}" for name in ("directory", "time_created", "parent_id")]
        row = connection.execute(
            f"SELECT {', '.join(names)} FROM session WHERE id = ?",  # noqa: S608
            (conversation.session,),
        ).fetchone()
    if not row:
        return ConversationHead(session=conversation.session)
    parent = to_text(row[2])
    return ConversationHead(
        session=conversation.session,
        directory=to_text(row[0]),
        created=_timestamp(row[1]),
        parent=parent,
        is_sidechain=bool(parent),
    )


def _timestamp(value: object) -> float | None:
    when = parse_time(value)
    return None if when is None else when.timestamp()
