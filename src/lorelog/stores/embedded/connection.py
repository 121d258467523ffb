"""The writer lock, opening the catalog, and translation of foreign errors into StoreError.

The catalog is opened read-only without any change, or for writing with its schema up to date. Errors of SQLite, tantivy
and the operating system are translated.

The lock is the operating system's (flock), which ends with its process, even after kill -9; the content of the lock
file is only for messages.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import quote

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreIncompatible, StoreUnwritable
from lorelog.core.processes import acquire_file_lock, enable_wal
from lorelog.stores.embedded.migrations import APPLICATION_ID, MIGRATIONS, Migration

REBUILD_HINT = (
    "the index is derived from your files: 'lorelog reset --yes' and 'lorelog index' rebuild it, nothing is lost"
)
DISK_FULL_HINT = "free some space or set LORELOG_HOME to another disk; the existing index is intact"
PERMISSION_HINT = "make it writable or set LORELOG_HOME to another folder; the existing index is intact"

Params = ParamSpec("Params")
ReturnT = TypeVar("ReturnT")

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_DENIED_ERRNOS = {errno.EACCES, errno.EPERM, errno.EROFS}

_SQLITE_ERRORS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("not a database", StoreDamaged, "is not a lorelog index", REBUILD_HINT),
    ("malformed", StoreDamaged, "is damaged", REBUILD_HINT),
    ("no such table", StoreDamaged, "lacks a table", REBUILD_HINT),
    ("no such column", StoreDamaged, "lacks a column", REBUILD_HINT),
    ("locked", StoreBusy, "is in use by another process", "try again in a moment"),
    ("busy", StoreBusy, "is in use by another process", "try again in a moment"),
    ("readonly", StoreUnwritable, "cannot be written", PERMISSION_HINT),
    ("unable to open", StoreUnwritable, "cannot be opened", PERMISSION_HINT),
    ("full", StoreUnwritable, "cannot grow: the disk is full", DISK_FULL_HINT),
    ("disk i/o", StoreUnwritable, "cannot be written: the disk is full or failing", DISK_FULL_HINT),
)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise StoreError for any SQLite or file system error about `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise from_sqlite(error, path) from error
    except OSError as error:
        raise from_os(error, path) from error


def translate_method_errors(method: Callable[Params, ReturnT]) -> Callable[Params, ReturnT]:
    """Translate errors that a method raises about its object's `path`."""

    @functools.wraps(method)
    def translating_method(*args: Params.args, **kwargs: Params.kwargs) -> ReturnT:
        with translate_errors(args[0].path):  # type: ignore[attr-defined]
            return method(*args, **kwargs)

    return translating_method


