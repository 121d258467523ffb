"""Opening the file that a tenant's tables lie in, and saying in our words what SQLite says about it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from lorelog.core.errors import StoreBusy, StoreError, StoreUnwritable
from lorelog.core.locking import choose_wal
from lorelog.records.tables_schema import APPLICATION_ID, SCHEMA, VERSION

_BUSY_S = 30.0
_REMEDY = "the tables follow the ledger: delete that file, and it is made anew"


def open_tables(path: Path | None) -> sqlite3.Connection:
    """Open or make the tables; without a path in memory. What is damaged or of another version is replaced."""
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        if path is None:
            raise
    # Its bytes are no database any more, or not ours: the ledger has it all.
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").unlink()
    return _connect(path)


def translated(error: sqlite3.Error | OSError, path: Path | None) -> StoreError:
    """Return our error for SQLite's or the system's."""
    if isinstance(error, OSError):
        return StoreUnwritable(
            f"{error.filename or path} cannot be used: {error.strerror or error}",
            hint="make it writable, or free some space",
        )
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{path} is being written by another process", hint="try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR")):
        return StoreUnwritable(f"{path} cannot be written: {error}", hint="make it writable, or free some space")
    return StoreError(f"{path}: {error}", hint=_REMEDY)


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path or ":memory:", timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        choose_wal(db, _BUSY_S)
        # Derived: what a power cut takes away is applied again.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -32768")  # while a long ledger is replayed, its indexes stay in reach
        _found(db)
    except BaseException:
        db.close()
        raise
    return db


def _found(db: sqlite3.Connection) -> None:
    """Make the tables where there are none."""
    if _marks(db) == (APPLICATION_ID, VERSION):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if _marks(db) == (0, 0):  # another process may have been faster
            for statement in filter(str.strip, SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    if _marks(db) != (APPLICATION_ID, VERSION):
        raise sqlite3.DatabaseError("tables of another version")


def _marks(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(application), int(version)
