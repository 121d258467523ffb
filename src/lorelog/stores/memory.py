"""The reference store: plain dictionaries that do what the contract says, and object when a caller breaks it.

It exists to be read beside `core.ports` and to be stricter than the real ones: whatever it refuses, a caller must
not do. Nothing is written anywhere, so it also serves programs that want a throw-away memory.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from lorelog.core.document import Chunk, Document, Key, StoredChunk
from lorelog.core.errors import ModelFault, StoreBusy
from lorelog.core.ports import (
    SHORT,
    Analyser,
    Changeover,
    Comparison,
    Covering,
    DocumentUpdate,
    PendingText,
    StoreStats,
    StoreWriter,
    Supersession,
    Surroundings,
    Twofold,
    Vector,
)
from lorelog.core.query import Candidate, Coverage, Filters, Term
from lorelog.stores.memory_vectors import Shelves
from lorelog.stores.memory_writing import MemoryWriter

_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class _Entry:
    key: int
    document: str
    chunk: Chunk
    body: Mapping[str, int]


class MemoryStore:
    """An index of one process that ends with it."""

    def __init__(self, analyser: Analyser, *, provider: str, model: str) -> None:
        self._analyser = analyser
        self._space = f"{provider}/{model}"
        self._model = model
        self._documents: dict[str, Document] = {}
        self._entries: dict[int, _Entry] = {}
        self._shelves = Shelves()
        self._remarks: dict[str, str] = {}
        self._next_key = 1
        self._writes = 0
        self._written_by: object | None = None

    # -- catalog -----------------------------------------------------------------------------------------------------

    def documents(self) -> list[Document]:
        """Return all documents, by source."""
        return [self._documents[source] for source in sorted(self._documents)]

    def document(self, source: str) -> Document | None:
        """Return one document, or None when it is unknown."""
        return self._documents.get(source)

    def recent(self, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section, newest first, at most `limit`."""
        begun = [one for one in self._entries.values() if one.chunk.piece == 0 and self._admits(one, filters)]
        begun.sort(key=lambda one: (one.chunk.date, one.chunk.source, one.chunk.start_line), reverse=True)
        return [self._stored(one) for one in begun[:limit]]

    def projects(self) -> dict[str, int]:
        """Return the number of chunks by project."""
        counts = dict.fromkeys((document.project for document in self._documents.values()), 0)
        for entry in self._entries.values():
            counts[self._documents[entry.document].project] += 1
        return counts

    def tags(self, prefix: str, filters: Filters) -> dict[str, int]:
        """Return how many admitted sections bear each tag that begins so, by tag."""
        counts: Counter[str] = Counter()
        for one in self._entries.values():
            has_all = set(filters.tags) <= set(one.chunk.tags)
            if one.chunk.piece == 0 and has_all and self._in_projects(one, filters):
                counts.update({tag for tag in one.chunk.tags if tag.startswith(prefix)})
        return dict(sorted(counts.items()))

    def of_session(self, session: str, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section and whose anchor names this session, newest first."""
        everything = self.recent(filters, len(self._entries))
        return [one for one in everything if session and one.chunk.anchor and one.chunk.anchor.session == session][
            :limit
        ]

    def supersessions(self) -> list[Supersession]:
        """Return what anchors say to be superseded, oldest word first."""
        told = [one for one in reversed(self.recent(Filters(), len(self._entries))) if one.chunk.anchor]
        return [
            Supersession(old, one.chunk.anchor.memory or one.id, one.project)
            for one in told
            if one.chunk.anchor
            for old in one.chunk.anchor.superseded
        ]

    def coverings(self) -> list[Covering]:
        """Return what anchors say to be summed up, oldest word first."""
        told = [one for one in reversed(self.recent(Filters(), len(self._entries))) if one.chunk.anchor]
        return [
            Covering(one.chunk.anchor.memory or one.id, one.project, one.chunk.anchor.covers)
            for one in told
            if one.chunk.anchor and one.chunk.anchor.covers
        ]

    def vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        """Return the vectors that these chunks have."""
        there = {key: self._entries[int(key)].chunk.vector_key for key in keys if int(key) in self._entries}
        return {key: self._vectors[one] for key, one in there.items() if one in self._vectors}

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order; empty when it is unknown."""
        return [self._stored(entry) for entry in self._entries.values() if entry.document == source]

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id, or whose anchor's memory id, or else whose content's hash starts so; at most 10, by id."""
        if not id_prefix:
            return []
        known = [self._stored(entry) for entry in self._entries.values()]
        found = [
            stored
            for stored in known
            if stored.id.startswith(id_prefix)
            or (stored.chunk.anchor is not None and stored.chunk.anchor.memory.startswith(id_prefix))
        ]
        found = found or [one for one in known if one.chunk.content_hash.startswith(id_prefix)]
        return sorted(found, key=lambda stored: stored.id)[:10]

    def find_elsewhere(self, id_prefix: str) -> list[StoredChunk]:
        """Return nothing: there is no elsewhere."""
        return []

    def fetch(self, keys: Sequence[Key]) -> dict[Key, StoredChunk]:
        """Return the chunks still there under these keys."""
        return {key: self._stored(self._entries[int(key)]) for key in keys if int(key) in self._entries}

    def sample(self, count: int) -> list[StoredChunk]:
        """Return chunks with vectors, from all over the index."""
        ready = [entry for entry in self._entries.values() if entry.chunk.vector_key in self._vectors]
        step = max(1, -(-len(ready) // max(count, 1)))
        return [self._stored(entry) for entry in ready[::step]][: max(count, 0)]

    def remark(self, name: str) -> str:
        """Return what a writer noted."""
        return self._remarks.get(name, "")

    def surroundings(self, keys: Sequence[Key], longest: int) -> dict[Key, Surroundings]:
        """Return what stands around the short ones among these chunks."""
        found: dict[Key, Surroundings] = {}
        for key in keys:
            entry = self._entries.get(int(key))
            if entry is None or len(entry.chunk.text) > longest:
                continue
            file = [one.key for one in self._entries.values() if one.document == entry.document]
            place = file.index(entry.key)
            found[key] = Surroundings(
                len(entry.chunk.text),
                near=tuple(file[one] for one in (place - 1, place + 1) if 0 <= one < len(file)),
                far=tuple(file[one] for one in (place - 2, place + 2) if 0 <= one < len(file)),
            )
        return found

    def entry_sizes(self, keys: Sequence[Key], most: int) -> dict[Key, int]:
        """Return of how many chunks the entry of each of these chunks is made, counting no further than `most`."""
        sizes: dict[Key, int] = {}
        for key in keys:
            entry = self._entries.get(int(key))
            if entry is None:
                continue
            size = 0
            has_it = False
            for one in (one for one in self._entries.values() if one.document == entry.document):
                if one.chunk.begins_entry:
                    if has_it:
                        break
                    size = 0
                size += 1
                has_it = has_it or one.key == entry.key
            sizes[key] = min(size, most)
        return sizes

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        """Return those vector keys for which the current model has no vector."""
        return {key for key in vector_keys if key not in self._vectors}

    def pending(self, limit: int) -> list[PendingText]:
        """Return texts that have no vector of the current model yet, each vector key once."""
        return self._without(self._vectors)[:limit]

    def changeover(self) -> Changeover:
        """Return whether vectors are made beside: one process, one model."""
        shelves = self._shelves
        return Changeover(
            self._space,
            self._space if self._entries else "",
            serves_vectors=bool(shelves.served),
            begun="" if shelves.beside is None else self._space,
            waiting=0 if shelves.beside is None else len(self._without(shelves.beside)),
            declined=self._space if shelves.declined else "",
        )

    def pending_beside(self, limit: int) -> list[PendingText]:
        """Return texts that have no vector beside yet, each vector key once."""
        beside = self._shelves.beside
        return [] if beside is None else self._without(beside)[:limit]

    def twofold(self, count: int) -> list[Twofold]:
        """Return chunks that have both vectors, from all over the index."""
        beside = self._shelves.beside or {}
        ready = {
            one.chunk.vector_key: one
            for one in reversed(self._entries.values())
            if one.chunk.vector_key in self._vectors.keys() & beside.keys()
        }
        chosen = list(ready.items())[:: -max(1, -(-len(ready) // max(count, 1)))][: max(count, 0)]
        return [Twofold(self._stored(entry), self._vectors[key], beside[key]) for key, entry in chosen]

    def coverage(self, filters: Filters) -> Coverage:
        """Return how many chunks of the admitted projects have vectors."""
        admitted = [entry for entry in self._entries.values() if self._in_projects(entry, filters)]
        return Coverage(len(admitted), sum(entry.chunk.vector_key in self._vectors for entry in admitted))

    def stats(self) -> StoreStats:
        """Return the sizes of this index."""
        return StoreStats(
            documents=len(self._documents),
            chunks=len(self._entries),
            vectors=len(self._vectors),
            other_vectors=self._shelves.others(),
            projects=self.projects(),
            bytes_on_disk=0,
            schema_version=0,
            location="memory",
        )

    def revision(self) -> str:
        """Return the number of writes so far."""
        return str(self._writes)

    # -- lanes -------------------------------------------------------------------------------------------------------

    def lexical(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks that contain any of the terms, best BM25 first, at most `limit`."""
        scores: Counter[int] = Counter()
        counts = {key: entry.body for key, entry in self._entries.items()}
        for term in terms:
            for key, score in _bm25(counts, term.text).items():
                scores[key] += score * term.weight  # type: ignore[assignment]
        found = [Candidate(key, score) for key, score in scores.items() if self._admits(self._entries[key], filters)]
        return sorted(found, key=lambda one: (-one.score, int(one.key)))[: max(limit, 0)]

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word."""
        held = [entry.body for entry in self._entries.values()]
        return (
            {word: _rarity(len(held), sum(word in body for body in held)) for word in words}
            if held
            else dict.fromkeys(words, 0.0)
        )

    def dense(self, vector: Vector, filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks by cosine with a unit vector, best first, at most `limit`."""
        self._check_dimension([vector])
        admitted = [key for key, entry in self._entries.items() if self._admits(entry, filters)]
        found = [Candidate(key, score) for key, score in self.similarities(vector, admitted).items()]
        return sorted(found, key=lambda one: (-one.score, int(one.key)))[: max(limit, 0)]

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return what both lanes propose."""
        near = [] if vector is None else self.dense(vector, filters, limit)
        return self.lexical(terms, filters, limit), near

    def reach(self, filters: Filters) -> Coverage:
        """Return how many chunks the lanes find: those that are here."""
        return self.coverage(filters)

    def similarities(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each of these chunks that has a vector."""
        self._check_dimension([vector])
        question = array("f", vector)
        found: dict[Key, float] = {}
        for key in keys:
            entry = self._entries.get(int(key))
            stored = self._vectors.get(entry.chunk.vector_key) if entry else None
            if stored is not None:
                found[key] = math.fsum(a * b for a, b in zip(question, array("f", stored), strict=True))
        return found

    # -- writing -----------------------------------------------------------------------------------------------------

    def serves_model(self) -> bool:
        """One process, one model."""
        return True

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        """Become the one writer."""
        if self._written_by is not None:
            raise StoreBusy("the index is being written", hint="finish the other writer first")
        writer = MemoryWriter(self)
        self._written_by = writer
        try:
            yield writer
        finally:
            self._written_by = None

    def run(self, *, wait_s: float) -> AbstractContextManager[None]:
        """One process, one run."""
        return nullcontext()

    def compare(self, *, repair: bool = False) -> Comparison:
        """Nothing is kept twice."""
        return Comparison("", len(self._entries), len(self._entries), repaired=repair)

    def reset(self) -> None:
        """Delete the whole index."""
        self._documents.clear()
        self._entries.clear()
        self._shelves = Shelves()
        self._remarks.clear()
        self._writes += 1

    def close(self) -> None:
        """Nothing to let go of."""

    # -- inside ------------------------------------------------------------------------------------------------------

    def _stored(self, entry: _Entry) -> StoredChunk:
        project = self._documents[entry.document].project
        has_vector = entry.chunk.vector_key in self._vectors
        return StoredChunk(entry.key, entry.chunk.identify(self._model), entry.chunk, project, has_vector)

    @property
    def _vectors(self) -> dict[str, Vector]:
        return self._shelves.served

    def _without(self, vectors: Mapping[str, Vector]) -> list[PendingText]:
        waiting: dict[str, PendingText] = {}
        for entry in self._entries.values():
            key = entry.chunk.vector_key
            if key not in vectors and key not in waiting:
                waiting[key] = PendingText(key, entry.chunk.embedded_text, entry.document)
        return list(waiting.values())

    def _in_projects(self, entry: _Entry, filters: Filters) -> bool:
        return filters.projects is None or self._documents[entry.document].project in filters.projects

    def _admits(self, entry: _Entry, filters: Filters) -> bool:
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
        there = self._vectors if among is None else among
        known = next((len(vector) for vector in there.values()), None)
        for vector in vectors:
            if known is not None and len(vector) != known:
                raise ModelFault(f"{self._space}: {len(vector) // 4} dimensions; the index has {known // 4}")
            known = len(vector)

    def _enter(self, update: DocumentUpdate) -> None:
        self._documents[update.document.source] = replace(update.document, chunk_count=len(update.chunks))
        for chunk in update.chunks:
            body = Counter(self._analyser.words(chunk.matched_text))
            self._entries[self._next_key] = _Entry(self._next_key, chunk.source, chunk, body)
            self._next_key += 1

    def _leave(self, source: str) -> bool:
        self._entries = {key: entry for key, entry in self._entries.items() if entry.document != source}
        return self._documents.pop(source, None) is not None


def _bm25(counts: Mapping[int, Mapping[str, int]], term: str) -> dict[int, float]:
    """Score every entry that has the term, as tantivy does."""
    lengths = {key: max(sum(words.values()), SHORT) for key, words in counts.items()}
    average = sum(lengths.values()) / len(lengths) if lengths else 0.0
    having = {key: words[term] for key, words in counts.items() if term in words}
    rarity = _rarity(len(counts), len(having))
    return {
        key: rarity * (_K1 + 1) * count / (count + _K1 * (1 - _B + _B * lengths[key] / average))
        for key, count in having.items()
    }


def _rarity(chunks: int, having: int) -> float:
    return math.log1p((chunks - having + 0.5) / (having + 0.5)) if chunks else 0.0
