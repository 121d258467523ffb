"""The file that traces lie in, and what is in it. Opening, and saying in our words what SQLite says about it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from lorelog.core.errors import StoreBusy, StoreError, StoreIncompatible, StoreUnwritable
from lorelog.core.locking import choose_wal

VERSION = 1
_BUSY_S = 5.0
SCHEMA = """
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, tool TEXT NOT NULL, source TEXT NOT NULL,
    project TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, host TEXT NOT NULL, branch TEXT NOT NULL,
    memory TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL, failed INTEGER NOT NULL,
    duration REAL, command TEXT NOT NULL, files TEXT NOT NULL, kept INTEGER NOT NULL
);
CREATE INDEX calls_kept ON calls (kept, at);
CREATE INDEX calls_at ON calls (at);
CREATE INDEX calls_tool ON calls (tool, at);
CREATE INDEX calls_session ON calls (session, at) WHERE session != '';
CREATE INDEX calls_command ON calls (command, at) WHERE command != '';
CREATE TABLE errors (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL UNIQUE, run TEXT NOT NULL, at INTEGER NOT NULL, times INTEGER NOT NULL,
    signature TEXT NOT NULL, family TEXT NOT NULL, type TEXT NOT NULL, message TEXT NOT NULL, language TEXT NOT NULL,
    source TEXT NOT NULL, project TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, host TEXT NOT NULL,
    branch TEXT NOT NULL, memory TEXT NOT NULL, command TEXT NOT NULL, place TEXT NOT NULL, frames TEXT NOT NULL,
    functions TEXT NOT NULL, files TEXT NOT NULL, text TEXT NOT NULL, kept INTEGER NOT NULL
);
CREATE INDEX errors_kept ON errors (kept, at);
CREATE INDEX errors_at ON errors (at);
CREATE INDEX errors_signature ON errors (signature, at);
CREATE INDEX errors_family ON errors (family, at);
CREATE INDEX errors_run ON errors (run) WHERE run != '';
CREATE TABLE ingested (
    size INTEGER NOT NULL, digest TEXT NOT NULL, identity TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (size, digest)
) WITHOUT ROWID;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file for writing, made where it is not; what is no database any more is set aside."""
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        set_aside(path)
    return _connect(path)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file that nothing can be written to, as it lies there."""
    for how in ("mode=ro", "mode=ro&immutable=1"):
        db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_BUSY_S, check_same_thread=False)
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            db.close()
        else:
            return db
    raise sqlite3.OperationalError(f"unable to open {path}")


def set_aside(path: Path) -> None:
    """Let a new one be begun in the place of bytes that are no database."""
    with suppress(OSError):
        path.replace(path.with_name(f"traces.damaged-{time.time_ns()}.db"))
    for suffix in ("-wal", "-shm"):
        with suppress(OSError):
            Path(f"{path}{suffix}").unlink()


def translated(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """Return our error for SQLite's or the system's."""
    if isinstance(error, OSError):
        return StoreUnwritable(f"{path} cannot be used: {error.strerror or error}", hint="make it writable")
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{path} is being written by another process", hint="try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR")):
        return StoreUnwritable(f"{path} cannot be written: {error}", hint="make it writable, or free some space")
    return StoreError(f"{path}: {error}", hint="set it aside: nothing but traces is lost")


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        if db.execute("PRAGMA page_count").fetchone() == (0,):
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # what is dropped is given back, a piece at a time
        choose_wal(db, _BUSY_S)
        db.execute("PRAGMA synchronous = NORMAL")  # traces that a power cut takes away are missed by nobody
        _migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreIncompatible(f"{path} was written by a newer lorelog", hint="update lorelog, or set that file aside")
    if version == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0:  # another process may have been faster
            for statement in filter(str.strip, SCHEMA.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
