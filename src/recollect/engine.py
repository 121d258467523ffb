"""What can be asked? The verbs, over ports only.

An engine belongs to one tenant, one model and one place to stand (the project asked from). It decides scope and
defaults, hands the work to a service, and owns what it was given until it is closed. Each verb imports its own
service: half of a cold search would otherwise be spent on loading the parsers that only indexing needs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recollect.core.errors import NotFound, StoreUnwritable, UsageError
from recollect.core.options import CacheOptions, ChunkOptions, RerankOptions, ScanOptions, SearchOptions
from recollect.core.paths import is_below
from recollect.core.ports import Embedder, Progress, Reranker, Store, StoreStats
from recollect.core.query import Coverage, Filters, SearchReply
from recollect.services.place import Place
from recollect.services.roots import Root, Roots
from recollect.services.scope import visible_projects

if TYPE_CHECKING:
    from recollect.core.memory import AddReply, ExpandReply, IndexReport, ListReply, NewMemory
    from recollect.retrieval.analyse import WordAnalyser
    from recollect.retrieval.cache import CacheCounters
    from recollect.services.answer import Judges
    from recollect.services.evaluate import EvaluateReply, EvaluateRequest
    from recollect.services.index import IndexJob
    from recollect.services.reach import Named


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


class Engine:
    """The verbs of recollect. Use it as a context manager, or close it."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        analyser: WordAnalyser,
        place: Place,
        defaults: Defaults,
        *,
        reranker: Reranker | None = None,
    ) -> None:
        from recollect.retrieval.cache import Caches

        self._store = store
        self._embedder = embedder
        self._reranker = reranker
        self._analyser = analyser
        self._roots = Roots(place.tenant_folder / "roots.json")
        self.place = place
        self.defaults = defaults
        self._caches = Caches.chosen(defaults.caching)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of store and models. May be called twice."""
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

        if reembed and not vectors:
            raise UsageError("vectors cannot be made anew in a run that makes none", hint="leave one of both out")
        known = self._roots.all()
        roots = given_roots(named, self.place, known) if named else usual_roots(self.place, known)
        self.place.found()
        job = replace(self._job(roots), force=force, reembed=reembed, named=named is not None, words_only=not vectors)
        job = replace(job, scan=replace(job.scan, ignore_files=(*job.scan.ignore_files, *ignore_files)))
        report = IndexRun(self._store, self._embedder, job, progress).over_roots()
        self._keep_roots(roots, known, {problem.path for problem in report.problems}, named=named is not None)
        return replace(report, notes=(*report.notes, *_replaced(roots, known)))

    def forget_roots(self, paths: Sequence[str]) -> int:
        """Stop indexing roots, and those inside them, and drop what was indexed from them; return how many documents.

        The files are not touched. Raise NotFound when a path holds no root, before anything is dropped.
        """
        from recollect.services.reach import real_path

        known = self._roots.all()
        wanted: set[str] = set()
        for path in map(real_path, paths):
            inside = {root.path for root in known if is_below(root.path, path)}
            if not inside:
                roots = ", ".join(root.path for root in known) or "none"
                raise NotFound(f"{path} was not indexed as a root", hint=f"the roots are: {roots}")
            wanted |= inside
        with self._store.writer() as writer:
            dropped = writer.remove([one.source for one in self._store.documents() if one.root in wanted])
            writer.sweep()
        self._roots.forget(wanted)
        return dropped

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

    def add(self, memory: NewMemory, *, to_global: bool = False) -> AddReply:
        """Append a memory to today's journal and index it."""
        from recollect.services.add import add

        with suppress(StoreUnwritable):  # a memory of a project is kept in the project, whatever the home allows
            self.place.found()
        root = self.place.journal_root(to_global=to_global)
        reply = add(memory, root, self._job((root,)), self._store, self._embedder)
        with suppress(StoreUnwritable):  # the memory is safe, and journals are found without being remembered
            self._roots.remember([root])
        return reply

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

    def _keep_roots(self, roots: Sequence[Root], known: Sequence[Root], bad: set[str], *, named: bool) -> None:
        """Remember the roots that could be indexed, and forget those that are gone or were left out."""
        excluded = [path for root in roots for path in root.exclude]
        left_out = {root.path for root in roots if any(is_below(root.path, path) for path in excluded)}
        self._roots.remember(root for root in roots if root.exists() and root.path not in bad | left_out)
        gone = set() if named else {root.path for root in known if root.is_gone_file()}
        self._roots.forget(left_out | gone)

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

    def _job(self, roots: tuple[Root, ...]) -> IndexJob:
        from recollect.services.index import IndexJob

        return IndexJob(
            roots=roots,
            known_roots=self._roots.all(),
            scan=self.defaults.scan,
            chunking=self.defaults.chunking,
            batch_size=self.defaults.batch_size,
            journals=frozenset(os.path.realpath(one) for one in (self.place.journals, self.place.global_journals)),
        )


def _replaced(roots: Sequence[Root], known: Sequence[Root]) -> list[str]:
    """Say where a root was named again with other exclusions than before."""
    before = {root.path: root for root in known}
    return [
        f"the exclusions of {root.path} are replaced: {', '.join((*old.exclude, *old.patterns)) or 'none'} before"
        for root in roots
        if (old := before.get(root.path)) and (old.exclude, old.patterns) != (root.exclude, root.patterns)
    ]


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
