"""A tenant's ledger: records appended, whole batches or nothing, safe on disk before anyone is told.

Writers take turns by a lock that other processes honour; readers take none, and see a batch when its last line is there.
What stands at the end without being a whole batch was acknowledged to nobody: the next writer moves it aside.
The lock's file remembers the last line that was acknowledged. It is written after that line is safe, so it may lag behind
and never runs ahead: when it names a line that is not there, lines were taken away, and the next line is chained to what
was acknowledged, so that the gap shows for ever.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lorelog.core.errors import StoreBusy, StoreUnwritable, UsageError
from lorelog.core.identity import new_id
from lorelog.core.record import Draft, Record
from lorelog.records.chain import Entry, Position, walk
from lorelog.records.kinds import check_draft
from lorelog.records.line import NOTHING_BEFORE, decode, encode, hash_of
from lorelog.records.segments import Segments, lines_back, sync_directory
from lorelog.records.verify import Acknowledged, Verification, verify

MOST_BYTES = 64 * 1024 * 1024
"""A segment that has grown to this is sealed before the next write."""
_WAIT_S = 60.0
_PAUSE_S = 0.002
_TICK_NS = 50_000_000
_HEAD = re.compile(rb"(\d{16}) ([0-9a-f]{64}) (\d{9}) (\d{16})\n")
_HINT = "nothing was written; make it writable, or free some space"


@dataclass(frozen=True, slots=True)
class _End:
    """Where the next line goes: how long its file is, and which line it follows."""

    segment: int
    size: int
    seq: int = 0
    hash: str = NOTHING_BEFORE

    def written(self) -> bytes:
        return f"{self.seq:016d} {self.hash} {self.segment:09d} {self.size:016d}\n".encode()


class Ledger:
    """The ledger in a tenant's folder. It holds no file open, and many may stand for one ledger."""

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self._segments = Segments(folder)
        self._lock = folder / "ledger.lock"
        self._torn = folder / "ledger.torn"
        self._most_bytes = most_bytes

    def append(self, drafts: Sequence[Draft]) -> list[Record]:
        """Write drafts as records, all or none, and return them once they are on disk.

        They are returned as they were written. Whether the ledger before them is unbroken, only readers find out.
        """
        if not drafts:
            return []
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for draft in drafts:
            check_draft(draft)
        drafts = [replace(one, id=one.id or new_id(), at=one.at or now) for one in drafts]
        if len({draft.id for draft in drafts}) < len(drafts):
            raise UsageError("two records of one batch have the same id", hint="leave ids out, and each gets its own")
        with self._translating(), self._alone() as lock:
            return self._append(lock, drafts)

    def read(self, after: Position | None = None) -> Iterator[Record]:
        """Yield the records after a position, in order. Lines that are no records are passed over."""
        return (entry.record for entry in self.walk(after) if entry.record is not None)

    def walk(self, after: Position | None = None) -> Iterator[Entry]:
        """Yield what each line after a position says, where it ends, and what is wrong with it."""
        with self._translating():
            yield from walk(self._segments, after or Position())

    def position(self) -> Position:
        """Return where the ledger ends now. Whether it is unbroken up to there, only reading it all can tell."""
        with self._translating():
            end = self._end_of_files()
        return Position(end.segment, end.size, end.seq, end.hash)

    def holds(self, position: Position) -> bool:
        """Say whether the line before a position is still the one that was read there."""
        if position.offset == 0 and position.seq == 0:
            return True
        with self._translating():
            descriptor = self._segments.open(position.segment)
            if descriptor is None:
                return False
            try:
                if os.fstat(descriptor).st_size < position.offset:
                    return False
                found = next(lines_back(descriptor, position.offset), None)
            finally:
                os.close(descriptor)
        return found is not None and found[1] == position.offset and hash_of(found[0]) == position.hash

    def stamp(self, segment: int) -> tuple[int, int, int] | None:
        """Return a segment's inode, size and time of change; None when it is not there."""
        with self._translating():
            descriptor = self._segments.open(segment)
            if descriptor is None:
                return None
            status = os.fstat(descriptor)
            os.close(descriptor)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def marks(self) -> tuple[tuple[str, int, int, int], ...] | None:
        """Return what tells, without reading, whether a file was touched: each one's name, inode, size and time of change.

        None when one is missing, or was touched just now: a second change within a tick of the clock would leave no trace.
        """
        try:
            paths = [self._segments.open_path, *map(self._segments.sealed_path, self._segments.sealed())]
            found = [(path.name, path.lstat()) for path in paths]
        except OSError:
            return None
        if any(time.time_ns() - status.st_ctime_ns < _TICK_NS for _, status in found):
            return None
        return tuple((name, status.st_ino, status.st_size, status.st_ctime_ns) for name, status in found)

    def verify(self) -> Verification:
        """Read the whole ledger and name every line that is not as it was written."""
        with self._translating():
            head = self._head()
            return verify(self._segments, Acknowledged(head.seq, head.hash, head.segment) if head else None)

    def _append(self, lock: int, drafts: Sequence[Draft]) -> list[Record]:
        end = self._end(_read_head(lock))
        if end.size >= self._most_bytes:
            self._seal(end.segment)
            end = replace(end, segment=end.segment + 1, size=0)
        seq, prev, lines = end.seq, end.hash, []
        for left, draft in zip(range(len(drafts) - 1, -1, -1), drafts, strict=True):
            seq += 1
            lines.append(encode(draft, seq, prev, left))
            prev = hash_of(lines[-1])
        text = b"".join(line + b"\n" for line in lines)
        self._write(end.size, text)
        after = _End(end.segment, end.size + len(text), seq, prev)
        with suppress(OSError):  # the ledger says it too; this only guards its end
            os.pwrite(lock, after.written(), 0)
        return [found.record() for line in lines if (found := decode(line)) is not None]

    def _write(self, size: int, text: bytes) -> None:
        path = self._segments.open_path
        descriptor = _open_for_writing(path)
        try:
            try:
                _write_whole(descriptor, text)
                if size == 0:
                    sync_directory(self.folder)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                    os.fsync(descriptor)
                raise
        finally:
            os.close(descriptor)

    def _end(self, head: _End | None) -> _End:
        """Return where the next line goes, with the end of the ledger made whole first."""
        segment = max(self._segments.sealed(), default=0) + 1
        size, is_whole = self._size()
        if head is not None and is_whole and (head.segment, head.size) == (segment, size):
            return head
        self._segments.mend()
        found = self._end_of_files()
        if found.size < size:
            self._set_aside(found.size)
        if head is None or found.seq > head.seq:
            return found
        return replace(found, seq=head.seq, hash=head.hash)

    def _size(self) -> tuple[int, bool]:
        """Return how long the open file is, and whether its last line has an end: the next one must not run into it."""
        try:
            descriptor = os.open(self._segments.open_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0, True
        try:
            size = os.fstat(descriptor).st_size
            return size, not size or os.pread(descriptor, 1, size - 1) == b"\n"
        finally:
            os.close(descriptor)

    def _end_of_files(self) -> _End:
        """Return the end of the last whole batch, as the files have it."""
        segment = max(self._segments.sealed(), default=0) + 1
        for number in range(segment, 0, -1):
            descriptor = self._segments.open(number)
            if descriptor is None:
                continue
            try:
                for line, end in lines_back(descriptor, os.fstat(descriptor).st_size):
                    said = decode(line)
                    if number == segment and said is not None and said.more:
                        continue  # the rest of its batch never came
                    seq = said.seq if said is not None and said.sound else self._last_seq()
                    return _End(segment, end if number == segment else 0, seq, hash_of(line))
            finally:
                os.close(descriptor)
        return _End(segment, 0)

    def _last_seq(self) -> int:
        """Return the number of the last line where the line itself cannot tell."""
        last = 0
        for entry in walk(self._segments, Position()):
            last = entry.position.seq
        return last

    def _set_aside(self, size: int) -> None:
        """Move what stands after the last whole batch to a file of its own."""
        descriptor = _open_for_writing(self._segments.open_path)
        try:
            torn = os.pread(descriptor, os.fstat(descriptor).st_size - size, size)
            aside = _open_for_writing(self._torn)
            try:
                _write_whole(aside, torn + b"\n")
            finally:
                os.close(aside)
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _seal(self, segment: int) -> None:
        descriptor = _open_for_writing(self._segments.open_path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._segments.seal(segment)

    def _head(self) -> _End | None:
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return _read_head(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Keep every other writer out; the lock ends with its holder."""
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync_directory(self.folder.parent)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + _WAIT_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StoreBusy(
                            f"{self._segments.open_path} is being written by another process",
                            hint="nothing was written; try again",
                        ) from None
                    time.sleep(_PAUSE_S)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self._segments.open_path
            raise StoreUnwritable(f"{where} cannot be used: {error.strerror or error}", hint=_HINT) from error


def _read_head(descriptor: int) -> _End | None:
    found = _HEAD.fullmatch(os.pread(descriptor, 200, 0))
    return _End(int(found[3]), int(found[4]), int(found[1]), found[2].decode()) if found else None


def _write_whole(descriptor: int, text: bytes) -> None:
    written = 0
    while written < len(text):
        written += os.write(descriptor, text[written:])
    os.fsync(descriptor)


def _open_for_writing(path: Path) -> int:
    descriptor = os.open(
        path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
    )
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is not a regular file", str(path))
