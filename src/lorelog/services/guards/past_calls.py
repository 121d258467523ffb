"""Past tool calls, as guards are replayed over them: from the hosts' transcripts, or from the traces of captured turns.

A transcript has everything that a hook would have seen, and what the user said next. Traces have commands and files,
but not the text that was written. A transcript that can still be read is preferred.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import LorelogError
from lorelog.ingest.transcripts.actions import parse_action
from lorelog.ingest.transcripts.conversation import Conversation, open_conversation, read_conversation_head
from lorelog.ingest.transcripts.json_files import read_records
from lorelog.ingest.transcripts.shown_memory import is_stopped_call, strip_shown_memory
from lorelog.ingest.transcripts.turns import (
    JsonObject,
    TranscriptStats,
    as_object,
    content_blocks,
    iso_time,
    message_text,
    object_type,
    result_text,
    to_text,
)
from lorelog.services.delivery.guard_check import MAX_CONTENT_CHARS

if TYPE_CHECKING:
    from lorelog.core.session import ToolAction
    from lorelog.services.traces.values import TracedCall

MAX_STATEMENT_CHARS = 2_000
_MAX_CALLS_PER_FILE = 20_000
_MAX_CACHED_CHARS = 30_000_000
_CONTENT_KEYS = ("content", "new_string", "newString", "new_str", "file_text", "insert_text", "new_source", "text")
_PATH_KEYS = ("file_path", "filePath", "notebook_path", "path", "filename", "file", "target_file")
_PATCH_KEYS = ("patch", "patchText", "patch_text", "input", "diff")
_READ_TOOL = re.compile(r"read|view|cat|open", re.IGNORECASE)
_SEARCH_TOOL = re.compile(r"grep|glob|search|find|list|\bls\b", re.IGNORECASE)
_REJECTED = re.compile(
    r"user (?:doesn't|does not) want to proceed|rejected by (?:the )?user|user (?:has )?(?:rejected|denied|declined)",
    re.IGNORECASE,
)
_SAID = re.compile(r"the user said:\s*(.+)", re.IGNORECASE | re.DOTALL)
_CALL_TYPES = frozenset({"tool_use", "toolCall", "function_call", "custom_tool_call", "local_shell_call"})
_RESULT_TYPES = frozenset({"tool_result", "toolResult", "function_call_output", "custom_tool_call_output"})


class PastCall(Struct, frozen=True, kw_only=True):
    """A tool call of the past, in the form that hooks use, and how the user reacted."""

    tool: str
    kind: str
    paths: tuple[str, ...] = ()
    command: str = ""
    content: str = ""
    at: str = ""
    """ISO time; empty if unknown."""
    host: str = ""
    session: str = ""
    turn: str = ""
    directory: str = ""
    """Working directory of the session."""
    rejected: bool = False
    """True if the user refused the call."""
    statement: str = ""
    """The user's next words."""
    complete: bool = True
    """False if the text that the call wrote is not known."""
    traced: bool = False
    """True if it is known from traces only."""

    def as_fields(self) -> dict[str, Any]:
        """Return the call as `guard_check` matches it."""
        return {
            "tool": self.tool,
            "kind": self.kind,
            "paths": list(self.paths),
            "command": self.command,
            "content": self.content,
        }


def call_from_arguments(tool: str, arguments: object) -> PastCall:
    """Return the call of a tool with these arguments."""
    action = parse_action(tool, arguments)
    values = _argument_values(arguments)
    content = "" if action.command else _written_text(values, arguments)
    paths = action.files or tuple(
        path for key in _PATH_KEYS if isinstance(path := values.get(key), str) and path.strip()
    )
    return PastCall(
        tool=tool,
        kind=_kind_of(tool, action, content),
        paths=tuple(paths),
        command=action.command,
        content=content[:MAX_CONTENT_CHARS],
    )


