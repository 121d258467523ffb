"""Contracts that services need from stores and models.

A store keeps chunks and proposes candidates. It does not rank and does not tokenize: the analyser is passed to it.
Vectors cross package borders as little-endian float32 bytes, which every package can read without numpy and SQLite
stores unchanged. What is put comes in groups (`group_by`, `batches_of`), so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import force_setattr

from lorelog.core.document import Chunk, ChunkKey, Document, FileStamp, StoredChunk
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage
from lorelog.core.serializable import Serializable

ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT")

Vector = bytes
"""Little-endian float32 numbers. Stores are given vectors of unit length or all zeros, see `Embedder`."""


class EmbeddedTexts(Struct, frozen=True):
    """The vectors of some texts, in the order of the texts."""

    vectors: tuple[Vector, ...]
    truncated: int = 0
    """Number of texts longer than the model's input limit."""
    tokens: int = 0
    refused: Mapping[int, str] = field(default_factory=dict)
    """Reasons by index of the texts that the model rejected; their vectors are empty."""


class Embedder(Protocol):
    """Turns text into vectors. Documents and queries are separate calls because many models encode them differently.

    The constructor is cheap and never fails for lack of a package, a key or a server; the first call may raise
    ModelUnavailable. The same text always gives the same vector. Vectors need not have unit length: services normalise
    them before a store gets them (documents in `ingest.embed`, queries with `core.vectors.unit_vector`).
    """

    provider: str
    model: str

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts, one vector each, in order.

        Raise ModelError if the model fails; the vectors made until then are in the error's `done`.
        """

    def embed_query(self, text: str) -> Vector:
        """Embed a query. Raise ModelError on failure."""

    def close(self) -> None:
        """Close sessions and sockets. May be called twice."""


@runtime_checkable
class TokenReportingEmbedder(Protocol):
    """An embedder that reports the tokens of a query."""

    def embed_query_with_usage(self, text: str) -> EmbeddedTexts:
        """Embed a query like `embed_query`, and report its tokens."""


class Reranker(Protocol):
    """Cross-encoder: scores how well each of a few texts answers a query.

    The constructor is cheap and never fails for lack of a package or a file; the first call may raise
    ModelUnavailable. Scores are logits: 0 is even odds, higher is better.
    """

    provider: str
    model: str

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        """Score texts in order; None for texts not reached before `deadline` (`time.monotonic`).

        Raise ModelError on failure.
        """

    def close(self) -> None:
        """Close sessions. May be called twice; a later call reopens them."""


class Completion(Struct, frozen=True):
    """The text a language model wrote, and its tokens as far as the model reports them."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0


class LanguageModel(Protocol):
    """Writes text from instructions.

    The constructor is cheap and never fails for lack of a program, a key or a server; the call may raise. The input
    is data: the model has no tools, and the request leaves no trace in its host.
    """

    provider: str
    model: str
    extra_tokens: int
    """Tokens a call may cost beyond both texts and the reply: the host's own prompt, and thinking."""

    def complete(self, system: str, text: str, max_tokens: int) -> Completion:
        """Write about `max_tokens` at most. Raise ModelError if there is no reply within the model's time limit.

        ModelUnavailable means no reply and usually no charge; ModelFault may have been charged.
        """


class Analyser(Protocol):
    """Splits text into the words that the lexical lane matches."""

    version: str
    """Changes whenever the same text may give other words; a store then rebuilds its lexical lane."""

    def words(self, text: str) -> list[str]:
        """Return the words of a text in order, with repeats. No word contains white space."""


class DocumentUpdate(Struct, frozen=True):
    """A document and its chunks, which replace the earlier chunks of that source: all of them, or those from a line on."""

    document: Document
    chunks: tuple[Chunk, ...]
    first_line: int = 1
    """Chunks of the stored version that begin before this line stay as they are."""
    base: Document | None = None
    """The stored version that it continues, if some of its chunks stay."""
    resume: str = ""
    """Where the next version may continue this one; the store keeps it with the document."""


class IndexedSection(Struct, frozen=True):
    """The section of a chunk, subsections included, put together from its chunks."""

    stamp: FileStamp
    """Of the file when it was indexed."""
    text: str


MAX_SECTION_CHARS = 1 << 18
"""A longer section is taken to end there."""


class PendingText(Struct, frozen=True):
    """A text without a vector, and one of the files that contain it."""

    vector_key: str
    text: str
    source: str


