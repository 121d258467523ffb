"""Past tool calls, from the hosts' transcripts or from the traces of captured turns.

A transcript has everything that a hook would have seen, and what the user said next. Traces have commands and files, but
not the text that was written. A transcript that can still be read is preferred.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import LorelogError
from lorelog.core.query import Filters
from lorelog.ingest.transcripts.actions import PATCH_KEYS, PATH_KEYS, parse_action, parse_arguments
from lorelog.ingest.transcripts.conversation import Conversation, open_conversation, read_conversation_head
from lorelog.ingest.transcripts.json_files import read_records
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
from lorelog.ingest.transcripts.user_replies import (
    is_interruption,
    is_rejection,
    is_stopped_call,
    rejection_words,
    strip_shown_memory,
)
from lorelog.light.guard_check import MAX_CONTENT_CHARS
from lorelog.services.guards.replay import PastCall

if TYPE_CHECKING:
    from lorelog.core.ports import Progress, Store
    from lorelog.core.session import ToolAction
    from lorelog.services.memories.transcript_access import TranscriptAccess
    from lorelog.services.traces.recorder import TraceStore
    from lorelog.services.traces.tables import TracedCall

MAX_STATEMENT_CHARS = 2_000
_MAX_CALLS_PER_FILE = 20_000
_MAX_CACHED_CHARS = 30_000_000
_CONTENT_KEYS = ("content", "new_string", "newString", "new_str", "file_text", "insert_text", "new_source", "text")
_READ_TOOLS = ("read", "view", "cat", "open")
_SEARCH_TOOLS = ("grep", "glob", "search", "find", "list")
_CALL_TYPES = frozenset({"tool_use", "toolCall", "function_call", "custom_tool_call", "local_shell_call"})
_RESULT_TYPES = frozenset({"tool_result", "toolResult", "function_call_output", "custom_tool_call_output"})
_MAX_TRACED_CALLS = 50_000
_MAX_TRANSCRIPTS = 500
_MAX_ENTRIES = 20_000
_MAX_TRANSCRIPT_BYTES = 400_000_000


def call_from_arguments(tool: str, arguments: object) -> PastCall:
    action = parse_action(tool, arguments)
    values = as_object(parse_arguments(arguments))
    content = "" if action.command else _written_text(values, arguments)
    paths = action.files or tuple(
        path for key in PATH_KEYS if isinstance(path := values.get(key), str) and path.strip()
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
    name = tool.lower()
    if name == "ls" or any(word in name for word in _SEARCH_TOOLS):
        return "search"
    is_read = any(word in name for word in _READ_TOOLS)
    return "read" if is_read else "edit" if content and "write" in name else "other"


def _written_text(values: JsonObject, arguments: object) -> str:
    edits = values.get("edits")
    holders = [values, *(edit for edit in edits if isinstance(edit, dict))] if isinstance(edits, list) else [values]
    texts = [text for holder in holders for key in _CONTENT_KEYS if isinstance(text := holder.get(key), str)]
    patches = [text for key in PATCH_KEYS if isinstance(text := values.get(key), str)]
    if isinstance(arguments, str) and not values:
        patches.append(arguments)
    added = [line[1:] for patch in patches for line in patch.splitlines() if line.startswith("+")]
    return "\n".join([*texts, *added])


# -- transcripts -----------------------------------------------------------------------------------------------------


_CACHED: OrderedDict[tuple[str, str, int, int], tuple[int, tuple[PastCall, ...]]] = OrderedDict()
"""Calls of transcripts, with their size, while their files are unchanged. Never written to disk: they may hold secrets."""
_CACHE_LOCK = threading.Lock()


def _cached_calls(path: str, session: str) -> tuple[PastCall, ...]:
    """Return the calls of a session; none if its transcript is gone or cannot be read."""
    try:
        status = Path(path).stat()
        key = (path, session, status.st_size, status.st_mtime_ns)
        with _CACHE_LOCK:
            if key in _CACHED:
                _CACHED.move_to_end(key)
                return _CACHED[key][1]
        calls = tuple(read_transcript_calls(path, session))
    except (LorelogError, OSError, ValueError):
        return ()
    with _CACHE_LOCK:
        _CACHED[key] = (sum(len(call.content) + len(call.command) + len(call.statement) + 200 for call in calls), calls)
        while sum(size for size, _ in _CACHED.values()) > _MAX_CACHED_CHARS:
            _CACHED.popitem(last=False)
    return calls


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
                rejected=is_rejection(action.error),
                interrupted=is_interruption(action.error),
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
            if text and not text.startswith(
                ("<", "[Request interrupted", "# AGENTS.md", "This session is being continued")
            ):
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
            self._calls[identity] = replace(call, stopped=True)
            return
        text = strip_shown_memory(text)
        if is_rejection(text):
            statement = rejection_words(text)[:MAX_STATEMENT_CHARS]
            self._calls[identity] = replace(call, rejected=True, statement=statement)
        elif is_interruption(text):
            self._calls[identity] = replace(call, interrupted=True)


# -- traces ----------------------------------------------------------------------------------------------------------


def calls_from_traces(traced: Sequence[TracedCall], known_sessions: frozenset[str]) -> list[PastCall]:
    """Return traced tool calls of the sessions whose transcripts are not known, oldest first."""
    return [
        PastCall(
            tool=call.tool,
            kind="run" if call.command else "edit" if call.files else "other",
            paths=call.files,
            command=call.input if call.command else "",  # `command` is normalized; `input` is what was typed
            at=datetime.fromtimestamp(call.at / 1000, UTC).isoformat(timespec="seconds"),
            host=call.host,
            session=call.session,
            turn=call.turn,
            directory=call.project,
            rejected=is_rejection(call.error),
            interrupted=is_interruption(call.error),
            complete=bool(call.command),
            traced=True,
        )
        for call in reversed(traced)
        if call.session not in known_sessions
    ]


class ReplaySources(Struct, frozen=True, kw_only=True):
    """The past calls of a project: its transcripts and its traces."""

    store: Store
    traces: TraceStore
    project: str
    project_root: str
    access: TranscriptAccess
    all_projects: bool = False
    """True for a guard that applies to all projects."""

    def calls(self, progress: Progress | None = None) -> tuple[list[PastCall], tuple[str, ...]]:
        """Return the calls, and notes about sources that could not be read."""
        projects = None if self.all_projects else (self.project, "")
        notes: list[str] = []
        calls: list[PastCall] = []
        transcripts = self._transcripts(projects, notes)
        for number, (path, session) in enumerate(transcripts):
            if progress is not None:
                progress("transcripts", number, len(transcripts))
            calls += _cached_calls(path, session)
        sessions = frozenset(call.session for call in calls if call.session)
        calls += self._traced(projects, sessions, notes)
        return calls, tuple(notes)

    def _transcripts(self, projects: tuple[str, ...] | None, notes: list[str]) -> list[tuple[str, str]]:
        """Return transcripts that anchors name, newest first. Files of the repository itself are not transcripts."""
        from lorelog.core.paths import is_below

        found: dict[tuple[str, str], None] = {}
        size = 0
        for stored in self.store.recent(Filters(projects=projects), _MAX_ENTRIES):
            anchor = stored.chunk.anchor
            if anchor is None or not anchor.transcript or "://" in anchor.transcript:
                continue
            path = Path(stored.chunk.source).parent / anchor.transcript
            try:
                path = Path(anchor.transcript).expanduser() if anchor.transcript.startswith("~") else path
                key = (str(path), anchor.session)
                if key in found or is_below(str(path), self.project_root):
                    continue
                real = self.access.resolve(stored, str(path), anchor.session)
                if not real or not Path(real).is_file():
                    continue
                size += path.stat().st_size
            except (OSError, ValueError, RuntimeError):
                continue
            if len(found) >= _MAX_TRANSCRIPTS or size > _MAX_TRANSCRIPT_BYTES:
                notes.append(f"only the newest {len(found):,} transcripts were read")
                break
            found[key] = None
        return list(found)

    def _traced(
        self, projects: tuple[str, ...] | None, known_sessions: frozenset[str], notes: list[str]
    ) -> list[PastCall]:
        from lorelog.services.traces.tables import TraceFilter

        if not self.traces.options.enabled:
            return []
        try:
            filter_ = TraceFilter(projects=projects, source="turn", limit=_MAX_TRACED_CALLS)
            traced, total = self.traces.tables().calls(filter_)
        except LorelogError as error:
            notes.append(f"traces could not be read: {error.message}")
            return []
        if total > len(traced):
            notes.append(f"only the newest {len(traced):,} of {total:,} traced calls were replayed")
        return calls_from_traces(traced, known_sessions)
