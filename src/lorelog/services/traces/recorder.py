"""Records the calls of operations: duration, error, and the arguments that are not free text.

Recording a call costs one short append to a file. No database is opened and nothing is imported for it, because every
operation does it, even in a command that runs for a tenth of a second. The tables are loaded when traces are read, or,
in a background thread, when the file has grown.

Texts given to be remembered, recorded, searched for or summarized are not stored, only their length: a deleted memory
must not survive here, and redaction takes longer than a call may. Ids, numbers, dates, paths and names are stored.
Recording never fails a call and never waits.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.errors import LorelogError
from lorelog.core.options import TraceOptions
from lorelog.core.processes import try_file_lock
from lorelog.services.traces import SPOOL_FILE

if TYPE_CHECKING:
    from lorelog.services.traces.tables import TraceTables

_ABSORB_BYTES = 512_000
"""Size from which the spool is moved to the tables."""
_MAX_SPOOL_BYTES = 8_000_000
"""Size at which a spool that cannot be moved is dropped."""
_MAX_LINE_BYTES = 8_000
_encode_line = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_field = json.JSONEncoder(ensure_ascii=False).encode
"""As `json.dumps`, which makes a new encoder in each call."""
_absorb_lock = threading.Lock()


class TraceStore:
    """The traces of one tenant. Safe to share between threads. No file is created before the first trace."""

    def __init__(self, path: Path, options: TraceOptions) -> None:
        self.path = path
        self.options = options
        self._spool = path.with_name(SPOOL_FILE)
        self._lock = threading.Lock()
        self._tables: TraceTables | None = None

    def tables(self) -> TraceTables:
        """Return the tables, opening them on first use."""
        with self._lock:
            if self._tables is None:
                from lorelog.services.traces.tables import TraceTables

                self._tables = TraceTables(self.path, self.options)
            return self._tables

    def append_line(self, line: Mapping[str, Any]) -> None:
        """Append a recorded call to the spool. Raise OSError."""
        text = _encode_line(line).encode("utf-8", "replace")
        size = self._append(text + b"\n") if len(text) < _MAX_LINE_BYTES else 0
        if size > _ABSORB_BYTES and _absorb_lock.acquire(blocking=False):
            given = (self.path, self.options)
            threading.Thread(target=_absorb_spool, args=given, name="lorelog-traces", daemon=True).start()

    def close(self) -> None:
        """Close the tables; the next call opens them again. May be called twice."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()
            self._tables = None

    def _append(self, text: bytes) -> int:
        for _ in range(3):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._spool, flags, 0o600)
            try:
                if not try_file_lock(descriptor, shared=True):
                    continue
                status = os.fstat(descriptor)
                if status.st_nlink and status.st_size < _MAX_SPOOL_BYTES:
                    os.write(descriptor, text)
                    return status.st_size + len(text)
                if status.st_nlink:
                    self._spool.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
            # Another process has just taken or removed it; the next attempt creates a new file.
        return 0


def _absorb_spool(path: Path, options: TraceOptions) -> None:
    """Move the spool to the tables, with a connection of its own: an engine's may be closed at any time."""
    from lorelog.services.traces.tables import TraceTables

    try:
        with suppress(LorelogError, OSError), closing(TraceTables(path, options)) as tables:
            tables.absorb_spool()
    finally:
        _absorb_lock.release()


RECORDED_ARGUMENTS = frozenset(
    """
    id task_id parent_task_id artifact_id thread_id reply_to_artifact_id run_id episode_id
    name module container path paths source file_path place directory prefix project
    lane fusion trust since until time_from time_to expires review_after relevance
    types type status artifact_kind host session session_id moment turn by llm origin
    tool_name error_signature function_name branch commit transcript language kind writer certainty
    """.split()
)
"""Arguments that are stored if they are a single word. Of all other texts only the length is stored."""
_SINGLE_WORD = r"[\w.:/@~#*+-]{1,160}"
_KIND_ARGUMENTS = frozenset({"type", "types", "kind", "artifact_kind", "status", "tool_name", "origin"})
_KIND_WORD = r"[^\W\d][^\W\d:.-]{0,23}(?:[_:.-][^\W\d]{1,23}){0,3}"
"""The name of a kind. A key that is given in its place has digits or is longer; redaction would take too long here."""
_QUOTED_TEXT = r"""(?s)(['"`])(.*?)\1"""
_MAX_FIELDS, _MAX_PLAIN_CHARS = 30, 24
_MAX_ITEMS = 10
_MAX_ERROR_CHARS = 300
_MAX_TRACE_CHARS = 6_000


