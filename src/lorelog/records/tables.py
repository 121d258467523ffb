"""Query a tenant's records: SQLite tables that follow the ledger.

The tables are never the only copy: the file may be deleted at any time, a damaged one or one of another version is
replaced, and all tables are rebuilt if the ledger's past differs from what they followed. Nothing that a query can
compute is stored, least of all trust. Queries for digests are bounded and read only the records that they return, so a
brief of a large ledger is as fast as one of a small ledger.

Only what queries filter by is a column; a record's other fields are stored as JSON in one column. The past of a ledger
does not change, so records are only ever added; a task's row has its current state.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, to_builtins

from lorelog.core.errors import StoreBusy
from lorelog.core.ids import new_id
from lorelog.core.record import Record
from lorelog.core.serializable import Serializable
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, transaction
from lorelog.records.chain import LedgerPosition
from lorelog.records.ledger import Ledger
from lorelog.records.trust import source_ids

SCHEMA_VERSION = 4
APPLICATION_ID = 0x6C6F7265  # "lore"
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, at TEXT NOT NULL,
    project TEXT NOT NULL, task TEXT NOT NULL, thread TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    reply_to TEXT NOT NULL, relation TEXT NOT NULL, supports_claim INTEGER, supersedes TEXT NOT NULL, origin TEXT NOT NULL,
    status TEXT NOT NULL, fields TEXT NOT NULL, signature TEXT NOT NULL, hash TEXT NOT NULL, verified INTEGER NOT NULL,
    redacted INTEGER NOT NULL
);
CREATE INDEX records_by_id ON records (id);
CREATE INDEX records_by_task ON records (task, place);
CREATE INDEX records_by_thread ON records (thread, place);
CREATE INDEX records_by_kind ON records (kind, project, place);
CREATE INDEX records_by_reply ON records (reply_to, place) WHERE reply_to <> '';
CREATE INDEX records_by_superseded ON records (supersedes, place) WHERE supersedes <> '';
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, parent TEXT NOT NULL, goal TEXT NOT NULL, status TEXT NOT NULL,
    agent TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    started_by TEXT NOT NULL, last TEXT NOT NULL, records INTEGER NOT NULL, place INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tasks_by_project ON tasks (project, place);
CREATE TABLE runs (
    id TEXT PRIMARY KEY, task TEXT NOT NULL, agent TEXT NOT NULL, tool TEXT NOT NULL, command TEXT NOT NULL,
    status TEXT NOT NULL, summary TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT NOT NULL, finish TEXT NOT NULL,
    place INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_task ON runs (task, place);
CREATE TABLE subjects (kind TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, project TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX subjects_by_name ON subjects (kind, name, place);
"""
TABLES = ("records", "tasks", "runs", "subjects", "meta")
COLUMNS = (
    *("id", "seq", "kind", "at", "project", "task", "thread", "agent", "session", "reply_to", "relation"),
    *("supports_claim", "supersedes", "origin", "status", "fields", "signature", "hash", "verified", "redacted"),
)
_INSERT = f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_ENCODE_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_FIELDS_INDEX = COLUMNS.index("fields")
_GET_COLUMNS = attrgetter(*COLUMNS)
_SET_ONCE = ", ".join(
    f"{column} = CASE WHEN {column} = '' THEN excluded.{column} ELSE {column} END"
    for column in ("project", "parent", "goal", "agent", "started_at", "started_by")
)
_TASK_STATUS_KINDS = frozenset({"task_start", "task_progress", "task_finish"})
_SUBJECT_FIELDS = {"entity": "entity_refs", "dataset": "dataset_refs"}


def insert_record(db: sqlite3.Connection, record: Record) -> None:
    row = list(_GET_COLUMNS(record))
    row[_FIELDS_INDEX] = _ENCODE_JSON(dict(record.fields))
    place = db.execute(_INSERT, row).lastrowid or 0
    if record.task:
        _update_task(db, record, place)
    if record.kind == "run_start":
        _add_run(db, record, place)
    elif record.kind == "run_finish":
        _finish_run(db, record, place)
    subjects = [("challenge", record.text("challenge_id"), "")] if record.text("challenge_id") else []
    for kind, field in _SUBJECT_FIELDS.items():
        parts = record.fields.get(field)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                name, type_ = (
                    text if isinstance(text := part.get(key), str) else "" for key in ("name", "entity_type")
                )
                subjects.append((kind, name, type_))
    db.executemany(
        "INSERT INTO subjects VALUES (?, ?, ?, ?, ?)", [(*subject, record.project, place) for subject in subjects]
    )


