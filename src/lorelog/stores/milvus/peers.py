"""Memories of other machines in the same Milvus: the registry in which machines publish what they share, and the search in it.

Each index has a few rows in one collection of its tenant and model. An index in the registry shares its rows; after it leaves,
others no longer find them. Searched are only the projects that another machine shares and the filters admit, and only if its index
uses the same analyser and model. Chunks are read from Milvus each time, so one that is deleted there disappears here. What machines
publish is cached for `PEERS_TTL_S`. The indexes of other machines are never written to.
"""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import urandom
from threading import Lock
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.errors import StoreError
from lorelog.core.ports import Supersession, Vector, group_by
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage
from lorelog.stores.milvus import schema
from lorelog.stores.milvus.client import CollectionMissing, Collections, run_parallel

PEERS_TTL_S = 10.0
"""How long the published state of other machines is cached in a long-running process."""
_MAX_FOUND = 10
"""Chunks that `find` returns."""
_CACHED_LOCATIONS = 50_000
_MAX_CANDIDATES = 16_384


class PeerRows(NamedTuple):
    """The rows to search in a collection."""

    expression: str
    is_shared: bool = False
    """Whether several machines have rows there, so that the same text may be repeated."""


class PeerCandidates(NamedTuple):
    """Rows of other machines, best first, each text once."""

    candidates: list[Candidate]
    contents: dict[ChunkKey, str]
    """Content hash of each."""


