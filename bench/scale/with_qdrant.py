r"""Qdrant in the scale run: qdrant-client's local mode, dense vectors and sparse ones made of words, fused by its RRF.

Local mode has no analyser, so words become sparse vectors here: `\w+`, hashed to 32 bits, BM25's saturation at the
document, IDF by its own modifier. It scans in Python and keeps everything in memory, and itself warns of more than
20,000 points; it is here because it is what `path=` gives.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.scale.contender import HITS, Deadline, floats
from bench.scale.material import Material, Question, Row

_NAME = "chunks"
_ROWS_AN_UPSERT = 500
_SATURATION, _LENGTH_SHARE, _USUAL_LENGTH = 1.2, 0.75, 95
_WORD = re.compile(r"\w+")


class OpenedQdrant:
    """The collection of one folder, loaded whole."""

    def __init__(self, folder: Path) -> None:
        self._client, self._models = _client(folder)

    def hybrid(self, question: Question) -> list[int]:
        models = self._models
        words = sorted({_hash(word) for word in _WORD.findall(question.text.lower())})
        sparse = models.SparseVector(indices=words, values=[1.0] * len(words))
        found = self._client.query_points(
            _NAME,
            prefetch=[
                models.Prefetch(query=floats(question.vector), using="dense", limit=HITS),
                models.Prefetch(query=sparse, using="words", limit=HITS),
            ],
            query=models.FusionQuery(fusion=models.Fusion.RRF),
            limit=HITS,
            with_payload=True,
        )
        return [int(point.id) for point in found.points]

    def dense(self, question: Question) -> list[int]:
        found = self._client.query_points(
            _NAME, query=floats(question.vector), using="dense", limit=HITS, with_payload=True
        )
        return [int(point.id) for point in found.points]

    def close(self) -> None:
        self._client.close()


class Qdrant:
    """The collection of one folder."""

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        client, models = _client(folder)
        client.create_collection(
            _NAME,
            vectors_config={
                "dense": models.VectorParams(size=material.facts["dimension"], distance=models.Distance.COSINE)
            },
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        count = 0
        for rows, vectors in deadline.within(material.batches(_ROWS_AN_UPSERT)):
            client.upsert(_NAME, [_point(models, row, vector) for row, vector in zip(rows, vectors, strict=True)])
            count += len(rows)
        client.close()
        return count

    def open(self, folder: Path) -> OpenedQdrant:
        return OpenedQdrant(folder)


def _client(folder: Path) -> tuple[Any, Any]:
    qdrant: Any = import_module("qdrant_client")
    return qdrant.QdrantClient(path=str(folder / "qdrant")), qdrant.models


def _point(models: Any, row: Row, vector: bytes) -> Any:
    words = _WORD.findall(row.text.lower())
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(words) / _USUAL_LENGTH)
    counts = Counter(_hash(word) for word in words)
    sparse = models.SparseVector(
        indices=list(counts), values=[count * (_SATURATION + 1) / (count + norm) for count in counts.values()]
    )
    return models.PointStruct(
        id=row.number,
        vector={"dense": floats(vector), "words": sparse},
        payload={"text": row.text, "source": row.source, "heading": row.heading, "start_line": row.start_line},
    )


def _hash(word: str) -> int:
    return zlib.crc32(word.encode())


STORE = Qdrant()
