"""Read the transcripts of Gemini CLI and Qwen Code.

Gemini CLI writes one message per line, and lines that set fields of the session.

    {sessionId, projectHash, …}          the session, again each time it is resumed
    {id, timestamp, type, content, …}    a message; the same id again when its tool calls are done
    {$set: {messages: […]}}              what the model is sent from now on: repeats earlier messages

Up to 0.20 a session is one JSON document with the same messages. A session does not name its directory but the SHA-256 of
it, so a directory is believed only if its hash is the one in the session.

Qwen Code writes the lines of Claude Code with the messages of Gemini CLI: `{uuid, parentUuid, sessionId, timestamp, type, cwd, gitBranch,
message: {role, parts}}`. Tool results are lines of the type `tool_result`. Lines of the type `system` have a `systemPayload` and are not part of
the conversation. Both store the parts of messages (`text`, `functionCall`, `functionResponse`) as the Gemini API has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lorelog.core.ids import sha256
from lorelog.ingest.transcripts.json_files import read_side_file, read_side_object
from lorelog.ingest.transcripts.turns import (
    COMPACTED_NOTE,
    JsonObject,
    OneTurnReader,
    TranscriptStats,
    TurnBuilder,
    as_object,
    content_blocks,
    object_type,
    to_text,
)

_TYPES = frozenset({"user", "gemini", "info", "warning", "error"})
_HOOK_CONTEXT = re.compile(r"<hook_context>.*?(?:</hook_context>|\Z)\s*", re.DOTALL)
_INJECTED_PREFIXES = ("<session_context>", "<state_snapshot>")
_CANCELLED = "Request cancelled"
_SHELL_FRAME = re.compile(
    r"^(?:</?untrusted_context>|Command: .*|Directory: .*|Error: \(none\)|Signal: .*|Process Group PGID: .*|Exit Code: 0)(?:\n|\Z)"
    r"|^Output: ",
    re.MULTILINE,
)
"""What is written around the output of a command."""


def is_gemini(record: JsonObject) -> bool:
    """Return True if a line has the format of Gemini CLI."""
    if "projectHash" in record or isinstance(record.get("$set"), dict):
        return True
    return object_type(record) in _TYPES and "content" in record and "timestamp" in record and "message" not in record


def _part_text(parts: object) -> str:
    """Return the text of a message, without the model's thoughts."""
    if isinstance(parts, str):
        return parts
    blocks = parts if isinstance(parts, list) else [parts]
    texts = (
        block if isinstance(block, str) else to_text(as_object(block).get("text"))
        for block in blocks
        if not (isinstance(block, dict) and block.get("thought"))
    )
    return "\n\n".join(text for text in texts if text.strip())


def _response_text(part: JsonObject) -> object:
    answer = as_object(part.get("functionResponse"))
    response = as_object(answer.get("response"))
    text = response.get("output") or response.get("error") or response.get("content") or ""
    is_command = answer.get("name") == "run_shell_command" and isinstance(text, str)
    return _SHELL_FRAME.sub("", to_text(text)).strip() if is_command else text


