"""An agent without a model that looks for files: the same in every arm, so that what differs is what it was told.

It takes paths and names of code from the issue, and from what it was told. It greps for one name after the other, and opens the three best new
files after each grep, by how many of the names so far they contain. Each grep and each opened file is a step. It stops when it has opened
every gold file, or after 60 steps. There are two, which differ in what they do with what they were told:

- the checking one opens the paths of the issue and greps for its names first; a file that it was told of is opened before others that a grep
  finds, and one that has none of the names only after all of them. Then come the names that only what it was told has;
- the credulous one opens every path that it was told of, and greps for names that it was told before those of the issue.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.value.issues import identifiers
from bench.value.sources import GitSource

MAX_STEPS = 60
_OPENED_AFTER_GREP = 3
_LISTED_BYTES = 2_000
_SUFFIXES = (".py", ".pyx", ".pyi", ".c", ".h", ".cpp", ".js")
_WORD = re.compile(rb"\w+")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+\.\w{1,4}\b")
_SECONDS = 120


class Tree(Protocol):
    """A checkout."""

    def find(self, names: Sequence[str]) -> Mapping[str, Collection[str]]:
        """Return the paths of the files of code that contain each name as a word."""

    def size(self, path: str) -> int:
        """Return the bytes of a file; -1 if it does not exist."""


class FolderTree:
    """A checkout in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, names: Sequence[str]) -> Mapping[str, Collection[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b") if names else None
        for folder, folders, files in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for path in (Path(folder, name) for name in files if name.endswith(_SUFFIXES)):
                for name in set(pattern.findall(path.read_text("utf-8", "replace"))) if pattern else ():
                    found[name].add(path.relative_to(self._root).as_posix())
        return found

    def size(self, path: str) -> int:
        place = self._root / path
        return place.stat().st_size if place.is_file() else -1


class GitTree:
    """A commit of a bare repository, as a checkout."""

    def __init__(self, source: GitSource) -> None:
        self._source = source
        self._files: dict[str, tuple[str, int]] = {}
        """Blob and size of each file."""
        self._known: dict[str, set[str]] = {}

    def find(self, names: Sequence[str]) -> Mapping[str, Collection[str]]:
        """Return the paths by name; what was found once is not searched for again. All words are read at once: `git grep` takes ten times as long."""
        if new := {name.encode(): name for name in names if name not in self._known}:
            self._known |= {name: set() for name in new.values()}
            for path, text in self._texts():
                for word in new.keys() & set(_WORD.findall(text)):
                    self._known[new[word]].add(path)
        return {name: self._known[name] for name in names}

    def size(self, path: str) -> int:
        return self._listed().get(path, ("", -1))[1]

    def _listed(self) -> Mapping[str, tuple[str, int]]:
        if not self._files:
            for line in self._git("ls-tree", "-r", "-l", self._source.commit).decode("utf-8", "replace").splitlines():
                head, _, name = line.partition("\t")
                _, kind, blob, size = head.split()
                if kind == "blob" and size.isdecimal():  # a snapshot may be without its largest files
                    self._files[name] = (blob, int(size))
        return self._files

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        chosen = {path: file for path, file in self._listed().items() if path.endswith(_SUFFIXES)}
        read, start = self._git("cat-file", "--batch", given="\n".join(blob for blob, _ in chosen.values())), 0
        for path, (_, size) in chosen.items():
            start = read.index(b"\n", start) + 1
            yield path, read[start : start + size]
            start += size + 1

    def _git(self, *words: str, given: str = "") -> bytes:
        command = ["git", "-C", str(self._source.folder), *words]
        return subprocess.run(command, input=given.encode(), capture_output=True, timeout=_SECONDS, check=True).stdout


@dataclass(frozen=True)
class Walk:
    """How far the agent had to go."""

    steps: int
    bytes: int
    found: bool


class _Search:
    """Files that were opened, and their price so far."""

    def __init__(self, tree: Tree, gold: Collection[str], steps: int, read: int) -> None:
        self._tree, self._gold = tree, set(gold)
        self.steps, self.bytes = steps, read
        self._opened: set[str] = set()
        self._counts: dict[str, int] = defaultdict(int)

    @property
    def found(self) -> bool:
        return self._gold <= self._opened

    @property
    def is_done(self) -> bool:
        return self.found or self.steps >= MAX_STEPS

    def open(self, paths: Sequence[str]) -> None:
        """Open files that exist, until it is done."""
        for path in paths:
            size = self._tree.size(path) if path not in self._opened and not self.is_done else -1
            if size >= 0:
                self._opened.add(path)
                self.steps, self.bytes = self.steps + 1, self.bytes + size

    def grep(self, paths: Collection[str]) -> None:
        """Note that these files contain one name more."""
        self.steps += 1
        self.bytes += min(_LISTED_BYTES, sum(len(path) + 1 for path in paths))
        for path in paths:
            self._counts[path] += 1

    def best(self, told: Collection[str]) -> list[str]:
        """Return the files that were not opened: those that it was told of, then those with most names first."""
        left = (path for path in self._counts if path not in self._opened)
        return sorted(left, key=lambda path: (path not in told, -self._counts[path], _is_test(path), path))


def explore(tree: Tree, issue: str, gold: Collection[str], told: str = "", asked: int = 0, *, checks: bool) -> Walk:
    """Look for the gold files; `told` is what memory said, at the price of `asked` steps."""
    search = _Search(tree, gold, asked, len(told.encode()))
    paths, own = _PATH.findall(told), _PATH.findall(issue)
    search.open(own if checks else [*paths, *own])
    texts = (issue, told) if checks else (told, issue)
    names = list(dict.fromkeys(name for text in texts for name in identifiers(text)))
    places = {} if search.is_done else tree.find(names)
    preferred = frozenset(paths if checks else ())
    for name in names:
        if search.is_done:
            break
        search.grep(places.get(name, ()))
        search.open(search.best(preferred)[:_OPENED_AFTER_GREP])
    search.open([*paths, *search.best(preferred)[:MAX_STEPS]])  # the names are used up: on with the next best files
    return Walk(search.steps if search.found else MAX_STEPS, search.bytes, search.found)


def _is_test(path: str) -> bool:
    return "test" in path
