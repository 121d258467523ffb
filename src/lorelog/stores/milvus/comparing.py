"""How the rows in Milvus differ from the catalog's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lorelog.stores.embedded import log
from lorelog.stores.milvus.state import MilvusState


@dataclass(frozen=True, slots=True)
class Differences:
    """How the rows in Milvus differ from the catalog's."""

    here: int
    there: int
    missing: tuple[int, ...] = ()
    unlike: tuple[int, ...] = ()
    """There, with a vector where the catalog has none, or without one where it has."""
    surplus: Mapping[str, list[int]] = field(default_factory=dict)
    """There and not here, by collection."""
    waiting: int = 0
    """Rows that the log has yet to tell of: the next write does."""


def compare_rows(
    database: sqlite3.Connection,
    state: MilvusState,
    applied: int,
    rows_in: Callable[[str], Iterable[tuple[int, bool]]],
) -> Differences:
    """Return how the rows of the collections differ; what the log has yet to tell them is no difference."""
    listed = database.execute("SELECT row, embedded, project FROM chunks WHERE live").fetchall()
    here = {row: bool(has) for row, has, _ in listed}
    at_home = {row: state.collections.get(project) for row, _, project in listed}
    there: dict[int, bool] = {}
    surplus: dict[str, list[int]] = {}
    for name in dict.fromkeys(state.collections.values()):
        for row, has in rows_in(name):
            if at_home.get(row) == name:
                there[row] = has
            else:
                surplus.setdefault(name, []).append(row)
    changes = log.changes_after(database, applied)
    told = {*changes.added, *changes.embedded, *changes.moved, *changes.removed}
    return Differences(
        len(here),
        len(there),
        tuple(row for row in here if row not in there and row not in told),
        tuple(row for row, has in there.items() if has != here[row] and row not in told),
        {name: rows for name, found in surplus.items() if (rows := [one for one in found if one not in told])},
        len(told),
    )
