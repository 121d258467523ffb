"""LanceDB in the scale run: a table with its full-text index, hybrid search by its own RRF.

It comes in twice. Without a vector index it is exact, which is what one gets without asking for more; with one
(`IVF_HNSW_SQ`, the kind it offers for high recall) it is faster, and no longer exact.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from bench.scale.contender import HITS, Deadline
from bench.scale.material import Material, Question

_NAME = "chunks"
_ROWS_AN_ADD = 10_000


class OpenedLance:
    """The table of one folder."""

    def __init__(self, folder: Path) -> None:
        lancedb: Any = import_module("lancedb")
        self._numpy: Any = import_module("numpy")
        self._table = lancedb.connect(str(folder / "lance")).open_table(_NAME)
        self._reranker = import_module("lancedb.rerankers").RRFReranker(K=60)

    def hybrid(self, question: Question) -> list[int]:
        found = (
            self._table.search(query_type="hybrid", vector_column_name="vector", fts_columns="text")
            .vector(self._vector(question))
            .text(question.text)
            .distance_type("cosine")
            .rerank(self._reranker)
            .limit(HITS)
            .to_list()
        )
        return [int(item["number"]) for item in found]

    def dense(self, question: Question) -> list[int]:
        found = self._table.search(self._vector(question)).distance_type("cosine").limit(HITS).to_list()
        return [int(item["number"]) for item in found]

    def close(self) -> None:
        pass

    def _vector(self, question: Question) -> Any:
        return self._numpy.frombuffer(question.vector, dtype="<f4")


class Lance:
    """The table of one folder, written as Arrow batches."""

    def __init__(self, index: str = "") -> None:
        self._index = index

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        lancedb: Any = import_module("lancedb")
        arrow: Any = import_module("pyarrow")
        dimension = material.facts["dimension"]
        schema = arrow.schema(
            [
                arrow.field("number", arrow.int64()),
                arrow.field("text", arrow.string()),
                arrow.field("source", arrow.string()),
                arrow.field("heading", arrow.string()),
                arrow.field("start_line", arrow.int64()),
                arrow.field("vector", arrow.list_(arrow.float32(), dimension)),
            ]
        )
        table = lancedb.connect(str(folder / "lance")).create_table(_NAME, schema=schema)
        count = 0
        for rows, vectors in deadline.within(material.batches(_ROWS_AN_ADD)):
            values = arrow.array(memoryview(b"".join(vectors)).cast("f"), arrow.float32())
            columns = [
                [row.number for row in rows],
                [row.text for row in rows],
                [row.source for row in rows],
                [row.heading for row in rows],
                [row.start_line for row in rows],
                arrow.FixedSizeListArray.from_arrays(values, dimension),
            ]
            table.add(arrow.table(columns, schema=schema))
            count += len(rows)
        table.create_fts_index("text")
        if self._index:
            table.create_index(metric="cosine", vector_column_name="vector", index_type=self._index)
        table.optimize()
        return count

    def open(self, folder: Path) -> OpenedLance:
        return OpenedLance(folder)


STORE = Lance()
INDEXED = Lance("IVF_HNSW_SQ")
