"""The seams: what services need of stores and models, as contracts.

A store keeps chunks and proposes candidates; it does not rank, and it does not know what a word is: the analyser is
handed to it. A model turns texts into vectors, or into other texts. Vectors cross rooms as little-endian float32 bytes, which every
room can read without numpy and SQLite stores as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from lorelog.core.document import Chunk, Document, Key, StoredChunk
from lorelog.core.ports_models import (
    Completion,
    EmbeddedTexts,
    Embedder,
    LanguageModel,
    Reranker,
    Vector,
)
from lorelog.core.query import Candidate, Coverage, Filters, Term

__all__ = [
    "SHORT",
    "Analyser",
    "Catalog",
    "Changeover",
    "Comparison",
    "Completion",
    "Covering",
    "DocumentUpdate",
    "EmbeddedTexts",
    "Embedder",
    "Lanes",
    "LanguageModel",
    "PendingText",
    "Progress",
    "Reranker",
    "Store",
    "StoreStats",
    "StoreWriter",
    "Supersession",
    "Surroundings",
    "Twofold",
    "Vector",
]


class Analyser(Protocol):
    """Turns text into the words that the lexical lane matches."""

    version: str
    """Changes whenever the same text may give other words; a store then rebuilds its lexical lane."""

    def words(self, text: str) -> list[str]:
        """Return the words of a text, in order, repeats kept. No word contains white space."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentUpdate:
    """A document and all of its chunks, which replace all earlier chunks of that source."""

    document: Document
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class PendingText:
    """A text that waits for its vector, and one of the files that say it."""

    vector_key: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Sizes of an index."""

    documents: int
    chunks: int
    vectors: int
    """Distinct vectors of the current model."""
    other_vectors: int
    """Vectors of other models, and of this one from before it made them anew: kept until they are forgotten."""
    projects: Mapping[str, int]
    """Chunks by project."""
    bytes_on_disk: int
    schema_version: int
    location: str
    bytes_mapped: int = 0
    """Bytes of vectors that a search maps and does not load: the system takes their memory back whenever it needs it."""


@dataclass(frozen=True, slots=True)
class Changeover:
    """Whose vectors an index serves, and which ones are made beside them to take their place."""

    own: str
    """Provider and model of whoever asks."""
    served: str
    """Provider and model; empty in an index that nobody has written to."""
    serves_vectors: bool
    """Whether there are any to lose."""
    begun: str = ""
    """Provider and model of those that are being made; the same as `served` where it makes its own anew."""
    waiting: int = 0
    """How many texts have no vector beside yet."""
    declined: str = ""
    """Provider and model that were not to take over when it was last tried, or were gone back from."""


@dataclass(frozen=True, slots=True)
class Twofold:
    """A chunk with both its vectors: the one that the index serves, and the one beside."""

    stored: StoredChunk
    served: Vector
    beside: Vector


@dataclass(frozen=True, slots=True)
class Comparison:
    """How what finds chunks differs from the catalog that it is made of."""

    place: str
    """Where it is kept; empty when beside the catalog."""
    here: int
    """Chunks of the catalog."""
    there: int
    missing: int = 0
    unlike: int = 0
    """There with a vector where the catalog has none, or the other way round."""
    surplus: int = 0
    waiting: int = 0
    """Changes that the next write brings there; no fault."""
    repaired: bool = False
    """Whether the differences told were found and mended."""

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to mend."""
        return not (self.missing or self.unlike or self.surplus)


@dataclass(frozen=True, slots=True)
class Supersession:
    """That one memory says it stands in the place of another."""

    old: str
    """The other's own id."""
    new: str
    """Its own id, or that of its chunk where it has none."""
    project: str
    """The project it belongs to: what another project's files say must not hide anything."""
    elsewhere: bool = False
    """Whether another machine says so: that hides what is found of other machines, and nothing that is here."""


@dataclass(frozen=True, slots=True)
class Covering:
    """That one memory sums up some chunks."""

    summary: str
    """Its own id."""
    project: str
    """The project it belongs to: what another project's files say must not move anything."""
    covers: tuple[str, ...]
    """Content hashes of the chunks."""


