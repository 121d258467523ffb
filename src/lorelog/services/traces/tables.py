"""A tenant's traces: calls of operations and tools, and errors, in one SQLite file; and how captured turns become traces.

The size is limited by age and bytes: the oldest rows are dropped, calls before errors, because an error of a month ago
may occur again. Recorded calls are in a spool first (see `recorder`), and are moved here when traces are read or the
spool has grown. A spool file is renamed before it is read; one left by a killed process is read again, and ids prevent
duplicates.

Of the lines that a turn wrote to files only digests are stored, to find the session of a line (`services/lines`); lines with a
secret are left out. Of commands and of files that were read there are signatures: what was run and for what, and whether it passed
(`commands`). Both are few bytes, and may be asked about after years: age does not drop them.

Traces of a turn have the id of its memory, and are hidden by the memory's tombstone, so `restore` brings both back. A turn that is captured
again adds nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import asdict, astuple, replace

from lorelog.core.errors import LorelogError, StoreError
from lorelog.core.options import TraceOptions
from lorelog.core.processes import acquire_file_lock
from lorelog.core.session import HookEvent, LocatedTrace, StackFrame, StackTrace, ToolAction, TurnDigest
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, is_corruption, placeholders, transaction
from lorelog.services.memory_state.tombstones import Tombstones, memory_key
from lorelog.services.traces import SPOOL_FILE

OPERATION, TURN = "operation", "turn"
"""Sources of a trace: an operation of ours, or a captured turn of an agent."""
MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 2_000
MAX_FRAMES = 40
MAX_NAME_CHARS = 300
MAX_INPUT_CHARS = 300
MAX_ERROR_CHARS = 120
_MAX_KEY_CHARS = 400
_COMMAND_PREFIX = re.compile(
    r"^(?:\s*cd\s+[^;&|]+(?:&&|;)|\s*(?:[A-Z_][A-Z0-9_]*=\S*|sudo|time|nice(?:\s+-n\s+\d+)?|env|timeout\s+\S+)\s)+"
)
_OUTPUT_SUFFIX = re.compile(
    r"\s*(?:2>&1|[12]?>+\s*/dev/null|\|\s*(?:tail|head|tee|grep|cat|less|sed|awk)\b[^|]*|;?\s*echo\b.*\$\?.*)\s*$"
)

RedactText = Callable[[str], str]
Traced = TypeVar("Traced")


class _Trace(Struct, frozen=True, kw_only=True):
    """Where a call or an error comes from."""

    id: str
    at: int
    """Milliseconds since 1970."""
    source: str
    project: str = ""
    session: str = ""
    turn: str = ""
    host: str = ""
    branch: str = ""
    memory: str = ""
    """Id of the turn's memory: the trace is hidden when the memory is deleted."""


class TracedCall(_Trace, frozen=True, kw_only=True):
    """A call of an operation or tool."""

    tool: str
    input: str = ""
    output: str = ""
    error: str = ""
    failed: bool = False
    duration_ms: float | None = None
    command: str = ""
    """Normalized command, independent of how its output is cut; empty if the call is not a command."""
    files: tuple[str, ...] = ()
    """Files that the call was to write."""


class TracedError(_Trace, frozen=True, kw_only=True):
    """An error in the output of a call."""

    signature: str
    family: str
    trace: StackTrace
    command: str = ""
    text: str = ""


class TracedEdit(_Trace, frozen=True, kw_only=True):
    """The lines that a turn wrote to a file in one call."""

    file: str
    """As the call named it, without `.` and `..`: absolute, or relative to a directory that may be unknown."""
    name: str
    """Last part of `file`."""
    lines: bytes
    """Digests of the lines in order, `DIGEST_BYTES` each."""


class TracedAction(_Trace, frozen=True, kw_only=True):
    """The signature of a command that was run, or of a file that was read."""

    tool: str
    command: str
    """As typed; empty for a file that was read."""
    file: str
    purpose: str
    """What the agent said that the command is for."""
    failed: bool
    error: str
    chars: int
    """Length of the result."""

    @property
    def files(self) -> tuple[str, ...]:
        """Return no files: what was written is in the edits."""
        return ()


