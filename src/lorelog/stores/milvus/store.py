"""The Milvus store itself: the catalog here, its lanes there."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lorelog.core.document import Key, StoredChunk
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable
from lorelog.core.options import StoreOptions
from lorelog.core.ports import Analyser, Comparison, StoreWriter, Supersession, Vector
from lorelog.core.query import Candidate, Coverage, Filters, Term
from lorelog.stores.embedded.catalog_store import CatalogStore
from lorelog.stores.embedded.faults import translating
from lorelog.stores.embedded.lanes import FollowingLane
from lorelog.stores.embedded.lock import hold
from lorelog.stores.embedded.reading import CatalogReader
from lorelog.stores.embedded.writing import EmbeddedWriter
from lorelog.stores.milvus.bm25 import Statistics
from lorelog.stores.milvus.collections import Collections, at_once
from lorelog.stores.milvus.comparing import Differences
from lorelog.stores.milvus.faults import is_gone
from lorelog.stores.milvus.lanes import MilvusLanes
from lorelog.stores.milvus.lexicon import Lexicon
from lorelog.stores.milvus.others import Others, Proposal
from lorelog.stores.milvus.registry import Registry, machine_name
from lorelog.stores.milvus.remote import Remote
from lorelog.stores.milvus.sharing import Whose, nameless
from lorelog.stores.milvus.state import Places

Answer = TypeVar("Answer")

_WAIT_TO_LEAVE_S = 10.0


class MilvusStore(CatalogStore):
    """An index whose catalog is in one folder and whose words and vectors are in a Milvus."""

    def __init__(  # noqa: PLR0913
        self,
        folder: Path,
        analyser: Analyser,
        options: StoreOptions,
        *,
        tenant: str,
        provider: str,
        model: str,
        name_of: Callable[[str], str] = nameless,
    ) -> None:
        """`name_of` tells what all machines call a project."""
        super().__init__(folder, provider=provider, model=model)
        self._options = options
        self._tenant = tenant
        self._version = analyser.version
        self._name_of = name_of
        self._remote = Remote(options)
        self._places = Places(folder / "milvus", options.uri)
        self._lexicon = Lexicon(folder / "milvus" / "words.db", analyser)
        self._lanes: dict[str, MilvusLanes] = {}
        self._strangers: dict[str, Others] = {}
        self._told: tuple[tuple[Supersession, ...], tuple[Supersession, ...], tuple[Supersession, ...]] = ((), (), ())

    # -- lanes -------------------------------------------------------------------------------------------------------

    def lexical(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks that contain any of the terms, best BM25 first, at most `limit`."""
        return self.propose(terms, None, filters, limit)[0]

    def dense(self, vector: Vector, filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks by cosine with a unit vector, best first, at most `limit`.

        Milvus proposes them; the cosines are those with the catalog's own vectors, whatever an index there rounds.
        """
        return self.propose((), vector, filters, limit)[1]

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return what both lanes propose. All that has to be asked of Milvus is asked at once, and takes as long as the slowest."""
        asked = self._questions(terms, vector, filters, limit) if limit > 0 else {}
        found = self._whole(lambda: dict(zip(asked, at_once(list(asked.values())), strict=True)))
        near: list[Candidate] = []
        if vector is not None and "vectors" in found:
            near += [Candidate(row, score) for row, score in self.similarities(vector, found["vectors"]).items()]
        if "their vectors" in found:
            theirs, contents = found["their vectors"]
            known = self._said_here(contents, filters)
            near += [one for one in theirs if one.key not in known]
        return self._scored(terms, found, filters)[:limit], _ranked(near)[:limit]

    def _questions(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> dict[str, Callable[[], Any]]:
        """Return what has to be asked of Milvus, by name. A vector that does not fit is told before anything is."""
        asked: dict[str, Callable[[], Any]] = {}
        with self._reading() as catalog:
            if catalog is not None:
                lanes = self._ready(catalog)
                own = Filters() if catalog.admission(filters) is None else filters
                if terms:
                    asked["words"] = partial(lanes.search_words, terms, own, limit)
                if vector is not None and catalog.is_current_space() and lanes.holds_vectors(vector):
                    asked["vectors"] = partial(lanes.search_vectors, vector, own, limit)
        others, home = self._others(), self._home()
        if others is not None and terms:
            asked["their words"] = partial(others.words, home, terms, filters, limit)
            asked["their statistics"] = partial(others.statistics, home, [term.text for term in terms])
        if others is not None and vector is not None:
            asked["their vectors"] = partial(others.near, home, vector, filters, limit)
        return asked

    def reach(self, filters: Filters) -> Coverage:
        """Return how many chunks the lanes find, other machines' among them, and how many by meaning."""
        here, others = self.coverage(filters), self._others()
        there = Coverage(0, 0) if others is None else others.coverage(self._home(), filters)
        return Coverage(here.chunks + there.chunks, here.with_vectors + there.with_vectors)

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word."""
        with self._reading() as catalog:
            if catalog is not None:
                self._ready(catalog)
        known = self._statistics(list(dict.fromkeys(words)))
        return {word: known.rarity(word) for word in words}

    def similarities(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each of these chunks that has a vector."""
        others = self._others()
        there = [key for key in keys if isinstance(key, str)]
        found = others.cosines(self._home(), vector, there) if others is not None and there else {}
        with self._reading() as catalog:
            if catalog is None or len(there) == len(keys):
                return found
            if not self._lanes_of(catalog.space)[0].holds_vectors(vector):
                return found
            vectors = catalog.vectors([key for key in keys if isinstance(key, int)])
        if not vectors:
            return found
        import numpy as np

        matrix = np.frombuffer(b"".join(vectors.values()), dtype="<f4").reshape(len(vectors), -1)
        cosines = matrix @ np.frombuffer(vector, dtype="<f4")
        return {**dict(zip(vectors, cosines.tolist(), strict=True)), **found}

    # -- what others have --------------------------------------------------------------------------------------------

    def fetch(self, keys: Sequence[Key]) -> dict[Key, StoredChunk]:
        """Return the chunks still there under these keys."""
        others, there = self._others(), [key for key in keys if isinstance(key, str)]
        found = super().fetch([key for key in keys if isinstance(key, int)])
        return found if others is None or not there else {**found, **others.fetch(self._home(), there)}

    def find_elsewhere(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks of other machines whose id, or whose memory's id, starts so."""
        others = self._others()
        return others.find(self._home(), id_prefix) if others is not None and id_prefix else []

    def supersessions(self) -> tuple[Supersession, ...]:
        """Return what anchors say to be superseded, here and elsewhere, oldest word first; kept while it is the same."""
        here, others = super().supersessions(), self._others()
        if others is None:
            return here
        there = others.supersessions(self._home())
        if self._told[0] is not here or self._told[1] is not there:
            self._told = (here, there, (*there, *here))
        return self._told[2]

    def revision(self) -> str:
        """Return a token that changes with every completed write of any process here, and soon after those of other machines."""
        others = self._others()
        return super().revision() if others is None else f"{super().revision()} {others.token(self._home())}"

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        """Become the one writer; whoever shares what is written is told of it at the end."""
        with super().writer(wait_s=wait_s, take_over=take_over) as writer:
            yield writer
            assert isinstance(writer, EmbeddedWriter)  # noqa: S101  (a catalog's store makes no other)
            self._lanes_of(writer.catalog.fact("space") or self._space)[0].tell(writer.catalog)

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

    @property
    def place(self) -> str:
        """Where the rows are."""
        return self._remote.place

    def leave(self) -> None:
        """Delete all rows of this index there, and stop telling others of them. Raise StoreError where that cannot be done now."""
        with translating(self._folder), hold(self._lock, wait_s=_WAIT_TO_LEAVE_S):
            self._remote.ask(lambda client: client.list_collections())  # whoever is not there is not left
            self._lanes_of(self._space)[0].leave()

    def close(self) -> None:
        """Let go of files and of the connection. May be called twice."""
        super().close()
        self._remote.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _lanes_of(self, space: str) -> tuple[MilvusLanes, MilvusLanes]:
        """Return the lanes of a model, which are one: a chunk's words and its vector stand in one row."""
        if space not in self._lanes:
            machine = machine_name(platform.node()) if self._options.shared else ""
            whose = Whose(
                self._tenant, space, self._version, self._options.per_project, self._name_of, self._folder, machine
            )
            self._lanes[space] = MilvusLanes(self._places, self._remote, self._lexicon, whose)
        return self._lanes[space], self._lanes[space]

    def _ready(self, catalog: CatalogReader) -> MilvusLanes:
        """Return the lanes of the model that the index serves, pushed anew where they are missing."""
        lanes = self._lanes_of(catalog.fact("space") or self._space)[0]
        self._repair(catalog, lanes)
        if not lanes.is_told():
            with suppress(StoreBusy, StoreUnwritable), self.writer(wait_s=0):
                pass
        return lanes

    def _others(self) -> Others | None:
        """Return the other machines whose chunks are found here; None where none are to be."""
        if not self._options.shared:
            return None
        with self._reading() as catalog:
            space = self._space if catalog is None else catalog.space
        if space not in self._strangers:
            collections = Collections(self._remote)
            registry = Registry(collections, self._tenant, space)
            self._strangers[space] = Others(collections, registry, self._name_of, self._version)
        return self._strangers[space]

    def _home(self) -> str:
        home = self._places.home()
        return home.id if home is not None else ""

    def _statistics(self, words: Sequence[str]) -> Statistics:
        """Return what BM25 must know of everything that is searched."""
        others = self._others()
        here = self._lexicon.statistics(words)
        return here if others is None else here + others.statistics(self._home(), words)

    def _scored(self, terms: Sequence[Term], found: Mapping[str, Any], filters: Filters) -> list[Candidate]:
        """Return candidates with their BM25, all by the same numbers, whoever has them."""
        known = self._lexicon.statistics([term.text for term in terms])
        theirs: Proposal | None = found.get("their words")
        if theirs is not None:
            known = (known + found["their statistics"]).at_least(theirs.seen())
        scored = self._lexicon.scored(terms, found.get("words", ()), known)
        if theirs is None:
            return scored
        return _ranked([*scored, *theirs.scored(known, self._said_here(theirs.contents, filters))])

    def _said_here(self, contents: Mapping[Key, str], filters: Filters) -> set[Key]:
        """Return those rows of others whose text the admitted projects have here, too: it is this one that is shown."""
        with self._reading() as catalog:
            known = catalog.contents(list(contents.values()), filters) if catalog is not None else set()
        return {key for key, content in contents.items() if content in known}

    def _whole(self, search: Callable[[], Answer]) -> Answer:
        """Return what a search finds; where a collection is gone, once it was pushed anew from the catalog."""
        try:
            return search()
        except StoreDamaged as fault:
            if not is_gone(fault):
                raise
            for lanes in self._lanes.values():
                lanes.look_again()  # however lately they did
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


def _ranked(candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates best first; of equals, what is here goes first."""
    return sorted(candidates, key=lambda one: (-one.score, isinstance(one.key, str), one.key))
