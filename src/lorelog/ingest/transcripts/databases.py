"""A host's SQLite database, read while the host may be writing it, and left exactly as it was.

`mode=ro` alone does not promise that: SQLite makes a `-wal` and a `-shm` file beside a database in WAL mode that has
none at the moment, and leaves them there. So a database without a log, which is complete in itself, is opened as
`immutable`; one with a log and its index is opened normally, and the log is read with it; one with a log only (copied,
or its host crashed) is read from a copy, because its index would have to be written.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from lorelog.core.errors import SourceError
from lorelog.ingest.scan_read import printable, reason
from lorelog.ingest.transcripts.lines import LINE_BYTES, open_plain

MAGIC = b"SQLite format 3\0"
COPIED_BYTES = 1024 * 1024 * 1024
_PATIENCE = 2.0
"""Seconds to wait for a host that holds its database."""


@contextmanager
def open_database(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database for reading. Raise SourceError for what SQLite cannot read."""
    with open_plain(path):  # says what is wrong with a path in our words, and refuses what is no regular file
        pass
    try:
        if not _size(f"{path}-wal"):
            with closing(_connect(path, "immutable=1")) as connection:
                yield connection
        elif os.path.lexists(f"{path}-shm"):
            with closing(_connect(path, "mode=ro")) as connection:
                yield connection
        else:
            with _copied(path) as copy, closing(_connect(copy, "mode=ro")) as connection:
                yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # what is said of a damaged schema may quote bytes of it
        raise SourceError(
            f"{printable(path)} cannot be read as a database: {error}",
            hint="try again when its host is not writing, or check it with 'sqlite3 FILE \"pragma quick_check\"'",
        ) from error
    except OSError as error:
        raise SourceError(f"{printable(path)} cannot be read: {reason(error)}", hint="check its permissions") from error


def tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Return the columns of each table."""
    names = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        if isinstance(name, str)
    ]
    return {
        name: frozenset(
            column
            for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            if isinstance(column, str)
        )
        for name in names
    }


def bounded(column: str) -> str:
    """Return what selects a column, or NULL in the place of a value that is too long to be read."""
    return f"CASE WHEN length({column}) <= {LINE_BYTES} THEN {column} END"


def _connect(path: str, how: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?{how}&cache=private"  # noqa: PTH100 (bytes may be no UTF-8)
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
    try:
        connection.text_factory = _lenient
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # a schema must not run anything in our process
    except BaseException:
        connection.close()
        raise
    return connection


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


@contextmanager
def _copied(path: str) -> Iterator[str]:
    if (_size(path) or 0) + (_size(f"{path}-wal") or 0) > COPIED_BYTES:
        raise SourceError(
            f"{printable(path)} has a write-ahead log without an index, and is too large to copy",
            hint="open it once with its host, or with sqlite3",
        )
    with tempfile.TemporaryDirectory(prefix="lorelog-") as folder:
        copy = os.path.join(folder, "copy.db")  # noqa: PTH118
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        yield copy


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return None
