"""The things that memories mention, as they were when the memory was made, and the file that keeps them.

Each memory is resolved once, since history does not change. The file lies beside the index and can be deleted. A row
says how its state is known (`TargetEvidence`); a row without that, or of an older recipe, is not read.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import fields

from lorelog.core.errors import StoreError
from lorelog.core.ids import sha256
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, transaction
from lorelog.retrieval.cache import register_cache

CACHE_FILE = "freshness.db"
_RECIPE = 2
"""Raise it when the same memory would resolve to other targets."""
_DATABASE = DatabaseSchema(
    "CREATE TABLE targets (key TEXT PRIMARY KEY, targets TEXT NOT NULL) WITHOUT ROWID",
    _RECIPE,
    is_derived=True,
    has_log=False,
    hint="delete it: it is derived",
    pragmas=("synchronous = OFF",),
    busy_s=0.05,  # an entry that is not stored is resolved again
)


class GitUnavailable(Exception):
    """Git gave no answer in time. Nothing is judged without it: not finding something does not mean that it is gone."""


class TimeBudgetExceeded(Exception):
    """The time for resolving a memory ran out."""


class TargetEvidence(StrEnum):
    """How the state of a thing at the time of a memory is known."""

    COMMIT = "commit"
    """It was read from the commit that was checked out at that time."""
    TREE = "tree"
    """It was read from the working tree, in a file that had not changed after that time."""
    UNKNOWN = "unknown"
    """It is not known: the search of the commit was cut, or the file changed after that time."""


class MentionTarget(Struct, frozen=True, kw_only=True):
    """The thing that a memory mentions, as it was at that time."""

    evidence: TargetEvidence
    """How it is known that this is its state at that time."""
    kind: str
    name: str
    """As the memory writes it."""
    path: str = ""
    """The file; for a setting, the files that had it, one per line."""
    content: str = ""
    """Git's id of the file's content; empty for a folder."""
    first_line: int = 0
    last_line: int = 0
    lines: str = ""
    """Digest of these lines."""
    qualified: str = ""
    symbol_kind: str = ""
    signature: str = ""
    digest: str = ""
    shape: str = ""
    """Digest of its syntax, where formatters change tokens too; empty where they do not."""
    sketch: tuple[int, ...] = ()
    siblings: tuple[str, ...] = ()
    """Other definitions in the file, which cannot be the new name of this one."""
    commit: str = ""
    """The commit it was found in; empty for the working tree."""


_FIELDS = {field.name for field in fields(MentionTarget)}


def unknown_target(kind: str, name: str) -> MentionTarget:
    """Return the target of a mention whose state at that time cannot be told."""
    return MentionTarget(evidence=TargetEvidence.UNKNOWN, kind=kind, name=name)


def cache_key(content_hash: str, project: str, since: str) -> str:
    """Return the cache key of a memory: its content, project and time."""
    return sha256("\0".join((str(_RECIPE), content_hash, project, since)).encode("utf-8", "replace")).hexdigest()[:32]


class _TargetMemory:
    """Targets read lately, by file and key: what a key stands for never changes. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._targets: OrderedDict[tuple[object, str], tuple[MentionTarget, ...]] = OrderedDict()
        register_cache(self)

    def get(self, file: object, keys: Iterable[str]) -> dict[str, tuple[MentionTarget, ...]]:
        with self._lock:
            return {key: self._targets[file, key] for key in keys if (file, key) in self._targets}

    def put(self, file: object, targets_by_key: Mapping[str, tuple[MentionTarget, ...]]) -> None:
        with self._lock:
            for key, targets in targets_by_key.items():
                self._targets[file, key] = targets
            while len(self._targets) > _MAX_REMEMBERED:
                self._targets.popitem(last=False)

    def clear(self) -> None:
        """Drop all targets."""
        with self._lock:
            self._targets.clear()


_MAX_REMEMBERED = 2_048
_MEMORY = _TargetMemory()


class MentionCache:
    """Stores the targets of memories. Thread-safe. Errors of the disk are ignored."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / CACHE_FILE
        self._file = SqliteFile(self.path, _DATABASE)
        self._lock = Lock()

    def get(self, keys: Iterable[str]) -> dict[str, tuple[MentionTarget, ...]]:
        """Return the stored targets by key."""
        unique_keys = list(dict.fromkeys(keys))
        try:
            status = self.path.stat()
        except OSError:
            return {}
        file = (str(self.path), status.st_dev, status.st_ino)
        remembered = _MEMORY.get(file, unique_keys)
        unique_keys = [key for key in unique_keys if key not in remembered]
        if not unique_keys:
            return remembered
        marks = ",".join("?" * len(unique_keys))
        rows: list[tuple[str, str]] = []
        with self._lock, suppress(StoreError), self._open() as db:
            rows = db.execute(f"SELECT key, targets FROM targets WHERE key IN ({marks})", unique_keys).fetchall()  # noqa: S608
        found = {key: targets for key, text in rows if (targets := _from_json(text)) is not None}
        _MEMORY.put(file, found)
        return remembered | found

    def put(self, targets_by_key: Mapping[str, tuple[MentionTarget, ...]]) -> None:
        """Store targets by key."""
        rows = [
            (
                key,
                json.dumps(
                    [{name: value for name, value in to_builtins(target).items() if value} for target in targets]
                ),
            )
            for key, targets in targets_by_key.items()
        ]
        if not rows or not self.path.parent.exists():
            return
        with self._lock, suppress(StoreError), self._open() as db, transaction(db):
            db.executemany("INSERT OR REPLACE INTO targets VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._file.translated(), closing(self._file.open()) as db:
            yield db


def _from_json(text: str) -> tuple[MentionTarget, ...] | None:
    try:
        return tuple(_target_from(values) for values in json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return None


def _target_from(values: Mapping[str, Any]) -> MentionTarget:
    """Return a stored target. Without its evidence it is not trusted: that raises TypeError or ValueError."""
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in _FIELDS
    }
    known["evidence"] = TargetEvidence(known.get("evidence", ""))
    return MentionTarget(**known)
