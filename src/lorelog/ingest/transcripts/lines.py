"""Records of a file, line by line, with a limit for everything.

Only regular files are opened, and nothing blocks: an address in somebody's notes may lead to a pipe or a device.
Compressed files are read as they are (gzip; Zstandard where Python or a package can).
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import mmap
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from lorelog.core.errors import NotFound, SourceError
from lorelog.ingest.scan_read import printable, reason
from lorelog.ingest.transcripts.building import Record, Tally

LINE_BYTES = 32 * 1024 * 1024
"""Images stand in transcripts as text, some megabytes each; a longer line is passed over unread."""
INFLATED_BYTES = 2 * 1024 * 1024 * 1024
"""A small compressed file may hold far more than any conversation does; reading ends here."""
HEAD_BYTES = 65_536
_PIECE = 1024 * 1024
_FIRST_PIECE = 4096
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_ZSTD_PACKAGES = ("compression.zstd", "backports.zstd", "zstandard")


@contextmanager
def open_plain(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file as it lies there. Raise NotFound or SourceError when there is none."""
    with _translated(path):
        descriptor = os.open(path, _FLAGS)
    try:
        _check_regular(path, os.fstat(descriptor).st_mode)
    except SourceError:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as opened:
        yield opened


@contextmanager
def open_stream(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file, unpacked if it is compressed."""
    with open_plain(path) as plain, _translated(path):
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


def read_head(path: str) -> bytes:
    """Return how a file begins; of a damaged archive, what can be had of it."""
    head = b""
    with open_stream(path) as stream:
        try:
            while len(head) < HEAD_BYTES and (piece := stream.read(_FIRST_PIECE)):
                head += piece
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not head:
                raise SourceError(f"{printable(path)} is damaged: {error}", hint="unpack it by hand") from error
    return head


def find_line(path: str, text: str) -> int:
    """Return where the first line begins that holds a text as a JSON string; 0 where none does, or nothing can be told."""
    with open_plain(path) as plain:
        if plain.read(1) != b"{":  # compressed, or no lines
            return 0
        with mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ) as held:
            found = held.find(json.dumps(text).encode())
            return held.rfind(b"\n", 0, found) + 1 if found >= 0 else 0


def read_records(path: str, tally: Tally, most: int | None = None, start: int = 0) -> Iterator[Record]:
    """Yield the JSON objects of a file's lines, `most` lines at most; lines that hold none are counted."""
    with open_stream(path) as stream:
        if start:
            stream.seek(start)
        for number, line in enumerate(_lines(stream, tally)):
            if most is not None and number >= most:
                return
            if not line.strip():
                continue
            record = parse(line, tally)
            if record is not None:
                yield record


def parse(line: bytes | str, tally: Tally) -> Record | None:
    """Return the object that a line or a row is, or None, which is counted."""
    try:
        record = json.loads(line.decode("utf-8", "replace") if isinstance(line, bytes) else line)
    except (ValueError, RecursionError):
        tally.broken += 1
        return None
    if not isinstance(record, dict):
        tally.skipped += 1
        return None
    return record


def _lines(stream: IO[bytes], tally: Tally) -> Iterator[bytes]:
    """Yield lines; one that is too long is counted and passed over, as is the end of a damaged archive."""
    first, taken = True, 0
    try:
        while line := stream.readline(LINE_BYTES):
            taken += len(line)
            if len(line) >= LINE_BYTES and not line.endswith(b"\n"):
                tally.broken += 1
                while (rest := stream.readline(_PIECE)) and not rest.endswith(b"\n"):
                    taken += len(rest)
                    if taken > INFLATED_BYTES:
                        return
                continue
            yield line.removeprefix(_BOM) if first else line
            first = False
            if taken > INFLATED_BYTES:
                tally.note(f"reading ended after {INFLATED_BYTES:,} bytes")
                return
    except (EOFError, zlib.error, gzip.BadGzipFile):
        tally.broken += 1


def _check_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise SourceError(
            f"{printable(path)} is a directory", hint="name one transcript in it: a .jsonl, .json or .db file"
        )
    if not stat.S_ISREG(mode):
        raise SourceError(f"{printable(path)} is no regular file", hint="pipes, sockets and devices are not read")


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"there is no file {printable(path)}",
            hint="hosts delete old conversations; Claude Code does so after 30 days unless cleanupPeriodDays says otherwise",
        ) from error
    except (OSError, ValueError) as error:
        raise SourceError(f"{printable(path)} cannot be read: {reason(error)}", hint="check its permissions") from error


def unpack(data: bytes, most: int) -> bytes | None:
    """Return what was compressed with Zstandard, or None where nothing here can read it."""
    name, package = _zstd()
    if package is None:
        return None
    try:
        if name == "zstandard":
            return bytes(package.ZstdDecompressor().decompress(data, max_output_size=most))
        return bytes(package.ZstdDecompressor().decompress(data, max_length=most))
    except (package.ZstdError, ValueError, EOFError):
        return None


def _zstd() -> tuple[str, Any]:
    for name in _ZSTD_PACKAGES:
        try:
            return name, importlib.import_module(name)
        except ImportError:
            continue
    return "", None


@contextmanager
def _open_zstd(plain: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    name, package = _zstd()
    if package is None:
        raise SourceError(
            f"{printable(path)} is compressed with Zstandard, which this Python cannot read",
            hint="unpack it with 'zstd -d' and name the result, or install the package zstandard",
        )
    try:
        if name == "zstandard":
            with package.ZstdDecompressor().stream_reader(plain, read_across_frames=True) as raw:
                yield io.BufferedReader(raw)
        else:
            with package.open(plain, "rb") as raw:
                yield raw
    except package.ZstdError as error:
        raise SourceError(f"{printable(path)} is damaged: {error}", hint="try 'zstd -t' on it") from error
