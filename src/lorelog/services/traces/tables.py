"""Tables of a tenant's traces: calls of operations and tools, and errors, in one SQLite file.

The size is limited by age and bytes: the oldest rows are dropped, calls before errors, because an error of a month ago
may occur again. Recorded calls are in a spool first (see `recorder`), and are moved here when traces are read or the
spool has grown. A spool file is renamed before it is read; one left by a killed process is read again, and ids prevent
duplicates.

Traces of a turn whose memory is deleted are hidden by the memory's tombstone, so `restore` brings both back.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from lorelog.core.errors import StoreError
from lorelog.core.options import TraceOptions
from lorelog.core.processes import acquire_file_lock
from lorelog.core.session import StackFrame, StackTrace
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, is_corruption, transaction
from lorelog.services.memory_state.tombstones import Tombstones, memory_key
from lorelog.services.traces import SPOOL_FILE
from lorelog.services.traces.values import OPERATION, ErrorGroup, TracedCall, TracedError, TraceOrigin

SCHEMA_VERSION = 2
SCHEMA = """
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
"""
_WITHOUT_LOGS = """
DROP TABLE ingested;
DROP INDEX errors_run;
ALTER TABLE errors DROP COLUMN run;
ALTER TABLE errors DROP COLUMN place;
ALTER TABLE errors DROP COLUMN times
"""
"""Makes a file of version 1, which also held errors of log files, one of version 2."""


_DATABASE = DatabaseSchema(
    SCHEMA,
    SCHEMA_VERSION,
    hint="move it aside: only traces are lost",
    steps=(_WITHOUT_LOGS,),
    pragmas=(
        "auto_vacuum = INCREMENTAL",  # lets trim() return space in small steps
        "synchronous = NORMAL",  # losing traces in a power failure is acceptable
    ),
    busy_s=5.0,
)
_ABANDONED_S = 60.0
"""Age after which a renamed spool file counts as abandoned."""


class TraceSpool:
    """The spool of one tenant."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SPOOL_FILE

    def is_waiting(self) -> bool:
        """Return True if there are recorded calls to move."""
        return self._path.exists() or any(self._abandoned_files())

    def take_files(self) -> Iterator[Path]:
        """Rename and yield the spool's files; abandoned ones first."""
        yield from self._abandoned_files()
        mine = self._path.with_name(f"{SPOOL_FILE}.{time.time_ns()}-{os.getpid()}")
        with suppress(FileNotFoundError):
            self._path.rename(mine)
            yield mine

    def _abandoned_files(self) -> Iterator[Path]:
        now = time.time()
        for path in sorted(self._path.parent.glob(f"{SPOOL_FILE}.*")):
            with suppress(OSError, ValueError):
                since = int(path.name.removeprefix(f"{SPOOL_FILE}.").partition("-")[0]) / 1e9
                if not 0 <= now - since < _ABANDONED_S:
                    yield path


@contextmanager
def read_spool_file(path: Path) -> Iterator[tuple[list[TracedCall], list[TracedError]]]:
    """Yield the calls and errors of a renamed spool file, and delete it; if the block raises, it stays and is read again.

    Incomplete lines are ignored.
    """
    calls: list[TracedCall] = []
    errors: list[TracedError] = []
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield calls, errors
        return
    with file:
        acquire_file_lock(file.fileno())  # waits for the last writer; later ones see that the file is gone
        for line in file.read().split(b"\n"):
            with suppress(ValueError, LookupError, TypeError):
                entry = json.loads(line)
                calls.append(_call_from_entry(entry))
                if entry.get("trace"):
                    errors += _errors_from_entry(entry)
        yield calls, errors
        with suppress(OSError):
            path.unlink()


def _call_from_entry(entry: dict[str, Any]) -> TracedCall:
    return TracedCall(
        id=str(entry["id"]),
        at=int(entry["at"]),
        tool=str(entry["op"]),
        origin=_origin_from_entry(entry),
        input=str(entry.get("in", "")),
        output=str(entry.get("out", "")),
        error=str(entry.get("error", "")),
        failed=bool(entry.get("failed")),
        duration_ms=float(entry["ms"]),
    )


