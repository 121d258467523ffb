"""Reading and replacing one indexed Markdown file, and nothing else of this machine.

A path counts only if the index holds a document of exactly that name. Between looking it up and opening it, anybody may
swap a directory or the file for a link; so each component is opened by itself, from the root directory down, and none may
be a link. What was opened is what is read, and a new version takes its place under the same open directory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lorelog.core.locking import locks_within
from lorelog.surfaces.http.faults import Refusal

SUFFIXES = (".md", ".markdown")

_LINK_FREE = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _LINK_FREE
_LOCK_S = 10.0
_NOT_OURS = {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EINVAL}


def checked_path(path: str) -> str:
    """Return a path that could be an indexed file's. Raise Refusal for one that could not."""
    if not path:
        raise Refusal(400, "usage", "path is required")
    if "\0" in path:
        raise Refusal(400, "usage", "path must not contain NUL")
    if not path.startswith("/"):
        raise Refusal(400, "usage", "path must be absolute")
    if not path.lower().endswith(SUFFIXES):
        raise Refusal(400, "usage", "path must be a .md file")
    return path


def not_indexed() -> Refusal:
    """Return the refusal of a path that is no document of the index, seen from where one stands."""
    return Refusal(403, "forbidden", "path is not an indexed memory file")


def tag_of(data: bytes) -> str:
    """Return the entity tag of a file's content."""
    return f'"{hashlib.sha256(data).hexdigest()}"'


def read_file(path: str, limit: int) -> bytes:
    """Return the bytes of an indexed file, by its real path."""
    with _translated(), _directory_of(path) as directory, _opened(path, directory, os.O_RDONLY) as descriptor:
        return _whole(descriptor, limit)


def replace_file(path: str, data: bytes, limit: int, expected: str = "") -> None:
    """Replace an indexed file at once and durably, its mode kept. `expected` names the tags of which it must have one."""
    flags = os.O_RDWR if expected else os.O_WRONLY
    with _translated(), _directory_of(path) as directory, _opened(path, directory, flags) as descriptor:
        _lock(descriptor)
        status = os.fstat(descriptor)
        _check_still_there(path, directory, status)
        if expected not in ("", "*") and tag_of(_whole(descriptor, limit)) not in _tags(expected):
            raise Refusal(412, "changed", "file has changed", hint="read it again, and put your change into that")
        _swap(path.rpartition("/")[2], directory, data, status)


def _tags(expected: str) -> list[str]:
    return [one.strip() for one in expected.split(",")]


@contextmanager
def _directory_of(path: str) -> Iterator[int]:
    """Give the directory of a path, reached without passing through a link."""
    *parents, _ = path.split("/")[1:]
    if any(part in {"", ".", ".."} for part in parents):
        raise not_indexed()
    descriptor = os.open("/", _DIRECTORY)
    try:
        for part in parents:
            inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(path: str, directory: int, flags: int) -> Iterator[int]:
    name = path.rpartition("/")[2]
    descriptor = os.open(name, flags | _LINK_FREE | os.O_NONBLOCK, dir_fd=directory)  # a pipe would keep us waiting
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise not_indexed()
        yield descriptor
    finally:
        os.close(descriptor)


def _whole(descriptor: int, limit: int) -> bytes:
    parts, size = [], 0
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise Refusal(413, "too_large", "file too large")
    return b"".join(parts)


def _lock(descriptor: int) -> None:
    """Take the lock that whoever appends to a journal holds."""
    if not locks_within(descriptor, _LOCK_S):
        raise Refusal(503, "store_busy", "file is locked by another program")


def _check_still_there(path: str, directory: int, ours: os.stat_result) -> None:
    there = os.stat(path.rpartition("/")[2], dir_fd=directory, follow_symlinks=False)
    if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino):
        raise Refusal(409, "changed", "file was replaced meanwhile", hint="read it again")


def _swap(name: str, directory: int, data: bytes, before: os.stat_result) -> None:
    """Put a new file in the place of the old one; whoever reads sees one or the other, also after a crash."""
    # Hidden, so that no scan takes it for a note; short, because the name may be as long as names can be.
    beside = f".lorelog-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _LINK_FREE, 0o600, dir_fd=directory)
    try:
        try:
            with suppress(PermissionError):  # the owner is not ours to choose; then it is ours
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=directory)
        raise
    _sync(directory)


def _sync(directory: int) -> None:
    """Make the new name as durable as its bytes, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Refusal(404, "not_found", "file not found") from None
    except PermissionError:
        raise Refusal(403, "forbidden", "file may not be read or written") from None
    except OSError as error:
        if error.errno in _NOT_OURS:
            raise not_indexed() from None
        full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
        raise Refusal(507 if full else 500, "store_unwritable", f"file: {error.strerror}") from None