class StoreStats(Serializable, Struct, frozen=True):
    """Sizes of an index."""

    documents: int
    chunks: int
    vectors: int
    """Distinct vectors of the current model."""
    other_vectors: int
    """Vectors of other models, and of this one from before a re-embedding; kept until they are dropped."""
    projects: Mapping[str, int]
    """Chunks by project."""
    bytes_on_disk: int
    schema_version: int
    location: str
    bytes_mapped: int = 0
    """Bytes of vectors that a search maps but does not load; the system reclaims that memory when needed."""
    project_documents: Mapping[str, int] = field(default_factory=dict)


class ReembedState(Struct, frozen=True):
    """Which model's vectors an index serves, and which shadow vectors are being made to replace them."""

    own: str
    """Provider and model of this store object."""
    served: str
    """Provider and model; empty in a new index."""
    serves_vectors: bool
    """True if the index has vectors to lose."""
    begun: str = ""
    """Provider and model of the shadow vectors; equal to `served` when a model is embedded again."""
    waiting: int = 0
    """Number of texts without a shadow vector."""
    declined: str = ""
    """Provider and model that were rolled back."""

    @property
    def is_outdated(self) -> bool:
        """Return whether the vectors are those of a former built-in model, and the present one was not rolled back.

        An update replaced it, and nobody chose another model; weights of a folder were chosen.
        """
        is_former = self.served.startswith("builtin/") and not self.served.startswith("builtin/weights-")
        return is_former and self.own.startswith("builtin/") and self.own not in (self.served, self.declined)


REPAIR_NOTE = "repairs"
"""Name of the store's note about the last damage that was repaired: a time, a space, and what was damaged."""


class StoreComparison(Serializable, Struct, frozen=True):
    """Differences between the lanes and the catalog they are built from."""

    place: str
    """Address of the lanes; empty when they are next to the catalog."""
    here: int
    """Number of chunks in the catalog."""
    there: int
    missing: int = 0
    unlike: int = 0
    """Chunks with a vector in only one of the two, or with another vector."""
    surplus: int = 0
    waiting: int = 0
    """Changes that the next write sends to the lanes; not an error."""
    repaired: bool = False
    """True if the differences reported were repaired."""
    damage: str = ""
    """Files whose checksums do not match, and how many lines of them."""

    ok: bool = True
    """True if there is nothing to repair, or if it was repaired."""

    def __post_init__(self) -> None:
        force_setattr(self, "ok", self.is_consistent or self.repaired)

    @property
    def is_consistent(self) -> bool:
        """True if there was nothing to repair."""
        return not (self.missing or self.unlike or self.surplus or self.damage)


class Supersession(Struct, frozen=True):
    """One memory replaces another, according to its anchor."""

    old: str
    """Memory id of the replaced one."""
    new: str
    """Memory id of the new one, or its chunk id if it has no memory id."""
    project: str
    """Project of the new one: files of another project must not hide anything."""
    remote: bool = False
    """True if another machine wrote it: it hides remote chunks only, never local ones."""
    origin: str = ""
    """Origin of the new one: an agent's, a tool's or an import's hides nothing of the user's own."""
    source: str = ""
    """File of the new one."""


class SummaryLink(Struct, frozen=True):
    """One memory summarizes some chunks."""

    summary: str
    """Memory id of the summary."""
    project: str
    """Project of the summary: files of another project must not move anything."""
    covers: tuple[str, ...]
    """Content hashes of the chunks."""


MIN_BM25_WORDS = 30
"""Words: BM25 treats a shorter chunk as this long; without it "Wow, Caroline!" is the best match for Caroline. On
dialogue turns, lexical lane only: nDCG@10 .465 without it, .508 with; no other set moves by more than .005.
"""


class ChunkNeighbours(Struct, frozen=True):
    """Length of a chunk's text in characters, and the chunks around it in its document."""

    length: int
    near: tuple[ChunkKey, ...] = ()
    """The previous and the next chunk."""
    far: tuple[ChunkKey, ...] = ()
    """The second previous and the second next chunk."""


