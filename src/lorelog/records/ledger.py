"""A tenant's ledger: records are appended in whole batches and are on disk before the call returns.

Writers are serialised by a lock file across processes; readers take no lock and see a batch once its last line is
written. An incomplete batch at the end was never acknowledged; the next writer moves it to a separate file. The lock file
also stores the last acknowledged line. It is written after that line is on disk, so it may lag behind but never runs
ahead: if it refers to a line that does not exist, lines were removed, and the next line is chained to the acknowledged
one, so that the gap stays visible forever.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from lorelog.core import atomic_file
from lorelog.core.errors import NotFound, StoreBusy, UsageError
from lorelog.core.ids import new_id
from lorelog.core.processes import FileLock
from lorelog.core.record import REDACTION_KIND, Record, RecordDraft
from lorelog.records import chain
from lorelog.records.kinds import check_draft

MAX_SEGMENT_BYTES = 64 * 1024 * 1024
"""A segment of this size is sealed before the next write."""
_LOCK_TIMEOUT_S = 60.0
_CLOCK_TICK_NS = 50_000_000
_HEAD_PATTERN = re.compile(rb"(\d{16}) ([0-9a-f]{64}) (\d{9}) (\d{16})\n")
_UNWRITABLE_HINT = "nothing was written; make it writable, or free some space"


DraftSigner = Callable[[RecordDraft], RecordDraft]
"""Returns a draft with its signature, as `Keyring.sign` does."""


class Ledger:
    """The ledger in a tenant's folder. It keeps no file open; several objects may share one ledger."""

    def __init__(self, folder: Path, *, max_segment_bytes: int = MAX_SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segments = chain.Segments(folder)
        self._lock = folder / "ledger.lock"
        self._torn = folder / "ledger.torn"
        self._redacting = folder / "ledger.redacting"
        """Exists while texts are removed, so that the next writer continues after a crash."""
        self._max_segment_bytes = max_segment_bytes

    def append(self, drafts: Sequence[RecordDraft]) -> list[Record]:
        """Write drafts as records, all or none, and return them once they are on disk.

        The returned records are unverified: only readers check whether the ledger before them is unbroken.
        """
        if not drafts:
            return []
        for draft in drafts:
            check_draft(draft)
        drafts = [replace(draft, id=draft.id or new_id(), at=draft.at or utc_time()) for draft in drafts]
        if len({draft.id for draft in drafts}) < len(drafts):
            raise UsageError("two records of a batch have the same id", hint="omit the ids to have them generated")
        with self._translate_errors(), self._exclusive_lock() as lock:
            self._complete_redactions(lock)
            return self._append(lock, drafts)

    def redact(
        self, ids: Collection[str], *, actor: str, reason: str, sign: DraftSigner | None = None
    ) -> tuple[Record, ...]:
        """Replace the texts of records by their hashes, for good, and return these records as they are now.

        A redaction record names them first. If the process ends before the texts are gone, `complete_redactions` or the
        next write continues. Records that are redacted already are left out. Raise NotFound for an unknown id.
        """
        if not ids:
            return ()
        with self._translate_errors(), self._exclusive_lock() as lock:
            self._complete_redactions(lock)
            found = self._find_redactions(frozenset(ids))
            if found:
                self._write_redactions(lock, found, actor, reason, sign=sign)
        redacted = {redaction.original for redaction in found}
        return tuple(record for record in self.read() if record.hash in redacted)

    def has_pending_redactions(self) -> bool:
        """Return True if a redaction was interrupted, so that texts may still be there."""
        return self._redacting.exists()

    def complete_redactions(self) -> None:
        if self.has_pending_redactions():
            with self._translate_errors(), self._exclusive_lock() as lock:
                self._complete_redactions(lock)

    def read(self, after: chain.LedgerPosition | None = None) -> Iterator[Record]:
        """Yield the records after a position, in order, skipping lines that are not records."""
        return (entry.record for entry in self.walk(after) if entry.record is not None)

    def walk(self, after: chain.LedgerPosition | None = None) -> Iterator[chain.LedgerEntry]:
        """Yield the lines after a position with their faults."""
        with self._translate_errors():
            yield from chain.walk_entries(self._segments, after or chain.LedgerPosition())

    def position(self) -> chain.LedgerPosition:
        """Return the current end of the ledger. Whether it is unbroken up to there is not checked."""
        with self._translate_errors():
            return self._end_of_files()

    def contains(self, position: chain.LedgerPosition) -> bool:
        """Return True if the line before a position is still the one that was read there."""
        if position.offset == 0 and position.seq == 0:
            return True
        with self._translate_errors():
            file = self._segments.open(position.segment)
            if file is None:
                return False
            with file:
                is_long = os.fstat(file.fileno()).st_size >= position.offset
                last = next(chain.read_lines_backward(file, position.offset), None) if is_long else None
        return last is not None and last[1] == position.offset and chain.chain_hash(last[0]) == position.hash

    def segment_stat(self, segment: int) -> tuple[int, int, int] | None:
        """Return a segment's inode, size and modification time; None if it does not exist."""
        with self._translate_errors():
            file = self._segments.open(segment)
            if file is None:
                return None
            with file:
                status = os.fstat(file.fileno())
        return status.st_ino, status.st_size, status.st_mtime_ns

    def file_stats(self) -> tuple[tuple[str, int, int, int], ...] | None:
        """Return name, inode, size and change time of each file, to detect changes without reading.

        None if a file is missing or was changed just now: a second change within a clock tick would be invisible.
        """
        try:
            paths = [self._segments.open_path, *map(self._segments.sealed_path, self._segments.sealed())]
            stats = [(path.name, path.lstat()) for path in paths]
        except OSError:
            return None
        if any(time.time_ns() - status.st_ctime_ns < _CLOCK_TICK_NS for _, status in stats):
            return None
        return tuple((name, status.st_ino, status.st_size, status.st_ctime_ns) for name, status in stats)

    def missing_end(self) -> str:
        """Return a sentence if acknowledged records are missing at the end, else an empty string. Reads sizes only."""
        with self._translate_errors():
            head = self._acknowledged_end()
            segment = self._segments.last_sealed() + 1
            if head is None or not head.seq or head.segment < segment:
                return ""
            size, _ = self._size()
        if head.segment == segment and size >= head.offset:
            return ""
        return f"{head.seq:,} records were written, but {self._segments.open_path} was deleted or cut since"

    def verify(self) -> chain.LedgerVerification:
        """Read the whole ledger and report every line that is not as it was written."""
        with self._translate_errors():
            return chain.verify_chain(self._segments, self._acknowledged_end())

    @contextmanager
    def exclusive(self) -> Iterator[int]:
        """Keep writers out while all files are copied or replaced; yield the descriptor of the lock file."""
        with self._translate_errors(), self._exclusive_lock() as lock:
            yield lock

    def _append(self, lock: int, drafts: Sequence[RecordDraft]) -> list[Record]:
        end = self._end(_read_head(lock))
        if end.offset >= self._max_segment_bytes:
            with atomic_file.OpenDescriptor(atomic_file.open_to_append(self._segments.open_path)) as descriptor:
                os.fsync(descriptor)
            self._segments.seal(end.segment)
            end = replace(end, segment=end.segment + 1, offset=0)
        seq, prev, lines = end.seq, end.hash, []
        for remaining, draft in zip(range(len(drafts) - 1, -1, -1), drafts, strict=True):
            seq += 1
            lines.append(chain.encode_line(draft, seq, prev, remaining))
            prev = chain.hash_line(lines[-1])
        text = b"".join(line + b"\n" for line in lines)
        self._write(end.offset, text)
        after = chain.LedgerPosition(end.segment, end.offset + len(text), seq, prev)
        with suppress(OSError):  # not essential: the ledger itself has the lines; this only protects its end
            os.pwrite(lock, _encode_head(after), 0)
        return [decoded.record() for line in lines if (decoded := chain.decode_line(line)) is not None]

    def _find_redactions(self, ids: frozenset[str]) -> list[chain.LineRedaction]:
        """Return what a redaction of these records has to name; the ones that are redacted already are left out."""
        found: list[chain.LineRedaction] = []
        known: set[str] = set()
        for raw in self._segments.raw_lines():
            line = chain.decode_line(raw)
            if line is None or line.values["id"] not in ids:
                continue
            if line.values["kind"] == REDACTION_KIND:
                raise UsageError(f"{line.values['id']} is a redaction record and cannot be redacted")
            known.add(line.values["id"])
            if not line.is_redacted:
                found.append(chain.redact_line(line, raw)[1])
        missing = sorted(ids - known)
        if missing:
            raise NotFound(f"there is no record {missing[0]}", hint="nothing was redacted; see 'lorelog task list'")
        return found

    def _write_redactions(
        self, lock: int, redactions: Sequence[chain.LineRedaction], actor: str, reason: str, *, sign: DraftSigner | None
    ) -> None:
        """Append the redaction records, signed where keys are in use, then remove the texts."""
        drafts = []
        for start in range(0, len(redactions), chain.MAX_REDACTIONS_PER_RECORD):
            entries = to_builtins(redactions[start : start + chain.MAX_REDACTIONS_PER_RECORD])
            fields = {"reason": reason, "redactions": entries}
            draft = RecordDraft(
                REDACTION_KIND, id=new_id(), at=utc_time(), agent=actor, origin="user", status="recorded", fields=fields
            )
            drafts.append(sign(draft) if sign else draft)
        os.close(atomic_file.open_to_append(self._redacting))
        atomic_file.sync_folder(self.folder)
        try:
            self._append(lock, drafts)
        except BaseException:
            self._redacting.unlink()  # nothing was written
            raise
        self._remove_texts(lock, {redaction.original: redaction for redaction in redactions})

    def _complete_redactions(self, lock: int) -> None:
        if not self.has_pending_redactions():
            return
        named = {
            redaction.original: redaction
            for record in chain.iter_redaction_records(self._segments)
            for redaction in chain.parse_redactions(record)
        }
        # Different if another version, which removes other texts, wrote the redaction record.
        if different := self._remove_texts(lock, named):
            self._write_redactions(lock, different, "", "an interrupted redaction continues", sign=None)

    def _remove_texts(self, lock: int, redactions: Mapping[str, chain.LineRedaction]) -> list[chain.LineRedaction]:
        """Rewrite the segments that hold one of these lines, each one atomically.

        Return the lines whose redacted form is not the one that was named; they are not changed.
        """
        different: list[chain.LineRedaction] = []
        for number in range(1, self._segments.last_sealed() + 2):
            before, after = list[bytes](), list[bytes]()
            file = self._segments.open(number)
            for raw, _, is_complete in chain.read_lines(file) if file is not None else ():
                line = chain.decode_line(raw) if chain.hash_line(raw) in redactions else None
                new = raw
                if line is not None and not line.is_redacted:
                    redacted, done = chain.redact_line(line, raw)
                    is_named = done.redacted == redactions[done.original].redacted
                    new = redacted if is_named else raw
                    different += [] if is_named else [done]
                before.append(raw + b"\n" * is_complete)
                after.append(new + b"\n" * is_complete)
            if before != after:
                atomic_file.write_atomic(self.folder / self._segments.name(number), b"".join(after), keep_mode=True)
        head = _read_head(lock)
        if head is not None:
            size, _ = self._size()
            with suppress(OSError):
                os.pwrite(lock, _encode_head(replace(head, offset=size)), 0)
        self._redacting.unlink(missing_ok=True)
        atomic_file.sync_folder(self.folder)
        return different

    def _write(self, size: int, text: bytes) -> None:
        path = self._segments.open_path
        with atomic_file.OpenDescriptor(atomic_file.open_to_append(path)) as descriptor:
            try:
                atomic_file.write_all(descriptor, text)
                if size == 0:
                    atomic_file.sync_folder(self.folder)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                    os.fsync(descriptor)
                raise

    def _end(self, head: chain.LedgerPosition | None) -> chain.LedgerPosition:
        """Return the position of the next line, after repairing the end of the ledger."""
        segment = self._segments.last_sealed() + 1
        size, is_whole = self._size()
        if head is not None and is_whole and (head.segment, head.offset) == (segment, size):
            return head
        self._segments.restore_modes()
        end = self._end_of_files()
        if end.offset < size:  # move the bytes after the last complete batch to a separate file
            with atomic_file.OpenDescriptor(atomic_file.open_to_append(self._segments.open_path)) as descriptor:
                atomic_file.append_line(self._torn, os.pread(descriptor, size - end.offset, end.offset), durable=True)
                os.ftruncate(descriptor, end.offset)
                os.fsync(descriptor)
        if head is None or end.seq > head.seq:
            return end
        return replace(end, seq=head.seq, hash=head.hash)

    def _size(self) -> tuple[int, bool]:
        """Return the size of the open file, and whether its last line is complete."""
        file = chain.open_existing_file(self._segments.open_path)
        if file is None:
            return 0, True
        with file:
            size = os.fstat(file.fileno()).st_size
            return size, not size or os.pread(file.fileno(), 1, size - 1) == b"\n"

    def _end_of_files(self) -> chain.LedgerPosition:
        """Return the end of the last complete batch in the files."""
        segment = self._segments.last_sealed() + 1
        for number in range(segment, 0, -1):
            file = self._segments.open(number)
            if file is None:
                continue
            with file:
                for raw, end in chain.read_lines_backward(file, os.fstat(file.fileno()).st_size):
                    line = chain.decode_line(raw)
                    if number == segment and line is not None and not line.is_last_in_batch:
                        continue  # the batch was never completed
                    if line is not None and line.is_intact:
                        seq = line.seq
                    else:  # unreadable: count
                        seq = [
                            0,
                            *(
                                entry.position.seq
                                for entry in chain.walk_entries(self._segments, chain.LedgerPosition())
                            ),
                        ][-1]
                    return chain.LedgerPosition(segment, end if number == segment else 0, seq, chain.chain_hash(raw))
        return chain.LedgerPosition(segment, 0)

    def _acknowledged_end(self) -> chain.LedgerPosition | None:
        file = chain.open_existing_file(self._lock)
        if file is None:
            return None
        with file:
            return _read_head(file.fileno())

    @contextmanager
    def _exclusive_lock(self) -> Iterator[int]:
        """Hold the writer lock; the system releases it if the process ends."""
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            atomic_file.sync_folder(self.folder.parent)
        busy = StoreBusy(
            f"{self._segments.open_path} is locked by another process", hint="nothing was written; try again"
        )
        with FileLock(self._lock, busy, _LOCK_TIMEOUT_S) as descriptor:
            yield descriptor

    def _translate_errors(self) -> atomic_file.Writing:
        return atomic_file.Writing(self._segments.open_path, "used", hint=_UNWRITABLE_HINT, names_file=True)


def utc_time(timespec: str = "milliseconds") -> str:
    return datetime.now(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _encode_head(end: chain.LedgerPosition) -> bytes:
    return f"{end.seq:016d} {end.hash} {end.segment:09d} {end.offset:016d}\n".encode()


def _read_head(descriptor: int) -> chain.LedgerPosition | None:
    match = _HEAD_PATTERN.fullmatch(os.pread(descriptor, 200, 0))
    return chain.LedgerPosition(int(match[3]), int(match[4]), int(match[1]), match[2].decode()) if match else None
