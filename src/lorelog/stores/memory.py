"""The reference store: dictionaries that implement `core.ports.Store` and reject callers that break its contract.

Read it next to `core.ports`. It is stricter than the real stores: callers must not make any call that it rejects.
Nothing is written to disk, so it also serves programs that need a temporary memory.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import TURN_TYPE, Anchor, Chunk, ChunkKey, Document, StoredChunk, join_chunks
from lorelog.core.errors import ModelFault, NotFound, StoreBusy, UsageError
from lorelog.core.paths import is_below
from lorelog.core.ports import (
    MIN_BM25_WORDS,
    Analyser,
    ChunkNeighbours,
    DocumentUpdate,
    IndexedSection,
    PendingText,
    ReembedState,
    StoreComparison,
    StoreStats,
    StoreWriter,
    SummaryLink,
    Supersession,
    Vector,
    VectorPair,
)
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage


class VectorSets(Struct):
    """The served vectors, the ones of a re-embedding in progress, and the previous ones, by `Chunk.vector_key`."""

    served: dict[str, Vector] = field(default_factory=dict)
    shadow: dict[str, Vector] | None = None
    """None unless a re-embedding is in progress."""
    previous: dict[str, Vector] | None = None
    """None if there is no swap to roll back."""
    declined: bool = False
    """Whether the last re-embedding was rejected by the comparison, or rolled back."""


class MemoryWriter:
    """Writer of a MemoryStore; rejects writes that the contract forbids."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, updates: Sequence[DocumentUpdate]) -> None:
        """Store documents after validating all of them."""
        self._begin_write()
        sources = [update.document.source for update in updates]
        if len(set(sources)) != len(sources):
            raise AssertionError("one put names a document twice")
        for update in updates:
            ids = [chunk.identify(self._store._model) for chunk in update.chunks]
            if len(set(ids)) != len(ids):
                raise AssertionError(f"{update.document.source} has two chunks with the same id")
            if any(chunk.source != update.document.source for chunk in update.chunks):
                raise AssertionError(f"{update.document.source} has a chunk of another document")
        for update in updates:
            source = update.document.source
            if update.first_line > 1 and self._store._documents.get(source) != update.base:
                raise AssertionError(f"{source} is not the version that the update continues")
            kept = [stored.chunk for stored in self._store.chunks_of(source)]
            kept = [chunk for chunk in kept if chunk.start_line < update.first_line]
            self._store._remove_document(source)
            self._store._add_document(replace(update, chunks=(*kept, *update.chunks)))
        self._store._writes += 1  # what was read meanwhile is outdated

    def touch(self, documents: Sequence[Document]) -> None:
        self._begin_write()
        for document in documents:
            current = self._store._documents.get(document.source)
            if current is not None:
                changed = replace(current, root=document.root, stamp=document.stamp, indexed_at=document.indexed_at)
                self._store._documents[document.source] = changed

    def remove(self, sources: Iterable[str]) -> int:
        self._begin_write()
        removed = sum(self._store._remove_document(source) for source in sources)
        self._store._writes += 1
        return removed

    def put_vectors(self, vectors: Mapping[str, Vector], *, shadow: bool = False) -> None:
        """Store vectors, which must be of unit length or zero; existing ones are kept."""
        sets = self._begin_write()
        existing = self._shadow() if shadow else sets.served
        self._store._check_dimension(vectors.values(), existing)
        for key, vector in vectors.items():
            if not all(math.isfinite(x) for x in array("f", vector)):
                raise ModelFault(f"{self._store._space} returned a vector with NaN or infinity (for {key})")
            length = math.sqrt(math.fsum(x * x for x in array("f", vector)))
            if not (length == 0 or math.isclose(length, 1, abs_tol=1e-3)):
                raise AssertionError(f"the vector of {key} has length {length}")
        existing |= {key: vector for key, vector in vectors.items() if key not in existing}

    def begin_shadow_vectors(self, dimension: int) -> None:
        sets = self._begin_write()
        existing = sets.shadow or {}
        fits = not dimension or all(len(vector) == 4 * dimension for vector in existing.values())
        sets.shadow, sets.declined = existing if fits else {}, False

    def swap_vectors(self) -> None:
        sets, shadow = self._begin_write(), self._shadow()
        sets.previous, sets.served, sets.shadow, sets.declined = sets.served, shadow, None, False

    def decline_shadow_vectors(self) -> None:
        self._shadow()
        self._begin_write().declined = True

    def roll_back(self) -> None:
        sets = self._begin_write()
        if sets.previous is None:
            raise NotFound("there are no previous vectors to go back to", hint="none were kept, or they were dropped")
        sets.previous, sets.served, sets.declined = sets.served, sets.previous, True

    def drop_other_vectors(self) -> int:
        sets = self._begin_write()
        dropped = len(sets.shadow or ()) + len(sets.previous or ())
        sets.shadow, sets.previous, sets.declined = None, None, False
        return dropped

    def _shadow(self) -> dict[str, Vector]:
        shadow = self._store._vector_sets.shadow
        if shadow is None:
            raise UsageError("no re-embedding is in progress", hint="lorelog index --reembed")
        return shadow

    def _begin_write(self) -> VectorSets:
        if self._store._written_by is not self:
            raise AssertionError("a writer was used outside its context")
        self._store._writes += 1
        return self._store._vector_sets

    def set_note(self, name: str, value: str) -> None:
        self._begin_write()
        self._store._remarks[name] = value

    def sweep(self) -> None:
        """Do nothing: unused vectors may be kept for a day, here they are kept for ever."""
        self._begin_write()

    def purge(self, vector_keys: Iterable[str]) -> None:
        """Drop unused vectors; nothing else is kept of removed chunks."""
        self._begin_write()
        unused = set(vector_keys) - {entry.chunk.vector_key for entry in self._store._entries.values()}
        sets = self._store._vector_sets
        for vectors in filter(None, (sets.served, sets.shadow, sets.previous)):
            for key in unused:
                vectors.pop(key, None)
        self._store._writes += 1


