"""The change log that search lanes follow, the state files that record how far each has followed, and the lane interface.

A lane's state is replaced atomically after the lane's own files. If the process dies in between, the lane applies the same
changes again, so applying them twice must give the same lane. Nothing is synced for it: a lane whose files a power failure tore is
found by its checksums, which are checked after each start of the machine, and rebuilt.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct, to_builtins

from lorelog.core.atomic_file import write_atomic
from lorelog.core.ids import blake2b, sha256

ADD, REMOVE, VECTOR, MOVE = "add", "remove", "vector", "move"

StateT = TypeVar("StateT")

_READ_BYTES = 1 << 16


class LaneChanges(Struct, frozen=True):
    """Changes after a sequence number, folded so that each row is in one list only."""

    head: int
    added: tuple[int, ...]
    embedded: tuple[int, ...]
    """Existing rows that have received a vector."""
    removed: tuple[int, ...]
    moved: tuple[int, ...] = ()
    """Existing rows whose lines, and therefore ids, have changed."""


def append_changes(database: sqlite3.Connection, kind: str, rows: list[int]) -> None:
    """Append changes to the log, within the transaction that makes them."""
    database.executemany("INSERT INTO changes (row, kind) VALUES (?, ?)", [(row, kind) for row in rows])


def last_sequence(database: sqlite3.Connection) -> int:
    """Return the sequence number of the last change ever made."""
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return int(row[0]) if row else 0


def can_follow(database: sqlite3.Connection, applied: int) -> bool:
    """Return True if a lane at `applied` is neither ahead of the log nor behind its first entry."""
    last = last_sequence(database)
    if applied == last:
        return True
    first = database.execute("SELECT min(seq) FROM changes").fetchone()[0]
    return applied < last and first is not None and first <= applied + 1


def changes_after(database: sqlite3.Connection, applied: int) -> LaneChanges:
    added: dict[int, None] = {}
    embedded: dict[int, None] = {}
    removed: dict[int, None] = {}
    moved: dict[int, None] = {}
    last = applied
    for seq, row, kind in database.execute("SELECT seq, row, kind FROM changes WHERE seq > ? ORDER BY seq", (applied,)):
        last = seq
        if kind == ADD:
            added[row] = None
        elif kind == VECTOR:
            if row not in added:
                embedded[row] = None
        elif kind == MOVE:
            if row not in added:
                moved[row] = None
        else:
            embedded.pop(row, None)
            moved.pop(row, None)
            added.pop(row, None)
            removed[row] = None
    return LaneChanges(last, tuple(added), tuple(embedded), tuple(removed), tuple(moved))


def trim(database: sqlite3.Connection, applied: int) -> None:
    """Delete changes that every lane has applied."""
    database.execute("DELETE FROM changes WHERE seq <= ?", (applied,))


def read_state(path: Path, kind: type[StateT]) -> StateT | None:
    """Return a lane's state, or None if it cannot be read and the lane must be rebuilt."""
    try:
        return cast("StateT", _parse_state(cast("Any", kind), _read_file(path)))
    except (OSError, ValueError, TypeError):
        return None


@lru_cache(maxsize=8)
def _parse_state(kind: type[Any], content: bytes) -> object:
    """Return a state. Cached: a search reads the states of its lanes seven times, mostly unchanged."""
    return kind(**json.loads(content))


def _read_file(path: Path) -> bytes:
    """Read a small file, in a third of the time that a file object takes."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        content = piece = os.read(file, _READ_BYTES)
        while len(piece) == _READ_BYTES:
            piece = os.read(file, _READ_BYTES)
            content += piece
        return content
    finally:
        os.close(file)


def space_folder(home: Path, space: str) -> Path:
    """Return the folder of the dense lane of a vector space."""
    return home / sha256(space.encode()).hexdigest()[:16]


def state_token(path: Path) -> str:
    """Return a short hash of a lane's state, empty if there is none."""
    try:
        return blake2b(_read_file(path), digest_size=8).hexdigest()
    except OSError:
        return ""


def write_state(path: Path, state: Any, *, durable: bool = False) -> None:
    """Replace a lane's state atomically."""
    write_atomic(path, json.dumps(to_builtins(state)).encode(), durable=durable)


def boot_time() -> float:
    """Return when the machine was started, in seconds since 1970. What was written before it may have been lost if it was not synced."""
    return time.time() - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class CatalogLane(Protocol):
    """A search lane that follows the change log by sequence number. Applying the same changes twice gives the same lane."""

    def applied(self, database: sqlite3.Connection) -> int | None:
        """Return how far the lane has followed, or None if it must be rebuilt."""

    def catch_up(self, database: sqlite3.Connection) -> int | None:
        """Apply the log, or rebuild the lane; return how far it has followed, or None if there is no lane."""

    def forget(self) -> None:
        """Make the next `catch_up` rebuild the lane."""

    def forget_others(self) -> None:
        """Drop data of vectors that the index does not serve."""

    def purge(self, database: sqlite3.Connection) -> None:
        """Rewrite the lane's files from the catalog, so that nothing of removed rows is left in them."""

    def revision(self) -> str:
        """Return a token that identifies the lane's state."""

    def close(self) -> None:
        """Release open files and connections. May be called twice."""
