"""The current state of a working tree: the content of its files, and their definitions.

Most of it comes from the code index. A file that changed since it was indexed is parsed here, so that a verdict is
about the current state and not about the last index run. Results are cached by the stamp of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b, sha1, sha256
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.code import Symbol
from lorelog.core.document import FileStamp
from lorelog.core.extras import missing_package

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables

_MAX_BYTES = 2 << 20
"""Larger files are not read."""
_SHA256_LENGTH = 64
"""Length of an object id in a SHA-256 repository."""
_MAX_PARSE_BYTES = 500_000
_DETECTION_BYTES = 4096
_DATA_SUFFIXES = (".json", ".xml", ".html", ".css", ".yaml", ".yml", ".toml", ".po", ".map")
_SHINGLE_WORDS = 3
_SKETCH_SIZE = 64


class LocatedSymbol(Struct, frozen=True):
    """A definition and its file, relative to the working tree."""

    path: str
    symbol: Symbol


class WorkingTree:
    """One working tree, read for one reply."""

    def __init__(self, root: str, tables: CodeTables | None = None) -> None:
        self.root = root
        self._tables = tables

    @property
    def knows_symbols(self) -> bool:
        """Whether its code is indexed."""
        return self._tables is not None

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists in the tree."""
        return self._within(path) is not None

    def content(self, path: str) -> str:
        """Return Git's id of a file's content; empty if the file is missing or too large."""
        status = self._status(path)
        return "" if status is None else _content_id(self._absolute(path), *status)

    def has_content(self, path: str, content: str) -> bool:
        """Return True if a file has the content with an id. A difference in line endings does not count."""
        status = self._status(path)
        if status is None or not content:
            return False
        absolute = self._absolute(path)
        if len(content) == _SHA256_LENGTH:
            return content in _sha256_ids(absolute, *status)
        return content in {_content_id(absolute, *status), _lf_content_id(absolute, *status)}

    def modified_s(self, path: str) -> float | None:
        """Return the time a file was last modified, in seconds since 1970; None if it is missing."""
        status = self._within(path)
        return None if status is None else status.st_mtime

    def text(self, path: str) -> str:
        """Return a file's text; empty if it is missing."""
        status = self._status(path)
        return "" if status is None else _cached_text(self._absolute(path), *status)

    def symbols(self, path: str) -> Sequence[Symbol]:
        """Return the current definitions of a file."""
        status = self._status(path)
        if status is None:
            return ()
        if self._tables is None:
            return _cached_symbols(self._absolute(path), *status)
        key = (str(self._tables.path), self.root, path, *status)
        known = _INDEXED_SYMBOLS.get(key)
        if known is None:
            indexed = self._tables.file(self.root, path)
            if indexed is None or indexed.stamp != FileStamp(*status):
                return _cached_symbols(self._absolute(path), *status)
            known = tuple(self._tables.symbols_of(self.root, path))
            _remember_symbols(key, known)
        return known

    def definitions(self, name: str) -> list[LocatedSymbol]:
        """Return the current definitions of a name in indexed files."""
        if self._tables is None:
            return []
        paths = dict.fromkeys(definition.path for definition in self._tables.definitions(name, [self.root]))
        return [LocatedSymbol(path, symbol) for path in paths for symbol in self.symbols(path) if symbol.name == name]

    def symbols_with_digest(self, digest: str) -> list[LocatedSymbol]:
        """Return the definitions with the same tokens, whatever their name."""
        if self._tables is None or not digest:
            return []
        return [
            LocatedSymbol(definition.path, definition.symbol)
            for definition in self._tables.by_digest(digest, [self.root])
            if definition.symbol in self.symbols(definition.path)
        ]

    def _status(self, path: str) -> tuple[int, int, int] | None:
        status = self._within(path)
        if status is None or not _is_plain(status) or status.st_size > _MAX_BYTES:
            return None
        stamp = FileStamp.from_stat(status)
        return stamp.size, stamp.mtime_ns, stamp.inode

    def _within(self, path: str) -> os.stat_result | None:
        """Return the status of a path, unless it leads out of the tree: a text must not make us read other files."""
        if os.path.isabs(path) or ".." in path.split("/") or "\0" in path:  # noqa: PTH117
            return None
        absolute = self._absolute(path)
        try:
            if os.path.realpath(absolute) != absolute:
                return None
            return os.stat(absolute)  # noqa: PTH116
        except OSError:
            return None

    def _absolute(self, path: str) -> str:
        return os.path.join(self.root, path)  # noqa: PTH118


