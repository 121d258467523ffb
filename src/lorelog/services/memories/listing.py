"""List documents and memories, newest first. Record pages are not memories: tasks and the ledger list those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lorelog.core.document import Document, StoredChunk
from lorelog.core.errors import UsageError, nearest_name
from lorelog.core.memory import ListReply
from lorelog.core.options import ListOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import NO_LIFECYCLE_STATE, Filters
from lorelog.core.serializable import Serializable
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

_MAX_NAMES = 12
"""Types or tags named by a note, the most frequent first."""


def list_documents(store: Store, filters: Filters, limit: int, lifecycle: LifecycleIndex | None = None) -> ListReply:
    """Return matching documents, newest first. Raise UsageError for types and tags, which only memories have."""
    _check_limit(limit)
    if filters.types or filters.tags:
        raise UsageError("documents have no type or tags", hint="list memories, without --documents")
    documents = [
        document
        for document in store.documents()
        if not (lifecycle is not None and lifecycle.is_page(document.source))
        and (filters.projects is None or document.project in filters.projects)
        and (not filters.source_prefix or is_below(document.source, filters.source_prefix))
        and (not filters.since or document.date >= filters.since)
        and (not filters.until or (document.date != "" and document.date <= filters.until))
    ]
    documents.sort(key=lambda document: (document.date, document.source), reverse=True)
    return ListReply(tuple(documents[:limit]), (), more=len(documents) > limit)


class GrowthDay(Serializable, Struct, frozen=True):
    """Documents dated with one day."""

    day: str
    documents: int
    chunks: int
    bytes: int


def measure_growth(documents: Iterable[Document], since: str) -> tuple[GrowthDay, ...]:
    """Return the files, chunks and bytes by the day of the documents, oldest first; earlier ones count on the day `since`."""
    days: dict[str, list[Document]] = {}
    for document in documents:
        days.setdefault(max(document.date[:10], since), []).append(document)
    return tuple(
        GrowthDay(
            day,
            len(days[day]),
            sum(document.chunk_count for document in days[day]),
            sum(document.stamp.size for document in days[day]),
        )
        for day in sorted(days)
    )


def list_memories(
    store: Store,
    filters: Filters,
    limit: int,
    lifecycle: LifecycleIndex | None = None,
    options: ListOptions | None = None,
) -> ListReply:
    """Return matching memories, newest first; a section that was split into pieces is one memory.

    Superseded and expired ones are included only if the options say so.
    """
    _check_limit(limit)
    options = options or ListOptions()
    if lifecycle is None:
        memories = store.recent(filters, limit + 1)
        return ListReply((), tuple(memories[:limit]), more=len(memories) > limit)
    shown = (
        _list_due(store, filters, lifecycle, options)
        if options.due
        else _list_visible(store, filters, limit + 1, lifecycle, options)
    )
    states = {
        stored.id: state for stored in shown[:limit] if (state := lifecycle.state_of(stored)) != NO_LIFECYCLE_STATE
    }
    return ListReply((), tuple(shown[:limit]), more=len(shown) > limit, lifecycles=states)


def explain_filters(store: Store, filters: Filters) -> tuple[str, ...]:
    """Return a note for each type or tag that nothing here has, with those that there are, and for a path that is not indexed."""
    projects = Filters(projects=filters.projects)
    notes = [
        _explain_unknown("type", name, known) for name in filters.types if name not in (known := store.types(projects))
    ]
    notes += [
        _explain_unknown("tag", name, known) for name in filters.tags if name not in (known := store.tags("", projects))
    ]
    prefix = filters.source_prefix
    if prefix and not store.recent(Filters(projects=filters.projects, source_prefix=prefix), 1):
        notes.append(f"nothing is indexed at or below {prefix}; 'lorelog index --list' lists the indexed paths")
    return tuple(notes)


def _explain_unknown(kind: str, name: str, known: Mapping[str, int]) -> str:
    near = nearest_name(name, known)
    guess = f" (did you mean {near!r}?)" if near else ""
    common = sorted(known, key=lambda other: (-known[other], other))
    others = f"; {kind}s: {', '.join(common[:_MAX_NAMES])}{', …' if len(common) > _MAX_NAMES else ''}" if known else ""
    return f"there is no {kind} {name!r} here{guess}{others}"


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise UsageError(f"limit must be at least 1 (got {limit})")


def _list_visible(
    store: Store, filters: Filters, count: int, lifecycle: LifecycleIndex, options: ListOptions
) -> list[StoredChunk]:
    limit = count
    while True:
        memories = store.recent(filters, limit)
        shown = [
            stored for stored in memories if not lifecycle.is_record(stored) and not lifecycle.hides(stored, options)
        ]
        if len(shown) >= count or len(memories) < limit:
            return shown
        limit = 2 * limit + count - len(shown)


def _list_due(store: Store, filters: Filters, lifecycle: LifecycleIndex, options: ListOptions) -> list[StoredChunk]:
    """Return the memories due for review, the longest due first."""
    memories = (
        stored for memory in lifecycle.due() for stored in store.find(memory) if _is_first_piece(stored, memory)
    )
    return [stored for stored in memories if _matches_filters(filters, stored) and not lifecycle.hides(stored, options)]


def _is_first_piece(stored: StoredChunk, memory: str) -> bool:
    chunk = stored.chunk
    return chunk.piece == 0 and chunk.anchor is not None and chunk.anchor.memory == memory


def _matches_filters(filters: Filters, stored: StoredChunk) -> bool:
    chunk, day = stored.chunk, stored.chunk.date[:10]
    return (
        (filters.projects is None or stored.project in filters.projects)
        and (not filters.source_prefix or is_below(chunk.source, filters.source_prefix))
        and (not filters.since or day >= filters.since)
        and (not filters.until or (day != "" and day <= filters.until))
        and (not filters.types or chunk.type in filters.types)
        and set(filters.tags) <= set(chunk.tags)
    )
