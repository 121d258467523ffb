"""State files of the Milvus lanes next to the catalog, and the comparison of the rows in Milvus with the catalog."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from lorelog.core.options import DEFAULT_COLLECTION
from lorelog.stores.embedded import change_log


class MilvusState(Struct, frozen=True, kw_only=True):
    """Where the rows of one model are, and how far they have followed the log."""

    format: int
    place: str
    """Hash of the address, which may be confidential."""
    space: str
    analyser: str
    dimension: int
    """Of the vectors; 0 if there are none yet."""
    mark: str
    """Content of a special row in each collection: a collection with another mark is not the one we wrote."""
    applied: int
    per_project: bool = True
    prefix: str = DEFAULT_COLLECTION
    through: int = -1
    """The last row sent while all rows are pushed; -1 if all are there. A state with a push in progress has its own file, and
    searches use the previous one."""
    written_at: float = 0.0
    collections: Mapping[str, str] = field(default_factory=dict)
    """By project."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of the projects that all machines share, as in their rows; empty for a project without one."""
    registry: str = ""
    """Collection in which shared projects are published; empty if nothing is shared."""
    told: Mapping[str, int] = field(default_factory=dict)
    """The publication: its number of parts, and a digest of the catalog's revision."""


class IndexIdentity(Struct, frozen=True):
    """Identity of an index. It survives a reset, so that rows left behind still belong to it."""

    id: str
    left: list[str] = field(default_factory=list)
    """Collections with rows of this index that could not be deleted."""


class StateFiles:
    """The files: one for the index, one per address and model."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder = folder
        self._uri = uri

    def identity(self) -> IndexIdentity | None:
        return change_log.read_state(self._folder / "home.json", IndexIdentity)

    def ensure_identity(self) -> IndexIdentity:
        """Return the identity of the index, which is created with its first write."""
        identity = self.identity()
        if identity is None:
            identity = IndexIdentity(os.urandom(8).hex())
            self.save_identity(identity)
        return identity

    def save_identity(self, identity: IndexIdentity) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        change_log.write_state(self._folder / "home.json", identity)

    def file(self, space: str) -> Path:
        """Return the state file of a model's rows."""
        name = hashlib.sha256(f"{self._uri}\n{space}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._folder / name / "current.json"

    def push_file(self, space: str) -> Path:
        """Return the state file of a push in progress."""
        return self.file(space).with_name("pushing.json")

    def address_hash(self) -> str:
        """Return the address as stored in state files."""
        return hashlib.sha256(self._uri.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def others(self, space: str) -> Iterator[tuple[Path, MilvusState]]:
        """Yield the states of other models at this address."""
        for path in sorted(self._folder.glob("*/current.json")):
            state = change_log.read_state(path, MilvusState)
            if state is not None and state.place == self.address_hash() and path != self.file(space):
                yield path, state

    def drop(self, path: Path) -> None:
        """Delete the state files of a model's rows."""
        with suppress(OSError):
            path.with_name("pushing.json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            path.parent.rmdir()


class RowDifferences(Struct, frozen=True, kw_only=True):
    """Differences between the rows in Milvus and the catalog."""

    here: int
    there: int
    missing: tuple[int, ...] = ()
    mismatched: tuple[int, ...] = ()
    """Rows in Milvus with a vector where the catalog has none, or without one where it has."""
    surplus: Mapping[str, list[int]] = field(default_factory=dict)
    """Rows in Milvus that are not in the catalog, by collection."""
    waiting: int = 0
    """Rows with changes in the log that the next write applies."""


def compare_rows(
    database: sqlite3.Connection,
    state: MilvusState,
    applied: int,
    rows_in: Callable[[str], Iterable[tuple[int, bool]]],
) -> RowDifferences:
    """Return how the rows of the collections differ, apart from changes that the log has not applied yet."""
    chunks = database.execute("SELECT row, embedded, project FROM chunks WHERE live").fetchall()
    here = {row: bool(has_vector) for row, has_vector, _ in chunks}
    collection_of = {row: state.collections.get(project) for row, _, project in chunks}
    there: dict[int, bool] = {}
    surplus: dict[str, list[int]] = {}
    for name in dict.fromkeys(state.collections.values()):
        for row, has_vector in rows_in(name):
            if collection_of.get(row) == name:
                there[row] = has_vector
            else:
                surplus.setdefault(name, []).append(row)
    changes = change_log.changes_after(database, applied)
    pending = {*changes.added, *changes.embedded, *changes.moved, *changes.removed}
    return RowDifferences(
        here=len(here),
        there=len(there),
        missing=tuple(row for row in here if row not in there and row not in pending),
        mismatched=tuple(row for row, has_vector in there.items() if has_vector != here[row] and row not in pending),
        surplus={name: left for name, rows in surplus.items() if (left := [row for row in rows if row not in pending])},
        waiting=len(pending),
    )
