"""Read OpenClaw transcripts: lines of a file (up to 2026.7) or rows of `transcript_events` (from 2026.8).

Both contain the same records: `{type: "message", id, parentId, timestamp, message: {role, content}}`. Tool results are
messages of their own with the role `toolResult`.

Factory Droid's lines have the same form, in `sessions/<folder>/<id>.jsonl`. Its first line is `{type: "session_start", id, cwd}`, tool
results are blocks of a user's message, and what it tells the model itself is a user's message of `<system-reminder>` blocks.

Sessions of other agents (`agent_formats`) become such records, too: a header of `session_record`, then messages of `message_record`. So their
contents may have the forms that Anthropic's and OpenAI's interfaces, Amp and Goose have for calls and results.
"""

from __future__ import annotations

from collections.abc import Iterator

from lorelog.ingest.transcripts import json_files
from lorelog.ingest.transcripts.claude import REMINDER
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
    to_text,
)

_CALL_TYPES = frozenset({"toolCall", "tool_use", "toolUse", "toolRequest"})
_FAILURES = frozenset({"error", "cancelled", "rejected-by-user"})
_HEADERS = frozenset({"session", "session_start"})
_RESULT_ROLES = frozenset({"toolResult", "tool_result", "tool"})
_RESULT_TYPES = _RESULT_ROLES | {"toolResponse"}
COMPRESSED_NOTE = "a compressed message could not be read"
_MAX_ROW_BYTES = 4 * 1024 * 1024
"""Maximum size of a compressed row in OpenClaw."""


def is_openclaw(record: JsonObject) -> bool:
    """Return True if a line has the format of OpenClaw."""
    return object_type(record) == "message" and isinstance(as_object(record.get("message")).get("role"), str)


def is_session_header(record: JsonObject) -> bool:
    """Return True if a line opens a session."""
    return object_type(record) == "session" and "version" in record


def session_record(session: object, directory: object, time: object, **more: object) -> JsonObject:
    """Return the header of a translated session; `more` may have `parentSession` and `changed`, the time of its last change."""
    return {"type": "session", "id": session, "cwd": directory, "timestamp": time, **more}


def message_record(
    role: object, content: object, time: object = None, identity: object = "", **more: object
) -> JsonObject:
    """Return a message; `more` are other fields of it, such as `stopReason`."""
    return {"type": "message", "id": identity, "timestamp": time, "message": {"role": role, "content": content, **more}}


def call_block(call: object, name: object, arguments: object) -> JsonObject:
    """Return a tool call, a part of an assistant's message."""
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def result_record(call: object, content: object, *, failed: bool = False) -> JsonObject:
    """Return a message with the result of a tool call."""
    return message_record("toolResult", content, toolCallId=call, isError=failed)


class OpenClawReader(OneTurnReader):
    """Makes turns of lines or rows. A message without a time has that of the one before it."""

    _time: object = None

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        if not is_openclaw(record) or record["message"]["role"] == "system":  # the prompt of Pi
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
            results = [block for block in blocks if object_type(block) in _RESULT_TYPES]
            if self._turn is not None:
                for block in results:
                    _add_result(self._turn, block)
            if not text and not any(object_type(block) == "image" for block in blocks):
                self._stats.skipped += not results
                return
        if role == "user" or self._turn is None:
            self._time = record.get("timestamp") or message.get("timestamp") or self._time
            yield from self._begin(record.get("id"), self._time, (text or "[image]") if role == "user" else "")
        if self._turn is not None:
            self._turn.add_alias(record.get("id"))
            _add_message(self._turn, message, text)

    def _take_other(self, kind: str, record: JsonObject) -> None:
        if kind in _HEADERS:
            self._stats.session = to_text(record.get("id")) or self._stats.session
            self._time = record.get("timestamp")
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
                made = as_object(as_object(block.get("toolCall")).get("value")) or block
                turn.add_call(block.get("id"), made.get("name"), made.get("arguments", made.get("input")))
            elif object_type(block) in _RESULT_TYPES:
                _add_result(turn, block)
        for call in content_blocks(message.get("tool_calls")):
            function = as_object(call.get("function"))
            turn.add_call(call.get("id"), function.get("name"), function.get("arguments"))
    elif role in _RESULT_ROLES:
        _add_result(turn, message)


def _add_result(turn: TurnBuilder, result: JsonObject) -> None:
    """Add a result, a message or a part of one. Without an id it belongs to the call before it."""
    inner = as_object(result.get("run") or result.get("toolResult"))
    failed = inner.get("status") in _FAILURES or as_object(inner.get("value")).get("isError")
    whole = result.get("content", result.get("text", result.get("output")))
    content = inner.get("value") or inner.get("result") or inner.get("error") or whole
    names = (to_text(result.get(name)) for name in ("toolCallId", "tool_use_id", "tool_call_id", "toolUseID", "id"))
    call = next(filter(None, names), "") or next(reversed(turn.calls), "")
    failed = bool(failed or result.get("isError") or result.get("is_error"))
    turn.add_result(call, content, failed=failed, details=result.get("details"))


def _heads(database: json_files.SessionDatabase, session: str) -> Iterator[JsonObject]:
    query = (
        "SELECT session_id, (SELECT event_json FROM transcript_events e WHERE e.session_id = t.session_id ORDER BY seq LIMIT 1)"
        " FROM transcript_events t WHERE ? IN ('', session_id) GROUP BY session_id ORDER BY min(rowid)"
    )
    for identity, first in database.connection.execute(query, (session,)):
        record = json_files.parse_object(first or "{}", TranscriptStats()) or {}
        yield {**(record if object_type(record) in _HEADERS else {}), "id": identity}


def _select(database: json_files.SessionDatabase, _turn: str) -> tuple[str, int]:
    """Return the session that was written last, and the number of sessions."""
    (count,) = database.connection.execute("SELECT count(DISTINCT session_id) FROM transcript_events").fetchone()
    row = database.connection.execute("SELECT session_id FROM transcript_events ORDER BY rowid DESC LIMIT 1").fetchone()
    return (str(row[0]) if row else "", int(count))


def _records(database: json_files.SessionDatabase, session: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the records of a session in a database. Newer versions compress long messages."""
    packed = "event_zstd" if "event_zstd" in database.columns["transcript_events"] else "NULL"
    rows = database.connection.execute(
        f"SELECT {json_files.bounded_column('event_json')}, {packed}, event_json IS NULL FROM transcript_events WHERE session_id = ? ORDER BY seq",  # noqa: S608
        (session,),
    )
    records = (
        _unpack(packed, stats) if is_packed else json_files.parse_object(row, stats) for row, packed, is_packed in rows
    )
    yield from filter(None, records)


def _unpack(packed: object, stats: TranscriptStats) -> JsonObject | None:
    text = json_files.decompress_zstd(packed, _MAX_ROW_BYTES) if isinstance(packed, bytes) else None
    if text is None:
        stats.note(COMPRESSED_NOTE)
        stats.skipped += 1
        return None
    return json_files.parse_object(text, stats)


DATABASE = json_files.DatabaseFormat(
    "openclaw",
    lambda tables: {"session_id", "seq", "event_json"} <= tables.get("transcript_events", frozenset()),
    *(_heads, _records, OpenClawReader, _select),
)
