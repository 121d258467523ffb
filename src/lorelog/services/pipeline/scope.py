"""The scope of an engine: one tenant, one model and one project; the files beside the index, and what is visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Self

from lorelog.core.dataclasses import replace
from lorelog.core.errors import StoreError
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Embedder, Store
from lorelog.core.query import Filters
from lorelog.services.pipeline.dependencies import EngineDefaults, EngineDeps
from lorelog.services.places.project import visible_projects
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import Workspace, has_pending_plans
from lorelog.services.records.pages import RecordPages

if TYPE_CHECKING:
    from lorelog.services.indexing.run import IndexJob
    from lorelog.services.memories.transcript_access import TranscriptAccess
    from lorelog.services.memory_state.authored import AuthoredMemories
    from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
    from lorelog.services.memory_state.tombstones import Tombstones
    from lorelog.services.search.searcher import Searcher


class ProjectScope:
    """Store, models and defaults of one tenant, as seen from one project."""

    def __init__(self, *, store: Store, deps: EngineDeps, workspace: Workspace, defaults: EngineDefaults) -> None:
        from lorelog.retrieval.cache import Caches

        self.store = store
        self.deps = deps
        self.embedder = deps.embedder
        self.place = workspace
        self.defaults = defaults
        self.caches = Caches.from_options(defaults.caching) if deps.caches is None else deps.caches
        self.roots = Roots(workspace.tenant_folder / "roots.json")
        self.record_pages = RecordPages(store, lambda: deps.records.open().book, workspace, defaults.chunking)
        self._uses_feedback = True

    def with_embedder(self, change: Callable[[Embedder], Embedder]) -> Self:
        """Return a copy with a wrapped embedder, if there is one. Only the original needs closing."""
        changed = copy(self)
        changed.embedder = None if self.embedder is None else change(self.embedder)
        return changed

    def without_feedback(self) -> Self:
        """Return a copy that ranks without the user's judgements: they must not improve the ranking they measure."""
        changed = copy(self)
        changed._uses_feedback = False  # noqa: SLF001
        return changed

    @property
    def model(self) -> str:
        """The embedding model as provider/model; `none` for the lexical lane only."""
        return f"{self.embedder.provider}/{self.embedder.model}" if self.embedder else "none"

    def searcher(self, embedder: Embedder | None) -> Searcher:
        """Return a searcher of the store; without an embedder it uses keywords only."""
        from lorelog.services.search.searcher import SearchDeps, Searcher

        deps = SearchDeps(self.deps.reranker, self.defaults.rerank, lifecycle=self.lifecycle_index())
        return Searcher(self.store, embedder, self.deps.analyser, deps, self.caches)

    def lifecycle_index(self) -> LifecycleIndex:
        """Return the lifecycle of memories as of today."""
        from datetime import date

        from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

        today = date.today()  # noqa: DTZ011  (the user's local day)
        return LifecycleIndex(self.store, self.place.tenant_folder, today, uses_feedback=self._uses_feedback)

    def authored(self) -> AuthoredMemories:
        """Return the registry of memories that were written on this machine."""
        from lorelog.services.memory_state.authored import AuthoredMemories

        return AuthoredMemories.of_tenant(self.place.tenant_folder)

    def transcript_access(self, environment: Mapping[str, str]) -> TranscriptAccess:
        """Return what decides which transcripts the anchors of memories lead to; `environment` is the caller's."""
        from lorelog.services.memories.transcript_access import TranscriptAccess

        return TranscriptAccess(self.authored(), environment)

    def tombstones(self) -> Tombstones:
        """Return the deletions."""
        from lorelog.services.memory_state.tombstones import Tombstones

        return Tombstones(self.place.tenant_folder / "tombstones.jsonl")

    def job(self, roots: tuple[Root, ...]) -> IndexJob:
        """Return an index job over the roots, with the defaults."""
        from lorelog.services.indexing.run import IndexJob
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
            previous_embedder=self.deps.previous_embedder,
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
        """Return the options with scoped filters."""
        return replace(options, filters=self.scoped(options.filters, all_projects=all_projects))

    def visible_projects(self) -> tuple[str, ...]:
        """Return the projects that are searched by default, the current one first."""
        return visible_projects(self.place.project, () if self.place.project.git else self.store.projects())

    def scoped(self, filters: Filters, *, all_projects: bool) -> Filters:
        """Return the filters with the visible projects, and with a real path as source prefix."""
        filters.check()
        if filters.source_prefix:
            from lorelog.services.places.root_selection import real_path

            filters = replace(filters, source_prefix=real_path(filters.source_prefix))
        if filters.projects is not None or all_projects or self.defaults.all_projects:
            return filters
        return replace(filters, projects=self.visible_projects())
