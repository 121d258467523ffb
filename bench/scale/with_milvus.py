"""Milvus Lite in the scale run: schema, indexes and hybrid search as memsearch 0.4.23 has them.

One difference, in its favour: rows are inserted, not upserted, as nothing is there yet.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from bench.scale.contender import HITS, Deadline, floats
from bench.scale.material import Material, Question, Row

_NAME = "chunks"
_FIELDS = ["number", "content", "source", "heading", "start_line"]
_ROWS_AN_INSERT = 1_000


class OpenedMilvus:
    """A client of the database in one folder; it runs in this process."""

    def __init__(self, folder: Path) -> None:
        self._pymilvus: Any = import_module("pymilvus")
        self._client = self._pymilvus.MilvusClient(uri=str(folder / "milvus.db"))
        self._client.load_collection(collection_name=_NAME)

    def hybrid(self, question: Question) -> list[int]:
        request = self._pymilvus.AnnSearchRequest
        metric = {"metric_type": "COSINE", "params": {}}
        by_vector = request(data=[floats(question.vector)], anns_field="embedding", param=metric, limit=HITS)
        by_words = request(data=[question.text], anns_field="sparse", param={"metric_type": "BM25"}, limit=HITS)
        found = self._client.hybrid_search(
            collection_name=_NAME,
            reqs=[by_vector, by_words],
            ranker=self._pymilvus.RRFRanker(k=60),
            limit=HITS,
            output_fields=_FIELDS,
        )
        return _numbers(found)

    def dense(self, question: Question) -> list[int]:
        found = self._client.search(
            collection_name=_NAME,
            data=[floats(question.vector)],
            anns_field="embedding",
            search_params={"metric_type": "COSINE", "params": {}},
            limit=HITS,
            output_fields=_FIELDS,
        )
        return _numbers(found)

    def close(self) -> None:
        self._client.close()


class Milvus:
    """The database of one folder."""

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        pymilvus: Any = import_module("pymilvus")
        client = pymilvus.MilvusClient(uri=str(folder / "milvus.db"))
        indexes = client.prepare_index_params()
        indexes.add_index(field_name="embedding", index_type="FLAT", metric_type="COSINE")
        indexes.add_index(field_name="sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        schema = _schema(pymilvus, client, material.facts["dimension"])
        client.create_collection(collection_name=_NAME, schema=schema, index_params=indexes)
        count = 0
        for rows, vectors in deadline.within(material.batches(_ROWS_AN_INSERT)):
            client.insert(
                collection_name=_NAME, data=[_entity(row, vector) for row, vector in zip(rows, vectors, strict=True)]
            )
            count += len(rows)
        client.flush(collection_name=_NAME)
        client.close()
        return count

    def open(self, folder: Path) -> OpenedMilvus:
        return OpenedMilvus(folder)


def _schema(pymilvus: Any, client: Any, dimension: int) -> Any:
    kind = pymilvus.DataType
    schema = client.create_schema(enable_dynamic_field=True)
    schema.add_field(field_name="chunk_hash", datatype=kind.VARCHAR, max_length=64, is_primary=True)
    schema.add_field(field_name="embedding", datatype=kind.FLOAT_VECTOR, dim=dimension)
    schema.add_field(field_name="content", datatype=kind.VARCHAR, max_length=65535, enable_analyzer=True)
    schema.add_field(field_name="sparse", datatype=kind.SPARSE_FLOAT_VECTOR)
    schema.add_field(field_name="source", datatype=kind.VARCHAR, max_length=1024)
    schema.add_field(field_name="heading", datatype=kind.VARCHAR, max_length=1024)
    schema.add_field(field_name="start_line", datatype=kind.INT64)
    schema.add_field(field_name="number", datatype=kind.INT64)
    schema.add_function(
        pymilvus.Function(
            name="bm25",
            function_type=pymilvus.FunctionType.BM25,
            input_field_names=["content"],
            output_field_names=["sparse"],
        )
    )
    return schema


def _entity(row: Row, vector: bytes) -> dict[str, Any]:
    return {
        "chunk_hash": f"{row.number:016x}",
        "embedding": floats(vector),
        "content": row.text,
        "source": row.source,
        "heading": row.heading,
        "start_line": row.start_line,
        "number": row.number,
    }


def _numbers(found: Any) -> list[int]:
    return [int(hit["entity"]["number"]) for hit in found[0]]


STORE = Milvus()