def from_sqlite(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the StoreError for an SQLite error about `path`."""
    text = str(error).lower()
    for part, error_type, sentence, hint in _SQLITE_ERRORS:
        if part in text:
            return error_type(f"{path} {sentence}", hint=hint)
    return StoreError(f"{path} could not be used: {error}", hint=REBUILD_HINT)


def from_os(error: OSError, path: Path) -> StoreError:
    """Return the StoreError for an operating system error about `path`."""
    file = error.filename or path
    if error.errno in _DISK_FULL_ERRNOS:
        return StoreUnwritable(f"{file} cannot grow: the disk is full", hint=DISK_FULL_HINT)
    if error.errno in _DENIED_ERRNOS:
        return StoreUnwritable(f"{file} cannot be written: {error.strerror}", hint=PERMISSION_HINT)
    return StoreError(f"{file} could not be used: {error.strerror or error}", hint=PERMISSION_HINT)


def from_tantivy(error: Exception, path: Path) -> StoreError:
    """Return the StoreError for tantivy, which raises ValueError with the cause in its text."""
    text = str(error).lower()
    if any(cause in text for cause in ("no space", "file too large", "quota", "storagefull")):
        return StoreUnwritable(f"{path} cannot grow: the disk is full", hint=DISK_FULL_HINT)
    if "lockbusy" in text or "lock busy" in text:
        return StoreBusy(f"{path} is in use by another process", hint="try again in a moment")
    if "permission denied" in text or "read-only" in text:
        return StoreUnwritable(f"{path} cannot be written", hint=PERMISSION_HINT)
    return StoreDamaged(f"{path} could not be used: {error}", hint=REBUILD_HINT)


@contextmanager
def hold_lock(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock at `path`. Raise StoreBusy if another process holds it for longer than `wait_s`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, path, wait_s)
        _write_owner(descriptor)
        yield
    finally:
        # Closing releases the lock. The file is kept: removing it would let two processes lock two different files.
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, wait_s: float) -> None:
    if not acquire_file_lock(descriptor, wait_s):
        raise StoreBusy(
            f"the index is being written by {_format_owner(descriptor)} ({path.name})",
            hint="wait until it finishes, or end that process",
        )


def _write_owner(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "since": int(time.time())}).encode(), 0)


def _format_owner(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 200, 0))
        age = max(0, int(time.time()) - owner["since"])
    except (ValueError, KeyError, TypeError):
        return "another process"
    return f"process {owner['pid']}, for {age} s"


_BUSY_TIMEOUT_MS = 10_000
_CHECKPOINT_TRIES, _CHECKPOINT_PAUSE_S = 20, 0.1


def open_reader(path: Path) -> sqlite3.Connection:
    """Open an existing catalog read-only.

    SQLite writes next to a WAL database even to read it. If that is forbidden (a read-only home) and the WAL is empty, the
    file is complete and is opened as immutable.
    """
    with translate_errors(path):
        try:
            return _connect_checked(path, "mode=ro")
        except sqlite3.OperationalError:
            wal = path.with_name(path.name + "-wal")
            if os.access(path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size):
                raise
            return _connect_checked(path, "immutable=1")


def open_writer(path: Path, migrations: tuple[Migration, ...] = MIGRATIONS) -> sqlite3.Connection:
    """Open or create the catalog and migrate its schema. The caller holds the writer lock."""
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = _connect_checked(path, "mode=rwc", len(migrations))
        try:
            # The catalog is derived: NORMAL survives kill -9, and after a power failure the file stamps show what to redo.
            enable_wal(database, _BUSY_TIMEOUT_MS / 1000)
            database.execute("PRAGMA synchronous = NORMAL")
            _migrate(database, migrations)
            path.chmod(0o600)
        except BaseException:
            database.close()
            raise
        return database


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Run a block in one transaction; any exception rolls it back."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # SQLite may have rolled back already (disk full); a second ROLLBACK would hide the first error.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


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


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"file:{quote(str(path))}?{mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_TIMEOUT_MS / 1000,
    )
    database.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    return database


def _connect_checked(path: Path, mode: str, known_version: int = len(MIGRATIONS)) -> sqlite3.Connection:
    database = _connect(path, mode)
    try:
        # One transaction, one snapshot: a writer may create the schema between two queries.
        database.execute("BEGIN")
        _check_version(database, path, known_version)
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def _check_version(database: sqlite3.Connection, path: Path, known_version: int) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    application = database.execute("PRAGMA application_id").fetchone()[0]
    if version == application == tables == 0:
        return
    if application != APPLICATION_ID:
        raise StoreIncompatible(f"{path} is a database of another program", hint="move it away; " + REBUILD_HINT)
    if version > known_version:
        raise StoreIncompatible(
            f"{path} was written by a newer lorelog (schema {version}, this version supports up to {known_version})",
            hint="upgrade lorelog, or rebuild the index: " + REBUILD_HINT,
        )
    if version < 1:
        raise StoreDamaged(f"{path} has no schema version", hint=REBUILD_HINT)


def _migrate(database: sqlite3.Connection, migrations: tuple[Migration, ...]) -> None:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    for number, migration in enumerate(migrations[version:], start=version + 1):
        with transaction(database):
            migration(database)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {number}")
