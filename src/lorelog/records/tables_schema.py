"""The tables that follow a ledger, and what each record adds to them.

Only what questions are asked by is a column; a record's other fields are kept as they are, in one. A ledger's past does not
change, so records are only ever added; a task's row says where the task is now.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from operator import attrgetter

from lorelog.core.record import Json, Record
from lorelog.records.trust import rests_on

VERSION = 1
APPLICATION_ID = 0x6C6F7265  # "lore"
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, at TEXT NOT NULL,
    project TEXT NOT NULL, task TEXT NOT NULL, thread TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    reply_to TEXT NOT NULL, relation TEXT NOT NULL, supports_claim INTEGER, supersedes TEXT NOT NULL, origin TEXT NOT NULL,
    status TEXT NOT NULL, fields TEXT NOT NULL, signature TEXT NOT NULL, hash TEXT NOT NULL, verified INTEGER NOT NULL
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
CREATE TABLE contributors (name TEXT NOT NULL, task TEXT NOT NULL, project TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX contributors_by_name ON contributors (name, place);
CREATE TABLE relations (source TEXT NOT NULL, target TEXT NOT NULL, relation TEXT NOT NULL, place INTEGER NOT NULL);
CREATE INDEX relations_by_source ON relations (source);
CREATE INDEX relations_by_target ON relations (target, place);
"""
TABLES = ("records", "tasks", "runs", "datasets", "entities", "challenges", "contributors", "relations", "meta")
COLUMNS = (
    *("id", "seq", "kind", "at", "project", "task", "thread", "agent", "session", "reply_to", "relation"),
    *("supports_claim", "supersedes", "origin", "status", "fields", "signature", "hash", "verified"),
)
_INSERT = f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_FIELDS = COLUMNS.index("fields")
_PLAIN, _AFTER = attrgetter(*COLUMNS[:_FIELDS]), attrgetter(*COLUMNS[_FIELDS + 1 :])
_STATUS_OF_TASK = frozenset({"task_start", "task_progress", "task_finish"})


def add(db: sqlite3.Connection, record: Record) -> None:
    """Add a record to all tables."""
    place = db.execute(_INSERT, _row(record)).lastrowid or 0
    if record.task:
        _add_to_task(db, record, place)
    if record.kind == "run_start":
        _add_run(db, record, place)
    elif record.kind == "run_finish":
        _finish_run(db, record, place)
    for source, target, relation in _relations(record):
        db.execute("INSERT INTO relations VALUES (?, ?, ?, ?)", (source, target, relation, place))
    where = (record.task, record.project, place)
    for one in _parts(record.fields.get("dataset_refs")):
        db.execute("INSERT INTO datasets VALUES (?, ?, ?, ?, ?)", (one("name"), one("version"), *where))
    for one in _parts(record.fields.get("entity_refs")):
        db.execute(
            "INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?)", (one("name"), one("entity_type"), one("role"), *where)
        )
    if record.text("challenge_id"):
        db.execute("INSERT INTO challenges VALUES (?, ?, ?, ?)", (record.text("challenge_id"), *where))
    for name in record.texts("contributors"):
        db.execute("INSERT INTO contributors VALUES (?, ?, ?, ?)", (name, *where))


def record_of(row: tuple[object, ...]) -> Record:
    """Return the record that a row of `COLUMNS` was made from."""
    values = dict(zip(COLUMNS, row, strict=True))
    claim = values["supports_claim"]
    values |= {
        "supports_claim": None if claim is None else bool(claim),
        "fields": json.loads(str(values["fields"])),
        "verified": bool(values["verified"]),
    }
    return Record(**values)  # type: ignore[arg-type]


def _row(record: Record) -> tuple[object, ...]:
    before, after = _PLAIN(record), _AFTER(record)
    return (*before, _JSON(dict(record.fields)), *after)


def _add_to_task(db: sqlite3.Connection, record: Record, place: int) -> None:
    starts, ends = record.kind == "task_start", record.kind == "task_finish"
    tells = record.kind in _STATUS_OF_TASK and not (record.origin == "import" and _is_begun_here(db, record.task))
    db.execute(
        "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT (id) DO UPDATE SET"
        " project = CASE WHEN project = '' THEN excluded.project ELSE project END,"
        " parent = CASE WHEN parent = '' THEN excluded.parent ELSE parent END,"
        " goal = CASE WHEN goal = '' THEN excluded.goal ELSE goal END,"
        " agent = CASE WHEN agent = '' THEN excluded.agent ELSE agent END,"
        " started_at = CASE WHEN started_at = '' THEN excluded.started_at ELSE started_at END,"
        " started_by = CASE WHEN started_by = '' THEN excluded.started_by ELSE started_by END,"
        " status = CASE WHEN excluded.status = '' THEN status ELSE excluded.status END,"
        # Whoever goes on with a finished task opens it again.
        " finished_at = CASE WHEN excluded.status = '' THEN finished_at ELSE excluded.finished_at END,"
        " updated_at = excluded.updated_at, last = excluded.last, records = records + 1, place = excluded.place",
        (
            record.task,
            record.project,
            record.text("parent_task_id") if starts else "",
            record.text("goal"),
            record.status if tells else "",
            record.agent if starts else "",
            record.at if starts else "",
            record.at if ends else "",
            record.at,
            record.id if starts else "",
            record.id,
            place,
        ),
    )


def _is_begun_here(db: sqlite3.Connection, task: str) -> bool:
    """Say whether a task was begun by somebody here: what an import says of it does not end it, nor open it again."""
    found = db.execute(
        "SELECT 1 FROM tasks t JOIN records r ON r.id = t.started_by WHERE t.id = ? AND r.origin <> 'import'", (task,)
    ).fetchone()
    return found is not None


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
    """End the run that it replies to; else the last open one of the same task and writer that fits what it names."""
    found = db.execute("SELECT id FROM runs WHERE id = ? AND finish = ''", (record.reply_to,)).fetchone()
    if found is None and not record.reply_to:
        tool, command = record.text("tool_name"), record.text("command")
        found = db.execute(
            "SELECT id FROM runs WHERE task = ? AND agent = ? AND finish = '' AND ? IN ('', tool) AND ? IN ('', command)"
            " ORDER BY place DESC LIMIT 1",
            (record.task, record.agent, tool, command),
        ).fetchone()
    if found is None:
        _add_run(db, record, place, finished=True)
        return
    db.execute(
        "UPDATE runs SET status = ?, summary = ?, finished_at = ?, finish = ? WHERE id = ?",
        (record.status, record.text("summary"), record.at, record.id, found[0]),
    )


def _relations(record: Record) -> Iterator[tuple[str, str, str]]:
    for target in rests_on(record):
        if target == record.reply_to:
            yield record.id, target, record.relation or "reply_to"
        if target == record.supersedes:
            yield record.id, target, "supersedes"
        if target in record.texts("related_artifact_ids"):
            yield record.id, target, "related"


class _Part:
    """One object of a list, of which only texts are asked."""

    def __init__(self, values: dict[str, Json]) -> None:
        self._values = values

    def __call__(self, name: str) -> str:
        value = self._values.get(name)
        return value if isinstance(value, str) else ""


def _parts(value: Json) -> Iterator[_Part]:
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield _Part(one)
