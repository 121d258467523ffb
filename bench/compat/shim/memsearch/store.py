"""memsearch's store over our store in Milvus Lite. Its rows have keys of their own; our rows belong to documents."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lorelog.core.document import Chunk, Document, FileStamp
from lorelog.core.options import StoreOptions
from lorelog.core.ports import DocumentUpdate, Vector
from lorelog.core.query import Filters, Term
from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.fusion import fuse_rrf
from lorelog.stores.milvus import MilvusStore as OurStore

_PROJECT = "/compat"


def _local_open_error_message(*_: Any) -> str:
    """Imported by tests that are not run."""
    return ""


def _vector(numbers: Sequence[float]) -> Vector:
    length = sum(number * number for number in numbers) ** 0.5 or 1.0
    return array("f", [number / length for number in numbers]).tobytes()


class MilvusStore:
    def __init__(self, uri: str, dimension: int | None = None, **_: Any) -> None:
        self._analyser = WordAnalyser()
        options = StoreOptions(uri)
        folder = Path(f"{uri}.home")
        self._ours = OurStore(folder, self._analyser, options, tenant="compat", provider="t", model="m")

    def close(self) -> None:
        self._ours.close()

    def upsert(self, records: list[dict[str, Any]]) -> int:
        for source in dict.fromkeys(record["source"] for record in records):
            rows = {row["chunk_hash"]: row for row in self.query() if row["source"] == source}
            rows |= {record["chunk_hash"]: record for record in records if record["source"] == source}
            chunks = [_chunk(source, row) for row in rows.values()]
            document = Document(source, "/", _PROJECT, FileStamp(1, 1, 1), "h", "", "2026-03-02", "2026-03-02")
            given = [(chunk.vector_key, row.get("embedding")) for chunk, row in zip(chunks, rows.values(), strict=True)]
            with self._ours.writer() as writer:
                writer.put([DocumentUpdate(document, tuple(chunks))])
                writer.put_vectors({key: _vector(numbers) for key, numbers in given if numbers})
        return len(records)

    def delete_by_source(self, source: str) -> None:
        with self._ours.writer() as writer:
            writer.remove([source])

    def search(self, vector: Sequence[float], query_text: str = "", top_k: int = 5) -> list[dict[str, Any]]:
        terms = [Term(word) for word in self._analyser.words(query_text)]
        words, near = self._ours.propose(terms, _vector(vector), Filters(projects=(_PROJECT,)), 100)
        keys = [candidate.key for candidate in fuse_rrf(words, near)][:top_k]
        found = self._ours.fetch(keys)
        return [_row(found[key].chunk) for key in keys if key in found]

    def query(self) -> list[dict[str, Any]]:
        documents = self._ours.documents()
        return [_row(stored.chunk) for each in documents for stored in self._ours.chunks_of(each.source)]

    def drop(self) -> None:
        self._ours.reset()

    def _ensure_collection(self) -> None:
        """Ours is made by the next write."""


def _chunk(source: str, row: dict[str, Any]) -> Chunk:
    level = int(row["heading_level"])
    path = (row["heading"],) if row["heading"] else ()
    lines = (row["start_line"], row["end_line"])
    texts = (row["content"], row["content"])
    return Chunk(source, row["heading"], level, path, *lines, *texts, date="2026-03-02", content_hash=row["chunk_hash"])


def _row(chunk: Chunk) -> dict[str, Any]:
    names = ("content", "source", "heading", "heading_level", "start_line", "end_line")
    return {name: getattr(chunk, name) for name in names} | {"chunk_hash": chunk.content_hash}