class GeminiReader(OneTurnReader):
    """Makes turns of lines or messages."""

    def __init__(self, stats: TranscriptStats) -> None:
        super().__init__(stats)
        self._seen: set[str] = set()

    def take(self, record: JsonObject) -> Iterator[TurnBuilder]:
        if isinstance(record.get("sessionId"), str):
            self._stats.session = to_text(record["sessionId"])
        messages = as_object(record.get("$set")).get("messages")
        for message in messages if isinstance(messages, list) else [record]:
            yield from self._take_message(as_object(message), is_repeated=message is not record)

    def _take_message(self, message: JsonObject, *, is_repeated: bool) -> Iterator[TurnBuilder]:
        kind, identity = object_type(message), to_text(message.get("id"))
        is_new = not identity or identity not in self._seen
        self._seen.add(identity)
        if kind == "user" and is_new:
            yield from self._take_user(message)
        elif kind == "gemini":
            self._take_answer(message, is_new=is_new, is_repeated=is_repeated)
        elif kind == "info" and self._turn and _part_text(message.get("content")).startswith(_CANCELLED):
            self._turn.interrupted = True
        else:
            self._stats.skipped += 1

    def _take_user(self, message: JsonObject) -> Iterator[TurnBuilder]:
        text = _HOOK_CONTEXT.sub("", _part_text(message.get("displayContent") or message.get("content"))).strip()
        images = "\n[image]" * sum("inlineData" in block for block in content_blocks(message.get("content")))
        if text.startswith(_INJECTED_PREFIXES):
            if text.startswith("<state_snapshot>"):
                self._stats.note(COMPACTED_NOTE)
            self._stats.skipped += 1
        elif not text and not images:
            self._stats.skipped += 1  # the result of a tool, which its call has too
        else:
            yield from self._begin(message.get("id"), message.get("timestamp"), text + images)

    def _take_answer(self, message: JsonObject, *, is_new: bool, is_repeated: bool) -> None:
        if self._turn is None and is_repeated:
            self._stats.skipped += 1
            return
        # Another process of the host may delete a file that is in use; it then begins in the middle of a turn.
        self._turn = self._turn or TurnBuilder(message.get("id"), message.get("timestamp"))
        self._turn.add_alias(message.get("id"))
        if is_new:
            self._turn.add_text(_part_text(message.get("content")))
        calls = message.get("toolCalls")
        for call in map(as_object, calls if isinstance(calls, list) else ()):
            self._turn.add_call(call.get("id"), call.get("name"), call.get("args"))
            if call.get("status") in {"success", "error", "cancelled"}:
                texts = [to_text(_response_text(part)) for part in content_blocks(call.get("result"))]
                shown = _HOOK_CONTEXT.sub("", "\n".join(filter(None, texts)) or to_text(call.get("resultDisplay")))
                self._turn.add_result(call.get("id"), shown, failed=call.get("status") == "error")


def find_project_directory(path: str, records: Iterable[JsonObject]) -> str:
    """Return the directory of a session; empty if none that Gemini CLI knows of has the hash in the session."""
    expected = next((to_text(record["projectHash"]) for record in records if record.get("projectHash")), "")
    folder = Path(path).parent.parent
    known = read_side_object(folder.parent.parent / "projects.json")
    candidates = [read_side_file(folder / ".project_root").strip(), *as_object(known.get("projects"))]
    return next((folder for folder in candidates if folder and sha256(folder.encode()).hexdigest() == expected), "")


_QWEN_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_QWEN_INJECTED = re.compile(r"<(qwen:user-prompt-submit-context|system-reminder)>.*?(?:</\1>|\Z)\s*", re.DOTALL)


def is_qwen(record: JsonObject) -> bool:
    """Return True if a line has the format of Qwen Code."""
    if object_type(record) not in _QWEN_TYPES or "uuid" not in record:
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
        text = _QWEN_INJECTED.sub("", to_text(shown) or _part_text(parts)).strip()
        text += "\n[image]" * sum("inlineData" in block for block in content_blocks(parts))
        if not text:
            self._stats.skipped += 1
            return
        yield from self._begin(record.get("uuid"), record.get("timestamp"), text)

    def _add_parts(self, turn: TurnBuilder, record: JsonObject, parts: object) -> None:
        blocks = content_blocks(parts)
        if object_type(record) == "assistant":
            turn.add_text(_part_text(parts))
        for block in blocks:
            call, result = as_object(block.get("functionCall")), as_object(block.get("functionResponse"))
            if call:
                turn.add_call(call.get("id"), call.get("name"), call.get("args"))
            elif result:
                status = as_object(record.get("toolCallResult")).get("status")
                turn.add_result(result.get("id"), _response_text(block), failed=status == "error")
