"""Read transcripts of Kimi Code: `sessions/<folder>/<session>/agents/main/wire.jsonl`, a line per event.

    turn.prompt                    a prompt of a person, if its origin is `user`
    context.append_loop_event      an event of the answer: `content.part`, `tool.call`, `tool.result`
    turn.ended                     completed, cancelled or failed

Other lines repeat these or are about the program. The directory is in `state.json` of the session's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lorelog.ingest.transcripts import turns
from lorelog.ingest.transcripts.json_files import parse_object

_MAX_STATE_CHARS = 1_000_000
_TYPES = frozenset({"turn.prompt", "turn.ended", "context.append_loop_event", "context.append_message", "profile.bind"})


def is_kimi(record: turns.JsonObject) -> bool:
    """Return True if a line has the format of Kimi Code."""
    return turns.object_type(record) in _TYPES and "agentId" in record


def read_state(path: str) -> turns.JsonObject:
    """Return what Kimi Code notes of a session beside its agents: its id, its directory and its parent."""
    folder = Path(path).parents[2]
    with suppress(OSError, IndexError, UnicodeDecodeError), (folder / "state.json").open(encoding="utf-8") as file:
        return {"id": folder.name, **(parse_object(file.read(_MAX_STATE_CHARS), turns.TranscriptStats()) or {})}
    return {"id": folder.name}


class KimiReader(turns.OneTurnReader):
    """Makes turns of the main agent's events."""

    def take(self, record: turns.JsonObject) -> Iterator[turns.TurnBuilder]:
        kind, origin = turns.object_type(record), turns.as_object(record.get("origin"))
        if kind == "turn.prompt" and origin.get("kind") == "user":
            text = turns.message_text(record.get("input")) or "[image]"
            yield from self._begin(record.get("promptId"), record.get("time"), text)
        elif self._turn is None or not _add_kimi_event(self._turn, kind, record):
            if kind == "full_compaction.complete":
                self._stats.note(turns.COMPACTED_NOTE)
            self._stats.skipped += 1


def _add_kimi_event(turn: turns.TurnBuilder, kind: str, record: turns.JsonObject) -> bool:
    event = turns.as_object(record.get("event"))
    part, result = turns.as_object(event.get("part")), turns.as_object(event.get("result"))
    step = f"{kind} {turns.object_type(event)}"
    if step == "context.append_loop_event content.part" and turns.object_type(part) == "text":
        turn.add_text(part.get("text"))
    elif step == "context.append_loop_event tool.call":
        turn.add_call(event.get("toolCallId"), event.get("name"), event.get("args"))
    elif step == "context.append_loop_event tool.result":
        output = result.get("output")
        text = turns.message_text(output) if isinstance(output, list) else turns.to_text(output)
        turn.add_result(event.get("toolCallId"), text, failed=result.get("isError") is True)
    elif kind == "turn.ended":
        turn.interrupted |= record.get("reason") == "cancelled"
        turn.failed |= record.get("reason") == "failed"
    else:
        return False
    return True
