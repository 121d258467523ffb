"""The code of a project: its working tree now, its files at one commit, and the answers of Git about both.

Most of the working tree's state comes from the code index. A file that changed since it was indexed is parsed here, so
that a verdict is about the current state and not about the last index run. Results are cached by the stamp of the file.

What Git did not answer is never taken for an empty answer: it raises `GitUnavailable`, and nothing is concluded.

HEAD and the index are read from Git's own files without a process. `git checkout` changes the files of the working tree,
then writes the index, and at last HEAD. It holds `index.lock` until the index is written.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from lorelog.core.document import FileStamp
from lorelog.core.extras import missing_package
from lorelog.core.ports import group_by
from lorelog.light.git_location import git_folders, read_head
from lorelog.retrieval.cache import ProcessCache
from lorelog.services.freshness.mentions import GitUnavailable

if TYPE_CHECKING:
    from lorelog.code.git import GitHistory
    from lorelog.code.tables import CodeTables
    from lorelog.core.code import Symbol


PROSE_SUFFIXES = (".md", ".markdown", ".rst", ".txt", ".adoc", ".lock", ".svg", ".ipynb", ".csv", ".jsonl")
"""Files that describe settings but do not contain them: a changelog mentions settings that were removed long ago."""
_MAX_BYTES = 2 << 20
"""Larger files are not read."""
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
        return self._tables is not None

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists in the tree."""
        return self._within(path) is not None

    def content(self, path: str) -> str:
        """Return Git's id of a file's content; empty if the file is missing or too large."""
        status = self._status(path)
        return "" if status is None else _content_ids(self._absolute(path), *status)[0]

    def has_content(self, path: str, content: str) -> bool:
        """Return True if a file has the content with an id. A difference in line endings does not count."""
        status = self._status(path)
        return status is not None and bool(content) and content in _content_ids(self._absolute(path), *status)

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
            _INDEXED_SYMBOLS.put(key, known)
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
        if self._history is None or not self.commit:
            return {}
        files = self._history.files(self.commit)
        if files is None:
            raise GitUnavailable
        return files

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        return group_by(self.files, lambda path: path.rpartition("/")[2])

    @cached_property
    def folders(self) -> frozenset[str]:
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
    return () if decoded.refusal else extract(decoded.source, language, only_symbols=True).symbols


def can_parse(path: str, source: bytes) -> bool:
    """Return False for code that is too large to be parsed here, or without the extra `code`; data has no definitions."""
    return path.endswith(_DATA_SUFFIXES) or (len(source) <= _MAX_PARSE_BYTES and not missing_package("code"))


@lru_cache(maxsize=1024)
def text_sketch(text: str) -> frozenset[int]:
    """Return a set of hashes by which texts can be compared: the more two texts share, the more similar they are.

    Quotes, commas, semicolons and parentheses do not count: formatters change them.
    """
    from hashlib import blake2b

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
    return "\n".join(line.strip() for line in text.splitlines()[first - 1 : last])


def joint_digest(symbols: Iterable[Symbol]) -> str:
    """Return one digest of all definitions of a name in one container: overloads, and branches of a condition."""
    return " ".join(symbol.digest for symbol in symbols)


def source_of(text: str, symbol: Symbol) -> str:
    return "\n".join(text.splitlines()[symbol.span.start_line - 1 : symbol.span.end_line])


_INDEXED_SYMBOLS: ProcessCache[Sequence[Symbol]] = ProcessCache(256)
"""Definitions that the code index has of a file with a certain stamp."""


@lru_cache(maxsize=4096)
def _content_ids(absolute: str, size: int, mtime_ns: int, inode: int) -> Sequence[str]:
    """Return Git's ids of a content, as it is and with other line endings, in repositories of both kinds."""
    from hashlib import sha1, sha256

    source = _read_file(absolute)
    if source is None:
        return ("",)
    blobs = [b"blob %d\0" % len(text) + text for text in (source, source.replace(b"\r\n", b"\n"))]
    return [sha1(blob, usedforsecurity=False).hexdigest() for blob in blobs] + [
        sha256(blob).hexdigest() for blob in blobs
    ]


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


_MAX_LOCK_AGE_S = 600.0
"""An older lock was left behind by a process that died."""
_YOUNG_S = 20.0
"""Git moves HEAD within this time after it has written the index, also on a busy machine."""
_GIT_TIMEOUT_S = 30.0
_FILTER_ATTRIBUTES = ("filter", "ident", "working-tree-encoding")
_CACHE_S = 10.0
"""Changes that are not staged are noticed after this time."""
_MAX_SNAPSHOTS = 16
_GIT_CACHE: ProcessCache[object] = ProcessCache(512)
"""Answers of Git by everything they depend on."""

GitAnswer = TypeVar("GitAnswer")


class CheckoutState(Struct, frozen=True):
    """HEAD and the index of a working tree at one moment."""

    branch: str = ""
    commit: str = ""
    index: FileStamp | None = None
    is_changing: bool = False
    """Git holds the lock of the index."""

    @classmethod
    def read(cls, root: str) -> CheckoutState:
        folders = git_folders(root)
        if not folders[0]:
            return cls()
        # The lock before the rest: it ends when the index is replaced.
        lock = FileStamp.of(f"{folders[0]}/index.lock")
        is_changing = lock is not None and time.time() - lock.mtime_ns / 1e9 < _MAX_LOCK_AGE_S
        return cls(*read_head(root, folders), FileStamp.of(f"{folders[0]}/index"), is_changing)

    @property
    def _index_time(self) -> int:
        return self.index.mtime_ns if self.index else 0

    @property
    def key(self) -> tuple[str, int]:
        """Changes with every commit and with staging."""
        return self.commit, self._index_time

    @property
    def is_young(self) -> bool:
        """Whether the index was written just now, so that HEAD may not be written yet."""
        return time.time() - self._index_time / 1e9 < _YOUNG_S


