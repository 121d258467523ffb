"""Chroma in the scale run: a persistent client and its HNSW index, settings as they come.

It has no BM25 locally, so its hybrid search is a search by vector: it does less than the others.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from bench.scale.contender import HITS, Deadline, floats
from bench.scale.material import Material, Question

_NAME = "chunks"
_ROWS_AN_ADD = 5_000


class OpenedChroma:
    """The collection of one folder."""

    def __init__(self, folder: Path) -> None:
        self._collection = _client(folder).get_collection(_NAME, embedding_function=None)

    def hybrid(self, question: Question) -> list[int]:
        return self.dense(question)

    def dense(self, question: Question) -> list[int]:
        found = self._collection.query(
            query_embeddings=[floats(question.vector)], n_results=HITS, include=["documents", "metadatas", "distances"]
        )
        return [int(item) for item in found["ids"][0]]

    def close(self) -> None:
        pass


class Chroma:
    """The collection of one folder."""

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        collection = _client(folder).create_collection(
            _NAME, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        count = 0
        for rows, vectors in deadline.within(material.batches(_ROWS_AN_ADD)):
            collection.add(
                ids=[str(row.number) for row in rows],
                embeddings=[floats(vector) for vector in vectors],
                documents=[row.text for row in rows],
                metadatas=[
                    {"source": row.source, "heading": row.heading, "start_line": row.start_line} for row in rows
                ],
            )
            count += len(rows)
        return count

    def open(self, folder: Path) -> OpenedChroma:
        return OpenedChroma(folder)


def _client(folder: Path) -> Any:
    chromadb: Any = import_module("chromadb")
    settings = import_module("chromadb.config").Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(path=str(folder / "chroma"), settings=settings)


STORE = Chroma()