_K1, _B = 1.2, 0.75


class _IndexedChunk(Struct, frozen=True):
    key: int
    document: str
    chunk: Chunk
    body: Mapping[str, int]


class MemoryStore:
    """An index in memory that ends with its process."""

    def __init__(self, analyser: Analyser, *, provider: str, model: str) -> None:
        self._analyser = analyser
        self._space = f"{provider}/{model}"
        self._model = model
        self._documents: dict[str, Document] = {}
        self._resume_points: dict[str, str] = {}
        self._entries: dict[int, _IndexedChunk] = {}
        self._vector_sets = VectorSets()
        self._remarks: dict[str, str] = {}
        self._next_key = 1
        self._writes = 0
        self._written_by: object | None = None

    # -- catalog -----------------------------------------------------------------------------------------------------

    def documents(self) -> list[Document]:
        return [self._documents[source] for source in sorted(self._documents)]

    def document(self, source: str) -> Document | None:
        return self._documents.get(source)

    def recent(self, filters: Filters, limit: int) -> list[StoredChunk]:
        sections = [entry for entry in self._entries.values() if not entry.chunk.piece and self._admits(entry, filters)]
        sections.sort(key=lambda entry: (entry.chunk.date, entry.chunk.source, entry.chunk.start_line), reverse=True)
        return [self._stored(entry) for entry in sections[:limit]]

    def recent_keys(self, filters: Filters, limit: int, *, mark: str = "") -> tuple[list[ChunkKey], str]:
        newest = self.recent(filters, len(self._entries))
        known = set(mark.split())
        keys = [stored.key for stored in newest if str(stored.key) not in known]
        return keys[:limit], " ".join(map(str, self._entries))

    def projects(self) -> dict[str, int]:
        counts = dict.fromkeys((document.project for document in self._documents.values()), 0)
        for entry in self._entries.values():
            counts[self._documents[entry.document].project] += 1
        return counts

    def tags(self, prefix: str, filters: Filters) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for entry in self._entries.values():
            has_all = set(filters.tags) <= set(entry.chunk.tags)
            if entry.chunk.piece == 0 and has_all and self._in_projects(entry, filters):
                counts.update({tag for tag in entry.chunk.tags if tag.startswith(prefix)})
        return dict(sorted(counts.items()))

    def types(self, filters: Filters) -> dict[str, int]:
        admitted = (entry.chunk.type for entry in self._entries.values() if self._in_projects(entry, filters))
        return dict(sorted(Counter(filter(None, admitted)).items()))

    def session_chunks(self, session: str, filters: Filters, limit: int) -> list[StoredChunk]:
        sections = self.recent(filters, len(self._entries))
        return [
            stored for stored in sections if session and stored.chunk.anchor and stored.chunk.anchor.session == session
        ][:limit]

    def authored_chunks(self, filters: Filters, limit: int, *, outside: str = "") -> list[StoredChunk]:
        sections = self.recent(filters, len(self._entries))
        return [
            stored
            for stored in sections
            if stored.chunk.anchor
            and stored.chunk.anchor.memory
            and stored.chunk.type != TURN_TYPE
            and not (outside and is_below(stored.chunk.source, outside))
        ][:limit]

    def authored_marks(self, limit: int, *, outside: str = "") -> list[tuple[ChunkKey, str]]:
        chunks = self.authored_chunks(Filters(), limit, outside=outside)
        return [(stored.key, f"{stored.id} {stored.project} {stored.chunk!r}") for stored in chunks]

    def supersessions(self) -> list[Supersession]:
        return [
            Supersession(old, anchor.memory or stored.id, stored.project)
            for stored, anchor in self._anchored()
            for old in anchor.superseded_ids
        ]

    def summary_links(self) -> list[SummaryLink]:
        return [
            SummaryLink(anchor.memory or stored.id, stored.project, anchor.covers)
            for stored, anchor in self._anchored()
            if anchor.covers
        ]

    def vectors(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Vector]:
        vector_keys = {key: self._entries[int(key)].chunk.vector_key for key in keys if int(key) in self._entries}
        return {key: self._vectors[name] for key, name in vector_keys.items() if name in self._vectors}

    def vector_records(self, keys: Sequence[ChunkKey]) -> list[bytes]:
        return []

    def chunks_of(self, source: str) -> list[StoredChunk]:
        return [self._stored(entry) for entry in self._entries.values() if entry.document == source]

    def resume_point(self, source: str) -> str:
        return self._resume_points.get(source, "")

    def embedded_keys(self, source: str, first_line: int = 1) -> set[str]:
        stored = [stored for stored in self.chunks_of(source) if stored.chunk.start_line >= first_line]
        return {entry.chunk.vector_key for entry in stored if entry.has_vector}

    def pending_of(self, source: str) -> list[PendingText]:
        chunks = [stored.chunk for stored in self.chunks_of(source) if not stored.has_vector]
        texts = {chunk.vector_key: PendingText(chunk.vector_key, chunk.embedded_text, source) for chunk in chunks}
        return list(texts.values())

    def find(self, id_prefix: str) -> list[StoredChunk]:
        if not id_prefix:
            return []
        chunks = [self._stored(entry) for entry in self._entries.values()]
        matches = [
            stored
            for stored in chunks
            if stored.id.startswith(id_prefix)
            or (stored.chunk.anchor is not None and stored.chunk.anchor.memory.startswith(id_prefix))
        ]
        matches = matches or [stored for stored in chunks if stored.chunk.content_hash.startswith(id_prefix)]
        return sorted(matches, key=lambda stored: stored.id)[:10]

    def find_remote(self, id_prefix: str) -> list[StoredChunk]:
        """Return nothing: there are no other indexes."""
        return []

    def fetch(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, StoredChunk]:
        return {key: self._stored(self._entries[int(key)]) for key in keys if int(key) in self._entries}

    def sample(self, count: int) -> list[StoredChunk]:
        ready = [entry for entry in self._entries.values() if entry.chunk.vector_key in self._vectors]
        step = max(1, -(-len(ready) // max(count, 1)))
        return [self._stored(entry) for entry in ready[::step]][: max(count, 0)]

    def get_note(self, name: str) -> str:
        return self._remarks.get(name, "")

    def chunk_neighbours(self, keys: Sequence[ChunkKey], max_chars: int) -> dict[ChunkKey, ChunkNeighbours]:
        neighbours: dict[ChunkKey, ChunkNeighbours] = {}
        for key in keys:
            entry = self._entries.get(int(key))
            if entry is None:
                continue
            document = [other.key for other in self._entries.values() if other.document == entry.document]
            position, is_short = document.index(entry.key), len(entry.chunk.text) <= max_chars
            near, far = (
                tuple(document[at] for at in (position - step, position + step) if is_short and 0 <= at < len(document))
                for step in (1, 2)
            )
            neighbours[key] = ChunkNeighbours(len(entry.chunk.text), near, far)
        return neighbours

    def sections(self, ids: Sequence[str]) -> dict[str, IndexedSection]:
        sections: dict[str, IndexedSection] = {}
        for chunk_id in ids:
            for stored in (found for found in self.find(chunk_id) if found.id == chunk_id):
                chunks = [other.chunk for other in self.chunks_of(stored.chunk.source)]
                first = chunks.index(stored.chunk) - stored.chunk.piece
                ends = (
                    number
                    for number, chunk in enumerate(chunks)
                    if number > first and not chunk.piece and chunk.heading_level <= (stored.chunk.heading_level or 6)
                )
                section = chunks[first : next(ends, len(chunks))]
                text = join_chunks((chunk.start_line, chunk.end_line, chunk.content) for chunk in section)
                document = self.document(stored.chunk.source)
                assert document is not None
                sections[chunk_id] = IndexedSection(document.stamp, chunks[first].start_line, text)
        return sections

    def entry_sizes(self, keys: Sequence[ChunkKey], limit: int) -> dict[ChunkKey, int]:
        sizes: dict[ChunkKey, int] = {}
        for key in keys:
            entry = self._entries.get(int(key))
            if entry is None:
                continue
            size = 0
            contains_chunk = False
            for other in (other for other in self._entries.values() if other.document == entry.document):
                if other.chunk.starts_entry:
                    if contains_chunk:
                        break
                    size = 0
                size += 1
                contains_chunk = contains_chunk or other.key == entry.key
            sizes[key] = min(size, limit)
        return sizes

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        return {key for key in vector_keys if key not in self._vectors}

    def pending(self, limit: int, *, shadow: bool = False) -> list[PendingText]:
        vectors = self._vector_sets.shadow if shadow else self._vectors
        return [] if vectors is None else self._texts_without(vectors)[:limit]

    def reembed_state(self) -> ReembedState:
        sets = self._vector_sets
        return ReembedState(
            self._space,
            self._space if self._entries else "",
            serves_vectors=bool(sets.served),
            begun="" if sets.shadow is None else self._space,
            waiting=0 if sets.shadow is None else len(self._texts_without(sets.shadow)),
            declined=self._space if sets.declined else "",
        )

    def vector_pairs(self, count: int) -> list[VectorPair]:
        shadow = self._vector_sets.shadow or {}
        ready = {
            entry.chunk.vector_key: entry
            for entry in reversed(self._entries.values())
            if entry.chunk.vector_key in self._vectors.keys() & shadow.keys()
        }
        chosen = list(ready.items())[:: -max(1, -(-len(ready) // max(count, 1)))][: max(count, 0)]
        return [VectorPair(self._stored(entry), self._vectors[key], shadow[key]) for key, entry in chosen]

    def coverage(self, filters: Filters) -> VectorCoverage:
        admitted = [entry for entry in self._entries.values() if self._in_projects(entry, filters)]
        return VectorCoverage(len(admitted), sum(entry.chunk.vector_key in self._vectors for entry in admitted))

    def stats(self) -> StoreStats:
        return StoreStats(
            documents=len(self._documents),
            chunks=len(self._entries),
            vectors=len(self._vectors),
            other_vectors=len(self._vector_sets.shadow or ()) + len(self._vector_sets.previous or ()),
            projects=self.projects(),
            bytes_on_disk=0,
            schema_version=0,
            location="memory",
            project_documents=Counter(document.project for document in self._documents.values()),
        )

    def revision(self) -> str:
        return str(self._writes)

    # -- lanes -------------------------------------------------------------------------------------------------------

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        scores: dict[ChunkKey, float] = {}
        counts = {key: entry.body for key, entry in self._entries.items()}
        for term in terms:
            for key, score in _score_bm25(counts, term.text).items():
                scores[key] = scores.get(key, 0.0) + score * term.weight
        cosines = {} if vector is None else self.similarities(vector, list(self._entries))

        def rank(found: Mapping[ChunkKey, float]) -> list[Candidate]:
            matches = [Candidate(key, score) for key, score in found.items()]
            matches = [match for match in matches if self._admits(self._entries[int(match.key)], filters)]
            return sorted(matches, key=lambda match: (-match.score, int(match.key)))[: max(limit, 0)]

        return rank(scores), rank(cosines)

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        bodies = [entry.body for entry in self._entries.values()]
        return {word: _rarity(len(bodies), sum(word in body for body in bodies)) for word in words}

    def lane_coverage(self, filters: Filters) -> VectorCoverage:
        """Return the same as `coverage`: there are no other indexes."""
        return self.coverage(filters)

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        self._check_dimension([vector])
        query = array("f", vector)
        cosines: dict[ChunkKey, float] = {}
        for key in keys:
            entry = self._entries.get(int(key))
            stored = self._vectors.get(entry.chunk.vector_key) if entry else None
            if stored is not None:
                cosines[key] = math.fsum(a * b for a, b in zip(query, array("f", stored), strict=True))
        return cosines

    # -- writing -----------------------------------------------------------------------------------------------------

    def serves_model(self) -> bool:
        """Return True: the store is created for one model."""
        return True

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        """Return the only writer."""
        if self._written_by is not None:
            raise StoreBusy("the index is being written", hint="finish the other writer first")
        writer = MemoryWriter(self)
        self._written_by = writer
        try:
            yield writer
        finally:
            self._written_by = None

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def run(self, *, wait_s: float) -> AbstractContextManager[None]:
        """Return at once: other processes cannot share this store."""
        return nullcontext()

    def is_running(self) -> bool:
        """Return False: other processes cannot share this store."""
        return False

    def set_damaged_aside(self) -> str:
        return ""

    def mend(self, *, thoroughly: bool = False) -> str:
        return ""

    def compare(self, *, repair: bool = False) -> StoreComparison:
        """Return no difference: there is no second copy."""
        return StoreComparison("", len(self._entries), len(self._entries), repaired=repair)

    def reset(self) -> None:
        self._documents.clear()
        self._entries.clear()
        self._vector_sets = VectorSets()
        self._remarks.clear()
        self._writes += 1

    def close(self) -> None:
        """Do nothing."""

    # -- inside ------------------------------------------------------------------------------------------------------

    def _stored(self, entry: _IndexedChunk) -> StoredChunk:
        project = self._documents[entry.document].project
        has_vector = entry.chunk.vector_key in self._vectors
        return StoredChunk(entry.key, entry.chunk.identify(self._model), entry.chunk, project, has_vector)

    def _anchored(self) -> list[tuple[StoredChunk, Anchor]]:
        """Return the first chunk of each section that has an anchor, oldest first."""
        sections = reversed(self.recent(Filters(), len(self._entries)))
        return [(stored, stored.chunk.anchor) for stored in sections if stored.chunk.anchor]

    @property
    def _vectors(self) -> dict[str, Vector]:
        return self._vector_sets.served

    def _texts_without(self, vectors: Mapping[str, Vector]) -> list[PendingText]:
        pending: dict[str, PendingText] = {}
        for entry in self._entries.values():
            key = entry.chunk.vector_key
            if key not in vectors:
                pending.setdefault(key, PendingText(key, entry.chunk.embedded_text, entry.document))
        return list(pending.values())

    def _in_projects(self, entry: _IndexedChunk, filters: Filters) -> bool:
        return filters.projects is None or self._documents[entry.document].project in filters.projects

    def _admits(self, entry: _IndexedChunk, filters: Filters) -> bool:
        chunk, day = entry.chunk, entry.chunk.date[:10]
        prefix = filters.source_prefix.rstrip("/")
        return (
            self._in_projects(entry, filters)
            and (not filters.source_prefix or chunk.source == prefix or chunk.source.startswith(prefix + "/"))
            and (not filters.since or day >= filters.since)
            and (not filters.until or (bool(day) and day <= filters.until))
            and (not filters.types or chunk.type in filters.types)
            and set(filters.tags) <= set(chunk.tags)
        )

    def _check_dimension(self, vectors: Iterable[Vector], among: Mapping[str, Vector] | None = None) -> None:
        existing = self._vectors if among is None else among
        expected = next((len(vector) for vector in existing.values()), None)
        for vector in vectors:
            if expected is not None and len(vector) != expected:
                raise ModelFault(f"{self._space}: {len(vector) // 4} dimensions; the index has {expected // 4}")
            expected = len(vector)

    def _add_document(self, update: DocumentUpdate) -> None:
        self._resume_points[update.document.source] = update.resume
        self._documents[update.document.source] = replace(update.document, chunk_count=len(update.chunks))
        for chunk in update.chunks:
            body = Counter(self._analyser.words(chunk.matched_text))
            self._entries[self._next_key] = _IndexedChunk(self._next_key, chunk.source, chunk, body)
            self._next_key += 1

    def _remove_document(self, source: str) -> bool:
        self._entries = {key: entry for key, entry in self._entries.items() if entry.document != source}
        self._resume_points.pop(source, None)
        return self._documents.pop(source, None) is not None


def _score_bm25(counts: Mapping[int, Mapping[str, int]], term: str) -> dict[int, float]:
    """Score every entry that contains the term with tantivy's formula."""
    lengths = {key: max(sum(words.values()), MIN_BM25_WORDS) for key, words in counts.items()}
    average = sum(lengths.values()) / len(lengths) if lengths else 0.0
    matching = {key: words[term] for key, words in counts.items() if term in words}
    rarity = _rarity(len(counts), len(matching))
    return {
        key: rarity * (_K1 + 1) * count / (count + _K1 * (1 - _B + _B * lengths[key] / average))
        for key, count in matching.items()
    }


def _rarity(chunks: int, matching: int) -> float:
    return math.log1p((chunks - matching + 0.5) / (matching + 0.5)) if chunks else 0.0
