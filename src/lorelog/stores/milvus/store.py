"""The Milvus store: a local catalog with its search lanes in Milvus, optionally shared between machines."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.errors import StoreBusy, StoreError, StoreUnwritable
from lorelog.core.options import StoreOptions
from lorelog.core.ports import Analyser, StoreComparison, StoreWriter, Supersession, Vector
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage
from lorelog.stores.embedded.catalog_reader import CatalogReader
from lorelog.stores.embedded.catalog_writer import CatalogWriter
from lorelog.stores.embedded.change_log import CatalogLane
from lorelog.stores.embedded.connection import hold_lock, translate_errors
from lorelog.stores.embedded.store import CatalogStore
from lorelog.stores.milvus.client import CollectionMissing, Collections, MilvusConnection, run_parallel
from lorelog.stores.milvus.lanes import IndexOwner, MilvusLanes, RowDifferences, StateFiles
from lorelog.stores.milvus.peers import PeerCandidates, PeerIndexes, PeerRegistry, machine_name

ResultT = TypeVar("ResultT")

_LEAVE_WAIT_S = 10.0


class MilvusStore(CatalogStore):
    """An index whose catalog is in one folder and whose words and vectors are in Milvus."""

    def __init__(  # noqa: PLR0913
        self,
        folder: Path,
        analyser: Analyser,
        options: StoreOptions,
        *,
        tenant: str,
        provider: str,
        model: str,
        name_of: Callable[[str], str] = lambda project: "",
    ) -> None:
        """`name_of` returns the name that all machines use for a project."""
        super().__init__(folder, provider=provider, model=model)
        self._options = options
        self._tenant = tenant
        self._name_of = name_of
        self._remote = MilvusConnection(options)
        self._files = StateFiles(folder / "milvus", options.uri)
        self._lane_owner = f"milvus {self._files.address_hash()}"
        self._location = f"{folder}, {options.uri}"
        self._analyser = analyser
        self._known_rarity: tuple[str, dict[str, float]] = ("", {})
        self._lanes: dict[str, MilvusLanes] = {}
        self._peer_indexes: dict[str, PeerIndexes] = {}
        self._all_supersessions: tuple[tuple[Supersession, ...], ...] = ((), (), ())

    # -- lanes -------------------------------------------------------------------------------------------------------

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates of both lanes. All requests to Milvus run at the same time.

        Milvus proposes the near ones; their cosines are computed from the catalog's vectors, since an index there may round.
        """
        calls = self._parallel_calls(terms, vector, filters, limit) if limit > 0 else {}
        results = self._with_repush(lambda: dict(zip(calls, run_parallel(list(calls.values())), strict=True)))
        near: list[Candidate] = []
        if vector is not None and "vectors" in results:
            near += [Candidate(row, score) for row, score in self.similarities(vector, results["vectors"]).items()]
        near += self._only_there(results.get("peer vectors"), filters)
        lexical = [*results.get("words", ()), *self._only_there(results.get("peer words"), filters)]
        return _rank(lexical)[:limit], _rank(near)[:limit]

    def _parallel_calls(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> dict[str, Callable[[], Any]]:
        """Return the requests to Milvus by name. Raise for a vector that does not fit before any of them is sent."""
        calls: dict[str, Callable[[], Any]] = {}
        with self._open_reader() as catalog:
            if catalog is not None:
                lanes = self._ready_lanes(catalog)
                own = Filters() if catalog.admits_all(filters) else filters
                if terms:
                    calls["words"] = partial(lanes.search_words, terms, own, limit)
                if vector is not None and catalog.is_current_space() and lanes.holds_vectors(vector):
                    calls["vectors"] = partial(lanes.search_vectors, vector, own, limit)
        peers = self._peers()
        if peers is not None and terms:
            calls["peer words"] = partial(peers.search_words, terms, filters, limit)
        if peers is not None and vector is not None:
            calls["peer vectors"] = partial(peers.search_vectors, vector, filters, limit)
        return calls

    def lane_coverage(self, filters: Filters) -> VectorCoverage:
        """Return how many chunks the lanes find, including those of other machines, and how many have vectors."""
        own, peers = self.coverage(filters), self._peers()
        shared = VectorCoverage(0, 0) if peers is None else peers.coverage(filters)
        return VectorCoverage(own.chunks + shared.chunks, own.with_vectors + shared.with_vectors)

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return the weight of each word by Milvus' BM25, cached until a machine writes; an unknown word is the rarest."""
        token = self.revision()
        known = self._known_rarity[1] if self._known_rarity[0] == token else {}
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if missing:
            chunks = self.lane_coverage(Filters()).chunks
            absent = math.log1p(2 * chunks + 1) if chunks else 0.0
            found = self._with_repush(lambda: self._find_rarity(missing)) if chunks else {}
            known = {**known, **{word: found.get(word, absent) for word in missing}}
            self._known_rarity = (token, known)
        return {word: known[word] for word in words}

    def _find_rarity(self, words: Sequence[str]) -> dict[str, float]:
        with self._open_reader() as catalog:
            names = self._ready_lanes(catalog).collection_names() if catalog is not None else set()
        collections, peers, found = Collections(self._remote), self._peers(), dict[str, float]()
        if peers is not None:
            with suppress(StoreError):  # one of theirs may just have been dropped
                found = collections.rarity(peers.collection_names() - names, words)
        for word, weight in collections.rarity(names, words).items():
            found[word] = min(weight, found.get(word, weight))
        return found

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        peers = self._peers()
        peer_keys = [key for key in keys if isinstance(key, str)]
        peer_cosines = peers.cosines(vector, peer_keys) if peers is not None and peer_keys else {}
        with self._open_reader() as catalog:
            if catalog is None or len(peer_keys) == len(keys):
                return peer_cosines
            if not self._lanes_of(catalog.space)[0].holds_vectors(vector):
                return peer_cosines
            vectors = catalog.vectors([key for key in keys if isinstance(key, int)])
        if not vectors:
            return peer_cosines
        import numpy as np

        matrix = np.frombuffer(b"".join(vectors.values()), dtype="<f4").reshape(len(vectors), -1)
        cosines = matrix @ np.frombuffer(vector, dtype="<f4")
        return {**dict(zip(vectors, cosines.tolist(), strict=True)), **peer_cosines}

    # -- other machines ----------------------------------------------------------------------------------------------

    def fetch(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, StoredChunk]:
        peers, peer_keys = self._peers(), [key for key in keys if isinstance(key, str)]
        chunks = super().fetch([key for key in keys if isinstance(key, int)])
        return chunks if peers is None or not peer_keys else {**chunks, **peers.fetch(peer_keys)}

    def find_remote(self, id_prefix: str) -> list[StoredChunk]:
        peers = self._peers()
        return peers.find(id_prefix) if peers is not None and id_prefix else []

    def supersessions(self) -> tuple[Supersession, ...]:
        """Return the supersessions of all machines, oldest first; the same object until they change."""
        own, peers = super().supersessions(), self._peers()
        if peers is None:
            return own
        shared = peers.supersessions()
        if self._all_supersessions[0] is not own or self._all_supersessions[1] is not shared:
            self._all_supersessions = (own, shared, (*shared, *own))
        return self._all_supersessions[2]

    def revision(self) -> str:
        """Return a token that changes with every completed write of this machine, and soon after those of others."""
        peers = self._peers()
        return super().revision() if peers is None else f"{super().revision()} {peers.token()}"

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        """Return the only writer; at its end, shared changes are published."""
        with super().writer(wait_s=wait_s, take_over=take_over) as writer:
            yield writer
            assert isinstance(writer, CatalogWriter)
            self._lanes_of(writer.catalog.fact("space") or self._space)[0].publish(writer.catalog)

    def compare(self, *, repair: bool = False) -> StoreComparison:
        """Return how the rows in Milvus differ from the catalog; with `repair`, how they did before the repair."""
        with self._open_reader() as catalog:
            if catalog is None:
                return StoreComparison(self._remote.place, 0, 0, repaired=repair)
            lanes = self._lanes_of(catalog.fact("space") or self._space)[0]
            try:
                differences = lanes.differences(catalog.database)
            except CollectionMissing:
                chunks = catalog.coverage(Filters()).chunks
                differences = RowDifferences(here=chunks, there=0, missing=tuple(range(chunks)))
        if repair:
            # A new writer pushes all rows if a collection is missing, and follows the log.
            with self.writer(), self._open_reader() as catalog:
                if catalog is not None:
                    lanes.repair(catalog.database, lanes.differences(catalog.database))
        return StoreComparison(
            self._remote.place,
            differences.here,
            differences.there,
            missing=len(differences.missing),
            unlike=len(differences.mismatched),
            surplus=sum(map(len, differences.surplus.values())),
            waiting=differences.waiting,
            repaired=repair,
        )

    @property
    def place(self) -> str:
        """The address of the rows."""
        return self._remote.place

    def leave(self) -> None:
        """Delete all rows of this index in Milvus and withdraw what is shared. Raise StoreError if that is impossible now."""
        with translate_errors(self._folder), hold_lock(self._lock, wait_s=_LEAVE_WAIT_S):
            self._remote.call(lambda client: client.list_collections())  # fail early if the server is unreachable
            self._lanes_of(self._space)[0].leave()

    def close(self) -> None:
        super().close()
        self._remote.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _lanes_of(self, space: str) -> tuple[MilvusLanes, MilvusLanes]:
        """Return the lanes of a vector space, which are one object: a chunk's words and vector are in one row."""
        if space not in self._lanes:
            machine = machine_name(platform.node()) if self._options.shared else ""
            owner = IndexOwner(
                tenant=self._tenant,
                space=space,
                analyser=self._analyser,
                per_project=self._options.per_project,
                prefix=self._options.collection,
                shared_name_of=self._name_of,
                folder=self._folder,
                machine=machine,
            )
            self._lanes[space] = MilvusLanes(self._files, self._remote, owner)
        return self._lanes[space], self._lanes[space]

    def _ready_lanes(self, catalog: CatalogReader) -> MilvusLanes:
        """Return the lanes of the served space, pushed again if they are missing."""
        lanes = self._lanes_of(catalog.fact("space") or self._space)[0]
        self._repair(catalog, lanes)
        if not lanes.is_published():
            with suppress(StoreBusy, StoreUnwritable), self.writer(wait_s=0):
                pass
        return lanes

    def _peers(self) -> PeerIndexes | None:
        """Return the indexes of other machines, or None if nothing is shared."""
        if not self._options.shared:
            return None
        with self._open_reader() as catalog:
            space = self._space if catalog is None else catalog.space
        if space not in self._peer_indexes:
            registry = PeerRegistry(Collections(self._remote), self._options.collection, self._tenant, space)
            self._peer_indexes[space] = PeerIndexes(registry, self._home, self._name_of, self._analyser.version)
        return self._peer_indexes[space]

    def _home(self) -> str:
        home = self._files.identity()
        return home.id if home is not None else ""

    def _only_there(self, found: PeerCandidates | None, filters: Filters) -> list[Candidate]:
        """Return the rows of other machines whose text the admitted projects do not have here; the local one is shown."""
        if found is None:
            return []
        with self._open_reader() as catalog:
            existing = catalog.contents(list(found.contents.values()), filters) if catalog is not None else set()
        return [candidate for candidate in found.candidates if found.contents[candidate.key] not in existing]

    def _with_repush(self, search: Callable[[], ResultT]) -> ResultT:
        """Return the result of a search; if a collection is missing, push all rows from the catalog and search again."""
        try:
            return search()
        except CollectionMissing:
            for lanes in self._lanes.values():
                lanes.recheck()
            with self.writer(wait_s=1.0):
                pass
            return search()

    def _after_writing(self, vectors: CatalogLane, *, thoroughly: bool) -> None:
        """Flush what was sent. The writes are complete, so a failure here only leaves searches slower."""
        if thoroughly and isinstance(vectors, MilvusLanes):
            with suppress(StoreError):
                vectors.flush()

    def _drop_lanes(self) -> None:
        self._lanes_of(self._space)[0].leave()


def _rank(candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates best first; of equal ones, local ones first."""
    return sorted(candidates, key=lambda candidate: (-candidate.score, isinstance(candidate.key, str), candidate.key))
