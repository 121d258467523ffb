"""Read OpenClaw transcripts: lines of a file (up to 2026.7) or rows of `transcript_events` (from 2026.8).

Both contain the same records: `{type: "message", id, parentId, timestamp, message: {role, content}}`. Tool results are
messages of their own with the role `toolResult`.

Factory Droid's lines have the same form, in `sessions/<folder>/<id>.jsonl`. Its first line is `{type: "session_start", id, cwd}`, tool
results are blocks of a user's message, and what it tells the model itself is a user's message of `<system-reminder>` blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from lorelog.ingest.transcripts.claude import REMINDER
from lorelog.ingest.transcripts.json_files import bounded_column, decompress_zstd, parse_object
from lorelog.ingest.transcripts.turns import (
    COMPACTED_NOTE,
    JsonObject,
    OneTurnReader,
    TranscriptStats,
    TurnBuilder,
    as_object,
    content_blocks,
    message_text,
    object_type,
    read_turns,
    to_text,
)

_CALL_TYPES = frozenset({"toolCall", "tool_use", "toolUse"})
_HEADERS = frozenset({"session", "session_start"})
_RESULT_ROLES = frozenset({"toolResult", "tool_result", "tool"})
COMPRESSED_NOTE = "a compressed message could not be read"
_MAX_ROW_BYTES = 4 * 1024 * 1024
"""Maximum size of a compressed row in OpenClaw."""


def is_openclaw(record: JsonObject) -> bool:
    """Return True if a line has the format of OpenClaw."""
    return object_type(record) == "message" and isinstance(as_object(record.get("message")).get("role"), str)


def is_session_header(record: JsonObject) -> bool:
    """Return True if a line opens a session."""
    return object_type(record) == "session" and "version" in record


class OpenClawReader(OneTurnReader):
    """Makes turns of lines or rows."""

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        if not is_openclaw(record):
            self._take_other(object_type(record), record)
            return
        message = record["message"]
        role, text, blocks = (
            message["role"],
            message_text(message.get("content")),
            content_blocks(message.get("content")),
        )
        if role == "user":
            text = REMINDER.sub("", text).strip()
            if not text.strip() and not any(object_type(block) == "image" for block in blocks):
                self._take_results([block for block in blocks if object_type(block) == "tool_result"])
                return
        if role == "user" or self._turn is None:
            time = record.get("timestamp") or message.get("timestamp")
            yield from self._begin(record.get("id"), time, (text or "[image]") if role == "user" else "")
        if self._turn is not None:
            self._turn.add_alias(record.get("id"))
            _add_message(self._turn, message, text)

    def _take_results(self, results: Sequence[JsonObject]) -> None:
        """Add Droid's tool results to the turn. A user's message without a text is nothing else."""
        if self._turn is None or not results:
            self._stats.skipped += 1
            return
        for block in results:
            failed = bool(block.get("is_error"))
            self._turn.add_result(block.get("tool_use_id"), block.get("content"), failed=failed)

    def _take_other(self, kind: str, record: JsonObject) -> None:
        if kind in _HEADERS:
            self._stats.session = to_text(record.get("id")) or self._stats.session
        elif kind == "custom" and self._turn:
            self._turn.add_alias(as_object(record.get("data")).get("runId"))  # older versions write it at the end
        elif kind == "compaction":
            self._stats.note(COMPACTED_NOTE)
        self._stats.skipped += 1


def _add_message(turn: TurnBuilder, message: JsonObject, text: str) -> None:
    role = message["role"]
    if role == "assistant":
        turn.add_alias(as_object(message.get("__openclaw")).get("runId"))  # the turn's id in hooks
        turn.add_text(text)
        # The gateway writes the partial text of an aborted turn as if it were complete.
        aborted = as_object(message.get("openclawAbort")).get("aborted") is True
        turn.interrupted |= aborted or message.get("stopReason") == "aborted"
        turn.failed = message.get("stopReason") == "error"
        for block in content_blocks(message.get("content")):
            if object_type(block) in _CALL_TYPES:
                turn.add_call(block.get("id"), block.get("name"), block.get("arguments", block.get("input")))
            elif object_type(block) in _RESULT_ROLES:
                # Without an id it belongs to the call before it.
                call = block.get("toolCallId") or block.get("tool_use_id") or next(reversed(turn.calls), "")
                result = block.get("content", block.get("text", block.get("output")))
                turn.add_result(call, result, failed=bool(block.get("isError") or block.get("is_error")))
    elif role in _RESULT_ROLES:
        call = message.get("toolCallId") or message.get("tool_use_id") or message.get("id")
        failed = bool(message.get("isError"))
        turn.add_result(call, message.get("content"), failed=failed, details=message.get("details"))


def newest_session(connection: sqlite3.Connection) -> tuple[str, int]:
    """Return the session that was written last, and the number of sessions."""
    (count,) = connection.execute("SELECT count(DISTINCT session_id) FROM transcript_events").fetchone()
    row = connection.execute("SELECT session_id FROM transcript_events ORDER BY rowid DESC LIMIT 1").fetchone()
    return (str(row[0]) if row else "", int(count))


def read_rows(connection: sqlite3.Connection, session: str, stats: TranscriptStats) -> Iterator[TurnBuilder]:
    """Yield the turns of a session in a database. Newer versions compress long messages."""
    stats.session = session
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('transcript_events')")}
    packed = "event_zstd" if "event_zstd" in columns else "NULL"
    rows = connection.execute(
        f"SELECT {bounded_column('event_json')}, {packed}, event_json IS NULL FROM transcript_events WHERE session_id = ? ORDER BY seq",  # noqa: S608
        (session,),
    )
    records = (_unpack(packed, stats) if is_packed else parse_object(row, stats) for row, packed, is_packed in rows)
    return read_turns(OpenClawReader(stats), filter(None, records))


def _unpack(packed: object, stats: TranscriptStats) -> JsonObject | None:
    text = decompress_zstd(packed, _MAX_ROW_BYTES) if isinstance(packed, bytes) else None
    if text is None:
        stats.note(COMPRESSED_NOTE)
        stats.skipped += 1
        return None
    return parse_object(text, stats)
