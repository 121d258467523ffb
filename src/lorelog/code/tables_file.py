"""Opening code.db: to read it as it is, whoever writes; to write it, where what is damaged or of another version is made anew.

Nothing in it is the only copy of anything. So nobody is asked to mend it; who writes next begins from nothing, and says so.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from lorelog.code.tables_schema import APPLICATION_ID, SCHEMA, VERSION
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable
from lorelog.core.locking import choose_wal

_BUSY_S = 30.0
_REMEDY = "it is made of your files and can be made again: lorelog code index"
_SUSPECT = "-damaged"
"""Left by who finds damage in reading, for who writes next: an index run may never look at the page."""
_OTHERS = ("", "-wal", "-shm", _SUSPECT)


class OtherVersion(Exception):
    """Tables of another version of lorelog, or of another program, or none at all."""


def open_reading(path: Path) -> sqlite3.Connection | None:
    """Open what is there, changing nothing; None where there is nothing, or nothing that this version wrote."""
    if not path.is_file():
        return None
    try:
        return _checked(path, "mode=ro")
    except OtherVersion:
        return None
    except sqlite3.OperationalError:
        # A database with a log wants to write beside itself even to be read. Where that is forbidden and no log is left,
        # the file is the whole truth.
        log = path.with_name(f"{path.name}-wal")
        if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
            raise
    with suppress(OtherVersion):
        return _checked(path, "immutable=1")
    return None


def open_writing(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open or make the tables; whoever does holds the lock of those who write. Return also what became of an unusable file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    note = f"{path.name} was damaged and is made anew"
    try:
        if not Path(f"{path}{_SUSPECT}").exists():
            return _founded(path), ""
    except OtherVersion:
        note = f"{path.name} was written by another version and is made anew"
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        note = f"{path.name} was damaged ({error}) and is made anew"
    discard(path)
    return _founded(path), note


def discard(path: Path) -> None:
    """Delete the tables. Who reads them at the moment goes on reading what was there."""
    for suffix in _OTHERS:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").unlink()


def suspect(path: Path) -> None:
    """Have whoever writes next begin anew."""
    with suppress(OSError):
        Path(f"{path}{_SUSPECT}").touch(mode=0o600)


def is_damage(error: BaseException) -> bool:
    """Say whether an error of SQLite means that the bytes of the file are wrong."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return isinstance(error, sqlite3.DatabaseError) and name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def translated(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """Return our error for SQLite's or the system's."""
    if isinstance(error, OSError):
        return StoreUnwritable(
            f"{error.filename or path} cannot be used: {error.strerror or error}",
            hint="make it writable, or free some space",
        )
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{path} is being written by another process", hint="try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR")):
        return StoreUnwritable(f"{path} cannot be used: {error}", hint="make it writable, or free some space")
    return StoreDamaged(f"{path} is damaged: {error}", hint=_REMEDY)


def _founded(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = _connected(path, "mode=rw")
    try:
        if _marks(db) == (0, 0) and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            choose_wal(db, _BUSY_S)
            db.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        _check(db)
        choose_wal(db, _BUSY_S)
        db.execute("PRAGMA synchronous = NORMAL")  # derived: what a power cut takes away is read again
        db.execute("PRAGMA cache_size = -65536")  # rows of uses go everywhere; their pages should still be at hand
        db.execute("PRAGMA wal_autocheckpoint = 4000")
        db.execute("PRAGMA journal_size_limit = 67108864")
        # A page of each table: what is torn shows here, and not in the middle of a run.
        db.execute("SELECT count(*) FROM roots").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _checked(path: Path, mode: str) -> sqlite3.Connection:
    db = _connected(path, mode)
    try:
        _check(db)
        db.execute("PRAGMA cache_size = -16384")
    except BaseException:
        db.close()
        raise
    return db


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?{mode}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _check(db: sqlite3.Connection) -> None:
    if _marks(db) != (APPLICATION_ID, VERSION):
        raise OtherVersion


def _marks(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(application), int(version)
