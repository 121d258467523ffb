"""The working trees whose code is indexed: indexing one registers it, and it is kept up to date until it is forgotten.

A working tree that no user has named is never parsed. The registry is a file beside code.db, because code.db can be
deleted at any time.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from lorelog.code.tables import CodeRoot, CodeTables
from lorelog.code.writer import open_writer
from lorelog.core.errors import Cancelled, LorelogError, NotFound, UsageError
from lorelog.core.options import ScanOptions
from lorelog.core.ports import Progress
from lorelog.core.serializable import Serializable
from lorelog.services.code.index_run import CodeIndexJob, CodeIndexReport, index_code
from lorelog.services.places.project import find_project
from lorelog.services.places.root_selection import real_path
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import Workspace

REGISTRY_FILE = "code_roots.json"
_LOCK_TIMEOUT_S = 60.0
_MAX_LISTED = 20


class CodeRootRegistry:
    """The registered working trees of one tenant. The indexed folders are stored in the field `patterns` of a root."""

    def __init__(self, tenant_folder: Path) -> None:
        self.path = tenant_folder / REGISTRY_FILE
        self._roots = Roots(self.path)

    def all(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the project and the indexed folders of each working tree; no folders stands for all of it."""
        return {root.path: (root.project, root.patterns) for root in self._roots.all()}

    def add(self, path: str, project: str, parts: tuple[str, ...]) -> None:
        """Register a working tree, or change which of its folders are indexed."""
        self._roots.remember([Root(path, project, patterns=parts)])

    def remove(self, path: str) -> bool:
        """Unregister a working tree; return whether it was registered."""
        is_registered = path in self.all()
        self._roots.forget([path])
        return is_registered


class SkippedFile(Serializable, Struct, frozen=True):
    """A file that was not indexed, and why."""

    path: str
    reason: str


class CodeTree(Serializable, Struct, frozen=True, kw_only=True):
    """An indexed working tree."""

    path: str
    project: str
    parts: tuple[str, ...]
    exists: bool
    files: int = 0
    symbols: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    """Number of files by language."""
    indexed_at: str | None = None
    """When the last complete run ended."""
    commit: str | None = None
    left_out: tuple[SkippedFile, ...] = ()
    """Some of the files that could not be indexed."""
    left_out_total: int = 0


class IndexedTrees:
    """The working trees of one tenant."""

    def __init__(self, workspace: Workspace, tables: CodeTables) -> None:
        self._workspace = workspace
        self._tables = tables
        self._registry = CodeRootRegistry(workspace.tenant_folder)

    def index(
        self, path: str = "", *, scan: ScanOptions, force: bool = False, progress: Progress | None = None
    ) -> CodeIndexReport:
        """Index the working tree of a path, or the current one; if the path is a folder of it, only that folder.

        If the tree is already indexed as a whole, the folder is updated and the rest stays.
        """
        root, project, part = self._resolve_tree(path)
        registered = self._registry.all()
        parts, only = _merge_part(registered.get(root), part)
        self._workspace.create()
        self._registry.add(root, project, parts)
        job = CodeIndexJob(root, project, parts=parts, scan=scan, force=force, only=only)
        try:
            return index_code(self._tables.path, job, progress)
        except (LorelogError, OSError) as error:
            if root not in registered and not isinstance(error, Cancelled) and self._tables.root(root) is None:
                self._registry.remove(root)  # nothing was indexed
            raise

    def is_registered(self, path: str = "") -> bool:
        """Return True if the working tree of a path was indexed."""
        return self._resolve_tree(path)[0] in self._registry.all()

    def forget(self, path: str = "") -> tuple[str, int]:
        """Delete the index of a working tree and stop updating it; return its path and its number of files."""
        real = real_path(path) if path else ""
        root = real if real in self._registry.all() else self._resolve_tree(path, missing=True)[0]
        registered = self._registry.remove(root)
        if self._tables.root(root) is None:
            if not registered:
                raise NotFound(
                    f"no code of {root} is indexed", hint="list the indexed trees with 'lorelog code status'"
                )
            return root, 0
        with open_writer(self._tables.path, wait_s=_LOCK_TIMEOUT_S) as writer:
            return root, writer.forget(root)

    def all(self) -> list[CodeTree]:
        """Return all registered or indexed working trees, sorted by path."""
        indexed = {root.path: root for root in self._tables.roots()}
        trees = [
            CodeTree(path=path, project=project, parts=parts, exists=os.path.isdir(path))
            for path, (project, parts) in self._registry.all().items()
            if path not in indexed
        ]
        trees += [self._indexed_tree(root) for root in indexed.values()]
        return sorted(trees, key=lambda tree: tree.path)

    def _indexed_tree(self, root: CodeRoot) -> CodeTree:
        languages = Counter(file.language for file in self._tables.files(root.path) if not file.problem)
        problems = self._tables.problems(root.path)
        return CodeTree(
            path=root.path,
            project=root.project,
            parts=root.parts,
            exists=os.path.isdir(root.path),
            files=languages.total(),
            symbols=root.symbols,
            languages=dict(languages.most_common()),
            indexed_at=root.indexed_at or None,
            commit=root.head or None,
            left_out=tuple(SkippedFile(file.absolute, file.problem) for file in problems[:_MAX_LISTED]),
            left_out_total=len(problems),
        )

    def size(self) -> int:
        """Return the size of code.db in bytes."""
        try:
            return self._tables.path.stat().st_size
        except OSError:
            return 0

    def _resolve_tree(self, path: str, *, missing: bool = False) -> tuple[str, str, str]:
        """Return the working tree of a path, its project, and the path relative to it."""
        if not path:
            project = self._workspace.project
            return self._check_root(project.root, git=project.git), project.id, ""
        real = real_path(path)
        if not missing and not os.path.exists(real):
            raise NotFound(f"{path} does not exist", hint="check the spelling")
        project = find_project(real)
        part = os.path.relpath(real, project.root) if real != project.root else ""
        return self._check_root(project.root, git=project.git), project.id, part

    def _check_root(self, root: str, *, git: bool) -> str:
        if not git and root in {"/", os.path.realpath(os.path.expanduser("~")), str(self._workspace.home)}:
            raise UsageError(
                f"{root} is not a project; indexing it would include everything below it",
                hint="name a folder: lorelog code index PATH",
            )
        return root


def _merge_part(registered: tuple[str, tuple[str, ...]] | None, part: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parts of a tree to index from now on, and the parts to update now; none stands for all."""
    if not part:
        return (), ()
    if registered is None:
        return (part,), ()
    _, parts = registered
    if not parts or any(part == other or part.startswith(f"{other}/") for other in parts):
        return parts, (part,)
    return tuple(sorted({other for other in parts if not other.startswith(f"{part}/")} | {part})), (part,)
