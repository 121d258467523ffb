"""Following changes: an index run that is no wider than what changed.

A few files that the index knows are read by themselves, without a look at the rest of their root. Everything else (a file
that is new, and may be excluded; a directory; many files at once) is left to a run over the root, which knows the rules
and reads no more than has changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lorelog.core.document import SourceFile, Stamp
from lorelog.core.memory import IndexReport
from lorelog.core.paths import is_below
from lorelog.core.ports import Embedder, Progress, Store
from lorelog.services.index import IndexJob, IndexRun
from lorelog.services.roots import Root, owner

A_FEW = 32
"""Files of one root that are worth reading one by one."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What may have changed on disk, as paths."""

    roots: frozenset[str] = frozenset()
    """Roots to be run over."""
    files: frozenset[str] = frozenset()
    """Markdown files that came, changed or went."""
    gone: frozenset[str] = frozenset()
    """What went and may have been a directory."""
    suspected: frozenset[str] = frozenset()
    """Roots of which nothing was heard; they are run over only if their stamps say so."""

    def __bool__(self) -> bool:
        return bool(self.roots or self.files or self.gone or self.suspected)


class Follower:
    """Brings one index up to date with changes. Nothing is done for what lies in none of the job's roots."""

    def __init__(self, store: Store, embedder: Embedder | None, job: IndexJob, progress: Progress | None) -> None:
        self._store = store
        self._embedder = embedder
        self._progress = progress
        # A directory that is gone may come back, as a drive does: what was indexed from it stays.
        self._roots = tuple(root for root in job.roots if root.exists() or root.is_gone_file())
        self._job = replace(job, roots=self._roots, patient=False)

    def follow(self, changes: Changes) -> IndexReport | None:
        """Do what there is to do; return what was done, or None where that was nothing."""
        wide = self._wide(changes)
        files: list[SourceFile] = []
        gone: list[str] = []
        for path in changes.files:
            root = owner(path, self._roots)
            if root is None or root.path in wide:
                continue
            known = self._store.document(path)
            file = _regular(path, root, self._job.scan.max_file_bytes)
            if isinstance(file, SourceFile) and known is not None and known.root == root.path:
                files.append(file)
            elif file is None and known is not None:
                gone.append(path)
            elif file is not None:
                wide.add(root.path)
        files = [file for file in files if file.root not in wide]
        return self._run(files, gone, wide)

    def _wide(self, changes: Changes) -> set[str]:
        """Return the roots that are to be run over whatever their files look like one by one."""
        wide = {root.path for root in self._roots if root.path in changes.roots}
        many: dict[str, int] = {}
        for path in changes.files:
            root = owner(path, self._roots)
            if root is not None:
                many[root.path] = many.get(root.path, 0) + 1
        wide |= {path for path, count in many.items() if count > A_FEW}
        wide |= self._bereft(changes.gone)
        suspected = self._inside(changes.suspected - wide)
        if suspected and self._index_run(suspected).would_change():
            wide |= {root.path for root in suspected}
        return wide

    def _bereft(self, gone: Iterable[str]) -> set[str]:
        """Return the roots of documents that lay below something that is gone."""
        if not gone:
            return set()
        roots = {root.path for root in self._roots}
        above = set(gone)
        return {
            document.root
            for document in self._store.documents()
            if document.root in roots and not above.isdisjoint(_above(document.source, document.root))
        }

    def _run(self, files: Sequence[SourceFile], gone: Sequence[str], wide: set[str]) -> IndexReport | None:
        reports = []
        if files or gone:
            reports.append(self._index_run(self._roots).over_files(files, gone))
        if wide:
            reports.append(self._index_run(self._inside(wide)).over_roots())
        return together(reports) if reports else None

    def _inside(self, paths: Iterable[str]) -> tuple[Root, ...]:
        """Return the roots at and inside paths: a root inside another keeps its own exclusions only if it takes part."""
        wanted = tuple(paths)
        return tuple(root for root in self._roots if any(is_below(root.path, path) for path in wanted))

    def _index_run(self, roots: tuple[Root, ...]) -> IndexRun:
        return IndexRun(self._store, self._embedder, replace(self._job, roots=roots), self._progress)


def _regular(path: str, root: Root, most_bytes: int) -> SourceFile | bool | None:
    """Return a file that can be read by itself, None for one that is gone, and False for what a scan must look at."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return False
    plain = stat.S_ISREG(status.st_mode) and status.st_size <= most_bytes and os.path.realpath(path) == path
    return SourceFile(path, root.path, Stamp.of(status)) if plain else False


def _above(source: str, root: str) -> Iterable[str]:
    """Yield the directories between a root and a file in it."""
    end = source.rfind("/")
    while end > len(root):
        yield source[:end]
        end = source.rfind("/", 0, end)


def together(reports: Sequence[IndexReport]) -> IndexReport:
    """Return what several runs did as what one would have; there is at least one."""
    first, *others = reports
    for one in others:
        first = IndexReport(
            files=first.files + one.files,
            changed=first.changed + one.changed,
            unchanged=first.unchanged + one.unchanged,
            touched=first.touched + one.touched,
            removed=first.removed + one.removed,
            chunks=first.chunks + one.chunks,
            embedded=first.embedded + one.embedded,
            truncated=first.truncated + one.truncated,
            waiting=one.waiting,
            problems=(*first.problems, *one.problems),
            notes=(*first.notes, *one.notes),
            seconds=round(first.seconds + one.seconds, 3),
            reembedding=one.reembedding or first.reembedding,
        )
    return first
