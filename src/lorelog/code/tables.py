"""What is known of code, to be asked: which definitions, uses and imports there are in which files of which working trees.

Questions are answered as they stand in the files, by name; what a name means in its place (scopes, imports, classes) is for who
asks. Reading never waits for an index run, and sees each file as before or as after, never in between. Nothing is made by asking:
without code.db every answer is empty.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lorelog.code.names import base_name, dotted, ends_with, tail_of
from lorelog.code.nearness import Likeness, patterns
from lorelog.code.packing import unpack_numbers, unpack_uses
from lorelog.code.tables_file import is_damage, open_reading, suspect, translated
from lorelog.code.tables_found import CodeFile, CodeRoot, Defined, Imported, Used
from lorelog.code.tables_schema import BETWEEN, PLACES
from lorelog.core.code import Import, Span, Symbol, SymbolKind
from lorelog.core.document import Stamp

__all__ = ["CodeFile", "CodeRoot", "CodeTables", "Defined", "Imported", "Used", "digest_of"]

_AT_ONCE = 500
_LAST = "\U0010ffff"
_SYMBOL = (
    "s.id, n.name, s.kind, s.start_line, s.start_column, s.end_line, s.end_column, s.name_line, s.name_column,"
    " s.signature, s.docstring, s.visibility, s.container, s.bases, s.digest"
)
_DEFINED = (
    f"SELECT {_SYMBOL}, r.path, f.path, f.language FROM {{source}}"
    f" JOIN names n ON n.id = s.name JOIN files f ON f.id = s.id / {PLACES} JOIN roots r ON r.id = s.root"
)
_FILE = (
    "SELECT r.path, f.path, f.language, f.size, f.mtime_ns, f.inode, f.digest, f.lines, f.broken, f.symbols, f.problem"
    " FROM files f JOIN roots r ON r.id = f.root"
)
_IMPORT = (
    "SELECT m.name, n.name, i.alias, i.line, i.column, r.path, f.path, f.language FROM imports i"
    " JOIN names m ON m.id = i.module JOIN names n ON n.id = i.name"
    f" JOIN files f ON f.id = i.id / {PLACES} JOIN roots r ON r.id = i.root"
)
_SEPARATORS = (".", "/", "::", "\\")
_LEAST_LIKE = 0.3
_WELL_TYPED = 0.6
"""Where a name is so like what was typed, nobody looks for slips of the fingers."""
_MOST_LOOKED_AT = 20_000


def digest_of(content: bytes) -> str:
    """Return what a file's content is known by."""
    return hashlib.sha256(content).hexdigest()[:32]


