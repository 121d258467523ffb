"""Questions to the tables that only digests ask: who says something at all, what has been replaced, who shares a subject.

Each is bounded, and reads no record that it does not return: a brief of a large ledger must not take longer than the look at
it takes.
"""

# ruff: noqa: SLF001  (the tables and their questions are one thing in two files)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lorelog.core.record import Record
from lorelog.records.tables import RecordTables
from lorelog.records.tables_asked import Asked, Task, conditions_of, marks

_AT_ONCE = 500
_NAMED = (("entities", "name"), ("datasets", "name"), ("challenges", "id"))


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another project that names the same things."""

    project: str
    names: tuple[str, ...]
    record: str
    """The newest record of it that names one of them."""


@dataclass(frozen=True, slots=True)
class Saying:
    """Records that have one of some fields, or are of one of some kinds; and, where words are given, one of those."""

    fields: Sequence[str] = ()
    kinds: Sequence[str] = ()
    words: Sequence[str] = ()


def saying(tables: RecordTables, wanted: Saying, asked: Asked) -> list[Record]:
    """Return the records asked for that say something, newest first; of too many those that have most of the words."""
    conditions, values = conditions_of(asked)
    # Most records of a ledger say none of it; looking at the text of their fields spares reading them.
    either = [*("instr(r.fields, ?)" for _ in wanted.fields), f"r.kind IN ({marks(wanted.kinds)})"]
    conditions.append(f"({' OR '.join(either)})")
    values += [*(f'"{name}":' for name in wanted.fields), *wanted.kinds]
    if wanted.words:
        # Texts are folded once for all words, and only places are sorted: whole records would be moved about.
        shared = " + ".join("(instr(said, ?) > 0)" for _ in wanted.words)
        inner = f"SELECT r.place, lower(r.fields) AS said FROM records r WHERE {' AND '.join(conditions)}"
        best = (
            f"SELECT place, {shared} AS shared FROM ({inner}) WHERE shared > 0 ORDER BY shared DESC, place DESC LIMIT ?"
        )
        return tables._records(
            f"WHERE r.place IN (SELECT place FROM ({best})) ORDER BY r.place DESC", [*wanted.words, *values, asked.most]
        )
    return tables._records(f"WHERE {' AND '.join(conditions)} ORDER BY r.place DESC LIMIT ?", [*values, asked.most])


def tasks_of(
    tables: RecordTables, projects: Sequence[str] | None, *, open_: bool, statuses: Sequence[str] = (), most: int = 5
) -> tuple[list[Task], int]:
    """Return tasks that are under way or that have ended, those first that were worked on last; and how many there are."""
    conditions, values = ["finished_at = ''" if open_ else "finished_at <> ''"], list[object]()
    for column, wanted in (("project", projects), ("status", statuses or None)):
        if wanted is not None:
            conditions.append(f"{column} IN ({marks(wanted)})")
            values += wanted
    where = f"WHERE {' AND '.join(conditions)}"
    with tables._translating():
        (count,) = tables._db.execute(f"SELECT count(*) FROM tasks {where}", values).fetchone()
    return tables._tasks(f"{where} ORDER BY place DESC LIMIT ?", [*values, most]), int(count)


def replaced(tables: RecordTables, ids: Iterable[str]) -> dict[str, str]:
    """Return which of some records have been superseded, each with the last record that did."""
    wanted = list(dict.fromkeys(ids))
    found: dict[str, str] = {}
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        with tables._translating():
            rows = tables._db.execute(
                f"SELECT supersedes, id FROM records WHERE supersedes IN ({marks(some)}) AND supersedes <> ''"
                " ORDER BY place",
                some,
            ).fetchall()
        found |= {str(old): str(new) for old, new in rows}
    return found


def neighbours(tables: RecordTables, projects: Sequence[str], most: int = 5) -> list[Neighbour]:
    """Return other projects whose records name the same entities, datasets or challenges, those first that share most."""
    shared: dict[str, set[str]] = {}
    last: dict[str, int] = {}
    for table, column in _NAMED:
        with tables._translating():
            rows = tables._db.execute(
                f"WITH mine AS (SELECT DISTINCT {column} AS name FROM {table} WHERE project IN ({marks(projects)}))"
                f" SELECT t.project, t.{column}, max(t.place) FROM {table} t JOIN mine ON mine.name = t.{column}"
                f" WHERE t.project <> '' AND t.project NOT IN ({marks(projects)}) AND NOT EXISTS (SELECT 1 FROM records r"
                " JOIN records s ON s.supersedes = r.id WHERE r.place = t.place AND s.supersedes <> '')"
                f" GROUP BY t.project, t.{column}",
                [*projects, *projects],
            ).fetchall()
        for project, name, place in rows:
            shared.setdefault(str(project), set()).add(str(name))
            last[str(project)] = max(last.get(str(project), 0), int(place))
    best = sorted(shared, key=lambda one: (-len(shared[one]), one))[:most]
    return [Neighbour(one, tuple(sorted(shared[one])), _id_at(tables, last[one])) for one in best]


def _id_at(tables: RecordTables, place: int) -> str:
    with tables._translating():
        (identity,) = tables._db.execute("SELECT id FROM records WHERE place = ?", (place,)).fetchone()
    return str(identity)
