"""What other machines keep in the same Milvus: found by the same questions, of the same projects, and never written to.

Only indexes that share are asked, only of the projects that a search admits, and only those that cut words and make vectors as this one does.
Nothing of it is kept here beyond a moment: who deletes a chunk there takes it away here, too.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from lorelog.core.document import Key, StoredChunk
from lorelog.core.errors import StoreError
from lorelog.core.ports import SHORT, Supersession, Vector
from lorelog.core.query import Candidate, Coverage, Filters, Term
from lorelog.stores.milvus.bm25 import Statistics, gain
from lorelog.stores.milvus.collections import Asked, Collections, at_once
from lorelog.stores.milvus.faults import is_gone
from lorelog.stores.milvus.filters import begins, expression, one_of, quoted, shared
from lorelog.stores.milvus.registry import Registry, Told
from lorelog.stores.milvus.rows import READ, Row, read_row
from lorelog.stores.milvus.tokens import FILLER, asked_as, token

KNOWN_FOR_S = 10.0
"""How long what others say of themselves is taken for true: a process that goes on sees what they wrote after that."""
_MOST_FOUND = 10
_PLACES_KEPT = 50_000
_MOST_CANDIDATES = 16_384


class Sharing(NamedTuple):
    """Whose rows are meant in a collection."""

    whose: str
    """As a filter."""
    several: bool = False
    """Whether several machines have rows there, and so perhaps the same text more than once."""


class Proposal:
    """What others propose for words, to be scored once everything is known that their weights depend on."""

    def __init__(self, rows: Sequence[Row], terms: Sequence[Term]) -> None:
        names = [token(term.text) for term in terms]
        self._terms = terms
        self.contents = {row["key"]: str(row["content_hash"]) for row in rows}
        self._counts: dict[str, tuple[int, list[int]]] = {}
        # A text too long for the field has each of its words once there, and so another score than at home.
        for row in rows:
            words = Counter(str(row["content"]).split())
            length = max(sum(words.values()) - words[FILLER], SHORT)
            self._counts[row["key"]] = (length, [words[name] for name in names])

    def seen(self) -> Statistics:
        """Return how many of these hold each term: a word that pages do not name is held by those at least."""
        holding = [sum(counts[place] > 0 for _, counts in self._counts.values()) for place in range(len(self._terms))]
        return Statistics(holds={term.text: many for term, many in zip(self._terms, holding, strict=True)})

    def scored(self, known: Statistics, dropped: Iterable[Key]) -> list[Candidate]:
        """Return the candidates with their BM25; those in `dropped` are left out."""
        weights, average, left_out = known.weights(self._terms), known.average, set(dropped)
        scored = (
            Candidate(
                key, sum(weight * gain(count, length / average) for weight, count in zip(weights, counts, strict=True))
            )
            for key, (length, counts) in self._counts.items()
            if key not in left_out
        )
        return [one for one in scored if one.score > 0.0]


class Others:
    """The other machines of one tenant, as one model sees them."""

    def __init__(
        self, collections: Collections, registry: Registry, name_of: Callable[[str], str], analyser: str
    ) -> None:
        self._collections = collections
        self._registry = registry
        self._name_of = name_of
        self._analyser = analyser
        self._lock = Lock()
        self._known: tuple[Told, ...] = ()
        self._asked_at = float("-inf")
        self._fault: StoreError | None = None
        self._superseding: tuple[str, tuple[Supersession, ...]] = ("", ())
        self._places: OrderedDict[str, str] = OrderedDict()
        """In which collection a row was last found."""
        self._projects: dict[str, str] = {}
        """The projects here that were asked about, by the name that all machines have for them."""

    # -- who they are ------------------------------------------------------------------------------------------------

    def known(self, home: str, *, needed: bool = False) -> tuple[Told, ...]:
        """Return who shares anything, as they were some seconds ago; raise StoreError only where it is `needed` to know.

        Whatever else they say, those of another analyser have words that ours would not find.
        """
        with self._lock:
            fresh = time.monotonic() - self._asked_at < KNOWN_FOR_S
            if not fresh or (needed and self._fault is not None):
                try:
                    told = self._registry.others(home)
                    self._known = tuple(one for one in told if one.analyser == self._analyser)
                    self._fault = None
                except StoreError as fault:
                    self._fault = None if is_gone(fault) else fault
                    if is_gone(fault):  # nobody has ever shared anything
                        self._known = ()
                self._asked_at = time.monotonic()
            if needed and self._fault is not None:
                raise self._fault
            return self._known

    def look_again(self) -> None:
        """Ask anew when next asked."""
        with self._lock:
            self._asked_at = float("-inf")

    def token(self, home: str) -> str:
        """Return what changes with everything that others write."""
        return " ".join(f"{one.home}.{one.revision}" for one in self.known(home))

    def coverage(self, home: str, filters: Filters) -> Coverage:
        """Return how many chunks others share of the admitted projects."""
        if filters.source_prefix:
            return Coverage(0, 0)
        names = self._names(filters)
        places = [
            place for one in self.known(home) for name, place in one.projects.items() if names is None or name in names
        ]
        return Coverage(sum(place.chunks for place in places), sum(place.vectors for place in places))

    def supersessions(self, home: str) -> tuple[Supersession, ...]:
        """Return what others say to be superseded; the same object while it is the same."""
        told = self.token(home)
        if told != self._superseding[0]:
            said = tuple(
                Supersession(old, new, self._project(name), elsewhere=True)
                for one in self.known(home)
                for old, new, name in one.supersedes
            )
            self._superseding = (told, said)
        return self._superseding[1]

    def statistics(self, home: str, words: Sequence[str]) -> Statistics:
        """Return what BM25 must know of others' chunks; nothing where that cannot be had now."""
        try:
            return self._registry.statistics(self.known(home), words)
        except StoreError:
            return Statistics()

    # -- what they have ----------------------------------------------------------------------------------------------

    def words(self, home: str, terms: Sequence[Term], filters: Filters, limit: int) -> Proposal:
        """Return rows of others that contain any of the terms, each text once."""
        fields = ("key", "content", "content_hash")
        rows = self._search("sparse_vector", asked_as(terms), self._asked(home, filters), filters, limit, fields)
        return Proposal(rows, terms)

    def near(self, home: str, vector: Vector, filters: Filters, limit: int) -> tuple[list[Candidate], dict[Key, str]]:
        """Return rows of others by cosine, and the hash of what each says: each text once.

        The cosine is Milvus' own: their vectors are not here.
        """
        import numpy as np

        question = np.frombuffer(vector, dtype="<f4").tolist()
        asked = self._asked(home, filters, width=len(question))
        rows = self._search("dense_vector", question, asked, filters, limit, ("key", "content_hash"))
        return (
            [Candidate(row["key"], row["distance"]) for row in rows],
            {row["key"]: str(row["content_hash"]) for row in rows},
        )

    def cosines(self, home: str, vector: Vector, keys: Sequence[str]) -> dict[Key, float]:
        """Return the cosine of each of these rows that has a vector."""
        import numpy as np

        question = np.frombuffer(vector, dtype="<f4")
        rows = self._read(home, keys, ("key", "has_vector", "dense_vector"), width=len(question))
        return {
            row["key"]: float(np.asarray(row["dense_vector"], dtype="<f4") @ question)
            for row in rows
            if row["has_vector"]
        }

    def fetch(self, home: str, keys: Sequence[str]) -> dict[Key, StoredChunk]:
        """Return the chunks still there under these keys."""
        return {one.key: one for one in self._chunks(home, self._read(home, keys, READ))}

    def find(self, home: str, prefix: str) -> list[StoredChunk]:
        """Return chunks of all that others share whose id, or whose memory's id, starts so."""
        named = f"({begins('chunk_hash', prefix)} or {begins('memory', prefix)})"
        asked = self._asked(home, Filters(), needed=False)
        rows = self._ask(
            asked,
            lambda name, them: self._collections.read(name, f"{them.whose} and {named}", READ, most=_MOST_FOUND),
        )
        found = {one.id: one for one in self._chunks(home, rows)}
        return [found[identity] for identity in sorted(found)][:_MOST_FOUND]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _names(self, filters: Filters) -> set[str] | None:
        """Return what all machines call the admitted projects; None admits all."""
        if filters.projects is None:
            return None
        names = {self._name_of(project): project for project in filters.projects}
        self._projects |= {name: project for name, project in names.items() if name}
        return names.keys() - {""}

    def _project(self, name: str) -> str:
        """Return the project here that has this name, or the name where nobody has asked about one."""
        return self._projects.get(name, name)

    def _asked(self, home: str, filters: Filters, *, width: int = 0, needed: bool = True) -> dict[str, Sharing]:
        """Return what to ask of which collection: whose rows of which projects. A path here names no file elsewhere."""
        if filters.source_prefix:
            return {}
        names = self._names(filters)
        by_collection: dict[str, tuple[set[str], set[str]]] = {}
        for one in self.known(home, needed=needed):
            for name, place in one.projects.items():
                if (names is None or name in names) and width in (0, one.width):
                    homes, wanted = by_collection.setdefault(place.collection, (set(), set()))
                    homes.add(one.home)
                    wanted.add(name)
        return {
            name: Sharing(shared(sorted(homes), sorted(wanted)), len(homes) > 1)
            for name, (homes, wanted) in by_collection.items()
        }

    def _search(
        self,
        field: str,
        question: Any,
        asked: Mapping[str, Sharing],
        filters: Filters,
        limit: int,
        fields: tuple[str, ...],
    ) -> list[Row]:
        most = min(limit, _MOST_CANDIDATES)

        def search(name: str, them: Sharing) -> list[Row]:
            admitted = expression(filters, them.whose, embedded=field == "dense_vector")
            # Copies of one file would fill the list. Where one machine has them there is no need: what it has in common with
            # this one is as high in the own list. And to leave repeats out is work: four times as long with Milvus Lite.
            distinct = "content_hash" if them.several else ""
            asked = Asked(field, question, admitted, most, fields=fields, distinct=distinct)
            try:
                return self._collections.search([name], asked)
            except StoreError as fault:
                if not distinct or type(fault) is not StoreError:
                    raise
                # A server of before 2.6 groups no words.
                return self._collections.search([name], replace(asked, distinct=""))

        rows = self._ask(asked, search)
        self._note_places(rows)
        # Milvus Lite tells BM25 as a negative number; what counts is that more of it is better within one collection.
        rows.sort(key=lambda row: (-abs(row["distance"]) if field == "sparse_vector" else -row["distance"], row["key"]))
        distinct = {row["content_hash"]: row for row in reversed(rows)}
        return sorted(distinct.values(), key=rows.index)[:most] if len(distinct) < len(rows) else rows[:most]

    def _ask(self, asked: Mapping[str, Sharing], ask: Callable[[str, Sharing], list[Row]]) -> list[Row]:
        """Return what all collections answer; one that is gone has just been left by its owner."""

        def attempt(name: str, them: Sharing) -> list[Row]:
            try:
                return [{**row, "collection": name} for row in ask(name, them)]
            except StoreError as fault:
                if is_gone(fault):
                    return []
                raise

        found = at_once([partial(attempt, name, them) for name, them in asked.items()])
        return [row for rows in found for row in rows]

    def _read(self, home: str, keys: Sequence[str], fields: Sequence[str], *, width: int = 0) -> list[Row]:
        """Return rows by key, of those who still share. Keys come from a search, which has noted where they are."""
        sharing = {one.home for one in self.known(home) if width in (0, one.width)}
        wanted: dict[str, list[str]] = {}
        with self._lock:
            for key in keys:
                if key in self._places and key.partition(":")[0] in sharing:
                    wanted.setdefault(self._places[key], []).append(key)
        asked = {name: Sharing(f"{one_of('key', found)} and shared != {quoted('')}") for name, found in wanted.items()}
        return self._ask(asked, lambda name, them: self._collections.read(name, them.whose, fields))

    def _note_places(self, rows: Iterable[Row]) -> None:
        with self._lock:
            for row in rows:
                self._places[row["key"]] = row["collection"]
                self._places.move_to_end(row["key"])
            while len(self._places) > _PLACES_KEPT:
                self._places.popitem(last=False)

    def _chunks(self, home: str, rows: Iterable[Row]) -> list[StoredChunk]:
        machines = {one.home: one.machine for one in self.known(home)}
        read = (
            read_row(row, machines[row["home"]], self._project(str(row["shared"])))
            for row in rows
            if row["home"] in machines
        )
        return [one for one in read if one is not None]