SHORT = 30
"""Words: a shorter chunk counts as this long for BM25, which would otherwise take "Wow, Caroline!" for the best chunk on
Caroline. On dialogue turns, words alone: nDCG@10 .465 without it, .508 with; no other set moves by more than .005."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How long a chunk's text is, in characters, and which chunks of its document stand around it."""

    length: int
    near: tuple[Key, ...] = ()
    """The one before and the one after."""
    far: tuple[Key, ...] = ()
    """The ones before and after those."""


class StoreWriter(Protocol):
    """The one who may write, for as long as the context lasts. Every call is durable when it returns.

    A call that raises has changed nothing.
    """

    def put(self, updates: Sequence[DocumentUpdate]) -> None:
        """Store documents. For each one a reader sees all of the old version or all of the new one."""
        ...

    def touch(self, documents: Sequence[Document]) -> None:
        """Record new stamps and roots of documents whose text did not change."""
        ...

    def remove(self, sources: Iterable[str]) -> int:
        """Remove documents and their chunks; return how many were there."""
        ...

    def put_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by `Chunk.vector_key`. All vectors of a model have one dimension, else ModelFault."""
        ...

    def begin_beside(self, dimension: int) -> None:
        """Begin to make vectors of the store's own model beside those that are served, or go on with what was begun.

        What was begun with another dimension is dropped; 0 is any. Vectors that the model left here before count as made,
        unless it is served: then all are made anew.
        """
        ...

    def put_beside(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors beside, by `Chunk.vector_key`. Searches see nothing of them."""
        ...

    def swap(self) -> None:
        """Serve the vectors beside from one moment to the next. Those served until now are kept, for `roll_back`."""
        ...

    def decline(self) -> None:
        """Note that the vectors beside are not to be served; they are kept."""
        ...

    def roll_back(self) -> None:
        """Serve what was served before the last swap. Raise NotFound where there is nothing to go back to."""
        ...

    def forget_others(self) -> int:
        """Drop all vectors but those served, begun ones too; return how many."""
        ...

    def remark(self, name: str, value: str) -> None:
        """Note something that was found out about the index under its current model."""
        ...

    def sweep(self) -> None:
        """Drop vectors that no chunk has used for a day, and fold small pieces of the lanes together."""
        ...


