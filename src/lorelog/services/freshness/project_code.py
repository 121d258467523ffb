"""The code of a project: its working tree now, and its files at one commit, with their contents and definitions.

Most of the working tree's state comes from the code index. A file that changed since it was indexed is parsed here, so
that a verdict is about the current state and not about the last index run. Results are cached by the stamp of the file.

What Git did not answer is never taken for an empty answer: it raises `GitUnavailable`, and nothing is concluded.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b, sha1, sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.code import Symbol
from lorelog.core.document import FileStamp
from lorelog.core.extras import missing_package
from lorelog.services.freshness.targets import GitUnavailable

if TYPE_CHECKING:
    from lorelog.code.git import GitHistory
    from lorelog.code.tables import CodeTables

PROSE_SUFFIXES = (".md", ".markdown", ".rst", ".txt", ".adoc", ".lock", ".svg", ".ipynb", ".csv", ".jsonl")
"""Files that describe settings but do not contain them: a changelog mentions settings that were removed long ago."""
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
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return None
        stamp = FileStamp.from_stat(status)
        return stamp.size, stamp.mtime_ns, stamp.inode

    def _within(self, path: str) -> os.stat_result | None:
        """Return the status of a path, unless it leads out of the tree: a text must not make us read other files."""
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            return None
        absolute = self._absolute(path)
        try:
            if os.path.realpath(absolute) != absolute:
                return None
            return Path(absolute).stat()
        except OSError:
            return None

    def _absolute(self, path: str) -> str:
        return f"{self.root}/{path}"


class Snapshot:
    """A project at one commit; without history it is empty."""

    def __init__(self, history: GitHistory | None, commit: str) -> None:
        self._history = history
        self.commit = commit if history is not None else ""
        self._texts: dict[str, bytes | None] = {}
        self._symbols: dict[str, Sequence[Symbol] | None] = {}

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The files, with the ids of their contents."""
        if self._history is None or not self.commit:
            return {}
        files = self._history.files(self.commit)
        if files is None:
            raise GitUnavailable
        return files

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for path in self.files:
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        return by_name

    @cached_property
    def folders(self) -> frozenset[str]:
        """All folders."""
        return frozenset(path[:end] for path in self.files for end, char in enumerate(path) if char == "/")

    def find(self, path: str) -> str:
        """Return the file that a path means: the exact path, or the only one that ends with it; else empty."""
        if path in self.files:
            return path
        candidates = self._by_name.get(path.rpartition("/")[2], ())
        matches = [candidate for candidate in candidates if candidate.endswith(f"/{path}")]
        return matches[0] if len(matches) == 1 else ""

    def lines_with(self, words: Sequence[str]) -> Mapping[str, list[bytes]]:
        """Return the lines that contain one of some words, by file, without prose. Nothing is left out."""
        if self._history is None or not self.commit or not words:
            return {}
        found = self._history.lines_with(self.commit, words)
        if found is None:
            raise GitUnavailable
        lines: dict[str, list[bytes]] = {}
        for path, line in found:
            if path in self.files and not path.endswith(PROSE_SUFFIXES):
                lines.setdefault(path, []).append(line)
        return lines

    def read(self, paths: Iterable[str]) -> None:
        """Read some files in advance with one query."""
        missing = [path for path in paths if path in self.files and path not in self._texts]
        if self._history is None or not missing:
            return
        contents = self._history.contents(self.files[path] for path in missing)
        if contents is None:
            raise GitUnavailable
        self._texts.update((path, contents.get(self.files[path])) for path in missing)

    def source(self, path: str) -> bytes | None:
        """Return the content of a file, empty if the file is missing; None if it cannot be read, or is too large."""
        self.read([path])
        return self._texts.get(path, b"")

    def text(self, path: str) -> str:
        """Return the text of a file; empty if it is missing or cannot be read."""
        return (self.source(path) or b"").decode("utf-8", "replace")

    def symbols(self, path: str) -> Sequence[Symbol] | None:
        """Return the definitions of a file; None if it cannot be read, or is too large to be parsed here."""
        if path not in self._symbols:
            source = self.source(path)
            self._symbols[path] = (
                parse_symbols(path, source) if source is not None and can_parse(path, source) else None
            )
        return self._symbols[path]


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
    words = re.findall(r"\w+|[^\w\s,;()'\"`]", text)
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
        with Path(absolute).open("rb") as file:
            return file.read(_MAX_BYTES + 1)
    except OSError:
        return None