def row_to_record(row: tuple[object, ...]) -> Record:
    values = dict(zip(COLUMNS, row, strict=True))
    claim = values["supports_claim"]
    values |= {
        "supports_claim": None if claim is None else bool(claim),
        "fields": json.loads(str(values["fields"])),
        "verified": bool(values["verified"]),
        "redacted": bool(values["redacted"]),
    }
    return Record(**values)  # type: ignore[arg-type]


def _update_task(db: sqlite3.Connection, record: Record, place: int) -> None:
    starts, ends = record.kind == "task_start", record.kind == "task_finish"
    sets_status = record.kind in _TASK_STATUS_KINDS
    # An import neither ends nor reopens a task that was not started by an import.
    if sets_status and record.origin == "import":
        sql = "SELECT 1 FROM tasks t JOIN records r ON r.id = t.started_by WHERE t.id = ? AND r.origin <> 'import'"
        sets_status = db.execute(sql, (record.task,)).fetchone() is None
    db.execute(
        "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT (id) DO UPDATE SET"
        f" {_SET_ONCE},"
        " status = CASE WHEN excluded.status = '' THEN status ELSE excluded.status END,"
        # Progress on a finished task reopens it.
        " finished_at = CASE WHEN excluded.status = '' THEN finished_at ELSE excluded.finished_at END,"
        " updated_at = excluded.updated_at, last = excluded.last, records = records + 1, place = excluded.place",
        (
            record.task,
            record.project,
            record.text("parent_task_id") if starts else "",
            record.text("goal"),
            record.status if sets_status else "",
            record.agent if starts else "",
            record.at if starts else "",
            record.at if ends else "",
            record.at,
            record.id if starts else "",
            record.id,
            place,
        ),
    )


def _add_run(db: sqlite3.Connection, record: Record, place: int, *, finished: bool = False) -> None:
    db.execute(
        "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record.id,
            record.task,
            record.agent,
            record.text("tool_name"),
            record.text("command"),
            record.status,
            record.text("summary"),
            "" if finished else record.at,
            record.at if finished else "",
            record.id if finished else "",
            place,
        ),
    )


def _finish_run(db: sqlite3.Connection, record: Record, place: int) -> None:
    """End the run that it replies to, else the last open run of the same task and writer with its tool and command."""
    row = db.execute("SELECT id FROM runs WHERE id = ? AND finish = ''", (record.reply_to,)).fetchone()
    if row is None and not record.reply_to:
        tool, command = record.text("tool_name"), record.text("command")
        row = db.execute(
            "SELECT id FROM runs WHERE task = ? AND agent = ? AND finish = '' AND ? IN ('', tool) AND ? IN ('', command)"
            " ORDER BY place DESC LIMIT 1",
            (record.task, record.agent, tool, command),
        ).fetchone()
    if row is None:
        _add_run(db, record, place, finished=True)
        return
    db.execute(
        "UPDATE runs SET status = ?, summary = ?, finished_at = ?, finish = ? WHERE id = ?",
        (record.status, record.text("summary"), record.at, record.id, row[0]),
    )


DATABASE = DatabaseSchema(
    SCHEMA,
    SCHEMA_VERSION,
    application=APPLICATION_ID,
    is_derived=True,
    hint="delete that file; it is rebuilt from the ledger",
    pragmas=(
        "synchronous = NORMAL",  # derived data: changes lost in a power failure are applied again
        "secure_delete = ON",  # rows are only deleted by a rebuild, often because text was redacted
        "cache_size = -32768",  # keeps the indexes cached while a long ledger is replayed
    ),
    busy_s=30.0,
)
_MAX_SEQ = 2**62


class Task(Struct, frozen=True):
    """The current state of a task. Fields are columns of the table."""

    id: str
    project: str
    parent: str
    goal: str
    status: str
    agent: str
    """The writer who started it."""
    started_at: str
    finished_at: str
    updated_at: str
    started_by: str
    """Id of the record that started it; empty if there is none."""
    last: str
    """Id of its last record."""
    records: int


