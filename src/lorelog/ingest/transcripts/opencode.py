"""OpenCode: sessions in a database, or one of them as an export.

    message and part     each message's JSON in one table, its parts in another (1.x); an export has the same, nested
    session_message      a message and its content as one JSON (2.x)

A turn begins at a user message with text of its own; parts marked synthetic were put in by the program. Sessions with
a parent are subagents'.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lorelog.ingest.transcripts.building import (
    Record,
    Tally,
    TurnBuilder,
    blocks_of,
    kind_of,
    record_of,
    text_of,
    texts_of,
)
from lorelog.ingest.transcripts.databases import bounded
from lorelog.ingest.transcripts.lines import parse

Tables = Mapping[str, frozenset[str]]
_COMPACTED = "the conversation was compacted here and there: what is shown is what was really said"
_SESSIONS = ("session", "session_v2")


def is_opencode(tables: Tables) -> bool:
    """Say whether a database is OpenCode's."""
    return "session" in tables and ("message" in tables or "session_message" in tables)


def read_export(members: Iterator[tuple[str, Any]], tally: Tally) -> Iterator[TurnBuilder]:
    """Yield the turns of an exported session."""
    state = _State(tally)
    for name, value in members:
        if name == "info":
            info = record_of(value)
            tally.session = text_of(info.get("id"))
            state.is_side = bool(info.get("parentID"))
        elif name == "messages" and isinstance(value, dict):
            info = record_of(value.get("info"))
            yield from state.take(info, blocks_of(value.get("parts")))
        else:
            tally.skipped += 1
    yield from state.rest()


def newest_session(connection: sqlite3.Connection, tables: Tables) -> tuple[str, int]:
    """Return the main session in which something was said last, and how many sessions there are."""
    table = _messages(connection, tables)
    count = int(connection.execute(f"SELECT count(DISTINCT session_id) FROM {table}").fetchone()[0])  # noqa: S608
    row = connection.execute(
        f"SELECT session_id FROM {table} ORDER BY session_id IN ({_children(tables)}), {_clock(tables, table)} DESC, rowid DESC"  # noqa: S608
        " LIMIT 1"
    ).fetchone()
    return (str(row[0]) if row else "", count)


def session_of(connection: sqlite3.Connection, tables: Tables, message: str) -> str:
    """Return the session that a message belongs to, or an empty text."""
    for table in ("message", "session_message"):
        if {"id", "session_id"} <= tables.get(table, frozenset()):
            row = connection.execute(
                f"SELECT session_id FROM {table} WHERE id = ? LIMIT 1",  # noqa: S608
                (message,),
            ).fetchone()
            if row:
                return str(row[0])
    return ""


def read_rows(connection: sqlite3.Connection, tables: Tables, session: str, tally: Tally) -> Iterator[TurnBuilder]:
    """Yield the turns of a session in a database."""
    tally.session = session
    state = _State(tally)
    children = connection.execute(f"SELECT ? IN ({_children(tables)})", (session,))
    state.is_side = bool(children.fetchone()[0])
    if _messages(connection, tables, session) == "session_message":
        yield from _read_second(connection, tables, state, session)
        return
    messages = connection.execute(
        f"SELECT id, {bounded('data')} FROM message WHERE session_id = ? ORDER BY time_created, id",  # noqa: S608
        (session,),
    )
    for identity, data in messages:
        info = _parsed(data, tally)
        parts = connection.execute(
            f"SELECT {bounded('data')} FROM part WHERE message_id = ? ORDER BY id",  # noqa: S608
            (identity,),
        )
        if info is not None:
            yield from state.take({**info, "id": identity}, _parts(parts, tally))
    yield from state.rest()


def _parts(rows: Iterable[tuple[object]], tally: Tally) -> Iterator[Record]:
    for (data,) in rows:
        if (part := _parsed(data, tally)) is not None:
            yield part


def _parsed(data: object, tally: Tally) -> Record | None:
    if isinstance(data, (str, bytes)):
        return parse(data, tally)
    tally.broken += 1
    return None


