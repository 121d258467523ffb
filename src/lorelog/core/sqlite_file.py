"""Opening SQLite files: created privately, with their tables, and replaced if they are damaged.

`SqliteFile` is a database of ours with a schema of its own. Everything else that opens a database calls `connect`. Transactions are
explicit (`transaction`), and connections may be used by several threads, whose callers hold a lock.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreIncompatible, StoreUnwritable
from lorelog.core.processes import enable_wal

ItemT = TypeVar("ItemT")
BUSY_S = 10.0
_UNWRITABLE = ("SQLITE_READONLY", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR")


def connect(path: Path | str | None, options: str = "mode=rwc", busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Connect to a database file with the options of an SQLite URI, or to one in memory if `path` is None."""
    # Escaped as SQLite's documentation describes it; `urllib.parse` takes 2 ms to import.
    name = "" if path is None else os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    address = f"file:{name}?{options}" if name else ":memory:"
    return sqlite3.connect(address, uri=path is not None, timeout=busy_s, isolation_level=None, check_same_thread=False)


def connect_readonly(
    path: Path, busy_s: float = BUSY_S, check: Callable[[sqlite3.Connection], object] | None = None
) -> sqlite3.Connection:
    """Connect to an existing database without changing anything. `check` reads from it, and may raise.

    SQLite writes next to a database in WAL mode even to read it. If that is forbidden (a read-only home) and the log is empty,
    the file is complete and is opened as immutable.
    """
    try:
        if path.with_name(f"{path.name}-journal").exists():  # a process may have been killed while it created the file
            with suppress(sqlite3.OperationalError):
                _connect_checked(path, "mode=rw", busy_s, None).close()  # rolls back
        return _connect_checked(path, "mode=ro", busy_s, check)
    except sqlite3.OperationalError:
        log = path.with_name(path.name + "-wal")
        if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
            raise
    return _connect_checked(path, "immutable=1", busy_s, check)


