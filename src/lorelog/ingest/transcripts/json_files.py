"""Read the files in which hosts keep conversations: JSON of any size, and SQLite databases.

JSON is streamed: objects line by line, or one large document member by member. Only regular files are opened and
opening never blocks: a path in someone's notes may lead to a pipe or a device. Gzip files are decompressed, and
Zstandard files if Python or a package supports it. Everything has a size limit.

An export is a single object that may be larger than memory should be. Its outer braces are read by hand; each member,
and each element of selected arrays, is decoded once enough of it is in the buffer. The buffer doubles when it was too
small, so the work stays linear in the size.

A host's SQLite database is read while the host may be writing to it, without leaving a trace. `mode=ro` alone does not
guarantee that: SQLite creates `-wal` and `-shm` files for a database in WAL mode that has none at the moment, and
leaves them there. So a database without a log, which is complete in itself, is opened as `immutable`; one with a log
and its index is opened normally, including the log; one with a log only (copied, or its host crashed) is read from a
copy, because its index would have to be written.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import json
import os
import shutil
import sqlite3
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from lorelog.core.errors import NotFound, SourceError
from lorelog.core.sqlite_file import connect
from lorelog.ingest.files import os_error_text, printable_path
from lorelog.ingest.transcripts.turns import JsonObject, TranscriptStats, TurnReader

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Transcripts contain images as text of several megabytes; a longer line is skipped."""
MAX_INFLATED_BYTES = 2 * 1024 * 1024 * 1024
"""A small compressed file may expand to far more than any conversation; reading stops here."""
MAX_HELD_BYTES = 256 * 1024 * 1024
"""A session that cannot be read piece by piece is read up to this size."""
MAX_HEAD_BYTES = 65_536
_MAX_SIDE_FILE_BYTES = _SKIP_BYTES = 1024 * 1024
_HEAD_READ_BYTES = 4096
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
TableColumns = Mapping[str, frozenset[str]]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ZSTD_PACKAGE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
"""A part of Python since 3.14, a dependency before."""


@contextmanager
def open_regular_file(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file without decompressing it. Raise NotFound or SourceError if that is impossible."""
    with _translate_os_errors(path):
        descriptor = os.open(path, _FLAGS)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        with os.fdopen(descriptor, "rb") as opened:
            yield opened
        return
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        hint = "give one of the transcripts in it: a .jsonl, .json or .db file"
        raise SourceError(f"{printable_path(path)} is a directory", hint=hint)
    raise SourceError(f"{printable_path(path)} is not a regular file", hint="pipes, sockets and devices are not read")


@contextmanager
def open_stream(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file, decompressed if necessary."""
    with open_regular_file(path) as plain, _translate_os_errors(path):
        magic = plain.read(4)
        plain.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=plain) as inflated:
                yield inflated  # type: ignore[misc]
        elif magic == _ZSTD:
            with _open_zstd(plain, path) as inflated:
                yield inflated
        else:
            yield plain


def is_compressed(path: str) -> bool:
    with open_regular_file(path) as plain:
        magic = plain.read(len(_ZSTD))
    return magic.startswith(_GZIP) or magic == _ZSTD


def read_file_head(path: str) -> bytes:
    """Return the start of a file; for a damaged archive, the readable part."""
    head = b""
    with open_stream(path) as stream:
        try:
            while len(head) < MAX_HEAD_BYTES and (piece := stream.read(_HEAD_READ_BYTES)):
                head += piece
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not head:
                raise SourceError(
                    f"{printable_path(path)} is damaged: {error}", hint="try to decompress it by hand"
                ) from error
    return head


def read_records(path: str, stats: TranscriptStats, limit: int | None = None) -> Iterator[JsonObject]:
    """Yield the JSON objects of at most `limit` lines; lines without one are counted."""
    with open_stream(path) as stream:
        for number, line in enumerate(_bounded_lines(stream, stats)):
            if limit is not None and number >= limit:
                return
            if not line.strip():
                continue
            record = parse_object(line, stats)
            if record is not None:
                yield record


def read_lines(path: str, stats: TranscriptStats) -> Iterator[str]:
    """Yield the lines of a text file, up to the size that a reader may hold in memory."""
    with open_stream(path) as stream:
        for line in _bounded_lines(stream, stats, MAX_HELD_BYTES):
            yield line.decode("utf-8", "replace").rstrip("\r\n")


