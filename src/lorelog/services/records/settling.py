"""Giving vectors to records, after the fact and in the background: neither who writes them nor who searches waits for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from lorelog.core.document import Document, SourceFile
from lorelog.core.ports import Embedder, Store
from lorelog.services.index import IndexJob, IndexRun
from lorelog.services.records.projection import Projection
from lorelog.services.roots import Root

_LOOKED_AT = 2_000
_NEWEST = 200
_AT_ONCE = 8
"""Pages whose vectors are made between two looks at whether to go on."""


def settle(
    pages: Projection, store: Store, embedder: Embedder | None, job: IndexJob, go_on: Callable[[], bool]
) -> None:
    """Bring the pages up to date, and make the vectors that they lack; never those of another model's index."""
    pages.catch_up()
    if embedder is None or not store.serves_model():
        return
    waiting = list(_waiting(pages, store))
    for first in range(0, len(waiting), _AT_ONCE):
        if not go_on():
            return
        some = waiting[first : first + _AT_ONCE]
        roots = tuple({one.root: Root(one.root, one.project) for one in some}.values())
        files = [SourceFile(one.source, one.root, one.stamp) for one in some]
        IndexRun(store, embedder, replace(job, roots=roots, patient=False)).over_files(files)


def _waiting(pages: Projection, store: Store) -> Iterator[Document]:
    """Yield the pages of which something lacks a vector, as far as a short look tells."""
    pending = store.pending(_LOOKED_AT)
    sources = dict.fromkeys(one.source for one in pending if pages.holds(one.source))
    if len(pending) == _LOOKED_AT:  # what else waits may be left to wait; it must not keep records waiting
        known = [one for one in store.documents() if pages.holds(one.source)]
        newest = sorted(known, key=lambda one: one.indexed_at, reverse=True)[:_NEWEST]
        sources |= dict.fromkeys(one.source for one in newest)
    for source in sources:
        document = store.document(source)
        if document is not None and Path(source).exists():
            yield document