class Catalog(Protocol):
    """What is in the index. Sees the last completed write of any process, and never waits for a writer."""

    def documents(self) -> list[Document]:
        """Return all documents, by source."""
        ...

    def document(self, source: str) -> Document | None:
        """Return one document, or None when it is unknown."""
        ...

    def recent(self, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section, newest first, at most `limit`."""
        ...

    def tags(self, prefix: str, filters: Filters) -> Mapping[str, int]:
        """Return how many sections bear each tag that begins so, by tag; of `filters`, projects and tags count.

        It costs what there is to tell of, not what there is in the index.
        """
        ...

    def of_session(self, session: str, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section and whose anchor names this session, newest first."""
        ...

    def supersessions(self) -> Sequence[Supersession]:
        """Return what anchors say to be superseded, oldest word first. It is cheap enough to be asked before each search."""
        ...

    def coverings(self) -> Sequence[Covering]:
        """Return what anchors say to be summed up, oldest word first. It is cheap enough to be asked before each search."""
        ...

    def vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        """Return the vectors of the current model that these chunks have."""
        ...

    def projects(self) -> Mapping[str, int]:
        """Return the number of chunks by project."""
        ...

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order; empty when it is unknown."""
        ...

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id, or whose anchor's memory id, starts so; at most 10, by id.

        Where there are none, those whose content's hash does: summaries cite that, since it outlives lines and models.
        """
        ...

    def find_elsewhere(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks that only other machines have whose id, or whose memory's id, starts so; at most 10, by id."""
        ...

    def fetch(self, keys: Sequence[Key]) -> dict[Key, StoredChunk]:
        """Return the chunks still there under these keys."""
        ...

    def sample(self, count: int) -> list[StoredChunk]:
        """Return at most `count` chunks with vectors, from all over the index; the same ones while nothing changes."""
        ...

    def remark(self, name: str) -> str:
        """Return what a writer noted under this name and the current model; empty when nothing was."""
        ...

    def surroundings(self, keys: Sequence[Key], longest: int) -> dict[Key, Surroundings]:
        """Return what stands around those of these chunks whose text has at most `longest` characters."""
        ...

    def entry_sizes(self, keys: Sequence[Key], most: int) -> dict[Key, int]:
        """Return of how many chunks the entry of each of these chunks is made, counting no further than `most`."""
        ...

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        """Return those vector keys for which the current model has no vector."""
        ...

    def pending(self, limit: int) -> list[PendingText]:
        """Return texts that have no vector of the current model yet, each vector key once."""
        ...

    def changeover(self) -> Changeover:
        """Return whose vectors are served, and whose are made beside."""
        ...

    def pending_beside(self, limit: int) -> list[PendingText]:
        """Return texts that have no vector beside yet, each vector key once; none when nothing was begun."""
        ...

    def twofold(self, count: int) -> list[Twofold]:
        """Return at most `count` chunks that have both vectors, from all over the index, each text once; always the same."""
        ...

    def coverage(self, filters: Filters) -> Coverage:
        """Return how many chunks of the admitted projects have vectors; the other filters do not count."""
        ...

    def stats(self) -> StoreStats:
        """Return the sizes of this index."""
        ...

    def revision(self) -> str:
        """Return a token that changes with every completed write of any process, and may change more often.

        Two answers asked for under one token are the same. It is cheap enough to be asked before each search.
        """
        ...


class Lanes(Protocol):
    """Ways of finding: candidates only. Keys that `Catalog.fetch` no longer knows are to be passed over."""

    def lexical(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks that contain any of the terms, best BM25 (k1 1.2, b 0.75) first, at most `limit`.

        The text of a chunk is its `matched_text`, and it counts as at least `SHORT` words long.
        """
        ...

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word: the fewer chunks contain it the higher, highest for an unknown one."""
        ...

    def dense(self, vector: Vector, filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks by cosine with a unit vector, best first, at most `limit`.

        Raise ModelFault when its dimension is not that of the stored vectors.
        """
        ...

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return what `lexical` and `dense` would, each in its own order, asked together: a store that is far away is asked once.

        Without a vector there are no dense candidates. What `dense` raises is raised before anything is asked.
        """
        ...

    def reach(self, filters: Filters) -> Coverage:
        """Return how many chunks of the admitted projects the lanes find, and how many by meaning: other machines' too."""
        ...

    def similarities(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each of these chunks that has a vector."""
        ...


class Store(Catalog, Lanes, Protocol):
    """One tenant's index under one model: a catalog, its lanes, and the right to write.

    May be shared by threads. Whatever one thread does, closing included, never takes anything away from under another.
    """

    def serves_model(self) -> bool:
        """Say whether the ids and vectors of the index are this model's; a new index serves whoever writes first."""
        ...

    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> AbstractContextManager[StoreWriter]:
        """Become the one writer. Raise StoreBusy when another stays it longer than `wait_s`.

        An index that serves another model is written as that model's: text is stored, and waits for that model's
        vectors. With `take_over` it is turned over to this model instead; the other's vectors are kept aside.
        """
        ...

    def run(self, *, wait_s: float) -> AbstractContextManager[None]:
        """Hold the right to a long run of many writes, so that two runs do not do the same work twice.

        Others may still write in between. Raise StoreBusy when another process keeps it longer than `wait_s`.
        """
        ...

    def compare(self, *, repair: bool = False) -> Comparison:
        """Return how what finds chunks differs from the catalog; with `repair`, how it did before it was mended."""
        ...

    def reset(self) -> None:
        """Delete the whole index. What it was derived from is not touched."""
        ...

    def close(self) -> None:
        """Let go of files. May be called twice."""
        ...


Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) as long work goes on; total 0 means not known yet."""
