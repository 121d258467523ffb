"""The change log that the lanes follow, and the small state files that say how far each has followed.

A lane's state is replaced atomically after the lane's own files are safe. If the process dies in between, the lane
applies the same changes again, and applying twice must give the same lane.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

ADD, REMOVE, VECTOR, MOVE = "add", "remove", "vector", "move"

State = TypeVar("State")

_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened after a sequence number, folded so that each row stands in one list only."""

    head: int
    added: tuple[int, ...]
    embedded: tuple[int, ...]
    """Rows that were there before and have got a vector since."""
    removed: tuple[int, ...]
    moved: tuple[int, ...] = ()
    """Rows that were there before and stand on other lines since, under another id."""


def record(database: sqlite3.Connection, kind: str, rows: list[int]) -> None:
    """Append to the log, in the transaction that made the change."""
    database.executemany("INSERT INTO changes (row, kind) VALUES (?, ?)", [(row, kind) for row in rows])


def head(database: sqlite3.Connection) -> int:
    """Return the sequence number of the last change ever made."""
    found = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return int(found[0]) if found else 0


def follows(database: sqlite3.Connection, applied: int) -> bool:
    """Say whether a lane at `applied` can follow the log: it is neither ahead of it nor behind its first line."""
    last = head(database)
    if applied == last:
        return True
    first = database.execute("SELECT min(seq) FROM changes").fetchone()[0]
    return applied < last and first is not None and first <= applied + 1


def changes_after(database: sqlite3.Connection, applied: int) -> Changes:
    """Return what happened after `applied`."""
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
    return Changes(last, tuple(added), tuple(embedded), tuple(removed), tuple(moved))


def trim(database: sqlite3.Connection, applied: int) -> None:
    """Forget changes that every lane has applied."""
    database.execute("DELETE FROM changes WHERE seq <= ?", (applied,))


def read_state(path: Path, kind: type[State]) -> State | None:
    """Return a lane's state, or None when there is none that can be read: the lane is then rebuilt."""
    try:
        return kind(**_parse(_read(path)))
    except (OSError, ValueError, TypeError):
        return None


@lru_cache(maxsize=8)
def _parse(written: bytes) -> dict[str, Any]:
    """Return the fields that were written so. A search reads its lanes' states seven times, mostly the same ones."""
    fields: dict[str, Any] = json.loads(written)
    return fields


def _read(path: Path) -> bytes:
    """Return a small file: a third of what a file object takes."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        found = read = os.read(file, _AT_ONCE)
        while len(read) == _AT_ONCE:
            read = os.read(file, _AT_ONCE)
            found += read
        return found
    finally:
        os.close(file)


def state_token(path: Path) -> str:
    """Return a short text that is another one for every other state; empty when there is none."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    except OSError:
        return ""


def write_state(path: Path, state: Any) -> None:
    """Replace a lane's state atomically."""
    # One name for all: only the one writer comes here, and what a crash leaves is overwritten by the next.
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