class StoreWriter(Protocol):
    """The only writer while the context is open. Every call is durable when it returns.

    A call that raises has changed nothing.
    """

    def put(self, updates: Sequence[DocumentUpdate]) -> None:
        """Store documents. A reader sees either the whole old version or the whole new version of each."""

    def touch(self, documents: Sequence[Document]) -> None:
        """Record new stamps and roots of documents whose text is unchanged."""

    def remove(self, sources: Iterable[str]) -> int:
        """Remove documents and their chunks; return how many existed."""

    def put_vectors(self, vectors: Mapping[str, Vector], *, shadow: bool = False) -> None:
        """Store vectors by `Chunk.vector_key`, or `shadow` vectors, which searches do not see.

        Raise ModelFault unless all vectors of a model have one dimension.
        """

    def begin_shadow_vectors(self, dimension: int) -> None:
        """Start making shadow vectors of the store's own model, or continue.

        Shadow vectors of another dimension are dropped; 0 accepts any. Vectors the model left here earlier count as
        made, unless the index serves that model: then all are made again.
        """

    def swap_vectors(self) -> None:
        """Serve the shadow vectors, atomically. The vectors served before are kept for `roll_back`."""

    def roll_back(self) -> None:
        """Serve the vectors served before the last swap. Raise NotFound if there are none."""

    def drop_other_vectors(self) -> int:
        """Drop all vectors except those served, shadow vectors included; return how many."""

    def set_note(self, name: str, value: str) -> None:
        """Store a note about the index under its current model."""

    def sweep(self) -> None:
        """Drop vectors unused for a day, and merge small segments of the lanes."""

    def purge(self, vector_keys: Iterable[str]) -> None:
        """Leave no bytes of removed chunks in any file of the index, nor of these vectors unless a chunk uses them.

        A database or search lane only marks what it removed; this rewrites their files. Takes as long as a rebuild
        of the lanes. A remote lane deletes and flushes its rows; when their bytes go is the server's decision.
        """


class Catalog(Protocol):
    """The contents of the index. Reads see the last completed write of any process and never wait for a writer."""

    def documents(self) -> list[Document]:
        """Return all documents, by source."""

    def document(self, source: str) -> Document | None:
        """Return a document, or None if it is unknown."""

    def recent(self, filters: Filters, limit: int, *, session: str | None = None) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section, newest first, at most `limit`; of a session, if one is named."""

    def recent_keys(self, filters: Filters, limit: int, *, mark: str = "") -> tuple[list[ChunkKey], str]:
        """Return the keys of what `recent` would return, without reading the chunks, and a mark of this state.

        With the mark of an earlier call, only of those that were written since; a mark of another index counts as none.
        """

    def tags(self, prefix: str, filters: Filters) -> Mapping[str, int]:
        """Return the number of sections by tag, for tags with this prefix; only project and tag filters apply.

        The cost depends on the number of matches, not on the size of the index.
        """

    def types(self, filters: Filters) -> Mapping[str, int]:
        """Return the number of chunks by type, without those that have none; only project filters apply."""

    def authored_chunks(self, filters: Filters, limit: int, *, outside: str = "") -> list[StoredChunk]:
        """Return the admitted chunks that begin a memory with an id, newest first, without notes of turns.

        Files below the directory `outside` are left out.
        """

    def authored_marks(self, limit: int, *, outside: str = "") -> list[tuple[ChunkKey, str]]:
        """Return the keys of the same chunks, each with a text that changes whenever the chunk does. Reads no contents."""

    def supersessions(self) -> Sequence[Supersession]:
        """Return the supersessions that anchors declare, oldest first. Cheap enough to call before each search."""

    def summary_links(self) -> Sequence[SummaryLink]:
        """Return the summaries that anchors declare, oldest first. Cheap enough to call before each search."""

    def vectors(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Vector]:
        """Return the vectors of the current model for these chunks, as exactly as the store keeps them."""

    def vector_records(self, keys: Sequence[ChunkKey]) -> list[bytes]:
        """Return the bytes that files hold for the vectors of these chunks, by which a deletion is checked."""

    def projects(self) -> Mapping[str, int]:
        """Return the number of chunks by project."""

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order; empty if it is unknown."""

    def resume_point(self, source: str) -> str:
        """Return what `DocumentUpdate.resume` said of a document; empty if it said nothing."""

    def embedded_keys(self, source: str, first_line: int = 1) -> set[str]:
        """Return the vector keys of a document's chunks that begin at this line or later and have a vector."""

    def pending_of(self, source: str) -> list[PendingText]:
        """Return the texts of a document's chunks without a vector of the current model, each vector key once."""

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id, or whose anchor's memory id, has this prefix; at most 10, by id.

        If there are none, match content hashes: summaries cite those because they outlive lines and models.
        """

    def find_remote(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks of other machines only, whose chunk or memory id has this prefix; at most 10, by id."""

    def fetch(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, StoredChunk]:
        """Return the chunks that still exist under these keys."""

    def get_note(self, name: str) -> str:
        """Return the note under this name and the current model; empty if there is none."""

    def chunk_neighbours(self, keys: Sequence[ChunkKey], max_chars: int) -> dict[ChunkKey, ChunkNeighbours]:
        """Return the length of each chunk's text, and the neighbours of those that have at most `max_chars` characters."""

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, StoredChunk]:
        """Return the chunks with these ids; without chunks of other indexes."""

    def sections(self, ids: Sequence[str]) -> dict[str, IndexedSection]:
        """Return the whole section of each chunk as it was indexed, by the chunk's id; without chunks of other indexes."""

    def entry_sizes(self, keys: Sequence[ChunkKey], limit: int) -> dict[ChunkKey, int]:
        """Return the number of chunks in each chunk's entry, counting up to `limit`."""

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        """Return the vector keys that have no vector of the current model."""

    def pending(self, limit: int, *, shadow: bool = False) -> list[PendingText]:
        """Return texts without a vector of the current model, each vector key once.

        With `shadow`, texts without a shadow vector; none if no re-embedding was started.
        """

    def reembed_state(self) -> ReembedState:
        """Return which vectors are served and which are being made."""

    def coverage(self, filters: Filters) -> VectorCoverage:
        """Return how many chunks of the admitted projects have vectors; other filters are ignored."""

    def stats(self) -> StoreStats:
        """Return the sizes of this index."""

    def revision(self) -> str:
        """Return a token that changes with every completed write of any process, and may change more often.

        Two replies under one token are equal. Cheap enough to call before each search.
        """


