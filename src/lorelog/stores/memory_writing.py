"""The one writer of the reference store. It refuses what the contract forbids, also where a real store would let it pass."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lorelog.core.document import Document
from lorelog.core.errors import ModelFault
from lorelog.core.ports import DocumentUpdate, Vector
from lorelog.stores.memory_vectors import Shelves

if TYPE_CHECKING:
    from lorelog.stores.memory import MemoryStore


class MemoryWriter:
    """Writes a MemoryStore, and refuses what the contract forbids."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, updates: Sequence[DocumentUpdate]) -> None:
        """Store documents, after all of them have been found in order."""
        self._check_turn()
        sources = [update.document.source for update in updates]
        if len(set(sources)) != len(sources):
            raise AssertionError("one put names a document twice")
        for update in updates:
            ids = [chunk.identify(self._store._model) for chunk in update.chunks]
            if len(set(ids)) != len(ids):
                raise AssertionError(f"{update.document.source} has two chunks of one id")
            if any(chunk.source != update.document.source for chunk in update.chunks):
                raise AssertionError(f"{update.document.source} has a chunk of another document")
        for update in updates:
            self._store._leave(update.document.source)
            self._store._enter(update)
        self._store._writes += 1

    def touch(self, documents: Sequence[Document]) -> None:
        """Record new stamps and roots."""
        self._check_turn()
        for document in documents:
            known = self._store._documents.get(document.source)
            if known is not None:
                changed = replace(known, root=document.root, stamp=document.stamp, indexed_at=document.indexed_at)
                self._store._documents[document.source] = changed
        self._store._writes += 1

    def remove(self, sources: Iterable[str]) -> int:
        """Remove documents and their chunks; return how many were there."""
        self._check_turn()
        removed = sum(self._store._leave(source) for source in sources)
        self._store._writes += 1
        return removed

    def put_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors of unit length, or zero."""
        self._check_turn()
        self._check(vectors, self._store._vectors)
        self._store._shelves.served = {**vectors, **self._store._vectors}
        self._store._writes += 1

    def begin_beside(self, dimension: int) -> None:
        """Begin to make vectors beside those served, or go on with what was begun."""
        self._turn_over().begin(dimension)

    def put_beside(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors beside those served."""
        shelves = self._turn_over()
        self._check(vectors, shelves.begun())
        shelves.put_beside(vectors)

    def swap(self) -> None:
        """Serve the vectors beside."""
        self._turn_over().swap()

    def decline(self) -> None:
        """Note that the vectors beside are not to be served."""
        self._turn_over().decline()

    def roll_back(self) -> None:
        """Serve what was served before the last swap."""
        self._turn_over().roll_back()

    def forget_others(self) -> int:
        """Drop all vectors but those served."""
        return self._turn_over().forget_others()

    def _turn_over(self) -> Shelves:
        self._check_turn()
        self._store._writes += 1
        return self._store._shelves

    def _check(self, vectors: Mapping[str, Vector], among: Mapping[str, Vector]) -> None:
        self._store._check_dimension(vectors.values(), among)
        for key, vector in vectors.items():
            if not all(math.isfinite(x) for x in array("f", vector)):
                raise ModelFault(f"{self._store._space} gave a vector that is not made of numbers (for {key})")
            length = math.sqrt(math.fsum(x * x for x in array("f", vector)))
            if not (length == 0 or math.isclose(length, 1, abs_tol=1e-3)):
                raise AssertionError(f"the vector of {key} has length {length}")

    def remark(self, name: str, value: str) -> None:
        """Note something."""
        self._check_turn()
        self._store._remarks[name] = value
        self._store._writes += 1

    def sweep(self) -> None:
        """Nothing to fold; unused vectors may stay a day, here they stay."""
        self._check_turn()

    def _check_turn(self) -> None:
        if self._store._written_by is not self:
            raise AssertionError("a writer was used outside its context")