class ErrorGroup(Struct, frozen=True):
    """All errors with the same signature."""

    signature: str
    family: str
    type: str
    message: str
    language: str
    times: int
    first_at: int
    last_at: int
    sessions: int
    projects: int


SCHEMA_VERSION = 3
_EDITS = """
CREATE TABLE edits (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, source TEXT NOT NULL,
    project TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, host TEXT NOT NULL, branch TEXT NOT NULL,
    memory TEXT NOT NULL, file TEXT NOT NULL, name TEXT NOT NULL, lines BLOB NOT NULL, kept INTEGER NOT NULL
);
CREATE INDEX edits_name ON edits (name, at);
"""
_ACTIONS = """
CREATE TABLE actions (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, source TEXT NOT NULL,
    project TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, host TEXT NOT NULL, branch TEXT NOT NULL,
    memory TEXT NOT NULL, tool TEXT NOT NULL, command TEXT NOT NULL, file TEXT NOT NULL, purpose TEXT NOT NULL,
    failed INTEGER NOT NULL, error TEXT NOT NULL, chars INTEGER NOT NULL, kept INTEGER NOT NULL
);
CREATE INDEX actions_at ON actions (at);
"""
SCHEMA = f"""
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, tool TEXT NOT NULL, source TEXT NOT NULL,
    project TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, host TEXT NOT NULL, branch TEXT NOT NULL,
    memory TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL, failed INTEGER NOT NULL,
    duration REAL, command TEXT NOT NULL, files TEXT NOT NULL, kept INTEGER NOT NULL
);
CREATE INDEX calls_kept ON calls (kept, at);
CREATE INDEX calls_at ON calls (at);
CREATE INDEX calls_tool ON calls (tool, at);
CREATE INDEX calls_session ON calls (session, at) WHERE session != '';
CREATE INDEX calls_command ON calls (command, at) WHERE command != '';
CREATE TABLE errors (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL UNIQUE, at INTEGER NOT NULL,
    signature TEXT NOT NULL, family TEXT NOT NULL, type TEXT NOT NULL, message TEXT NOT NULL, language TEXT NOT NULL,
    source TEXT NOT NULL, project TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, host TEXT NOT NULL,
    branch TEXT NOT NULL, memory TEXT NOT NULL, command TEXT NOT NULL, frames TEXT NOT NULL,
    functions TEXT NOT NULL, files TEXT NOT NULL, text TEXT NOT NULL, kept INTEGER NOT NULL
);
CREATE INDEX errors_kept ON errors (kept, at);
CREATE INDEX errors_at ON errors (at);
CREATE INDEX errors_signature ON errors (signature, at);
CREATE INDEX errors_family ON errors (family, at);
{_EDITS}{_ACTIONS}"""
_DATABASE = DatabaseSchema(
    SCHEMA,
    SCHEMA_VERSION,
    hint="move it aside: only traces are lost",
    steps=(_EDITS, _ACTIONS),
    pragmas=(
        "auto_vacuum = INCREMENTAL",  # lets trim() return space in small steps
        "synchronous = NORMAL",  # losing traces in a power failure is acceptable
    ),
    busy_s=5.0,
)
_ABANDONED_S = 60.0
"""Age after which a renamed spool file counts as abandoned."""
_SPOOL_TEXTS = {"project": "project", "session": "session", "input": "in", "output": "out", "error": "error"}
"""Fields of a call, and their names in the spool."""
_DAY_MS = 86_400_000
_TRIM_EVERY = 500
"""Rows added between two checks of the size."""
_MIN_CALLS = 500
"""Calls kept when the size limit is exceeded: below this number, errors are dropped as well."""
_CALL_COLUMNS = "mark, at, source, project, session, turn, host, branch, memory, tool, input, output, error, failed, duration, command, files"
"""In the order of the fields of TracedCall; those of TracedError have its trace at the end."""
_ERROR_COLUMNS = (
    "mark, at, source, project, session, turn, host, branch, memory, signature, family, command, text, language, type, message,"
    " frames"
)
_ACTION_COLUMNS = ", ".join(("mark", *TracedAction.__struct_fields__[1:]))
_EDIT_COLUMNS = "mark, at, source, project, session, turn, host, branch, memory, file, name, lines"
_Frames = tuple[StackFrame, ...]
_Stacks = tuple[_Frames, tuple[tuple[str, str, _Frames], ...]]
"""Frames of an error; type, message and frames of each cause."""


