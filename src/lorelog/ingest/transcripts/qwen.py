"""Read Qwen Code's transcripts: the lines of Claude Code with the messages of Gemini CLI.

A line is `{uuid, parentUuid, sessionId, timestamp, type, cwd, gitBranch, message: {role, parts}}`; tool results are lines
of the type `tool_result`. Lines of the type `system` have a `systemPayload` and are not part of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorelog.ingest.transcripts.gemini import part_text, response_text
from lorelog.ingest.transcripts.turns import (
    COMPACTED_NOTE,
    JsonObject,
    OneTurnReader,
    TurnBuilder,
    as_object,
    content_blocks,
    object_type,
    to_text,
)

_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_INJECTED = re.compile(
    r"<(qwen:user-prompt-submit-context|system-reminder)>.*?(?:</\1>|\Z)\s*",
    re.DOTALL,
)


def is_qwen(record: JsonObject) -> bool:
    """Return True if a line has the format of Qwen Code."""
    if object_type(record) not in _TYPES or "uuid" not in record:
        return False
    return "systemPayload" in record or isinstance(as_object(record.get("message")).get("parts"), list)


class QwenReader(OneTurnReader):
    """Makes turns of the lines."""

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        if isinstance(record.get("sessionId"), str):
            self._stats.session = to_text(record["sessionId"])
        kind, parts = object_type(record), as_object(record.get("message")).get("parts")
        if kind == "user" and record.get("provenance", "real_user") == "real_user":
            yield from self._take_user(record, parts)
        elif kind in {"assistant", "tool_result"} and self._turn:
            self._turn.add_alias(record.get("uuid"))
            self._add_parts(self._turn, record, parts)
        else:
            if record.get("subtype") == "chat_compression":
                self._stats.note(COMPACTED_NOTE)
            self._stats.skipped += 1

    def _take_user(self, record: JsonObject, parts: object) -> Iterator[TurnBuilder]:
        shown = as_object(record.get("systemPayload")).get("displayText")
        text = _INJECTED.sub("", to_text(shown) or part_text(parts)).strip()
        text += "\n[image]" * sum("inlineData" in block for block in content_blocks(parts))
        if not text:
            self._stats.skipped += 1
            return
        yield from self.flush()
        self._turn = TurnBuilder(record.get("uuid"), record.get("timestamp"))
        self._turn.add_request(text)

    def _add_parts(self, turn: TurnBuilder, record: JsonObject, parts: object) -> None:
        blocks = content_blocks(parts)
        if object_type(record) == "assistant":
            turn.add_text(part_text(parts))
        for block in blocks:
            call, result = as_object(block.get("functionCall")), as_object(block.get("functionResponse"))
            if call:
                turn.add_call(call.get("id"), call.get("name"), call.get("args"))
            elif result:
                status = as_object(record.get("toolCallResult")).get("status")
                turn.add_result(result.get("id"), response_text(block), failed=status == "error")
