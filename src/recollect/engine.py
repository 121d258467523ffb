"""What can be asked? The verbs, over ports only.

An engine belongs to one tenant, one model and one place to stand (the project asked from). It decides scope and
defaults, hands the work to a service, and owns what it was given until it is closed. Each verb imports its own
service: half of a cold search would otherwise be spent on loading the parsers that only indexing needs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recollect.core.errors import NotFound, StoreUnwritable, UsageError
from recollect.core.options import (
    CacheOptions,
    CaptureOptions,
    ChunkOptions,
    RerankOptions,
    ScanOptions,
    SearchOptions,
    SessionOptions,
)
from recollect.core.paths import is_below
from recollect.core.ports import Embedder, Progress, Reranker, Store, StoreStats
from recollect.core.query import Coverage, Filters, SearchReply
from recollect.services.place import Place
from recollect.services.roots import KnownRoot, Root, Roots
from recollect.services.scope import visible_projects

if TYPE_CHECKING:
    from recollect.core.memory import (
        AddReply,
        DeleteReply,
        ExpandReply,
        GetReply,
        HealthReply,
        IndexReport,
        ListReply,
        NewMemory,
    )
    from recollect.core.transcript import TranscriptReply
    from recollect.retrieval.analyse import WordAnalyser
    from recollect.retrieval.cache import CacheCounters, Caches
    from recollect.services.answer import Judges
    from recollect.services.evaluate import EvaluateReply, EvaluateRequest
    from recollect.services.follow import Changes
    from recollect.services.index import IndexJob
    from recollect.services.reach import Named, Watched
    from recollect.services.session.means import Means
    from recollect.services.session.recall import Prompt, Recalled
    from recollect.services.session.summarize import Summarizer
    from recollect.services.tombstones import Tombstones


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a call says nothing else."""

    scan: ScanOptions
    chunking: ChunkOptions
    search: SearchOptions
    all_projects: bool = False
    batch_size: int = 32
    rerank: RerankOptions = field(default_factory=RerankOptions)
    caching: CacheOptions = field(default_factory=CacheOptions)
    session: SessionOptions = field(default_factory=SessionOptions)
    capture: CaptureOptions = field(default_factory=CaptureOptions)


@dataclass(frozen=True, slots=True)
class Tools:
    """Who computes, and what is kept between calls. With `caches` given, all of it and the store are lent, not owned."""

    analyser: WordAnalyser
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    caches: Caches | None = None
    summarizer: Callable[[], Summarizer | None] = lambda: None
    """Gives who words notes of sessions; None where sentences are taken out."""