class CodeTables:
    """What a tenant knows of code. Any thread may ask. Asking raises StoreError when code.db is damaged or cannot be read.

    `roots` are real paths of working trees; None, where a question takes them, is all of them, an empty list is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._seen: object = None
        """Which file is open: a run that began anew has put another in its place."""

    def close(self) -> None:
        """Let go of the file; asking again opens it again."""
        with self._turn:
            if self._db is not None:
                self._db.close()
            self._db, self._seen = None, None

    def revision(self) -> tuple[int, int]:
        """Return what changes with each change of the tables: an answer made at the same revision still holds."""
        with self._reading() as db:
            if db is None:
                return 0, 0
            found = db.execute("SELECT value FROM meta WHERE name = 'revision'").fetchone()
            return _inode(self._seen), int(found[0]) if found else 0

    def roots(self) -> list[CodeRoot]:
        """Return the working trees that were indexed, sorted by path."""
        rows = self._rows(
            "SELECT r.path, r.project, r.parts, count(f.id), coalesce(sum(f.symbols), 0), r.indexed_at, r.head"
            " FROM roots r LEFT JOIN files f ON f.root = r.id GROUP BY r.id ORDER BY r.path"
        )
        return [CodeRoot(path, project, _parts(parts), *rest) for path, project, parts, *rest in rows]

    def root(self, path: str) -> CodeRoot | None:
        """Return a working tree by its real path, without counting its files (`files`, `symbols` are 0)."""
        rows = self._rows("SELECT path, project, parts, indexed_at, head FROM roots WHERE path = ?", (path,))
        for found, project, parts, indexed_at, head in rows:
            return CodeRoot(found, project, _parts(parts), indexed_at=indexed_at, head=head)
        return None

    def file(self, root: str, path: str) -> CodeFile | None:
        """Return a file by its path relative to its root; None when it is not known."""
        return next(iter(self._files("WHERE r.path = ? AND f.path = ?", (root, path))), None)

    def files(self, root: str, prefix: str = "") -> list[CodeFile]:
        """Return the known files of a root that are code, sorted by path; of a folder below it, or one file, where one is named."""
        inside = prefix.strip("/")
        where, values = "WHERE r.path = ? AND f.language <> ''", [root]
        if inside:
            where += " AND (f.path = ? OR (f.path > ? AND f.path < ?))"
            values += [inside, f"{inside}/", f"{inside}/{_LAST}"]
        return self._files(f"{where} ORDER BY f.path", values)

    def problems(self, root: str) -> list[CodeFile]:
        """Return the files of a root of which nothing is known because they could not be read or parsed."""
        return self._files("WHERE r.path = ? AND f.problem <> '' ORDER BY f.path", (root,))

    def definitions(self, name: str, roots: Sequence[str] | None = None, limit: int = 0) -> list[Defined]:
        """Return everything that a name is the name of, exactly as written, in the order of roots, files and lines; 0: all."""
        inside, values = _within("s.root", roots)
        query = (
            _DEFINED.format(source="names a JOIN symbols s ON s.name = a.id")
            + f" WHERE a.name = ? AND {inside} ORDER BY r.path, f.path, s.id LIMIT ?"
        )
        return [_defined(row) for row in self._rows(query, (name, *values, limit or -1))]

    def symbols_of(self, root: str, path: str) -> list[Symbol]:
        """Return what a file defines, in its order: the place of a symbol here is what `Use.enclosing` names."""
        return [one.symbol for one in self.defined_in(root, path)]

    def defined_in(self, root: str, path: str) -> list[Defined]:
        """Return what a file defines, in its order."""
        with self._reading() as db:
            if db is None:
                return []
            file = self._file_id(db, root, path)
            query = _DEFINED.format(source="symbols s") + " WHERE s.id >= ? AND s.id < ? ORDER BY s.id"
            rows = db.execute(query, (file * PLACES, (file + 1) * PLACES)).fetchall()
        return [_defined(row) for row in rows]

    def uses(self, name: str, roots: Sequence[str] | None = None, limit: int = 0) -> list[Used]:
        """Return where a name is used, in the order of roots, files and places; 0: all. Definitions are not among them.

        Uses of names that are bound in the function around them are left out at once when nothing in the file defines or
        imports that name: they cannot mean anything that is known here. `Used.use.local` marks those that are kept.
        """
        inside, values = _within("u.root", roots)
        query = (
            "SELECT u.file, u.packed, r.path, f.path, f.language FROM names a JOIN uses u ON u.name = a.id"
            " JOIN files f ON f.id = u.file JOIN roots r ON r.id = u.root"
            f" WHERE a.name = ? AND {inside} ORDER BY r.path, f.path"
        )
        found: list[tuple[int, Any, str, str, str]] = []
        with self._reading() as db:
            if db is None:
                return []
            for file, packed, root, path, language in db.execute(query, (name, *values)):
                found += [(file, use, root, path, language) for use in unpack_uses(name, packed)]
                if limit and len(found) >= limit:
                    del found[limit:]
                    break
            around = self._symbols(db, {file * PLACES + use.enclosing for file, use, *_ in found if use.enclosing >= 0})
        return [
            Used(root, path, language, use, around.get(file * PLACES + use.enclosing) if use.enclosing >= 0 else None)
            for file, use, root, path, language in found
        ]

    def uses_in(self, root: str, path: str) -> list[Used]:
        """Return which names a file uses, in the order of their places; as `uses` does for one name."""
        with self._reading() as db:
            if db is None:
                return []
            file = self._file_id(db, root, path)
            rows = db.execute("SELECT root, used, language FROM files WHERE id = ?", (file,)).fetchall()
            if not rows:
                return []
            ((tree, used, language),) = rows
            query = "SELECT n.name, u.packed FROM uses u JOIN names n ON n.id = u.name WHERE u.name = ? AND u.root = ? AND u.file = ?"
            packed = [db.execute(query, (name, tree, file)).fetchone() for name in differences(used)]
            found = sorted(
                (use for one in packed if one for use in unpack_uses(*one)), key=lambda use: (use.line, use.column)
            )
            around = self._symbols(db, {file * PLACES + use.enclosing for use in found if use.enclosing >= 0})
        return [
            Used(root, path, language, use, around.get(file * PLACES + use.enclosing) if use.enclosing >= 0 else None)
            for use in found
        ]

    def imports_of(self, root: str, path: str) -> list[Import]:
        """Return what a file imports, in its order."""
        with self._reading() as db:
            if db is None:
                return []
            file = self._file_id(db, root, path)
            query = f"{_IMPORT} WHERE i.id >= ? AND i.id < ? ORDER BY i.id"
            rows = db.execute(query, (file * PLACES, (file + 1) * PLACES)).fetchall()
        return [Import(*row[:5]) for row in rows]

    def importers(self, module: str, roots: Sequence[str] | None = None) -> list[Imported]:
        """Return imports of a module, of what lies below it, and of modules whose names end with it, by root, file and line.

        `requests` finds `requests`, `requests.adapters`, `./lib/requests` and `..requests`; `core.code` finds
        `lorelog.core.code`. Endings of files do not matter: `util` finds `./util.js` and `net/util.h`. Which of them is
        meant, `what.module` tells. For `from lorelog.core import code`, ask `importers_of` too.
        """
        inside, values = _within("i.root", roots)
        below = " OR ".join("(m.name >= ? AND m.name < ?)" for _ in _SEPARATORS)
        ranges = [bound for one in _SEPARATORS for bound in (module + one, module + one + _LAST)]
        direct = f"{_IMPORT} WHERE i.module IN (SELECT m.id FROM names m WHERE m.name = ? OR {below}) AND {inside}"
        tail = f"{_IMPORT} WHERE i.tail = (SELECT t.id FROM names t WHERE t.name = ?) AND {inside}"
        rows = [
            *self._rows(direct, (module, *ranges, *values)),
            *(row for row in self._rows(tail, (tail_of(module), *values)) if ends_with(row[0], module)),
        ]
        return _in_order(dict.fromkeys(rows))

    def importers_of(self, name: str, roots: Sequence[str] | None = None) -> list[Imported]:
        """Return imports that take a name from a module (`from x import name`, `import { name } from "x"`), by root, file and line."""
        inside, values = _within("i.root", roots)
        query = f"{_IMPORT} WHERE i.name = (SELECT a.id FROM names a WHERE a.name = ?) AND {inside}"
        return _in_order(self._rows(query, (name, *values))) if name else []

    def classes_below(self, name: str, roots: Sequence[str] | None = None) -> list[Defined]:
        """Return classes that name one among their bases, by its last part: one step down; ask again for the next.

        `ABC` is found by `abc.ABC`, `Base` by `Base[int]`, `std::vector` by `vector<int>`.
        """
        inside, values = _within("b.root", roots)
        query = (
            _DEFINED.format(source="names a JOIN bases b ON b.name = a.id JOIN symbols s ON s.id = b.symbol")
            + f" WHERE a.name = ? AND {inside} ORDER BY r.path, f.path, s.id"
        )
        return [_defined(row) for row in self._rows(query, (base_name(name), *values))]

    def by_digest(self, digest: str, roots: Sequence[str] | None = None) -> list[Defined]:
        """Return definitions that consist of the same tokens, whatever they are called and wherever they lie."""
        inside, values = _within("s.root", roots)
        query = (
            _DEFINED.format(source="symbols s")
            + f" WHERE s.digest = ? AND s.digest <> '' AND {inside} ORDER BY r.path, f.path, s.id"
        )
        return [_defined(row) for row in self._rows(query, (digest, *values))] if digest else []

    def by_content(self, digest: str, roots: Sequence[str] | None = None) -> list[CodeFile]:
        """Return files with exactly this content (`digest_of`): where a file went that was moved."""
        inside, values = _within("f.root", roots)
        return (
            self._files(
                f"WHERE f.digest = ? AND f.digest <> '' AND {inside} ORDER BY r.path, f.path", (digest, *values)
            )
            if digest
            else []
        )

    def like(self, text: str, roots: Sequence[str] | None = None, limit: int = 20) -> list[tuple[Defined, float]]:
        """Return definitions whose names are like a text, best first, each with how like it is (1: the same, 0: not at all).

        The same but for case, beginnings, initials (`fd` and `fDef` for `find_definition`), parts, letters in order, and
        one or two letters mistyped. `Engine.find` asks for `find` in something like `Engine`.
        """
        inside, values = _within("s.root", roots)
        container, wanted = dotted(text)
        likeness = Likeness(wanted)
        if not wanted or limit <= 0:
            return []
        near: dict[str, float] = {}
        for pattern in patterns(wanted):
            if near and (pattern.slips and max(near.values()) >= _WELL_TYPED):
                break
            value_of = likeness.slipped if pattern.slips else likeness.of
            here = f"EXISTS (SELECT 1 FROM symbols s WHERE s.name = names.id AND {inside})"
            query = f"SELECT name FROM names WHERE defined = 1 AND {pattern.where} AND {here} LIMIT {_MOST_LOOKED_AT}"
            for (name,) in self._rows(query, (*pattern.values, *values)):
                if name not in near and (value := value_of(name)) >= _LEAST_LIKE:
                    near[name] = value
        within = Likeness(container) if container else None
        found: list[tuple[Defined, float]] = []
        # A name may be defined in ten thousand places, or not in these roots: go on until there are enough.
        for name in sorted(near, key=lambda one: (-near[one], len(one), one)):
            for one in self.definitions(name, roots, 0 if within else limit):
                around = within.of(one.symbol.container.rpartition(".")[2]) if within else 1.0
                if around >= _LEAST_LIKE:
                    found.append((one, near[name] * around))
            if len(found) >= (limit * 20 if within else limit):
                break
        found.sort(key=lambda pair: -pair[1])
        return found[:limit]

    def _symbols(self, db: sqlite3.Connection, ids: Iterable[int]) -> dict[int, Symbol]:
        wanted = sorted(ids)
        found: dict[int, Symbol] = {}
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            query = f"SELECT {_SYMBOL} FROM symbols s JOIN names n ON n.id = s.name WHERE s.id IN ({marks})"
            found |= {row[0]: _symbol(row) for row in db.execute(query, some)}
        return found

    def _files(self, rest: str, values: Sequence[object]) -> list[CodeFile]:
        return [
            CodeFile(root, path, language, Stamp(size, mtime_ns, inode), *others)
            for root, path, language, size, mtime_ns, inode, *others in self._rows(f"{_FILE} {rest}", values)
        ]

    def _file_id(self, db: sqlite3.Connection, root: str, path: str) -> int:
        query = "SELECT f.id FROM files f JOIN roots r ON r.id = f.root WHERE r.path = ? AND f.path = ?"
        found = db.execute(query, (root, path)).fetchone()
        return int(found[0]) if found else -1

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._reading() as db:
            return [] if db is None else db.execute(query, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        with self._turn:
            try:
                yield self._opened()
            except (sqlite3.Error, OSError) as error:
                self.close()
                if is_damage(error):
                    suspect(self.path)
                raise translated(error, self.path) from error

    def _opened(self) -> sqlite3.Connection | None:
        try:
            status = os.stat(self.path)  # noqa: PTH116
        except OSError:
            self.close()
            return None
        seen = (status.st_dev, status.st_ino)
        if self._db is None or self._seen != seen:
            self.close()
            self._db = open_reading(self.path)
            self._seen = seen
        return self._db


def differences(packed: bytes) -> list[int]:
    """Return numbers that were packed as distances from one to the next."""
    found, last = [], 0
    for step in unpack_numbers(packed):
        last += step
        found.append(last)
    return found


def _in_order(rows: Iterable[Any]) -> list[Imported]:
    found = [Imported(row[5], row[6], row[7], Import(*row[:5])) for row in rows]
    return sorted(found, key=lambda one: (one.root, one.path, one.what.line, one.what.column))


def _within(column: str, roots: Sequence[str] | None) -> tuple[str, list[str]]:
    if roots is None:
        return "1", []
    marks = ", ".join("?" * len(roots))
    return f"{column} IN (SELECT id FROM roots WHERE path IN ({marks}))", list(roots)


def _defined(row: Any) -> Defined:
    return Defined(row[15], row[16], row[17], _symbol(row), row[0] % PLACES)


def _symbol(row: Any) -> Symbol:
    return Symbol(
        row[1],
        SymbolKind(row[2]),
        Span(row[3], row[4], row[5], row[6]),
        row[7],
        row[8],
        row[9],
        row[10],
        row[11],
        row[12],
        tuple(row[13].split(BETWEEN)) if row[13] else (),
        row[14],
    )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _inode(seen: object) -> int:
    return int(seen[1]) if isinstance(seen, tuple) else 0