def _kind_of(tool: str, action: ToolAction, content: str) -> str:
    if action.command:
        return "run"
    if action.files:
        return "edit"
    if _SEARCH_TOOL.search(tool):
        return "search"
    return "read" if _READ_TOOL.search(tool) else "edit" if content and "write" in tool.lower() else "other"


def _argument_values(arguments: object) -> JsonObject:
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
    return as_object(arguments)


def _written_text(values: JsonObject, arguments: object) -> str:
    edits = values.get("edits")
    holders = [values, *(edit for edit in edits if isinstance(edit, dict))] if isinstance(edits, list) else [values]
    texts = [text for holder in holders for key in _CONTENT_KEYS if isinstance(text := holder.get(key), str)]
    patches = [text for key in _PATCH_KEYS if isinstance(text := values.get(key), str)]
    if isinstance(arguments, str) and not values:
        patches.append(arguments)
    added = [line[1:] for patch in patches for line in patch.splitlines() if line.startswith("+")]
    return "\n".join([*texts, *added])


# -- transcripts -----------------------------------------------------------------------------------------------------


class TranscriptCallCache:
    """Calls of transcripts, kept in memory while their files are unchanged. Never written to disk: they may hold secrets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[str, str, int, int], tuple[PastCall, ...]] = OrderedDict()
        self._chars = 0

    def calls(self, path: str, session: str) -> tuple[PastCall, ...]:
        """Return the calls of a session; none if its transcript is gone or cannot be read."""
        try:
            status = Path(path).stat()
            key = (path, session, status.st_size, status.st_mtime_ns)
            with self._lock:
                if key in self._files:
                    self._files.move_to_end(key)
                    return self._files[key]
            calls = tuple(read_transcript_calls(path, session))
        except (LorelogError, OSError, ValueError):
            return ()
        self._keep(key, calls)
        return calls

    def _keep(self, key: tuple[str, str, int, int], calls: tuple[PastCall, ...]) -> None:
        with self._lock:
            if key not in self._files:
                self._files[key] = calls
                self._chars += _char_count(calls)
            while self._chars > _MAX_CACHED_CHARS and self._files:
                self._chars -= _char_count(self._files.popitem(last=False)[1])


def _char_count(calls: Iterable[PastCall]) -> int:
    return sum(len(call.content) + len(call.command) + len(call.statement) + 200 for call in calls)


def read_transcript_calls(path: str, session: str = "") -> Iterator[PastCall]:
    """Yield the tool calls of a conversation in order. Raise LorelogError if it cannot be read."""
    conversation = open_conversation(path, session)
    head = read_conversation_head(conversation)
    reader = _read_lines if conversation.format == "jsonl" else _read_turns
    for number, call in enumerate(reader(conversation)):
        if number >= _MAX_CALLS_PER_FILE:
            return
        yield replace(
            call, host=conversation.host, session=session or head.session, directory=call.directory or head.directory
        )


def _read_turns(conversation: Conversation) -> Iterator[PastCall]:
    """Read a database or a JSON document by its turns: without the written text."""
    waiting: list[PastCall] = []
    for parsed in conversation.turns(TranscriptStats()):
        request = parsed.digest.request[:MAX_STATEMENT_CHARS]
        yield from (replace(call, statement=call.statement or request) for call in waiting)
        waiting = [
            PastCall(
                tool=action.tool,
                kind=_kind_of(action.tool, action, ""),
                paths=action.files,
                command=action.command,
                at=parsed.turn.time,
                turn=parsed.turn.id,
                rejected=bool(_REJECTED.search(action.error)),
                complete=bool(action.command),
            )
            for action in parsed.digest.actions
        ]
    yield from waiting


def _read_lines(conversation: Conversation) -> Iterator[PastCall]:
    collector = _CallCollector()
    for record in read_records(conversation.path, TranscriptStats()):
        yield from collector.take(record)
    yield from collector.flush()


class _CallCollector:
    """Collects the calls of one turn, and completes them with their results and with the user's next words."""

    def __init__(self) -> None:
        self._calls: dict[str, PastCall] = {}
        self._seen: set[str] = set()
        self._directory = ""

    def take(self, record: JsonObject) -> Iterator[PastCall]:
        if isinstance(record.get("cwd"), str):
            self._directory = record["cwd"]
        holder = as_object(record.get("message")) or as_object(record.get("payload")) or record
        at = iso_time(record.get("timestamp"))
        blocks = content_blocks(holder.get("content"))
        if object_type(holder) in _CALL_TYPES | _RESULT_TYPES or holder.get("role") == "toolResult":
            blocks = [{**holder, "type": object_type(holder) or "toolResult"}]
        for block in blocks:
            if object_type(block) in _CALL_TYPES:
                self._take_call(block, at)
            elif object_type(block) in _RESULT_TYPES:
                self._take_result(block)
        if holder.get("role") == "user" and not record.get("isMeta") and not record.get("isSidechain"):
            text = message_text(holder.get("content"), ("text", "input_text")).strip()
            if text and not text.startswith(("<", "[Request interrupted", "# AGENTS.md")):
                yield from self.flush(text)

    def flush(self, statement: str = "") -> Iterator[PastCall]:
        """Yield the calls before a statement of the user."""
        for call in self._calls.values():
            yield replace(call, statement=call.statement or statement[:MAX_STATEMENT_CHARS])
        self._calls.clear()

    def _take_call(self, block: JsonObject, at: str) -> None:
        identity = to_text(block.get("call_id") or block.get("id")) or f"unnamed {len(self._seen)}"
        if identity in self._seen:
            return
        self._seen.add(identity)
        keys = ("input", "arguments", "action")
        arguments: object = next((block[key] for key in keys if block.get(key) is not None), {})
        tool = to_text(block.get("name")).strip()[:100] or "shell"
        self._calls[identity] = replace(call_from_arguments(tool, arguments), at=at, directory=self._directory)

    def _take_result(self, block: JsonObject) -> None:
        names = ("tool_use_id", "call_id", "toolCallId")
        identity = next((to_text(block[name]) for name in names if block.get(name)), "")
        call = self._calls.get(identity)
        if call is None:
            return
        text = result_text(block.get("content") if block.get("content") is not None else block.get("output"))[:20_000]
        if is_stopped_call(text, failed=bool(block.get("is_error"))):  # by a guard or a rule, not by the user
            return
        text = strip_shown_memory(text)
        if _REJECTED.search(text[:1_000]):
            said = _SAID.search(text)
            statement = said[1].strip()[:MAX_STATEMENT_CHARS] if said else ""
            self._calls[identity] = replace(call, rejected=True, statement=statement)


