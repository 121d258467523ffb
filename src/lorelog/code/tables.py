"""The schema of code.db, and read-only queries: definitions, uses and imports by name, file and working tree.

Queries match names as written; scopes, imports and classes are resolved by the caller. Readers never wait for an index
run, and see each file either before or after an update. Queries create nothing: without code.db every result is empty.

File paths are relative to their root, with slashes. Roots are real paths.

Names are stored once and referenced by id. A symbol's id is its file's id followed by its index in the file, so the
symbols of a file are adjacent, and deleting them deletes a range; imports likewise. The uses of one name in one file
are one packed row of about eight bytes a use, where a row for each would take forty: several times the size of the
source. They are keyed by name, since they are queried by name; the row of a file lists the names to delete when it
changes.

A packed row is a list in MessagePack, in which small numbers take one byte; lines are stored as deltas. The receiver is
nearly always one of a few, which are encoded in four bits.

code.db is derived from the files. So a damaged file, or one of another version, is never repaired: the next writer
replaces it and notes that.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.msgpack import decode, encode

from lorelog.code.names import module_ends_with, module_tail, name_parts, plain_name
from lorelog.core import sqlite_file
from lorelog.core.code import ImportStatement, NameUse, SourceSpan, Symbol, SymbolKind, UseKind
from lorelog.core.document import FileStamp
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, batches, is_corruption, placeholders, translate_error

SCHEMA_VERSION = 2
APPLICATION_ID = 0x6C6F7263  # "lorc"
MAX_PER_FILE = 1 << 20
"""Maximum number of symbols, and of imports, of a file."""
BASES_SEPARATOR = "\x1f"
"""Separates the bases of a class in the column `bases`."""
SCHEMA = """
CREATE TABLE roots (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, project TEXT NOT NULL, parts TEXT NOT NULL,
    indexed_at TEXT NOT NULL, head TEXT NOT NULL
);
CREATE TABLE files (
    id INTEGER PRIMARY KEY, root INTEGER NOT NULL, path TEXT NOT NULL, language TEXT NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL, recipe TEXT NOT NULL,
    lines INTEGER NOT NULL, broken INTEGER NOT NULL, symbols INTEGER NOT NULL, problem TEXT NOT NULL, used BLOB NOT NULL
);
CREATE UNIQUE INDEX files_by_path ON files (root, path);
CREATE INDEX files_by_digest ON files (digest) WHERE digest <> '';
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, defined INTEGER NOT NULL DEFAULT 0);
CREATE INDEX names_defined ON names (defined, name) WHERE defined = 1;
CREATE TABLE symbols (
    id INTEGER PRIMARY KEY, name INTEGER NOT NULL, root INTEGER NOT NULL, kind TEXT NOT NULL,
    start_line INTEGER NOT NULL, start_column INTEGER NOT NULL, end_line INTEGER NOT NULL, end_column INTEGER NOT NULL,
    name_line INTEGER NOT NULL, name_column INTEGER NOT NULL, signature TEXT NOT NULL, docstring TEXT NOT NULL,
    visibility TEXT NOT NULL, container TEXT NOT NULL, bases TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE INDEX symbols_by_name ON symbols (name, root);
CREATE INDEX symbols_by_digest ON symbols (digest, root) WHERE digest <> '';
CREATE TABLE uses (
    name INTEGER NOT NULL, root INTEGER NOT NULL, file INTEGER NOT NULL, packed BLOB NOT NULL,
    PRIMARY KEY (name, root, file)
) WITHOUT ROWID;
CREATE TABLE imports (
    id INTEGER PRIMARY KEY, module INTEGER NOT NULL, name INTEGER NOT NULL, root INTEGER NOT NULL, tail INTEGER NOT NULL,
    alias TEXT NOT NULL, line INTEGER NOT NULL, column INTEGER NOT NULL
);
CREATE INDEX imports_by_module ON imports (module, root);
CREATE INDEX imports_by_tail ON imports (tail, root);
CREATE INDEX imports_by_name ON imports (name, root);
"""


USE_KINDS = (UseKind.CALL, UseKind.READ, UseKind.WRITE, UseKind.TYPE, UseKind.IMPORT)
_RECEIVERS = ("", "?", "self", "cls", "this", "super", "super()", "@")
"""Stored by index: append new ones, up to index 14."""
_RECEIVER_AS_TEXT = 15
_KIND_CODES = {kind: code for code, kind in enumerate(USE_KINDS)}
_RECEIVER_CODES = {text: code for code, text in enumerate(_RECEIVERS)}
_LOCAL_BIT = 8


def pack_uses(uses: Iterable[NameUse]) -> bytes:
    """Encode the uses of one name in one file, sorted by position."""
    packed: list[int | str] = []
    last = 0
    for use in sorted(uses, key=lambda use: (use.line, use.column)):
        receiver = _RECEIVER_CODES.get(use.receiver, _RECEIVER_AS_TEXT)
        head = _KIND_CODES[use.kind] | (_LOCAL_BIT if use.local else 0) | receiver << 4
        packed += (head, use.line - last, use.column, use.enclosing + 1)
        packed += (use.receiver,) if receiver == _RECEIVER_AS_TEXT else ()
        last = use.line
    return encode(packed)


def unpack_uses(name: str, packed: bytes) -> list[NameUse]:
    """Decode the uses that `pack_uses` encoded, in file order."""
    uses: list[NameUse] = []
    values, line = iter(decode(packed)), 0
    for head in values:
        line += next(values)
        column, enclosing, code = next(values), next(values) - 1, head >> 4
        receiver = next(values) if code == _RECEIVER_AS_TEXT else _RECEIVERS[code]
        uses.append(NameUse(name, USE_KINDS[head & 7], line, column, enclosing, receiver, bool(head & _LOCAL_BIT)))
    return uses


REBUILD_HINT = "rebuild it with 'lorelog code index'; it is derived from your files"
_DAMAGE_SUFFIX = "-damaged"
"""Marker file of a reader that found damage: the next index run may not read the damaged page."""


_DATABASE = DatabaseSchema(
    SCHEMA,
    SCHEMA_VERSION,
    application=APPLICATION_ID,
    is_derived=True,
    hint=REBUILD_HINT,
    pragmas=(
        "synchronous = NORMAL",  # derived data: indexed again after a power failure
        "cache_size = -65536",  # rows of uses are spread over the whole table
        "wal_autocheckpoint = 4000",
        "journal_size_limit = 67108864",
    ),
    busy_s=30.0,
)


def open_writable(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open or create code.db; the caller holds the writer lock. Also return a note if an unusable file was replaced."""
    file = SqliteFile(path, _DATABASE)
    note = ""
    if Path(f"{path}{_DAMAGE_SUFFIX}").exists():
        note = f"{path.name} was damaged"
        delete_database(path)
    db = file.open()
    try:
        # Read a page: damage shows here instead of in the middle of a run.
        db.execute("SELECT count(*) FROM roots").fetchone()
    except sqlite3.DatabaseError as error:
        db.close()
        if isinstance(error, sqlite3.OperationalError):
            raise
        note = f"{path.name} was damaged ({error})"
        delete_database(path)
        db = file.open()
    note = note or file.replaced
    return db, f"{note} and has been rebuilt" if note else ""


def delete_database(path: Path) -> None:
    """Delete code.db. Open readers keep reading the deleted file."""
    sqlite_file.delete_database(path)
    Path(f"{path}{_DAMAGE_SUFFIX}").unlink(missing_ok=True)


class CodeRoot(Struct, frozen=True):
    """An indexed working tree."""

    path: str
    project: str
    """The project's id, shared by linked worktrees."""
    parts: tuple[str, ...] = ()
    """Indexed folders, relative to the root; empty for the whole tree."""
    files: int = 0
    """Number of indexed files, including those that could not be parsed."""
    symbols: int = 0
    indexed_at: str = ""
    """When the last complete run ended (ISO, UTC); if empty, the index is incomplete."""
    head: str = ""
    """The commit that was checked out by then; empty without Git."""


class _FileEntry(Struct, frozen=True):
    root: str
    path: str
    language: str

    @property
    def absolute(self) -> str:
        return f"{self.root.rstrip('/')}/{self.path}"


class CodeFile(_FileEntry, frozen=True):
    """A file as of its last index run; its language is empty if it is not code, or could not be read."""

    stamp: FileStamp
    digest: str
    """First 32 hex digits of the SHA-256 of its bytes (`digest_of`); empty if it could not be read."""
    lines: int = 0
    broken: int = 0
    """First line that could not be parsed; 0 if there is none."""
    symbols: int = 0
    problem: str = ""
    """Why the content is not indexed: too large, binary, unreadable, timed out."""


class StoredDefinition(_FileEntry, frozen=True):
    symbol: Symbol
    ordinal: int
    """Its index among the symbols of its file, which `NameUse.enclosing` refers to."""


class StoredUse(_FileEntry, frozen=True):
    """A use of a name and its file."""

    use: NameUse
    enclosing: Symbol | None
    """The innermost enclosing definition; None at the top level of a file."""


class StoredImport(_FileEntry, frozen=True):
    what: ImportStatement


_MAX_CHAR = "\U0010ffff"
_SYMBOL_COLUMNS = (
    "s.id, n.name, s.kind, s.start_line, s.start_column, s.end_line, s.end_column, s.name_line, s.name_column,"
    " s.signature, s.docstring, s.visibility, s.container, s.bases, s.digest"
)
_SELECT_DEFINITIONS = (
    f"SELECT {_SYMBOL_COLUMNS}, r.path, f.path, f.language FROM {{source}}"
    f" JOIN names n ON n.id = s.name JOIN files f ON f.id = s.id / {MAX_PER_FILE} JOIN roots r ON r.id = s.root"
)
_SELECT_FILES = (
    "SELECT r.path, f.path, f.language, f.size, f.mtime_ns, f.inode, f.digest, f.lines, f.broken, f.symbols, f.problem"
    " FROM files f JOIN roots r ON r.id = f.root"
)
_SELECT_IMPORTS = (
    "SELECT m.name, n.name, i.alias, i.line, i.column, r.path, f.path, f.language FROM imports i"
    " JOIN names m ON m.id = i.module JOIN names n ON n.id = i.name"
    f" JOIN files f ON f.id = i.id / {MAX_PER_FILE} JOIN roots r ON r.id = i.root"
)
_SEPARATORS = (".", "/", "::", "\\")
_MAX_TYPOS = 2
"""Letters that a similar name may have more or less."""
_MIN_SIMILARITY = 0.8
"""Of a similar name, as difflib measures it: one or two letters differ."""
_MAX_CANDIDATES = 20_000


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


class CodeTables:
    """The code index of a tenant. Thread-safe. Raises StoreError if code.db is damaged or cannot be read.

    `roots` are real paths of working trees; None stands for all of them, an empty list for none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._open_file: tuple[int, int] | None = None
        """Device and inode of the open file: an index run may have replaced it."""

    def close(self) -> None:
        """Close the file; the next query opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db, self._open_file = None, None

    def roots(self) -> list[CodeRoot]:
        """Return the indexed working trees, sorted by path."""
        rows = self._rows(
            "SELECT r.path, r.project, r.parts, count(f.id), coalesce(sum(f.symbols), 0), r.indexed_at, r.head"
            " FROM roots r LEFT JOIN files f ON f.root = r.id GROUP BY r.id ORDER BY r.path"
        )
        return [CodeRoot(path, project, _split_parts(parts), *rest) for path, project, parts, *rest in rows]

    def root(self, path: str) -> CodeRoot | None:
        """Return a working tree by its real path, without counting its files (`files`, `symbols` are 0)."""
        rows = self._rows("SELECT project, parts, indexed_at, head FROM roots WHERE path = ?", (path,))
        roots = (CodeRoot(path, project, _split_parts(parts), 0, 0, *rest) for project, parts, *rest in rows)
        return next(roots, None)

    def file(self, root: str, path: str) -> CodeFile | None:
        """Return a file by its path relative to its root; None if it is not indexed."""
        return next(iter(self._files("WHERE r.path = ? AND f.path = ?", (root, path))), None)

    def files(self, root: str, prefix: str = "") -> list[CodeFile]:
        """Return the code files of a root, sorted by path. `prefix` limits them to a folder or a file."""
        folder = prefix.strip("/")
        where, values = "WHERE r.path = ? AND f.language <> ''", [root]
        if folder:
            where += " AND (f.path = ? OR (f.path > ? AND f.path < ?))"
            values += [folder, f"{folder}/", f"{folder}/{_MAX_CHAR}"]
        return self._files(f"{where} ORDER BY f.path", values)

    def problems(self, root: str) -> list[CodeFile]:
        """Return the files of a root whose content is not indexed because of a problem."""
        return self._files("WHERE r.path = ? AND f.problem <> '' ORDER BY f.path", (root,))

    def definitions(self, name: str, roots: Sequence[str] | None = None, limit: int = 0) -> list[StoredDefinition]:
        """Return all definitions of a name, sorted by root, file and line. A limit of 0 is no limit."""
        root_filter, values = _root_filter("s.root", roots)
        where = f"a.name = ? AND {root_filter} ORDER BY r.path, f.path, s.id LIMIT ?"
        return self._definitions("names a JOIN symbols s ON s.name = a.id", where, (name, *values, limit or -1))

    def symbols_of(self, root: str, path: str) -> list[Symbol]:
        """Return the symbols of a file in file order, which `NameUse.enclosing` refers to."""
        return [definition.symbol for definition in self.definitions_in(root, path)]

    def definitions_in(self, root: str, path: str) -> list[StoredDefinition]:
        return self._definitions("symbols s", "s.id >= ? AND s.id < ? ORDER BY s.id", self._id_range(root, path))

    def uses(self, name: str, roots: Sequence[str] | None = None) -> list[StoredUse]:
        """Return the uses of a name without its definitions, sorted by root, file and position.

        A use of a local variable is not stored if its file neither defines nor imports the name: it cannot mean an
        indexed symbol. `NameUse.local` marks the others.
        """
        root_filter, values = _root_filter("u.root", roots)
        query = (
            "SELECT u.file, u.packed, r.path, f.path, f.language FROM names a JOIN uses u ON u.name = a.id"
            " JOIN files f ON f.id = u.file JOIN roots r ON r.id = u.root"
            f" WHERE a.name = ? AND {root_filter} ORDER BY r.path, f.path"
        )
        uses = [
            (file * MAX_PER_FILE + use.enclosing if use.enclosing >= 0 else -1, use, entry)
            for file, packed, *entry in self._rows(query, (name, *values))
            for use in unpack_uses(name, packed)
        ]
        enclosing = self._symbols(symbol for symbol, *_ in uses if symbol >= 0)
        return [
            StoredUse(root, path, language, use, enclosing.get(symbol)) for symbol, use, (root, path, language) in uses
        ]

    def uses_in(self, root: str, path: str) -> list[StoredUse]:
        """Return the uses of all names in a file, in file order."""
        symbols = self.symbols_of(root, path)
        uses: list[StoredUse] = []
        query = (
            "SELECT n.name, u.packed, f.language FROM names n JOIN uses u ON u.name = n.id JOIN files f ON f.id = u.file"
            " WHERE u.root = ? AND u.file = ? AND n.id IN ({})"
        )
        row = "SELECT f.root, f.id, f.used FROM files f JOIN roots r ON r.id = f.root WHERE r.path = ? AND f.path = ?"
        for root_id, file, used in self._rows(row, (root, path)):
            for part in batches(accumulate(decode(used))):
                for name, packed, language in self._rows(query.format(placeholders(part)), (root_id, file, *part)):
                    for use in unpack_uses(name, packed):
                        enclosing = symbols[use.enclosing] if use.enclosing >= 0 else None
                        uses.append(StoredUse(root, path, language, use, enclosing))
        return sorted(uses, key=lambda used: (used.use.line, used.use.column))

    def derived_from(self, name: str, roots: Sequence[str]) -> list[StoredDefinition]:
        """Return the classes that have a name in a base, as written."""
        root_filter, values = _root_filter("s.root", roots)
        where = f"s.bases LIKE ? AND {root_filter} ORDER BY r.path, f.path, s.id"
        return self._definitions("symbols s", where, (f"%{name}%", *values))

    def imports_of(self, root: str, path: str) -> list[ImportStatement]:
        query = f"{_SELECT_IMPORTS} WHERE i.id >= ? AND i.id < ? ORDER BY i.id"
        return [ImportStatement(*row[:5]) for row in self._rows(query, self._id_range(root, path))]

    def importers(self, module: str, roots: Sequence[str] | None = None) -> list[StoredImport]:
        """Return the imports of a module, of its submodules, and of modules whose names end with it.

        `requests` finds `requests`, `requests.adapters`, `./lib/requests` and `..requests`; `core.code` finds
        `lorelog.core.code`. File suffixes do not matter: `util` finds `./util.js` and `net/util.h`. `what.module` tells
        them apart. Imports such as `from lorelog.core import code` are found by `importers_of_name`.
        """
        root_filter, values = _root_filter("i.root", roots)
        below = " OR ".join("(m.name >= ? AND m.name < ?)" for _ in _SEPARATORS)
        ranges = [bound for mark in _SEPARATORS for bound in (module + mark, module + mark + _MAX_CHAR)]
        direct = (
            f"{_SELECT_IMPORTS} WHERE i.module IN (SELECT m.id FROM names m WHERE m.name = ? OR {below})"
            f" AND {root_filter}"
        )
        tail = f"{_SELECT_IMPORTS} WHERE i.tail = (SELECT t.id FROM names t WHERE t.name = ?) AND {root_filter}"
        rows = [
            *self._rows(direct, (module, *ranges, *values)),
            *(row for row in self._rows(tail, (module_tail(module), *values)) if module_ends_with(row[0], module)),
        ]
        return _sorted_imports(dict.fromkeys(rows))

    def importers_of_name(self, name: str, roots: Sequence[str] | None = None) -> list[StoredImport]:
        """Return the imports that take a name from a module: `from x import name`, `import { name } from "x"`."""
        root_filter, values = _root_filter("i.root", roots)
        query = f"{_SELECT_IMPORTS} WHERE i.name = (SELECT a.id FROM names a WHERE a.name = ?) AND {root_filter}"
        return _sorted_imports(self._rows(query, (name, *values))) if name else []

    def by_digest(self, digest: str, roots: Sequence[str] | None = None) -> list[StoredDefinition]:
        """Return the definitions that have the same tokens, whatever their name and file."""
        root_filter, values = _root_filter("s.root", roots)
        where = f"s.digest = ? AND s.digest <> '' AND {root_filter} ORDER BY r.path, f.path, s.id"
        return self._definitions("symbols s", where, (digest, *values))

    def search_names(self, text: str, roots: Sequence[str] | None = None, limit: int = 20) -> list[StoredDefinition]:
        """Return the definitions whose names contain a text, best first: equal names, those that begin so, short ones.

        Case and underscores do not matter. If no name contains it, names with nearly the same spelling are found.
        `Engine.find` searches for `find` in something whose name contains `Engine`.
        """
        *above, name = name_parts(text.strip().removesuffix("()")) or [""]
        plain, container = plain_name(name), plain_name(above[-1]) if above else ""
        if not plain or limit <= 0:
            return []
        letters = self._defined_names("name LIKE ?", (f"%{'%'.join(plain)}%",), roots)
        names = [known for known in letters if plain in plain_name(known)]

        def rank(known: str) -> tuple[bool, bool, bool, int, str]:
            other = plain_name(known)
            return known != name, other != plain, not other.startswith(plain), len(known), known

        matches: list[StoredDefinition] = []
        # A name may be defined in ten thousand files: continue until there are enough.
        for known in sorted(names, key=rank) or self.similar_names(name, roots, limit):
            matches += [
                definition
                for definition in self.definitions(known, roots, 0 if container else limit)
                if container in plain_name(definition.symbol.container.rpartition(".")[2])
            ]
            if len(matches) >= limit:
                break
        return matches[:limit]

    def similar_names(self, name: str, roots: Sequence[str] | None, limit: int) -> list[str]:
        """Return defined names with nearly the same spelling, the nearest first."""
        plain = plain_name(name)
        where = "length(name) BETWEEN ? AND ? AND name LIKE ?"
        near = (len(plain) - _MAX_TYPOS, len(name) + 2 * _MAX_TYPOS, f"%{plain[:1]}%{plain[-1:]}%")
        found = ((plain_name(known), known) for known in self._defined_names(where, near, roots))
        names = {other: known for other, known in found if len(set(plain) ^ set(other)) <= 2 * _MAX_TYPOS}
        return [names[match] for match in get_close_matches(plain, names, limit, _MIN_SIMILARITY)]

    def _defined_names(self, where: str, values: Sequence[object], roots: Sequence[str] | None) -> list[str]:
        root_filter, root_values = _root_filter("s.root", roots)
        is_defined = f"EXISTS (SELECT 1 FROM symbols s WHERE s.name = names.id AND {root_filter})"
        query = f"SELECT name FROM names WHERE defined = 1 AND {where} AND {is_defined} LIMIT {_MAX_CANDIDATES}"
        return [name for (name,) in self._rows(query, (*values, *root_values))]

    def _definitions(self, source: str, where: str, values: Sequence[object]) -> list[StoredDefinition]:
        rows = self._rows(f"{_SELECT_DEFINITIONS.format(source=source)} WHERE {where}", values)
        return [
            StoredDefinition(row[15], row[16], row[17], _symbol_from_row(row), row[0] % MAX_PER_FILE) for row in rows
        ]

    def _symbols(self, ids: Iterable[int]) -> dict[int, Symbol]:
        query = f"SELECT {_SYMBOL_COLUMNS} FROM symbols s JOIN names n ON n.id = s.name WHERE s.id IN ({{}})"
        parts = (self._rows(query.format(placeholders(part)), part) for part in batches(sorted(set(ids))))
        return {row[0]: _symbol_from_row(row) for rows in parts for row in rows}

    def _files(self, rest: str, values: Sequence[object]) -> list[CodeFile]:
        return [
            CodeFile(root, path, language, FileStamp(size, mtime_ns, inode), *others)
            for root, path, language, size, mtime_ns, inode, *others in self._rows(f"{_SELECT_FILES} {rest}", values)
        ]

    def _id_range(self, root: str, path: str) -> tuple[int, int]:
        """Return the first id of a file's symbols and imports, and the one after the last."""
        query = "SELECT f.id FROM files f JOIN roots r ON r.id = f.root WHERE r.path = ? AND f.path = ?"
        file = next((file for (file,) in self._rows(query, (root, path))), -1)
        return file * MAX_PER_FILE, (file + 1) * MAX_PER_FILE

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._lock:
            try:
                status = self.path.stat() if self.path.is_file() else None
                if status is None or self._open_file != (status.st_dev, status.st_ino):
                    self.close()
                if status is not None and self._open_file is None:
                    self._db = SqliteFile(self.path, _DATABASE).open_readonly()
                    self._open_file = (status.st_dev, status.st_ino)
                return [] if self._db is None else self._db.execute(query, values).fetchall()
            except FileNotFoundError:
                self.close()
                return []
            except (sqlite3.Error, OSError) as error:
                self.close()
                if is_corruption(error):
                    with suppress(OSError):  # the next writer rebuilds it
                        Path(f"{self.path}{_DAMAGE_SUFFIX}").touch(mode=0o600)
                raise translate_error(error, self.path, REBUILD_HINT) from error


def _sorted_imports(rows: Iterable[Any]) -> list[StoredImport]:
    imports = [StoredImport(row[5], row[6], row[7], ImportStatement(*row[:5])) for row in rows]
    return sorted(imports, key=lambda stored: (stored.root, stored.path, stored.what.line, stored.what.column))


def _root_filter(column: str, roots: Sequence[str] | None) -> tuple[str, list[str]]:
    if roots is None:
        return "1", []
    return f"{column} IN (SELECT id FROM roots WHERE path IN ({placeholders(roots)}))", list(roots)


def _symbol_from_row(row: Any) -> Symbol:
    bases = tuple(row[13].split(BASES_SEPARATOR)) if row[13] else ()
    fields = [row[1], SymbolKind(row[2]), SourceSpan(*row[3:7]), *row[7:13], bases, row[14]]
    return Symbol(*fields)


def _split_parts(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()
