"""A small file beside the index that is only ever appended to, one JSON object a line, flushed to disk before anyone is told.

What is written there is said nowhere else, so nothing in it is lost to a crash, a full disk or two writers at once: appending
takes a lock, a write that fails is taken back to the byte, and a torn last line, which a power cut may leave, is passed
over and cut off by the next one to append. Any other line that cannot be read is an error: what is passed over would not
hold. Only its owner may read it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from lorelog.core.errors import StoreDamaged, StoreError, StoreUnwritable

Line = TypeVar("Line")

Stamp = tuple[int, int, int]


class Appended(Generic[Line]):
    """One file of lines, read again whenever it has changed. `read` makes a value of a line's object, or raises."""

    def __init__(self, path: Path, read: Callable[[Any], Line]) -> None:
        self.path = path
        self._read = read
        self._seen: Stamp | None = None
        self._lines: tuple[Line, ...] = ()

    def lines(self) -> tuple[Line, ...]:
        """Return what is written, in order. The same tuple comes back for as long as nothing was appended."""
        seen = self.stamp()
        if seen != self._seen:
            # Asked before it is read: what is appended in between is another stamp the next time.
            self._lines, self._seen = tuple(self._read_all()), seen
        return self._lines

    def stamp(self) -> Stamp:
        """Return what the file system says of the file; it changes with every line."""
        try:
            status = self.path.stat()
        except OSError:  # none yet, or none that can be read, which reading says
            return (-1, 0, 0)
        return (status.st_size, status.st_mtime_ns, status.st_ino)

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines down; they hold when this returns."""
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                _append(descriptor, text.encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnwritable(
                f"{self.path} cannot be written: {error.strerror}", hint="nothing was changed; make it writable"
            ) from error
        self._seen = None

    def _read_all(self) -> list[Line]:
        try:
            held = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error
        try:
            return [self._read(json.loads(line)) for line in held[:-1] if line]  # what is after the last break is torn
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"{self.path} has a line that cannot be read: {error}",
                hint="correct or delete that line; each line is one JSON object",
            ) from error


def _append(descriptor: int, text: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a torn line must not swallow the next one
        while size and os.pread(descriptor, 1, size - 1) != b"\n":
            size -= 1
        os.ftruncate(descriptor, size)
    try:
        written = 0
        while written < len(text):
            written += os.write(descriptor, text[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise
