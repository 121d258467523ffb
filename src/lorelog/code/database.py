"""The schema of code.db, the encoding of uses, and opening the file.

Names are stored once and referenced by id. A symbol's id is its file's id followed by its index in the file, so the
symbols of a file are adjacent, and deleting them deletes a range; imports likewise. The uses of one name in one file
are one packed row of about five bytes a use, where a row for each would take forty: several times the size of the
source. They are keyed by name, since they are queried by name; the row of a file lists the names to delete when it
changes.

Packed numbers are varints of seven bits a byte, and lines are stored as deltas. The receiver is nearly always one of a
few, which are encoded in four bits.

code.db is derived from the files. So a damaged file, or one of another version, is never repaired: the next writer
replaces it and notes that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from lorelog.core import sqlite_file
from lorelog.core.code import NameUse, UseKind
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile

SCHEMA_VERSION = 1
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
CREATE TABLE bases (
    symbol INTEGER NOT NULL, name INTEGER NOT NULL, root INTEGER NOT NULL, PRIMARY KEY (symbol, name)
) WITHOUT ROWID;
CREATE INDEX bases_by_name ON bases (name, root);
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


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """Encode non-negative numbers as varints."""
    packed = bytearray()
    for number in numbers:
        left = number
        while left > 0x7F:
            packed.append(left & 0x7F | 0x80)
            left >>= 7
        packed.append(left)
    return bytes(packed)


def unpack_numbers(packed: bytes) -> list[int]:
    """Decode the numbers that `pack_numbers` encoded."""
    numbers: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            numbers.append(number)
            number = shift = 0
    return numbers


def unpack_deltas(packed: bytes) -> list[int]:
    """Decode ascending numbers that were encoded as differences."""
    return list(accumulate(unpack_numbers(packed)))


def pack_uses(uses: Iterable[NameUse]) -> bytes:
    """Encode the uses of one name in one file, sorted by position."""
    packed = bytearray()
    last = 0
    for use in sorted(uses, key=lambda use: (use.line, use.column)):
        receiver = _RECEIVER_CODES.get(use.receiver, _RECEIVER_AS_TEXT)
        packed.append(_KIND_CODES[use.kind] | (_LOCAL_BIT if use.local else 0) | receiver << 4)
        for number in (use.line - last, use.column, use.enclosing + 1):
            left = number
            while left > 0x7F:
                packed.append(left & 0x7F | 0x80)
                left >>= 7
            packed.append(left)
        if receiver == _RECEIVER_AS_TEXT:
            text = use.receiver.encode("utf-8", "surrogatepass")
            packed += pack_numbers([len(text)])
            packed += text
        last = use.line
    return bytes(packed)


def unpack_uses(name: str, packed: bytes) -> list[NameUse]:
    """Decode the uses that `pack_uses` encoded, in file order."""
    uses: list[NameUse] = []
    offset, line, end = 0, 0, len(packed)
    while offset < end:
        head = packed[offset]
        offset += 1
        numbers: list[int] = []
        code = head >> 4
        count = 4 if code == _RECEIVER_AS_TEXT else 3
        while len(numbers) < count:
            number = shift = 0
            while packed[offset] & 0x80:
                number |= (packed[offset] & 0x7F) << shift
                shift += 7
                offset += 1
            numbers.append(number | packed[offset] << shift)
            offset += 1
        if code == _RECEIVER_AS_TEXT:
            receiver = packed[offset : offset + numbers[3]].decode("utf-8", "surrogatepass")
            offset += numbers[3]
        else:
            receiver = _RECEIVERS[code]
        line += numbers[0]
        uses.append(
            NameUse(name, USE_KINDS[head & 7], line, numbers[1], numbers[2] - 1, receiver, bool(head & _LOCAL_BIT))
        )
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


def open_readonly(path: Path) -> sqlite3.Connection | None:
    """Open code.db without changing anything; return None if it does not exist or has another version."""
    if not path.is_file():
        return None
    db = SqliteFile(path, _DATABASE).open_readonly()
    if db is not None:
        db.execute("PRAGMA cache_size = -16384")
    return db


def open_writable(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open or create code.db; the caller holds the writer lock. Also return a note if an unusable file was replaced."""
    file = SqliteFile(path, _DATABASE)
    note = f"{path.name} was damaged"
    if Path(f"{path}{_DAMAGE_SUFFIX}").exists():
        delete_database(path)
    else:
        note = ""
    db = file.open()
    try:
        # Read a page: damage shows here instead of in the middle of a run.
        db.execute("SELECT count(*) FROM roots").fetchone()
    except sqlite3.OperationalError:
        db.close()
        raise
    except sqlite3.DatabaseError as error:
        db.close()
        note = f"{path.name} was damaged ({error})"
        delete_database(path)
        db = file.open()
    note = note or file.replaced
    return db, f"{note} and has been rebuilt" if note else ""


def delete_database(path: Path) -> None:
    """Delete code.db. Open readers keep reading the deleted file."""
    sqlite_file.delete_database(path)
    Path(f"{path}{_DAMAGE_SUFFIX}").unlink(missing_ok=True)


def mark_damaged(path: Path) -> None:
    """Make the next writer rebuild code.db."""
    with suppress(OSError):
        Path(f"{path}{_DAMAGE_SUFFIX}").touch(mode=0o600)
