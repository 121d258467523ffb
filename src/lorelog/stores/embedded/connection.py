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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreIncompatible, StoreUnwritable
from lorelog.core.processes import acquire_file_lock, enable_wal
from lorelog.core.sqlite_file import connect, connect_readonly, transaction
from lorelog.stores.embedded.migrations import APPLICATION_ID, FIRST_VERSION, MIGRATIONS, SCHEMA_VERSION, Migration

REBUILD_HINT = (
    "the index is derived from your files: 'lorelog reset --yes' and 'lorelog index' rebuild it, nothing is lost"
)
DAMAGE_HINT = (
    "the index is derived from your files: 'lorelog index' rebuilds it and keeps the damaged one, nothing is lost"
)
IN_THE_WAY_HINT = "move it away; the index is derived from your files, and 'lorelog index' builds it"
OPEN_FILES_HINT = "close other programs, or raise the limit: 'ulimit -n 1024'"
DISK_FULL_HINT = "free some space or set LORELOG_HOME to another disk; the existing index is intact"
PERMISSION_HINT = "make it writable or set LORELOG_HOME to another folder; the existing index is intact"

Params = ParamSpec("Params")
ReturnT = TypeVar("ReturnT")

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_DENIED_ERRNOS = {errno.EACCES, errno.EPERM, errno.EROFS}

_SQLITE_ERRORS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("not a database", StoreDamaged, "is not a lorelog index", DAMAGE_HINT),
    ("malformed", StoreDamaged, "is damaged", DAMAGE_HINT),
    ("no such table", StoreDamaged, "lacks a table", DAMAGE_HINT),
    ("no such column", StoreDamaged, "lacks a column", DAMAGE_HINT),
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
    obstacle = _find_obstacle(path)
    if obstacle is not None:
        return obstacle
    if _has_no_free_descriptor():
        return _out_of_descriptors(path)
    for part, error_type, sentence, hint in _SQLITE_ERRORS:
        if part in text:
            return error_type(f"{path} {sentence}", hint=hint)
    return StoreError(f"{path} could not be used: {error}", hint=REBUILD_HINT)


def from_os(error: OSError, path: Path) -> StoreError:
    """Return the StoreError for an operating system error about `path`."""
    file = error.filename or path
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return _out_of_descriptors(path)
    if error.errno in {errno.ENOTDIR, errno.EISDIR, errno.EEXIST}:
        obstacle = _find_obstacle(path)
        if obstacle is not None:
            return obstacle
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
    if "too many open files" in text or "os error 24" in text:
        return _out_of_descriptors(path)
    if "lockbusy" in text or "lock busy" in text:
        return StoreBusy(f"{path} is in use by another process", hint="try again in a moment")
    if "permission denied" in text or "read-only" in text:
        return StoreUnwritable(f"{path} cannot be written", hint=PERMISSION_HINT)
    return StoreDamaged(f"{path} could not be used: {error}", hint=REBUILD_HINT)


def _find_obstacle(path: Path) -> StoreUnwritable | None:
    """Return the error for a directory in the place of a file, or a file in the place of a directory above it."""
    if path.suffix == ".db" and path.is_dir():
        return StoreUnwritable(f"{path} is a directory, not a file of the index", hint=IN_THE_WAY_HINT)
    for folder in (path, *path.parents):
        if (folder.is_file() and folder != path) or (folder == path and not path.suffix and path.is_file()):
            return StoreUnwritable(f"{folder} is a file, not a directory", hint=IN_THE_WAY_HINT)
    return None


