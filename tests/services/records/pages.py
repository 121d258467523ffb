"""A tenant with a book, an index and the pages between them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lorelog.core.options import ChunkOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.retrieval.analyse import WordAnalyser
from lorelog.services.records.book import Book
from lorelog.services.records.projection import Projection, records_folder
from lorelog.stores.memory import MemoryStore


@dataclass
class Tenant:
    """One tenant's records and where they go."""

    folder: Path
    book: Book
    store: Store
    pages: Projection

    @property
    def files(self) -> list[Path]:
        return sorted(records_folder(self.folder).glob("*/*.md"))

    def anchors(self) -> list[str]:
        """Return the ids that anchors in the index name, oldest document first."""
        found = [one for document in self.store.documents() for one in self.store.chunks_of(document.source)]
        return [one.chunk.anchor.memory for one in found if one.chunk.anchor]

    def projects(self) -> set[str]:
        return {one.project for one in self.store.documents()}

    def recent(self) -> list[str]:
        return [one.chunk.text for one in self.store.recent(Filters(), 100)]


def tenant(folder: Path, store: Store | None = None, chunking: ChunkOptions | None = None) -> Tenant:
    store = store or MemoryStore(WordAnalyser(), provider="none", model="none")
    book = Book(folder)
    return Tenant(folder, book, store, Projection(book, store, records_folder(folder), chunking or ChunkOptions()))