class Lanes(Protocol):
    """Candidate retrieval. Skip keys that `Catalog.fetch` no longer returns."""

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word: the fewer chunks contain it the higher, highest for an unknown one."""

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return chunks that contain any of the terms, and chunks near a unit vector, each best first and at most `limit`.

        By BM25 (k1 1.2, b 0.75) of `matched_text`, where a shorter one counts as `MIN_BM25_WORDS` long, and by cosine. One call, so
        that a remote store is asked once. Raise ModelFault before that if the vector does not fit the stored ones.
        """

    def lane_coverage(self, filters: Filters) -> VectorCoverage:
        """Return how many chunks of the admitted projects the lanes hold, and how many have vectors; remote ones too."""

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        """Return the cosine of each of these chunks that has a vector."""


class Store(Catalog, Lanes, Protocol):
    """One tenant's index under one model: a catalog, its lanes, and the writer.

    Threads may share it. Nothing one thread does, closing included, invalidates what another holds.
    """

    def serves_model(self) -> bool:
        """Return True if the index's ids and vectors are this model's; a new index serves its first writer."""

    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> AbstractContextManager[StoreWriter]:
        """Acquire the write lock. Raise StoreBusy if another writer holds it longer than `wait_s`.

        In an index that serves another model, text is stored for that model and waits for its vectors. With
        `take_over` the index changes to this model instead; the other model's vectors are kept.
        """

    def reading(self) -> AbstractContextManager[None]:
        """Return a context for several reads in a row, in which a store may check its files once instead of for each.

        Short: other threads may have to wait. Reads need not be of one moment.
        """

    def run(self, *, wait_s: float) -> AbstractContextManager[None]:
        """Hold the lock for a long run of many writes, so that two runs do not do the same work.

        Others may still write in between. Raise StoreBusy if another process holds it longer than `wait_s`.
        """

    def is_running(self) -> bool:
        """Return True if any process is in a run."""

    def compare(self, *, repair: bool = False) -> StoreComparison:
        """Return how the lanes differ from the catalog; with `repair`, the differences before the repair."""

    def set_damaged_aside(self) -> str:
        """If the catalog is damaged, rename it and begin an empty one; return what was done, or an empty string."""

    def mend(self, *, thoroughly: bool = False) -> str:
        """Check the lanes' files and repair damaged ones; return what was damaged, or an empty string.

        Unless `thoroughly`, a check within the last day is not repeated. Raises StoreBusy while another process writes.
        """

    def reset(self) -> None:
        """Delete the whole index. The source files are not touched."""

    def close(self) -> None:
        """Close files. May be called twice."""


Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) during long work; total 0 means not known yet. May raise to stop the work.

A stage that begins with `waiting` says what is waited for; `done` is then the number of seconds so far.
"""


def group_by(items: Iterable[ItemT], key: Callable[[ItemT], KeyT]) -> dict[KeyT, list[ItemT]]:
    """Return items by their key, in order; the keys in the order of their first items."""
    groups: dict[KeyT, list[ItemT]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def batches_of(
    items: Iterable[ItemT], weight: Callable[[ItemT], int], max_items: int, max_weight: int
) -> Iterator[list[ItemT]]:
    """Group items, so that each group but the last has a number or a total weight that is not less than a limit."""
    batch: list[ItemT] = []
    total = 0
    for item in items:
        batch.append(item)
        total += weight(item)
        if len(batch) >= max_items or total >= max_weight:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
