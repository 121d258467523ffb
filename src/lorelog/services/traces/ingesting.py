"""Reading logs: any text, however long, a piece at a time; errors are kept, and nothing is kept twice.

An error whose log says when it happened is known by its own lines, whatever file they stand in: a log that was rotated, copied or
compressed adds nothing. One without a time is known by its text too, and by which of several such texts: a log that has
grown since is the same text, known by what it began with; another run of the same tests is another one.

A log may hold a million errors. Of each signature the first ones are kept, and how often it came in all.
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
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from lorelog.core.errors import NotFound, SourceError
from lorelog.core.trace import FoundTrace
from lorelog.ingest.redact import redact
from lorelog.ingest.stacks import Recogniser, may_tell
from lorelog.ingest.stacks_signature import family, signature, telling
from lorelog.services.traces.tables import TraceTables
from lorelog.services.traces.values import LOG, ErrorGroup, Origin, TracedError, cleaned, mark_of

_PIECE = 65_536
_HEAD = 4_096
_CARRIED = 1_000_000
"""Characters of a line without an end; of a longer one only the beginning is read."""
_EACH = 50
"""Errors of one signature that are kept of one log, each for itself."""
_SIGNATURES = 20_000
_TEXTS = 2_000
"""Texts that were read before and are recognised, when they have grown or come again."""
_AT_ONCE = 200
_SHOWN = 20

Told = Callable[[int], None]
"""Is told how many bytes have been read."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What came of reading a log."""

    name: str
    bytes: int
    lines: int
    found: int
    """Errors that it tells."""
    added: int
    """Those that were not known yet."""
    groups: tuple[ErrorGroup, ...] = ()
    """By signature, most often first."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    """How often a signature came, and the first and the last of it."""

    first: TracedError
    last: TracedError
    times: int = 0


@dataclass(slots=True)
class _Tally:
    found: int = 0
    added: int = 0
    seen: dict[str, _Seen] = field(default_factory=dict)
    repeats: Counter[str] = field(default_factory=Counter)
    waiting: list[TracedError] = field(default_factory=list)


class Ingester:
    """Reads logs for one project."""

    def __init__(self, tables: TraceTables, project: str, patterns: tuple[str, ...] = (), host: str = "") -> None:
        self._tables, self._project, self._patterns, self._host = tables, project, patterns, host

    def read_file(self, path: str, told: Told | None = None) -> Ingested:
        """Read a file, compressed by gzip or not. Raise NotFound or SourceError."""
        try:
            if not os.path.isfile(path):  # noqa: PTH113
                raise NotFound(f"there is no file {path}", hint="name a log, or - for standard input")
            with open(path, "rb") as file:  # noqa: PTH123
                return self.read(file, path, told)
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error

    def read_text(self, text: str, name: str = "text") -> Ingested:
        """Read a text."""
        import io

        return self.read(io.BytesIO(text.replace("\0", "\ufffd").encode("utf-8", "replace")), name)

    def read(self, stream: BinaryIO, name: str, told: Told | None = None) -> Ingested:
        """Read a stream to its end, or as far as it goes."""
        reading = _Reading(stream, name)
        tally, recogniser = _Tally(), Recogniser()
        run = f"{os.getpid()}-{time.time_ns()}"
        known = self._known()
        reading.watch_for({size for size, _, _ in known})
        try:
            for lines, text in reading.pieces():
                if recogniser.is_idle and not may_tell(text):
                    recogniser.skip(lines[-12:], len(lines))
                else:
                    for line in lines:
                        for one in recogniser.feed(line):
                            self._note(one, tally, name, run)
                if told is not None:
                    told(reading.bytes)
            for one in recogniser.end():
                self._note(one, tally, name, run)
        finally:  # also of what was interrupted: a longer run goes on from there
            self._flush(tally, run)
            self._settle(tally, reading, known, run)
            self._tables.trim()
        groups = sorted(tally.seen.values(), key=lambda one: -one.times)[:_SHOWN]
        return Ingested(
            name,
            reading.bytes,
            reading.lines,
            tally.found,
            tally.added,
            tuple(map(_group, groups)),
            tuple(reading.notes),
        )

    def _note(self, found: FoundTrace, tally: _Tally, name: str, run: str) -> None:
        found = cleaned(found, lambda text: redact(text, self._patterns).text)
        sign = signature(found.trace)
        tally.found += 1
        at = int((found.at.timestamp() if found.at else time.time()) * 1000)
        content = mark_of(sign, telling(found.trace.message), repr(found.trace.frames), str(at) if found.at else "")
        nth = tally.repeats[content] if len(tally.repeats) < 10 * _SIGNATURES else 0
        tally.repeats[content] += 1
        # A provisional name, until it is known which text this is.
        mark = mark_of(content, str(nth)) + ("" if found.at else f":{run}")
        origin = Origin(LOG, self._project, host=self._host)
        place = f"{name}:{found.first_line}"
        error = TracedError(mark, at, sign, family(found.trace), found.trace, origin, place=place, text=found.text)
        seen = tally.seen.get(sign)
        if seen is None:
            if len(tally.seen) >= _SIGNATURES:
                return
            seen = tally.seen[sign] = _Seen(error, error)
        seen.last = error
        seen.times += 1
        if seen.times <= _EACH:
            tally.waiting.append(error)
            if len(tally.waiting) >= _AT_ONCE:
                self._flush(tally, run)

    def _flush(self, tally: _Tally, run: str) -> None:
        lasting = [one for one in tally.waiting if ":" not in one.id]
        passing = [one for one in tally.waiting if ":" in one.id]
        tally.waiting = []
        tally.added += self._tables.add(errors=lasting)[1]
        tally.added += self._tables.add(errors=passing, run=run)[1]

    # -- which text this is ------------------------------------------------------------------------------------------

    def _known(self) -> list[tuple[int, str, str]]:
        """Return the texts that were read last: how long each was, what it is known by, and what it was called."""
        with self._tables.rewriting() as db:
            for (run,) in db.execute("SELECT DISTINCT run FROM errors WHERE run != ''").fetchall():
                if not _is_alive(run):  # whoever read it was killed before it was known which text it is
                    db.execute("DELETE FROM errors WHERE run = ?", (run,))
            rows = db.execute(
                "SELECT size, digest, identity FROM ingested ORDER BY at DESC LIMIT ?", (_TEXTS,)
            ).fetchall()
        return [(int(size), str(digest), str(identity)) for size, digest, identity in rows]

    def _settle(self, tally: _Tally, reading: _Reading, known: list[tuple[int, str, str]], run: str) -> None:
        """Give errors without a time their lasting names, drop those that were known, and note how often the others came."""
        whole = reading.digest()
        same = [(size, identity) for size, digest, identity in known if size and reading.digests.get(size) == digest]
        identity = max(same)[1] if same else whole[:20]
        with self._tables.rewriting() as db:
            db.execute(
                "UPDATE OR IGNORE errors SET mark = replace(mark, ?, ?), run = '' WHERE run = ?",
                (f":{run}", f":{identity}", run),
            )
            dropped = db.execute("DELETE FROM errors WHERE run = ?", (run,)).rowcount
            db.execute(
                "INSERT OR REPLACE INTO ingested VALUES (?, ?, ?, ?)",
                (reading.bytes, whole, identity, int(time.time() * 1000)),
            )
        tally.added -= dropped
        rest = [one for one in tally.seen.values() if one.times > _EACH]
        tally.added += self._rest(rest, identity)

    def _rest(self, seen: list[_Seen], identity: str) -> int:
        """Keep how often errors came of which not every one was kept; return how many of those are new."""
        added = 0
        for one in seen:
            mark, times = mark_of("rest", one.first.signature, identity), one.times - _EACH
            with self._tables.rewriting() as db:
                row = db.execute("SELECT times FROM errors WHERE mark = ?", (mark,)).fetchone()
            before = int(row[0]) if row else 0
            last = one.last
            error = TracedError(
                mark,
                last.at,
                last.signature,
                last.family,
                last.trace,
                last.origin,
                place=last.place,
                text=last.text,
                times=times,
            )
            self._tables.add(errors=[error])
            added += max(0, times - before)
        return added


class _Reading:
    """A stream of bytes as lines, with its length, and the digests that tell it from others."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.bytes = self.lines = 0
        self.notes: list[str] = []
        self.digests: dict[int, str] = {}
        self._name = name
        self._sha = hashlib.sha256()
        self._watched: list[int] = []
        first = _filled(stream)
        if first[:2] == b"\x1f\x8b":
            stream = cast("BinaryIO", gzip.GzipFile(fileobj=cast("BinaryIO", _Prepended(first, stream))))
            first = self._read(stream)
        self._stream, self._first = stream, first
        self._encoding = _encoding(first)
        if b"\0" in first[:_HEAD] and self._encoding == "utf-8":
            raise SourceError(f"{name} is not a text", hint="logs are read as they are, or compressed by gzip")

    def watch_for(self, sizes: set[int]) -> None:
        """Take note of what the first so many bytes are known by."""
        self._watched = sorted(sizes, reverse=True)

    def digest(self) -> str:
        """Return what all of it so far is known by."""
        return self._sha.hexdigest()

    def pieces(self) -> Iterator[tuple[list[str], str]]:
        """Yield lines, many at a time, and the same as one text."""
        decoder = codecs.getincrementaldecoder(self._encoding)(errors="replace")
        carried = ""
        for piece in self._raw():
            text = carried + decoder.decode(piece)
            end = text.rfind("\n") + 1
            carried = text[end:]
            if len(carried) > _CARRIED:
                carried = carried[:_CARRIED]
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
            until = self._sha.copy()
            until.update(piece[: size - start])
            self.digests[size] = until.hexdigest()
        self._sha.update(piece)
        self.bytes += len(piece)

    def _read(self, stream: BinaryIO) -> bytes:
        try:
            return _read_some(stream)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.notes.append(f"{self._name} is damaged, and was read up to there: {error}")
            return b""


