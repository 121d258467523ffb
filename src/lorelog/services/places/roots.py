"""The list of indexed files and directories of a tenant, with their project and exclusions.

Kept beside the index and not in it: the index may be deleted at any time, and `lorelog index` must then know which paths to
read again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lorelog.core.errors import StoreDamaged, StoreError, StoreUnwritable
from lorelog.core.paths import is_below


@dataclass(frozen=True, slots=True)
class Root:
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
        """Return whether the path exists."""
        return os.path.exists(self.path)  # noqa: PTH110

    def is_gone_file(self) -> bool:
        """Return whether this was a single file that has been deleted, not a directory that may come back."""
        markdown = self.path.lower().endswith((".md", ".markdown"))
        return markdown and not self.exists() and os.path.isdir(os.path.dirname(self.path))  # noqa: PTH112, PTH120


@dataclass(frozen=True, slots=True)
class RootStatus:
    """A root, whether it exists now, and how many documents came from it."""

    root: Root
    exists: bool
    documents: int


class Roots:
    """The roots of one tenant, in one small file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> tuple[Root, ...]:
        """Return all roots."""
        try:
            text = self._path.read_text("utf-8")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}", hint="check its permissions") from error
        try:
            return tuple(_parse_root(entry) for entry in json.loads(text)["roots"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"{self._path} is malformed", hint="correct it, or delete it and index your paths again"
            ) from error

    def remember(self, roots: Iterable[Root]) -> None:
        """Add roots, or replace those with the same path."""
        new = {root.path: root for root in roots}
        self._change(lambda current: current | new)

    def forget(self, paths: Iterable[str]) -> None:
        """Remove roots; unknown paths are ignored."""
        gone = set(paths)
        self._change(lambda current: {path: root for path, root in current.items() if path not in gone})

    def _change(self, change: Callable[[dict[str, Root]], dict[str, Root]]) -> None:
        current = {root.path: root for root in self.all()}
        if change(current) == current:
            return
        with self._locked():
            current = {root.path: root for root in self.all()}
            self._write(change(current))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the list between our read and our write."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path.with_name(".roots.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # held for one small write
            yield
        finally:
            os.close(descriptor)

    def _write(self, roots: dict[str, Root]) -> None:
        text = json.dumps({"roots": [asdict(roots[path]) for path in sorted(roots)]}, indent=2, ensure_ascii=False)
        temporary = self._path.with_name(f"{self._path.name}.new")
        try:
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreUnwritable:
        return StoreUnwritable(
            f"{self._path} cannot be written: {error.strerror}",
            hint="make it writable or point LORELOG_HOME elsewhere",
        )


def _parse_root(entry: dict[str, Any]) -> Root:
    exclude, patterns = tuple(entry.get("exclude", ())), tuple(entry.get("patterns", ()))
    return Root(entry["path"], entry["project"], exclude, patterns, entry.get("origin", ""))


def find_innermost_root(path: str, roots: Iterable[Root]) -> Root | None:
    """Return the innermost root that holds a path."""
    return max((root for root in roots if root.holds(path)), key=lambda root: len(root.path), default=None)
