"""A working tree as it is now: what files hold, and what is defined in them.

The code index knows most of it. A file that changed since it was indexed is read again here, alone, so that a verdict is of this
moment and not of the last run. What was read is kept by the file's stamp.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha1, sha256
from typing import TYPE_CHECKING

from lorelog.core.code import Symbol
from lorelog.core.document import Stamp

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables

_MOST_BYTES = 2 << 20
"""Larger files are not read for a verdict."""
_LONG_ID = 64
"""Letters of an id in a repository of the newer format, which uses SHA-256."""
_MOST_PARSED = 500_000
_HEAD = 4096
_SHINGLE = 3
_SKETCH = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A definition, and the file it is in, relative to the working tree."""

    path: str
    symbol: Symbol


class WorkingTree:
    """One working tree, looked at for one answer."""

    def __init__(self, root: str, tables: CodeTables | None = None) -> None:
        self.root = root
        self._tables = tables

    @property
    def knows_symbols(self) -> bool:
        """Whether its code was indexed."""
        return self._tables is not None

    def exists(self, path: str) -> bool:
        """Say whether there is such a file or folder in it."""
        return self._within(path) is not None

    def content(self, path: str) -> str:
        """Return what identifies a file's content, as Git would say it; empty for none, and for what is too large to read."""
        status = self._status(path)
        return "" if status is None else _content_id(self._absolute(path), *status)

    def has(self, path: str, content: str) -> bool:
        """Say whether a file has the content that was identified. Line ends as the system likes them are no change."""
        status = self._status(path)
        if status is None or not content:
            return False
        absolute = self._absolute(path)
        if len(content) == _LONG_ID:
            return content in _long_ids(absolute, *status)
        return content in {_content_id(absolute, *status), _plain_id(absolute, *status)}

    def text(self, path: str) -> str:
        """Return a file's text; empty for none."""
        status = self._status(path)
        return "" if status is None else _text(self._absolute(path), *status)

    def symbols(self, path: str) -> Sequence[Symbol]:
        """Return what is defined in a file now."""
        status = self._status(path)
        if status is None:
            return ()
        if self._tables is not None:
            known = self._tables.file(self.root, path)
            if known is not None and known.stamp == Stamp(*status):
                return self._tables.symbols_of(self.root, path)
        return _symbols(self._absolute(path), *status)

    def definitions(self, name: str) -> list[Place]:
        """Return what is defined by a name, in files that the code index knows."""
        if self._tables is None:
            return []
        found = self._tables.definitions(name, [self.root])
        return [
            Place(path, symbol)
            for path in dict.fromkeys(one.path for one in found)
            for symbol in self.symbols(path)
            if symbol.name == name
        ]

    def alike(self, digest: str) -> list[Place]:
        """Return definitions that do the same, whatever they are called."""
        if self._tables is None or not digest:
            return []
        found = (Place(one.path, one.symbol) for one in self._tables.by_digest(digest, [self.root]))
        return [one for one in found if one.symbol in self.symbols(one.path)]

    def _status(self, path: str) -> tuple[int, int, int] | None:
        status = self._within(path)
        if status is None or not _is_plain(status) or status.st_size > _MOST_BYTES:
            return None
        stamp = Stamp.of(status)
        return stamp.size, stamp.mtime_ns, stamp.inode

    def _within(self, path: str) -> os.stat_result | None:
        """Return the status of what a path leads to, unless that is elsewhere: a text must not have files of others read."""
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


def parse(path: str, source: bytes) -> Sequence[Symbol]:
    """Return what is defined in a source; nothing where it is no code, or not for people.

    Parsing takes a hundred times a file's size, and here it is done beside whoever is answered: a large file waits for the code index.
    """
    from lorelog.code.extract import extract
    from lorelog.code.languages import language_of
    from lorelog.code.reading import read_source

    language = language_of(path, source[:_HEAD])
    if not language or len(source) > _MOST_PARSED:
        return ()
    reading = read_source(source, language)
    return () if reading.refusal else extract(reading.source, language).symbols


def content_id(source: bytes) -> str:
    """Return what Git calls a content."""
    return sha1(b"blob %d\0" % len(source) + source, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=1024)
def sketch(text: str) -> frozenset[int]:
    """Return a few numbers by which texts can be compared: the more of them two have in common, the more alike they are."""
    words = _words(text)
    spans = {" ".join(words[start : start + _SHINGLE]) for start in range(max(1, len(words) - _SHINGLE + 1))}
    hashed = (int.from_bytes(blake2b(one.encode("utf-8", "replace"), digest_size=6).digest(), "big") for one in spans)
    return frozenset(sorted(hashed)[:_SKETCH])


def likeness(one: frozenset[int], other: frozenset[int]) -> float:
    """Return how much two sketches have in common, 0 to 1."""
    least = sorted(one | other)[:_SKETCH]
    return sum(number in one and number in other for number in least) / len(least) if least else 0.0


def lines_of(text: str, first: int, last: int) -> str:
    """Return some lines of a text, without what is around their words."""
    return "\n".join(line.strip() for line in text.splitlines()[first - 1 : last])


def joint_digest(symbols: Iterable[Symbol]) -> str:
    """Return one digest of all definitions of a name in one place: overloads, and the other branch of a condition."""
    return " ".join(symbol.digest for symbol in symbols)


def source_of(text: str, symbol: Symbol) -> str:
    """Return the lines of a definition."""
    return "\n".join(text.splitlines()[symbol.span.start_line - 1 : symbol.span.end_line])


def _words(text: str) -> list[str]:
    import re

    return re.findall(r"\w+|[^\w\s]", text)


def _is_plain(status: os.stat_result) -> bool:
    import stat

    return stat.S_ISREG(status.st_mode)


@lru_cache(maxsize=4096)
def _content_id(absolute: str, size: int, mtime_ns: int, inode: int) -> str:
    source = _read(absolute)
    return "" if source is None else content_id(source)


@lru_cache(maxsize=4096)
def _plain_id(absolute: str, size: int, mtime_ns: int, inode: int) -> str:
    source = _read(absolute)
    return "" if source is None else content_id(source.replace(b"\r\n", b"\n"))


@lru_cache(maxsize=4096)
def _long_ids(absolute: str, size: int, mtime_ns: int, inode: int) -> frozenset[str]:
    source = _read(absolute) or b""
    both = (source, source.replace(b"\r\n", b"\n"))
    return frozenset(sha256(b"blob %d\0" % len(one) + one).hexdigest() for one in both)


@lru_cache(maxsize=64)
def _text(absolute: str, size: int, mtime_ns: int, inode: int) -> str:
    return (_read(absolute) or b"").decode("utf-8", "replace")


@lru_cache(maxsize=256)
def _symbols(absolute: str, size: int, mtime_ns: int, inode: int) -> Sequence[Symbol]:
    source = _read(absolute)
    return () if source is None else parse(absolute, source)


def _read(absolute: str) -> bytes | None:
    try:
        with open(absolute, "rb") as file:  # noqa: PTH123
            return file.read(_MOST_BYTES + 1)
    except OSError:
        return None