class CallEvent(Struct, frozen=True):
    """A call of an operation and its outcome."""

    op: str
    arguments: object
    seconds: float
    outcome: Mapping[str, Any] | BaseException
    """The reply, or the exception."""


def record_call(open_store: Callable[[], TraceStore], project: str, event: CallEvent) -> None:
    """Record a call in the tenant's traces. Never raises."""
    try:
        store = open_store()
        if store.options.enabled:
            store.append_line(_call_line(event) | {"project": project})
    except Exception:  # noqa: BLE001, S110  (a missing or read-only home, a full disk)
        pass


def summarize_arguments(arguments: object) -> str:
    """Return the recordable part of an operation's arguments, as JSON."""
    if not isinstance(arguments, Mapping):
        return ""
    summary: dict[str, Any] = {}
    for name, value in list(arguments.items())[:_MAX_FIELDS]:
        is_name = isinstance(name, str) and name.isidentifier() and len(name) <= 40
        if is_name and not (value is None or value is False or value in ("", [], {})):
            words = _KIND_WORD if name in _KIND_ARGUMENTS else _SINGLE_WORD if name in RECORDED_ARGUMENTS else None
            summary[name] = _summarize_value(value, words)
    return _encode_field(summary) if summary else ""


def _call_line(event: CallEvent) -> dict[str, Any]:
    seconds, outcome = event.seconds, event.outcome
    given = event.arguments if isinstance(event.arguments, Mapping) else {}
    session = given.get("session") or given.get("session_id")
    line: dict[str, Any] = {
        "id": os.urandom(10).hex(),
        "at": int((time.time() - seconds) * 1000),
        "op": event.op,
        "ms": round(seconds * 1000, 3),
        "in": summarize_arguments(event.arguments),
        "session": session if isinstance(session, str) and re.fullmatch(_SINGLE_WORD, session) else "",
    }
    if not isinstance(outcome, BaseException):
        counts = {name: len(value) for name, value in outcome.items() if isinstance(value, list)}
        return line | {"out": _encode_field(counts) if counts else ""}
    if isinstance(outcome, LorelogError):
        # Without quoted user text; single words are kept.
        message = re.sub(
            _QUOTED_TEXT,
            lambda match: match[0] if re.fullmatch(_SINGLE_WORD, match[2]) else f"{match[1]}…{match[1]}",
            outcome.message,
        )
        return line | {"failed": True, "error": f"{outcome.code}: {message}"[:_MAX_ERROR_CHARS]}
    # An internal error: rare enough that importing redaction does not matter.
    import traceback

    from lorelog.ingest.redaction.redact import redact

    return line | {
        "failed": True,
        "error": redact(f"{type(outcome).__name__}: {outcome}"[:_MAX_TRACE_CHARS]).text[:_MAX_ERROR_CHARS],
        "trace": redact("".join(traceback.format_exception(outcome))[-_MAX_TRACE_CHARS:]).text,
    }


def _is_word(text: str, pattern: str) -> bool:
    is_plain = text.isalpha() and len(text) <= _MAX_PLAIN_CHARS  # the usual case, which needs no pattern to be compiled
    return is_plain or re.fullmatch(pattern, text) is not None


def _summarize_value(value: Any, words: str | None) -> Any:
    """Return a number, or a text or a list of texts that are such words; of anything else its size."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if words and _is_word(value, words) else f"{len(value)} characters"
    if isinstance(value, list | tuple):
        are_words = words and all(isinstance(item, str) and _is_word(item, words) for item in value)
        return list(value[:_MAX_ITEMS]) if are_words else f"{len(value)} items"
    return f"{len(value)} fields" if isinstance(value, Mapping) else type(value).__name__
