"""What was traced, in one file of a tenant's own: which operations and tools were called, and what went wrong.

Bounded by age and size: what is oldest is dropped, calls before errors, because an error of a month ago may come again. What
operations have noted lies in a spool first (`book`), and is taken in when somebody asks, or when it has grown.

What was traced of a turn whose memory is deleted is not told; the memory's own tombstone says so, and so `restore` brings
both back.
"""

# ruff: noqa: S608  (statements are put together from our own column names; values are bound)

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from lorelog.core.errors import StoreError
from lorelog.core.options import TraceOptions
from lorelog.core.trace import Frame, StackTrace
from lorelog.services.hiding import memory_key
from lorelog.services.tombstones import Tombstones
from lorelog.services.traces.schema import connect, connect_to_read, set_aside, translated
from lorelog.services.traces.spool import Spool
from lorelog.services.traces.values import ErrorGroup, Origin, TracedCall, TracedError

_DAY_MS = 86_400_000
_TRIM_EVERY = 500
"""Rows that are added before it is seen again whether there are too many."""
_LEAST_CALLS = 500
"""Calls that stay when there is too much of everything: then errors go, too."""
_CALL = "mark, at, tool, source, project, session, turn, host, branch, memory, input, output, error, failed, duration, command, files"
_ERROR = (
    "mark, at, times, signature, family, type, message, language, source, project, session, turn, host, branch, memory,"
    " command, place, frames, text"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which traces are asked for. Empty fields admit everything."""

    projects: tuple[str, ...] | None = None
    since: int = 0
    until: int = 0
    """Milliseconds since 1970; 0 is no limit."""
    source: str = ""
    session: str = ""
    tool: str = ""
    """A tool's name, or the beginning of it before a dot."""
    errors_only: bool = False
    signature: str = ""
    """An error's signature, the beginning of one, or a type."""
    function: str = ""
    file: str = ""
    words: str = ""
    """Part of a message."""
    limit: int = 50


class TraceTables:
    """The traces of one tenant. Threads may share it; another process may write meanwhile. Nothing is made before a write."""

    def __init__(self, path: Path, options: TraceOptions) -> None:
        self.path = path
        self.options = options
        self._spool = Spool(path.parent)
        self._tombstones = Tombstones(path.parent / "tombstones.jsonl")
        self._turn = RLock()
        self._db: sqlite3.Connection | None = None
        self._is_readable_only = False
        self._added = _TRIM_EVERY

    def close(self) -> None:
        """Let go of the file. May be called twice; asked again, it is opened again."""
        with self._turn:
            if self._db is not None:
                self._db.close()
            self._db = None

    # -- writing -----------------------------------------------------------------------------------------------------

    def add(
        self, calls: Iterable[TracedCall] = (), errors: Iterable[TracedError] = (), run: str = ""
    ) -> tuple[int, int]:
        """Keep calls and errors, those that are not there yet; return how many of each were new. Raise StoreError."""
        now = int(time.time() * 1000)
        call_rows = [(*_call_row(one), now) for one in calls]
        error_rows = [(*_error_row(one, run), now) for one in errors]
        if not call_rows and not error_rows:
            return 0, 0
        with self._writing() as db:
            before = db.total_changes
            db.executemany(f"INSERT OR IGNORE INTO calls ({_CALL}, kept) VALUES ({_marks(18)})", call_rows)
            new_calls = db.total_changes - before
            db.executemany(
                f"INSERT INTO errors ({_ERROR}, run, functions, files, kept) VALUES ({_marks(23)}) ON CONFLICT (mark) DO UPDATE SET"
                " times = excluded.times, at = excluded.at WHERE excluded.times > times",
                error_rows,
            )
            new_errors = db.total_changes - before - new_calls
        self._added += new_calls + new_errors
        if self._added >= _TRIM_EVERY:
            self.trim()
        return new_calls, new_errors

    def absorb(self) -> None:
        """Take in what operations have noted. What cannot be taken in now stays where it is."""
        for noted in self._spool.taken():
            try:
                self.add(*noted.read())
            except BaseException:
                noted.close()
                raise
            noted.drop()

    def trim(self) -> None:
        """Drop what is too old, and the oldest of what is too much."""
        self._added = 0
        before = int(time.time() * 1000) - self.options.days * _DAY_MS
        with self._writing() as db:
            # By when they came here: whoever hands over an old log wants to ask it.
            db.execute("DELETE FROM calls WHERE kept < ?", (before,))
            db.execute("DELETE FROM errors WHERE kept < ?", (before,))
            db.execute("DELETE FROM ingested WHERE at < ?", (before,))
        most = self.options.megabytes * 1_000_000
        for _ in range(64):
            if self._size() <= most:
                break
            with self._writing() as db:
                (calls,) = db.execute("SELECT count(*) FROM calls").fetchone()
                (errors,) = db.execute("SELECT count(*) FROM errors").fetchone()
                table, held = ("calls", calls) if calls > min(errors, _LEAST_CALLS) else ("errors", errors)
                if not held:
                    break
                db.execute(
                    f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} ORDER BY kept, at LIMIT ?)",
                    (held // 4 + 1,),
                )
        with self._translating(), self._turn:
            self._opened().executescript("PRAGMA incremental_vacuum")  # `execute` gives back a single page

    @contextmanager
    def rewriting(self) -> Iterator[sqlite3.Connection]:
        """Give the tables to whoever puts an ingested log in order, as one step."""
        with self._writing() as db:
            yield db

    # -- reading -----------------------------------------------------------------------------------------------------

    def calls(self, wanted: Wanted) -> tuple[list[TracedCall], int]:
        """Return calls, newest first, and how many there are in all."""
        where, values = _conditions(wanted)
        if wanted.tool:
            where.append("(tool = ? OR substr(tool, 1, ?) = ?)")
            values += [wanted.tool, len(wanted.tool) + 1, f"{wanted.tool}."]
        if wanted.errors_only:
            where.append("failed")
        said = " AND ".join([*where, *self._told(values)]) or "1"
        rows = self._ask(
            f"SELECT {_CALL} FROM calls WHERE {said} ORDER BY at DESC, id DESC LIMIT ?", [*values, wanted.limit]
        )
        return [_call(row) for row in rows], self._count(f"SELECT count(*) FROM calls WHERE {said}", values)

    def errors(self, wanted: Wanted) -> tuple[list[TracedError], int]:
        """Return errors, newest first, and how many there are in all."""
        said, values = self._errors_wanted(wanted)
        rows = self._ask(
            f"SELECT {_ERROR} FROM errors WHERE {said} ORDER BY at DESC, id DESC LIMIT ?", [*values, wanted.limit]
        )
        return [_error(row) for row in rows], self._count(f"SELECT total(times) FROM errors WHERE {said}", values)

    def groups(self, wanted: Wanted) -> list[ErrorGroup]:
        """Return errors by their signature, what was seen last first."""
        said, values = self._errors_wanted(wanted)
        rows = self._ask(
            "SELECT signature, family, type, message, language, sum(times), min(at), max(at), count(DISTINCT nullif(session, '')),"
            f" count(DISTINCT project) FROM errors WHERE {said} GROUP BY signature ORDER BY max(at) DESC, signature LIMIT ?",
            [*values, wanted.limit],
        )
        return [ErrorGroup(*row) for row in rows]

    def next_passing(self, error: TracedError) -> tuple[TracedCall | None, list[TracedCall]]:
        """Return the next call of the same command that did not fail, and the calls in between that wrote files."""
        if not error.command:
            return None, []
        values: list[object] = [error.command, error.origin.project, error.at]
        said = " AND ".join(["command = ? AND project = ? AND at > ? AND NOT failed", *self._told(values)])
        rows = self._ask(f"SELECT {_CALL} FROM calls WHERE {said} ORDER BY at, id LIMIT 1", values)
        passed = _call(rows[0]) if rows else None
        if passed is None:
            return None, []
        values = [error.origin.project, error.at, passed.at]
        said = " AND ".join(["project = ? AND at > ? AND at < ? AND files != ''", *self._told(values)])
        rows = self._ask(f"SELECT {_CALL} FROM calls WHERE {said} ORDER BY at, id LIMIT 200", values)
        return passed, [_call(row) for row in rows]

    def turn_after(self, error: TracedError) -> str:
        """Return the id of the memory of the next turn of the same session; empty where none is known."""
        if not error.origin.session:
            return ""
        values: list[object] = [error.origin.session, error.at, error.origin.memory]
        said = " AND ".join(["session = ? AND at > ? AND memory != '' AND memory != ?", *self._told(values)])
        rows = self._ask(f"SELECT memory FROM calls WHERE {said} ORDER BY at LIMIT 1", values)
        return str(rows[0][0]) if rows else ""

    def _errors_wanted(self, wanted: Wanted) -> tuple[str, list[object]]:
        where, values = _conditions(wanted)
        if wanted.signature:
            where.append("(substr(signature, 1, ?) = ? OR type = ? OR substr(type, -?) = ?)")
            tail = f".{wanted.signature}"
            values += [len(wanted.signature), wanted.signature, wanted.signature, len(tail), tail]
        for column, part in (
            ("functions", wanted.function),
            ("files", wanted.file),
            ("type || ': ' || message", wanted.words),
        ):
            if part:
                where.append(f"instr(lower({column}), ?)")
                values.append(part.lower())
        return " AND ".join([*where, *self._told(values)]) or "1", values

    def _told(self, values: list[object]) -> list[str]:
        """Return what leaves out the traces of turns whose memories are deleted; their ids are added to the values."""
        try:
            deleted = self._tombstones.keys()
        except StoreError:
            return []
        if not deleted:
            return []
        hidden = [
            one
            for (one,) in self._ask(
                "SELECT DISTINCT memory FROM calls WHERE memory != '' UNION SELECT DISTINCT memory FROM errors WHERE memory != ''",
                (),
            )
            if memory_key(one) in deleted
        ]
        values += hidden
        return [f"memory NOT IN ({_marks(len(hidden))})"] if hidden else []

    def _count(self, statement: str, values: Sequence[object]) -> int:
        rows = self._ask(statement, values)
        return int(rows[0][0]) if rows else 0

    def _ask(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._turn:
            self._catch_up()
            if not self.path.exists():
                return []
            with self._translating():
                return self._opened(to_read=True).execute(statement, values).fetchall()

    def _catch_up(self) -> None:
        with suppress(StoreError, OSError):
            if self._spool.is_waiting():
                self.absorb()

    # -- the file ----------------------------------------------------------------------------------------------------

    def _size(self) -> int:
        with self._translating(), self._turn:
            db = self._opened()
            counts = [
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
            ]
        return int((counts[0] - counts[1]) * counts[2])

    def _opened(self, *, to_read: bool = False) -> sqlite3.Connection:
        if self._db is not None and (to_read or not self._is_readable_only):
            return self._db
        self.close()
        try:
            self._db, self._is_readable_only = connect(self.path), False
        except (sqlite3.OperationalError, OSError):
            if not to_read:
                raise
            self._db, self._is_readable_only = connect_to_read(self.path), True
        return self._db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._turn, self._translating():
            db = self._opened()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                self.close()
                set_aside(self.path)
            raise translated(error, self.path) from error


def _conditions(wanted: Wanted) -> tuple[list[str], list[object]]:
    where: list[str] = []
    values: list[object] = []
    given: list[tuple[str, object]] = [
        ("at >= ?", wanted.since),
        ("at <= ?", wanted.until),
        ("source = ?", wanted.source),
        ("session = ?", wanted.session),
    ]
    for condition, value in given:
        if value:
            where.append(condition)
            values.append(value)
    if wanted.projects is not None:
        where.append(f"project IN ({_marks(len(wanted.projects))})")
        values += wanted.projects
    return where, values


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _call_row(call: TracedCall) -> tuple[object, ...]:
    told = call.origin
    where = (told.source, told.project, told.session, told.turn, told.host, told.branch, told.memory)
    said = (
        call.input,
        call.output,
        call.error,
        int(call.failed),
        call.duration_ms,
        call.command,
        "\n".join(call.files),
    )
    return (call.id, call.at, call.tool, *where, *said)


def _call(row: Sequence[object]) -> TracedCall:
    mark, at, tool, *where = row[:10]
    given, output, error, failed, duration, command, files = row[10:]
    return TracedCall(
        str(mark),
        int(str(at)),
        str(tool),
        Origin(*map(str, where)),
        str(given),
        str(output),
        str(error),
        bool(failed),
        None if duration is None else float(str(duration)),
        str(command),
        tuple(str(files).split("\n")) if files else (),
    )


def _error_row(error: TracedError, run: str) -> tuple[object, ...]:
    trace, told = error.trace, error.origin
    where = (told.source, told.project, told.session, told.turn, told.host, told.branch, told.memory)
    stack = [frame for one in (trace, *trace.causes) for frame in one.frames]
    names = "\n".join(dict.fromkeys(frame.function for frame in stack if frame.function))
    files = "\n".join(dict.fromkeys(frame.file for frame in stack if frame.file))
    what = (error.signature, error.family, trace.type, trace.message, trace.language)
    return (
        error.id,
        error.at,
        error.times,
        *what,
        *where,
        error.command,
        error.place,
        _packed(trace),
        error.text,
        run,
        names,
        files,
    )


def _error(row: Sequence[object]) -> TracedError:
    mark, at, times, signature, family, kind, message, language, *rest = row
    where, (command, place, frames, text) = rest[:7], rest[7:]
    trace = _unpacked(str(frames), str(kind), str(message), str(language))
    return TracedError(
        str(mark), int(str(at)), str(signature), str(family), trace, Origin(*map(str, where)),
        str(command), str(place), str(text), int(str(times)),
    )  # fmt: skip


def _packed(trace: StackTrace) -> str:
    causes = [[one.type, one.message, one.frames] for one in trace.causes]
    return json.dumps([trace.frames, causes], ensure_ascii=False, separators=(",", ":"))


def _unpacked(frames: str, kind: str, message: str, language: str) -> StackTrace:
    own, causes = json.loads(frames)
    told = tuple(StackTrace(language, one[0], one[1], _frames(one[2])) for one in causes)
    return StackTrace(language, kind, message, _frames(own), told)


def _frames(given: Iterable[Sequence[object]]) -> tuple[Frame, ...]:
    return tuple(Frame(str(one[0]), str(one[1]), int(str(one[2])), int(str(one[3]))) for one in given)
