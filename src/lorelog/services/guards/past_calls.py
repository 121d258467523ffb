"""Past tool calls, from the hosts' transcripts or from the traces of captured turns.

A transcript is read as it is captured: it has the lines that a call added, and what the user said next. Traces have commands and
files, but not the text that was written. A transcript that can still be read is preferred.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import LorelogError
from lorelog.core.query import Filters
from lorelog.ingest.transcripts.conversation import Conversation, open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turns import ParsedTurn, TranscriptStats, iso_time
from lorelog.ingest.transcripts.user_replies import is_interruption, is_rejection
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
_READ_TOOLS = ("read", "view", "cat", "open")
_SEARCH_TOOLS = ("grep", "glob", "search", "find", "list")
_MAX_TRACED_CALLS = 50_000
_MAX_TRANSCRIPTS = 500
_MAX_ENTRIES = 20_000
_MAX_TRANSCRIPT_BYTES = 400_000_000


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
    """Yield the tool calls of a conversation in order, with what the user said next. Raise LorelogError if it cannot be read."""
    return islice(_read_calls(open_conversation(path, session), session), _MAX_CALLS_PER_FILE)


def _read_calls(conversation: Conversation, session: str) -> Iterator[PastCall]:
    head, waiting = read_conversation_head(conversation), list[PastCall]()
    origin = {"host": conversation.host, "session": session or head.session, "directory": head.directory}
    for parsed in conversation.turns(TranscriptStats()):
        calls = [_past_call(action, parsed, origin) for action in parsed.digest.actions if action.tool]
        if parsed.turn.sidechain:  # its request is the agent's
            yield from calls
            continue
        said = parsed.digest.request[:MAX_STATEMENT_CHARS]
        yield from (replace(call, statement=call.statement or said) for call in waiting)
        waiting = calls
    yield from waiting


def _past_call(action: ToolAction, parsed: ParsedTurn, origin: Mapping[str, str]) -> PastCall:
    name = action.tool.lower()
    is_search = name == "ls" or any(word in name for word in _SEARCH_TOOLS)
    kind = "run" if action.command else "edit" if action.files else "search" if is_search else ""
    written = (line for edit in action.edits for line in edit.lines)
    more: dict[str, Any] = {**origin, **({action.outcome: True} if action.outcome else {})}
    return PastCall(
        tool=action.tool,
        kind=kind or ("read" if any(word in name for word in _READ_TOOLS) else "other"),
        paths=action.files or tuple(filter(None, (action.opened,))),
        command=action.command,
        content="\n".join(() if action.command else written)[:MAX_CONTENT_CHARS],
        at=iso_time(action.time) or parsed.turn.time,
        turn=parsed.turn.id,
        complete=bool(action.command or action.edits or not action.files),
        statement=action.words[:MAX_STATEMENT_CHARS],
        **more,
    )


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