class ToolRun(Struct, frozen=True):
    """A tool run of a task. Its id is that of the record that started it. Fields are columns of the table."""

    id: str
    task: str
    agent: str
    tool: str
    command: str
    status: str
    summary: str
    started_at: str
    finished_at: str
    finish: str
    """Id of the record that ended it; empty while it is open."""


class RecordQuery(Struct, frozen=True, kw_only=True):
    """A filter for records. Empty fields match everything."""

    kinds: Sequence[str] = ()
    projects: Sequence[str] | None = None
    """Ids of projects, `""` for records without one; None for all."""
    task: str = ""
    thread: str = ""
    entity: str = ""
    before: int = _MAX_SEQ
    """Only records with a lower number, for paging."""
    limit: int = 100
    in_force: bool = False
    """Only records that are not superseded."""


class RelatedProject(Serializable, Struct, frozen=True, rename={"record": "artifact_id"}):
    """Another project that names the same subjects."""

    project: str
    names: tuple[str, ...]
    record: str
    """Id of its newest record that names one of them."""


class RecordContentFilter(Struct, frozen=True):
    """Matches records with one of these fields or kinds and, if words are given, with at least one of them."""

    fields: Sequence[str] = ()
    kinds: Sequence[str] = ()
    words: Sequence[str] = ()


def where_conditions(query: RecordQuery) -> tuple[str, list[object]]:
    conditions: dict[str, object] = {
        "r.task = ?": query.task,
        "r.thread = ?": query.thread,
        f"r.kind IN {_VALUES}": _json_list(query.kinds) if query.kinds else "",
        f"r.project IN {_VALUES}": "" if query.projects is None else _json_list(query.projects),
        "r.place IN (SELECT place FROM subjects WHERE kind = 'entity' AND name = ?)": query.entity,
    }
    conditions = {condition: value for condition, value in conditions.items() if value}
    where = " AND ".join(("r.seq < ?", *conditions))
    if query.in_force:
        where += " AND NOT EXISTS (SELECT 1 FROM records s WHERE s.supersedes = r.id AND s.supersedes <> '')"
    return where, [query.before, *conditions.values()]


def _json_list(values: Iterable[str]) -> str:
    """Return the parameter of `_VALUES`: one for any number of texts."""
    return json.dumps(list(values))


_RECORDS_PER_TRANSACTION = 20_000
_VALUES = "(SELECT value FROM json_each(?))"
"""The texts of a JSON list, as values of `IN`."""
_AFTER_ANY_ID = "\U0010ffff"
"""Sorts after every character of an id."""
_SELECT_RECORDS = "SELECT " + ", ".join(f"r.{name}" for name in COLUMNS) + " FROM records r"
_TASK_COLUMNS, _RUN_COLUMNS = (", ".join(kind.__struct_fields__) for kind in (Task, ToolRun))


