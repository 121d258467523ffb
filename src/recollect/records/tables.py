"""Records as tables, to be asked. They follow the ledger, and are made anew when its past is not what they followed.

Nothing here is the only copy of anything: the file may be deleted at any time, and one that is damaged or of another version
is replaced. What a task says is read from the ledger's own lines; nothing is computed when it is written that a question
could compute, trust least of all.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recollect.core.identity import new_id
from recollect.core.record import Record
from recollect.records.chain import Position
from recollect.records.ledger import Ledger
from recollect.records.tables_file import open_tables, translated
from recollect.records.tables_schema import COLUMNS, TABLES, add, record_of
from recollect.records.trust import rests_on

_AT_ONCE = 20_000
_ASKED_AT_ONCE = 500
_SELECT = "SELECT " + ", ".join(f"r.{name}" for name in COLUMNS) + " FROM records r"
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class Task:
    """Where a task is."""

    id: str
    project: str
    parent: str
    goal: str
    status: str
    agent: str
    """Who started it."""
    started_at: str
    finished_at: str
    updated_at: str
    started_by: str
    """The record that started it; empty when there is none."""
    last: str
    """The last record of it."""
    records: int


@dataclass(frozen=True, slots=True)
class Run:
    """A tool that was run for a task. Its id is that of the record that began it."""

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
    """The record that ended it; empty while none did."""


@dataclass(frozen=True, slots=True)
class Named:
    """Something that records name: a dataset, an entity, a challenge, a contributor; and how often, and where last."""

    name: str
    kind: str
    """An entity's type, or a dataset's version."""
    records: int
    last_at: str


@dataclass(frozen=True, slots=True)
class Relation:
    """That one record refers to another."""

    source: str
    target: str
    relation: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Which records are wanted. What is empty does not matter."""

    kinds: Sequence[str] = ()
    project: str | None = None
    """A project's id; `""` for records of none; None for all."""
    task: str = ""
    thread: str = ""
    status: str = ""
    challenge: str = ""
    dataset: str = ""
    entity: str = ""
    before: int = _MOST
    """Only records with a lower number: the way to the next page."""
    most: int = 100
    in_force: bool = False
    """Only what nothing has superseded."""


