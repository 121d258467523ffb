"""Which files and directories have been indexed, under which project, and without which parts.

Kept beside the index and not in it: the index can be deleted at any time, and `lorelog index` must then know
what to read again.
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
    """A file or directory to index: real path, project, and the paths and patterns below it that are left out."""

    path: str
    project: str
    exclude: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    origin: str = ""
    """Who chose it: nobody but a person where empty, else whose files were found unasked."""

    def holds(self, path: str) -> bool:
        """Say whether a path is this root or lies in it; `/a/b` does not hold `/a/bc`."""
        return is_below(path, self.path)

    def exists(self) -> bool:
        """Say whether there is anything at the path."""
        return os.path.exists(self.path)  # noqa: PTH110

    def is_gone_file(self) -> bool:
        """Say whether this was a single file that has been deleted, rather than a directory that may come back."""
        markdown = self.path.lower().endswith((".md", ".markdown"))
        return markdown and not self.exists() and os.path.isdir(os.path.dirname(self.path))  # noqa: PTH112, PTH120


@dataclass(frozen=True, slots=True)
class KnownRoot:
    """A root as it is now: whether it is there, and how many documents came from it."""

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
            return tuple(_read_root(entry) for entry in json.loads(text)["roots"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(
                f"{self._path} is malformed", hint="correct it, or delete it and index your paths once more"
            ) from error

    def remember(self, roots: Iterable[Root]) -> None:
        """Add roots, or replace those of the same path."""
        new = {root.path: root for root in roots}
        self._change(lambda known: known | new)

    def forget(self, paths: Iterable[str]) -> None:
        """Take roots out; unknown ones do no harm."""
        gone = set(paths)
        self._change(lambda known: {path: root for path, root in known.items() if path not in gone})

    def _change(self, change: Callable[[dict[str, Root]], dict[str, Root]]) -> None:
        known = {root.path: root for root in self.all()}
        if change(known) == known:
            return
        with self._locked():
            known = {root.path: root for root in self.all()}
            self._write(change(known))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep others from changing the list between our reading and our writing it."""
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

    def _write(self, wanted: dict[str, Root]) -> None:
        text = json.dumps({"roots": [asdict(wanted[path]) for path in sorted(wanted)]}, indent=2, ensure_ascii=False)
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with os.fdopen(
                os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreUnwritable:
        return StoreUnwritable(
            f"{self._path} cannot be written: {error.strerror}",
            hint="make it writable or point LORELOG_HOME elsewhere",
        )


def _read_root(entry: dict[str, Any]) -> Root:
    exclude, patterns = tuple(entry.get("exclude", ())), tuple(entry.get("patterns", ()))
    return Root(entry["path"], entry["project"], exclude, patterns, entry.get("origin", ""))


def owner(path: str, roots: Iterable[Root]) -> Root | None:
    """Return the innermost root that holds a path."""
    return max((root for root in roots if root.holds(path)), key=lambda root: len(root.path), default=None)
