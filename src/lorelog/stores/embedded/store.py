"""The embedded store itself: words in tantivy, vectors in a file, both beside the catalog that they follow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lorelog.core.document import Key
from lorelog.core.errors import StoreDamaged, StoreError
from lorelog.core.ports import Analyser, Comparison, Vector
from lorelog.core.query import Candidate, Filters, Term
from lorelog.stores.embedded.catalog_store import CatalogStore
from lorelog.stores.embedded.dense import EXACT_UP_TO, DenseLane
from lorelog.stores.embedded.faults import translating
from lorelog.stores.embedded.lanes import FollowingLane
from lorelog.stores.embedded.lexical import LexicalLane
from lorelog.stores.embedded.lock import hold

_WAIT_TO_SWAP_S = 30.0


class EmbeddedStore(CatalogStore):
    """An index in one folder, lanes included."""

    def __init__(
        self, folder: Path, analyser: Analyser, *, provider: str, model: str, exact_up_to: int = EXACT_UP_TO
    ) -> None:
        super().__init__(folder, provider=provider, model=model)
        self._lexical = LexicalLane(folder / "lexical", analyser)
        self._exact_up_to = exact_up_to
        self._dense_lanes: dict[str, DenseLane] = {}

    # -- lanes -------------------------------------------------------------------------------------------------------

    def lexical(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks that contain any of the terms, best BM25 first, at most `limit`."""
        with self._reading() as catalog:
            if catalog is None:
                return []
            self._repair(catalog, self._lexical)
            if catalog.admission(filters) is None:
                filters = Filters()  # naming every project costs as much as choosing among them
            try:
                return self._lexical.search(terms, filters, limit)
            except StoreDamaged:
                # The lane is derived: made anew from the catalog, it answers.
                with self.writer(wait_s=1.0):
                    self._lexical.forget()
                self._repair(catalog, self._lexical)
                return self._lexical.search(terms, filters, limit)

    def dense(self, vector: Vector, filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks by cosine with a unit vector, best first, at most `limit`."""
        with self._reading() as catalog:
            if catalog is None:
                return []
            lane = self._dense_lane(catalog.space)
            self._repair(catalog, lane)
            return lane.search(vector, catalog.admission(filters), limit)

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return what both lanes propose. One after the other: each takes less than starting a thread would save."""
        near = [] if vector is None else self.dense(vector, filters, limit)
        return self.lexical(terms, filters, limit), near

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word."""
        with self._reading() as catalog:
            if catalog is None:
                return dict.fromkeys(words, 0.0)
            self._repair(catalog, self._lexical)
            return self._lexical.rarity(words)

    def similarities(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each of these chunks that has a vector."""
        with self._reading() as catalog:
            if catalog is None:
                return {}
            return self._dense_lane(catalog.space).similarities(vector, keys)

    def compare(self, *, repair: bool = False) -> Comparison:
        """Return whether both lanes have followed. They repair themselves; `repair` has them built anew."""
        with self._reading() as catalog:
            if catalog is None:
                return Comparison("", 0, 0, repaired=repair)
            here = catalog.coverage(Filters()).chunks
            followed = self._lexical.applied(catalog.database)
            there = 0 if followed is None else here
            lane = self._dense_lane(catalog.space)
            has_lane = lane.applied(catalog.database) is not None or not catalog.vector_counts()[0]
            unlike = 0 if has_lane else catalog.coverage(Filters()).with_vectors
        if repair:
            with self.writer():
                self._lexical.forget()
                self._dense.forget()
            with self.writer():
                pass
        return Comparison("", here, there, missing=here - there, unlike=unlike, repaired=repair)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _lanes_of(self, space: str) -> tuple[LexicalLane, DenseLane]:
        return self._lexical, self._dense_lane(space)

    def _dense_lane(self, space: str) -> DenseLane:
        if space not in self._dense_lanes:
            self._dense_lanes[space] = DenseLane(self._folder / "dense", space, exact_up_to=self._exact_up_to)
        return self._dense_lanes[space]

    @property
    def _dense(self) -> DenseLane:
        """Return the lane of this model's vectors, as they are called now."""
        with self._reading() as catalog:
            return self._dense_lane(self._space if catalog is None else catalog.space)

    def _let_go(self) -> None:
        with self._turn:
            self._lexical.close()
            for lane in list(self._dense_lanes.values()):
                lane.close()
            super()._let_go()

    def _forget_lanes(self) -> None:
        import shutil

        for lane in ("lexical", "dense"):
            if (self._folder / lane).exists():
                shutil.rmtree(self._folder / lane)

    def _bytes_mapped(self) -> int:
        return self._dense.mapped_bytes()

    def _after_writing(self, vectors: FollowingLane, *, thoroughly: bool) -> None:
        """Make codes of a dense lane that has grown. Others may read and write meanwhile; only the swap needs the lock.

        This is work for an index run: whoever adds one entry should not wait for it. The write that came before is done and safe: whatever goes wrong here only leaves searches slower.
        """
        assert isinstance(vectors, DenseLane)  # noqa: S101  (`_lanes_of` gives no other)
        with suppress(StoreError), translating(self._folder):
            if not vectors.wants_codes(thoroughly=thoroughly):
                return
            with hold(self._folder / "codes.lock", wait_s=0):
                made = vectors.make_codes()
                if made is not None:
                    with hold(self._lock, wait_s=_WAIT_TO_SWAP_S):
                        vectors.take_codes(made)
