"""A tenant with a book, an index and the pages between them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.stores.making import TemporaryStore

from lorelog.core.options import ChunkOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.language.analyser import WordAnalyser
from lorelog.services.records.projection import RecordProjection, records_folder
from lorelog.services.records.store import RecordStore


@dataclass
class Tenant:
    """One tenant's records and where they go."""

    folder: Path
    book: RecordStore
    store: Store
    pages: RecordProjection

    @property
    def files(self) -> list[Path]:
        return sorted(records_folder(self.folder).glob("*/*.md"))

    def anchors(self) -> list[str]:
        """Return the ids that anchors in the index name, oldest document first."""
        found = [item for document in self.store.documents() for item in self.store.chunks_of(document.source)]
        return [item.chunk.anchor.memory for item in found if item.chunk.anchor]

    def projects(self) -> set[str]:
        return {document.project for document in self.store.documents()}

    def recent(self) -> list[str]:
        return [item.chunk.text for item in self.store.recent(Filters(), 100)]


def tenant(folder: Path, store: Store | None = None, chunking: ChunkOptions | None = None) -> Tenant:
    store = store or TemporaryStore(WordAnalyser(), provider="none", model="none")
    book = RecordStore(folder)
    return Tenant(
        folder, book, store, RecordProjection(book, store, records_folder(folder), chunking or ChunkOptions())
    )