class RecordTables:
    """The tables of one tenant. Without a path they are in memory, for homes that are not writable."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._last_file_stats: object = None
        """The state of the ledger's files when the tables last caught up with them."""
        self._file = SqliteFile(path, DATABASE)
        with self._translate_errors():
            self._db = self._file.open()

    def close(self) -> None:
        self._db.close()

    def catch_up(self, ledger: Ledger) -> int:
        """Apply new records of the ledger and return their number; all of them if its past has changed."""
        stats = ledger.file_stats()
        if stats is not None and stats == self._last_file_stats:
            return 0  # the usual case: nothing was written since, and each request asks several times
        applied, count = 0, _RECORDS_PER_TRANSACTION
        if not self._is_ledger_unchanged(ledger, self.position()):
            applied = self.rebuild(ledger)
        elif ledger.position().hash != self.position().hash:
            while count == _RECORDS_PER_TRANSACTION:
                with self._transaction():
                    # From the position that is stored now: another process may have been faster.
                    count = self._apply(ledger, self.position(), _RECORDS_PER_TRANSACTION)
                applied += count
        self._last_file_stats = stats
        return applied

    def rebuild(self, ledger: Ledger) -> int:
        """Rebuild all tables and return the number of records; concurrent readers see the old tables."""
        with self._transaction() as db:
            for table in TABLES:
                db.execute(f"DELETE FROM {table}")
            db.execute("INSERT INTO meta VALUES ('generation', ?)", (json.dumps(new_id()),))
            return self._apply(ledger, LedgerPosition(), None)

    def purge(self, ledger: Ledger) -> int:
        """Rebuild all tables and erase what they held before from the file and its log; return the number of records.

        Raise StoreBusy if another process keeps reading the old log; the tables are rebuilt all the same.
        """
        count = self.rebuild(ledger)
        with self._translate_errors():
            for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                row = self._db.execute(statement).fetchone()
                if row is not None and row[0]:
                    raise StoreBusy(f"{self._path} is read by another process", hint="its log still holds old text")
        return count

    def position(self) -> LedgerPosition:
        """Return the position in the ledger up to which records have been applied."""
        values = self._meta("position")
        return LedgerPosition(**values) if values else LedgerPosition()

    def generation(self) -> str:
        """Return an id that changes when all tables are rebuilt, which also restarts the places of `applied_after`."""
        return self._meta("generation") or ""

    def get(self, record: str) -> Record | None:
        return next(iter(self._records("WHERE r.id = ? ORDER BY r.place LIMIT 1", (record,))), None)

    def with_id_prefix(self, start: str, limit: int = 10) -> list[Record]:
        """Return records by the start of their ids, in the order of ids; the first of lines with the same id."""
        records: dict[str, Record] = {}
        for record in self._records(
            "WHERE r.id >= ? AND r.id < ? ORDER BY r.id, r.place LIMIT ?", (start, start + _AFTER_ANY_ID, limit)
        ):
            records.setdefault(record.id, record)
        return list(records.values())

    def by_ids(self, ids: Iterable[str]) -> list[Record]:
        """Return the existing records with these ids, in ledger order."""
        records = self._records(f"WHERE r.id IN {_VALUES} ORDER BY r.place", (_json_list(ids),))
        return sorted(records, key=attrgetter("seq"))

    def where(self, column: Literal["task", "thread", "reply_to", "supersedes"], value: str) -> list[Record]:
        """Return the records that name something in a column, oldest first; none for an empty value."""
        return self._records(f"WHERE r.{column} = ? AND r.{column} <> '' ORDER BY r.place", (value,))

    def superseded_by(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the superseded ones among these records, each with the last record that superseded it."""
        sql = f"SELECT supersedes, id FROM records WHERE supersedes IN {_VALUES} AND supersedes <> '' ORDER BY place"
        return {str(old): str(new) for old, new in self._rows(sql, (_json_list(ids),))}

    def find(self, query: RecordQuery) -> list[Record]:
        """Return the records that match a query, newest first."""
        where, values = where_conditions(query)
        return self._records(f"WHERE {where} ORDER BY r.place DESC LIMIT ?", [*values, query.limit])

    def find_by_content(self, content: RecordContentFilter, query: RecordQuery) -> list[Record]:
        """Return the records that match a query and a content filter, newest first.

        If there are more than the limit, those with the most words are returned.
        """
        where, values = where_conditions(query)
        # Most records of a ledger match neither; searching the JSON text of the fields avoids decoding them.
        where += f" AND ({' OR '.join((*('instr(r.fields, ?)' for _ in content.fields), f'r.kind IN {_VALUES}'))})"
        values += [*(f'"{name}":' for name in content.fields), _json_list(content.kinds)]
        if not content.words:
            return self._records(f"WHERE {where} ORDER BY r.place DESC LIMIT ?", [*values, query.limit])
        # Lower-case each text once for all words, and sort only places: sorting whole records is slow.
        shared = " + ".join("(instr(folded, ?) > 0)" for _ in content.words)
        inner = f"SELECT r.place, lower(r.fields) AS folded FROM records r WHERE {where}"
        best = (
            f"SELECT place, {shared} AS shared FROM ({inner}) WHERE shared > 0 ORDER BY shared DESC, place DESC LIMIT ?"
        )
        return self._records(
            f"WHERE r.place IN (SELECT place FROM ({best})) ORDER BY r.place DESC",
            [*content.words, *values, query.limit],
        )

    def applied_after(self, place: int, limit: int = 1000) -> list[tuple[int, Record]]:
        """Return records in the order of application, each with its place, for consumers that follow the tables."""
        rows = self._rows(
            f"SELECT r.place, {_SELECT_RECORDS[7:]} WHERE r.place > ? ORDER BY r.place LIMIT ?", (place, limit)
        )
        return [(int(row[0]), row_to_record(row[1:])) for row in rows]

    def all(self) -> Iterator[Record]:
        """Yield all records in the order of application."""
        place = 0
        while batch := self.applied_after(place):
            yield from (record for _, record in batch)
            place = batch[-1][0]

    def trust_context(self, ids: Iterable[str]) -> list[Record]:
        """Return these records with all others that `assess_records` needs to assess them.

        For the others the result may be incomplete, so only the trust of `ids` is valid.
        """
        requested = list(dict.fromkeys(ids))
        records: dict[str, Record] = {}
        pending = requested
        while pending:  # all sources in any number of steps: taint comes from there
            self._load_into(pending, records)
            sources = dict.fromkeys(
                source for identity in pending if identity in records for source in source_ids(records[identity])
            )
            pending = [identity for identity in sources if identity not in records]
        parents = [
            records[identity].reply_to for identity in requested if identity in records and records[identity].reply_to
        ]
        supporters = self._referring_ids("reply_to", requested, "supports_claim")
        self._load_into(supporters, records)
        # Records that may withdraw the requested ones or their supporters.
        replied_to = [*requested, *parents, *supporters]
        self._load_into(self._referring_ids("reply_to", replied_to, "NOT supports_claim"), records)
        self._load_into(self._referring_ids("supersedes", supporters, "NOT supports_claim"), records)
        self._load_into(self._referring_ids("supersedes", [*requested, *parents]), records)
        return sorted(records.values(), key=attrgetter("seq"))

    def task(self, task: str) -> Task | None:
        """Return a task's state; None if no record belongs to it."""
        return next(iter(self._tasks("WHERE id = ?", (task,))), None)

    def tasks_by_ids(self, ids: Iterable[str]) -> dict[str, Task]:
        """Return the existing tasks with these ids, by id."""
        return {task.id: task for task in self._tasks(f"WHERE id IN {_VALUES}", (_json_list(ids),))}

    def tasks_with_id_prefix(self, start: str, limit: int = 10) -> list[Task]:
        return self._tasks("WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", (start, start + _AFTER_ANY_ID, limit))

    def tasks(self, projects: Sequence[str] | None = None, limit: int = 100) -> list[Task]:
        """Return tasks, the most recently updated first. The project `""` selects tasks without one."""
        where, values = _task_conditions(projects, ())
        return self._tasks(f"WHERE {where} ORDER BY place DESC LIMIT ?", [*values, limit])

    def find_tasks(
        self, projects: Sequence[str] | None, *, open_: bool, statuses: Sequence[str] = (), limit: int = 5
    ) -> tuple[list[Task], int]:
        """Return open or finished tasks, the most recently updated first, and their total number."""
        where, values = _task_conditions(projects, statuses)
        where = f"WHERE {where} AND finished_at {'=' if open_ else '<>'} ''"
        ((count,),) = self._rows(f"SELECT count(*) FROM tasks {where}", values)
        return self._tasks(f"{where} ORDER BY place DESC LIMIT ?", [*values, limit]), int(count)

    def runs(self, task: str, limit: int = 100) -> list[ToolRun]:
        sql = f"SELECT {_RUN_COLUMNS} FROM runs WHERE task = ? ORDER BY place DESC LIMIT ?"
        return [ToolRun(*row) for row in self._rows(sql, (task, limit))]

    def related_projects(self, projects: Sequence[str], limit: int = 5) -> list[RelatedProject]:
        """Return other projects that name the same entities, datasets or challenges, the most shared names first."""
        shared: dict[str, set[str]] = {}
        last: dict[str, int] = {}
        own = _json_list(projects)
        rows = self._rows(
            f"WITH mine AS (SELECT DISTINCT kind, name FROM subjects WHERE project IN {_VALUES})"
            " SELECT t.project, t.name, max(t.place) FROM subjects t JOIN mine USING (kind, name)"
            f" WHERE t.project <> '' AND t.project NOT IN {_VALUES} AND NOT EXISTS (SELECT 1 FROM records r"
            " JOIN records s ON s.supersedes = r.id WHERE r.place = t.place AND s.supersedes <> '')"
            " GROUP BY t.project, t.kind, t.name",
            (own, own),
        )
        for project, name, place in rows:
            shared.setdefault(str(project), set()).add(str(name))
            last[str(project)] = max(last.get(str(project), 0), int(place))
        related: list[RelatedProject] = []
        for project in sorted(shared, key=lambda project: (-len(shared[project]), project))[:limit]:
            ((record,),) = self._rows("SELECT id FROM records WHERE place = ?", (last[project],))
            related.append(RelatedProject(project, tuple(sorted(shared[project])), str(record)))
        return related

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        with self._translate_errors():
            return self._db.execute(sql, values).fetchall()

    def _records(self, clause: str, values: Sequence[object]) -> list[Record]:
        return [row_to_record(row) for row in self._rows(f"{_SELECT_RECORDS} {clause}", values)]

    def _tasks(self, clause: str, values: Sequence[object]) -> list[Task]:
        return [Task(*row) for row in self._rows(f"SELECT {_TASK_COLUMNS} FROM tasks {clause}", values)]

    def _load_into(self, ids: Iterable[str], records: dict[str, Record]) -> None:
        for record in self.by_ids(ids):
            records.setdefault(record.id, record)

    def _referring_ids(self, column: str, ids: Iterable[str], condition: str = "1") -> list[str]:
        """Return the ids of records whose column contains one of these ids and that meet a condition."""
        sql = f"SELECT id FROM records WHERE {column} IN {_VALUES} AND {column} <> '' AND {condition}"
        return [str(identity) for (identity,) in self._rows(sql, (_json_list(ids),))]

    def _apply(self, ledger: Ledger, after: LedgerPosition, limit: int | None) -> int:
        stamps = self._stamps()
        count, position = 0, after
        before = ledger.segment_stat(position.segment)
        for entry in ledger.walk(after):
            for segment in range(position.segment, entry.position.segment):
                stamps[str(segment)] = _select_stamp(before, ledger.segment_stat(segment))
                before = ledger.segment_stat(segment + 1)
            position = entry.position
            if entry.record is not None:
                insert_record(self._db, entry.record)
                count += 1
                if count == limit:
                    break
        stamps[str(position.segment)] = _select_stamp(before, ledger.segment_stat(position.segment))
        for name, value in (("position", to_builtins(position)), ("stamps", stamps)):
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))
        return count

    def _is_ledger_unchanged(self, ledger: Ledger, position: LedgerPosition) -> bool:
        """Return True if the ledger up to a position looks unchanged, as far as this is visible without reading it."""
        if position.seq == 0:
            return True
        for segment, stamp in self._stamps().items():
            now = ledger.segment_stat(int(segment))
            if stamp is None or now is None:
                if stamp is not now:
                    return False
            elif now[0] != stamp[0] or (int(segment) < position.segment and list(now) != list(stamp)):
                return False
            elif now[1] == stamp[1] == position.offset and now[2] != stamp[2]:
                return False  # written to without growing: a line was changed
        return ledger.contains(position)

    def _stamps(self) -> dict[str, Any]:
        return self._meta("stamps") or {}

    def _meta(self, name: str) -> Any:
        rows = self._rows("SELECT value FROM meta WHERE name = ?", (name,))
        return json.loads(rows[0][0]) if rows else None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translate_errors(), transaction(self._db):
            yield self._db

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        # There is one connection: without the lock, a reader would see a half-written transaction of another thread.
        with self._lock, self._file.translated():
            yield


def _select_stamp(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return a segment's stamp after it was read; the one before if a redaction replaced the file meanwhile."""
    return before if before and after and before[0] != after[0] else after


def _task_conditions(projects: Sequence[str] | None, statuses: Sequence[str]) -> tuple[str, list[object]]:
    allowed = {"project": projects, "status": statuses or None}
    lists = {f"{column} IN {_VALUES}": _json_list(values) for column, values in allowed.items() if values is not None}
    return " AND ".join(("1", *lists)), list(lists.values())
