"""A project at one commit: its files, their contents and definitions, and the lines that contain a word.

What Git did not answer is never taken for an empty answer: it raises `GitUnavailable`, and nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from lorelog.core.code import Symbol
from lorelog.services.freshness.targets import GitUnavailable
from lorelog.services.freshness.working_tree import can_parse, parse_symbols

if TYPE_CHECKING:
    from lorelog.code.git import GitHistory

PROSE_SUFFIXES = (".md", ".markdown", ".rst", ".txt", ".adoc", ".lock", ".svg", ".ipynb", ".csv", ".jsonl")
"""Files that describe settings but do not contain them: a changelog mentions settings that were removed long ago."""


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
        return frozenset(path[:end] for path in self.files for end in _slash_positions(path))

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


def _slash_positions(path: str) -> list[int]:
    return [position for position, letter in enumerate(path) if letter == "/"]
