"""What a contender of the scale run must do, and who they are.

Responsible for the contract between the worker and the stores, one module each beside this one (`with_*.py`). Those are
imported by name, inside the environment that has the store's package and no other.
"""

from __future__ import annotations

import array
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from bench.scale.material import Material, Question, Row

OURS = "lorelog"
HITS = 10


@dataclass(frozen=True)
class Deadline:
    """How long an insert may go on. One that is stopped keeps what it has, and is measured at that size."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def within(self, batches: Iterator[tuple[list[Row], list[bytes]]]) -> Iterator[tuple[list[Row], list[bytes]]]:
        """Yield batches until the time is over."""
        for batch in batches:
            yield batch
            if time.monotonic() > self.at:
                return


class Opened(Protocol):
    """A store that is open for searching. Answers are row numbers, best first."""

    def hybrid(self, question: Question) -> list[int]:
        """Search as well as this store can, text and all of each hit fetched; `HITS` of them."""
        ...

    def dense(self, question: Question) -> list[int]:
        """Search by the vector alone."""
        ...

    def close(self) -> None: ...


class Contender(Protocol):
    """A store, in its own process."""

    def insert(self, folder: Path, material: Material, deadline: Deadline) -> int:
        """Store the material in an empty folder and return how many rows were stored, ready to be searched."""
        ...

    def open(self, folder: Path) -> Opened: ...


@dataclass(frozen=True)
class Entry:
    """How a contender is named, made and described."""

    title: str
    module: str
    environment: str = ""
    """The requirements it is installed by; empty for ours, which runs where the bench does."""
    packages: tuple[str, ...] = ()
    """Those whose versions are named."""
    does: str = ""
    store: str = "STORE"
    """The name in its module."""
    is_floor: bool = False
    """Bare libraries, which no target compares with: they show what is left to gain."""


CONTENDERS = {
    OURS: Entry(
        "lorelog",
        "with_lorelog",
        packages=("lorelog", "tantivy", "numpy"),
        does="BM25 and vectors, 200 candidates of each, fusion, repeats folded, snippets, explanations",
    ),
    "milvus": Entry(
        "Milvus Lite",
        "with_milvus",
        "milvus",
        ("milvus-lite", "pymilvus"),
        "BM25 and exact vectors, 10 of each, RRF: schema and search of memsearch",
    ),
    "lancedb": Entry(
        "LanceDB", "with_lancedb", "lancedb", ("lancedb",), "full-text index and exact vectors, 10 of each, RRF"
    ),
    "lancedb-hnsw": Entry(
        "LanceDB, HNSW",
        "with_lancedb",
        "lancedb",
        ("lancedb",),
        "the same with a vector index (IVF_HNSW_SQ, settings as they come)",
        "INDEXED",
    ),
    "chroma": Entry(
        "Chroma, vectors only",
        "with_chroma",
        "chroma",
        ("chromadb",),
        "HNSW alone, as it has no BM25 locally: it does less than the others",
    ),
    "qdrant": Entry(
        "Qdrant local", "with_qdrant", "qdrant", ("qdrant-client",), "exact vectors and sparse words, 10 of each, RRF"
    ),
    "bare-hnsw": Entry(
        "bare tantivy + usearch",
        "with_tantivy",
        "tantivy",
        ("tantivy", "usearch"),
        "BM25 and HNSW of int8 values, 200 of each, RRF; the rows' numbers only, no text, catalog, updates or filters",
        "HNSW",
        is_floor=True,
    ),
    "bare-bits": Entry(
        "bare tantivy + faiss",
        "with_tantivy",
        "tantivy",
        ("tantivy", "faiss-cpu"),
        "the same with sign bits, 2,000 of them rescored with float16 vectors",
        "BITS",
        is_floor=True,
    ),
}


def contender(name: str) -> Contender:
    """Load a contender, in the environment it runs in."""
    entry = CONTENDERS[name]
    made: Contender = getattr(import_module(f"bench.scale.{entry.module}"), entry.store)
    return made


def floats(vector: bytes) -> list[float]:
    """Return a vector as the lists that most clients want."""
    return array.array("f", vector).tolist()
