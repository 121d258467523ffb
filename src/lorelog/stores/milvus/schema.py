"""What a collection is called, and what its rows hold.

The names that memsearch gives its fields are kept. The key is not the chunk's id, which names lines and so changes hands
as a file is edited: it is the index and the row in its catalog, which no other chunk ever gets. A chunk that waits for its
vector has zeros and `has_vector` false: Milvus takes no row without one, and two collections would cost twice as many of
what a cluster has few of.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from lorelog.stores.milvus.tokens import ANALYSER

if TYPE_CHECKING:
    from pymilvus import MilvusClient

FORMAT = 2
"""Part of every collection's name: rows of another make stand in another collection."""
UNKNOWN_WIDTH = 2
"""How wide vectors are made while no model has given one."""
MOST_TEXT = 65_000
MOST_TAGS = 1024
MOST_TAG = 2000
MOST_TYPE = 1000
MOST_PATH = 8000
_NAMED = 40


def collection_name(tenant: str, project: str | None, space: str, width: int) -> str:
    """Return the collection of a project's chunks, or of all projects (None). No two tenants and no two models share one.

    `project` is what all machines call it, where they have a name for it: then they share the collection.
    """
    readable = "all" if project is None else _readable(project.rstrip("/").removesuffix("/.git").rpartition("/")[2])
    return _name(tenant, readable or "global", space, _digest(project, width))


def registry_name(tenant: str, space: str) -> str:
    """Return the collection in which machines say what they share."""
    return _name(tenant, "machines", space, _digest("machines"))


def is_of(name: str, tenant: str, space: str) -> bool:
    """Say whether a collection is one of this tenant's and model's."""
    return name.startswith("lorelog_") and name.rpartition("_")[2].startswith(_digest(tenant, space, FORMAT))


def make_collection(client: MilvusClient, name: str, width: int) -> None:
    """Make a collection that is not there, ready to be searched."""
    from pymilvus import DataType, Function, FunctionType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)

    def add(field: str, kind: Any, **more: Any) -> None:
        schema.add_field(field, kind, **more)

    add("key", DataType.VARCHAR, max_length=64, is_primary=True)
    for field in ("chunk_hash", "content_hash"):
        add(field, DataType.VARCHAR, max_length=64)
    add("dense_vector", DataType.FLOAT_VECTOR, dim=width)
    add("content", DataType.VARCHAR, max_length=65_535, enable_analyzer=True, analyzer_params=ANALYSER)
    add("sparse_vector", DataType.SPARSE_FLOAT_VECTOR)
    for field in ("text", "about"):
        add(field, DataType.VARCHAR, max_length=65_535)
    for field in ("source", "heading", "project", "shared"):
        add(field, DataType.VARCHAR, max_length=MOST_PATH + 192)
    for field in ("heading_level", "start_line", "end_line", "day", "row"):
        add(field, DataType.INT64)
    for field in ("type", "memory"):
        add(field, DataType.VARCHAR, max_length=1024)
    add("tags", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=MOST_TAGS, max_length=2048)
    add("home", DataType.VARCHAR, max_length=64)
    add("has_vector", DataType.BOOL)
    schema.add_function(Function("words", FunctionType.BM25, ["content"], ["sparse_vector"]))
    indexes = client.prepare_index_params()
    indexes.add_index("dense_vector", index_type="AUTOINDEX", metric_type="COSINE")
    indexes.add_index(
        "sparse_vector",
        index_type="SPARSE_INVERTED_INDEX",
        metric_type="BM25",
        params={"bm25_k1": 1.2, "bm25_b": 0.75},
    )
    for field in ("home", "project", "shared", "source", "type", "memory", "day"):
        indexes.add_index(field, index_type="INVERTED")
    client.create_collection(name, schema=schema)
    # Not waited for: nothing is in it yet, and asking whether it is done takes half a second each time.
    client.create_index(name, indexes, sync=False)
    client.load_collection(name)


def fitted(text: str, most_bytes: int) -> str:
    """Return a text as a field takes it that is only ever asked whether it is another: one too long ends in its hash."""
    if len(text) <= most_bytes // 4 or len(text.encode("utf-8", "replace")) <= most_bytes:
        return cut(text, most_bytes)
    return cut(text, most_bytes - 20) + "#" + _digest(text)


def cut(text: str, most_bytes: int) -> str:
    """Return as much of a text as a field takes, in characters that can be sent."""
    encoded = text.encode("utf-8", "replace")
    return encoded[:most_bytes].decode("utf-8", "ignore")


def _name(tenant: str, readable: str, space: str, what: str) -> str:
    return f"lorelog_{_readable(tenant)}_{readable}_{_digest(tenant, space, FORMAT)}{what}"


def _digest(*named: object) -> str:
    return hashlib.sha256(json.dumps(named).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _readable(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_NAMED]
