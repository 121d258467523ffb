"""OpenClaw: messages with ids, as lines of a file (up to 2026.7) or as rows of `transcript_events` (from 2026.8).

Both hold the same records: `{type: "message", id, parentId, timestamp, message: {role, content}}`. Tool results are
messages of their own, of the role `toolResult`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

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
from lorelog.ingest.transcripts.lines import parse, unpack

_CALLS = frozenset({"toolCall", "tool_use", "toolUse"})
_RESULTS = frozenset({"toolResult", "tool_result", "tool"})
_COMPACTED = "the conversation was compacted here and there: what is shown is what was really said"
PACKED = "a message is compressed, and nothing here can unpack it: install the package zstandard"
_ROW_BYTES = 4 * 1024 * 1024
"""The most that OpenClaw compresses into a row."""


def is_openclaw(record: Record) -> bool:
    """Say whether a line is OpenClaw's."""
    return kind_of(record) == "message" and isinstance(record_of(record.get("message")).get("role"), str)


def is_session(record: Record) -> bool:
    """Say whether a line opens a session; DSH's begins like this too."""
    return kind_of(record) == "session" and "version" in record


def read_openclaw(records: Iterator[Record], tally: Tally) -> Iterator[TurnBuilder]:
    """Yield the turns of a conversation."""
    turn: TurnBuilder | None = None
    for record in records:
        kind = kind_of(record)
        message = record_of(record.get("message"))
        role = message.get("role")
        if kind != "message" or not isinstance(role, str):
            if kind == "session":
                tally.session = text_of(record.get("id")) or tally.session
            elif kind == "custom" and turn:
                turn.name(record_of(record.get("data")).get("runId"))  # older versions write it when it ends
            elif kind == "compaction":
                tally.note(_COMPACTED)
            tally.skipped += 1
            continue
        said = texts_of(message.get("content"))
        if role == "user" and not said.strip() and not _has_image(message):
            tally.skipped += 1
            continue
        if role == "user" or turn is None:
            if turn:
                yield turn
            turn = TurnBuilder(record.get("id"), record.get("timestamp") or message.get("timestamp"))
        turn.name(record.get("id"))
        _take(turn, message, said)
    if turn:
        yield turn


def _take(turn: TurnBuilder, message: Record, said: str) -> None:
    role = message["role"]
    if role == "user":
        turn.ask(said or "[image]")
    elif role == "assistant":
        turn.name(record_of(message.get("__openclaw")).get("runId"))  # what hooks call the turn
        turn.say(said)
        # Of a turn that was stopped the gateway writes what had been said, as if it had come to its end.
        cut = record_of(message.get("openclawAbort")).get("aborted") is True
        turn.interrupted |= cut or message.get("stopReason") == "aborted"
        turn.failed = message.get("stopReason") == "error"
        for block in blocks_of(message.get("content")):
            if kind_of(block) in _CALLS:
                turn.call(block.get("id"), block.get("name"), block.get("arguments", block.get("input")))
    elif role in _RESULTS:
        call = message.get("toolCallId") or message.get("tool_use_id") or message.get("id")
        turn.answer(call, message.get("content"), failed=bool(message.get("isError")))


def _has_image(message: Record) -> bool:
    return any(kind_of(block) == "image" for block in blocks_of(message.get("content")))


def newest_session(connection: sqlite3.Connection) -> tuple[str, int]:
    """Return the session that was written last, and how many there are."""
    (count,) = connection.execute("SELECT count(DISTINCT session_id) FROM transcript_events").fetchone()
    row = connection.execute("SELECT session_id FROM transcript_events ORDER BY rowid DESC LIMIT 1").fetchone()
    return (str(row[0]) if row else "", int(count))


def read_rows(connection: sqlite3.Connection, session: str, tally: Tally) -> Iterator[TurnBuilder]:
    """Yield the turns of a session in a database; newer versions compress long messages."""
    tally.session = session
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('transcript_events')")}
    packed = "event_zstd" if "event_zstd" in columns else "NULL"
    rows = connection.execute(
        f"SELECT {bounded('event_json')}, {packed}, event_json IS NULL FROM transcript_events WHERE session_id = ? ORDER BY seq",  # noqa: S608
        (session,),
    )
    return read_openclaw(_records(rows, tally), tally)


def _records(rows: Iterator[tuple[object, object, int]], tally: Tally) -> Iterator[Record]:
    for row, packed, is_packed in rows:
        text = unpack(packed, _ROW_BYTES) if is_packed and isinstance(packed, bytes) else row
        if isinstance(text, (str, bytes)):
            record = parse(text, tally)
            if record is not None:
                yield record
        elif is_packed:
            tally.note(PACKED)
            tally.skipped += 1
        else:
            tally.broken += 1