def _messages(connection: sqlite3.Connection, tables: Tables, session: str = "") -> str:
    """Return the table that messages are in: both exist in some versions, and one of them is empty."""
    if "message" not in tables:
        return "session_message"
    if "session_message" in tables:
        condition = ("WHERE session_id = ?", (session,)) if session else ("", ())
        query = f"SELECT EXISTS (SELECT 1 FROM message {condition[0]})"  # noqa: S608
        if not connection.execute(query, condition[1]).fetchone()[0]:
            return "session_message"
    return "message"


def _clock(tables: Tables, table: str) -> str:
    return "time_created" if "time_created" in tables[table] else "rowid"


def _children(tables: Tables) -> str:
    """Return the query for sessions that have a parent."""
    found = [name for name in _SESSIONS if {"id", "parent_id"} <= tables.get(name, frozenset())]
    return " UNION ALL ".join(f"SELECT id FROM {name} WHERE parent_id IS NOT NULL" for name in found) or "NULL"  # noqa: S608


def _read_second(connection: sqlite3.Connection, tables: Tables, state: _State, session: str) -> Iterator[TurnBuilder]:
    order = "seq" if "seq" in tables["session_message"] else _clock(tables, "session_message")
    rows = connection.execute(
        f"SELECT id, type, {bounded('data')} FROM session_message WHERE session_id = ? ORDER BY {order}, id",  # noqa: S608
        (session,),
    )
    for identity, kind, data in rows:
        message = _parsed(data, state.tally)
        if message is None:
            continue
        info = {**message, "id": identity, "role": text_of(kind) or message.get("role") or message.get("type")}
        said = message.get("text")
        parts = [*([{"type": "text", "text": said}] if said else []), *blocks_of(message.get("content"))]
        yield from state.take(info, parts)
    yield from state.rest()


class _State:
    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.is_side = False
        self._turn: TurnBuilder | None = None

    def take(self, info: Record, parts: Iterable[Record]) -> Iterator[TurnBuilder]:
        role = info.get("role")
        time = record_of(info.get("time")).get("created")
        if role == "user":
            asked = "\n\n".join(filter(None, map(self._asked, parts)))
            if asked or self._turn is None:
                yield from self.rest()
                self._turn = TurnBuilder(info.get("id"), time, sidechain=self.is_side)
            self._turn.name(info.get("id"))
            self._turn.ask(asked)
        elif role == "assistant" and info.get("summary") is True:
            self.tally.skipped += 1  # what compaction made of the conversation
        elif role == "assistant":
            if self._turn is None:
                self._turn = TurnBuilder(info.get("parentID") or info.get("id"), time, sidechain=self.is_side)
            self._turn.name(info.get("id"))
            failure = record_of(info.get("error"))
            aborted = failure.get("name") == "MessageAbortedError"
            self._turn.interrupted |= aborted
            self._turn.failed = bool(failure) and not aborted
            # It is written as it comes, and what is asked meanwhile stands behind it.
            clock = record_of(info.get("time"))
            self._turn.pending = "created" in clock and "completed" not in clock
            for part in parts:
                self._answer(self._turn, part)
        else:
            self.tally.skipped += 1

    def rest(self) -> Iterator[TurnBuilder]:
        if self._turn:
            yield self._turn
            self._turn = None

    def _asked(self, part: Record) -> str:
        kind = kind_of(part)
        if kind == "text" and not part.get("synthetic") and not part.get("ignored"):
            return text_of(part.get("text")).strip()
        if kind == "file":
            return f"[file {text_of(part.get('filename'))}]"
        if kind == "subtask":
            return text_of(part.get("prompt")).strip()
        if kind == "compaction":
            self.tally.note(_COMPACTED)
        self.tally.skipped += 1
        return ""

    def _answer(self, turn: TurnBuilder, part: Record) -> None:
        kind = kind_of(part)
        if kind == "text" and not part.get("synthetic"):
            turn.say(part.get("text"))
        elif kind == "tool":
            state = record_of(part.get("state"))
            call = part.get("callID") or part.get("id")
            turn.call(call, part.get("tool") or part.get("name"), state.get("input"))
            failed = state.get("status") == "error"
            turn.answer(call, _result(state, failed=failed), failed=failed)
        else:
            self.tally.skipped += 1


def _result(state: Record, *, failed: bool) -> object:
    if failed:
        return state.get("error")
    return state.get("output") or texts_of(state.get("content")) or state.get("structured")