def read_array(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the objects of a file that is an array; its other elements are counted."""
    with open_stream(path) as stream:
        for element in read_elements(stream, stats):
            if isinstance(element, dict):
                yield element
            else:
                stats.skipped += 1


def read_side_file(path: Path) -> str:
    """Return the beginning of a small file beside a transcript; empty if it cannot be read."""
    with suppress(NotFound, SourceError, OSError), open_regular_file(str(path)) as file:
        return file.read(_MAX_SIDE_FILE_BYTES).decode("utf-8", "replace")
    return ""


def read_side_object(path: Path) -> JsonObject:
    """Return the object of a small file beside a transcript; empty if it is not one."""
    return parse_object(read_side_file(path) or "{}", TranscriptStats()) or {}


def parse_object(line: object, stats: TranscriptStats) -> JsonObject | None:
    """Parse a line, or a value of a database; return None, and count it, if it is not a JSON object."""
    try:
        record = json.loads(line.decode("utf-8", "replace") if isinstance(line, bytes) else line)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        stats.broken += 1
        return None
    if not isinstance(record, dict):
        stats.skipped += 1
        return None
    return record


def _bounded_lines(stream: IO[bytes], stats: TranscriptStats, limit: int = MAX_INFLATED_BYTES) -> Iterator[bytes]:
    """Yield lines; count and skip one that is too long, and the damaged end of an archive."""
    first, taken = True, 0
    try:
        while line := stream.readline(MAX_LINE_BYTES):
            taken += len(line)
            if len(line) >= MAX_LINE_BYTES and not line.endswith(b"\n"):
                stats.broken += 1
                while (rest := stream.readline(_SKIP_BYTES)) and not rest.endswith(b"\n"):
                    taken += len(rest)
                    if taken > limit:
                        return
                continue
            yield line.removeprefix(BYTE_ORDER_MARK) if first else line
            first = False
            if taken > limit:
                stats.note(f"reading stopped after {limit:,} bytes")
                return
    except (EOFError, zlib.error, gzip.BadGzipFile):
        stats.broken += 1


@contextmanager
def _translate_os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"there is no file {printable_path(path)}",
            hint="hosts delete old conversations; Claude Code does so after 30 days (setting cleanupPeriodDays)",
        ) from error
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{printable_path(path)} cannot be read: {os_error_text(error)}", hint="check its permissions"
        ) from error


def decompress_zstd(data: bytes, max_bytes: int) -> bytes | None:
    """Decompress Zstandard data; None if it is damaged."""
    package = importlib.import_module(_ZSTD_PACKAGE)
    try:
        return bytes(package.ZstdDecompressor().decompress(data, max_length=max_bytes))
    except (package.ZstdError, ValueError, EOFError):
        return None


@contextmanager
def _open_zstd(plain: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    package = importlib.import_module(_ZSTD_PACKAGE)
    try:
        with package.open(plain, "rb") as raw:
            yield raw
    except package.ZstdError as error:
        raise SourceError(f"{printable_path(path)} is damaged: {error}", hint="try 'zstd -t' on it") from error


MAX_VALUE_CHARS = 64 * 1024 * 1024
"""The longest single value that is decoded; reading stops at a longer one."""
_READ_CHARS = 65_536
_SPACE = " \t\r\n\ufeff"


class _DocumentTruncated(Exception):
    """The document ends, or is no longer valid JSON, before it is complete."""


def read_members(path: str, arrays: frozenset[str], stats: TranscriptStats) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of a document's members; those named in `arrays` element by element."""
    with open_stream(path) as stream:
        reader = _JsonStreamReader(stream)
        try:
            reader.expect("{")
            while not reader.accept("}"):
                key = reader.key()
                if key in arrays and reader.accept("["):
                    for element in _elements(reader):
                        yield key, element
                else:
                    yield key, reader.value()
                reader.accept(",")
        except (_DocumentTruncated, EOFError, zlib.error, RecursionError):
            stats.broken += 1


def read_elements(stream: IO[bytes], stats: TranscriptStats) -> Iterator[Any]:
    """Yield the elements of an array that is a whole document, from an open stream; none if it is not an array."""
    reader = _JsonStreamReader(stream)
    try:
        reader.expect("[")
        yield from _elements(reader)
    except (_DocumentTruncated, EOFError, zlib.error, RecursionError):
        stats.broken += 1


def _elements(reader: _JsonStreamReader) -> Iterator[Any]:
    while not reader.accept("]"):
        yield reader.value()
        reader.accept(",")


class _JsonStreamReader:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False

    def expect(self, character: str) -> None:
        """Consume a required character."""
        if not self.accept(character):
            raise _DocumentTruncated

    def accept(self, character: str) -> bool:
        """Consume a character if it is next; return whether it was."""
        if self._next() != character:
            return False
        self._at += 1
        return True

    def key(self) -> str:
        """Consume and return the next member's name, with its colon."""
        key = self.value()
        if not isinstance(key, str):
            raise _DocumentTruncated
        self.expect(":")
        return key

    def value(self) -> Any:
        """Consume and return the next value."""
        self._next()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except (json.JSONDecodeError, IndexError):
                end = len(self._text)
            except ValueError as error:  # a number with too many digits
                raise _DocumentTruncated from error
            else:
                # A number at the end of the buffer may continue beyond it.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            if self._ended or end - self._at > MAX_VALUE_CHARS:
                raise _DocumentTruncated
            self._grow()

    def _next(self) -> str:
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                raise _DocumentTruncated
            self._grow()

    def _grow(self) -> None:
        rest = self._text[self._at :]
        data = self._stream.read(max(_READ_CHARS, len(rest)))
        self._ended = not data
        self._text = rest + self._decode(data, final=self._ended)
        self._at = 0


SQLITE_MAGIC = b"SQLite format 3\0"
MAX_COPY_BYTES = 1024 * 1024 * 1024
_BUSY_TIMEOUT_S = 2.0


class SessionDatabase(Struct, frozen=True):
    """An open database with sessions."""

    path: str
    connection: sqlite3.Connection
    columns: TableColumns


class DatabaseFormat(Struct, frozen=True):
    """How the sessions in the database of an agent are listed and read."""

    agent: str
    matches: Callable[[TableColumns], bool]
    heads: Callable[[SessionDatabase, str], Iterable[JsonObject]]
    """Returns the headers of its sessions, or of one, oldest first, with `changed` in seconds, and `sidechain` if they are a subagent's."""
    records: Callable[[SessionDatabase, str, TranscriptStats], Iterator[JsonObject]]
    reader: Callable[[TranscriptStats], TurnReader]
    select: Callable[[SessionDatabase, str], tuple[str, int]] | None = None
    """Returns the session of a turn or else the newest one, and the number of sessions to choose from."""


@contextmanager
def open_sessions(path: str) -> Iterator[SessionDatabase]:
    """Open a database for reading, and list its columns. Raise SourceError if SQLite cannot read it."""
    with open_database(path) as connection:
        yield SessionDatabase(path, connection, table_columns(connection))


@contextmanager
def open_database(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database for reading. Raise SourceError if SQLite cannot read it."""
    with open_regular_file(path):  # raises our own errors for a bad path, and rejects special files
        pass
    try:
        has_log = bool(_file_size(f"{path}-wal"))
        is_bare = has_log and not os.path.lexists(f"{path}-shm")
        with (
            _temporary_copy(path) if is_bare else nullcontext(path) as file,
            closing(_connect(file, "mode=ro" if has_log else "immutable=1")) as connection,
        ):
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the message about a damaged schema may quote its bytes
        raise SourceError(
            f"{printable_path(path)} cannot be read as a database: {error}",
            hint="try again when its host is not writing, or check it with 'sqlite3 FILE \"pragma quick_check\"'",
        ) from error
    except OSError as error:
        raise SourceError(
            f"{printable_path(path)} cannot be read: {os_error_text(error)}", hint="check its permissions"
        ) from error


def table_columns(connection: sqlite3.Connection) -> TableColumns:
    columns: dict[str, frozenset[str]] = {}
    query = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type IN ('table', 'view')"
    for table, column in connection.execute(query):
        if isinstance(table, str) and isinstance(column, str):
            columns[table] = columns.get(table, frozenset()) | {column}
    return columns


def bounded_column(column: str) -> str:
    """Return SQL that selects a column, or NULL if the value is too long."""
    return f"CASE WHEN length({column}) <= {MAX_LINE_BYTES} THEN {column} END"


def _connect(path: str, how: str) -> sqlite3.Connection:
    connection = connect(path, f"{how}&cache=private", _BUSY_TIMEOUT_S)
    try:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # the schema must not run code in our process
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            if "unsafe use of" not in str(error):
                raise
            connection.execute("PRAGMA writable_schema = ON")  # leaves Kilo Code's indexes of expressions out
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _temporary_copy(path: str) -> Iterator[str]:
    if _file_size(path) + _file_size(f"{path}-wal") > MAX_COPY_BYTES:
        raise SourceError(
            f"{printable_path(path)} has a write-ahead log without an index and is too large to copy",
            hint="open it once with its host, or with sqlite3",
        )
    with tempfile.TemporaryDirectory(prefix="lorelog-") as folder:
        for suffix in ("", "-wal"):
            shutil.copyfile(path + suffix, f"{folder}/copy.db{suffix}")
        yield f"{folder}/copy.db"


def _file_size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