class ProjectGit:
    """Answers of Git about one working tree. Each raises `GitUnavailable` if Git gives no answer, or there is no time."""

    def __init__(self, root: str, budget_s: float) -> None:
        self.root = root
        self.state = CheckoutState()
        self.budget_s = budget_s
        self._spent = 0.0
        self._started = 0.0
        self._snapshots: dict[str, Snapshot] = {}

    @cached_property
    def history(self) -> GitHistory | None:
        """The history of the project; None without Git."""
        if not git_folders(self.root)[1]:
            return None
        from lorelog.code.git import Git, GitHistory

        return GitHistory(Git(self.root), remaining_s=self.remaining_s)

    def has_time(self) -> bool:
        """Return True if the time limit is not reached."""
        return self._spent < self.budget_s

    def remaining_s(self) -> float:
        """Return the timeout of the next Git command, inside of `timed`."""
        return min(_GIT_TIMEOUT_S, max(0.0, self.budget_s - self._spent - (time.monotonic() - self._started)))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of a block."""
        self._started = time.monotonic()
        try:
            yield
        finally:
            self._spent += time.monotonic() - self._started

    def snapshot(self, commit: str) -> Snapshot:
        """Return the project at a commit; empty without history."""
        if commit not in self._snapshots:
            while len(self._snapshots) >= _MAX_SNAPSHOTS:
                self._snapshots.pop(next(iter(self._snapshots)))
            self._snapshots[commit] = Snapshot(self.history, commit)
        return self._snapshots[commit]

    def is_merged(self, commit: str) -> bool:
        """Return True if a commit is part of what is checked out, or is missing here."""
        full_id = self._answer(lambda history: history.commit(commit), "", "commit", commit, now=False)
        head = self.state.commit
        if not full_id:
            return True
        return self._answer(
            lambda git: git.is_merged(full_id, head or "HEAD"), True, "merged", full_id, head, now=False
        )

    def renames(self, commit: str) -> Mapping[str, str]:
        """Return the current names of a commit's renamed files."""
        return self._answer(lambda history: history.renames(commit), {}, "renames", commit) if commit else {}

    def renames_by_steps(self, commit: str) -> Mapping[str, str]:
        """Return the current names of a commit's renamed files, followed commit by commit."""
        return self._answer(lambda history: history.renames_by_steps(commit), {}, "steps", commit) if commit else {}

    def files_with_word(self, word: str) -> Sequence[str]:
        """Return the files of the working tree that contain a word."""
        return self._answer(lambda history: history.files_with_now(word), (), "word", word, _time_bucket())

    def files(self) -> Sequence[str]:
        return self._answer(lambda history: history.files_now(), (), "files", _time_bucket())

    def sparse_files(self) -> Collection[str]:
        """Return the tracked files that are not in the working tree (sparse checkout): whether they changed is unknown."""
        if not Path(git_folders(self.root)[0], "info", "sparse-checkout").exists():
            return ()
        return self._answer(lambda history: history.sparse_files(), (), "left out")

    def staged(self, path: str, attributes: str) -> str:
        """Return the id of a file's content if a filter of the attributes changes it on checkout (LFS); else empty.

        Such a file cannot be compared directly.
        """
        if not any(name in attributes for name in _FILTER_ATTRIBUTES):
            return ""
        if not self._answer(lambda history: history.is_filtered(path), False, "filtered", path):
            return ""
        return self._answer(lambda history: history.content_now(path), "", "staged", path)

    def is_settling(self, path: str) -> bool:
        """Return True if a file may be missing only because a checkout is under way: Git writes HEAD last."""
        is_young = self.state.is_young
        return is_young and self._answer(lambda git: git.is_staged_otherwise(path), False, "settling", path)

    def has_known(self, path: str) -> bool:
        """Return True if the checked-out commit or one of its ancestors has, or had, a file."""
        return self._answer(lambda git: git.has_known(path), True, "known", path, self.state.commit, now=False)

    def defined_then(self, commit: str, path: str) -> Collection[str]:
        """Return the qualified names that a file defined at a commit."""

        def names(_: GitHistory) -> Collection[str] | None:
            symbols = self.snapshot(commit).symbols(path)
            return None if symbols is None else frozenset(symbol.qualified_name for symbol in symbols)

        return self._answer(names, (), "defined", commit, path, now=False)

    def _answer(
        self, query: Callable[[GitHistory], GitAnswer | None], without: GitAnswer, *key: object, now: bool = True
    ) -> GitAnswer:
        """Return the answer of a query, cached by a key, and if it is about `now` also by what is checked out.

        Without Git it is `without`.
        """
        if self.history is None:
            return without
        whole_key = (self.root, *key, *(self.state.key if now else ()))
        cached: GitAnswer | None = _GIT_CACHE.get(whole_key)  # type: ignore[assignment]
        if cached is not None:
            return cached
        if not self.has_time():
            raise GitUnavailable
        with self.timed():
            answer = query(self.history)
        if answer is None:
            raise GitUnavailable
        _GIT_CACHE.put(whole_key, answer)
        return answer


def _time_bucket() -> int:
    return int(time.monotonic() / _CACHE_S)
