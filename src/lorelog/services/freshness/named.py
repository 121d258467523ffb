"""What a memory names, as it was when the memory was made; and the file beside the index that keeps it.

Found out once for each memory, since history does not change. It can be found out again, so losing the file loses nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

FILE = "freshness.db"
_RECIPE = 1
"""Raise it when the same memory would be found to name something else."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS named (key TEXT PRIMARY KEY, things TEXT NOT NULL) WITHOUT ROWID"
_WAIT_S = 0.05
"""Nobody waits longer for another process: what is not kept is found out again."""


@dataclass(frozen=True, slots=True)
class Named:
    """One thing that a memory names, as it was."""

    kind: str
    name: str
    """As the memory names it."""
    path: str = ""
    """The file it is or is in; of a setting, the files that had it, a line each."""
    content: str = ""
    """Identifies the file's content; empty for a folder."""
    first_line: int = 0
    last_line: int = 0
    lines: str = ""
    """Digest of these lines."""
    qualified: str = ""
    symbol_kind: str = ""
    signature: str = ""
    digest: str = ""
    sketch: tuple[int, ...] = ()
    siblings: tuple[str, ...] = ()
    """What else was defined in the file: none of these can be what it was renamed to."""
    commit: str = ""
    """The commit it was found in; empty where it was found in the working tree."""


_FIELDS = {one.name for one in fields(Named)}


def key_of(content_hash: str, project: str, since: str) -> str:
    """Return what a memory's things are kept by: what it says, where, and since when."""
    return sha256("\0".join((str(_RECIPE), content_hash, project, since)).encode("utf-8", "replace")).hexdigest()[:32]


class Notebook:
    """Keeps what memories name. Threads may share it. Where the disk refuses, nothing is kept, and nobody is told."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = Lock()

    def get(self, keys: Iterable[str]) -> dict[str, tuple[Named, ...]]:
        """Return what is known, by key."""
        wanted = list(dict.fromkeys(keys))
        if not wanted or not self._path.exists():
            return {}
        marks = ",".join("?" * len(wanted))
        rows: list[tuple[str, str]] = []
        with self._lock, suppress(sqlite3.Error, OSError), self._open() as opened:
            rows = opened.execute(f"SELECT key, things FROM named WHERE key IN ({marks})", wanted).fetchall()  # noqa: S608
        return {key: read for key, things in rows if (read := _read(things)) is not None}

    def put(self, found: Iterable[tuple[str, tuple[Named, ...]]]) -> None:
        """Keep what was found out."""
        rows = [(key, json.dumps([_written(one) for one in things])) for key, things in found]
        if not rows or not self._path.parent.exists():
            return
        with self._lock, suppress(sqlite3.Error, OSError), self._open() as opened:
            opened.executemany("INSERT OR REPLACE INTO named VALUES (?, ?)", rows)
            opened.commit()

    def _open(self) -> _Opened:
        return _Opened(self._path)


class _Opened:
    """A connection for one use. A file that is damaged is deleted: it can be made again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> sqlite3.Connection:
        if not self._path.exists():
            self._path.touch(mode=0o600)
        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._path.unlink(missing_ok=True)
            self._connection = self._connect()
        return self._connection

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._connection.close()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            self._path.unlink(missing_ok=True)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_WAIT_S)
        try:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _written(one: Named) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if value}


def _read(things: str) -> tuple[Named, ...] | None:
    try:
        return tuple(Named(**_values(one)) for one in json.loads(things))
    except (ValueError, TypeError, AttributeError):
        return None


def _values(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in one.items() if name in _FIELDS}