def _errors_from_entry(entry: dict[str, Any]) -> list[TracedError]:
    from lorelog.ingest.tracebacks.finder import find_traces, trace_family, trace_signature
    from lorelog.services.traces.values import redact_trace

    return [
        TracedError(
            id=f"{entry['id']}e",
            at=int(entry["at"]),
            signature=trace_signature(located.trace),
            family=trace_family(located.trace),
            trace=located.trace,
            origin=_origin_from_entry(entry),
            command=str(entry["op"]),
            text=located.text,
        )
        for located in (redact_trace(trace, str) for trace in find_traces(str(entry["trace"]), 1))
    ]


def _origin_from_entry(entry: dict[str, Any]) -> TraceOrigin:
    return TraceOrigin(source=OPERATION, project=str(entry.get("project", "")), session=str(entry.get("session", "")))


_DAY_MS = 86_400_000
_TRIM_EVERY = 500
"""Rows added between two checks of the size."""
_MIN_CALLS = 500
"""Calls kept when the size limit is exceeded: below this number, errors are dropped as well."""
_CALL_COLUMNS = "mark, at, tool, source, project, session, turn, host, branch, memory, input, output, error, failed, duration, command, files"
_ERROR_COLUMNS = (
    "mark, at, signature, family, type, message, language, source, project, session, turn, host, branch, memory,"
    " command, frames, text"
)
_ORIGIN_FIELDS = tuple(attribute.name for attribute in fields(TraceOrigin))
_GROUP_FIELDS = tuple(attribute.name for attribute in fields(ErrorGroup))