class TraceFilter(Struct, frozen=True, kw_only=True):
    """Conditions on traces. An empty field is no condition."""

    projects: tuple[str, ...] | None = None
    since: int = 0
    until: int = 0
    """Milliseconds since 1970; 0 for no limit."""
    source: str = ""
    session: str = ""
    branch: str = ""
    tool: str = ""
    """Name of a tool, or its part before a dot."""
    errors_only: bool = False
    signature: str = ""
    """Signature of an error, a prefix of one, or a type."""
    function: str = ""
    file: str = ""
    words: str = ""
    """Part of a message."""
    limit: int = 50


class TraceTables:
    """The traces of one tenant. Threads and processes may share it. The file is created by the first write."""

    def __init__(self, path: Path, options: TraceOptions) -> None:
        self.path = path
        self._file = SqliteFile(path, _DATABASE)
        self.options = options
        self._tombstones = Tombstones(path.parent / "tombstones.jsonl")
        self._lock = RLock()
        self._db: sqlite3.Connection | None = None
        self._is_read_only = False
        self._added = _TRIM_EVERY

    def close(self) -> None:
        """Close the database; the next call opens it again. May be called twice."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def add(
        self,
        calls: Iterable[TracedCall] = (),
        errors: Iterable[TracedError] = (),
        edits: Iterable[TracedEdit] = (),
        actions: Iterable[TracedAction] = (),
    ) -> tuple[int, int]:
        """Store new calls, errors, edits and signatures; return the number of calls and errors that were new. Raise StoreError."""
        now = int(time.time() * 1000)
        rows = {
            f"calls ({_CALL_COLUMNS}, kept)": [(*_call_row(call), now) for call in calls],
            f"errors ({_ERROR_COLUMNS}, functions, files, kept)": [(*_error_row(error), now) for error in errors],
            f"edits ({_EDIT_COLUMNS}, kept)": [(*astuple(edit), now) for edit in edits],
            f"actions ({_ACTION_COLUMNS}, kept)": [(*astuple(action), now) for action in actions],
        }
        if not any(rows.values()):
            return 0, 0
        new: list[int] = []
        with self._write_transaction() as db:
            for table, values in rows.items():
                places = placeholders(values[0]) if values else ""
                done = db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({places})", values) if values else None
                new.append(done.rowcount if done else 0)
        self._added += sum(new)
        if self._added >= _TRIM_EVERY:
            self.trim()
        return new[0], new[1]

    def absorb_spool(self) -> None:
        """Move the spool to the tables. Files that cannot be stored now stay in the spool."""
        for path in _take_spool_files(self.path.with_name(SPOOL_FILE)):
            with suppress(FileNotFoundError), path.open("rb") as file:
                acquire_file_lock(file.fileno())  # waits for the last writer; later ones see that the file is gone
                self.add(*_parse_spool(file.read()))
                path.unlink(missing_ok=True)

    def trim(self) -> None:
        """Drop rows that are too old, and the oldest ones above the size limit."""
        self._added = 0
        before = int(time.time() * 1000) - self.options.days * _DAY_MS
        with self._write_transaction() as db:
            # By the time of storing, not of the event: an old session may be captured today.
            db.execute("DELETE FROM calls WHERE kept < ?", (before,))
            db.execute("DELETE FROM errors WHERE kept < ?", (before,))
            for _ in range(64):
                used, free, size, *counts = db.execute(
                    "SELECT page_count, freelist_count, page_size, (SELECT count(*) FROM calls), (SELECT count(*) FROM errors),"
                    " (SELECT count(*) FROM edits), (SELECT count(*) FROM actions) FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
                ).fetchone()
                if (used - free) * size <= self.options.megabytes * 1_000_000:
                    break
                calls, errors, edits, actions = counts
                table, count = ("calls", calls) if calls > min(errors, _MIN_CALLS) else ("errors", errors)
                table, count = (table, count) if count > min(edits, _MIN_CALLS) else ("edits", edits)
                table, count = (table, count) if count > min(actions, _MIN_CALLS) else ("actions", actions)
                oldest = f"SELECT id FROM {table} ORDER BY kept, at LIMIT ?"
                db.execute(f"DELETE FROM {table} WHERE id IN ({oldest})", (count // 4 + 1,))
        with self._translate_errors(), self._lock:
            self._open().executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page

    def calls(self, filter_: TraceFilter) -> tuple[list[TracedCall], int]:
        """Return calls, newest first, and their total number."""
        where, values = _conditions(filter_)
        if filter_.tool:
            where.append("(tool = ? OR substr(tool, 1, ?) = ?)")
            values += [filter_.tool, len(filter_.tool) + 1, f"{filter_.tool}."]
        if filter_.errors_only:
            where.append("failed")
        return self._newest("calls", where, values, filter_.limit, _call_from_row)

    def errors(self, filter_: TraceFilter) -> tuple[list[TracedError], int]:
        """Return errors, newest first, and their total number."""
        return self._newest("errors", *_error_conditions(filter_), filter_.limit, _error_from_row)

    def _newest(
        self, table: str, where: list[str], values: list[object], limit: int, build: Callable[[Sequence[Any]], Traced]
    ) -> tuple[list[Traced], int]:
        columns = _CALL_COLUMNS if table == "calls" else _ERROR_COLUMNS
        rows = self._select(f"{columns} FROM {table}", where, values, f"ORDER BY at DESC, id DESC LIMIT {limit}")
        count = self._select(f"count(*) FROM {table}", where, values)
        return [build(row) for row in rows], int(count[0][0]) if count else 0

    def groups(self, filter_: TraceFilter) -> list[ErrorGroup]:
        """Return errors grouped by signature, last seen first."""
        rows = self._select(
            "signature, family, type, message, language, count(*), min(at), max(at), count(DISTINCT nullif(session, '')),"
            " count(DISTINCT project) FROM errors",
            *_error_conditions(filter_),
            f"GROUP BY signature ORDER BY max(at) DESC, signature LIMIT {filter_.limit}",
        )
        return [ErrorGroup(*row) for row in rows]

    def next_passing(self, error: TracedError) -> tuple[TracedCall | None, list[TracedCall]]:
        """Return the next run of the same command that passed, and the calls in between that wrote files."""
        what, where = f"{_CALL_COLUMNS} FROM calls", ["project = ?", "at > ?"]
        values: list[object] = [error.project, error.at, error.command]
        rows = self._select(what, [*where, "command = ?", "NOT failed"], values, "ORDER BY at, id LIMIT 1")
        if not error.command or not rows:
            return None, []
        passed = _call_from_row(rows[0])
        values[2] = passed.at
        rows = self._select(what, [*where, "at < ?", "files != ''"], values, "ORDER BY at, id LIMIT 200")
        return passed, [_call_from_row(row) for row in rows]

    def edits(self, name: str, projects: Sequence[str] | None, before: int) -> list[TracedEdit]:
        """Return the edits of files with a name until a time, newest first."""
        where, values = _conditions(TraceFilter(projects=None if projects is None else tuple(projects), until=before))
        rows = self._select(
            f"{_EDIT_COLUMNS} FROM edits", [*where, "name = ?"], [*values, name], "ORDER BY at DESC, id DESC"
        )
        return [TracedEdit(**dict(zip(TracedEdit.__struct_fields__, row, strict=True))) for row in rows]

    def actions(self, projects: Sequence[str] | None, limit: int) -> list[TracedAction]:
        """Return the newest signatures, oldest first."""
        where, values = _conditions(TraceFilter(projects=None if projects is None else tuple(projects)))
        what, names = f"{_ACTION_COLUMNS} FROM actions", TracedAction.__struct_fields__
        rows = self._select(what, where, values, f"ORDER BY at DESC, id DESC LIMIT {limit}")
        return [TracedAction(**dict(zip(names, row, strict=True))) for row in reversed(rows)]

    def turn_after(self, error: TracedError) -> str:
        """Return the memory id of the next turn of the same session, or an empty string."""
        where = ["session = ?", "session != ''", "at > ?", "memory != ''", "memory != ?"]
        rows = self._select("memory FROM calls", where, [error.session, error.at, error.memory], "ORDER BY at LIMIT 1")
        return str(rows[0][0]) if rows else ""

    def _select(
        self, what: str, where: Sequence[str], values: Sequence[object], rest: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return the rows that meet all conditions, without those of deleted memories."""
        hidden = self._hidden_memories()
        conditions = [*where, f"memory NOT IN ({placeholders(hidden)})"]
        return self._query(f"SELECT {what} WHERE {' AND '.join(conditions)} {rest}", [*values, *hidden])

    def _hidden_memories(self) -> list[str]:
        """Return the ids of the deleted memories that traces belong to."""
        try:
            deleted = self._tombstones.keys()
        except StoreError:
            return []
        names = " UNION ".join(f"SELECT memory FROM {table}" for table in ("calls", "errors", "edits", "actions"))
        return [memory for (memory,) in self._query(names, ()) if memory_key(memory) in deleted] if deleted else []

    def _query(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            with suppress(StoreError, OSError):
                self.absorb_spool()
            if not self.path.exists():
                return []
            with self._translate_errors():
                return self._open(to_read=True).execute(statement, values).fetchall()

    def _open(self, *, to_read: bool = False) -> sqlite3.Connection:
        if self._db is not None and (to_read or not self._is_read_only):
            return self._db
        self.close()
        try:
            self._db, self._is_read_only = self._file.open(), False
        except (sqlite3.OperationalError, OSError):
            if not to_read:
                raise
            self._db, self._is_read_only = self._file.open_readonly(), True
            if self._db is None:
                raise
        return self._db

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translate_errors(), transaction(self._open()) as db:
            yield db

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if is_corruption(error):
                self.close()
                self._file.replace()
            raise self._file.translate(error) from error


def _conditions(filter_: TraceFilter) -> tuple[list[str], list[object]]:
    """Return the conditions on calls and errors alike, and their values."""
    given: dict[str, object] = {
        "at >= ?": filter_.since,
        "at <= ?": filter_.until,
        "source = ?": filter_.source,
        "session = ?": filter_.session,
        "branch = ?": filter_.branch,
    }
    where, values = [name for name in given if given[name]], [value for value in given.values() if value]
    if filter_.projects is not None:
        where.append(f"project IN ({placeholders(filter_.projects)})")
        values += filter_.projects
    return where, values


def _error_conditions(filter_: TraceFilter) -> tuple[list[str], list[object]]:
    where, values = _conditions(filter_)
    if filter_.signature:
        where.append("(substr(signature, 1, ?) = ? OR type = ? OR substr(type, -?) = ?)")
        tail = f".{filter_.signature}"
        values += [len(filter_.signature), filter_.signature, filter_.signature, len(tail), tail]
    texts = {"functions": filter_.function, "files": filter_.file, "type || ': ' || message": filter_.words}
    for column, part in texts.items():
        if part:
            where.append(f"instr(lower({column}), ?)")
            values.append(part.lower())
    return where, values


def _call_row(call: TracedCall) -> Iterator[object]:
    return ("\n".join(value) if isinstance(value, tuple) else value for value in astuple(call))


def _call_from_row(row: Sequence[Any]) -> TracedCall:
    values = dict(zip(TracedCall.__struct_fields__, row, strict=True))
    files = tuple(values["files"].split("\n")) if values["files"] else ()
    return TracedCall(**values | {"files": files, "failed": bool(values["failed"])})


def _error_row(error: TracedError) -> tuple[object, ...]:
    trace, values = error.trace, asdict(error)
    del values["trace"]
    frames = [frame for stack in (trace, *trace.causes) for frame in stack.frames]
    functions = "\n".join(dict.fromkeys(frame.function for frame in frames if frame.function))
    files = "\n".join(dict.fromkeys(frame.file for frame in frames if frame.file))
    stacks = encode((trace.frames, [(cause.type, cause.message, cause.frames) for cause in trace.causes])).decode()
    return (*values.values(), trace.language, trace.type, trace.message, stacks, functions, files)


def _error_from_row(row: Sequence[Any]) -> TracedError:
    *values, language, type_, message, stacks = row
    names = (name for name in TracedError.__struct_fields__ if name != "trace")
    frames, causes = decode(stacks, type=_Stacks)
    trace = StackTrace(language, type_, message, frames, tuple(StackTrace(language, *cause) for cause in causes))
    return TracedError(trace=trace, **dict(zip(names, values, strict=True)))


def _take_spool_files(spool: Path) -> Iterator[Path]:
    """Rename the spool, and yield its files; those that a killed process left first."""
    for path in sorted(spool.parent.glob(f"{SPOOL_FILE}.*")):
        with suppress(OSError, ValueError):
            taken_at = int(path.name.removeprefix(f"{SPOOL_FILE}.").partition("-")[0]) / 1e9
            if not 0 <= time.time() - taken_at < _ABANDONED_S:
                yield path
    mine = spool.with_name(f"{SPOOL_FILE}.{time.time_ns()}-{os.getpid()}")
    with suppress(FileNotFoundError):
        spool.rename(mine)
        yield mine


def _parse_spool(data: bytes) -> tuple[list[TracedCall], list[TracedError]]:
    """Return the calls of a spool file, and their errors. Incomplete lines are ignored."""
    from lorelog.ingest.tracebacks.finder import find_traces

    calls: list[TracedCall] = []
    errors: list[TracedError] = []
    for line in data.split(b"\n"):
        with suppress(ValueError, LookupError, TypeError):
            entry = json.loads(line)
            texts: dict[str, Any] = {name: str(entry.get(key, "")) for name, key in _SPOOL_TEXTS.items()}
            id_, at, tool = str(entry["id"]), int(entry["at"]), str(entry["op"])
            duration, failed = float(entry["ms"]), bool(entry.get("failed"))
            calls.append(
                TracedCall(id=id_, at=at, source=OPERATION, tool=tool, failed=failed, duration_ms=duration, **texts)
            )
            origin = {"source": OPERATION, "project": texts["project"], "session": texts["session"]}
            errors += (
                _traced_error(located, str, id=f"{id_}e", at=at, command=tool, **origin)
                for located in find_traces(str(entry.get("trace", "")), 1)
            )
    return calls, errors


def _traced_error(located: LocatedTrace, clean: RedactText, **fields: Any) -> TracedError:
    from lorelog.ingest.tracebacks.finder import trace_family, trace_signature

    located = redact_trace(located, clean)
    trace = located.trace
    return TracedError(
        signature=trace_signature(trace), family=trace_family(trace), trace=trace, text=located.text, **fields
    )


def redact_trace(located: LocatedTrace, clean: RedactText) -> LocatedTrace:
    """Return an error without secrets, cut to the stored lengths."""
    return replace(located, trace=_redact_stack(located.trace, clean), text=clean(located.text)[:MAX_TEXT_CHARS])


def _redact_stack(trace: StackTrace, clean: RedactText) -> StackTrace:
    frames = tuple(
        StackFrame(frame.function[:MAX_NAME_CHARS], frame.file[:MAX_NAME_CHARS], frame.line, frame.column)
        for frame in trace.frames[:MAX_FRAMES]
    )
    causes = tuple(_redact_stack(cause, clean) for cause in trace.causes[:8])
    return StackTrace(
        trace.language, trace.type[:MAX_NAME_CHARS], clean(trace.message)[:MAX_MESSAGE_CHARS], frames, causes
    )


def command_key(command: str) -> str:
    """Return a normalized command, without its directory, environment and output filters."""
    return " ".join(strip_output(_COMMAND_PREFIX.sub("", command.strip())).split())[:_MAX_KEY_CHARS]


def strip_output(command: str) -> str:
    """Return a command without the filters of its output."""
    while (shorter := _OUTPUT_SUFFIX.sub("", command)) not in ("", command):
        command = shorter
    return command


def format_moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone().isoformat("T", "minutes")


def trace_id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]


