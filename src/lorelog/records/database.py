"""The SQLite tables that follow a ledger: schema, opening, and the rows that each record adds.

Only what queries filter by is a column; a record's other fields are stored as JSON in one column. The past of a ledger
does not change, so records are only ever added; a task's row has its current state.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from operator import attrgetter

from lorelog.core.record import Json, Record
from lorelog.core.sqlite_file import DatabaseSchema
from lorelog.records.trust import source_ids

SCHEMA_VERSION = 3
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
CREATE INDEX tasks_by_status ON tasks (status, place);
CREATE TABLE runs (
    id TEXT PRIMARY KEY, task TEXT NOT NULL, agent TEXT NOT NULL, tool TEXT NOT NULL, command TEXT NOT NULL,
    status TEXT NOT NULL, summary TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT NOT NULL, finish TEXT NOT NULL,
    place INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_task ON runs (task, place);
CREATE TABLE datasets (name TEXT NOT NULL, version TEXT NOT NULL, task TEXT NOT NULL, project TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX datasets_by_name ON datasets (name, place);
CREATE TABLE entities (name TEXT NOT NULL, type TEXT NOT NULL, role TEXT NOT NULL, task TEXT NOT NULL, project TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX entities_by_name ON entities (name, place);
CREATE TABLE challenges (id TEXT NOT NULL, task TEXT NOT NULL, project TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX challenges_by_id ON challenges (id, place);
CREATE TABLE relations (source TEXT NOT NULL, target TEXT NOT NULL, relation TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX relations_by_source ON relations (source);
CREATE INDEX relations_by_target ON relations (target, place);
"""
TABLES = ("records", "tasks", "runs", "datasets", "entities", "challenges", "relations", "meta")
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


def insert_record(db: sqlite3.Connection, record: Record) -> None:
    """Add a record to all tables."""
    row = list(_GET_COLUMNS(record))
    row[_FIELDS_INDEX] = _ENCODE_JSON(dict(record.fields))
    place = db.execute(_INSERT, row).lastrowid or 0
    if record.task:
        _update_task(db, record, place)
    if record.kind == "run_start":
        _add_run(db, record, place)
    elif record.kind == "run_finish":
        _finish_run(db, record, place)
    related = record.texts("related_artifact_ids")
    for target in source_ids(record):
        relations = (
            (target == record.reply_to, record.relation or "reply_to"),
            (target == record.supersedes, "supersedes"),
            (target in related, "related"),
        )
        for applies, relation in relations:
            if applies:
                db.execute("INSERT INTO relations VALUES (?, ?, ?, ?)", (record.id, target, relation, place))
    origin = (record.task, record.project, place)
    for dataset in _iter_texts(record.fields.get("dataset_refs"), "name", "version"):
        db.execute("INSERT INTO datasets VALUES (?, ?, ?, ?, ?)", (*dataset, *origin))
    for entity in _iter_texts(record.fields.get("entity_refs"), "name", "entity_type", "role"):
        db.execute("INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?)", (*entity, *origin))
    if record.text("challenge_id"):
        db.execute("INSERT INTO challenges VALUES (?, ?, ?, ?)", (record.text("challenge_id"), *origin))


def row_to_record(row: tuple[object, ...]) -> Record:
    """Return the record of a row of `COLUMNS`."""
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
    if (
        sets_status and record.origin == "import"
    ):  # it neither ends nor reopens a task that was not started by an import
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


def _iter_texts(value: Json, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the text members with these names of each object in a list; empty where a member is not a text."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield tuple(text if isinstance(text := item.get(name), str) else "" for name in names)


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