class TraceFilter(Struct, frozen=True, kw_only=True):
    """Conditions on traces. An empty field is no condition."""

    projects: tuple[str, ...] | None = None
    since: int = 0
    until: int = 0
    """Milliseconds since 1970; 0 for no limit."""
    source: str = ""
    session: str = ""
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
        self._spool = TraceSpool(path.parent)
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

    # -- writing -----------------------------------------------------------------------------------------------------

    def add(self, calls: Iterable[TracedCall] = (), errors: Iterable[TracedError] = ()) -> tuple[int, int]:
        """Store new calls and errors; return the number of each that was new. Raise StoreError."""
        now = int(time.time() * 1000)
        call_rows = [(*_call_row(call), now) for call in calls]
        error_rows = [(*_error_row(error), now) for error in errors]
        if not call_rows and not error_rows:
            return 0, 0
        with self._write_transaction() as db:
            before = db.total_changes
            db.executemany(
                f"INSERT OR IGNORE INTO calls ({_CALL_COLUMNS}, kept) VALUES ({_placeholders(18)})", call_rows
            )
            new_calls = db.total_changes - before
            db.executemany(
                f"INSERT OR IGNORE INTO errors ({_ERROR_COLUMNS}, functions, files, kept) VALUES ({_placeholders(20)})",
                error_rows,
            )
            new_errors = db.total_changes - before - new_calls
        self._added += new_calls + new_errors
        if self._added >= _TRIM_EVERY:
            self.trim()
        return new_calls, new_errors

    def absorb_spool(self) -> None:
        """Move the spool to the tables. Files that cannot be stored now stay in the spool."""
        for path in self._spool.take_files():
            with read_spool_file(path) as entries:
                self.add(*entries)

    def trim(self) -> None:
        """Drop rows that are too old, and the oldest ones above the size limit."""
        self._added = 0
        before = int(time.time() * 1000) - self.options.days * _DAY_MS
        with self._write_transaction() as db:
            # By the time of storing, not of the event: an old session may be captured today.
            db.execute("DELETE FROM calls WHERE kept < ?", (before,))
            db.execute("DELETE FROM errors WHERE kept < ?", (before,))
        max_bytes = self.options.megabytes * 1_000_000
        for _ in range(64):
            if self._size() <= max_bytes:
                break
            with self._write_transaction() as db:
                (calls,) = db.execute("SELECT count(*) FROM calls").fetchone()
                (errors,) = db.execute("SELECT count(*) FROM errors").fetchone()
                table, count = ("calls", calls) if calls > min(errors, _MIN_CALLS) else ("errors", errors)
                if not count:
                    break
                db.execute(
                    f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} ORDER BY kept, at LIMIT ?)",
                    (count // 4 + 1,),
                )
        with self._translate_errors(), self._lock:
            self._open().executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page

    # -- reading -----------------------------------------------------------------------------------------------------

    def calls(self, filter_: TraceFilter) -> tuple[list[TracedCall], int]:
        """Return calls, newest first, and their total number."""
        where, values = _conditions(filter_)
        if filter_.tool:
            where.append("(tool = ? OR substr(tool, 1, ?) = ?)")
            values += [filter_.tool, len(filter_.tool) + 1, f"{filter_.tool}."]
        if filter_.errors_only:
            where.append("failed")
        where_sql = " AND ".join([*where, *self._exclude_deleted(values)]) or "1"
        rows = self._query(
            f"SELECT {_CALL_COLUMNS} FROM calls WHERE {where_sql} ORDER BY at DESC, id DESC LIMIT ?",
            [*values, filter_.limit],
        )
        return [_call_from_row(row) for row in rows], self._count(
            f"SELECT count(*) FROM calls WHERE {where_sql}", values
        )

    def errors(self, filter_: TraceFilter) -> tuple[list[TracedError], int]:
        """Return errors, newest first, and their total number."""
        where_sql, values = self._error_conditions(filter_)
        rows = self._query(
            f"SELECT {_ERROR_COLUMNS} FROM errors WHERE {where_sql} ORDER BY at DESC, id DESC LIMIT ?",
            [*values, filter_.limit],
        )
        return [_error_from_row(row) for row in rows], self._count(
            f"SELECT count(*) FROM errors WHERE {where_sql}", values
        )

    def groups(self, filter_: TraceFilter) -> list[ErrorGroup]:
        """Return errors grouped by signature, last seen first."""
        where_sql, values = self._error_conditions(filter_)
        rows = self._query(
            "SELECT signature, family, type, message, language, count(*), min(at), max(at), count(DISTINCT nullif(session, '')),"
            f" count(DISTINCT project) FROM errors WHERE {where_sql} GROUP BY signature ORDER BY max(at) DESC, signature LIMIT ?",
            [*values, filter_.limit],
        )
        return [ErrorGroup(**dict(zip(_GROUP_FIELDS, row, strict=True))) for row in rows]

    def next_passing(self, error: TracedError) -> tuple[TracedCall | None, list[TracedCall]]:
        """Return the next run of the same command that passed, and the calls in between that wrote files."""
        if not error.command:
            return None, []
        values: list[object] = [error.command, error.origin.project, error.at]
        where_sql = " AND ".join(
            ["command = ? AND project = ? AND at > ? AND NOT failed", *self._exclude_deleted(values)]
        )
        rows = self._query(f"SELECT {_CALL_COLUMNS} FROM calls WHERE {where_sql} ORDER BY at, id LIMIT 1", values)
        passed = _call_from_row(rows[0]) if rows else None
        if passed is None:
            return None, []
        values = [error.origin.project, error.at, passed.at]
        where_sql = " AND ".join(["project = ? AND at > ? AND at < ? AND files != ''", *self._exclude_deleted(values)])
        rows = self._query(f"SELECT {_CALL_COLUMNS} FROM calls WHERE {where_sql} ORDER BY at, id LIMIT 200", values)
        return passed, [_call_from_row(row) for row in rows]

    def turn_after(self, error: TracedError) -> str:
        """Return the memory id of the next turn of the same session, or an empty string."""
        if not error.origin.session:
            return ""
        values: list[object] = [error.origin.session, error.at, error.origin.memory]
        where_sql = " AND ".join(
            ["session = ? AND at > ? AND memory != '' AND memory != ?", *self._exclude_deleted(values)]
        )
        rows = self._query(f"SELECT memory FROM calls WHERE {where_sql} ORDER BY at LIMIT 1", values)
        return str(rows[0][0]) if rows else ""

    def _error_conditions(self, filter_: TraceFilter) -> tuple[str, list[object]]:
        where, values = _conditions(filter_)
        if filter_.signature:
            where.append("(substr(signature, 1, ?) = ? OR type = ? OR substr(type, -?) = ?)")
            tail = f".{filter_.signature}"
            values += [len(filter_.signature), filter_.signature, filter_.signature, len(tail), tail]
        for column, part in (
            ("functions", filter_.function),
            ("files", filter_.file),
            ("type || ': ' || message", filter_.words),
        ):
            if part:
                where.append(f"instr(lower({column}), ?)")
                values.append(part.lower())
        return " AND ".join([*where, *self._exclude_deleted(values)]) or "1", values

    def _exclude_deleted(self, values: list[object]) -> list[str]:
        """Return a condition that hides the traces of deleted memories, and append its values."""
        try:
            deleted = self._tombstones.keys()
        except StoreError:
            return []
        if not deleted:
            return []
        hidden = [
            memory
            for (memory,) in self._query(
                "SELECT DISTINCT memory FROM calls WHERE memory != '' UNION SELECT DISTINCT memory FROM errors WHERE memory != ''",
                (),
            )
            if memory_key(memory) in deleted
        ]
        values += hidden
        return [f"memory NOT IN ({_placeholders(len(hidden))})"] if hidden else []

    def _count(self, statement: str, values: Sequence[object]) -> int:
        rows = self._query(statement, values)
        return int(rows[0][0]) if rows else 0

    def _query(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            self._catch_up()
            if not self.path.exists():
                return []
            with self._translate_errors():
                return self._open(to_read=True).execute(statement, values).fetchall()

    def _catch_up(self) -> None:
        with suppress(StoreError, OSError):
            if self._spool.is_waiting():
                self.absorb_spool()

    # -- the file ----------------------------------------------------------------------------------------------------

    def _size(self) -> int:
        with self._translate_errors(), self._lock:
            db = self._open()
            counts = [
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
            ]
        return int((counts[0] - counts[1]) * counts[2])

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
    where: list[str] = []
    values: list[object] = []
    conditions: list[tuple[str, object]] = [
        ("at >= ?", filter_.since),
        ("at <= ?", filter_.until),
        ("source = ?", filter_.source),
        ("session = ?", filter_.session),
    ]
    for condition, value in conditions:
        if value:
            where.append(condition)
            values.append(value)
    if filter_.projects is not None:
        where.append(f"project IN ({_placeholders(len(filter_.projects))})")
        values += filter_.projects
    return where, values


def _placeholders(count: int) -> str:
    return ", ".join("?" * count)


def _call_row(call: TracedCall) -> tuple[object, ...]:
    return (
        *(call.id, call.at, call.tool, *_origin_row(call.origin), call.input, call.output, call.error),
        *(int(call.failed), call.duration_ms, call.command, "\n".join(call.files)),
    )


def _call_from_row(row: Sequence[Any]) -> TracedCall:
    id_, at, tool, *origin = row[:10]
    input_, output, error, failed, duration, command, files = row[10:]
    return TracedCall(
        id=id_,
        at=at,
        tool=tool,
        origin=_origin_from_row(origin),
        input=input_,
        output=output,
        error=error,
        failed=bool(failed),
        duration_ms=duration,
        command=command,
        files=tuple(files.split("\n")) if files else (),
    )


def _error_row(error: TracedError) -> tuple[object, ...]:
    trace = error.trace
    frames = [frame for stack in (trace, *trace.causes) for frame in stack.frames]
    functions = "\n".join(dict.fromkeys(frame.function for frame in frames if frame.function))
    files = "\n".join(dict.fromkeys(frame.file for frame in frames if frame.file))
    return (
        *(error.id, error.at, error.signature, error.family, trace.type, trace.message, trace.language),
        *_origin_row(error.origin),
        *(error.command, _encode_frames(trace), error.text, functions, files),
    )


def _error_from_row(row: Sequence[Any]) -> TracedError:
    id_, at, signature, family, kind, message, language, *rest = row
    command, frames, text = rest[7:]
    return TracedError(
        id=id_,
        at=at,
        signature=signature,
        family=family,
        trace=_decode_trace(frames, kind, message, language),
        origin=_origin_from_row(rest[:7]),
        command=command,
        text=text,
    )


def _origin_row(origin: TraceOrigin) -> tuple[str, ...]:
    return tuple(getattr(origin, name) for name in _ORIGIN_FIELDS)


def _origin_from_row(values: Sequence[str]) -> TraceOrigin:
    return TraceOrigin(**dict(zip(_ORIGIN_FIELDS, values, strict=True)))


def _encode_frames(trace: StackTrace) -> str:
    causes = [[cause.type, cause.message, cause.frames] for cause in trace.causes]
    return json.dumps([trace.frames, causes], ensure_ascii=False, separators=(",", ":"))


def _decode_trace(frames: str, kind: str, message: str, language: str) -> StackTrace:
    own, causes = json.loads(frames)
    stacks = tuple(StackTrace(language, cause[0], cause[1], _decode_frames(cause[2])) for cause in causes)
    return StackTrace(language, kind, message, _decode_frames(own), stacks)


def _decode_frames(frames: Iterable[Sequence[object]]) -> tuple[StackFrame, ...]:
    return tuple(StackFrame(str(frame[0]), str(frame[1]), int(str(frame[2])), int(str(frame[3]))) for frame in frames)
