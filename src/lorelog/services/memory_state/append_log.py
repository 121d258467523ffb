"""An append-only file beside the index, one JSON object per line, flushed to disk before `append` returns.

The file is the only copy of its data, so neither a crash, a full disk nor concurrent writers may lose a line: appending takes
a lock, a failed write is rolled back, and a torn last line (after a power cut) is ignored and cut off by the next append. Any
other malformed line is an error: a skipped line would lose, for example, a deletion. Only the owner may read the file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from lorelog.core.errors import StoreDamaged, StoreError, StoreUnwritable

LineT = TypeVar("LineT")

FileStamp = tuple[int, int, int]


class AppendLog(Generic[LineT]):
    """One file of lines, read again whenever it has changed. `parse` converts a line's object, or raises."""

    def __init__(self, path: Path, parse: Callable[[Any], LineT]) -> None:
        self.path = path
        self._parse = parse
        self._seen: FileStamp | None = None
        self._lines: tuple[LineT, ...] = ()

    def lines(self) -> tuple[LineT, ...]:
        """Return all lines in order; the same tuple as long as nothing was appended."""
        seen = self.stamp()
        if seen != self._seen:
            # The stamp was taken before the read: a line appended in between changes it for the next call.
            self._lines, self._seen = tuple(self._read_all()), seen
        return self._lines

    def stamp(self) -> FileStamp:
        """Return size, time and inode of the file; they change with every line."""
        try:
            status = self.path.stat()
        except OSError:  # no file, or an unreadable one, which _read_all reports
            return (-1, 0, 0)
        return (status.st_size, status.st_mtime_ns, status.st_ino)

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines; they are on disk when this returns."""
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                _append_text(descriptor, text.encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnwritable(
                f"{self.path} cannot be written: {error.strerror}", hint="nothing was changed; make the file writable"
            ) from error
        self._seen = None

    def _read_all(self) -> list[LineT]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error
        try:
            return [self._parse(json.loads(line)) for line in lines[:-1] if line]  # text after the last newline is torn
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"{self.path} has a line that cannot be read: {error}",
                hint="correct or delete that line; each line is one JSON object",
            ) from error


def _append_text(descriptor: int, text: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":  # cut off a torn line
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
