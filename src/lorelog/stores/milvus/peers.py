"""Search in the indexes of other machines in the same Milvus; they are never written to.

Searched are only the projects that another machine shares and the filters admit, and only if its index uses the same
analyser and model. Chunks are read from Milvus each time, so one that is deleted there disappears here. What machines
publish about their indexes is cached for `PEERS_TTL_S`.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.errors import StoreError
from lorelog.core.ports import MIN_BM25_WORDS, Supersession, Vector
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage
from lorelog.stores.milvus.client import is_missing_collection
from lorelog.stores.milvus.collections import CollectionQuery, Collections, run_parallel
from lorelog.stores.milvus.lexicon import Bm25Statistics, term_score
from lorelog.stores.milvus.registry import PeerIndex, PeerRegistry
from lorelog.stores.milvus.rows import READ_FIELDS, Row, read_row
from lorelog.stores.milvus.schema import (
    FILLER,
    encode_query,
    encode_word,
    filter_expression,
    in_values,
    quote,
    shared_by,
    starts_with,
)

PEERS_TTL_S = 10.0
"""How long the published state of other machines is cached in a long-running process."""
_MAX_FOUND = 10
"""Chunks that `find` returns."""
_CACHED_LOCATIONS = 50_000
_MAX_CANDIDATES = 16_384


class PeerRows(NamedTuple):
    """The rows to search in a collection."""

    expression: str
    """Filter expression."""
    is_shared: bool = False
    """Whether several machines have rows there, so that the same text may be repeated."""


class PeerCandidates:
    """Lexical candidates of other machines, scored once the statistics of all machines are known."""

    def __init__(self, rows: Sequence[Row], terms: Sequence[Term]) -> None:
        names = [encode_word(term.text) for term in terms]
        self._terms = terms
        self.contents = {row["key"]: str(row["content_hash"]) for row in rows}
        self._counts: dict[str, tuple[int, list[int]]] = {}
        # A text too long for the field has each word once, and therefore another score than on its own machine.
        for row in rows:
            words = Counter(str(row["content"]).split())
            length = max(sum(words.values()) - words[FILLER], MIN_BM25_WORDS)
            self._counts[row["key"]] = (length, [words[name] for name in names])

    def statistics(self) -> Bm25Statistics:
        """Return how many candidates contain each term: a lower bound for words that are not published."""
        counts = [sum(words[index] > 0 for _, words in self._counts.values()) for index in range(len(self._terms))]
        return Bm25Statistics(
            document_counts={term.text: count for term, count in zip(self._terms, counts, strict=True)}
        )

    def rank(self, statistics: Bm25Statistics, dropped: Iterable[ChunkKey]) -> list[Candidate]:
        """Return the candidates with their BM25 scores, without the keys in `dropped`."""
        weights, average, dropped_keys = statistics.weights(self._terms), statistics.average, set(dropped)
        scored = (
            Candidate(
                key,
                sum(
                    weight * term_score(count, length / average) for weight, count in zip(weights, counts, strict=True)
                ),
            )
            for key, (length, counts) in self._counts.items()
            if key not in dropped_keys
        )
        return [candidate for candidate in scored if candidate.score > 0.0]


class PeerIndexes:
    """The indexes of other machines of one tenant, for one model."""

    def __init__(
        self, collections: Collections, registry: PeerRegistry, name_of: Callable[[str], str], analyser: str
    ) -> None:
        self._collections = collections
        self._registry = registry
        self._name_of = name_of
        self._analyser = analyser
        self._lock = Lock()
        self._peers: tuple[PeerIndex, ...] = ()
        self._read_at = float("-inf")
        self._fault: StoreError | None = None
        self._superseding: tuple[str, tuple[Supersession, ...]] = ("", ())
        self._locations: OrderedDict[str, str] = OrderedDict()
        """The collection in which each row was last seen."""
        self._projects: dict[str, str] = {}
        """Local projects by shared name, as far as they were queried."""

    # -- registry ----------------------------------------------------------------------------------------------------

    def active(self, home: str, *, needed: bool = False) -> tuple[PeerIndex, ...]:
        """Return the indexes that share, cached for some seconds. Raise StoreError only if the result is `needed`.

        Indexes with another analyser are excluded: our words would not match theirs.
        """
        with self._lock:
            fresh = time.monotonic() - self._read_at < PEERS_TTL_S
            if not fresh or (needed and self._fault is not None):
                try:
                    peers = self._registry.peers(home)
                    self._peers = tuple(peer for peer in peers if peer.analyser == self._analyser)
                    self._fault = None
                except StoreError as fault:
                    self._fault = None if is_missing_collection(fault) else fault
                    if is_missing_collection(fault):  # nothing was ever shared
                        self._peers = ()
                self._read_at = time.monotonic()
            if needed and self._fault is not None:
                raise self._fault
            return self._peers

    def token(self, home: str) -> str:
        """Return a token that changes with every write of other machines."""
        return " ".join(f"{peer.home}.{peer.revision}" for peer in self.active(home))

    def coverage(self, home: str, filters: Filters) -> VectorCoverage:
        """Return how many chunks other machines share in the admitted projects."""
        if filters.source_prefix:
            return VectorCoverage(0, 0)
        names = self._shared_names(filters)
        projects = [
            project
            for peer in self.active(home)
            for name, project in peer.projects.items()
            if names is None or name in names
        ]
        return VectorCoverage(sum(project.chunks for project in projects), sum(project.vectors for project in projects))

    def supersessions(self, home: str) -> tuple[Supersession, ...]:
        """Return the supersessions of other machines; the same object until they change."""
        token = self.token(home)
        if token != self._superseding[0]:
            supersessions = tuple(
                Supersession(old, new, self._local_project(name), remote=True)
                for peer in self.active(home)
                for old, new, name in peer.supersedes
            )
            self._superseding = (token, supersessions)
        return self._superseding[1]

    def statistics(self, home: str, words: Sequence[str]) -> Bm25Statistics:
        """Return BM25 statistics of other machines, empty if they are unavailable."""
        try:
            return self._registry.statistics(self.active(home), words)
        except StoreError:
            return Bm25Statistics()

    # -- chunks ------------------------------------------------------------------------------------------------------

    def search_words(self, home: str, terms: Sequence[Term], filters: Filters, limit: int) -> PeerCandidates:
        """Return rows of other machines that contain any of the terms, each text once."""
        fields = ("key", "content", "content_hash")
        query = CollectionQuery(
            field="sparse_vector", query=encode_query(terms), limit=min(limit, _MAX_CANDIDATES), fields=fields
        )
        rows = self._search(query, self._targets(home, filters), filters)
        return PeerCandidates(rows, terms)

    def search_vectors(
        self, home: str, vector: Vector, filters: Filters, limit: int
    ) -> tuple[list[Candidate], dict[ChunkKey, str]]:
        """Return rows of other machines by cosine, and each row's content hash; each text once.

        The cosine is computed by Milvus: their vectors are not here.
        """
        import numpy as np

        numbers = np.frombuffer(vector, dtype="<f4").tolist()
        targets = self._targets(home, filters, width=len(numbers))
        fields = ("key", "content_hash")
        query = CollectionQuery(field="dense_vector", query=numbers, limit=min(limit, _MAX_CANDIDATES), fields=fields)
        rows = self._search(query, targets, filters)
        return (
            [Candidate(row["key"], row["distance"]) for row in rows],
            {row["key"]: str(row["content_hash"]) for row in rows},
        )

    def cosines(self, home: str, vector: Vector, keys: Sequence[str]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these rows that has a vector."""
        import numpy as np

        query = np.frombuffer(vector, dtype="<f4")
        rows = self._read(home, keys, ("key", "has_vector", "dense_vector"), width=len(query))
        return {
            row["key"]: float(np.asarray(row["dense_vector"], dtype="<f4") @ query) for row in rows if row["has_vector"]
        }

    def fetch(self, home: str, keys: Sequence[str]) -> dict[ChunkKey, StoredChunk]:
        return {chunk.key: chunk for chunk in self._chunks(home, self._read(home, keys, READ_FIELDS))}

    def find(self, home: str, prefix: str) -> list[StoredChunk]:
        """Return shared chunks whose id or memory id has a prefix."""
        has_prefix = f"({starts_with('chunk_hash', prefix)} or {starts_with('memory', prefix)})"
        rows = self._query_all(
            self._targets(home, Filters(), needed=False),
            lambda name, target: self._collections.read(
                name, f"{target.expression} and {has_prefix}", READ_FIELDS, limit=_MAX_FOUND
            ),
        )
        chunks = {chunk.id: chunk for chunk in self._chunks(home, rows)}
        return [chunks[identity] for identity in sorted(chunks)][:_MAX_FOUND]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _shared_names(self, filters: Filters) -> set[str] | None:
        """Return the shared names of the admitted projects; None admits all."""
        if filters.projects is None:
            return None
        names = {self._name_of(project): project for project in filters.projects}
        self._projects |= {name: project for name, project in names.items() if name}
        return names.keys() - {""}

    def _local_project(self, name: str) -> str:
        """Return the local project with a shared name, or the name itself if none was queried."""
        return self._projects.get(name, name)

    def _targets(self, home: str, filters: Filters, *, width: int = 0, needed: bool = True) -> dict[str, PeerRows]:
        """Return the rows to search, by collection. A source prefix admits none: paths differ between machines."""
        if filters.source_prefix:
            return {}
        names = self._shared_names(filters)
        by_collection: dict[str, tuple[set[str], set[str]]] = {}
        for peer in self.active(home, needed=needed):
            for name, project in peer.projects.items():
                if (names is None or name in names) and width in (0, peer.width):
                    homes, shared_names = by_collection.setdefault(project.collection, (set(), set()))
                    homes.add(peer.home)
                    shared_names.add(name)
        return {
            name: PeerRows(shared_by(sorted(homes), sorted(shared_names)), len(homes) > 1)
            for name, (homes, shared_names) in by_collection.items()
        }

    def _search(self, query: CollectionQuery, targets: Mapping[str, PeerRows], filters: Filters) -> list[Row]:
        """Run a query, whose expression is set for each target, and return the best rows of all, each text once."""

        def search(name: str, target: PeerRows) -> list[Row]:
            expression = filter_expression(filters, target.expression, embedded=query.field == "dense_vector")
            # Copies of one file would fill the list. With one machine there is no need: rows that it shares with this one
            # rank as high in our own list. And grouping is slow: four times as long with Milvus Lite.
            distinct = "content_hash" if target.is_shared else ""
            own_query = replace(query, expression=expression, distinct=distinct)
            try:
                return self._collections.search([name], own_query)
            except StoreError as fault:
                if not distinct or type(fault) is not StoreError:
                    raise
                # Servers before 2.6 cannot group a BM25 search.
                return self._collections.search([name], replace(own_query, distinct=""))

        rows = self._query_all(targets, search)
        self._cache_locations(rows)
        # Milvus Lite returns BM25 as a negative number; within one collection a larger magnitude is better.
        is_bm25 = query.field == "sparse_vector"
        rows.sort(key=lambda row: (-abs(row["distance"]) if is_bm25 else -row["distance"], row["key"]))
        distinct = {row["content_hash"]: row for row in reversed(rows)}
        best = sorted(distinct.values(), key=rows.index) if len(distinct) < len(rows) else rows
        return best[: query.limit]

    def _query_all(self, targets: Mapping[str, PeerRows], query: Callable[[str, PeerRows], list[Row]]) -> list[Row]:
        """Return the rows of all collections; a missing collection has just been dropped by its owner."""

        def attempt(name: str, target: PeerRows) -> list[Row]:
            try:
                return [{**row, "collection": name} for row in query(name, target)]
            except StoreError as fault:
                if is_missing_collection(fault):
                    return []
                raise

        results = run_parallel([partial(attempt, name, target) for name, target in targets.items()])
        return [row for rows in results for row in rows]

    def _read(self, home: str, keys: Sequence[str], fields: Sequence[str], *, width: int = 0) -> list[Row]:
        """Return rows by key, from indexes that still share. Keys come from a search, which cached their locations."""
        sharing = {peer.home for peer in self.active(home) if width in (0, peer.width)}
        keys_by_name: dict[str, list[str]] = {}
        with self._lock:
            for key in keys:
                if key in self._locations and key.partition(":")[0] in sharing:
                    keys_by_name.setdefault(self._locations[key], []).append(key)
        targets = {
            name: PeerRows(f"{in_values('key', own)} and shared != {quote('')}") for name, own in keys_by_name.items()
        }
        return self._query_all(targets, lambda name, target: self._collections.read(name, target.expression, fields))

    def _cache_locations(self, rows: Iterable[Row]) -> None:
        with self._lock:
            for row in rows:
                self._locations[row["key"]] = row["collection"]
                self._locations.move_to_end(row["key"])
            while len(self._locations) > _CACHED_LOCATIONS:
                self._locations.popitem(last=False)

    def _chunks(self, home: str, rows: Iterable[Row]) -> list[StoredChunk]:
        machines = {peer.home: peer.machine for peer in self.active(home)}
        chunks = (
            read_row(row, machines[row["home"]], self._local_project(str(row["shared"])))
            for row in rows
            if row["home"] in machines
        )
        return [chunk for chunk in chunks if chunk is not None]