class RecordTables:
    """The tables of one tenant. Without a path they lie in memory, for homes that cannot be written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._turn = threading.RLock()
        with self._translating():
            self._db = open_tables(path)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def catch_up(self, ledger: Ledger) -> int:
        """Apply what is new in the ledger, and return how many records that was. All of them if its past has changed."""
        if not self._follows(ledger, self._position()):
            return self.rebuild(ledger)
        if ledger.position().hash == self._position().hash:
            return 0
        applied = 0
        while True:
            with self._writing():
                position = self._position()  # another process may have been faster
                count = self._apply(ledger, position, _AT_ONCE)
            applied += count
            if count < _AT_ONCE:
                return applied

    def rebuild(self, ledger: Ledger) -> int:
        """Make all tables anew; whoever reads meanwhile sees the old ones."""
        with self._writing() as db:
            for table in TABLES:
                db.execute(f"DELETE FROM {table}")
            db.execute("INSERT INTO meta VALUES ('generation', ?)", (json.dumps(new_id()),))
            return self._apply(ledger, Position(), None)

    def position(self) -> Position:
        """Return the place in the ledger up to which the tables know it."""
        return self._position()

    def generation(self) -> str:
        """Return a name that changes when all tables were made anew: then places (`after`) begin anew, too."""
        return self._meta("generation") or ""

    def get(self, record: str) -> Record | None:
        """Return a record by its id."""
        return next(iter(self._records("WHERE r.id = ? ORDER BY r.place LIMIT 1", (record,))), None)

    def of_ids(self, ids: Iterable[str]) -> list[Record]:
        """Return records by their ids, in the ledger's order; those that are not there are left out."""
        wanted = list(dict.fromkeys(ids))
        found: list[Record] = []
        for first in range(0, len(wanted), _ASKED_AT_ONCE):
            some = wanted[first : first + _ASKED_AT_ONCE]
            found += self._records(f"WHERE r.id IN ({_marks(some)}) ORDER BY r.place", some)
        return sorted(found, key=lambda one: one.seq)

    def of_task(self, task: str) -> list[Record]:
        """Return all records of a task, oldest first."""
        return self._records("WHERE r.task = ? ORDER BY r.place", (task,))

    def of_thread(self, thread: str) -> list[Record]:
        """Return all records of a thread, oldest first."""
        return self._records("WHERE r.thread = ? ORDER BY r.place", (thread,))

    def replies(self, record: str) -> list[Record]:
        """Return the records that reply to one, oldest first."""
        return self._records("WHERE r.reply_to = ? AND r.reply_to <> '' ORDER BY r.place", (record,))

    def superseding(self, record: str) -> list[Record]:
        """Return the records that supersede one, oldest first; none, and it is in force."""
        return self._records("WHERE r.supersedes = ? AND r.supersedes <> '' ORDER BY r.place", (record,))

    def find(self, asked: Asked) -> list[Record]:
        """Return the records that are asked for, newest first."""
        conditions, values = _conditions(asked)
        return self._records(f"WHERE {' AND '.join(conditions)} ORDER BY r.place DESC LIMIT ?", [*values, asked.most])

    def after(self, place: int, most: int = 1000) -> list[tuple[int, Record]]:
        """Return records in the order in which they were applied, each with its place: for whatever follows the tables."""
        with self._translating():
            rows = self._db.execute(
                f"SELECT r.place, {_SELECT[7:]} WHERE r.place > ? ORDER BY r.place LIMIT ?",
                (place, most),
            ).fetchall()
        return [(int(row[0]), record_of(row[1:])) for row in rows]

    def around(self, ids: Iterable[str]) -> list[Record]:
        """Return records with all that `tiers` must know to judge them; of the others it may know too little."""
        asked = list(dict.fromkeys(ids))
        found: dict[str, Record] = {}
        wanted = asked
        while wanted:  # what they rest on, by however many steps: taint comes from there
            self._add(wanted, found)
            near = dict.fromkeys(other for one in wanted if one in found for other in rests_on(found[one]))
            wanted = [one for one in near if one not in found]
        parents = [found[one].reply_to for one in asked if one in found and found[one].reply_to]
        self._add(self._referring("reply_to", asked), found)
        self._add(self._referring("supersedes", [*asked, *parents]), found)
        return sorted(found.values(), key=lambda one: one.seq)

    def task(self, task: str) -> Task | None:
        """Return where a task is; None when nobody has ever spoken of it."""
        return next(iter(self._tasks("WHERE id = ?", (task,))), None)

    def tasks(self, *, project: str | None = None, statuses: Sequence[str] = (), most: int = 100) -> list[Task]:
        """Return tasks, those first that were worked on last. `project=""` is those of no project."""
        conditions, values = ["1"], list[object]()
        if project is not None:
            conditions.append("project = ?")
            values.append(project)
        if statuses:
            conditions.append(f"status IN ({_marks(statuses)})")
            values += statuses
        return self._tasks(f"WHERE {' AND '.join(conditions)} ORDER BY place DESC LIMIT ?", [*values, most])

    def runs(self, task: str, most: int = 100) -> list[Run]:
        """Return the runs of a task, newest first."""
        with self._translating():
            rows = self._db.execute(
                "SELECT id, task, agent, tool, command, status, summary, started_at, finished_at, finish FROM runs"
                " WHERE task = ? ORDER BY place DESC LIMIT ?",
                (task, most),
            ).fetchall()
        return [Run(*row) for row in rows]

    def datasets(self, project: str | None = None, most: int = 100) -> list[Named]:
        """Return the datasets that records name, those named last first."""
        return self._named("datasets", "version", project, most)

    def entities(self, project: str | None = None, most: int = 100) -> list[Named]:
        """Return the things that records name, those named last first."""
        return self._named("entities", "type", project, most)

    def challenges(self, project: str | None = None, most: int = 100) -> list[Named]:
        """Return the challenges that records belong to, those named last first."""
        return self._named("challenges", "''", project, most, name="id")

    def contributors(self, project: str | None = None, most: int = 100) -> list[Named]:
        """Return who took part, those named last first."""
        return self._named("contributors", "''", project, most)

    def relations(self, record: str) -> list[Relation]:
        """Return what a record refers to and what refers to it."""
        with self._translating():
            rows = self._db.execute(
                "SELECT source, target, relation FROM relations WHERE source = ?1 OR target = ?1 ORDER BY place",
                (record,),
            ).fetchall()
        return [Relation(*row) for row in rows]

    def counts(self) -> dict[str, int]:
        """Return how many records there are of each kind."""
        with self._translating():
            return dict(self._db.execute("SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind").fetchall())

    def _records(self, rest: str, values: Sequence[object]) -> list[Record]:
        with self._translating():
            return [record_of(row) for row in self._db.execute(f"{_SELECT} {rest}", values).fetchall()]

    def _tasks(self, rest: str, values: Sequence[object]) -> list[Task]:
        with self._translating():
            rows = self._db.execute(
                "SELECT id, project, parent, goal, status, agent, started_at, finished_at, updated_at, started_by, last,"
                f" records FROM tasks {rest}",
                values,
            ).fetchall()
        return [Task(*row) for row in rows]

    def _named(self, table: str, kind: str, project: str | None, most: int, *, name: str = "name") -> list[Named]:
        where, values = ("WHERE t.project = ?", [project]) if project is not None else ("", [])
        with self._translating():
            rows = self._db.execute(
                f"SELECT t.{name}, {kind}, count(*), max(r.at) FROM {table} t JOIN records r ON r.place = t.place {where}"
                f" GROUP BY t.{name}, {kind} ORDER BY max(t.place) DESC LIMIT ?",
                [*values, most],
            ).fetchall()
        return [Named(*row) for row in rows]

    def _add(self, ids: Iterable[str], found: dict[str, Record]) -> None:
        for record in self.of_ids(ids):
            found.setdefault(record.id, record)

    def _referring(self, column: str, ids: Sequence[str]) -> list[str]:
        """Return the ids of records that name one of some ids in a column."""
        found: list[str] = []
        for first in range(0, len(ids), _ASKED_AT_ONCE):
            some = ids[first : first + _ASKED_AT_ONCE]
            with self._translating():
                rows = self._db.execute(
                    f"SELECT id FROM records WHERE {column} IN ({_marks(some)}) AND {column} <> ''", some
                ).fetchall()
            found += [str(one) for (one,) in rows]
        return found

    def _apply(self, ledger: Ledger, after: Position, most: int | None) -> int:
        stamps = self._stamps()
        count, position = 0, after
        for entry in ledger.walk(after):
            for left in range(position.segment, entry.position.segment):
                stamps[str(left)] = ledger.stamp(left)
            position = entry.position
            if entry.record is not None:
                add(self._db, entry.record)
                count += 1
                if count == most:
                    break
        current = ledger.stamp(position.segment)
        stamps[str(position.segment)] = current and (current[0], 0, 0)
        for name, value in (("position", asdict(position)), ("stamps", stamps)):
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))
        return count

    def _follows(self, ledger: Ledger, position: Position) -> bool:
        """Say whether the ledger up to a position is, by all that can be seen without reading it, what was read."""
        if position.seq == 0:
            return True
        for segment, stamp in self._stamps().items():
            now = ledger.stamp(int(segment))
            if stamp is None or now is None:
                if stamp is not now:
                    return False
            elif now[0] != stamp[0] or (int(segment) < position.segment and list(now) != list(stamp)):
                return False
        return ledger.holds(position)

    def _position(self) -> Position:
        found = self._meta("position")
        return Position(**found) if found else Position()

    def _stamps(self) -> dict[str, Any]:
        return self._meta("stamps") or {}

    def _meta(self, name: str) -> Any:
        with self._translating():
            found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return json.loads(found[0]) if found else None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translating():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
        # One connection: whoever asks while another thread writes would see half of it.
        with self._turn:
            try:
                yield
            except (sqlite3.Error, OSError) as error:
                raise translated(error, self._path) from error


def _conditions(asked: Asked) -> tuple[list[str], list[object]]:
    conditions, values = ["r.seq < ?"], list[object]([asked.before])
    for column, value in (("task", asked.task), ("thread", asked.thread), ("status", asked.status)):
        if value:
            conditions.append(f"r.{column} = ?")
            values.append(value)
    if asked.project is not None:
        conditions.append("r.project = ?")
        values.append(asked.project)
    if asked.kinds:
        conditions.append(f"r.kind IN ({_marks(asked.kinds)})")
        values += asked.kinds
    named = (
        ("challenges", "id", asked.challenge),
        ("datasets", "name", asked.dataset),
        ("entities", "name", asked.entity),
    )
    for table, column, value in named:
        if value:
            conditions.append(f"r.place IN (SELECT place FROM {table} WHERE {column} = ?)")
            values.append(value)
    if asked.in_force:
        conditions.append("NOT EXISTS (SELECT 1 FROM records s WHERE s.supersedes = r.id AND s.supersedes <> '')")
    return conditions, values


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
