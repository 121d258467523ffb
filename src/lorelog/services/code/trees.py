"""The working trees whose code is indexed: one is added by indexing it once, from then on it is kept up to date, until it is forgotten.

Never unasked: a working tree that nobody named is not parsed, whatever is asked about it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lorelog.code.tables import CodeFile, CodeTables
from lorelog.code.tables_writing import writing
from lorelog.core.errors import Cancelled, LorelogError, NotFound, UsageError
from lorelog.core.options import ScanOptions
from lorelog.core.ports import Progress
from lorelog.services.code.indexing import CodeJob, CodeReport, index_code
from lorelog.services.code.registry import Registry
from lorelog.services.place import Place
from lorelog.services.reach import real_path
from lorelog.services.scope import find_project

# `os.path`, because a path that is asked about may be none.
# ruff: noqa: PTH111, PTH112

_WAIT_S = 60.0
_MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Tree:
    """A working tree whose code is indexed, as it is now."""

    path: str
    project: str
    parts: tuple[str, ...]
    exists: bool
    files: int
    symbols: int
    languages: dict[str, int]
    """How many files there are of each."""
    indexed_at: str
    """When a run last went through all of it; empty while none has."""
    head: str
    left_out: tuple[CodeFile, ...]
    """Some of the files of which nothing is known, and `left_out_total` how many there are."""
    left_out_total: int = 0


class Trees:
    """The working trees of one tenant."""

    def __init__(self, place: Place, tables: CodeTables) -> None:
        self._place = place
        self._tables = tables
        self._registry = Registry(place.tenant_folder)

    def index(
        self, path: str = "", *, scan: ScanOptions, force: bool = False, progress: Progress | None = None
    ) -> CodeReport:
        """Index the working tree that a path lies in, or the one that one stands in; only a folder of it if one is named.

        Who names a folder of a tree that is indexed as a whole has that folder looked at, and the rest stays.
        """
        root, project, part = self._named(path)
        known = self._registry.all()
        parts, only = _with_part(known.get(root), part)
        self._place.found()
        self._registry.add(root, project, parts)
        job = CodeJob(root, project, parts, scan, force=force, only=only)
        try:
            return index_code(self._tables.path, job, progress)
        except (LorelogError, OSError) as error:
            if root not in known and not isinstance(error, Cancelled) and self._tables.root(root) is None:
                self._registry.remove(root)  # nothing came of it
            raise

    def is_registered(self, path: str = "") -> bool:
        """Say whether the working tree of a path was ever indexed."""
        return self._named(path)[0] in self._registry.all()

    def forget(self, path: str = "") -> tuple[str, int]:
        """Forget what is known of a working tree, and keep it up to date no longer; return its path and how many files it had."""
        real = real_path(path) if path else ""
        root = real if real in self._registry.all() else self._named(path, missing=True)[0]
        registered = self._registry.remove(root)
        if self._tables.root(root) is None:
            if not registered:
                raise NotFound(f"no code of {root} is indexed", hint="'lorelog code status' lists what is")
            return root, 0
        with writing(self._tables.path, wait_s=_WAIT_S) as writer:
            return root, writer.forget(root)

    def all(self) -> list[Tree]:
        """Return all working trees that were indexed, or are to be."""
        indexed = {root.path: root for root in self._tables.roots()}
        trees: list[Tree] = []
        for path, (project, parts) in sorted(self._registry.all().items()):
            if path in indexed:
                continue
            trees.append(Tree(path, project, parts, os.path.isdir(path), 0, 0, {}, "", "", ()))
        for path, root in indexed.items():
            files = self._tables.files(path)
            languages = Counter(file.language for file in files if not file.problem)
            bad = self._tables.problems(path)
            told = dict(languages.most_common())
            tree = Tree(
                *(path, root.project, root.parts, os.path.isdir(path), sum(told.values()), root.symbols, told),
                *(root.indexed_at, root.head, tuple(bad[:_MOST_TOLD]), len(bad)),
            )
            trees.append(tree)
        return sorted(trees, key=lambda tree: tree.path)

    def size(self) -> int:
        """Return how many bytes code.db takes."""
        try:
            return self._tables.path.stat().st_size
        except OSError:
            return 0

    def _named(self, path: str, *, missing: bool = False) -> tuple[str, str, str]:
        """Return the working tree of a path, its project, and which part of it the path is."""
        if not path:
            project = self._place.project
            return self._checked(project.root, git=project.git), project.id, ""
        real = real_path(path)
        if not missing and not os.path.exists(real):  # noqa: PTH110
            raise NotFound(f"{path} does not exist", hint="check the spelling")
        project = find_project(real)
        part = os.path.relpath(real, project.root) if real != project.root else ""
        return self._checked(project.root, git=project.git), project.id, part

    def _checked(self, root: str, *, git: bool) -> str:
        if not git and root in {"/", os.path.realpath(os.path.expanduser("~")), str(self._place.home)}:
            raise UsageError(
                f"{root} is not a project, and everything lies below it",
                hint="name a folder: lorelog code index PATH",
            )
        return root


def database(tenant_folder: Path) -> Path:
    """Return where a tenant's code.db is."""
    from lorelog.services.cabinet import CODE

    return tenant_folder / CODE


def _with_part(known: tuple[str, tuple[str, ...]] | None, part: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which parts of a tree are indexed from now on, and which are looked at now (none: all of them)."""
    if not part:
        return (), ()
    if known is None:
        return (part,), ()
    _, parts = known
    if not parts or any(part == one or part.startswith(f"{one}/") for one in parts):
        return parts, (part,)
    return tuple(sorted({one for one in parts if not one.startswith(f"{part}/")} | {part})), (part,)