# -- traces ----------------------------------------------------------------------------------------------------------


def calls_from_traces(traced: Sequence[TracedCall], known_sessions: frozenset[str]) -> list[PastCall]:
    """Return traced tool calls of the sessions whose transcripts are not known, oldest first."""
    return [_call_from_trace(call) for call in reversed(traced) if call.origin.session not in known_sessions]


def _call_from_trace(call: TracedCall) -> PastCall:
    at = datetime.fromtimestamp(call.at / 1000, UTC).isoformat(timespec="seconds")
    # `command` is normalized for comparison; `input` is what was typed.
    command = call.input if call.command else ""
    kind = "run" if command else "edit" if call.files else "other"
    return PastCall(
        tool=call.tool,
        kind=kind,
        paths=call.files,
        command=command,
        at=at,
        host=call.origin.host,
        session=call.origin.session,
        turn=call.origin.turn,
        directory=call.origin.project,
        rejected=bool(_REJECTED.search(call.error)),
        complete=bool(command),
        traced=True,
    )


def summarize_call(call: PastCall | Mapping[str, Any]) -> str:
    """Return one line that identifies a call: its command, else its files."""
    fields = call.as_fields() if isinstance(call, PastCall) else dict(call)
    text = fields["command"] or " ".join(fields["paths"]) or fields["tool"]
    return " ".join(text.split())[:200]