def _has_no_free_descriptor() -> bool:
    """SQLite does not say why it could not open a file: try to open one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in {errno.EMFILE, errno.ENFILE}
    return False


def _out_of_descriptors(path: Path) -> StoreUnwritable:
    return StoreUnwritable(f"{path} cannot be opened: too many files are open", hint=OPEN_FILES_HINT)


def find_catalog_damage(path: Path) -> str:
    """Read the whole catalog; return what is wrong with it, or an empty string. Another version is not damage."""
    if not path.is_file():
        return ""
    try:
        with closing(connect(path, "mode=ro", _BUSY_S)) as database:
            found = [str(row[0]) for row in database.execute("PRAGMA quick_check(3)")]
            _check_version(database, path, SCHEMA_VERSION)
    except sqlite3.DatabaseError as error:
        translated = from_sqlite(error, path)
        return translated.message if isinstance(translated, StoreDamaged) else ""
    except StoreDamaged as error:
        return error.message
    except StoreError:
        return ""
    return "" if found == ["ok"] else f"{path.name} is damaged: {found[0] if found else 'unreadable'}"


def set_aside(path: Path) -> Path:
    """Rename a catalog to `NAME.bad-<time>` and delete the files that belong to it. The caller holds the writer lock."""
    aside = path.with_name(f"{path.name}.bad-{time.strftime('%Y%m%d-%H%M%S')}")
    for old in path.parent.glob(f"{path.name}.bad-*"):  # one is enough: they are large and derived
        old.unlink(missing_ok=True)
    path.replace(aside)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return aside


@contextmanager
def hold_lock(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock at `path`. Raise StoreBusy if another process holds it for longer than `wait_s`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not acquire_file_lock(descriptor, wait_s):
            holder, since = _read_owner(descriptor)
            raise StoreBusy(
                f"the index is being written by {holder}{since}",
                hint="wait until it finishes, or end that process",
                holder=holder,
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "since": int(time.time())}).encode(), 0)
        yield
    finally:
        # Closing releases the lock. The file is kept: removing it would let two processes lock two different files.
        os.close(descriptor)


def _read_owner(descriptor: int) -> tuple[str, str]:
    """Return who holds a lock, and for how long if that is known."""
    try:
        owner = json.loads(os.pread(descriptor, 200, 0))
        age = max(0, int(time.time()) - owner["since"])
    except (ValueError, KeyError, TypeError):
        return "another process", ""
    return f"process {owner['pid']}", f", for {age} s"


_BUSY_S = 10.0
_CACHE_KIB = 6_000
"""Pages kept by a connection. `places` of 100,000 chunks and its index fit; SQLite's 2,000 KiB would be read anew in every search."""
_WRITER_CACHE_KIB = 64_000
"""The most that a writer keeps. Ids and hashes are spread over their indexes, so that each chunk changes pages all over them."""
_WRITER_LOG_PAGES = 1_000
"""Pages of the write-ahead log after which they are copied to the database."""
_MIN_FREE_BYTES = 4_000_000
_PAGE_BYTES = 16_384
"""Eleven chunks fill one; of 4,096 bytes, one chunk filled half."""


def open_reader(path: Path) -> sqlite3.Connection:
    """Open an existing catalog read-only."""

    def check(database: sqlite3.Connection) -> None:
        # One transaction, one snapshot: a writer may create the schema between two queries.
        database.execute("BEGIN")
        _check_version(database, path, SCHEMA_VERSION)
        database.execute("COMMIT")
        database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")

    with translate_errors(path):
        return connect_readonly(path, _BUSY_S, check)


def open_writer(path: Path, migrations: tuple[Migration, ...] = MIGRATIONS) -> sqlite3.Connection:
    """Open or create the catalog and migrate its schema. The caller holds the writer lock."""
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = connect(path, busy_s=_BUSY_S)
        try:
            _check_version(database, path, FIRST_VERSION + len(migrations) - 1)
            path.chmod(0o600)  # before the -wal and -shm files, which SQLite creates with the same mode
            # The catalog is derived: NORMAL survives kill -9, and after a power failure the file stamps show what to redo.
            database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a new catalog
            enable_wal(database, _BUSY_S)
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
            database.execute(f"PRAGMA wal_autocheckpoint = {_WRITER_LOG_PAGES}")
            _migrate(database, migrations)
        except BaseException:
            database.close()
            raise
        return database


def shrink_database(database: sqlite3.Connection) -> None:
    """Return free pages to the file system if they are more than a third: what a migration or a large removal left."""
    names = ("freelist_count", "page_count", "page_size")
    free, pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    if free * size > max(_MIN_FREE_BYTES, pages * size // 3):
        database.execute("VACUUM")


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
    if version < FIRST_VERSION:
        raise StoreDamaged(f"{path} has schema {version}, which was never released", hint=DAMAGE_HINT)


def _migrate(database: sqlite3.Connection, migrations: tuple[Migration, ...]) -> None:
    """Apply the missing steps in one transaction: a reader must not see the schema in between."""
    version = database.execute("PRAGMA user_version").fetchone()[0]
    missing = migrations[max(0, version - FIRST_VERSION + 1) :]
    if not missing:
        return
    with transaction(database):
        for migration in missing:
            migration(database)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {FIRST_VERSION + len(migrations) - 1}")


def folder_bytes(folder: Path) -> int:
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:  # a lane may be swapped in the meantime
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += folder_bytes(Path(entry.path))
            else:
                with suppress(OSError):
                    total += entry.stat().st_size
    return total
