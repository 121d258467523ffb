"""The scope of an engine: one tenant, one model and one project; its dependencies and defaults, and what is visible.

Records and databases beside the index are opened on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.errors import LorelogError, StoreError, UsageError
from lorelog.core.options import (
    CacheOptions,
    CaptureOptions,
    ChunkOptions,
    RerankOptions,
    ScanOptions,
    SearchOptions,
    SessionOptions,
    SpendOptions,
    TraceOptions,
)
from lorelog.core.paths import cache_folder
from lorelog.core.ports import Embedder, Reranker, Store
from lorelog.core.query import Filters
from lorelog.light.delivery_files import DeliveryFiles
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import (
    CODE_DATABASE,
    CURSOR_RULES,
    Workspace,
    has_pending_plans,
    visible_projects,
)
from lorelog.services.records.pages import RecordPages

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables
    from lorelog.language.analyser import WordAnalyser
    from lorelog.retrieval.cache import AnswerCache
    from lorelog.services.indexing import IndexJob
    from lorelog.services.llm.metered import MeteredLlm
    from lorelog.services.memories.transcript_access import TranscriptAccess
    from lorelog.services.memory_state.authored import AuthoredMemories
    from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
    from lorelog.services.memory_state.tombstones import Tombstones
    from lorelog.services.records.keyring import Keyring
    from lorelog.services.records.store import RecordStore
    from lorelog.services.search.searcher import Searcher
    from lorelog.services.sessions.summarizer import LlmSummarizer
    from lorelog.services.standing.ownership import Ownership
    from lorelog.services.traces.recorder import TraceStore


TRACES_DATABASE = "traces.db"


class SideDatabases:
    """A tenant's databases of code and traces. Threads may share it; the owner of a shared one closes it."""

    def __init__(self, folder: Path, tracing: TraceOptions) -> None:
        self._folder = folder
        self._tracing = tracing
        self._lock = Lock()
        self._code: CodeTables | None = None
        self._traces: TraceStore | None = None

    def code(self) -> CodeTables:
        """Return the code database. Nothing is created on disk before the first write."""
        with self._lock:
            if self._code is None:
                from lorelog.code.tables import CodeTables

                self._code = CodeTables(Path(cache_folder(self._folder)) / CODE_DATABASE)
            return self._code

    def traces(self) -> TraceStore:
        with self._lock:
            if self._traces is None:
                from lorelog.services.traces.recorder import TraceStore

                self._traces = TraceStore(self._folder / TRACES_DATABASE, self._tracing)
            return self._traces

    def close(self) -> None:
        """Close open databases; they are opened again on next use."""
        with self._lock:
            for database in (self._code, self._traces):
                if database is not None:
                    database.close()
            self._code, self._traces = None, None


class EngineDefaults(Struct, frozen=True, kw_only=True):
    """Options that apply unless a call sets others."""

    scan: ScanOptions
    chunking: ChunkOptions
    search: SearchOptions
    all_projects: bool = False
    batch_size: int = 32
    rerank: RerankOptions = field(default_factory=RerankOptions)
    caching: CacheOptions = field(default_factory=CacheOptions)
    session: SessionOptions = field(default_factory=SessionOptions)
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    spending: SpendOptions = field(default_factory=SpendOptions)
    review_judge: str = "none"
    """Who files statements: a provider of language models, with a model if named."""
    compact_prompt: str = ""
    """A file with the prompt for summaries; empty uses the built-in one."""


class OpenRecords(Struct, frozen=True):
    """A tenant's records, and the identity that writes them."""

    book: RecordStore
    keyring: Keyring
    agent: str = ""


def _raise_no_records() -> OpenRecords:
    raise UsageError("this engine has no records", hint="open the engine with `wiring`")