DIGEST_BYTES = 4
"""Enough to tell apart the lines of one file, and too few to recover a line."""


def line_digest(line: str) -> bytes:
    """Return the digest of a line, whatever its white space; empty for a blank line."""
    words = " ".join(line.split())
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest() if words else b""


class TracedTurn(Struct, frozen=True):
    """A captured turn, or its new part."""

    memory: str
    turn: str
    when: datetime
    digest: TurnDigest


def record_turns(
    tables: Callable[[], TraceTables],
    event: HookEvent,
    project: str,
    turns: Sequence[TracedTurn],
    clean: RedactText,
    *,
    only_lasting: bool = False,
) -> None:
    """Store the tool calls, errors, edits and signatures of turns; `tables` opens the tables. Never prevents a capture.

    `only_lasting` is for turns whose calls were stored before: what age drops is not stored again.
    """
    if not any(turn.digest.actions or turn.digest.delegated for turn in turns):
        return
    calls: list[TracedCall] = []
    errors: list[TracedError] = []
    edits: list[TracedEdit] = []
    actions: list[TracedAction] = []
    for turn in turns:
        origin: dict[str, Any] = {"source": TURN, "project": project, "turn": turn.turn, "memory": turn.memory}
        origin |= {"session": event.session, "host": event.host, "branch": event.branch}
        own = len(turn.digest.actions)
        for number, action in enumerate(turn.digest.actions + turn.digest.delegated):
            at = int(turn.when.timestamp() * 1000) + number  # a millisecond apart: their times are unknown
            for index, edit in enumerate(() if action.failed else action.edits):
                file = os.path.normpath(edit.file)
                mark = trace_id("edit", turn.memory, str(number), str(index))
                where: dict[str, Any] = {"file": file, "name": Path(file).name, "lines": _digests(edit.lines, clean)}
                made_at = at if action.time is None else int(action.time * 1000)
                edits.append(TracedEdit(id=mark, at=made_at, **origin, **where))
            if number < own and (action.command or action.opened):
                actions.append(
                    _signature(action, clean, id=trace_id("call", turn.memory, str(number)), at=at, **origin)
                )
            if only_lasting or number >= own:
                continue
            made = origin | {"at": at, "command": command_key(clean(action.command)) if action.command else ""}
            calls.append(
                TracedCall(
                    id=trace_id("call", turn.memory, str(number)),
                    tool=action.tool,
                    input=clean(action.command or " ".join(action.files))[:MAX_INPUT_CHARS],
                    error=clean(action.error)[:MAX_MESSAGE_CHARS],
                    failed=action.failed,
                    files=action.files,
                    **made,
                )
            )
            errors += (
                _traced_error(located, clean, id=trace_id("error", turn.memory, str(number), str(index)), **made)
                for index, located in enumerate(action.traces)
            )
    with suppress(LorelogError, OSError):
        tables().add(calls, errors, (edit for edit in edits if edit.lines), actions)


def _signature(action: ToolAction, clean: RedactText, **origin: Any) -> TracedAction:
    """Return the signature of an action. The last part of a pipe may pass although an error stands in its output."""
    return TracedAction(
        tool=action.tool,
        command=clean(action.command)[:MAX_INPUT_CHARS],
        file=clean(action.opened)[:MAX_NAME_CHARS],
        purpose=clean(action.purpose)[:MAX_NAME_CHARS],
        failed=action.failed or (bool(action.traces) and "|" in action.command),
        error=clean(action.error)[:MAX_ERROR_CHARS],
        chars=action.result_chars,
        **origin,
    )


def _digests(lines: Sequence[str], clean: RedactText) -> bytes:
    """Return the digests of lines, without those that redaction changes."""
    text = "\n".join(lines)
    kept = None if (cleaned := clean(text)) == text else set(cleaned.splitlines())
    return b"".join(line_digest(line) for line in lines if kept is None or line in kept)
