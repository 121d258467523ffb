"""Read OpenCode sessions from its database, or one session from an export.

    message and part     each message's JSON in one table, its parts in another (1.x); an export has the same, nested
    session_message      a message and its content as one JSON (2.x)

A turn begins at a user message with text of its own; the program inserts parts marked synthetic. Sessions with a parent
belong to subagents.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from lorelog.ingest.transcripts import turns
from lorelog.ingest.transcripts.json_files import (
    DatabaseFormat,
    SessionDatabase,
    TableColumns,
    bounded_column,
    parse_object,
)

_SESSION_TABLES = ("session", "session_v2")


def _heads(database: SessionDatabase, session: str) -> Iterator[turns.JsonObject]:
    columns = database.columns["session"]
    names = ("id", *(name for name in ("directory", "time_created", "parent_id", "time_updated") if name in columns))
    order = "time_created" if "time_created" in columns else "rowid"
    query = f"SELECT {', '.join(names)} FROM session WHERE ? IN ('', id) ORDER BY {order}"  # noqa: S608
    for row in database.connection.execute(query, (session,)):
        head = dict(zip(names, row, strict=True))
        yield {**head, "changed": (head.get("time_updated") or 0) / 1000, "sidechain": bool(head.get("parent_id"))}


def _select(database: SessionDatabase, turn: str) -> tuple[str, int]:
    """Return the session of a message, or else the main session with the newest message, and the number of sessions."""
    connection, tables = database.connection, database.columns
    if turn and (session := _find_session(connection, tables, turn)):
        return session, 1
    table = _messages_table(connection, tables)
    count = int(connection.execute(f"SELECT count(DISTINCT session_id) FROM {table}").fetchone()[0])  # noqa: S608
    row = connection.execute(
        f"SELECT session_id FROM {table} ORDER BY session_id IN ({_children(tables)}), {_time_column(tables, table)} DESC, rowid DESC"  # noqa: S608
        " LIMIT 1"
    ).fetchone()
    return (str(row[0]) if row else "", count)


def _find_session(connection: sqlite3.Connection, tables: TableColumns, message: str) -> str:
    for table in ("message", "session_message"):
        if {"id", "session_id"} <= tables.get(table, frozenset()):
            query = f"SELECT session_id FROM {table} WHERE id = ? LIMIT 1"  # noqa: S608
            for (session,) in connection.execute(query, (message,)):
                return str(session)
    return ""


def _records(database: SessionDatabase, session: str, stats: turns.TranscriptStats) -> Iterator[turns.JsonObject]:
    """Yield the messages of a session in the form that an export has."""
    connection, tables = database.connection, database.columns
    (is_side,) = connection.execute(f"SELECT ? IN ({_children(tables)})", (session,)).fetchone()
    yield {"info": {"id": session, "parentID": is_side}}
    is_v2 = _messages_table(connection, tables, session) == "session_message"
    messages = _read_v2(connection, tables, session, stats) if is_v2 else _read_v1(connection, session, stats)
    yield from ({"info": info, "parts": parts} for info, parts in messages)


def _read_v1(
    connection: sqlite3.Connection, session: str, stats: turns.TranscriptStats
) -> Iterator[tuple[turns.JsonObject, list[turns.JsonObject]]]:
    messages = connection.execute(
        f"SELECT id, {bounded_column('data')} FROM message WHERE session_id = ? ORDER BY time_created, id",  # noqa: S608
        (session,),
    )
    for identity, data in messages:
        info = parse_object(data, stats)
        parts = connection.execute(
            f"SELECT {bounded_column('data')} FROM part WHERE message_id = ? ORDER BY id",  # noqa: S608
            (identity,),
        )
        if info is not None:
            yield {**info, "id": identity}, list(filter(None, (parse_object(part, stats) for (part,) in parts)))


def _messages_table(connection: sqlite3.Connection, tables: TableColumns, session: str = "") -> str:
    """Return the table with messages: some versions have both, one of them empty."""
    if "message" not in tables:
        return "session_message"
    if "session_message" in tables:
        condition = ("WHERE session_id = ?", (session,)) if session else ("", ())
        query = f"SELECT EXISTS (SELECT 1 FROM message {condition[0]})"  # noqa: S608
        if not connection.execute(query, condition[1]).fetchone()[0]:
            return "session_message"
    return "message"


def _time_column(tables: TableColumns, table: str) -> str:
    return "time_created" if "time_created" in tables[table] else "rowid"


def _children(tables: TableColumns) -> str:
    """Return the query for sessions with a parent."""
    names = [name for name in _SESSION_TABLES if {"id", "parent_id"} <= tables.get(name, frozenset())]
    return " UNION ALL ".join(f"SELECT id FROM {name} WHERE parent_id IS NOT NULL" for name in names) or "NULL"  # noqa: S608


def _read_v2(
    connection: sqlite3.Connection, tables: TableColumns, session: str, stats: turns.TranscriptStats
) -> Iterator[tuple[turns.JsonObject, list[turns.JsonObject]]]:
    """Yield the messages of a session, with their parts."""
    order = "seq" if "seq" in tables["session_message"] else _time_column(tables, "session_message")
    rows = connection.execute(
        f"SELECT id, type, {bounded_column('data')} FROM session_message WHERE session_id = ? ORDER BY {order}, id",  # noqa: S608
        (session,),
    )
    for identity, kind, data in rows:
        message = parse_object(data, stats)
        if message is None:
            continue
        info = {**message, "id": identity, "role": turns.to_text(kind) or message.get("role") or message.get("type")}
        text = message.get("text")
        yield info, [*([{"type": "text", "text": text}] if text else []), *turns.content_blocks(message.get("content"))]


class OpencodeReader(turns.OneTurnReader):
    """Makes turns of messages, `{info, parts}`. The first record is about the session."""

    is_side = False

    def take(self, record: turns.JsonObject) -> Iterator[turns.TurnBuilder]:
        info, parts = turns.as_object(record.get("info")), turns.content_blocks(record.get("parts"))
        role = info.get("role")
        time = turns.as_object(info.get("time")).get("created")
        if role == "user":
            request = "\n\n".join(filter(None, map(self._request_text, parts)))
            if request or self._turn is None:
                yield from self.flush()
                self._turn = turns.TurnBuilder(info.get("id"), time, sidechain=self.is_side)
            self._turn.add_alias(info.get("id"))
            self._turn.add_request(request)
        elif role == "assistant" and info.get("summary") is True:
            self._stats.skipped += 1  # a summary made by compaction
        elif role == "assistant":
            if self._turn is None:
                self._turn = turns.TurnBuilder(info.get("parentID") or info.get("id"), time, sidechain=self.is_side)
            self._turn.add_alias(info.get("id"))
            failure = turns.as_object(info.get("error"))
            aborted = failure.get("name") == "MessageAbortedError"
            self._turn.interrupted |= aborted
            self._turn.failed = bool(failure) and not aborted
            # An answer is written while it is generated; a request made meanwhile follows it.
            clock = turns.as_object(info.get("time"))
            self._turn.pending = "created" in clock and "completed" not in clock
            for part in parts:
                self._add_part(self._turn, part)
        elif "parts" not in record and info:
            self._stats.session = turns.to_text(info.get("id"))
            self.is_side = bool(info.get("parentID"))
        else:
            self._stats.skipped += 1

    def _request_text(self, part: turns.JsonObject) -> str:
        kind = turns.object_type(part)
        if kind == "text" and not part.get("synthetic") and not part.get("ignored"):
            return turns.to_text(part.get("text")).strip()
        if kind == "file":
            return f"[file {turns.to_text(part.get('filename'))}]"
        if kind == "subtask":
            return turns.to_text(part.get("prompt")).strip()
        if kind == "compaction":
            self._stats.note(turns.COMPACTED_NOTE)
        self._stats.skipped += 1
        return ""

    def _add_part(self, turn: turns.TurnBuilder, part: turns.JsonObject) -> None:
        kind = turns.object_type(part)
        if kind == "text" and not part.get("synthetic"):
            turn.add_text(part.get("text"))
        elif kind == "tool":
            state = turns.as_object(part.get("state"))
            call = part.get("callID") or part.get("id")
            turn.add_call(call, part.get("tool") or part.get("name"), state.get("input"))
            failed = state.get("status") == "error"
            output = state.get("output") or turns.message_text(state.get("content")) or state.get("structured")
            details = state.get("metadata") or state.get("structured")
            turn.add_result(call, state.get("error") if failed else output, failed=failed, details=details)
        else:
            self._stats.skipped += 1


DATABASE = DatabaseFormat(
    "opencode",
    lambda tables: "session" in tables and ("message" in tables or "session_message" in tables),
    *(_heads, _records, OpencodeReader, _select),
)
