"""Incremental indexing: bring the index up to date with file changes, and read no more than necessary.

A few known files are read individually. Everything else (a new file, which may be excluded; a directory; many files at once) is left
to a run over the root, which applies the exclusion rules and reads only changed files.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import FileStamp, SourceFile
from lorelog.core.memory import IndexReport, count_failed
from lorelog.core.paths import is_below
from lorelog.core.ports import Embedder, Progress, Store
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.run import IndexRun
from lorelog.services.places.roots import Root, find_innermost_root

_SUMMED = ("files", "changed", "unchanged", "touched", "removed", "chunks", "embedded", "truncated")
MAX_SINGLE_FILES = 32
"""Changed files of one root up to which they are read individually."""


class FileChanges(Struct):
    """Paths that may have changed on disk."""

    roots: set[str] = field(default_factory=set)
    """Roots to scan."""
    files: set[str] = field(default_factory=set)
    """Files that were added, changed or deleted, and may be read."""
    gone: set[str] = field(default_factory=set)
    """Deleted paths that may have been directories."""
    suspected: set[str] = field(default_factory=set)
    """Roots without events; they are scanned only if their file stamps differ."""

    def add(self, other: FileChanges) -> None:
        self.roots |= other.roots
        self.files |= other.files
        self.gone |= other.gone
        self.suspected |= other.suspected


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
            if root is None or root.path in wide or not self._job.scan.reads(path):
                continue
            document = self._store.document(path)
            file = _source_file_at(path, root, self._job.scan_options().size_limit(root.path))
            if isinstance(file, SourceFile) and document is not None and document.root == root.path:
                files.append(file)
            elif file is None and document is not None:
                gone.append(path)
            elif file is not None:
                wide.add(root.path)
        files = [file for file in files if file.root not in wide]
        reports = []
        if files or gone:
            reports.append(self._index_run(self._roots).over_files(files, gone))
        if wide:
            reports.append(self._index_run(self._roots_inside(wide)).over_roots())
        return merge_reports(reports) if reports else None

    def _roots_to_scan(self, changes: FileChanges) -> set[str]:
        wide = {root.path for root in self._roots if root.path in changes.roots}
        counts = Counter(root.path for path in changes.files if (root := find_innermost_root(path, self._roots)))
        wide |= {path for path, count in counts.items() if count > MAX_SINGLE_FILES}
        if changes.gone:  # the roots of documents below them
            roots = {root.path for root in self._roots}
            wide |= {
                document.root
                for document in self._store.documents()
                if document.root in roots and any(is_below(document.source, path) for path in changes.gone)
            }
        suspected = self._roots_inside(changes.suspected - wide)
        if suspected and self._index_run(suspected).would_change():
            wide |= {root.path for root in suspected}
        return wide

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


def merge_reports(reports: Sequence[IndexReport]) -> IndexReport:
    """Return one report for several runs; there is at least one."""
    problems = tuple(problem for report in reports for problem in report.problems)
    return replace(
        reports[-1],
        **{name: sum(getattr(report, name) for report in reports) for name in _SUMMED},
        problems=problems,
        notes=tuple(note for report in reports for note in report.notes),
        seconds=round(sum(report.seconds for report in reports), 3),
        failed=count_failed(problems),
        reembedding=next((report.reembedding for report in reversed(reports) if report.reembedding), None),
    )