def connect_unchanging(path: Path, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Connect to a database for reading; without a log, SQLite creates none."""
    has_log = path.with_name(f"{path.name}-wal").exists()
    return connect(path, "mode=ro" if has_log else "mode=ro&immutable=1", busy_s)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a block in one transaction; any exception rolls it back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
    except BaseException:
        # SQLite may have rolled back already (disk full); a second ROLLBACK would hide the first error.
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def is_corruption(error: BaseException) -> bool:
    """Return True if an error of SQLite means that the file is damaged or not a database."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return isinstance(error, sqlite3.DatabaseError) and name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def translate_error(error: sqlite3.Error | OSError, path: Path | None, hint: str) -> StoreError:
    """Return our error for one of SQLite or of the system; `hint` says what to do about a damaged file."""
    if isinstance(error, OSError):
        return StoreUnwritable(
            f"{error.filename or path} cannot be used: {error.strerror or error}",
            hint="make it writable, or free some space",
        )
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{path} is being written by another process", hint="try again")
    if name.startswith(_UNWRITABLE):
        return StoreUnwritable(f"{path} cannot be written: {error}", hint="make it writable, or free some space")
    if is_corruption(error):
        return StoreDamaged(f"{path} is damaged: {error}", hint=hint)
    return StoreError(f"{path}: {error}", hint=hint)


def delete_database(path: Path) -> None:
    """Delete a database and the files that belong to it. Open readers keep reading the deleted file."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


class DatabaseSchema(Struct, frozen=True):
    """What all files of one kind have in common."""

    sql: str
    """Statements that create the tables."""
    version: int
    hint: str
    """What to do about a damaged file."""
    steps: tuple[str, ...] = ()
    """Statements that migrate version 1 to 2, 2 to 3 and so on. A released step is never edited."""
    application: int = 0
    is_derived: bool = False
    """A file that is damaged or has another version is deleted and created again. Otherwise a damaged file is moved aside, and
    a newer version raises StoreIncompatible."""
    pragmas: tuple[str, ...] = ()
    """Set for every connection."""
    has_log: bool = True
    busy_s: float = BUSY_S


class SqliteFile:
    """A database of ours: how it is created, opened and replaced. Without a path, it is in memory."""

    def __init__(self, path: Path | None, schema: DatabaseSchema) -> None:
        self.path = path
        self._schema = schema
        self._old_marks = {(0, 0): (schema.sql,)} | {
            (schema.application, version): schema.steps[version - 1 :] for version in range(1, len(schema.steps) + 1)
        }
        """Statements by application and version of the files that they bring up to date."""
        self.replaced = ""
        """Why `open` replaced the file, if it did."""

    def open(self) -> sqlite3.Connection:
        """Open or create the database; replace it if it is damaged. Raise sqlite3.Error, OSError or StoreIncompatible."""
        try:
            return self._open()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            if self.path is None:
                raise
            self.replaced = f"{self.path.name} was " + (f"damaged ({error})" if is_corruption(error) else str(error))
        self.replace()
        return self._open()

    def open_readonly(self) -> sqlite3.Connection | None:
        """Open an existing database without changing anything; return None if it has another version. Raise sqlite3.Error."""
        assert self.path is not None
        db = connect_readonly(self.path, self._schema.busy_s)
        if _read_marks(db) == (self._schema.application, self._schema.version):
            return db
        db.close()
        return None

    def replace(self) -> None:
        """Move a damaged database aside, or delete it if it is derived, so that the next `open` creates a new one."""
        assert self.path is not None
        with suppress(OSError):
            if not self._schema.is_derived:
                self.path.replace(self.path.with_name(f"{self.path.stem}.damaged-{time.time_ns()}{self.path.suffix}"))
            delete_database(self.path)

    def translate(self, error: sqlite3.Error | OSError) -> StoreError:
        """Return our error for one that occurred while this database was used."""
        return translate_error(error, self.path, self._schema.hint)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate the errors of a block. A database that turns out to be damaged is replaced by the next `open`."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if is_corruption(error) and self.path is not None:
                self.replace()
            raise self.translate(error) from error

    def _open(self) -> sqlite3.Connection:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its log the same mode
        db = connect(self.path, "mode=rw", self._schema.busy_s)
        try:
            for pragma in self._schema.pragmas:
                db.execute(f"PRAGMA {pragma}")
            if self._schema.has_log:
                enable_wal(db, self._schema.busy_s)
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        if _read_marks(db) in self._old_marks:
            with transaction(db):
                found = _read_marks(db)  # another process may have been faster
                # A file with tables and without marks is not ours.
                if found[1] or not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for script in self._old_marks.get(found, ()):
                        for statement in filter(str.strip, script.split(";")):
                            db.execute(statement)
                    db.execute(f"PRAGMA application_id = {self._schema.application}")
                    db.execute(f"PRAGMA user_version = {self._schema.version}")
        application, version = _read_marks(db)
        if (application, version) == (self._schema.application, self._schema.version):
            return
        if not self._schema.is_derived and application == self._schema.application and version > self._schema.version:
            raise StoreIncompatible(
                f"{self.path} was written by a newer lorelog", hint="update lorelog, or move that file aside"
            )
        raise sqlite3.DatabaseError("written by another version")


def _read_marks(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(application), int(version)


def _connect_checked(
    path: Path, options: str, busy_s: float, check: Callable[[sqlite3.Connection], object] | None
) -> sqlite3.Connection:
    db = connect(path, options, busy_s)
    try:
        if check is None:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        else:
            check(db)
    except BaseException:
        db.close()
        raise
    return db


_CHECKPOINT_TRIES, _CHECKPOINT_PAUSE_S = 20, 0.1


def rewrite_database(database: sqlite3.Connection) -> None:
    """Copy all rows into new pages and empty the write-ahead log: deleted rows leave their bytes in both.

    Raise sqlite3.OperationalError if a reader keeps the log from being emptied.
    """
    database.execute("VACUUM")
    for _ in range(_CHECKPOINT_TRIES):
        if not database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return
        time.sleep(_CHECKPOINT_PAUSE_S)
    raise sqlite3.OperationalError("busy: a reader keeps the write-ahead log from being emptied")


def placeholders(values: Sized) -> str:
    """Return a question mark for each of some values of an SQL statement."""
    return ", ".join("?" * len(values))


def batches(items: Iterable[ItemT], size: int = 500) -> Iterator[list[ItemT]]:
    """Yield lists of at most `size` items; SQLite accepts so many values."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
