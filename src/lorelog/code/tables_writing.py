"""Writing code.db: one at a time, whole files only, so that whoever reads meanwhile, or after a crash, finds each file as it was or as it is.

Files go in by the group and are made visible every few seconds; a run that is killed loses those seconds. Uses of names lie all over
the table, so each time a page is written for nearly every name, however few files there are: seldom is cheaper than often.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from lorelog.code.packing import pack_numbers
from lorelog.code.parsed import Parsed
from lorelog.code.tables import differences
from lorelog.code.tables_file import discard, is_damage, open_writing, translated
from lorelog.code.tables_schema import PLACES
from lorelog.core.errors import StoreBusy, StoreDamaged
from lorelog.core.locking import locks_within

_SHOWN_EVERY_S = 5.0
_MOST_NAMES = 100_000
"""Names whose numbers are kept at hand."""
_AT_ONCE = 500


class Known(NamedTuple):
    """A file as the tables know it."""

    id: int
    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
    recipe: str
    problem: str
    language: str


class CodeWriter:
    """Writes to code.db. Made by `writing`, which sees to it that there is only one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, int] = {}
        self._defined: set[int] = set()
        self._shown_at = 0.0
        with self._translating():
            self._db, self.note = open_writing(path)
        # `note`: what became of a file that could not be used; empty where all was well.

    def close(self) -> None:
        """Show what was written, and let go of the file."""
        try:
            self.show()
        finally:
            self._db.close()

    def root(self, path: str, project: str, parts: Sequence[str]) -> int:
        """Return the number of a working tree, which is known from now on."""
        with self._changing():
            self._db.execute(
                "INSERT INTO roots (path, project, parts, indexed_at, head) VALUES (?, ?, ?, '', '')"
                " ON CONFLICT (path) DO UPDATE SET project = excluded.project, parts = excluded.parts",
                (path, project, "\n".join(parts)),
            )
            return int(self._db.execute("SELECT id FROM roots WHERE path = ?", (path,)).fetchone()[0])

    def known(self, root: int) -> Iterator[Known]:
        """Yield what is known of a root's files, sorted by path. Nothing may be written meanwhile."""
        query = "SELECT id, path, size, mtime_ns, inode, digest, recipe, problem, language FROM files WHERE root = ? ORDER BY path"
        with self._translating():
            yield from map(Known._make, self._db.execute(query, (root,)))

    def known_at(self, root: int, path: str) -> list[Known]:
        """Return what is known of a file, or of all files in a folder."""
        query = (
            "SELECT id, path, size, mtime_ns, inode, digest, recipe, problem, language FROM files"
            " WHERE root = ?1 AND (path = ?2 OR (path > ?2 || '/' AND path < ?2 || '0')) ORDER BY path"
        )
        with self._translating():
            return [Known._make(row) for row in self._db.execute(query, (root, path))]

    def put(self, root: int, files: Sequence[Parsed], recipe: str) -> None:
        """Put files in the place of what was known of them."""
        with self._changing():
            numbers = self._numbers(files)
            uses: list[tuple[int, int, int, bytes]] = []
            for file in files:
                uses += self._put(root, file, recipe, numbers)
            uses.sort()
            self._db.executemany("INSERT INTO uses VALUES (?, ?, ?, ?)", uses)
        if time.monotonic() - self._shown_at > _SHOWN_EVERY_S:
            self.show()

    def touch(self, root: int, files: Iterable[Parsed]) -> None:
        """Take note of new stamps of files whose bytes are the same."""
        with self._changing():
            self._db.executemany(
                "UPDATE files SET size = ?, mtime_ns = ?, inode = ? WHERE root = ? AND path = ?",
                [(*file.stamp, root, file.path) for file in files],
            )

    def remove(self, ids: Iterable[int]) -> None:
        """Forget files."""
        with self._changing():
            for one in ids:
                self._clear(one)
                self._db.execute("DELETE FROM files WHERE id = ?", (one,))

    def finish(self, root: int, at: str, head: str) -> None:
        """Take note that a run went through all of a root, and show everything."""
        with self._changing():
            self._db.execute("UPDATE roots SET indexed_at = ?, head = ? WHERE id = ?", (at, head, root))
        self.show()

    def forget(self, path: str) -> int:
        """Forget a working tree; return how many files that were."""
        with self._changing():
            found = self._db.execute("SELECT id FROM roots WHERE path = ?", (path,)).fetchone()
            if found is None:
                return 0
            (count,) = self._db.execute("SELECT count(*) FROM files WHERE root = ?", found).fetchone()
            for table in ("uses", "symbols", "imports", "bases", "files"):
                self._db.execute(f"DELETE FROM {table} WHERE root = ?", found)
            self._db.execute("DELETE FROM roots WHERE id = ?", found)
            if not self._db.execute("SELECT count(*) FROM roots").fetchone()[0]:
                self._db.execute("DELETE FROM names")
                self._names, self._defined = {}, set()
        self.show()
        self._give_back()
        return int(count)

    def roots(self) -> dict[str, str]:
        """Return the known roots, each with when a run last went through all of it."""
        with self._translating():
            return dict(self._db.execute("SELECT path, indexed_at FROM roots").fetchall())

    def show(self) -> None:
        """Make visible what was written since the last time."""
        self._shown_at = time.monotonic()
        if not self._db.in_transaction:
            return
        with self._translating():
            self._db.execute(
                "INSERT INTO meta VALUES ('revision', '1')"
                " ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
            )
            self._db.execute("COMMIT")

    def _give_back(self) -> None:
        """Give room back to the system where much of the file is empty."""
        with self._translating():
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (empty,) = self._db.execute("PRAGMA freelist_count").fetchone()
            if empty * 4 > pages:
                self._db.execute("VACUUM")

    def _put(
        self, root: int, file: Parsed, recipe: str, numbers: dict[str, int]
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """Put a file without its uses; yield those."""
        used = sorted(numbers[name] for name, _ in file.uses)
        steps = pack_numbers(after - before for before, after in zip([0, *used], used, strict=False))
        row = (
            file.language,
            *file.stamp,
            file.digest,
            recipe,
            file.lines,
            file.broken,
            len(file.symbols),
            file.problem,
        )
        found = self._db.execute("SELECT id FROM files WHERE root = ? AND path = ?", (root, file.path)).fetchone()
        if found is None:
            number = self._db.execute(
                "INSERT INTO files (root, path, language, size, mtime_ns, inode, digest, recipe, lines, broken, symbols,"
                " problem, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (root, file.path, *row, steps),
            ).lastrowid
        else:
            (number,) = found
            self._clear(int(number))
            self._db.execute(
                "UPDATE files SET language = ?, size = ?, mtime_ns = ?, inode = ?, digest = ?, recipe = ?, lines = ?,"
                " broken = ?, symbols = ?, problem = ?, used = ? WHERE id = ?",
                (*row, steps, number),
            )
        first = int(number or 0) * PLACES
        self._db.executemany(
            "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(first + place, numbers[one[0]], root, *one[1:]) for place, one in enumerate(file.symbols)],
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO bases VALUES (?, ?, ?)",
            [(first + place, numbers[name], root) for place, name in file.bases],
        )
        self._db.executemany(
            "INSERT INTO imports (id, module, tail, name, root, alias, line, column) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (first + place, numbers[module], numbers[tail], numbers[name], root, *rest)
                for place, (module, tail, name, *rest) in enumerate(file.imports)
            ],
        )
        return ((numbers[name], root, int(number or 0), packed) for name, packed in file.uses)

    def _clear(self, file: int) -> None:
        """Take out what is known of a file, but that it is there."""
        found = self._db.execute("SELECT root, used FROM files WHERE id = ?", (file,)).fetchone()
        if found is None:
            return
        root, used = found
        self._db.executemany(
            "DELETE FROM uses WHERE name = ? AND root = ? AND file = ?",
            [(name, root, file) for name in differences(used)],
        )
        first, after = file * PLACES, (file + 1) * PLACES
        self._db.execute("DELETE FROM symbols WHERE id >= ? AND id < ?", (first, after))
        self._db.execute("DELETE FROM imports WHERE id >= ? AND id < ?", (first, after))
        self._db.execute("DELETE FROM bases WHERE symbol >= ? AND symbol < ?", (first, after))

    def _numbers(self, files: Sequence[Parsed]) -> dict[str, int]:
        """Return the numbers of all names in some files; new names get one."""
        defined = {one[0] for file in files for one in file.symbols}
        wanted = set(defined)
        for file in files:
            wanted.update(name for name, _ in file.uses)
            wanted.update(name for _, name in file.bases)
            for module, tail, name, *_ in file.imports:
                wanted.update((module, tail, name))
        if len(self._names) > _MOST_NAMES:
            self._names, self._defined = {}, set()
        missing = [name for name in wanted if name not in self._names]
        self._db.executemany("INSERT OR IGNORE INTO names (name) VALUES (?)", [(name,) for name in sorted(missing)])
        for first in range(0, len(missing), _AT_ONCE):
            some = missing[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            self._names.update(self._db.execute(f"SELECT name, id FROM names WHERE name IN ({marks})", some))
        numbers = {name: self._names[name] for name in wanted}
        new = {numbers[name] for name in defined} - self._defined
        self._db.executemany("UPDATE names SET defined = 1 WHERE id = ? AND defined = 0", [(one,) for one in new])
        self._defined |= new
        return numbers

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change something; what fails in the middle takes with it all that was not shown yet."""
        with self._translating():
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
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self._path) from error


@contextmanager
def writing(path: Path, *, wait_s: float) -> Iterator[CodeWriter]:
    """Write to code.db when nobody else does. Raise StoreBusy when somebody does for longer than `wait_s`.

    What turns out to be damaged meanwhile is deleted: whoever comes next begins anew.
    """
    lock = path.with_name(".code.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise translated(error, lock) from error
    try:
        if not locks_within(descriptor, wait_s):
            raise StoreBusy("another run indexes code", hint="wait for it to finish, or end it; its lock ends with it")
        writer = CodeWriter(path)
        try:
            yield writer
        finally:
            writer.close()
    except StoreDamaged as error:
        if is_damage(error.__cause__ or error):
            discard(path)
        raise
    finally:
        os.close(descriptor)
