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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lorelog.core.identity import new_id
from lorelog.core.record import Record
from lorelog.records.chain import Position
from lorelog.records.ledger import Ledger
from lorelog.records.tables_asked import Asked, Named, Relation, Run, Task, conditions_of, marks
from lorelog.records.tables_file import open_tables, translated
from lorelog.records.tables_schema import COLUMNS, TABLES, add, record_of
from lorelog.records.trust import rests_on

__all__ = ["Asked", "Named", "RecordTables", "Relation", "Run", "Task"]

_AT_ONCE = 20_000
_ASKED_AT_ONCE = 500
_LAST = "\U0010ffff"
"""Sorts after whatever an id may go on with."""
_SELECT = "SELECT " + ", ".join(f"r.{name}" for name in COLUMNS) + " FROM records r"


class RecordTables:
    """The tables of one tenant. Without a path they lie in memory, for homes that cannot be written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._turn = threading.RLock()
        self._seen: object = None
        """The ledger's files as they were when the tables had caught up with them."""
        with self._translating():
            self._db = open_tables(path)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def catch_up(self, ledger: Ledger) -> int:
        """Apply what is new in the ledger, and return how many records that was. All of them if its past has changed."""
        marks = ledger.marks()
        if marks is not None and marks == self._seen:
            return 0  # most questions come by when nothing was written, and each asks several times
        applied = self._catch_up(ledger)
        self._seen = marks
        return applied

    def _catch_up(self, ledger: Ledger) -> int:
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

    def beginning(self, start: str, most: int = 10) -> list[Record]:
        """Return records whose ids begin with a text, in the order of their ids; of lines with one id the first."""
        found: dict[str, Record] = {}
        for record in self._records(
            "WHERE r.id >= ? AND r.id < ? ORDER BY r.id, r.place LIMIT ?", (start, start + _LAST, most)
        ):
            found.setdefault(record.id, record)
        return list(found.values())

    def of_ids(self, ids: Iterable[str]) -> list[Record]:
        """Return records by their ids, in the ledger's order; those that are not there are left out."""
        wanted = list(dict.fromkeys(ids))
        found: list[Record] = []
        for first in range(0, len(wanted), _ASKED_AT_ONCE):
            some = wanted[first : first + _ASKED_AT_ONCE]
            found += self._records(f"WHERE r.id IN ({marks(some)}) ORDER BY r.place", some)
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

    def superseded(self, ids: Sequence[str]) -> set[str]:
        """Return those of some records that something has superseded."""
        return {one.supersedes for one in self.of_ids(self._referring("supersedes", ids))}.intersection(ids)

    def find(self, asked: Asked) -> list[Record]:
        """Return the records that are asked for, newest first."""
        conditions, values = conditions_of(asked)
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
        speaking = self._referring("reply_to", asked, "supports_claim")
        self._add(speaking, found)
        # Where they, or what speaks for them, may have been taken back.
        self._add(self._referring("reply_to", [*asked, *parents, *speaking], "NOT supports_claim"), found)
        self._add(self._referring("supersedes", speaking, "NOT supports_claim"), found)
        self._add(self._referring("supersedes", [*asked, *parents]), found)
        return sorted(found.values(), key=lambda one: one.seq)

    def task(self, task: str) -> Task | None:
        """Return where a task is; None when nobody has ever spoken of it."""
        return next(iter(self._tasks("WHERE id = ?", (task,))), None)

    def tasks_of(self, ids: Iterable[str]) -> dict[str, Task]:
        """Return tasks by their ids; those that are not there are left out."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Task] = {}
        for first in range(0, len(wanted), _ASKED_AT_ONCE):
            some = wanted[first : first + _ASKED_AT_ONCE]
            found |= {one.id: one for one in self._tasks(f"WHERE id IN ({marks(some)})", some)}
        return found

    def tasks_beginning(self, start: str, most: int = 10) -> list[Task]:
        """Return the tasks whose ids begin with a text, in the order of their ids."""
        return self._tasks("WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", (start, start + _LAST, most))

    def tasks(
        self,
        *,
        project: str | None = None,
        projects: Sequence[str] | None = None,
        statuses: Sequence[str] = (),
        most: int = 100,
    ) -> list[Task]:
        """Return tasks, those first that were worked on last. `project=""` is those of no project; `projects` are several."""
        conditions, values = ["1"], list[object]()
        for wanted in ([project] if project is not None else None, projects):
            if wanted is not None:
                conditions.append(f"project IN ({marks(wanted)})")
                values += wanted
        if statuses:
            conditions.append(f"status IN ({marks(statuses)})")
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

    def _referring(self, column: str, ids: Sequence[str], only: str = "1") -> list[str]:
        """Return the ids of records that name one of some ids in a column; only of those for which something holds."""
        found: list[str] = []
        for first in range(0, len(ids), _ASKED_AT_ONCE):
            some = ids[first : first + _ASKED_AT_ONCE]
            with self._translating():
                rows = self._db.execute(
                    f"SELECT id FROM records WHERE {column} IN ({marks(some)}) AND {column} <> '' AND {only}", some
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
        stamps[str(position.segment)] = ledger.stamp(position.segment)
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
            elif now[1] == stamp[1] == position.offset and now[2] != stamp[2]:
                return False  # written to, and no longer than it was: something in it was changed
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
