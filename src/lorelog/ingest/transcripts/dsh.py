"""Read DeepSeek Harness transcripts: numbered events, one per line, usually compressed with Zstandard.

Turns have numbers, which anchors refer to. Streamed fragments of answers are skipped: the whole message follows them.
"""

from __future__ import annotations

from collections.abc import Iterator

from lorelog.ingest.transcripts.turns import (
    JsonObject,
    OneTurnReader,
    TurnBuilder,
    as_object,
    message_text,
    object_type,
    to_text,
)


def is_dsh(record: JsonObject) -> bool:
    """Return True if a line has the format of DSH."""
    return object_type(record) in {"turn/start", "user/message", "assistant/message"} and "data" in record


class DshReader(OneTurnReader):
    """Makes turns of events."""

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        kind, data = object_type(record), as_object(record.get("data"))
        if kind == "session":
            self._stats.session = to_text(record.get("id")) or self._stats.session
        number, turn = to_text(data.get("turn")), self._turn
        is_request = kind == "user/message" and as_object(data.get("source")).get("kind", "user") == "user"
        begins = kind == "turn/start" or (is_request and (turn is None or turn.has_answer))
        if begins or (number and turn is not None and turn.identity not in {"", number}):
            yield from self.flush()
            self._turn = TurnBuilder(number, record.get("time"))
        if self._turn is None or not _add_event(self._turn, record, data, is_request=is_request):
            self._stats.skipped += 1


def _add_event(turn: TurnBuilder, record: JsonObject, data: JsonObject, *, is_request: bool) -> bool:
    kind = object_type(record)
    if number := to_text(data.get("turn")):
        turn.identity = turn.identity or number
        turn.add_alias(number)
    if is_request:
        turn.add_alias(data.get("id"))
        turn.add_request(message_text(data.get("content")))
    elif kind == "assistant/message":
        message = as_object(data.get("message"))
        turn.add_alias(message.get("id"))
        turn.add_text(message_text(message.get("content")))
    elif kind == "tool/call":
        turn.add_call(data.get("callId"), data.get("name"), data.get("arguments"))
    elif kind == "tool/result":
        failed = bool(data.get("isError") or data.get("error"))
        turn.add_result(data.get("callId"), data.get("result", data.get("content", data.get("output"))), failed=failed)
    elif kind == "turn/end":
        turn.interrupted = to_text(as_object(data.get("reason")).get("kind")) in {"aborted", "interrupted", "cancelled"}
    else:
        return False
    return True
