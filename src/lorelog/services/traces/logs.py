"""Reads logs of any length and stores their errors, each once.

An error with a time is identified by its own lines, whatever file they are in: a rotated, copied or compressed log adds
nothing. An error without a time is identified by its lines and by the log they are in: a log that has grown is
recognized by its beginning, while another run of the same tests is another log.

A log may contain a million errors. For each signature the first ones are stored, and the total count.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.errors import NotFound, SourceError
from lorelog.core.stack_trace import LocatedTrace
from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.tracebacks.finder import TraceRecognizer, may_contain_error
from lorelog.ingest.tracebacks.signature import message_headline, trace_family, trace_signature
from lorelog.services.traces.tables import TraceTables
from lorelog.services.traces.values import LOG, ErrorGroup, TracedError, TraceOrigin, redact_trace, trace_id

_PIECE_BYTES = 65_536
_HEAD_BYTES = 4_096
_MAX_LINE_CHARS = 1_000_000
"""Longer lines are cut to this length."""
_MAX_PER_SIGNATURE = 50
"""Errors of one signature that are stored individually per log."""
_MAX_SIGNATURES = 20_000
_MAX_KNOWN_TEXTS = 2_000
"""Earlier logs that are recognized when they have grown or are read again."""
_BATCH_SIZE = 200
_MAX_GROUPS = 20

BytesReadCallback = Callable[[int], None]
"""Receives the number of bytes read so far."""


class LogReport(Struct, frozen=True, kw_only=True):
    """Result of reading a log."""

    name: str
    bytes: int
    lines: int
    found: int
    """Errors in the log."""
    added: int
    """Errors that were not stored before."""
    groups: tuple[ErrorGroup, ...] = ()
    """Errors by signature, most frequent first."""
    notes: tuple[str, ...] = ()


class _SignatureCount(Struct):
    """Number of errors with a signature, and the first and last of them."""

    first: TracedError
    last: TracedError
    times: int = 0


class _IngestTally(Struct):
    found: int = 0
    added: int = 0
    seen: dict[str, _SignatureCount] = field(default_factory=dict)
    repeats: Counter[str] = field(default_factory=Counter)
    pending: list[TracedError] = field(default_factory=list)


class LogIngester:
    """Reads logs for one project."""

    def __init__(self, tables: TraceTables, project: str, patterns: tuple[str, ...] = (), host: str = "") -> None:
        self._tables, self._project, self._patterns, self._host = tables, project, patterns, host

    def read_file(self, path: str, on_progress: BytesReadCallback | None = None) -> LogReport:
        """Read a file, gzip-compressed or not. Raise NotFound or SourceError."""
        try:
            if not os.path.isfile(path):  # noqa: PTH113
                raise NotFound(f"{path} is not a file", hint="give a log file, or - for standard input")
            with open(path, "rb") as file:  # noqa: PTH123
                return self.read(file, path, on_progress)
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error

    def read_text(self, text: str, name: str = "text") -> LogReport:
        """Read a text."""
        import io

        return self.read(io.BytesIO(text.replace("\0", "\ufffd").encode("utf-8", "replace")), name)

    def read(self, stream: BinaryIO, name: str, on_progress: BytesReadCallback | None = None) -> LogReport:
        """Read a stream to its end, or up to a damaged part."""
        log = _LogStream(stream, name)
        tally, recognizer = _IngestTally(), TraceRecognizer()
        run = f"{os.getpid()}-{time.time_ns()}"
        known_logs = self._known_logs()
        log.watch_for({size for size, _, _ in known_logs})
        try:
            for lines, text in log.pieces():
                if recognizer.is_idle and not may_contain_error(text):
                    recognizer.skip(lines[-12:], len(lines))
                else:
                    for line in lines:
                        for located in recognizer.feed(line):
                            self._add_error(located, tally, name, run)
                if on_progress is not None:
                    on_progress(log.bytes)
            for located in recognizer.end():
                self._add_error(located, tally, name, run)
        finally:  # also after an interruption: the next run recognizes this part
            self._flush(tally, run)
            self._assign_final_ids(tally, log, known_logs, run)
            self._tables.trim()
        counts = sorted(tally.seen.values(), key=lambda count: -count.times)[:_MAX_GROUPS]
        return LogReport(
            name=name,
            bytes=log.bytes,
            lines=log.lines,
            found=tally.found,
            added=tally.added,
            groups=tuple(map(_to_error_group, counts)),
            notes=tuple(log.notes),
        )

    def _add_error(self, located: LocatedTrace, tally: _IngestTally, name: str, run: str) -> None:
        located = redact_trace(located, lambda text: redact(text, self._patterns).text)
        trace = located.trace
        signature = trace_signature(trace)
        tally.found += 1
        at = int((located.at.timestamp() if located.at else time.time()) * 1000)
        content = trace_id(
            signature, message_headline(trace.message), repr(trace.frames), str(at) if located.at else ""
        )
        nth = tally.repeats[content] if len(tally.repeats) < 10 * _MAX_SIGNATURES else 0
        tally.repeats[content] += 1
        error = TracedError(
            # Without a time the id is provisional, until the log is identified.
            id=trace_id(content, str(nth)) + ("" if located.at else f":{run}"),
            at=at,
            signature=signature,
            family=trace_family(trace),
            trace=trace,
            origin=TraceOrigin(source=LOG, project=self._project, host=self._host),
            place=f"{name}:{located.first_line}",
            text=located.text,
        )
        count = tally.seen.get(signature)
        if count is None:
            if len(tally.seen) >= _MAX_SIGNATURES:
                return
            count = tally.seen[signature] = _SignatureCount(error, error)
        count.last = error
        count.times += 1
        if count.times <= _MAX_PER_SIGNATURE:
            tally.pending.append(error)
            if len(tally.pending) >= _BATCH_SIZE:
                self._flush(tally, run)

    def _flush(self, tally: _IngestTally, run: str) -> None:
        final = [error for error in tally.pending if ":" not in error.id]
        provisional = [error for error in tally.pending if ":" in error.id]
        tally.pending = []
        tally.added += self._tables.add(errors=final)[1]
        tally.added += self._tables.add(errors=provisional, run=run)[1]

    # -- identifying the log -----------------------------------------------------------------------------------------

    def _known_logs(self) -> list[tuple[int, str, str]]:
        """Return the size, digest and identity of earlier logs, newest first, and remove errors of killed runs."""
        with self._tables.transaction() as db:
            for (run,) in db.execute("SELECT DISTINCT run FROM errors WHERE run != ''").fetchall():
                if not _is_alive(run):  # it was killed before its log was identified
                    db.execute("DELETE FROM errors WHERE run = ?", (run,))
            rows = db.execute(
                "SELECT size, digest, identity FROM ingested ORDER BY at DESC LIMIT ?", (_MAX_KNOWN_TEXTS,)
            ).fetchall()
        return [(int(size), str(digest), str(identity)) for size, digest, identity in rows]

    def _assign_final_ids(
        self, tally: _IngestTally, log: _LogStream, known_logs: list[tuple[int, str, str]], run: str
    ) -> None:
        """Replace provisional ids, drop the errors that were stored before, and store the counts of the rest."""
        digest = log.digest()
        matches = [
            (size, identity) for size, digest_, identity in known_logs if size and log.digests.get(size) == digest_
        ]
        identity = max(matches)[1] if matches else digest[:20]
        with self._tables.transaction() as db:
            db.execute(
                "UPDATE OR IGNORE errors SET mark = replace(mark, ?, ?), run = '' WHERE run = ?",
                (f":{run}", f":{identity}", run),
            )
            dropped = db.execute("DELETE FROM errors WHERE run = ?", (run,)).rowcount
            db.execute(
                "INSERT OR REPLACE INTO ingested VALUES (?, ?, ?, ?)",
                (log.bytes, digest, identity, int(time.time() * 1000)),
            )
        tally.added -= dropped
        overflow = [count for count in tally.seen.values() if count.times > _MAX_PER_SIGNATURE]
        tally.added += self._store_overflow(overflow, identity)

    def _store_overflow(self, counts: list[_SignatureCount], identity: str) -> int:
        """Store the number of errors that were not stored individually; return how many of them are new."""
        added = 0
        for count in counts:
            mark, times = trace_id("rest", count.first.signature, identity), count.times - _MAX_PER_SIGNATURE
            with self._tables.transaction() as db:
                row = db.execute("SELECT times FROM errors WHERE mark = ?", (mark,)).fetchone()
            before = int(row[0]) if row else 0
            self._tables.add(errors=[replace(count.last, id=mark, times=times)])
            added += max(0, times - before)
        return added


class _LogStream:
    """A stream of bytes as lines, with its size and the digests that identify it."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.bytes = self.lines = 0
        self.notes: list[str] = []
        self.digests: dict[int, str] = {}
        self._name = name
        self._sha = hashlib.sha256()
        self._watched: list[int] = []
        head = _read_first_piece(stream)
        if head[:2] == b"\x1f\x8b":
            stream = cast("BinaryIO", gzip.GzipFile(fileobj=cast("BinaryIO", _PrependedStream(head, stream))))
            head = self._read(stream)
        self._stream, self._first = stream, head
        self._encoding = _detect_encoding(head)
        if b"\0" in head[:_HEAD_BYTES] and self._encoding == "utf-8":
            raise SourceError(f"{name} is not text", hint="give a log as plain text, or compressed with gzip")

    def watch_for(self, sizes: set[int]) -> None:
        """Compute the digests of the first `sizes` bytes while reading."""
        self._watched = sorted(sizes, reverse=True)

    def digest(self) -> str:
        """Return the digest of all bytes read."""
        return self._sha.hexdigest()

    def pieces(self) -> Iterator[tuple[list[str], str]]:
        """Yield batches of lines, each also as one text."""
        decoder = codecs.getincrementaldecoder(self._encoding)(errors="replace")
        carried = ""
        for piece in self._raw():
            text = carried + decoder.decode(piece)
            end = text.rfind("\n") + 1
            carried = text[end:]
            if len(carried) > _MAX_LINE_CHARS:
                carried = carried[:_MAX_LINE_CHARS]
            if end:
                lines = text[: end - 1].split("\n")
                self.lines += len(lines)
                yield lines, text[:end]
        carried += decoder.decode(b"", final=True)
        if carried:
            self.lines += 1
            yield [carried], carried

    def _raw(self) -> Iterator[bytes]:
        piece, self._first = self._first, b""
        while piece:
            self._count(piece)
            yield piece
            piece = self._read(self._stream)

    def _count(self, piece: bytes) -> None:
        start = self.bytes
        while self._watched and self._watched[-1] <= start + len(piece):
            size = self._watched.pop()
            prefix = self._sha.copy()
            prefix.update(piece[: size - start])
            self.digests[size] = prefix.hexdigest()
        self._sha.update(piece)
        self.bytes += len(piece)

    def _read(self, stream: BinaryIO) -> bytes:
        try:
            return _read_available(stream)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.notes.append(f"{self._name} is damaged; it was read up to there: {error}")
            return b""


