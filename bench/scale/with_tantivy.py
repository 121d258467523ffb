"""Bare libraries in the scale run: tantivy for words and a vector index beside it, hybrid by RRF, no catalog.

They show the floor: what the libraries cost when nothing is kept but an index, without durability, filters, updates or
explanations. The vector index is usearch's HNSW of int8 values, or faiss' sign bits with the best 2,000 rescored exactly.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from bench.scale.contender import HITS, Deadline
from bench.scale.material import Material, Question

_ROWS_AN_ADD = 10_000
_CANDIDATES = 200
_RESCORED = 2_000
_RRF = 60
_HEAP_BYTES = 200_000_000


class _Usearch:
    """An HNSW index of int8 values."""

    _index: Any = None

    def add(self, first: int, vectors: Any) -> None:
        numpy: Any = import_module("numpy")
        if self._index is None:
            self._index = import_module("usearch.index").Index(ndim=vectors.shape[1], metric="cos", dtype="i8")
        self._index.add(numpy.arange(first, first + len(vectors)), vectors)

    def save(self, folder: Path) -> None:
        self._index.save(str(folder / "vectors.usearch"))

    def load(self, folder: Path) -> None:
        self._index = import_module("usearch.index").Index.restore(str(folder / "vectors.usearch"), view=True)

    def nearest(self, vector: Any, limit: int) -> list[int]:
        return [int(key) for key in self._index.search(vector, limit).keys]


class _FaissBits:
    """Sign bits compared exactly, and the best of them rescored with the vectors."""

    def __init__(self) -> None:
        self._faiss: Any = import_module("faiss")
        self._faiss.omp_set_num_threads(1)  # starting threads costs more than it saves here
        self._numpy: Any = import_module("numpy")
        self._parts: list[Any] = []
        self._bits: Any = None
        self._mean: Any = None
        self._vectors: Any = None

    def add(self, first: int, vectors: Any) -> None:
        if self._bits is None:
            self._bits = self._faiss.IndexBinaryFlat(vectors.shape[1])
            self._mean = vectors.mean(axis=0)
        self._bits.add(self._signs(vectors))
        self._parts.append(vectors.astype("f2"))

    def save(self, folder: Path) -> None:
        self._faiss.write_index_binary(self._bits, str(folder / "vectors.bits"))
        self._numpy.save(folder / "vectors.npy", self._numpy.concatenate(self._parts))
        self._numpy.save(folder / "mean.npy", self._mean)

    def load(self, folder: Path) -> None:
        self._bits = self._faiss.read_index_binary(str(folder / "vectors.bits"))
        self._vectors = self._numpy.load(folder / "vectors.npy", mmap_mode="r")
        self._mean = self._numpy.load(folder / "mean.npy")

    def nearest(self, vector: Any, limit: int) -> list[int]:
        _, found = self._bits.search(self._signs(vector[None]), _RESCORED)
        rows = found[0]
        scores = self._vectors[rows].astype("f4") @ vector
        return [int(row) for row in rows[self._numpy.argsort(-scores)[:limit]]]

    def _signs(self, vectors: Any) -> Any:
        return self._numpy.packbits(vectors > self._mean, axis=1)


class OpenedBare:
    """A tantivy index and a vector index of one folder."""

    def __init__(self, folder: Path, vectors: _Usearch | _FaissBits) -> None:
        tantivy: Any = import_module("tantivy")
        self._numpy: Any = import_module("numpy")
        self._index = tantivy.Index.open(str(folder / "words"))
        self._searcher = self._index.searcher()
        self._vectors = vectors
        vectors.load(folder)

    def hybrid(self, question: Question) -> list[int]:
        words = self._index.parse_query(question.text, ["text"])
        ranks: dict[int, float] = {}
        for rank, (_, address) in enumerate(self._searcher.search(words, _CANDIDATES, count=False).hits):
            number = self._searcher.doc(address)["number"][0]
            ranks[number] = 1 / (_RRF + rank)
        for rank, number in enumerate(self._nearest(question, _CANDIDATES)):
            ranks[number] = ranks.get(number, 0.0) + 1 / (_RRF + rank)
        return sorted(ranks, key=ranks.__getitem__, reverse=True)[:HITS]

    def dense(self, question: Question) -> list[int]:
        return self._nearest(question, HITS)

    def close(self) -> None:
        pass

    def _nearest(self, question: Question, limit: int) -> list[int]:
        return self._vectors.nearest(self._numpy.frombuffer(question.vector, dtype="<f4"), limit)


class Bare:
    """Both indexes of one folder, written without a catalog."""

    def __init__(self, vectors: type[_Usearch | _FaissBits]) -> None:
        self._vectors = vectors

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        numpy: Any = import_module("numpy")
        tantivy: Any = import_module("tantivy")
        fields = tantivy.SchemaBuilder().add_integer_field("number", stored=True).add_text_field("text", stored=True)
        (folder / "words").mkdir()
        index = tantivy.Index(fields.build(), str(folder / "words"))
        writer = index.writer(_HEAP_BYTES, 1)
        vectors = self._vectors()
        count = 0
        for rows, parts in deadline.within(material.batches(_ROWS_AN_ADD)):
            for row in rows:
                writer.add_document(tantivy.Document(number=row.number, text=row.text))
            vectors.add(count, numpy.frombuffer(b"".join(parts), dtype="<f4").reshape(len(parts), -1))
            count += len(rows)
        writer.commit()
        writer.wait_merging_threads()
        vectors.save(folder)
        return count

    def open(self, folder: Path) -> OpenedBare:
        return OpenedBare(folder, self._vectors())


HNSW = Bare(_Usearch)
BITS = Bare(_FaissBits)