class EngineDeps(Struct, frozen=True, kw_only=True):
    """Models and caches, and what closes them and the store if they are the engine's own."""

    analyser: WordAnalyser
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    answers: AnswerCache | None = None
    summarizer: Callable[[], LlmSummarizer | None] = lambda: None
    """Returns the model for session notes; None extracts sentences instead."""
    records: Callable[[], OpenRecords] = _raise_no_records
    """Opens the tenant's records, once: a search in a home without records must not load their code."""
    count_tokens: Callable[[str], int] = estimate_tokens
    """Returns the tokens of a text; one that loads a tokenizer may raise ModelUnavailable."""
    language: Callable[..., MeteredLlm | None] = lambda *_: None
    """Returns the configured language model, or the one named; None if there is none. See `wiring.open_language_model`."""
    side_databases: SideDatabases = field(
        default_factory=lambda: SideDatabases(Path(os.devnull), TraceOptions(enabled=False))
    )
    close: Callable[[], object] = lambda: None


class ProjectScope:
    """Store, models and defaults of one tenant, as seen from one project."""

    def __init__(self, *, store: Store, deps: EngineDeps, workspace: Workspace, defaults: EngineDefaults) -> None:
        from lorelog.retrieval.cache import AnswerCache

        self.store = store
        self.deps = deps
        self.embedder = deps.embedder
        self.place = workspace
        self.defaults = defaults
        self.answers = AnswerCache(defaults.caching) if deps.answers is None else deps.answers
        self.roots = Roots(workspace.tenant_folder / "roots.json", self._indexed_roots)
        self.record_pages = RecordPages(store, lambda: deps.records().book, workspace, defaults.chunking)
        self._uses_feedback = True

    def _indexed_roots(self) -> Iterator[Root]:
        """Yield the roots of the indexed documents, as far as the index can be read."""
        with suppress(StoreError):
            pages = self.record_pages.projection()
            for document in self.store.documents():
                if pages is None or not pages.holds(document.source):
                    yield Root(document.root, document.project)

    def with_embedder(self, change: Callable[[Embedder], Embedder]) -> Self:
        """Return a copy with a wrapped embedder, if there is one. Only the original needs closing."""
        changed = self._copy()
        changed.embedder = None if self.embedder is None else change(self.embedder)
        return changed

    def without_feedback(self) -> Self:
        """Return a copy that ranks without the user's judgements: they must not improve the ranking they measure."""
        changed = self._copy()
        changed._uses_feedback = False  # noqa: SLF001
        return changed

    def _copy(self) -> Self:
        from copy import copy

        return copy(self)

    @property
    def model(self) -> str:
        """The embedding model as provider/model; `none` for the lexical lane only."""
        return f"{self.embedder.provider}/{self.embedder.model}" if self.embedder else "none"

    def searcher(self, embedder: Embedder | None) -> Searcher:
        """Return a searcher of the store; without an embedder it uses keywords only."""
        from lorelog.services.search.searcher import SearchDeps, Searcher

        deps = SearchDeps(
            self.deps.reranker,
            self.defaults.rerank,
            lifecycle=self.lifecycle_index(),
            stands=self.ownership().standing_check(),
        )
        return Searcher(self.store, embedder, self.deps.analyser, deps, self.answers)

    def lifecycle_index(self) -> LifecycleIndex:
        """Return the lifecycle of memories as of today."""
        from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

        folder = self.place.tenant_folder
        return LifecycleIndex(self.store, folder, date.today(), uses_feedback=self._uses_feedback)

    def authored(self) -> AuthoredMemories:
        """Return the registry of memories that were written on this machine."""
        from lorelog.services.memory_state.authored import AuthoredMemories

        return AuthoredMemories.of_tenant(self.place.tenant_folder)

    def ownership(self) -> Ownership:
        """Return what tells the user's own memories from those that came with a repository."""
        from lorelog.services.standing.ownership import Ownership

        return Ownership(self.place, self.authored())

    def transcript_access(self, environment: Mapping[str, str]) -> TranscriptAccess:
        """Return what decides which transcripts the anchors of memories lead to; `environment` is the caller's."""
        from lorelog.services.memories.transcript_access import TranscriptAccess

        return TranscriptAccess(self.authored(), environment)

    def tombstones(self) -> Tombstones:
        from lorelog.services.memory_state.tombstones import Tombstones

        return Tombstones(self.place.tenant_folder / "tombstones.jsonl")

    def job(self, roots: tuple[Root, ...]) -> IndexJob:
        """Return an index job over the roots, with the defaults."""
        from lorelog.services.indexing import IndexJob
        from lorelog.services.places.root_selection import find_journal_roots

        tombstones = self.tombstones()
        with suppress(StoreError):  # the run reports it
            tombstones.keep_omitted(self.store.documents)
        return IndexJob(
            roots=roots,
            known_roots=self.known_roots(),
            scan=self.record_pages.exclude_pages(self.defaults.scan),
            chunking=self.defaults.chunking,
            batch_size=self.defaults.batch_size,
            journals=frozenset(root.path for root in find_journal_roots(self.place)),
            tombstones=tombstones,
        )

    def known_roots(self) -> tuple[Root, ...]:
        """Return the roots, none if the list cannot be read: a memory is written to its journal in any case."""
        try:
            return self.roots.all()
        except StoreError:
            return ()

    def has_interrupted_forget(self) -> bool:
        """Return True if a forget was interrupted, and text is left that should be gone."""
        return has_pending_plans(str(self.place.tenant_folder))

    def with_scope(self, options: SearchOptions, *, all_projects: bool) -> SearchOptions:
        return replace(options, filters=self.scoped(options.filters, all_projects=all_projects))

    def visible_projects(self) -> tuple[str, ...]:
        """Return the projects that are searched by default, the current one first."""
        return visible_projects(self.place.project, () if self.place.project.git else self.store.projects())

    def log_projects(self, *, all_projects: bool = False) -> tuple[str, ...] | None:
        """Return the projects whose traces and deliveries are shown; None for all."""
        return None if all_projects or self.defaults.all_projects else visible_projects(self.place.project, ())

    def scoped(self, filters: Filters, *, all_projects: bool) -> Filters:
        """Return the filters with the visible projects, and with a real path as source prefix."""
        filters.check()
        if filters.source_prefix:
            from lorelog.services.places.root_selection import real_path

            filters = replace(filters, source_prefix=real_path(filters.source_prefix))
        if filters.projects is not None or all_projects or self.defaults.all_projects:
            return filters
        return replace(filters, projects=self.visible_projects())

    def refresh_delivery(self, *, check_code: bool = False) -> None:
        """Bring the files that hooks read up to date: standing memories and cues; also the copy of the rules for Cursor.

        Called after every operation that changes memories, in the process that changed them. It is cheap if nothing
        changed, and a failure is ignored: the files are derived, and the next call writes them. With `check_code`, the
        memories of this project are checked against the code they mention, and commands that keep failing are counted.
        """
        from lorelog.services.standing.source import DeliverySource

        check = None
        with suppress(LorelogError, OSError):
            if check_code:
                from lorelog.services.freshness.checker import FreshnessChecker
                from lorelog.services.standing.memories import code_check

                tables = self.deps.side_databases.code()
                check = code_check(FreshnessChecker(self.place, tables).without_time_limit())
            source = DeliverySource(
                store=self.store,
                workspace=self.place,
                lifecycle=self.lifecycle_index(),
                authored=self.authored(),
                today=date.today(),
            )
            if check_code:
                from lorelog.services.standing.memories import write_remedies
                from lorelog.services.traces.remedies import project_remedies

                traces = self.deps.side_databases.traces()
                write_remedies(source, project_remedies(traces.tables(), self.place.project.id))
            marks = source.read_marks()
            if check is not None or not source.is_current(marks):
                from lorelog.services.standing.memories import write_memories

                write_memories(source, marks, check)
        if Path(self.place.project.root, CURSOR_RULES).exists():
            from lorelog.services.standing.rules import refresh_copy

            with suppress(LorelogError, OSError):
                refresh_copy(self.place)
        self.list_own_entries()

    def list_own_entries(self) -> None:
        """Bring the list of this project's own journal entries up to date; a failure is ignored, and the next call writes it."""
        from lorelog.services.standing.ownership import write_own_entries

        project, journals, authored = self.place.project.id, [str(self.place.journals)], self.authored()
        file = Path(DeliveryFiles(str(self.place.tenant_folder), project).own)
        with suppress(LorelogError, OSError):  # again if a journal or the list was changed meanwhile
            all(write_own_entries(file, project, journals, authored) for _ in range(3 if project else 0))
