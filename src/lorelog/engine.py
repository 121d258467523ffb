"""The engine of one tenant, one model and one project: scope, defaults, and factories for the services.

Each method imports its own service: otherwise half of a cold search would be spent on loading the parsers that only
indexing needs. Callers that need only the store, a model or a cache use the attributes directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from lorelog.core.errors import LorelogError
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Embedder
from lorelog.core.query import SearchReply
from lorelog.services.pipeline.scope import ProjectScope

if TYPE_CHECKING:
    from lorelog.services.code import CodeScope
    from lorelog.services.compact.compactor import Compactor
    from lorelog.services.context.relevance import ContextScope
    from lorelog.services.forget.forgetter import Forgetter
    from lorelog.services.guards.past_calls import ReplaySources
    from lorelog.services.imports.memory_importer import Importer
    from lorelog.services.llm.metered import MeteredLlm
    from lorelog.services.maintenance.index import IndexMaintenance
    from lorelog.services.memories.lifecycle import MemoryLifecycle
    from lorelog.services.pipeline.memories import ProjectMemories
    from lorelog.services.pipeline.search import SearchPipeline
    from lorelog.services.records.record_scope import RecordScope
    from lorelog.services.review.reviewer import JudgeState, Reviewer
    from lorelog.services.sessions.capture import CaptureContext, YieldWriteLock
    from lorelog.services.sessions.recall import RecallSources
    from lorelog.services.standing.rules import StandingRule
    from lorelog.services.traces.error_history import ErrorHistorySources
    from lorelog.services.traces.recorder import TraceStore


class Engine(ProjectScope):
    """Entry point to the services, over ports only. Use it as a context manager, or close it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store and models unless they are shared. May be called twice."""
        self.deps.close()

    def search(self, query: str, options: SearchOptions | None = None, *, all_projects: bool = False) -> SearchReply:
        """Return memories, best first: of this project and the global ones, unless the filters name projects.

        Records written since the last search are found by their words; every hit has its trust.
        """
        options = self.with_scope(options or self.defaults.search, all_projects=all_projects)
        return self._search_pipeline(all_projects=all_projects).search(query, options)

    def _search_pipeline(self, *, all_projects: bool = False) -> SearchPipeline:
        from lorelog.services.pipeline.search import SearchPipeline

        return SearchPipeline(self.searcher(self.embedder), self, partial(self.code, all_projects=all_projects))

    def memories(self) -> ProjectMemories:
        from lorelog.services.pipeline.memories import ProjectMemories

        return ProjectMemories(self, self.code)

    def maintenance(self) -> IndexMaintenance:
        """Return the index runs and the roots of this project."""
        from lorelog.services.maintenance.index import IndexMaintenance

        return IndexMaintenance(
            store=self.store,
            embedder=self.embedder,
            workspace=self.place,
            roots=self.roots,
            records=self.record_pages,
            job=self.job,
            refresh=self.refresh_delivery,
        )

    def run_background_work(
        self, go_on: Callable[[], bool] = lambda: True, finish: Callable[[Engine], object] = lambda _: None
    ) -> None:
        """Embed records, and check the code that memories mention, as long as `go_on` returns True; at last `finish`."""
        from lorelog.services.maintenance.index import run_background_work

        with suppress(LorelogError):
            self.complete_forgets()
        run_background_work(self.record_pages, self.embedder, self.job(()), self.deps.side_databases.code(), go_on)
        if go_on():
            self.refresh_delivery(check_code=True)
            with suppress(LorelogError, OSError):
                self.reviewer({}).note_waiting()
                finish(self)

    def recall_sources(self) -> RecallSources:
        """Return where memories for a prompt come from."""
        from lorelog.services.sessions.recall import RecallSources

        self.place.create()
        pack = self._search_pipeline().pack
        return RecallSources(self.search, pack, self.place.tenant_folder, self.deps.analyser, self.store)

    def compactor(self, yield_write_lock: YieldWriteLock = nullcontext, llm: str = "") -> Compactor:
        """Return what summarizes this project's memories in one memory that cites them."""
        from lorelog.services.compact.compactor import Compactor

        self.place.create()
        return Compactor(
            context=replace(self.capture_context(), yield_write_lock=yield_write_lock),
            lifecycle=self.lifecycle_index(),
            tombstones=self.tombstones(),
            language=partial(self.deps.language, llm),
            add=self.memories().add,
        )

    def lifecycle(self) -> MemoryLifecycle:
        from lorelog.services.memories.lifecycle import MemoryLifecycle

        self.place.create()
        return MemoryLifecycle(
            store=self.store,
            workspace=self.place,
            lifecycle_index=self.lifecycle_index(),
            add=self.memories().add,
            refresh=self.refresh_delivery,
        )

    def reviewer(self, environment: Mapping[str, str], *, all_projects: bool = False) -> Reviewer:
        """Return what files the user's statements; `environment` is the caller's."""
        from lorelog.services.review.reviewer import Reviewer
        from lorelog.services.review.statements import StatementSource

        self.place.create()
        calls = partial(self.past_calls, environment, all_projects=all_projects)
        source = StatementSource(
            store=self.store,
            lifecycle=self.lifecycle_index(),
            ownership=self.ownership(),
            access=self.transcript_access(environment),
            redact=self.redact,
        )
        return Reviewer(self.place, source, calls, lambda: (self.memories().add, self.lifecycle().list_at_start))

    def redact(self, text: str) -> str:
        """Return a text without secrets, also those of the user's own patterns."""
        from lorelog.ingest.redaction.redact import redact

        return redact(text, self.defaults.capture.patterns).text

    def error_sources(self, *, all_projects: bool = False) -> ErrorHistorySources:
        """Return what the history of an error is built from."""
        from lorelog.services.traces.error_history import ErrorHistorySources

        options = replace(self.defaults.search, token_budget=0, min_relevance=0.0)
        return ErrorHistorySources(
            tables=self.traces().tables(),
            search=lambda query, k: self.search(query, replace(options, k=k), all_projects=all_projects),
            get=lambda memory: self.memories().get(memory).memory,
            clean=self.redact,
            projects=self.log_projects(all_projects=all_projects),
        )

    def past_calls(self, environment: Mapping[str, str], *, all_projects: bool = False) -> ReplaySources:
        """Return where past tool calls come from; `environment` is the caller's."""
        from lorelog.services.guards.past_calls import ReplaySources

        return ReplaySources(
            store=self.store,
            traces=self.traces(),
            project=self.place.project.id,
            project_root=self.place.project.root,
            access=self.transcript_access(environment),
            all_projects=all_projects,
        )

    def standing_rules(self) -> list[StandingRule]:
        """Return the standing memories, newest first, with what judges said of them."""
        from lorelog.services.review.filing import PERSON, ReviewLog
        from lorelog.services.standing.rules import read_standing_memories

        log = ReviewLog(self.place.tenant_folder)
        filed = log.by_memory()
        by_judge = {id_: entry.forbids for id_, entry in filed.items() if entry.forbids or entry.judge != PERSON}
        return read_standing_memories(self.place, by_judge, log.words_by_memory())

    def judge(self, named: str = "", said_to: Sequence[str] = ()) -> MeteredLlm | None:
        """Return the language model that may file statements said to these hosts; None if there is none."""
        named = named or self.defaults.review_judge
        return None if named == "none" else self.deps.language("" if named == "llm" else named, said_to)

    def judge_state(self, environment: Mapping[str, str], projects: tuple[str, ...] | None) -> JudgeState:
        """Return who may judge, what of these projects waits, what was done, and what is wrong with the judge."""
        return self.reviewer(environment).state(self.defaults.review_judge, projects)

    def judged_projects(self, environment: Mapping[str, str], pause_s: float) -> list[str]:
        """Return the projects of the tenant with open statements; none if nobody may judge, or the judge failed within `pause_s`."""
        if self.defaults.review_judge == "none":
            return []
        reviewer = self.reviewer(environment)
        return [] if reviewer.has_failed_within(pause_s) else list(reviewer.count_open(None, unasked=True))

    def forgetter(self) -> Forgetter:
        """Return what erases text permanently."""
        from lorelog.retrieval.cache import clear_all_caches
        from lorelog.services.forget.forgetter import Forgetter

        return Forgetter(
            store=self.store,
            workspace=self.place,
            tombstones=self.tombstones(),
            authored=self.authored(),
            job=self.job,
            pages=self.record_pages,
            open_records=self.deps.records,
            drop_caches=clear_all_caches,
            refresh=self.refresh_delivery,
            words=self.deps.analyser.words,
            projects=None if self.defaults.all_projects else self.visible_projects(),
        )

    def complete_forgets(self) -> None:
        """Complete forgets that were interrupted; cheap if there are none."""
        if self.has_interrupted_forget():
            self.forgetter().complete()

    def capture_context(self) -> CaptureContext:
        """Return the dependencies of session capture, for this project and tenant."""
        from lorelog.services.sessions.capture import CaptureContext

        return CaptureContext(
            workspace=self.place,
            store=self.store,
            embedder=self.embedder,
            job=self.job,
            roots=self.roots,
            options=self.defaults.capture,
            summarizer=self.deps.summarizer,
            refresh=self.refresh_delivery,
            own_entries=self.memories().own_entries,
        )

    def importer(self) -> Importer:
        """Return the writer of other tools' memories."""
        from lorelog.services.imports.memory_importer import Importer

        return Importer(self.capture_context(), self.tombstones(), self.defaults.capture.patterns)

    def records(self) -> RecordScope:
        """Return the tenant's records as visible from this project."""
        from lorelog.services.records.record_scope import RecordScope

        records = self.deps.records()

        def search(query: str, options: SearchOptions) -> SearchReply:
            return self.search(query, options, all_projects=options.filters.projects is None)

        def find(embedder: Embedder | None, query: str, options: SearchOptions) -> SearchReply:
            notes = self.record_pages.catch_up_briefly()
            scoped = self.with_scope(options, all_projects=options.filters.projects is None)
            reply = self.searcher(embedder).search(query, scoped)
            return replace(reply, notes=(*reply.notes, *notes))

        return RecordScope(
            workspace=self.place,
            records=records.book,
            keyring=records.keyring,
            agent=records.agent or records.keyring.name,
            search=search,
            options=self.defaults.search,
            projects=self.visible_projects(),
            patterns=self.defaults.capture.patterns,
            search_raw=partial(find, self.embedder),
            search_words=partial(find, None),
        )

    def context(self, *, all_projects: bool = False) -> ContextScope:
        """Return the sources of an agent's project context, as visible from this project."""
        from lorelog.services.context.relevance import ContextScope

        records = self.records()
        projects = None if all_projects or self.defaults.all_projects else records.projects
        return ContextScope(self.store, self.memories().list, records, self.deps.count_tokens, projects)

    def code(self, *, all_projects: bool = False) -> CodeScope:
        """Return the code index, as visible from this working tree."""
        from lorelog.services.code import CodeScope

        tables = self.deps.side_databases.code()
        return CodeScope(tables, self.place, all_projects=all_projects or self.defaults.all_projects)

    def traces(self) -> TraceStore:
        """Return the tenant's traces of calls and errors."""
        return self.deps.side_databases.traces()
