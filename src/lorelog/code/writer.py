"""Write code.db: one writer at a time, whole files only, so that readers see each file before or after an update.

Files are written in batches and committed every few seconds; a killed run loses those seconds. Rows of uses are spread
over the whole table, so each commit writes a page for nearly every name however few files changed: rare commits are
cheaper.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from msgspec.msgpack import decode, encode

from lorelog.code.parsing import ParsedFile
from lorelog.code.tables import MAX_PER_FILE, REBUILD_HINT, delete_database, open_writable
from lorelog.core.errors import StoreBusy, StoreDamaged
from lorelog.core.processes import FileLock
from lorelog.core.sqlite_file import batches, is_corruption, placeholders, translate_error

_COMMIT_EVERY_S = 5.0
_MAX_CACHED_NAMES = 100_000
"""Names whose ids are cached."""


class IndexedFile(NamedTuple):
    """A row of the table `files`."""

    id: int
    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
    recipe: str
    problem: str
    language: str


_SELECT_FILES = f"SELECT {', '.join(IndexedFile._fields)} FROM files"


class CodeWriter:
    """Writes to code.db. Made by `open_writer`, which holds the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, int] = {}
        self._defined: set[int] = set()
        self._committed_at = 0.0
        with self._translated_errors():
            # `note` says why an unusable file was replaced; empty if it was not.
            self._db, self.note = open_writable(path)

    def close(self) -> None:
        try:
            self.commit()
        finally:
            self._db.close()

    def root(self, path: str, project: str, parts: Sequence[str]) -> int:
        """Add or update a working tree; return its id."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO roots (path, project, parts, indexed_at, head) VALUES (?, ?, ?, '', '')"
                " ON CONFLICT (path) DO UPDATE SET project = excluded.project, parts = excluded.parts",
                (path, project, "\n".join(parts)),
            )
            return int(self._db.execute("SELECT id FROM roots WHERE path = ?", (path,)).fetchone()[0])

    def files(self, root: int) -> Iterator[IndexedFile]:
        """Yield the files of a root, sorted by path. Write nothing while iterating."""
        with self._translated_errors():
            yield from map(
                IndexedFile._make, self._db.execute(f"{_SELECT_FILES} WHERE root = ? ORDER BY path", (root,))
            )

    def files_at(self, root: int, path: str) -> list[IndexedFile]:
        where = "root = :root AND (path = :path OR (path > :path || '/' AND path < :path || '0'))"
        with self._translated_errors():
            rows = self._db.execute(f"{_SELECT_FILES} WHERE {where} ORDER BY path", {"root": root, "path": path})
            return list(map(IndexedFile._make, rows))

    def put(self, root: int, files: Sequence[ParsedFile], recipe: str) -> None:
        """Insert or replace files."""
        with self._transaction():
            name_ids = self._name_ids(files)
            uses = sorted(use for file in files for use in self._put(root, file, recipe, name_ids))
            self._db.executemany("INSERT INTO uses VALUES (?, ?, ?, ?)", uses)
        if time.monotonic() - self._committed_at > _COMMIT_EVERY_S:
            self.commit()

    def touch(self, root: int, files: Iterable[ParsedFile]) -> None:
        """Update the stamps of files whose bytes are the same."""
        with self._transaction():
            self._db.executemany(
                "UPDATE files SET size = ?, mtime_ns = ?, inode = ? WHERE root = ? AND path = ?",
                [(*file.stamp, root, file.path) for file in files],
            )

    def remove(self, ids: Iterable[int]) -> None:
        """Delete files."""
        with self._transaction():
            for id_ in ids:
                self._clear(id_)
                self._db.execute("DELETE FROM files WHERE id = ?", (id_,))

    def finish(self, root: int, at: str, head: str) -> None:
        """Mark the run of a root as complete, and commit."""
        with self._transaction():
            self._db.execute("UPDATE roots SET indexed_at = ?, head = ? WHERE id = ?", (at, head, root))
        self.commit()

    def forget(self, path: str) -> int:
        """Delete a working tree; return its number of files."""
        with self._transaction():
            row = self._db.execute("SELECT id FROM roots WHERE path = ?", (path,)).fetchone()
            if row is None:
                return 0
            (count,) = self._db.execute("SELECT count(*) FROM files WHERE root = ?", row).fetchone()
            for table in ("uses", "symbols", "imports", "files"):
                self._db.execute(f"DELETE FROM {table} WHERE root = ?", row)
            self._db.execute("DELETE FROM roots WHERE id = ?", row)
            if not self._db.execute("SELECT count(*) FROM roots").fetchone()[0]:
                self._db.execute("DELETE FROM names")
                self._names, self._defined = {}, set()
        self.commit()
        with self._translated_errors():
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (empty,) = self._db.execute("PRAGMA freelist_count").fetchone()
            if empty * 4 > pages:
                self._db.execute("VACUUM")
        return int(count)

    def commit(self) -> None:
        """Make all changes since the last commit visible."""
        self._committed_at = time.monotonic()
        if not self._db.in_transaction:
            return
        with self._translated_errors():
            self._db.execute("COMMIT")

    def _put(
        self, root: int, file: ParsedFile, recipe: str, name_ids: dict[str, int]
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """Write a file without its uses; return the rows of those."""
        used = sorted(name_ids[name] for name, _ in file.uses)
        deltas = encode([after - before for before, after in zip([0, *used], used, strict=False)])
        existing = self._db.execute("SELECT id FROM files WHERE root = ? AND path = ?", (root, file.path)).fetchone()
        if existing is not None:
            self._clear(existing[0])
        counts = (file.lines, file.broken, len(file.symbols))
        row = (root, file.path, file.language, *file.stamp, file.digest, recipe, *counts, file.problem, deltas)
        file_id = self._db.execute(
            f"INSERT OR REPLACE INTO files VALUES ({', '.join('?' * 14)})", (existing and existing[0], *row)
        ).lastrowid
        first = int(file_id or 0) * MAX_PER_FILE
        self._db.executemany(
            f"INSERT INTO symbols VALUES ({', '.join('?' * 16)})",
            [(first + index, name_ids[symbol[0]], root, *symbol[1:]) for index, symbol in enumerate(file.symbols)],
        )
        self._db.executemany(
            "INSERT INTO imports (id, module, tail, name, root, alias, line, column) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (first + index, name_ids[module], name_ids[tail], name_ids[name], root, *rest)
                for index, (module, tail, name, *rest) in enumerate(file.imports)
            ],
        )
        return ((name_ids[name], root, int(file_id or 0), packed) for name, packed in file.uses)

    def _clear(self, file: int) -> None:
        """Delete the symbols, uses and imports of a file."""
        row = self._db.execute("SELECT root, used FROM files WHERE id = ?", (file,)).fetchone()
        if row is None:
            return
        root, used = row
        self._db.executemany(
            "DELETE FROM uses WHERE name = ? AND root = ? AND file = ?",
            [(name, root, file) for name in accumulate(decode(used))],
        )
        first, after = file * MAX_PER_FILE, (file + 1) * MAX_PER_FILE
        self._db.execute("DELETE FROM symbols WHERE id >= ? AND id < ?", (first, after))
        self._db.execute("DELETE FROM imports WHERE id >= ? AND id < ?", (first, after))

    def _name_ids(self, files: Sequence[ParsedFile]) -> dict[str, int]:
        """Return the ids of all names in some files; new names are added."""
        defined = {symbol[0] for file in files for symbol in file.symbols}
        names = set(defined)
        for file in files:
            names.update(name for name, _ in file.uses)
            for module, tail, name, *_ in file.imports:
                names.update((module, tail, name))
        if len(self._names) > _MAX_CACHED_NAMES:
            self._names, self._defined = {}, set()
        missing = [name for name in names if name not in self._names]
        self._db.executemany("INSERT OR IGNORE INTO names (name) VALUES (?)", [(name,) for name in sorted(missing)])
        for part in batches(missing):
            self._names.update(
                self._db.execute(f"SELECT name, id FROM names WHERE name IN ({placeholders(part)})", part)
            )
        name_ids = {name: self._names[name] for name in names}
        new = {name_ids[name] for name in defined} - self._defined
        self._db.executemany("UPDATE names SET defined = 1 WHERE id = ? AND defined = 0", [(id_,) for id_ in new])
        self._defined |= new
        return name_ids

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Start a transaction unless one is open; on an error roll back everything since the last commit."""
        with self._translated_errors():
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._names, self._defined = {}, set()
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise translate_error(error, self._path, REBUILD_HINT) from error


@contextmanager
def open_writer(path: Path, *, wait_s: float) -> Iterator[CodeWriter]:
    """Lock code.db and open it for writing. Raise StoreBusy if another writer holds the lock for longer than `wait_s`.

    If the file turns out to be damaged it is deleted, and the next writer rebuilds it.
    """
    busy = StoreBusy(
        "another code index run is in progress",
        hint="wait for it to finish, or stop it; the lock is released when it ends",
    )
    lock = path.with_name(".code.lock")
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.enter_context(FileLock(lock, busy, wait_s))
        except OSError as error:
            raise translate_error(error, lock, REBUILD_HINT) from error
        try:
            with closing(CodeWriter(path)) as writer:
                yield writer
        except StoreDamaged as error:
            if is_corruption(error.__cause__ or error):
                delete_database(path)
            raise
