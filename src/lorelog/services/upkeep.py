"""Keeping the index up to date: whole runs over roots, changes as they come, and what is to be watched for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lorelog.core.errors import UsageError
from lorelog.core.memory import IndexReport
from lorelog.core.ports import Embedder, Progress, Store
from lorelog.services.follow import Changes, Follower
from lorelog.services.forget import drop
from lorelog.services.index import IndexJob, IndexRun
from lorelog.services.place import Place
from lorelog.services.reach import Named, Watched, awaited_places, given_roots, known_roots, usual_roots
from lorelog.services.records.paged import Paged
from lorelog.services.roots import Root, Roots
from lorelog.services.run_roots import RunRoots


@dataclass(frozen=True, slots=True)
class IndexAsked:
    """What an index run is to do."""

    named: Named | None = None
    """What to read; without it, what is known of the project."""
    force: bool = False
    vectors: bool = True
    reembed: bool = False
    anyway: bool = False
    """Serve vectors that were made anew also when they are clearly worse."""
    ignore_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The index of one place, and what it is made from."""

    store: Store
    embedder: Embedder | None
    place: Place
    roots: Roots
    paged: Paged
    job: Callable[[tuple[Root, ...]], IndexJob]

    def index(self, asked: IndexAsked, progress: Progress | None) -> IndexReport:
        """Bring the index up to date with roots, and with the records."""
        named = asked.named
        if asked.reembed and not asked.vectors:
            raise UsageError("vectors cannot be made anew in a run that makes none", hint="leave one of both out")
        if named is None:
            self._retire()
        known = self.roots.all()
        least = self.paged.pages() is None
        roots = given_roots(named, self.place, known) if named else usual_roots(self.place, known, least=least)
        self.place.found()
        run = IndexRun(self.store, self.embedder, self._job_of(asked, roots), progress)
        kept = RunRoots(roots, self.roots, self.store)
        self.paged.catch_up()  # by words: the run makes all vectors that are missing
        with kept.remembered():
            report = run.over_roots()
        told = self.paged.catch_up()  # a model that has taken over keeps its own notes of how far they have come
        removed = kept.settle(run.bad_roots, named=named is not None)
        if removed:  # someone removed a root just while it was read
            drop(removed, self.roots, self.store)
        return replace(report, notes=(*report.notes, *kept.replaced(), *filter(None, [told])))

    def watched(self) -> Watched:
        """Return what is to be watched for the project."""
        self._retire()
        roots = known_roots(self.place, self.roots.all())
        return Watched(roots, awaited_places(self.place), self.job(()).scan.ignore_files)

    def follow(self, changes: Changes, progress: Progress | None) -> IndexReport | None:
        """Bring the index up to date with what changed below the watched roots; return None when nothing had."""
        before = {root.path for root in self.roots.all()}
        self.place.found()
        job = self.job(known_roots(self.place, self.roots.all()))
        job = replace(job, words_only=not self.store.serves_model())
        report = Follower(self.store, self.embedder, job, progress).follow(changes)
        if report is not None:
            self.roots.remember(root for root in job.roots if root.path not in before and root.exists())
            left = before - {root.path for root in self.roots.all()}
            if left:  # someone removed a root just while it was read
                drop(left, self.roots, self.store)
        return report

    def _job_of(self, asked: IndexAsked, roots: tuple[Root, ...]) -> IndexJob:
        job = self.job(roots)
        return replace(
            job,
            force=asked.force,
            reembed=asked.reembed,
            anyway=asked.anyway,
            named=asked.named is not None,
            words_only=not asked.vectors,
            scan=replace(job.scan, ignore_files=(*job.scan.ignore_files, *asked.ignore_files)),
        )

    def _retire(self) -> None:
        """Drop what was found unasked, once nothing is to be."""
        if self.place.claude is not None:
            return
        unwanted = {root.path for root in self.roots.all() if root.origin}
        if unwanted:
            drop(unwanted, self.roots, self.store)
