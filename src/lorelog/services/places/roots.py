"""The list of indexed files and directories of a tenant, with their project and exclusions.

Kept beside the index and not in it: the index may be deleted at any time, and `lorelog index` must then know which paths to
read again. Of a malformed list the entries that can be read count; the next change keeps it as `roots.json.bad-<time>`, and writes
a new one with the help of the index.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.errors import StoreError
from lorelog.core.options import MARKDOWN_SUFFIXES, TEXT_SUFFIXES
from lorelog.core.paths import is_below
from lorelog.core.processes import FileLock
from lorelog.core.serializable import Serializable


class Root(Serializable, Struct, frozen=True):
    """A file or directory to index: real path, project, and the excluded paths and patterns below it."""

    path: str
    project: str
    exclude: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    origin: str = ""
    """Empty if a user chose it, else the host whose files were discovered."""

    def holds(self, path: str) -> bool:
        """Return whether a path is this root or inside it; `/a/b` does not hold `/a/bc`."""
        return is_below(path, self.path)

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def is_gone_file(self) -> bool:
        """Return whether this was a single file that has been deleted, not a directory that may come back."""
        may_be_file = self.path.lower().endswith((*MARKDOWN_SUFFIXES, *TEXT_SUFFIXES))
        return may_be_file and not self.exists() and os.path.isdir(os.path.dirname(self.path))


class RootStatus(Serializable, Struct, frozen=True):
    """An indexed file or directory: a root, whether it exists now, and how many documents came from it."""

    path: str
    project: str
    exclude: tuple[str, ...]
    patterns: tuple[str, ...]
    origin: str
    exists: bool
    documents: int


class Roots:
    """The roots of one tenant, in one small file. `known` returns those of the index, for a list that is malformed."""

    def __init__(self, path: Path, known: Callable[[], Iterable[Root]] = tuple) -> None:
        self._path = path
        self._known = known

    def all(self) -> tuple[Root, ...]:
        """Return all roots; of a malformed list those that can be read."""
        return self._read()[0]

    def damage(self) -> str:
        """Return a sentence if the list is malformed, or an empty string."""
        roots, is_whole = self._read()
        return "" if is_whole else f"{self._path} is malformed; {len(roots):,} of its entries can be read"

    def heal(self) -> str:
        """Replace a malformed list by what can be read of it and the index knows; return a note if it was."""
        return self._change(lambda current: current)

    def _read(self) -> tuple[tuple[Root, ...], bool]:
        """Return the roots, and whether the list is well-formed."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return (), True
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}", hint="check its permissions") from error
        try:
            return tuple(_parse_root(entry) for entry in json.loads(data)["roots"]), True
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            roots = []
            for found in re.findall(rb"\{[^{}]*\}", data):  # the entries that are whole: each is a flat object
                with suppress(ValueError, LookupError, TypeError, AttributeError):
                    roots.append(_parse_root(json.loads(found)))
            return tuple(roots), False

    def remember(self, roots: Iterable[Root]) -> str:
        """Add roots, or replace those with the same path; return a note if the list was malformed."""
        new = {root.path: root for root in roots}
        return self._change(lambda current: current | new)

    def forget(self, paths: Iterable[str]) -> None:
        """Remove roots; unknown paths are ignored."""
        gone = set(paths)
        self._change(lambda current: {path: root for path, root in current.items() if path not in gone})

    def _change(self, change: Callable[[dict[str, Root]], dict[str, Root]]) -> str:
        current, damage = {root.path: root for root in self.all()}, self.damage()
        if change(current) == current and not damage:
            return ""
        known = tuple(self._known()) if damage else ()
        with self._locked():
            self._write(change({root.path: root for root in (*known, *self.all())}))
        return f"{damage}; it was kept as {self._path.name}.bad-* and written again from the index" if damage else ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the list between our read and our write."""
        with Writing(self._path, hint="make it writable or point LORELOG_HOME elsewhere"):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(self._path.with_name(".roots.lock")):
                yield

    def _write(self, roots: dict[str, Root]) -> None:
        text = json.dumps({"roots": [to_builtins(roots[path]) for path in sorted(roots)]}, indent=2, ensure_ascii=False)
        if not self._read()[1]:
            self._path.replace(self._path.with_name(f"{self._path.name}.bad-{time.strftime('%Y%m%d-%H%M%S')}"))
        write_atomic(self._path, text.encode() + b"\n")


def _parse_root(entry: dict[str, Any]) -> Root:
    if not isinstance(entry["path"], str) or not isinstance(entry["project"], str):
        raise TypeError("path and project are texts")
    exclude, patterns = tuple(entry.get("exclude", ())), tuple(entry.get("patterns", ()))
    return Root(entry["path"], entry["project"], exclude, patterns, entry.get("origin", ""))


def find_innermost_root(path: str, roots: Iterable[Root]) -> Root | None:
    return max((root for root in roots if root.holds(path)), key=lambda root: len(root.path), default=None)