class _PrependedStream:
    """A stream with bytes put back at its front."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        if not self._first:
            return self._stream.read(size)
        data, self._first = (self._first, b"") if size < 0 else (self._first[:size], self._first[size:])
        return data


def _read_first_piece(stream: BinaryIO) -> bytes:
    """Return the beginning of a stream: a pipe may return a few bytes at a time."""
    pieces, length = [], 0
    while length < _HEAD_BYTES:
        piece = _read_available(stream)
        if not piece:
            break
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)


def _is_alive(run: str) -> bool:
    """Return True if the process of a run may still be reading."""
    try:
        os.kill(int(run.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def _read_available(stream: BinaryIO) -> bytes:
    """Return the available bytes; wait only if there are none."""
    read = getattr(stream, "read1", None)
    piece: bytes = stream.read(_PIECE_BYTES) if read is None else read(_PIECE_BYTES)
    return piece


def _detect_encoding(first: bytes) -> str:
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in first[:_HEAD_BYTES]:
        return "utf-16"
    return "utf-8-sig" if first.startswith(codecs.BOM_UTF8) else "utf-8"


def _to_error_group(count: _SignatureCount) -> ErrorGroup:
    first = count.first
    return ErrorGroup(
        signature=first.signature,
        family=first.family,
        type=first.trace.type,
        message=first.trace.message,
        language=first.trace.language,
        times=count.times,
        first_at=first.at,
        last_at=count.last.at,
        sessions=0,
        projects=1,
    )
