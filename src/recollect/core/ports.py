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

from recollect.core.document import Chunk, Document, Key, StoredChunk
from recollect.core.query import Candidate, Coverage, Filters, Term

Vector = bytes
"""A vector of unit length (or all zeros): little-endian float32."""


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """What a model made of some texts, in their order."""

    vectors: tuple[Vector, ...]
    truncated: int = 0
    """How many of the texts were longer than the model reads."""
    tokens: int = 0


class Embedder(Protocol):
    """Turns text into vectors. Documents and queries are separate calls because many models tell them apart.

    Constructing one is cheap and never fails for want of a package, a key or a server; the first call may raise
    ModelUnavailable. Vectors need not be normalised. Same text, same vector.
    """

    provider: str
    model: str

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts, one vector each, in order. Raise ModelError when that cannot be done for all of them."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed a question. Raise ModelError when that cannot be done."""
        ...

    def close(self) -> None:
        """Let go of sessions and sockets. May be called twice."""
        ...


class Reranker(Protocol):
    """Judges how well each of a few texts answers a question, reading both together.

    Constructing one is cheap and never fails for want of a package or a file; the first call may raise
    ModelUnavailable. Scores are logits: 0 is even odds, higher is better.
    """

    provider: str
    model: str

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        """Score texts, in order, the first ones first; None for those that `deadline` (of `time.monotonic`) left out.

        Raise ModelError when that cannot be done.
        """
        ...

    def close(self) -> None:
        """Let go of sessions. May be called twice, and a later call opens it again."""
        ...


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model wrote, and what it cost as far as it said so."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0


class LanguageModel(Protocol):
    """Writes text when told how.

    Constructing one is cheap and never fails for want of a program, a key or a server; the call may raise. What it reads
    is data: it has no tools, and nothing that it is asked for leaves a trace with its host.
    """

    provider: str
    model: str
    extra_tokens: int
    """Tokens that a call may cost beyond both texts and the answer: what a host puts around them, and thinking."""

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        """Write at most about `most_tokens`. Raise ModelError when nothing comes of it within the model's own time limit.

        ModelUnavailable was not answered, and as a rule not charged; ModelFault may have been.
        """
        ...


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
    """Vectors of other models, kept until reset."""
    projects: Mapping[str, int]
    """Chunks by project."""
    bytes_on_disk: int
    schema_version: int
    location: str
    bytes_mapped: int = 0
    """Bytes of vectors that a search maps and does not load: the system takes their memory back whenever it needs it."""


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

    def drop_vectors(self) -> None:
        """Drop all vectors of the current model: every chunk waits for its vector again, and is found by words meanwhile."""
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

    def projects(self) -> Mapping[str, int]:
        """Return the number of chunks by project."""
        ...

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order; empty when it is unknown."""
        ...

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id, or whose anchor's memory id, starts so; at most 10, by id."""
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

    def reset(self) -> None:
        """Delete the whole index. What it was derived from is not touched."""
        ...

    def close(self) -> None:
        """Let go of files. May be called twice."""
        ...


Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) as long work goes on; total 0 means not known yet."""
