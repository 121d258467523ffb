"""The Milvus store itself: the catalog here, its lanes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from recollect.core.document import Key
from recollect.core.errors import StoreDamaged, StoreError
from recollect.core.options import StoreOptions
from recollect.core.ports import Analyser, Comparison, Vector
from recollect.core.query import Candidate, Filters, Term
from recollect.stores.embedded.catalog_store import CatalogStore
from recollect.stores.embedded.lanes import FollowingLane
from recollect.stores.embedded.reading import CatalogReader
from recollect.stores.milvus.faults import is_gone
from recollect.stores.milvus.lanes import Differences, MilvusLanes, Whose
from recollect.stores.milvus.lexicon import Lexicon
from recollect.stores.milvus.remote import Remote
from recollect.stores.milvus.state import Places

Answer = TypeVar("Answer")


class MilvusStore(CatalogStore):
    """An index whose catalog is in one folder and whose words and vectors are in a Milvus."""

    def __init__(
        self, folder: Path, analyser: Analyser, options: StoreOptions, *, tenant: str, provider: str, model: str
    ) -> None:
        super().__init__(folder, provider=provider, model=model)
        self._options = options
        self._tenant = tenant
        self._version = analyser.version
        self._remote = Remote(options)
        self._places = Places(folder / "milvus", options.uri)
        self._lexicon = Lexicon(folder / "milvus" / "words.db", analyser)
        self._lanes: dict[str, MilvusLanes] = {}

    # -- lanes -------------------------------------------------------------------------------------------------------

    def lexical(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks that contain any of the terms, best BM25 first, at most `limit`."""
        with self._reading() as catalog:
            if catalog is None:
                return []
            lanes = self._ready(catalog)
            filters = Filters() if catalog.admission(filters) is None else filters
        return self._whole(lambda: lanes.search_words(terms, filters, limit))

    def dense(self, vector: Vector, filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks by cosine with a unit vector, best first, at most `limit`.

        Milvus proposes them; the cosines are those with the catalog's own vectors, whatever an index there rounds.
        """
        with self._reading() as catalog:
            if catalog is None or not catalog.is_current_space():
                return []
            lanes = self._ready(catalog)
            filters = Filters() if catalog.admission(filters) is None else filters
        found = self._whole(lambda: lanes.search_vectors(vector, filters, limit))
        scored = [Candidate(row, score) for row, score in self.similarities(vector, found).items()]
        return sorted(scored, key=lambda one: (-one.score, int(one.key)))[: max(limit, 0)]

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word."""
        with self._reading() as catalog:
            if catalog is None:
                return dict.fromkeys(words, 0.0)
            self._ready(catalog)
            return self._lexicon.rarity(list(dict.fromkeys(words)))

    def similarities(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each of these chunks that has a vector."""
        with self._reading() as catalog:
            if catalog is None or not keys or not self._lanes_of(catalog.space)[0].holds_vectors(vector):
                return {}
            vectors = catalog.vectors(keys)
        if not vectors:
            return {}
        import numpy as np

        matrix = np.frombuffer(b"".join(vectors.values()), dtype="<f4").reshape(len(vectors), -1)
        cosines = matrix @ np.frombuffer(vector, dtype="<f4")
        return dict(zip(vectors, cosines.tolist(), strict=True))

    def compare(self, *, repair: bool = False) -> Comparison:
        """Return how the rows in Milvus differ from the catalog's; with `repair`, how they did before they were mended."""
        with self._reading() as catalog:
            if catalog is None:
                return Comparison(self._remote.place, 0, 0, repaired=repair)
            lanes = self._lanes_of(catalog.fact("space") or self._space)[0]
            try:
                found = lanes.differences(catalog.database)
            except StoreDamaged as fault:
                if not is_gone(fault):
                    raise
                here = catalog.coverage(Filters()).chunks
                found = Differences(here, 0, tuple(range(here)))
        if repair:
            # Becoming the writer pushes everything anew where a collection is gone, and follows the log.
            with self.writer(), self._reading() as catalog:
                if catalog is not None:
                    lanes.mend(catalog.database, lanes.differences(catalog.database))
        surplus = sum(map(len, found.surplus.values()))
        return Comparison(
            self._remote.place,
            found.here,
            found.there,
            len(found.missing),
            len(found.unlike),
            surplus,
            found.waiting,
            repair,
        )

    def close(self) -> None:
        """Let go of files and of the connection. May be called twice."""
        super().close()
        self._remote.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _lanes_of(self, space: str) -> tuple[MilvusLanes, MilvusLanes]:
        """Return the lanes of a model, which are one: a chunk's words and its vector stand in one row."""
        if space not in self._lanes:
            whose = Whose(self._tenant, space, self._version, self._options.per_project)
            self._lanes[space] = MilvusLanes(self._places, self._remote, self._lexicon, whose)
        return self._lanes[space], self._lanes[space]

    def _ready(self, catalog: CatalogReader) -> MilvusLanes:
        """Return the lanes of the model that the index serves, pushed anew where they are missing."""
        lanes = self._lanes_of(catalog.fact("space") or self._space)[0]
        self._repair(catalog, lanes)
        return lanes

    def _whole(self, search: Callable[[], Answer]) -> Answer:
        """Return what a search finds; where a collection is gone, once it was pushed anew from the catalog."""
        try:
            return search()
        except StoreDamaged as fault:
            if not is_gone(fault):
                raise
            with self.writer(wait_s=1.0):
                pass
            return search()

    def _keeper(self) -> str:
        return f"milvus {self._places.place()}"

    def _after_writing(self, vectors: FollowingLane, *, thoroughly: bool) -> None:
        """Have the rows that were sent settle. The writes are done and safe: what goes wrong leaves searches slower."""
        if thoroughly and isinstance(vectors, MilvusLanes):
            with suppress(StoreError):
                vectors.settle()

    def _let_go(self) -> None:
        with self._turn:
            self._lexicon.close()
            super()._let_go()

    def _forget_lanes(self) -> None:
        self._lanes_of(self._space)[0].leave()
        self._lexicon.forget()

    def _location(self) -> str:
        return f"{self._folder}, {self._remote.place}"
