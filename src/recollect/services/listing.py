"""Listing what is remembered, newest first."""

from __future__ import annotations

from recollect.core.memory import ListReply
from recollect.core.paths import is_below
from recollect.core.ports import Store
from recollect.core.query import Filters


def list_documents(store: Store, filters: Filters, limit: int) -> ListReply:
    """Return admitted documents, newest first; types and tags belong to memories and do not count here."""
    found = [
        document
        for document in store.documents()
        if (filters.projects is None or document.project in filters.projects)
        and (not filters.source_prefix or is_below(document.source, filters.source_prefix))
        and (not filters.since or document.date >= filters.since)
        and (not filters.until or (document.date != "" and document.date <= filters.until))
    ]
    found.sort(key=lambda document: (document.date, document.source), reverse=True)
    return ListReply(tuple(found[:limit]), (), more=len(found) > limit)


def list_memories(store: Store, filters: Filters, limit: int) -> ListReply:
    """Return admitted memories, newest first; a section that was cut into pieces is one memory."""
    found = store.recent(filters, limit + 1)
    return ListReply((), tuple(found[:limit]), more=len(found) > limit)