class _Prepended:
    """A stream with bytes that were read of it before."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        if not self._first:
            return self._stream.read(size)
        given, self._first = (self._first, b"") if size < 0 else (self._first[:size], self._first[size:])
        return given


def _filled(stream: BinaryIO) -> bytes:
    """Return the first piece of a stream, as much of it as there is: a pipe gives a little at a time."""
    pieces, length = [], 0
    while length < _HEAD:
        piece = _read_some(stream)
        if not piece:
            break
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)


def _is_alive(run: str) -> bool:
    """Say whether the process that a reading is named after may still be at it."""
    try:
        os.kill(int(run.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def _read_some(stream: BinaryIO) -> bytes:
    """Return what is there, and wait only where nothing is: a pipe may take its time."""
    read = getattr(stream, "read1", None)
    piece: bytes = stream.read(_PIECE) if read is None else read(_PIECE)
    return piece


def _encoding(first: bytes) -> str:
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in first[:_HEAD]:
        return "utf-16"
    return "utf-8-sig" if first.startswith(codecs.BOM_UTF8) else "utf-8"


def _group(seen: _Seen) -> ErrorGroup:
    first, last = seen.first, seen.last
    trace = first.trace
    return ErrorGroup(
        first.signature, first.family, trace.type, trace.message, trace.language, seen.times, first.at, last.at, 0, 1
    )
