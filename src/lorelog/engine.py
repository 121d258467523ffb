"""The engine of one tenant, one model and one project: scope, defaults, and factories for the services.

Each method imports its own service: otherwise half of a cold search would be spent on loading the parsers that only
indexing needs. Callers that need only the store, a model or a cache use the attributes directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import LorelogError, StoreError, StoreUnwritable
from lorelog.core.freshness import UNCHECKED_VERDICT, FreshnessVerdict
from lorelog.core.options import ListOptions, SearchOptions
from lorelog.core.ports import Embedder, Progress, Store
from lorelog.core.query import Filters, LifecycleState, SearchReply
from lorelog.services.pipeline.dependencies import EngineDefaults, EngineDeps
from lorelog.services.places.project import visible_projects
from lorelog.services.places.roots import Root, Roots, RootStatus
from lorelog.services.places.workspace import CODE_DATABASE, Workspace, has_pending_plans
from lorelog.services.records.pages import RecordPages

if TYPE_CHECKING:
    from lorelog.core.document import StoredChunk
    from lorelog.core.memory import (
        AddReply,
        CompactOptions,
        CompactReply,
        DeleteReply,
        ExpandReply,
        GetReply,
        HealthReply,
        IndexReport,
        ListReply,
        NewMemory,
    )
    from lorelog.services.code.scope import CodeScope
    from lorelog.services.context.scope import ContextScope
    from lorelog.services.evaluation.search_quality import EvaluateReply, EvaluationOptions
    from lorelog.services.forget.forgetter import Forgetter
    from lorelog.services.imports.memory_importer import Importer
    from lorelog.services.indexing.incremental import FileChanges
    from lorelog.services.indexing.run import IndexJob
    from lorelog.services.maintenance.index import IndexMaintenance
    from lorelog.services.memories.edit import EditedSection
    from lorelog.services.memories.lifecycle import MemoryLifecycle
    from lorelog.services.memories.transcript_access import TranscriptAccess
    from lorelog.services.memory_state.authored import AuthoredMemories
    from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
    from lorelog.services.memory_state.tombstones import Tombstones
    from lorelog.services.places.root_selection import IndexTargets, WatchScope
    from lorelog.services.records.record_scope import RecordScope
    from lorelog.services.search.searcher import Searcher
    from lorelog.services.sessions.capture_context import CaptureContext, YieldWriteLock
    from lorelog.services.sessions.recall import RecalledMemory, UserPrompt
    from lorelog.services.sessions.topics import TopicReader
    from lorelog.services.standing.ownership import Ownership
    from lorelog.services.traces.recorder import TraceStore


class Engine:
    """Entry point to the services, over ports only. Use it as a context manager, or close it."""

    def __init__(self, *, store: Store, deps: EngineDeps, workspace: Workspace, defaults: EngineDefaults) -> None:
        from lorelog.retrieval.cache import Caches

        self.store = store
        self.deps = deps
        self.embedder = deps.embedder
        self.place = workspace
        self.defaults = defaults
        self.caches = Caches.from_options(defaults.caching) if deps.caches is None else deps.caches
        self._roots = Roots(workspace.tenant_folder / "roots.json")
        self._record_pages = RecordPages(store, lambda: deps.records.open().book, workspace, defaults.chunking)
        self._uses_feedback = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def with_embedder(self, change: Callable[[Embedder], Embedder]) -> Engine:
        """Return a copy with a wrapped embedder, if there is one. Only the original needs closing."""
        from copy import copy

        changed = copy(self)
        changed.embedder = None if self.embedder is None else change(self.embedder)
        return changed

    def close(self) -> None:
        """Close the store and models unless they are shared, as are the caches. May be called twice."""
        if self.deps.caches is not None:
            return
        self.store.close()
        self.deps.records.close()
        self.deps.side_databases.close()
        for model in (self.embedder, self.deps.reranker):
            if model is not None:
                model.close()

    @property
    def model(self) -> str:
        """The embedding model as provider/model; `none` for the lexical lane only."""
        return f"{self.embedder.provider}/{self.embedder.model}" if self.embedder else "none"

    # -- index -------------------------------------------------------------------------------------------------------

    def index(
        self,
        named: IndexTargets | None = None,
        *,
        force: bool = False,
        vectors: bool = True,
        reembed: bool | Literal["anyway"] = False,
        ignore_files: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> IndexReport:
        """Index the named targets; by default the known roots of this project.

        Without `vectors` the run ends when the lexical lane is up to date. With `reembed` all vectors are made again
        as shadow vectors and replace the old ones unless they are clearly worse ("anyway": in any case).
        `ignore_files` apply in addition to the configured ones.
        """
        job = self._job(())
        job = replace(
            job,
            force=force,
            words_only=not vectors,
            reembed=bool(reembed),
            anyway=reembed == "anyway",
            scan=replace(job.scan, ignore_files=(*job.scan.ignore_files, *ignore_files)),
        )
        report = self._index_maintenance().index(job, named, progress)
        self.refresh_delivery()
        return report

    def watch_set(self) -> WatchScope:
        """Return the paths to watch for this project."""
        return self._index_maintenance().watch_set()

    def follow(self, changes: FileChanges, progress: Progress | None = None) -> IndexReport | None:
        """Index changes below the watched roots; return None if there are none.

        Raise StoreBusy instead of waiting for another run. An index that serves another model keeps serving it,
        unless that is a former built-in model, which an update replaced.
        """
        report = self._index_maintenance().follow(changes, progress)
        if report is not None:
            self.refresh_delivery()
        return report

    def run_background_work(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Embed records and topics, and check the code that memories mention, as long as `go_on` returns True."""
        from lorelog.services.maintenance.index import run_background_work

        with suppress(LorelogError):
            self.complete_forgets()
        run_background_work(
            self._record_pages,
            store=self.store,
            embedder=self.embedder,
            job=self._job(()),
            tables=self.deps.side_databases.code(),
            go_on=go_on,
        )
        if go_on():
            self.refresh_delivery(check_code=True)
            self._topic_reader().prepare(go_on)

    def roots(self) -> Sequence[RootStatus]:
        """Return the indexed roots of all projects of the tenant."""
        documents = Counter(document.root for document in self.store.documents())
        return [RootStatus(root, root.exists(), documents[root.path]) for root in self._roots.all()]

    def forget_roots(self, paths: Sequence[str]) -> int:
        """Stop indexing roots and drop their documents from the index; return how many. The files are not touched.

        Raise NotFound if a path contains no root, before anything is dropped.
        """
        from lorelog.services.places.root_selection import forget_roots

        count = forget_roots(paths, self._roots, self.store, self._record_pages.holds)
        self.refresh_delivery()
        return count

    def has_indexed_project(self) -> bool:
        """Return True if something was indexed for the current project."""
        return any(root.project == self.place.project.id for root in self._roots.all())

    def health(self, *, duplicates: int = 10) -> HealthReply:
        """Check the index."""
        from lorelog.services.indexing.health import check_files, check_health
        from lorelog.services.maintenance.home_health import check_home

        def due() -> Sequence[str]:
            return self._lifecycle_index().due()

        roots = self._known_roots()
        reply = check_health(self.store, self.embedder, roots, self._tombstones(), duplicates=duplicates, due=due)
        home = check_home(self.place, self._roots, self.deps.records.open().book)
        files = check_files(self.store, self._job(roots))
        return replace(reply, checks=(*reply.checks, *files, *home))

    # -- search ------------------------------------------------------------------------------------------------------

    def search(self, query: str, options: SearchOptions | None = None, *, all_projects: bool = False) -> SearchReply:
        """Return memories, best first: of this project and the global ones, unless the filters name projects.

        Records written since the last search are found by their words; every hit has its trust.
        """
        from lorelog.services.pipeline.search import SearchPipeline

        options = options or self.defaults.search
        options = replace(options, filters=self._scoped(options.filters, all_projects=all_projects))
        pipeline = SearchPipeline(
            self._searcher(self.embedder),
            self._record_pages,
            self._ownership(),
            self._known_roots,
            partial(self.code, all_projects=all_projects),
            self.caches.costs,
        )
        return pipeline.search(query, options)

    def recall(
        self,
        prompt: UserPrompt,
        *,
        k: int | None = None,
        min_relevance: float | None = None,
        wanted: Callable[[], None],
    ) -> tuple[RecalledMemory, ...]:
        """Return memories for a prompt that its session was not shown before, and record them as shown.

        `wanted` raises when the client no longer waits.
        """
        from lorelog.services.sessions.recall import RecallSources, recall_memories
        from lorelog.services.sessions.topics import LastQueryEmbedder

        session = self.defaults.session
        relevance = session.hits_relevance if min_relevance is None else min_relevance
        options = replace(self.defaults.search, k=session.hits if k is None else k, min_relevance=relevance)
        self.place.create()
        engine = self.with_embedder(LastQueryEmbedder)
        sources = RecallSources(engine.search, self.place.tenant_folder, engine._topic_reader().find)  # noqa: SLF001
        return recall_memories(prompt, options, sources, wanted)

    def _topic_reader(self) -> TopicReader:
        from lorelog.services.delivery.files import DeliveryFiles
        from lorelog.services.sessions.topics import TopicReader

        files = DeliveryFiles(str(self.place.tenant_folder), self.place.project.id).standing
        # A daemon's background thread makes the vectors, because a hook does not wait for them.
        return TopicReader(files, self.embedder, wait=self.deps.caches is None)

    def _ownership(self) -> Ownership:
        from lorelog.services.standing.ownership import Ownership

        return Ownership(self.place, self._authored())

    def evaluate(
        self, request: EvaluationOptions, *, all_projects: bool = False, progress: Progress | None = None
    ) -> EvaluateReply:
        """Measure the ranking of judged questions: lexical, dense and hybrid."""
        from lorelog.services.evaluation.search_quality import evaluate

        filters = self._scoped(request.options.filters, all_projects=all_projects)
        options = replace(request.options, filters=filters)
        from copy import copy

        plain = copy(self)
        plain._uses_feedback = False  # noqa: SLF001  (judgements must not improve the ranking they measure)
        hides, shown = self._lifecycle_index().hides, ListOptions()
        return evaluate(
            lambda query, options: plain.search(query, options, all_projects=True),
            self.store,
            replace(
                request,
                options=options,
                has_model=self.embedder is not None,
                is_hidden=lambda stored: hides(stored, shown),
            ),
            progress,
        )

    # -- memories ----------------------------------------------------------------------------------------------------

    def expand(self, identity: str, *, lines: int | None = None) -> ExpandReply:
        """Return the whole section around a chunk, or `lines` lines around it."""
        from lorelog.services.memories.expand import expand
        from lorelog.services.memory_state.lifecycle_index import attach_sources

        lifecycle = self._lifecycle_index()
        reply = lifecycle.annotate(expand(identity, self.store, lines=lines))
        reply = attach_sources(reply, self.store, lifecycle.summary_links)
        reply = replace(reply, chunk=self._ownership().with_shown_anchor(reply.chunk, self.store))
        return self._record_pages.annotate_section(reply, around=bool(lines))

    def check_freshness(self, chunk: StoredChunk) -> FreshnessVerdict:
        """Return how the code that a memory of this project names has changed since."""
        if chunk.project != self.place.project.id or not self.defaults.search.freshness:
            return UNCHECKED_VERDICT
        from lorelog.services.freshness.checker import FreshnessChecker, claim_of

        tables = self.code().tables if (self.place.cache_folder / CODE_DATABASE).exists() else None
        verdicts = FreshnessChecker(self.place, tables).verdicts({chunk.id: claim_of(chunk.chunk, chunk.project)})
        return verdicts.get(chunk.id, UNCHECKED_VERDICT)

    def list(
        self,
        filters: Filters | None = None,
        *,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
        options: ListOptions | None = None,
    ) -> ListReply:
        """List memories or documents, newest first; superseded or expired memories only if `options` include them."""
        from lorelog.services.memories.listing import explain_filters, list_documents, list_memories

        scoped = self._scoped(filters or Filters(), all_projects=all_projects)
        if documents:
            return list_documents(self.store, scoped, limit, self._lifecycle_index())
        reply = list_memories(self.store, scoped, limit, self._lifecycle_index(), options)
        if not reply.memories:
            reply = replace(reply, notes=explain_filters(self.store, scoped))
        ownership = self._ownership()
        memories = tuple(ownership.with_shown_anchor(memory, self.store) for memory in reply.memories)
        return replace(reply, memories=memories)

    def add(
        self, memories: Sequence[NewMemory], *, to_global: bool = False, keep_secrets: bool = False
    ) -> Sequence[AddReply]:
        """Append memories to today's journal, all or none, and index them. Secrets are redacted unless they are kept."""
        from lorelog.services.memories.add import find_same_memory, redact_memories

        redacted: Sequence[dict[str, int]] = [{} for _ in memories]
        if not keep_secrets:
            memories, redacted = redact_memories(memories, self.defaults.capture.patterns)
        with suppress(StoreUnwritable):  # a project's memory is kept in the project even if the home is read-only
            self.place.create()
        root = self.place.journal_root(to_global=to_global)
        same = [
            find_same_memory(memory, root, self.store, self._authored(), self._lifecycle_index()) for memory in memories
        ]
        new = [memory for memory, reply in zip(memories, same, strict=True) if reply is None]
        added = iter(self._add_new(new, root) if new else ())
        replies = [reply or next(added) for reply in same]
        return [replace(reply, redacted=kinds) for reply, kinds in zip(replies, redacted, strict=True)]

    def _add_new(self, memories: Sequence[NewMemory], root: Root) -> Sequence[AddReply]:
        from lorelog.services.memories.add import add, describe_new_project, with_git_head, with_replaced_note

        to_global = root.project == GLOBAL_PROJECT
        memories = memories if to_global else with_git_head(memories, self.place.project.root)
        given = memories
        memories = self._supersede_contradicted(memories, to_global=to_global)
        notes = () if to_global else describe_new_project(self.place)
        replies = add(memories, root, self._job((root,)), self.store, self.embedder)
        replies = [
            reply if memory.supersedes == before.supersedes else with_replaced_note(reply, memory)
            for reply, memory, before in zip(replies, memories, given, strict=True)
        ]
        replies[0] = replace(replies[0], notes=(*replies[0].notes, *notes))
        with suppress(StoreError):  # the memory is safe, and journals are found without being registered
            self._roots.remember([root])
        pairs = zip(replies, memories, strict=True)
        self._register_authored([replace(memory, id=reply.memory) for reply, memory in pairs])
        self.refresh_delivery()
        return replies

    def get(self, identity: str) -> GetReply:
        """Return a memory by its id, or whether the id is deleted or unknown."""
        from lorelog.services.memories.delete import get_memory

        reply = get_memory(identity, self.store, self._tombstones())
        if reply.memory is None:
            return reply
        trust, newer = self._record_pages.chunk_trust(reply.memory)
        state = LifecycleState(superseded_by=newer) if newer else self._lifecycle_index().state_of(reply.memory)
        memory = self._ownership().with_shown_anchor(reply.memory, self.store)
        return replace(reply, memory=memory, lifecycle=state, trust=trust)

    def delete(self, identity: str) -> DeleteReply:
        """Hide a memory from every search and list. Its file is not touched, and `restore` shows it again."""
        from lorelog.services.memories.delete import delete_memory

        self.place.create()
        self._record_pages.reject_record_id(identity)
        reply = delete_memory(identity, self.store, self._tombstones())
        self.refresh_delivery()
        return reply

    def restore(self, identity: str) -> DeleteReply:
        """Show a deleted memory again."""
        from lorelog.services.memories.delete import restore_memory

        self.place.create()
        reply = restore_memory(identity, self.store, self._tombstones(), self._job(()))
        self.refresh_delivery()
        return reply

    def edit(self, identity: str, before: str, after: str, *, keep_secrets: bool = False) -> EditedSection:
        """Replace the section of a memory in its file. Raise SourceChanged if the file says something else by now."""
        from lorelog.services.memories.edit import MemoryEditor

        self._record_pages.reject_record_id(identity)
        editor = MemoryEditor(self.store, self.embedder, self._job(()), self._authored(), self.refresh_delivery)
        return editor.edit(identity, before, after, None if keep_secrets else self.defaults.capture.patterns)

    def compact(
        self, options: CompactOptions, progress: Progress | None = None, aside: YieldWriteLock = nullcontext
    ) -> CompactReply:
        """Summarize this project's memories in one memory that cites them; write nothing if a model fails."""
        from lorelog.services.compact.compactor import Compactor

        self.place.create()
        filters = self._scoped(options.filters, all_projects=True)
        options = replace(options, filters=filters, prompt_file=options.prompt_file or self.defaults.compact_prompt)
        compactor = Compactor(
            context=replace(self.capture_context(), yield_write_lock=aside),
            lifecycle=self._lifecycle_index(),
            tombstones=self._tombstones(),
            language=partial(self.deps.language, options.llm),
            add=self.add,
        )
        return compactor.compact(options, progress)

    # -- delivery ----------------------------------------------------------------------------------------------------

    def refresh_delivery(self, *, check_code: bool = False) -> None:
        """Bring the files that hooks read up to date: standing memories and cues.

        Called after every operation that changes memories, in the process that changed them. It is cheap if nothing
        changed, and a failure is ignored: the files are derived, and the next call writes them. With `check_code`, the
        memories of this project are checked against the code they mention.
        """
        from datetime import date

        from lorelog.services.standing.source import DeliverySource

        check = None
        with suppress(LorelogError, OSError):
            if check_code:
                from lorelog.services.freshness.checker import FreshnessChecker
                from lorelog.services.standing.refresh import code_check

                tables = self.deps.side_databases.code()
                check = code_check(FreshnessChecker(self.place, tables).without_time_limit())
            source = DeliverySource(
                store=self.store,
                workspace=self.place,
                lifecycle=self._lifecycle_index(),
                authored=self._authored(),
                today=date.today(),  # noqa: DTZ011  (the user's local day)
            )
            marks = source.read_marks()
            if check is not None or not source.is_current(marks):
                from lorelog.services.standing.refresh import write_memories

                write_memories(source, marks, check)
            source.write_own_entries(self.place.project.id, [str(self.place.journals)])

    def _supersede_contradicted(self, memories: Sequence[NewMemory], *, to_global: bool) -> Sequence[NewMemory]:
        """Return memories that name the standing memories of the same scope which they contradict."""
        from lorelog.services.delivery.files import DeliveryFiles, read_standing
        from lorelog.services.standing.ownership import STANDING_TYPES
        from lorelog.services.standing.rules import supersede_contradicted

        if not any(memory.type in STANDING_TYPES for memory in memories):
            return memories
        files = DeliveryFiles(str(self.place.tenant_folder), "" if to_global else self.place.project.id)
        return supersede_contradicted(memories, read_standing(files.standing[:1]), STANDING_TYPES)

    def _register_authored(self, memories: Sequence[NewMemory]) -> None:
        """Register memories as written on this machine. They are safe in their files even if the home is read-only."""
        with suppress(StoreUnwritable):
            self._authored().record(memories, self.place.project.id)

    def transcript_access(self, environment: Mapping[str, str]) -> TranscriptAccess:
        """Return what decides which transcripts the anchors of memories lead to; `environment` is the caller's."""
        from lorelog.services.memories.transcript_access import TranscriptAccess

        return TranscriptAccess(self._authored(), environment)

    def _authored(self) -> AuthoredMemories:
        from lorelog.services.memory_state.authored import AuthoredMemories

        return AuthoredMemories.of_tenant(self.place.tenant_folder)

    # -- factories ---------------------------------------------------------------------------------------------------

    def lifecycle(self) -> MemoryLifecycle:
        """Return the operations on existing memories."""
        from lorelog.services.memories.lifecycle import MemoryLifecycle

        self.place.create()
        return MemoryLifecycle(
            store=self.store,
            workspace=self.place,
            lifecycle_index=self._lifecycle_index(),
            tombstones=self._tombstones(),
            add=self.add,
            scope_filters=self._scoped,
            refresh=self.refresh_delivery,
        )

    def forgetter(self) -> Forgetter:
        """Return what takes text out for good."""
        from lorelog.retrieval.cache import clear_all_caches
        from lorelog.services.forget.forgetter import ForgetDeps, Forgetter

        return Forgetter(
            ForgetDeps(
                store=self.store,
                workspace=self.place,
                tombstones=self._tombstones(),
                authored=self._authored(),
                job=self._job,
                pages=self._record_pages,
                open_records=self.deps.records.open,
                drop_caches=clear_all_caches,
                refresh=self.refresh_delivery,
                words=self.deps.analyser.words,
                projects=None if self.defaults.all_projects else self._visible_projects(),
            )
        )

    def complete_forgets(self) -> None:
        """Complete forgets that were interrupted; cheap if there are none."""
        if self.has_interrupted_forget():
            self.forgetter().complete()

    def has_interrupted_forget(self) -> bool:
        """Return True if a forget was interrupted, and text is left that should be gone."""
        return has_pending_plans(str(self.place.tenant_folder))

    def capture_context(self) -> CaptureContext:
        """Return the dependencies of session capture, for this project and tenant."""
        from lorelog.services.sessions.capture_context import CaptureContext

        return CaptureContext(
            workspace=self.place,
            store=self.store,
            embedder=self.embedder,
            job=self._job,
            roots=self._roots,
            options=self.defaults.capture,
            summarizer=self.deps.summarizer,
            refresh=self.refresh_delivery,
            register=self._register_authored,
        )

    def importer(self) -> Importer:
        """Return the writer of other tools' memories."""
        from lorelog.services.imports.memory_importer import Importer

        return Importer(self.capture_context(), self._tombstones(), self.defaults.capture.patterns)

    def records(self) -> RecordScope:
        """Return the tenant's records as visible from this project."""
        from lorelog.services.records.record_scope import RecordScope

        records = self.deps.records.open()

        def search(query: str, options: SearchOptions) -> SearchReply:
            return self.search(query, options, all_projects=options.filters.projects is None)

        def find(embedder: Embedder | None, query: str, options: SearchOptions) -> SearchReply:
            filters = self._scoped(options.filters, all_projects=options.filters.projects is None)
            searcher = self._searcher(embedder)
            notes = self._record_pages.catch_up_briefly()
            reply = searcher.search(query, replace(options, filters=filters))
            return replace(reply, notes=(*reply.notes, *notes))

        return RecordScope(
            workspace=self.place,
            records=records.book,
            keyring=records.keyring,
            agent=records.agent or records.keyring.name,
            search=search,
            options=self.defaults.search,
            projects=self._visible_projects(),
            patterns=self.defaults.capture.patterns,
            search_raw=partial(find, self.embedder),
            search_words=partial(find, None),
        )

    def context(self, *, all_projects: bool = False) -> ContextScope:
        """Return the sources of an agent's project context, as visible from this project."""
        from lorelog.services.context.scope import ContextScope

        records = self.records()
        projects = None if all_projects or self.defaults.all_projects else records.projects
        return ContextScope(self.store, self.list, records, self.deps.count_tokens, projects)

    def code(self, *, all_projects: bool = False) -> CodeScope:
        """Return the code index, as visible from this working tree."""
        from lorelog.services.code.scope import CodeScope

        tables = self.deps.side_databases.code()
        return CodeScope(tables, self.place, all_projects=all_projects or self.defaults.all_projects)

    def traces(self) -> TraceStore:
        """Return the tenant's traces of calls and errors."""
        return self.deps.side_databases.traces()

    def _index_maintenance(self) -> IndexMaintenance:
        from lorelog.services.maintenance.index import IndexMaintenance

        return IndexMaintenance(
            store=self.store,
            embedder=self.embedder,
            workspace=self.place,
            roots=self._roots,
            records=self._record_pages,
            job=self._job,
        )

    def _searcher(self, embedder: Embedder | None) -> Searcher:
        from lorelog.services.search.searcher import SearchDeps, Searcher

        deps = SearchDeps(self.deps.reranker, self.defaults.rerank, lifecycle=self._lifecycle_index())
        return Searcher(self.store, embedder, self.deps.analyser, deps, self.caches)

    def _lifecycle_index(self) -> LifecycleIndex:
        from datetime import date

        from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

        today = date.today()  # noqa: DTZ011  (the user's local day)
        return LifecycleIndex(self.store, self.place.tenant_folder, today, uses_feedback=self._uses_feedback)

    def _tombstones(self) -> Tombstones:
        from lorelog.services.memory_state.tombstones import Tombstones

        return Tombstones(self.place.tenant_folder / "tombstones.jsonl")

    def _job(self, roots: tuple[Root, ...]) -> IndexJob:
        from lorelog.services.indexing.run import IndexJob
        from lorelog.services.places.root_selection import find_journal_roots

        tombstones = self._tombstones()
        with suppress(StoreError):  # the run reports it
            tombstones.keep_omitted(self.store.documents)
        return IndexJob(
            roots=roots,
            known_roots=self._known_roots(),
            scan=self._record_pages.exclude_pages(self.defaults.scan),
            chunking=self.defaults.chunking,
            batch_size=self.defaults.batch_size,
            journals=frozenset(root.path for root in find_journal_roots(self.place)),
            tombstones=tombstones,
            previous_embedder=self.deps.previous_embedder,
        )

    def _known_roots(self) -> tuple[Root, ...]:
        """Return the roots, none if the list cannot be read: a memory is written to its journal in any case."""
        try:
            return self._roots.all()
        except StoreError:
            return ()

    # -- scope -------------------------------------------------------------------------------------------------------

    def _visible_projects(self) -> tuple[str, ...]:
        return visible_projects(self.place.project, () if self.place.project.git else self.store.projects())

    def _scoped(self, filters: Filters, *, all_projects: bool) -> Filters:
        """Return the filters with the visible projects, and with a real path as source prefix."""
        filters.check()
        if filters.source_prefix:
            from lorelog.services.places.root_selection import real_path

            filters = replace(filters, source_prefix=real_path(filters.source_prefix))
        if filters.projects is not None or all_projects or self.defaults.all_projects:
            return filters
        return replace(filters, projects=self._visible_projects())
