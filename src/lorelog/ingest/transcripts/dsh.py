"""DeepSeek Harness: numbered events, one per line, in a file that is usually compressed with Zstandard.

Turns have numbers, which is what anchors name. Pieces of answers that were streamed are left aside: the whole message
follows them.
"""

from __future__ import annotations

from collections.abc import Iterator

from lorelog.ingest.transcripts.building import Record, Tally, TurnBuilder, kind_of, record_of, text_of, texts_of


def is_dsh(record: Record) -> bool:
    """Say whether a line is DSH's."""
    return kind_of(record) in {"turn/start", "user/message", "assistant/message"} and "data" in record


def read_dsh(records: Iterator[Record], tally: Tally) -> Iterator[TurnBuilder]:
    """Yield the turns of a conversation."""
    turn: TurnBuilder | None = None
    for record in records:
        kind, data = kind_of(record), record_of(record.get("data"))
        if kind == "session":
            tally.session = text_of(record.get("id")) or tally.session
        number = text_of(data.get("turn"))
        is_request = kind == "user/message" and record_of(data.get("source")).get("kind", "user") == "user"
        begins = kind == "turn/start" or (is_request and (turn is None or turn.has_answer))
        if begins or (number and turn is not None and turn.identity not in {"", number}):
            if turn:
                yield turn
            turn = TurnBuilder(number, record.get("time"))
        if turn is None or not _take(turn, record, data, is_request=is_request):
            tally.skipped += 1
    if turn:
        yield turn


def _take(turn: TurnBuilder, record: Record, data: Record, *, is_request: bool) -> bool:
    kind = kind_of(record)
    if number := text_of(data.get("turn")):
        turn.identity = turn.identity or number
        turn.name(number)
    if is_request:
        turn.name(data.get("id"))
        turn.ask(texts_of(data.get("content")))
    elif kind == "assistant/message":
        message = record_of(data.get("message"))
        turn.name(message.get("id"))
        turn.say(texts_of(message.get("content")))
    elif kind == "tool/call":
        turn.call(data.get("callId"), data.get("name"), data.get("arguments"))
    elif kind == "tool/result":
        failed = bool(data.get("isError") or data.get("error"))
        turn.answer(data.get("callId"), data.get("result", data.get("content", data.get("output"))), failed=failed)
    elif kind == "turn/end":
        turn.interrupted = text_of(record_of(data.get("reason")).get("kind")) in {"aborted", "interrupted", "cancelled"}
    else:
        return False
    return True