class Engine:
    """The verbs of recollect. Use it as a context manager, or close it."""

    def __init__(self, store: Store, tools: Tools, place: Place, defaults: Defaults) -> None:
        from recollect.retrieval.cache import Caches

        self._store = store
        self._embedder = tools.embedder
        self._reranker = tools.reranker
        self._analyser = tools.analyser
        self._summarizer = tools.summarizer
        self._roots = Roots(place.tenant_folder / "roots.json")
        self.place = place
        self.defaults = defaults
        self._borrowed = tools.caches is not None
        self._caches = Caches.chosen(defaults.caching) if tools.caches is None else tools.caches

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def with_embedder(self, change: Callable[[Embedder], Embedder]) -> Engine:
        """Return this engine with another embedder in the place of its own, if it has one. Only the first needs closing."""
        changed = copy(self)
        changed._embedder = None if self._embedder is None else change(self._embedder)  # noqa: SLF001  (one of us)
        return changed

    def close(self) -> None:
        """Let go of store and models, unless they are lent (with their caches). May be called twice."""
        if self._borrowed:
            return
        self._store.close()
        for model in (self._embedder, self._reranker):
            if model is not None:
                model.close()

    def index(
        self,
        named: Named | None = None,
        *,
        force: bool = False,
        vectors: bool = True,
        reembed: bool = False,
        ignore_files: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> IndexReport:
        """Bring the index up to date with what was named; without that, with what is known of this project.

        Without `vectors` the run ends when the words are in. With `reembed` all vectors of the index are made anew.
        `ignore_files` are honoured beside the configured ones.
        """
        from recollect.services.index import IndexRun
        from recollect.services.reach import given_roots, usual_roots
        from recollect.services.run_roots import RunRoots

        if reembed and not vectors:
            raise UsageError("vectors cannot be made anew in a run that makes none", hint="leave one of both out")
        if named is None:
            self._retire()
        known = self._roots.all()
        roots = given_roots(named, self.place, known) if named else usual_roots(self.place, known)
        self.place.found()
        job = replace(self._job(roots), force=force, reembed=reembed, named=named is not None, words_only=not vectors)
        job = replace(job, scan=replace(job.scan, ignore_files=(*job.scan.ignore_files, *ignore_files)))
        run = IndexRun(self._store, self._embedder, job, progress)
        kept = RunRoots(roots, self._roots, self._store)
        with kept.remembered():
            report = run.over_roots()
        removed = kept.settle(run.bad_roots, named=named is not None)
        if removed:  # someone removed a root just while it was read
            self._drop(removed)
        return replace(report, notes=(*report.notes, *kept.replaced()))

    def watched(self) -> Watched:
        """Return what is to be watched for this project."""
        from recollect.services.reach import Watched, awaited_places, known_roots

        self._retire()
        roots = known_roots(self.place, self._roots.all())
        return Watched(roots, awaited_places(self.place), self.defaults.scan.ignore_files)

    def follow(self, changes: Changes, progress: Progress | None = None) -> IndexReport | None:
        """Bring the index up to date with what changed below the watched roots; return None when nothing had.

        Never waits for another run: it raises StoreBusy. An index that serves another model keeps doing so.
        """
        from recollect.services.follow import Follower
        from recollect.services.reach import known_roots

        before = {root.path for root in self._roots.all()}
        self.place.found()
        job = self._job(known_roots(self.place, self._roots.all()))
        job = replace(job, words_only=not self._store.serves_model())
        report = Follower(self._store, self._embedder, job, progress).follow(changes)
        if report is not None:
            self._roots.remember(root for root in job.roots if root.path not in before and root.exists())
            left = before - {root.path for root in self._roots.all()}
            if left:  # someone removed a root just while it was read
                self._drop(left)
        return report

    def forget_roots(self, paths: Sequence[str]) -> int:
        """Stop indexing roots, and those inside them, and drop what was indexed from them; return how many documents.

        The files are not touched. Raise NotFound when a path holds no root, before anything is dropped.
        """
        from recollect.services.reach import real_path

        known = {root.path for root in self._roots.all()} | {document.root for document in self._store.documents()}
        wanted: set[str] = set()
        for path in map(real_path, paths):
            inside = {root for root in known if is_below(root, path)}
            if not inside:
                roots = ", ".join(sorted(known)) or "none"
                raise NotFound(f"{path} was not indexed as a root", hint=f"the roots are: {roots}")
            wanted |= inside
        return self._drop(wanted)

    def search(self, query: str, options: SearchOptions | None = None, *, all_projects: bool = False) -> SearchReply:
        """Find what was learned, best first: in this project and the global memories, unless told otherwise."""
        from recollect.services.price import price
        from recollect.services.search import Searcher

        options = options or self.defaults.search
        options = replace(options, filters=self._scoped(options.filters, all_projects=all_projects))
        searcher = Searcher(self._store, self._embedder, self._analyser, self._judges(), self._caches)
        reply = searcher.search(query, options)
        if not options.token_budget:
            return price(reply)
        from recollect.services.pack import pack

        return pack(reply, options.token_budget, self._store)

    def recall(
        self, prompt: Prompt, *, k: int | None = None, min_relevance: float | None = None, wanted: Callable[[], None]
    ) -> tuple[Recalled, ...]:
        """Return memories that fit a prompt and that its session was not shown yet; they count as shown from then on.

        `wanted` raises when nobody waits for them any more.
        """
        from recollect.services.session.recall import recall

        usual = self.defaults.session
        options = replace(
            self.defaults.search,
            k=usual.hits if k is None else k,
            min_relevance=usual.hits_relevance if min_relevance is None else min_relevance,
        )
        self.place.found()
        return recall(prompt, options, self.search, self.place.tenant_folder, wanted)

    def capturing(self) -> Means:
        """Return what turns of sessions are captured with, for this project and tenant."""
        from recollect.services.session.means import Means

        tools = (self._store, self._embedder, self._job, self._roots)
        return Means(self.place, *tools, self.defaults.capture, self._summarizer)

    def evaluate(
        self, request: EvaluateRequest, *, all_projects: bool = False, progress: Progress | None = None
    ) -> EvaluateReply:
        """Measure how well judged questions are answered: by words, by vectors, and by both."""
        from recollect.services.evaluate import evaluate

        filters = self._scoped(request.options.filters, all_projects=all_projects)
        request = replace(
            request, options=replace(request.options, filters=filters), has_model=self._embedder is not None
        )
        return evaluate(
            lambda query, options: self.search(query, options, all_projects=True), self._store, request, progress
        )

    def expand(self, identity: str, *, lines: int | None = None) -> ExpandReply:
        """Show the whole section around a hit, or `lines` lines around it."""
        from recollect.services.expand import expand

        return expand(identity, self._store, lines=lines)

    def list(
        self,
        filters: Filters | None = None,
        *,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
    ) -> ListReply:
        """List memories, or documents, newest first."""
        from recollect.services.listing import list_documents, list_memories

        if limit < 1:
            raise UsageError(f"the number of entries must be at least 1, not {limit}")
        if documents and filters and (filters.types or filters.tags):
            raise UsageError("documents have no type or tags", hint="list memories, without --documents")
        verb = list_documents if documents else list_memories
        return verb(self._store, self._scoped(filters or Filters(), all_projects=all_projects), limit)

    def add(self, memories: Sequence[NewMemory], *, to_global: bool = False) -> Sequence[AddReply]:
        """Append memories to today's journal, all or none, and index them."""
        from recollect.services.add import add

        with suppress(StoreUnwritable):  # a memory of a project is kept in the project, whatever the home allows
            self.place.found()
        root = self.place.journal_root(to_global=to_global)
        replies = add(memories, root, self._job((root,)), self._store, self._embedder)
        with suppress(StoreUnwritable):  # the memory is safe, and journals are found without being remembered
            self._roots.remember([root])
        return replies

    def get(self, identity: str) -> GetReply:
        """Return a memory by its id, or that it is deleted, or that there is none."""
        from recollect.services.delete import get

        return get(identity, self._store, self._tombstones())

    def delete(self, identity: str) -> DeleteReply:
        """Hide a memory from every search and list. Its file is not touched, and `restore` brings it back."""
        from recollect.services.delete import delete

        self.place.found()
        return delete(identity, self._store, self._tombstones())

    def restore(self, identity: str) -> DeleteReply:
        """Bring a deleted memory back."""
        from recollect.services.delete import restore

        self.place.found()
        return restore(identity, self._store, self._tombstones(), self._job(()))

    def transcript(self, place: str, *, turn: str = "", context: int = 3, directory: str | None) -> TranscriptReply:
        """Show the conversation behind a memory, around one turn. Without a directory it cannot be named by a path."""
        from recollect.services.transcript import read_transcript

        return read_transcript(place, self._store, turn=turn, context=context, directory=directory)

    def health(self, *, duplicates: int = 10) -> HealthReply:
        """Look the index over."""
        from recollect.services.health import health

        return health(self._store, self._embedder, self._roots.all(), self._tombstones(), duplicates=duplicates)

    def knows_project(self) -> bool:
        """Say whether anything was ever indexed for the project one stands in."""
        return any(root.project == self.place.project.id for root in self._roots.all())

    def roots(self) -> Sequence[KnownRoot]:
        """Return what is indexed, all projects of the tenant."""
        documents = Counter(document.root for document in self._store.documents())
        return [KnownRoot(root, root.exists(), documents[root.path]) for root in self._roots.all()]

    def coverage(self) -> Coverage:
        """Return how much of the whole index has vectors of the current model."""
        return self._store.coverage(Filters())

    @property
    def model(self) -> str:
        """Which model embeds, as provider/model; `none` where only words are wanted."""
        return f"{self._embedder.provider}/{self._embedder.model}" if self._embedder else "none"

    def cache_counters(self) -> CacheCounters:
        """Return what the caches of this process have done."""
        return self._caches.counters()

    def stats(self) -> StoreStats:
        """Return the sizes of the index."""
        return self._store.stats()

    def reset(self) -> None:
        """Delete the index; the files it was made from stay, and so does the list of roots."""
        self._store.reset()

    def _judges(self) -> Judges:
        from recollect.services.answer import Judges

        return Judges(self._reranker, self.defaults.rerank)

    # -- roots -------------------------------------------------------------------------------------------------------

    def _retire(self) -> None:
        """Drop what was found unasked, once nothing is to be."""
        if self.place.claude is not None:
            return
        unwanted = {root.path for root in self._roots.all() if root.origin}
        if unwanted:
            self._drop(unwanted)

    def _drop(self, paths: set[str]) -> int:
        """Forget roots and what was indexed from them; return how many documents that were.

        The list goes first: whoever follows changes at this moment sees afterwards that a root has left it.
        """
        with self._store.writer() as writer:
            self._roots.forget(paths)
            dropped = writer.remove([one.source for one in self._store.documents() if one.root in paths])
            writer.sweep()
        return dropped

    # -- scope -------------------------------------------------------------------------------------------------------

    def _scoped(self, filters: Filters, *, all_projects: bool) -> Filters:
        """Return the filters with the projects seen from here, and with its path as the index knows paths."""
        from recollect.services.reach import real_path

        _check_filters(filters)
        if filters.source_prefix:
            filters = replace(filters, source_prefix=real_path(filters.source_prefix))
        if filters.projects is not None or all_projects or self.defaults.all_projects:
            return filters
        known = () if self.place.project.git else self._store.projects()
        return replace(filters, projects=visible_projects(self.place.project, known))

    def _tombstones(self) -> Tombstones:
        from recollect.services.tombstones import Tombstones

        return Tombstones(self.place.tenant_folder / "tombstones.jsonl")

    def _job(self, roots: tuple[Root, ...]) -> IndexJob:
        from recollect.services.index import IndexJob

        return IndexJob(
            roots=roots,
            known_roots=self._roots.all(),
            scan=self.defaults.scan,
            chunking=self.defaults.chunking,
            batch_size=self.defaults.batch_size,
            journals=frozenset(os.path.realpath(one) for one in (self.place.journals, self.place.global_journals)),
            tombstones=self._tombstones(),
        )


def _check_filters(filters: Filters) -> None:
    from datetime import date

    for day in (filters.since, filters.until):
        try:
            valid = not day or date.fromisoformat(day).isoformat() == day
        except ValueError:
            valid = False
        if not valid:
            raise UsageError(f"{day!r} is not a day", hint="write it as 2026-03-05")
    if filters.since and filters.until and filters.since > filters.until:
        raise UsageError(f"no day is both since {filters.since} and until {filters.until}")
    for value in (*filters.types, *filters.tags, *(filters.projects or ())):
        if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
            raise UsageError(f"{value!r} is not valid text")
