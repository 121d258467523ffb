"""Opening the catalog: for reading without creating or changing anything, for writing with the schema brought up to date."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from lorelog.core.errors import StoreDamaged, StoreIncompatible
from lorelog.core.locking import choose_wal
from lorelog.stores.embedded.faults import REBUILD, translating
from lorelog.stores.embedded.migrations import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION

_BUSY_MS = 10_000


def open_reader(path: Path) -> sqlite3.Connection:
    """Open an existing catalog read-only.

    A WAL database wants to write beside itself even to be read. Where that is forbidden (read-only home) and no
    log is left to replay, the file itself is the whole truth and is opened as immutable.
    """
    with translating(path):
        try:
            return _connect_checked(path, "mode=ro")
        except sqlite3.OperationalError:
            log = path.with_name(path.name + "-wal")
            if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
                raise
            return _connect_checked(path, "immutable=1")


def open_writer(path: Path) -> sqlite3.Connection:
    """Open or create the catalog and bring its schema up to date. The caller holds the writer's lock."""
    with translating(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = _connect_checked(path, "mode=rwc")
        try:
            # The catalog is derived: NORMAL survives kill -9, and after a power cut the files' stamps show what to redo.
            choose_wal(database, _BUSY_MS / 1000)
            database.execute("PRAGMA synchronous = NORMAL")
            _migrate(database)
            path.chmod(0o600)
        except BaseException:
            database.close()
            raise
        return database


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Run a block in one transaction; whatever is raised undoes all of it."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # A full disk may have rolled back already; a second ROLLBACK would hide the first error.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"file:{quote(str(path))}?{mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_MS / 1000,
    )
    database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return database


def _connect_checked(path: Path, mode: str) -> sqlite3.Connection:
    database = _connect(path, mode)
    try:
        # One transaction, one snapshot: between two questions a writer may found the catalog.
        database.execute("BEGIN")
        _check_version(database, path)
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def _check_version(database: sqlite3.Connection, path: Path) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    application = database.execute("PRAGMA application_id").fetchone()[0]
    if version == 0 and application == 0:
        if tables:
            raise StoreIncompatible(f"{path} is a database of another program", hint="move it away; " + REBUILD)
        return
    if application != APPLICATION_ID:
        raise StoreIncompatible(f"{path} is a database of another program", hint="move it away; " + REBUILD)
    if version > SCHEMA_VERSION:
        raise StoreIncompatible(
            f"{path} was written by a newer lorelog (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="upgrade lorelog, or start the index anew: " + REBUILD,
        )
    if version < 1:
        raise StoreDamaged(f"{path} has no schema version", hint=REBUILD)


def _migrate(database: sqlite3.Connection) -> None:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
        with transaction(database):
            migration(database)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {number}")
