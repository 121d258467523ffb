"""The lanes of a part of an indexed set, in memory: what a search would find if only these chunks were indexed.

To learn how the ranking must change with the size of an index, hundreds of small indexes are asked. Writing each would
take minutes; here the chunks, their words and their vectors are read once, and a part of them answers what `find_candidates`
asks of a store. BM25 is that of the store contract, with rarity and average length of the part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log1p
from typing import Any

import numpy as np
from bench.quality.pipeline import Bench

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.ports import MIN_BM25_WORDS, ChunkNeighbours, Vector
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage

K1, B = 1.2, 0.75

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class IndexedSet:
    """All chunks of a set in the order of their files, with words, vectors and documents."""

    name: str
    chunks: Sequence[StoredChunk]
    words: Sequence[Sequence[str]]
    vectors: Array
    documents: Sequence[Sequence[str]]
    """The documents of each chunk."""
    files: Array
    """The number of each chunk's file."""
    entries: Array
    """The number of chunks of each chunk's entry."""
    lengths: Array
    postings: Mapping[str, tuple[Array, Array]]
    """Rows and counts of each word."""
    _rows: dict[str, Array] = field(default_factory=dict)

    def rows_of(self, project: str) -> Array:
        """Return the rows of a project."""
        if project not in self._rows:
            self._rows[project] = np.array([row for row, item in enumerate(self.chunks) if item.project == project])
        return self._rows[project]


def read_set(bench: Bench, name: str) -> IndexedSet:
    """Read all chunks of an indexed set."""
    chunks = [stored for document in bench.store.documents() for stored in bench.store.chunks_of(document.source)]
    keys = [stored.key for stored in chunks]
    vectors = bench.store.vectors(keys)
    sizes = bench.store.entry_sizes(keys, 1_000)
    words = [bench.analyser.words(stored.chunk.matched_text) for stored in chunks]
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, text in enumerate(words):
        for word, count in Counter(text).items():
            found[word].append((row, count))
    sources: dict[str, int] = {}
    return IndexedSet(
        name,
        chunks,
        words,
        np.array([np.frombuffer(vectors[key], "<f4") for key in keys]),
        [bench.documents_of(key) for key in keys],
        np.array([sources.setdefault(stored.chunk.source, len(sources)) for stored in chunks]),
        np.array([sizes[key] for key in keys]),
        np.array([max(len(text), MIN_BM25_WORDS) for text in words], np.float64),
        {
            word: (np.array([row for row, _ in rows]), np.array([n for _, n in rows], float))
            for word, rows in found.items()
        },
    )


class SampledStore:
    """The part of a set that these rows are; a key is a row's number. `admitted` are those that the filters admit."""

    def __init__(self, whole: IndexedSet, rows: Array, admitted: Array | None = None) -> None:
        self._whole = whole
        self._rows = rows
        self._admitted = rows if admitted is None else admitted
        self._is_here = np.zeros(len(whole.chunks), bool)
        self._is_here[rows] = True
        self._is_admitted = np.zeros(len(whole.chunks), bool)
        self._is_admitted[self._admitted] = True
        self._damping = K1 * (1 - B + B * whole.lengths / max(whole.lengths[rows].mean(), 1.0))

    def lane_coverage(self, _: Filters) -> VectorCoverage:
        return VectorCoverage(len(self._admitted), len(self._admitted))

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        return self.lexical(terms, filters, limit), [] if vector is None else self.dense(vector, filters, limit)

    def lexical(self, terms: Sequence[Term], _: Filters, limit: int) -> list[Candidate]:
        scores = np.zeros(len(self._whole.chunks))
        rarity = self.rarity([term.text for term in terms])
        for term in terms:
            rows, counts = self._whole.postings.get(term.text, (None, None))
            if rows is not None and counts is not None:
                scores[rows] += term.weight * rarity[term.text] * (K1 + 1) * counts / (counts + self._damping[rows])
        scores[~self._is_admitted] = 0.0
        best = np.argsort(-scores, kind="stable")[:limit]
        return [Candidate(int(row), float(scores[row])) for row in best if scores[row] > 0.0]

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        total = len(self._rows)
        counts = {word: self._count(word) for word in words}
        return {word: log1p((total - count + 0.5) / (count + 0.5)) for word, count in counts.items()}

    def _count(self, word: str) -> int:
        rows = self._whole.postings.get(word)
        return 0 if rows is None else int(self._is_here[rows[0]].sum())

    def dense(self, vector: Vector, _: Filters, limit: int) -> list[Candidate]:
        cosines = self._whole.vectors[self._admitted] @ np.frombuffer(vector, "<f4")
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [Candidate(int(self._admitted[place]), float(cosines[place])) for place in best]

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        rows = [int(key) for key in keys]
        cosines = self._whole.vectors[rows] @ np.frombuffer(vector, "<f4") if rows else ()
        return dict(zip(keys, map(float, cosines), strict=True))

    def chunk_neighbours(self, keys: Sequence[ChunkKey], max_chars: int) -> dict[ChunkKey, ChunkNeighbours]:
        found: dict[ChunkKey, ChunkNeighbours] = {}
        for key in keys:
            row = int(key)
            length = len(self._whole.chunks[row].chunk.text)
            beside = (self._beside(row, 1), self._beside(row, 2)) if length <= max_chars else ()
            found[key] = ChunkNeighbours(length, *beside)
        return found

    def _beside(self, row: int, distance: int) -> tuple[int, ...]:
        return tuple(
            other
            for other in (row - distance, row + distance)
            if 0 <= other < len(self._is_here)
            and self._is_here[other]
            and self._whole.files[other] == self._whole.files[row]
        )
