"""Opens the exports that people download: a ZIP archive, a folder, or a JSON file taken from one.

Nothing is unpacked to disk, so names in an archive choose no path. What a member expands to is counted while it is read, and
reading stops at a limit: a small archive may declare any size and expand to far more.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from lorelog.core.errors import LorelogError, SourceError
from lorelog.ingest.files import printable_path
from lorelog.ingest.importers.source import ImportedItem, SkippedItem, link_problem
from lorelog.ingest.transcripts import json_files
from lorelog.ingest.transcripts.turns import TranscriptStats

_MAX_MEMBERS = 200_000
_MAX_RATIO = 1_000
"""Deflate reaches 1,032 for zeros; text stays below 20."""
_MIN_BOMB_BYTES = 64 * 1024 * 1024
_HEAD_BYTES = 4_096
_ZIP = b"PK\x03\x04"


class _LimitedStream(io.RawIOBase):
    """A stream that ends with an error at a limit."""

    def __init__(self, stream: IO[bytes], packed: int) -> None:
        self._stream, self._packed, self._taken = stream, max(packed, 1), 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read bytes. Raise EOFError beyond the limit."""
        data = self._stream.read(size if size >= 0 else json_files.MAX_INFLATED_BYTES)
        self._taken += len(data)
        is_bomb = self._taken > _MIN_BOMB_BYTES and self._taken > self._packed * _MAX_RATIO
        if self._taken > json_files.MAX_INFLATED_BYTES or is_bomb:
            raise EOFError("the archive expands to more than is read")
        return data


def is_zip(path: Path) -> bool:
    """Return whether a file is a ZIP archive, by its first bytes."""
    return _head(path).startswith(_ZIP)


def _head(path: Path) -> bytes:
    with suppress(SourceError, OSError, EOFError, zlib.error):
        if path.is_file():
            with json_files.open_stream(str(path)) as stream:
                return stream.read(_HEAD_BYTES)
    return b""


def file_head(path: Path) -> str:
    """Return the beginning of a regular file as text; empty if it cannot be read."""
    return _head(path).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")


def database_tables(path: Path) -> frozenset[str]:
    """Return the names of a database's tables; none if the file is not a database."""
    with suppress(LorelogError):
        if _head(path).startswith(json_files.SQLITE_MAGIC):
            with json_files.open_database(str(path)) as connection:
                return frozenset(json_files.table_columns(connection))
    return frozenset()


def member_names(path: Path) -> list[str]:
    """Return the names of the JSON files of an export, sorted. Raise SourceError for a damaged archive."""
    if path.is_dir():
        return sorted(file.name for file in path.iterdir() if file.suffix == ".json" and file.is_file())
    if not is_zip(path):
        return [path.name]
    with _open_zip(path) as archive:
        infos = archive.infolist()
        if len(infos) > _MAX_MEMBERS:
            raise SourceError(f"{printable_path(str(path))} has {len(infos):,} members", hint="it is not an export")
        return sorted(info.filename for info in infos if info.filename.endswith(".json"))


def member_head(path: Path, name: str) -> str:
    """Return the beginning of a member as text; empty if it cannot be read."""
    with suppress(SourceError, OSError, EOFError, zlib.error), open_member(path, name) as stream:
        return stream.read(_HEAD_BYTES).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    return ""


def base_name(name: str) -> str:
    """Return the last part of a member's name."""
    return PurePosixPath(name.replace("\\", "/")).name


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{printable_path(str(path))} cannot be read as a ZIP archive: {error}", hint="download the export again"
        ) from error


@contextmanager
def open_member(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a member of an export for reading, up to the limits."""
    if path.is_dir() or not is_zip(path):
        file = path / base_name(name) if path.is_dir() else path
        if problem := link_problem(file, path):
            raise EOFError(problem)
        with json_files.open_stream(str(file)) as stream:
            yield stream
    else:
        with _open_zip(path) as archive:
            packed = archive.getinfo(name).compress_size
            with archive.open(name) as inflated:
                yield _LimitedStream(inflated, packed)  # type: ignore[misc]


def read_array(path: Path, name: str) -> Iterator[Any]:
    """Yield the elements of a member that is one JSON array, and a SkippedItem where it ends unexpectedly."""
    stats, count = TranscriptStats(), 0
    try:
        with open_member(path, name) as stream:
            for element in json_files.read_elements(stream, stats):
                count += 1
                yield element
    except (EOFError, zlib.error, zipfile.BadZipFile) as error:
        yield SkippedItem(f"{name}, item {count + 1}", f"reading stopped here: {error}")
        return
    if stats.broken:
        yield SkippedItem(f"{name}, item {count + 1}", "the file ends here unexpectedly, or is not valid JSON")


def read_named_arrays(path: Path, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield (name, element) of some arrays of a document, and a SkippedItem where it ends unexpectedly."""
    stats, count = TranscriptStats(), 0
    for name, value in json_files.read_members(str(path), frozenset(names), stats):
        if name in names:
            count += 1
            yield name, value
    if stats.broken:
        yield "", SkippedItem(f"{path.name}, item {count + 1}", "the file ends here unexpectedly, or is not valid JSON")


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any] | SkippedItem]]:
    """Yield (place, object) of a file of JSON lines, and at the end a SkippedItem for lines that are not objects."""
    stats = TranscriptStats()
    for number, record in enumerate(json_files.read_records(str(path), stats), 1):
        yield f"{path.name}, record {number}", record
    if stats.broken or stats.skipped:
        count = stats.broken + stats.skipped
        yield path.name, SkippedItem(path.name, f"{count:,} lines are not JSON objects")


def read_each(
    values: Iterable[Any], name: str, read: Callable[[dict[str, Any], str], Iterable[ImportedItem]]
) -> Iterator[ImportedItem]:
    """Yield what `read` returns for each object, given its place; anything else is skipped."""
    for number, value in enumerate(values, 1):
        place = f"{name}, item {number}"
        if isinstance(value, SkippedItem):
            yield value
        elif isinstance(value, dict):
            yield from read(value, place)
        else:
            yield SkippedItem(place, "it is not an object")


def read_small_json(path: Path, limit: int) -> Any:
    """Return a JSON document of a limited size. Raise SourceError for anything else."""
    with json_files.open_stream(str(path)) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise SourceError(f"{printable_path(str(path))} is larger than {limit:,} bytes", hint="it is not an export")
    try:
        return json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{printable_path(str(path))} is not valid JSON: {error}", hint="export it again") from error