class PeerIndexes:
    """The indexes of other machines of one tenant, for one model."""

    def __init__(
        self, registry: PeerRegistry, home: Callable[[], str], name_of: Callable[[str], str], analyser: str
    ) -> None:
        """`home` returns the identity of this machine's index, `name_of` the name that all machines use for a project."""
        self._collections = registry.collections
        self._registry = registry
        self._home = home
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
        """Local projects by shared name, as far as they were queried; the name itself stands for any other."""

    # -- registry ----------------------------------------------------------------------------------------------------

    def active(self, *, needed: bool = False) -> tuple[PeerIndex, ...]:
        """Return the indexes that share, cached for some seconds. Raise StoreError only if the result is `needed`.

        Indexes with another analyser are excluded: our words would not match theirs.
        """
        with self._lock:
            fresh = time.monotonic() - self._read_at < PEERS_TTL_S
            if not fresh or (needed and self._fault is not None):
                try:
                    peers = self._registry.peers(self._home())
                    self._peers = tuple(peer for peer in peers if peer.analyser == self._analyser)
                    self._fault = None
                except CollectionMissing:  # nothing was ever shared
                    self._peers, self._fault = (), None
                except StoreError as fault:
                    self._fault = fault
                self._read_at = time.monotonic()
            if needed and self._fault is not None:
                raise self._fault
            return self._peers

    def token(self) -> str:
        """Return a token that changes with every write of other machines."""
        return " ".join(f"{peer.home}.{peer.revision}" for peer in self.active())

    def coverage(self, filters: Filters) -> VectorCoverage:
        """Return how many chunks other machines share in the admitted projects."""
        if filters.source_prefix:
            return VectorCoverage(0, 0)
        names = self._shared_names(filters)
        projects = [
            project
            for peer in self.active()
            for name, project in peer.projects.items()
            if names is None or name in names
        ]
        return VectorCoverage(sum(project.chunks for project in projects), sum(project.vectors for project in projects))

    def supersessions(self) -> tuple[Supersession, ...]:
        """Return the supersessions of other machines; the same object until they change."""
        token = self.token()
        if token != self._superseding[0]:
            supersessions = tuple(
                Supersession(old, new, self._projects.get(name, name), remote=True)
                for peer in self.active()
                for old, new, name in peer.supersedes
            )
            self._superseding = (token, supersessions)
        return self._superseding[1]

    def collection_names(self) -> set[str]:
        """Return the collections that hold rows which other machines share."""
        return {project.collection for peer in self.active() for project in peer.projects.values()}

    # -- chunks ------------------------------------------------------------------------------------------------------

    def search_words(self, terms: Sequence[Term], filters: Filters, limit: int) -> PeerCandidates:
        """Return rows of other machines that contain any of the terms, by Milvus' BM25."""
        return self._search("sparse_vector", schema.encode_query(terms), self._targets(filters), filters, limit)

    def search_vectors(self, vector: Vector, filters: Filters, limit: int) -> PeerCandidates:
        """Return rows of other machines by cosine, which Milvus computes: their vectors are not here."""
        import numpy as np

        numbers = np.frombuffer(vector, dtype="<f4").tolist()
        targets = self._targets(filters, width=len(numbers))
        return self._search("dense_vector", numbers, targets, filters, limit)

    def cosines(self, vector: Vector, keys: Sequence[str]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these rows that has a vector."""
        import numpy as np

        query = np.frombuffer(vector, dtype="<f4")
        rows = self._read(keys, ("key", "has_vector", "dense_vector"), width=len(query))
        return {
            row["key"]: float(np.asarray(row["dense_vector"], dtype="<f4") @ query) for row in rows if row["has_vector"]
        }

    def fetch(self, keys: Sequence[str]) -> dict[ChunkKey, StoredChunk]:
        return {chunk.key: chunk for chunk in self._chunks(self._read(keys, schema.READ_FIELDS))}

    def find(self, prefix: str) -> list[StoredChunk]:
        """Return shared chunks whose id or memory id has a prefix."""
        has_prefix = f"({schema.starts_with('chunk_hash', prefix)} or {schema.starts_with('memory', prefix)})"
        rows = self._query_all(
            self._targets(Filters(), needed=False),
            lambda name, target: self._collections.read(
                name, f"{target.expression} and {has_prefix}", schema.READ_FIELDS, limit=_MAX_FOUND
            ),
        )
        chunks = {chunk.id: chunk for chunk in self._chunks(rows)}
        return [chunks[identity] for identity in sorted(chunks)][:_MAX_FOUND]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _shared_names(self, filters: Filters) -> set[str] | None:
        """Return the shared names of the admitted projects; None admits all."""
        if filters.projects is None:
            return None
        names = {self._name_of(project): project for project in filters.projects}
        self._projects |= {name: project for name, project in names.items() if name}
        return names.keys() - {""}

    def _targets(self, filters: Filters, *, width: int = 0, needed: bool = True) -> dict[str, PeerRows]:
        """Return the rows to search, by collection. A source prefix admits none: paths differ between machines."""
        if filters.source_prefix:
            return {}
        names = self._shared_names(filters)
        by_collection: dict[str, tuple[set[str], set[str]]] = {}
        for peer in self.active(needed=needed):
            for name, project in peer.projects.items():
                if (names is None or name in names) and width in (0, peer.width):
                    homes, shared_names = by_collection.setdefault(project.collection, (set(), set()))
                    homes.add(peer.home)
                    shared_names.add(name)
        return {
            name: PeerRows(schema.shared_by(sorted(homes), sorted(shared_names)), len(homes) > 1)
            for name, (homes, shared_names) in by_collection.items()
        }

    def _search(
        self, field: str, value: Any, targets: Mapping[str, PeerRows], filters: Filters, limit: int
    ) -> PeerCandidates:
        """Return the best rows of all targets, each text once."""
        limit = min(limit, _MAX_CANDIDATES)

        def search(name: str, target: PeerRows) -> list[schema.Row]:
            expression = schema.filter_expression(filters, target.expression, embedded=field == "dense_vector")
            # Copies of one file would fill the list. With one machine there is no need: rows that it shares with this one
            # rank as high in our own list. And grouping is slow: four times as long with Milvus Lite.
            grouping = {"group_by_field": "content_hash"} if target.is_shared else {}
            options = {"filter": expression, "output_fields": ["key", "content_hash"]}
            try:
                return self._collections.search([name], field, value, limit, **options, **grouping)
            except StoreError as fault:
                if not grouping or type(fault) is not StoreError:
                    raise
                # Servers before 2.6 cannot group a BM25 search.
                return self._collections.search([name], field, value, limit, **options)

        rows = self._query_all(targets, search)
        with self._lock:
            for row in rows:
                self._locations[row["key"]] = row["collection"]
                self._locations.move_to_end(row["key"])
            while len(self._locations) > _CACHED_LOCATIONS:
                self._locations.popitem(last=False)
        rows.sort(key=lambda row: (-row["distance"], row["key"]))
        distinct = {row["content_hash"]: row for row in reversed(rows)}
        best = sorted(distinct.values(), key=rows.index)[:limit]
        return PeerCandidates(
            [Candidate(row["key"], row["distance"]) for row in best],
            {row["key"]: str(row["content_hash"]) for row in best},
        )

    def _query_all(
        self, targets: Mapping[str, PeerRows], query: Callable[[str, PeerRows], list[schema.Row]]
    ) -> list[schema.Row]:
        """Return the rows of all collections; a missing collection has just been dropped by its owner."""

        def attempt(name: str, target: PeerRows) -> list[schema.Row]:
            try:
                return [{**row, "collection": name} for row in query(name, target)]
            except CollectionMissing:
                return []

        results = run_parallel([partial(attempt, name, target) for name, target in targets.items()])
        return [row for rows in results for row in rows]

    def _read(self, keys: Sequence[str], fields: Sequence[str], *, width: int = 0) -> list[schema.Row]:
        """Return rows by key, from indexes that still share. Keys come from a search, which cached their locations."""
        sharing = {peer.home for peer in self.active() if width in (0, peer.width)}
        with self._lock:
            known = (key for key in keys if key in self._locations and key.partition(":")[0] in sharing)
            keys_by_name = group_by(known, self._locations.__getitem__)
        targets = {
            name: PeerRows(f"{schema.in_values('key', own)} and shared != {schema.quote('')}")
            for name, own in keys_by_name.items()
        }
        return self._query_all(targets, lambda name, target: self._collections.read(name, target.expression, fields))

    def _chunks(self, rows: Iterable[schema.Row]) -> list[StoredChunk]:
        machines = {peer.home: peer.machine for peer in self.active()}
        chunks = (
            schema.read_row(row, machines[row["home"]], self._projects.get(str(row["shared"]), str(row["shared"])))
            for row in rows
            if row["home"] in machines
        )
        return [chunk for chunk in chunks if chunk is not None]


_PART_LETTERS = 60_000
_UNSAFE_IN_NAME = re.compile(r"[^\w.-]+")


class SharedProject(NamedTuple):
    """Where an index keeps the chunks of a shared project, and how many there are."""

    collection: str
    chunks: int
    vectors: int


class PeerIndex(Struct, frozen=True, kw_only=True):
    """The published description of an index."""

    machine: str
    analyser: str
    width: int
    projects: Mapping[str, SharedProject]
    """By shared name."""
    supersedes: tuple[tuple[str, str, str], ...] = ()
    """Old memory id, new memory id, and the project's shared name."""
    home: str = ""
    revision: str = ""
    """Changes with every write."""


class PeerRegistry:
    """The collection that holds the registry."""

    def __init__(self, collections: Collections, prefix: str, tenant: str, space: str) -> None:
        self.name = schema.registry_name(prefix, tenant, space)
        self._is_ours = partial(schema.is_collection_of, tenant=tenant, space=space)
        self.collections = collections

    def publish(self, index: PeerIndex, parts_before: int) -> int:
        """Replace the published description, which had some parts before; return the number of its parts."""
        self.collections.ensure(self.name, schema.UNKNOWN_WIDTH)
        description = json.dumps(msgspec.to_builtins(index))  # in ASCII, so that letters are bytes
        parts = [description[start : start + _PART_LETTERS] for start in range(0, len(description), _PART_LETTERS)]
        revision = urandom(8).hex()
        rows = [
            {
                **schema.text_row(index.home, number, text, schema.UNKNOWN_WIDTH),
                "heading": revision,
                "heading_level": len(parts),
            }
            for number, text in enumerate(parts)
        ]
        self.collections.send(self.name, rows)
        surplus = range(len(parts), parts_before)
        self.collections.delete(self.name, [schema.row_key(index.home, number) for number in surplus])
        return len(parts)

    def is_published(self, home: str) -> bool:
        try:
            return bool(self.collections.read(self.name, schema.in_values("key", [schema.row_key(home, 0)]), ["key"]))
        except CollectionMissing:
            return False

    def peers(self, home: str) -> list[PeerIndex]:
        """Return the descriptions of all other indexes, without those that are being written or cannot be parsed."""
        rows = self.collections.read(
            self.name, f"home != {schema.quote(home)} and row >= 0", ["home", "row", "text", "heading", "heading_level"]
        )
        by_home: dict[str, list[schema.Row]] = group_by(rows, lambda row: row["home"])
        peers = (self._parse_peer(peer_home, peer_rows) for peer_home, peer_rows in sorted(by_home.items()))
        return [peer for peer in peers if peer is not None]

    def _parse_peer(self, home: str, rows: list[schema.Row]) -> PeerIndex | None:
        rows.sort(key=lambda row: int(row["row"]))
        revision = rows[0]["heading"]
        if len(rows) != rows[0]["heading_level"] or any(row["heading"] != revision for row in rows):
            return None
        try:
            index = msgspec.json.decode("".join(row["text"] for row in rows), type=PeerIndex)
        except msgspec.DecodeError:
            return None
        # Only collections of our own tenant and model are accepted from another machine.
        projects = {
            name: project for name, project in index.projects.items() if name and self._is_ours(project.collection)
        }
        return replace(index, machine=machine_name(index.machine), projects=projects, home=home, revision=str(revision))


def machine_name(name: str) -> str:
    """Return a machine's name in a form that is safe before a path."""
    return _UNSAFE_IN_NAME.sub("-", name).strip("-.")[:64] or "unnamed"
