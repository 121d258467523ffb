"""Incremental indexing: bring the index up to date with file changes, and read no more than necessary.

A few known files are read individually. Everything else (a new file, which may be excluded; a directory; many files at once) is left
to a run over the root, which applies the exclusion rules and reads only changed files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import FileStamp, SourceFile
from lorelog.core.memory import IndexReport, count_failed
from lorelog.core.paths import is_below
from lorelog.core.ports import Embedder, Progress, Store
from lorelog.services.indexing.run import IndexJob, IndexRun
from lorelog.services.places.roots import Root, find_innermost_root

MAX_SINGLE_FILES = 32
"""Changed files of one root up to which they are read individually."""


class FileChanges(Struct, frozen=True):
    """Paths that may have changed on disk."""

    roots: frozenset[str] = frozenset()
    """Roots to scan."""
    files: frozenset[str] = frozenset()
    """Markdown files that were added, changed or deleted."""
    gone: frozenset[str] = frozenset()
    """Deleted paths that may have been directories."""
    suspected: frozenset[str] = frozenset()
    """Roots without events; they are scanned only if their file stamps differ."""

    def __bool__(self) -> bool:
        return bool(self.roots or self.files or self.gone or self.suspected)


class IncrementalIndexer:
    """Applies file changes to one index. Changes outside the job's roots are ignored."""

    def __init__(self, store: Store, embedder: Embedder | None, job: IndexJob, progress: Progress | None) -> None:
        self._store = store
        self._embedder = embedder
        self._progress = progress
        # A missing directory may come back, such as a drive: its documents stay.
        self._roots = tuple(root for root in job.roots if root.exists() or root.is_gone_file())
        self._job = replace(job, roots=self._roots, patient=False)

    def apply(self, changes: FileChanges) -> IndexReport | None:
        """Index the changes; return a report, or None if there was nothing to do."""
        wide = self._roots_to_scan(changes)
        files: list[SourceFile] = []
        gone: list[str] = []
        for path in changes.files:
            root = find_innermost_root(path, self._roots)
            if root is None or root.path in wide:
                continue
            document = self._store.document(path)
            file = _source_file_at(path, root, self._job.scan.max_file_bytes)
            if isinstance(file, SourceFile) and document is not None and document.root == root.path:
                files.append(file)
            elif file is None and document is not None:
                gone.append(path)
            elif file is not None:
                wide.add(root.path)
        files = [file for file in files if file.root not in wide]
        return self._run(files, gone, wide)

    def _roots_to_scan(self, changes: FileChanges) -> set[str]:
        """Return the roots that need a scan."""
        wide = {root.path for root in self._roots if root.path in changes.roots}
        counts: dict[str, int] = {}
        for path in changes.files:
            root = find_innermost_root(path, self._roots)
            if root is not None:
                counts[root.path] = counts.get(root.path, 0) + 1
        wide |= {path for path, count in counts.items() if count > MAX_SINGLE_FILES}
        wide |= self._roots_of_deleted(changes.gone)
        suspected = self._roots_inside(changes.suspected - wide)
        if suspected and self._index_run(suspected).would_change():
            wide |= {root.path for root in suspected}
        return wide

    def _roots_of_deleted(self, gone: Iterable[str]) -> set[str]:
        """Return the roots of documents that were below a deleted path."""
        if not gone:
            return set()
        roots = {root.path for root in self._roots}
        above = set(gone)
        return {
            document.root
            for document in self._store.documents()
            if document.root in roots and not above.isdisjoint(_parent_directories(document.source, document.root))
        }

    def _run(self, files: Sequence[SourceFile], gone: Sequence[str], wide: set[str]) -> IndexReport | None:
        reports = []
        if files or gone:
            reports.append(self._index_run(self._roots).over_files(files, gone))
        if wide:
            reports.append(self._index_run(self._roots_inside(wide)).over_roots())
        return merge_reports(reports) if reports else None

    def _roots_inside(self, paths: Iterable[str]) -> tuple[Root, ...]:
        """Return the roots at and inside paths: a nested root keeps its own exclusions only if it takes part."""
        outer = tuple(paths)
        return tuple(root for root in self._roots if any(is_below(root.path, path) for path in outer))

    def _index_run(self, roots: tuple[Root, ...]) -> IndexRun:
        return IndexRun(self._store, self._embedder, replace(self._job, roots=roots), self._progress)


def _source_file_at(path: str, root: Root, max_bytes: int) -> SourceFile | bool | None:
    """Return a file that can be read individually, None if it is gone, and False if a scan is needed."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return False
    plain = stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes and os.path.realpath(path) == path
    return SourceFile(path, root.path, FileStamp.from_stat(status)) if plain else False


def _parent_directories(source: str, root: str) -> Iterable[str]:
    """Yield the directories between a root and a file in it."""
    end = source.rfind("/")
    while end > len(root):
        yield source[:end]
        end = source.rfind("/", 0, end)


def merge_reports(reports: Sequence[IndexReport]) -> IndexReport:
    """Return one report for several runs; there is at least one."""
    first, *others = reports
    for other in others:
        first = IndexReport(
            files=first.files + other.files,
            changed=first.changed + other.changed,
            unchanged=first.unchanged + other.unchanged,
            touched=first.touched + other.touched,
            removed=first.removed + other.removed,
            chunks=first.chunks + other.chunks,
            embedded=first.embedded + other.embedded,
            truncated=first.truncated + other.truncated,
            waiting=other.waiting,
            problems=(*first.problems, *other.problems),
            notes=(*first.notes, *other.notes),
            seconds=round(first.seconds + other.seconds, 3),
            failed=count_failed((*first.problems, *other.problems)),
            reembedding=other.reembedding or first.reembedding,
        )
    return first
