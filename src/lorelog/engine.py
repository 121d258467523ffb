"""What can be asked? The verbs, over ports only.

An engine belongs to one tenant, one model and one place to stand (the project asked from). It decides scope and
defaults, hands the work to a service, and owns what it was given until it is closed. Each verb imports its own
service: half of a cold search would otherwise be spent on loading the parsers that only indexing needs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from lorelog.core.errors import StoreUnwritable
from lorelog.core.options import ListOptions, SearchOptions
from lorelog.core.ports import Comparison, Embedder, Progress, Store, StoreStats
from lorelog.core.query import Coverage, Fate, Filters, SearchReply
from lorelog.services.outfit import Defaults, Tools
from lorelog.services.place import Place
from lorelog.services.records.paged import Paged
from lorelog.services.roots import KnownRoot, Root, Roots
from lorelog.services.scope import visible_projects

if TYPE_CHECKING:
    from lorelog.core.compact import CompactOptions, CompactReply
    from lorelog.core.memory import (
        AddReply,
        DeleteReply,
        ExpandReply,
        GetReply,
        HealthReply,
        IndexReport,
        ListReply,
        NewMemory,
    )
    from lorelog.core.transcript import TranscriptReply
    from lorelog.retrieval.cache import CacheCounters
    from lorelog.services.code.sight import CodeSight
    from lorelog.services.context.sight import Sight
    from lorelog.services.evaluate import EvaluateReply, EvaluateRequest
    from lorelog.services.fates import Fates
    from lorelog.services.follow import Changes
    from lorelog.services.gate import Gate
    from lorelog.services.index import IndexJob
    from lorelog.services.lifecycle import Lifecycle
    from lorelog.services.reach import Named, Watched
    from lorelog.services.records.archive import Archive
    from lorelog.services.search import Searcher
    from lorelog.services.session.means import Aside, Means
    from lorelog.services.session.recall import Prompt, Recalled
    from lorelog.services.tombstones import Tombstones
    from lorelog.services.traces.book import TraceBook
    from lorelog.services.upkeep import Upkeep


class Engine:
    """The verbs of lorelog. Use it as a context manager, or close it."""

    def __init__(self, store: Store, tools: Tools, place: Place, defaults: Defaults) -> None:
        from lorelog.retrieval.cache import Caches

        self._store = store
        self._embedder = tools.embedder
        self._reranker = tools.reranker
        self._analyser = tools.analyser
        self._summarizer = tools.summarizer
        self._language = tools.language
        self._former = tools.former
        self._recording = tools.recording
        self._cabinet = tools.cabinet
        self._count_tokens = tools.count_tokens
        self._roots = Roots(place.tenant_folder / "roots.json")
        self._paged = Paged(store, lambda: tools.recording.open().book, place, defaults.chunking)
        self.place = place
        self.defaults = defaults
        self._heeds_feedback = True
        self._borrowed = tools.caches is not None
        self._caches = Caches.chosen(defaults.caching) if tools.caches is None else tools.caches

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def with_embedder(self, change: Callable[[Embedder], Embedder]) -> Engine:
        """Return this engine with another in the place of its embedder, if it has one. Only the first needs closing."""
        changed = copy(self)
        changed._embedder = None if self._embedder is None else change(self._embedder)  # noqa: SLF001  (one of us)
        return changed

    def close(self) -> None:
        """Let go of store and models, unless they are lent (with their caches). May be called twice."""
        if self._borrowed:
            return
        self._store.close()
        self._recording.close()
        self._cabinet.close()
        for model in (self._embedder, self._reranker):
            if model is not None:
                model.close()

    def index(
        self,
        named: Named | None = None,
        *,
        force: bool = False,
        vectors: bool = True,
        reembed: bool | Literal["anyway"] = False,
        ignore_files: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> IndexReport:
        """Bring the index up to date with what was named; without that, with what is known of this project.

        Without `vectors` the run ends when the words are in. With `reembed` all vectors are made anew beside the old ones, and
        replace them unless clearly worse ("anyway": also then). `ignore_files` are honoured beside the configured ones.
        """
        from lorelog.services.upkeep import IndexAsked

        asked = IndexAsked(named, force, vectors, bool(reembed), reembed == "anyway", tuple(ignore_files))
        return self._upkeep().index(asked, progress)

    def leave_vectors(self, *, forget: bool) -> IndexReport:
        """Serve the vectors of before the last change again; or `forget` all but those that answer."""
        from lorelog.services.changeover import forget_old, roll_back

        return forget_old(self._store) if forget else roll_back(self._store)

    def watched(self) -> Watched:
        """Return what is to be watched for this project."""
        return self._upkeep().watched()

    def follow(self, changes: Changes, progress: Progress | None = None) -> IndexReport | None:
        """Bring the index up to date with what changed below the watched roots; return None when nothing had.

        Never waits for another run: it raises StoreBusy. An index that serves another model keeps doing so.
        """
        return self._upkeep().follow(changes, progress)

    def forget_roots(self, paths: Sequence[str]) -> int:
        """Stop indexing roots, and those inside them, and drop what was indexed from them; return how many documents.

        The files are not touched. Raise NotFound when a path holds no root, before anything is dropped.
        """
        from lorelog.services.forget import forget

        return forget(paths, self._roots, self._store, self._paged.holds)

    def search(self, query: str, options: SearchOptions | None = None, *, all_projects: bool = False) -> SearchReply:
        """Find what was learned, best first: in this project and the global memories, unless told otherwise.

        Records written since the last search are found, too, by their words; every hit says what it is worth.
        """
        from lorelog.services.asking import Asking

        options = options or self.defaults.search
        options = replace(options, filters=self._scoped(options.filters, all_projects=all_projects))
        asking = Asking(
            self._searcher(self._embedder), self._paged, self._store, partial(self.code, all_projects=all_projects)
        )
        return asking.ask(query, options)

    def recall(
        self, prompt: Prompt, *, k: int | None = None, min_relevance: float | None = None, wanted: Callable[[], None]
    ) -> tuple[Recalled, ...]:
        """Return memories that fit a prompt and that its session was not shown yet; they count as shown from then on.

        `wanted` raises when nobody waits for them any more.
        """
        from lorelog.services.session.recall import recall

        usual = self.defaults.session
        relevance = usual.hits_relevance if min_relevance is None else min_relevance
        options = replace(self.defaults.search, k=usual.hits if k is None else k, min_relevance=relevance)
        self.place.found()
        return recall(prompt, options, self.search, self.place.tenant_folder, wanted)

    def capturing(self) -> Means:
        """Return what turns of sessions are captured with, for this project and tenant."""
        from lorelog.services.session.means import Means

        tools = (self._store, self._embedder, self._job, self._roots)
        return Means(self.place, *tools, self.defaults.capture, self._summarizer)

    def language(self, named: str = "") -> Gate | None:
        """Return the way to the language model that is named, or that the settings choose; None where nobody is to be asked."""
        return self._language(named)

    def records(self) -> Archive:
        """Return the tenant's records, as they are seen from this project."""
        from lorelog.services.records.archive import Archive

        held = self._recording.open()
        projects = visible_projects(self.place.project, () if self.place.project.git else self._store.projects())

        def search(query: str, options: SearchOptions) -> SearchReply:
            return self.search(query, options, all_projects=options.filters.projects is None)

        def find(embedder: Embedder | None, query: str, options: SearchOptions) -> SearchReply:
            filters = self._scoped(options.filters, all_projects=options.filters.projects is None)
            return self._paged.find(partial(self._searcher(embedder).search, query), replace(options, filters=filters))

        return Archive(
            self.place,
            held.book,
            held.keyring,
            held.agent or held.keyring.name,
            search,
            self.defaults.search,
            projects,
            self.defaults.capture.patterns,
            partial(find, self._embedder),
            partial(find, None),
        )

    def context(self, *, all_projects: bool = False) -> Sight:
        """Return what tells an agent what to know before it works, as it is seen from this project."""
        from lorelog.services.context.sight import Sight

        archive = self.records()
        projects = None if all_projects or self.defaults.all_projects else archive.projects
        return Sight(self._store, self.list, archive, self._count_tokens, projects)

    def code(self, *, all_projects: bool = False) -> CodeSight:
        """Return what is known of the code, as it is seen from this working tree."""
        from lorelog.services.code.sight import CodeSight

        return CodeSight(self._cabinet.code(), self.place, all_projects=all_projects or self.defaults.all_projects)

    def traces(self) -> TraceBook:
        """Return the tenant's traces: what was called, and what went wrong."""
        return self._cabinet.traces()

    def settle(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Make records searchable, and find out which code memories name, as long as `go_on` says so."""
        from lorelog.services.settling import settle

        settle(self._paged, self._store, self._embedder, self._job(()), self._cabinet.code(), go_on)

    def evaluate(
        self, request: EvaluateRequest, *, all_projects: bool = False, progress: Progress | None = None
    ) -> EvaluateReply:
        """Measure how well judged questions are answered: by words, by vectors, and by both."""
        from lorelog.services.evaluate import evaluate

        filters = self._scoped(request.options.filters, all_projects=all_projects)
        request = replace(
            request, options=replace(request.options, filters=filters), has_model=self._embedder is not None
        )
        plain = copy(self)
        plain._heeds_feedback = False  # noqa: SLF001  (or judgements would measure what they had moved themselves)
        return evaluate(
            lambda query, options: plain.search(query, options, all_projects=True), self._store, request, progress
        )

    def lifecycle(self) -> Lifecycle:
        """Return what can be done with memories that are there already."""
        from lorelog.services.lifecycle import Lifecycle

        self.place.found()
        return Lifecycle(self._store, self.place, self._fates(), self._tombstones(), self.add, self._scoped)

    def compact(
        self, options: CompactOptions, progress: Progress | None = None, aside: Aside = nullcontext
    ) -> CompactReply:
        """Sum up what this project remembers in one memory that cites it; nothing is written when a model fails."""
        from lorelog.services.compact.compactor import Compactor

        self.place.found()
        filters = self._scoped(options.filters, all_projects=True)
        options = replace(options, filters=filters, prompt_file=options.prompt_file or self.defaults.compact_prompt)
        known = (self._fates(), self._tombstones(), partial(self.language, options.llm), self.add)
        return Compactor(replace(self.capturing(), aside=aside), *known).compact(options, progress)

    def expand(self, identity: str, *, lines: int | None = None) -> ExpandReply:
        """Show the whole section around a hit, or `lines` lines around it."""
        from lorelog.services.coverings import name_sources
        from lorelog.services.expand import expand

        fates = self._fates()
        reply = name_sources(fates.note(expand(identity, self._store, lines=lines)), self._store, fates.coverings)
        return self._paged.told(reply, around=bool(lines))

    def list(
        self,
        filters: Filters | None = None,
        *,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
        options: ListOptions | None = None,
    ) -> ListReply:
        """List memories, or documents, newest first; memories that are superseded or expired only where that is chosen."""
        from lorelog.services.listing import list_documents, list_memories

        scoped = self._scoped(filters or Filters(), all_projects=all_projects)
        if documents:
            return list_documents(self._store, scoped, limit, self._fates())
        return list_memories(self._store, scoped, limit, self._fates(), options)

    def add(self, memories: Sequence[NewMemory], *, to_global: bool = False) -> Sequence[AddReply]:
        """Append memories to today's journal, all or none, and index them."""
        from lorelog.services.add import add, at_head

        with suppress(StoreUnwritable):  # a memory of a project is kept in the project, whatever the home allows
            self.place.found()
        root = self.place.journal_root(to_global=to_global)
        memories = memories if to_global else at_head(memories, self.place.project.root)
        replies = add(memories, root, self._job((root,)), self._store, self._embedder)
        with suppress(StoreUnwritable):  # the memory is safe, and journals are found without being remembered
            self._roots.remember([root])
        return replies

    def get(self, identity: str) -> GetReply:
        """Return a memory by its id, or that it is deleted, or that there is none."""
        from lorelog.services.delete import get

        reply = get(identity, self._store, self._tombstones())
        if reply.memory is None:
            return reply
        trust, newer = self._paged.standing(reply.memory)
        return replace(reply, fate=Fate(superseded_by=newer) if newer else self._fates().of(reply.memory), trust=trust)

    def delete(self, identity: str) -> DeleteReply:
        """Hide a memory from every search and list. Its file is not touched, and `restore` brings it back."""
        from lorelog.services.delete import delete

        self.place.found()
        self._paged.check_no_record(identity)
        return delete(identity, self._store, self._tombstones())

    def restore(self, identity: str) -> DeleteReply:
        """Bring a deleted memory back."""
        from lorelog.services.delete import restore

        self.place.found()
        return restore(identity, self._store, self._tombstones(), self._job(()))

    def transcript(self, place: str, *, turn: str = "", context: int = 3, directory: str | None) -> TranscriptReply:
        """Show the conversation behind a memory, around one turn. Without a directory it cannot be named by a path."""
        from lorelog.services.transcript import read_transcript

        return read_transcript(place, self._store, turn=turn, context=context, directory=directory)

    def health(self, *, duplicates: int = 10) -> HealthReply:
        """Look the index over."""
        from lorelog.services.health import health

        due, stones = self._fates().due, self._tombstones()
        return health(self._store, self._embedder, self._roots.all(), stones, duplicates=duplicates, due=due)

    def check_store(self, *, repair: bool = False) -> Comparison:
        """Compare the catalog with what finds its chunks, and mend what differs when asked."""
        return self._store.compare(repair=repair)

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

    def _searcher(self, embedder: Embedder | None) -> Searcher:
        from lorelog.services.answer import Judges
        from lorelog.services.search import Searcher

        judges = Judges(self._reranker, self.defaults.rerank, fates=self._fates())
        return Searcher(self._store, embedder, self._analyser, judges, self._caches)

    def _fates(self) -> Fates:
        from datetime import date

        from lorelog.services.fates import Fates

        today = date.today()  # noqa: DTZ011  (a person's own day)
        return Fates(self._store, self.place.tenant_folder, today, heeds_feedback=self._heeds_feedback)

    def _upkeep(self) -> Upkeep:
        from lorelog.services.upkeep import Upkeep

        return Upkeep(self._store, self._embedder, self.place, self._roots, self._paged, self._job)

    # -- scope -------------------------------------------------------------------------------------------------------

    def _scoped(self, filters: Filters, *, all_projects: bool) -> Filters:
        """Return the filters with the projects seen from here, and with its path as the index knows paths."""
        from lorelog.services.reach import real_path

        filters.check()
        if filters.source_prefix:
            filters = replace(filters, source_prefix=real_path(filters.source_prefix))
        if filters.projects is not None or all_projects or self.defaults.all_projects:
            return filters
        known = () if self.place.project.git else self._store.projects()
        return replace(filters, projects=visible_projects(self.place.project, known))

    def _tombstones(self) -> Tombstones:
        from lorelog.services.tombstones import Tombstones

        return Tombstones(self.place.tenant_folder / "tombstones.jsonl")

    def _job(self, roots: tuple[Root, ...]) -> IndexJob:
        from lorelog.services.index import IndexJob

        return IndexJob(
            roots=roots,
            known_roots=self._roots.all(),
            scan=self._paged.left_alone(self.defaults.scan),
            chunking=self.defaults.chunking,
            batch_size=self.defaults.batch_size,
            journals=frozenset(os.path.realpath(one) for one in (self.place.journals, self.place.global_journals)),
            tombstones=self._tombstones(),
            former=self._former,
        )
