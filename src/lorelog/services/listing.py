"""Listing what is remembered, newest first. Pages of records are no memories: tasks and the ledger list those."""

from __future__ import annotations

from lorelog.core.document import StoredChunk
from lorelog.core.errors import UsageError
from lorelog.core.memory import ListReply
from lorelog.core.options import ListOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import NO_FATE, Filters
from lorelog.services.fates import Fates


def list_documents(store: Store, filters: Filters, limit: int, fates: Fates | None = None) -> ListReply:
    """Return admitted documents, newest first. Raise UsageError for types and tags, which only memories have."""
    _check(limit)
    if filters.types or filters.tags:
        raise UsageError("documents have no type or tags", hint="list memories, without --documents")
    found = [
        document
        for document in store.documents()
        if not (fates is not None and fates.is_page(document.source))
        and (filters.projects is None or document.project in filters.projects)
        and (not filters.source_prefix or is_below(document.source, filters.source_prefix))
        and (not filters.since or document.date >= filters.since)
        and (not filters.until or (document.date != "" and document.date <= filters.until))
    ]
    found.sort(key=lambda document: (document.date, document.source), reverse=True)
    return ListReply(tuple(found[:limit]), (), more=len(found) > limit)


def list_memories(
    store: Store, filters: Filters, limit: int, fates: Fates | None = None, options: ListOptions | None = None
) -> ListReply:
    """Return admitted memories, newest first; a section that was cut into pieces is one memory.

    What is superseded or expired is not shown unless that is asked for.
    """
    _check(limit)
    options = options or ListOptions()
    if fates is None:
        found = store.recent(filters, limit + 1)
        return ListReply((), tuple(found[:limit]), more=len(found) > limit)
    shown = _due(store, filters, fates, options) if options.due else _shown(store, filters, limit + 1, fates, options)
    told = {one.id: fate for one in shown[:limit] if (fate := fates.of(one)) != NO_FATE}
    return ListReply((), tuple(shown[:limit]), more=len(shown) > limit, fates=told)


def _check(limit: int) -> None:
    if limit < 1:
        raise UsageError(f"the number of entries must be at least 1, not {limit}")


def _shown(store: Store, filters: Filters, wanted: int, fates: Fates, options: ListOptions) -> list[StoredChunk]:
    asked = wanted
    while True:
        found = store.recent(filters, asked)
        shown = [one for one in found if not fates.is_record(one) and not fates.hides(one, options)]
        if len(shown) >= wanted or len(found) < asked:
            return shown
        asked = 2 * asked + wanted - len(shown)


def _due(store: Store, filters: Filters, fates: Fates, options: ListOptions) -> list[StoredChunk]:
    """Return the memories that should be looked at again by now, the longest due first."""
    found = (one for memory in fates.due() for one in store.find(memory) if _is_first_of(one, memory))
    return [one for one in found if _admits(filters, one) and not fates.hides(one, options)]


def _is_first_of(stored: StoredChunk, memory: str) -> bool:
    chunk = stored.chunk
    return chunk.piece == 0 and chunk.anchor is not None and chunk.anchor.memory == memory


def _admits(filters: Filters, stored: StoredChunk) -> bool:
    chunk, day = stored.chunk, stored.chunk.date[:10]
    return (
        (filters.projects is None or stored.project in filters.projects)
        and (not filters.source_prefix or is_below(chunk.source, filters.source_prefix))
        and (not filters.since or day >= filters.since)
        and (not filters.until or (day != "" and day <= filters.until))
        and (not filters.types or chunk.type in filters.types)
        and set(filters.tags) <= set(chunk.tags)
    )
