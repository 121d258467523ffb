"""Foreign errors become ours here, and only here: SQLite's, tantivy's and the operating system's."""

from __future__ import annotations

import errno
import functools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable

REBUILD = "the index is derived from your files: 'lorelog reset --yes' and 'lorelog index' rebuild it, nothing is lost"
ROOM = "free some space or point LORELOG_HOME elsewhere; what was indexed before is still there"
PERMIT = "make it writable or point LORELOG_HOME elsewhere; what was indexed before is still there"

Arguments = ParamSpec("Arguments")
Reply = TypeVar("Reply")

_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}

_SQLITE: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("not a database", StoreDamaged, "is not a lorelog index", REBUILD),
    ("malformed", StoreDamaged, "is damaged", REBUILD),
    ("no such table", StoreDamaged, "lacks a table it should have", REBUILD),
    ("no such column", StoreDamaged, "lacks a column it should have", REBUILD),
    ("locked", StoreBusy, "is held by another process", "try again in a moment"),
    ("busy", StoreBusy, "is held by another process", "try again in a moment"),
    ("readonly", StoreUnwritable, "cannot be written", PERMIT),
    ("unable to open", StoreUnwritable, "cannot be opened", PERMIT),
    ("full", StoreUnwritable, "cannot grow: the disk is full", ROOM),
    ("disk i/o", StoreUnwritable, "cannot be written: the disk is full or failing", ROOM),
)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Raise StoreError for whatever SQLite or the file system raises about `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise from_sqlite(error, path) from error
    except OSError as error:
        raise from_os(error, path) from error


def translated(method: Callable[Arguments, Reply]) -> Callable[Arguments, Reply]:
    """Translate what a method raises about its object's `path`."""

    @functools.wraps(method)
    def translating_method(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Reply:
        with translating(args[0].path):  # type: ignore[attr-defined]
            return method(*args, **kwargs)

    return translating_method


def from_sqlite(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the StoreError that says what SQLite said about `path`."""
    said = str(error).lower()
    for part, kind, sentence, hint in _SQLITE:
        if part in said:
            return kind(f"{path} {sentence}", hint=hint)
    return StoreError(f"{path} could not be used: {error}", hint=REBUILD)


def from_os(error: OSError, path: Path) -> StoreError:
    """Return the StoreError that says what the operating system said about `path`."""
    where = error.filename or path
    if error.errno in _FULL:
        return StoreUnwritable(f"{where} cannot grow: the disk is full", hint=ROOM)
    if error.errno in _DENIED:
        return StoreUnwritable(f"{where} cannot be written: {error.strerror}", hint=PERMIT)
    return StoreError(f"{where} could not be used: {error.strerror or error}", hint=PERMIT)


def from_tantivy(error: Exception, path: Path) -> StoreError:
    """Return the StoreError for tantivy, which raises ValueError with the cause in its text."""
    said = str(error).lower()
    if "no space" in said or "file too large" in said or "quota" in said or "storagefull" in said:
        return StoreUnwritable(f"{path} cannot grow: the disk is full", hint=ROOM)
    if "lockbusy" in said or "lock busy" in said:
        return StoreBusy(f"{path} is held by another process", hint="try again in a moment")
    if "permission denied" in said or "read-only" in said:
        return StoreUnwritable(f"{path} cannot be written", hint=PERMIT)
    return StoreDamaged(f"{path} could not be used: {error}", hint=REBUILD)
