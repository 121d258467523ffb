"""lorelog in the scale run: its embedded store, and the whole of its search.

The vectors are given, so the embedder only looks them up; all else is what `lorelog search` does. Written as
`lorelog index` writes: about 2,000 chunks a put, each put durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from bench.scale.contender import HITS, Deadline
from bench.scale.material import ROWS_A_FILE, Material, Question, Row

from lorelog.core.document import Chunk, Document, FileStamp, short_hash
from lorelog.core.options import ChunkOptions, SearchOptions
from lorelog.core.ports import DocumentUpdate, EmbeddedTexts, Vector
from lorelog.core.query import Filters, Hit, Lane
from lorelog.language.analyser import WordAnalyser
from lorelog.services.search.searcher import Searcher
from lorelog.stores.embedded import EmbeddedStore

_CHUNKS_A_PUT = 2_000
_CANDIDATES = 200
_PROJECT = "/notes"


class GivenVectors:
    """An embedder that is told the vector of the question that comes next."""

    provider = "given"
    model = "given"

    def __init__(self) -> None:
        self.next: Vector = b""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Never asked: rows come with their vectors."""
        raise NotImplementedError

    def embed_query(self, text: str) -> Vector:
        """Return what was told."""
        return self.next

    def close(self) -> None:
        """Nothing to let go of."""


class OpenedLorelog:
    """A searcher over the store of one folder."""

    def __init__(self, folder: Path) -> None:
        self._analyser = WordAnalyser()
        self._given = GivenVectors()
        self._store = _store(folder, self._analyser)
        self._searcher = Searcher(self._store, self._given, self._analyser)

    def hybrid(self, question: Question) -> list[int]:
        """Search as a user does."""
        return self._search(question, Lane.HYBRID)

    def dense(self, question: Question) -> list[int]:
        """Search by meaning alone, as a user does."""
        return self._search(question, Lane.DENSE)

    def lexical(self, question: Question) -> list[int]:
        """Ask the lexical lane alone, as a search does."""
        terms = self._analyser.query_terms(question.text)
        return [int(item.key) for item in self._store.propose(terms, None, Filters(), _CANDIDATES)[0]]

    def dense_lane(self, question: Question) -> list[int]:
        """Ask the dense lane alone, as a search does."""
        return [int(item.key) for item in self._store.propose((), question.vector, Filters(), _CANDIDATES)[1]]

    def close(self) -> None:
        self._store.close()

    def _search(self, question: Question, lane: Lane) -> list[int]:
        self._given.next = question.vector
        reply = self._searcher.search(question.text, SearchOptions(k=HITS, lane=lane))
        return [_number(hit) for hit in reply.hits]


class Lorelog:
    """The store of one folder."""

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        """Put documents of twenty chunks, then their vectors; sweep at the end, as an index run does."""
        count = 0
        store = _store(folder, WordAnalyser())
        with store.writer() as writer:
            for rows, vectors in deadline.within(material.batches(_CHUNKS_A_PUT)):
                updates = [_update(list(group)) for _, group in groupby(rows, lambda row: row.file)]
                chunks = [chunk for update in updates for chunk in update.chunks]
                writer.put(updates)
                writer.put_vectors({chunk.vector_key: vector for chunk, vector in zip(chunks, vectors, strict=True)})
                count += len(rows)
            writer.sweep()
        store.close()
        return count

    def open(self, folder: Path) -> OpenedLorelog:
        return OpenedLorelog(folder)


def _store(folder: Path, analyser: WordAnalyser) -> EmbeddedStore:
    return EmbeddedStore(folder, analyser, provider=GivenVectors.provider, model=GivenVectors.model)


def _update(rows: Sequence[Row]) -> DocumentUpdate:
    chunks = tuple(_chunk(row) for row in rows)
    size = sum(len(row.text) for row in rows)
    document = Document(
        source=rows[0].source,
        root=_PROJECT,
        project=_PROJECT,
        stamp=FileStamp(size, 0, rows[0].file),
        file_hash=short_hash(rows[0].text),
        title=rows[0].title,
        date="2026-03-05",
        recipe=ChunkOptions().recipe,
    )
    return DocumentUpdate(document, chunks)


def _chunk(row: Row) -> Chunk:
    return Chunk(
        source=row.source,
        heading=row.heading,
        heading_level=2,
        heading_path=(row.title, row.heading),
        start_line=row.start_line,
        end_line=row.start_line + 2,
        content=row.text,
        text=row.text,
        context=row.title,
        date="2026-03-05",
    )


def _number(hit: Hit) -> int:
    """Return which row a hit is."""
    return int(hit.source[-9:-3]) * ROWS_A_FILE + (hit.start_line - 3) // 4


STORE = Lorelog()