def parse_symbols(path: str, source: bytes) -> Sequence[Symbol]:
    """Parse the definitions of a source; nothing if it is not code, or is refused.

    Parsing takes a hundred times the size of a file in memory, in the process that answers: large files wait for the
    code index.
    """
    from lorelog.code.extract import extract
    from lorelog.code.languages.registry import detect_language
    from lorelog.code.source import decode_source

    language = detect_language(path, source[:_DETECTION_BYTES])
    if not language or len(source) > _MAX_PARSE_BYTES:
        return ()
    decoded = decode_source(source, language)
    return () if decoded.refusal else extract(decoded.source, language).symbols


def can_parse(path: str, source: bytes) -> bool:
    """Return False for code that is too large to be parsed here, or without the extra `code`; data has no definitions."""
    return path.endswith(_DATA_SUFFIXES) or (len(source) <= _MAX_PARSE_BYTES and not missing_package("code"))


def content_id(source: bytes) -> str:
    """Return Git's id of a content."""
    return sha1(b"blob %d\0" % len(source) + source, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=1024)
def text_sketch(text: str) -> frozenset[int]:
    """Return a set of hashes by which texts can be compared: the more two texts share, the more similar they are.

    Quotes, commas, semicolons and parentheses do not count: formatters change them.
    """
    words = _words(text)
    shingles = {
        " ".join(words[start : start + _SHINGLE_WORDS]) for start in range(max(1, len(words) - _SHINGLE_WORDS + 1))
    }
    hashes = (
        int.from_bytes(blake2b(shingle.encode("utf-8", "replace"), digest_size=6).digest(), "big")
        for shingle in shingles
    )
    return frozenset(sorted(hashes)[:_SKETCH_SIZE])


def sketch_similarity(first: frozenset[int], second: frozenset[int]) -> float:
    """Return the share of common hashes, 0 to 1."""
    smallest = sorted(first | second)[:_SKETCH_SIZE]
    return sum(number in first and number in second for number in smallest) / len(smallest) if smallest else 0.0


def lines_of(text: str, first: int, last: int) -> str:
    """Return some lines of a text, stripped."""
    return "\n".join(line.strip() for line in text.splitlines()[first - 1 : last])


def joint_digest(symbols: Iterable[Symbol]) -> str:
    """Return one digest of all definitions of a name in one container: overloads, and branches of a condition."""
    return " ".join(symbol.digest for symbol in symbols)


def source_of(text: str, symbol: Symbol) -> str:
    """Return the source lines of a definition."""
    return "\n".join(text.splitlines()[symbol.span.start_line - 1 : symbol.span.end_line])


_INDEXED_SYMBOLS: dict[tuple[str | int, ...], Sequence[Symbol]] = {}
"""Definitions that the code index has of a file with a certain stamp, for this process. The oldest is dropped first."""
_INDEXED_SYMBOLS_LOCK = Lock()
_MAX_INDEXED = 256


def _remember_symbols(key: tuple[str | int, ...], symbols: Sequence[Symbol]) -> None:
    with _INDEXED_SYMBOLS_LOCK:
        while len(_INDEXED_SYMBOLS) >= _MAX_INDEXED:
            _INDEXED_SYMBOLS.pop(next(iter(_INDEXED_SYMBOLS)))
        _INDEXED_SYMBOLS[key] = symbols


def _words(text: str) -> list[str]:
    import re

    return re.findall(r"\w+|[^\w\s,;()'\"`]", text)


def _is_plain(status: os.stat_result) -> bool:
    import stat

    return stat.S_ISREG(status.st_mode)


@lru_cache(maxsize=4096)
def _content_id(absolute: str, size: int, mtime_ns: int, inode: int) -> str:
    source = _read_file(absolute)
    return "" if source is None else content_id(source)


@lru_cache(maxsize=4096)
def _lf_content_id(absolute: str, size: int, mtime_ns: int, inode: int) -> str:
    source = _read_file(absolute)
    return "" if source is None else content_id(source.replace(b"\r\n", b"\n"))


@lru_cache(maxsize=4096)
def _sha256_ids(absolute: str, size: int, mtime_ns: int, inode: int) -> frozenset[str]:
    source = _read_file(absolute) or b""
    variants = (source, source.replace(b"\r\n", b"\n"))
    return frozenset(sha256(b"blob %d\0" % len(variant) + variant).hexdigest() for variant in variants)


@lru_cache(maxsize=64)
def _cached_text(absolute: str, size: int, mtime_ns: int, inode: int) -> str:
    return (_read_file(absolute) or b"").decode("utf-8", "replace")


@lru_cache(maxsize=256)
def _cached_symbols(absolute: str, size: int, mtime_ns: int, inode: int) -> Sequence[Symbol]:
    source = _read_file(absolute)
    return () if source is None else parse_symbols(absolute, source)


def _read_file(absolute: str) -> bytes | None:
    try:
        with open(absolute, "rb") as file:  # noqa: PTH123
            return file.read(_MAX_BYTES + 1)
    except OSError:
        return None
