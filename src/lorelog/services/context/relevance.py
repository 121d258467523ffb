"""Finds memories for a task.

Memories are hot ones, then search hits among texts written to be read again. A search over everything also finds
chatter. As in memd, only documents, research, decisions, plans and summaries count, texts with a `ctx:` tag, and
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ARCHIVE_TYPE, StoredChunk
from lorelog.core.memory import ListReply
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Explanation, Filters, Hit, ScorePart
from lorelog.core.record import CANDIDATE_TRUST, UNTRUSTED_ORIGINS
from lorelog.core.serializable import ReplyItems
from lorelog.retrieval.snippet import Snippet
from lorelog.services.records.projection import records_folder
from lorelog.services.records.record_scope import RecordScope
from lorelog.services.search.postprocess import add_token_costs, hit_of

HOT_TAG = "ctx:tier:hot"
TAG_PREFIX = "ctx:"
"""Prefix of the tags that control how a memory is used; the names are memd's."""
_EXTRA_FETCHED = 50
"""Additional memories fetched, because those from records are skipped."""


class ContextScope(Struct, frozen=True):
    """Dependencies of the context operations."""

    store: Store
    list_memories: Callable[..., ListReply]
    """Engine.list: memories, newest first, without superseded and expired ones."""
    record_scope: RecordScope
    count_tokens: Callable[[str], int]
    """Counts with the built-in tokenizer; may raise ModelUnavailable."""
    projects: tuple[str, ...] | None
    """Visible projects; None for all."""

    @property
    def filters(self) -> Filters:
        """Filter for the visible projects."""
        return Filters(projects=self.projects)

    def newest(self, limit: int, *tags: str) -> list[StoredChunk]:
        """Return memories with all of these tags, newest first, without records."""
        memories = self._list_matching(replace(self.filters, tags=tags), limit)
        records = str(records_folder(self.record_scope.workspace.tenant_folder))
        return [memory for memory in memories if not is_below(memory.chunk.source, records)][:limit]

    def newest_journal_entries(self, limit: int) -> list[StoredChunk]:
        """Return the entries of the project's and the global journals, newest first. Records would mostly be newer."""
        workspace = self.record_scope.workspace
        entries = [
            entry
            for journals in (workspace.journals, workspace.global_journals)
            for entry in self._list_matching(replace(self.filters, source_prefix=str(journals)), limit)
        ]
        return sorted(entries, key=lambda entry: (entry.chunk.date, entry.chunk.start_line), reverse=True)[:limit]

    def _list_matching(self, filters: Filters, limit: int) -> list[StoredChunk]:
        memories = self.list_memories(filters, limit=limit + _EXTRA_FETCHED, all_projects=True).memories
        return [memory for memory in memories if memory.chunk.type != ARCHIVE_TYPE]


CONTEXT_TYPES = ("doc", "research", "decision", "plan", "summary")
MAX_HOT = 5
_WIDE_FACTOR = 4
"""Factor for a search whose hits mostly do not count."""
_MIN_FETCHED = 40
_SNIPPET_CHARS = 300


class RelevantContext(ReplyItems[Hit], Struct, frozen=True):
    """Context of a task: hot memories first, then the best hits."""

    results: tuple[Hit, ...]
    hot_included: int
    notes: tuple[str, ...]


def hot_hits(scope: ContextScope, limit: int) -> tuple[Hit, ...]:
    """Return the hot memories, newest first."""
    hits = tuple(_hit_from_chunk(memory) for memory in scope.newest(limit, HOT_TAG))
    return add_token_costs(hits, scope.store)


def newest_hits(scope: ContextScope, limit: int) -> tuple[Hit, ...]:
    """Return the newest journal entries, or the newest memories if there are none."""
    return tuple(_hit_from_chunk(entry) for entry in scope.newest_journal_entries(limit) or scope.newest(limit))


def find_relevant(scope: ContextScope, task: str, k: int, *, include_hot: bool = True) -> RelevantContext:
    """Return hits for a task without duplicates, hot ones first."""
    hot = hot_hits(scope, min(k, MAX_HOT)) if include_hot else ()
    notes: list[str] = []
    hits: list[Hit] = []
    narrow = replace(scope.filters, types=CONTEXT_TYPES)
    for filters, limit in ((narrow, k), (scope.filters, max(_WIDE_FACTOR * k, _MIN_FETCHED))):
        options = replace(scope.record_scope.options, k=limit, filters=filters, token_budget=0, min_relevance=0.0)
        reply = scope.record_scope.search(task, options)
        notes += [note for note in reply.notes if note not in notes]
        hits += [
            hit
            for hit in reply.hits
            if filters.types or hit.grounding or any(tag.startswith(TAG_PREFIX) for tag in hit.tags)
        ]
    hits.sort(key=lambda hit: -hit.relevance)
    return RelevantContext(tuple(dedupe_hits([*hot, *hits])[:k]), len(hot), tuple(notes))


def dedupe_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits without repeated ids, texts and records; the first of each is kept."""
    seen: set[str] = set()
    kept = []
    for hit in hits:
        names = {hit.id, f"{hit.project}\n{hit.content_hash}", *(record.record for record in hit.grounding[:1])}
        if not names & seen:
            kept.append(hit)
        seen |= names
    return kept


def _hit_from_chunk(stored: StoredChunk) -> Hit:
    chunk = stored.chunk
    foreign = chunk.anchor is not None and chunk.anchor.origin in UNTRUSTED_ORIGINS
    return hit_of(
        stored,
        Snippet(" ".join(chunk.text.split())[:_SNIPPET_CHARS]),
        score=1.0,
        explanation=Explanation((ScorePart("hot", 1.0, "marked as always worth knowing"),)),
        relevance=1.0,
        trust=replace(CANDIDATE_TRUST, tainted=foreign),
    )
