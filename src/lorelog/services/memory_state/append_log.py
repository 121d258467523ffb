"""An append-only file beside the index, one JSON object per line, flushed to disk before `append` returns.

The file is the only copy of its data, so neither a crash, a full disk nor concurrent writers may lose a line: appending takes
a lock, a failed write is rolled back, and a torn last line (after a power cut) is ignored and cut off by the next append. Any
other malformed line is skipped and kept where it is, and `lorelog doctor` names it: one bad byte must not end every search. A log
in which a skipped line would do harm can save what is left of it (`salvage`), or reject the whole file (`is_strict`). Only the
owner may read the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from lorelog.core.atomic_file import OpenDescriptor, Writing, append_lines, open_to_append
from lorelog.core.errors import StoreDamaged, StoreError
from lorelog.core.processes import acquire_file_lock

LineT = TypeVar("LineT")
FoldT = TypeVar("FoldT")

FileStamp = tuple[int, int, int]
_COMPARED_BYTES = 4_096
"""Bytes before the last read's end that are compared with the file, in case it was edited."""


def encode_line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


BadLine = tuple[int, str]
"""Number and reason of a line that cannot be read; number 0 stands for the whole file."""


class AppendLog(Generic[LineT]):
    """One file of lines, read again whenever it has changed. `parse` converts a line's object, or raises.

    With `is_long`, lines that were appended since the last read are read alone: for files that nobody edits. `salvage` returns
    what a malformed line still says, or None. With `is_strict`, a malformed line raises StoreDamaged. With `is_optional`, a file
    that cannot be read at all counts as empty.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[Any], LineT],
        *,
        is_long: bool = False,
        is_strict: bool = False,
        is_optional: bool = False,
        salvage: Callable[[bytes], LineT | None] = lambda _: None,
    ) -> None:
        self.path = path
        self._parse = parse
        self._salvage = salvage
        self._is_long, self._is_strict, self._is_optional = is_long, is_strict, is_optional
        self._bad_lines: tuple[BadLine, ...] = ()
        self._line_count = 0
        self._seen: FileStamp | None = None
        self._lines: tuple[LineT, ...] = ()
        self._end, self._last = 0, b""
        """Length of what was read, and the bytes before that point."""
        self._folded: tuple[object, Any] = (None, None)

    def lines(self) -> tuple[LineT, ...]:
        """Return all lines in order; the same tuple as long as nothing was appended."""
        seen = self.stamp()
        if seen != self._seen:
            # The stamp was taken before the read: a line appended in between changes it for the next call.
            is_same_file = self._seen is None or (self._seen[2] == seen[2] and self._seen[0] < seen[0])
            if not (self._is_long and is_same_file):
                self._end, self._last = 0, b""
            self._lines, self._seen = self._read(), seen
        return self._lines

    def folded(self, fold: Callable[[tuple[LineT, ...]], FoldT]) -> FoldT:
        """Return what a function makes of all lines; it is called again only if they have changed."""
        lines = self.lines()
        if self._folded[0] is not lines:
            self._folded = (lines, fold(lines))
        return cast("FoldT", self._folded[1])

    def bad_lines(self) -> tuple[BadLine, ...]:
        self.lines()
        return self._bad_lines

    def stamp(self) -> FileStamp:
        """Return size, time and inode of the file; they change with every line."""
        try:
            status = self.path.stat()
        except OSError:  # no file, or an unreadable one, which _read reports
            return (-1, 0, 0)
        return (status.st_size, status.st_mtime_ns, status.st_ino)

    @property
    def token(self) -> str:
        """Changes with every line."""
        return "{}.{}.{}".format(*self.stamp())

    def append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines; they are on disk when this returns."""
        lines = list(lines)
        # Lines of several machines are ordered by `at`: a change must not be earlier than what it changes, whatever the clocks say.
        with suppress(OSError, ValueError, LookupError, TypeError), self.path.open("rb") as stream:
            stream.seek(max(0, self.path.stat().st_size - _COMPARED_BYTES))
            latest = json.loads(stream.read().rstrip(b"\n").rpartition(b"\n")[2])["at"]
            lines = [{**line, "at": _later(line["at"], latest)} if "at" in line else line for line in lines]
        data = b"".join(map(encode_line, lines))
        with Writing(self.path, hint="nothing was changed; make the file writable"):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            while not self._append(data):
                pass  # `lorelog forget` has just replaced the file
        self._seen = None

    def _append(self, data: bytes) -> bool:
        """Append to the file; return False if another process replaced it while we waited for the lock."""
        with OpenDescriptor(open_to_append(self.path)) as descriptor:
            acquire_file_lock(descriptor)
            if not os.fstat(descriptor).st_nlink:
                return False
            append_lines(descriptor, data, is_exclusive=True)
        return True

    def _read(self) -> tuple[LineT, ...]:
        """Return the lines of the last read and those after it; all are read again if the file is another one."""
        known, end, last = self._lines if self._end else (), self._end, self._last
        self._end, self._last = 0, b""
        try:
            with self.path.open("rb") as stream:
                stream.seek(end - len(last))
                data = stream.read()
                if not data.startswith(last):
                    known, end, last = (), 0, b""
                    stream.seek(0)
                    data = stream.read()
        except FileNotFoundError:
            self._bad_lines, self._line_count = (), 0
            return ()
        except OSError as error:
            if self._is_optional:
                self._bad_lines = ((0, error.strerror or str(error)),)
                return ()
            raise StoreError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions") from error
        if not end:
            self._bad_lines, self._line_count = (), 0
        whole = data[: data.rfind(b"\n") + 1]  # text after the last newline is torn
        lines = (*known, *self._parse_lines(whole[len(last) :]))
        self._end, self._last = end - len(last) + len(whole), whole[-_COMPARED_BYTES:]
        return lines

    def _parse_lines(self, data: bytes) -> list[LineT]:
        parsed: list[LineT] = []
        for number, line in enumerate(data.split(b"\n")[:-1], self._line_count + 1):
            if not line.strip():
                continue
            try:
                parsed.append(self._parse(json.loads(line)))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                if self._is_strict:
                    raise StoreDamaged(
                        f"{self.path} has a line that cannot be read: {number} ({error})",
                        hint="correct or delete that line; each line is one JSON object",
                    ) from error
                self._bad_lines += ((number, str(error)),)
                rest = self._salvage(line)
                parsed += [] if rest is None else [rest]
        self._line_count += data.count(b"\n")
        return parsed


def _later(at: str, latest: str) -> str:
    """Return a time, or the second after the latest one if that is in the future."""
    try:
        now, before = datetime.fromisoformat(at), datetime.fromisoformat(latest)
        return at if now >= before else (before + timedelta(seconds=1)).isoformat(timespec="seconds")
    except (ValueError, TypeError, OverflowError):
        return at
