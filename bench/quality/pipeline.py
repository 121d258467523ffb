"""One set from its files to rankings: written as Markdown, indexed and asked by the engine that users have.

The engine is wired as a command wires it, with default settings and a home of its own. The one thing exchanged is the
embedder, for one that remembers (`vectors`). A group of a set is a project, and its questions are asked in that
project.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.quality.layout import Layout
from bench.quality.rivals import CUT, PlainBM25, memsearch
from bench.quality.sets import JudgedSet, Question
from bench.quality.vectors import KeptEmbedder, VectorFolder
from msgspec.structs import replace

from lorelog.core.document import ChunkKey
from lorelog.core.query import Filters, Hit
from lorelog.core.vectors import unit_vector
from lorelog.language.analyser import WordAnalyser
from lorelog.services.evaluation.search_quality import RANKING_DEPTH, rank_documents
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.places.workspace import Project
from lorelog.stores.embedded import EmbeddedStore
from lorelog.wiring import Location, open_engine

RANKINGS = ("BM25", "dense", "memsearch", "ours")
_UNGROUPED = "corpus"


class NotIndexed(Exception):
    """Files of a set were not indexed, so its results would mean nothing."""


class NotReranked(Exception):
    """The cross-encoder did not answer, so the results would be those of the first ranking."""


@dataclass(frozen=True)
class Place:
    """A document in a ranking, with its hit if there is one."""

    document: str
    hit: Hit | None = None


class Bench:
    """An indexed set. Use it as a context manager."""

    def __init__(
        self, given: JudgedSet, folder: Path, vectors: Path, *, anchors: bool = False, rerank: str = ""
    ) -> None:
        self._layout = Layout(folder / "files", anchors=anchors)
        self._layout.write(given.texts)
        project = Project(id=str(folder / "here"), root=str(folder / "here"), name="here", git=False)
        (folder / "here").mkdir(exist_ok=True)
        # Without the cache of answers: what is measured is searching, and each search is to be seen.
        settings = {"LORELOG_CACHE_ANSWERS": "false"}
        if rerank:
            settings |= {"LORELOG_RERANK_MODEL": rerank, "LORELOG_RERANK_TIMEOUT_S": "60"}
        self._engine = open_engine(Location(folder / "home", project, settings))
        inner = self._engine.embedder
        if inner is None:
            raise NotIndexed("the default settings name no model")
        self.embedder = KeptEmbedder(inner, VectorFolder(vectors, f"{inner.provider}/{inner.model}"))
        self._engine.embedder = self.embedder
        self._analyser = WordAnalyser()
        self._store = EmbeddedStore(
            self._engine.place.cache_folder, self._analyser, provider=inner.provider, model=inner.model
        )
        self._documents: dict[ChunkKey, list[str]] = {}
        self._plain: dict[str, PlainBM25] = {}
        self.chunks = 0
        self.shared_chunks = 0
        """Return the chunks with lines of several documents, as made by an unclosed fence."""
        self.seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()
        self._store.close()

    def index(self) -> None:
        """Index every group under its own project, and map chunks to documents."""
        started = time.perf_counter()
        for group, folder in self._layout.folders.items():
            report = self._engine.maintenance().index(IndexTargets((str(folder),), project=_project(group)))
            if report.problems or report.waiting:
                first = report.problems[0].message if report.problems else f"{report.waiting} chunks without vectors"
                raise NotIndexed(f"{folder}: {first}")
        self.seconds = time.perf_counter() - started
        texts: dict[str, dict[ChunkKey, str]] = {_project(group): {} for group in self._layout.folders}
        for document in self._store.documents():
            for stored in self._store.chunks_of(document.source):
                chunk = stored.chunk
                owners = self._layout.documents(chunk.source, chunk.start_line, chunk.end_line)
                self._documents[stored.key] = owners
                self.shared_chunks += len(owners) > 1
                texts[stored.project][stored.key] = chunk.text
        self.chunks = len(self._documents)
        self._plain = {project: PlainBM25(found) for project, found in texts.items()}

    @property
    def store(self) -> EmbeddedStore:
        """Return the index for reading."""
        return self._store

    @property
    def analyser(self) -> WordAnalyser:
        """Return the analyser of the index."""
        return self._analyser

    def project(self, question: Question) -> str:
        """Return the project of a query."""
        return _project(question.group)

    def documents_of(self, key: ChunkKey) -> list[str]:
        """Return the documents of a chunk."""
        return self._documents[key]

    @property
    def unreachable(self) -> int:
        """Return the number of documents without a chunk, because they are empty."""
        written = sum(map(len, (page.ids for page in self._layout.pages())))
        return written - len({owner for owners in self._documents.values() for owner in owners})

    def rankings(self, question: Question, relevant: Collection[str], least: int) -> dict[str, list[Place]]:
        """Rank the documents for a query with each method, as deep as the measures need."""
        project = _project(question.group)
        filters = Filters(projects=(project,))
        terms = self._analyser.query_terms(question.text)
        vector = unit_vector(self.embedder.embed_query(question.text))
        dense = self._lane(lambda limit: [item.key for item in self._store.propose((), vector, filters, limit)[1]])
        words = self._lane(lambda limit: [item.key for item in self._store.propose(terms, None, filters, limit)[0]])
        both = memsearch(self._plain[project].rank(question.text, CUT), dense)
        return {
            "BM25": self._places(words),
            "dense": self._places(dense),
            "memsearch": self._places(both),
            "ours": self.ask(question.text, question.group, relevant, least),
        }

    def ask(self, text: str, group: str, relevant: Collection[str] = (), least: int = 1) -> list[Place]:
        """Search as a user does, with growing limits until `least` documents and a relevant one are found."""
        found = rank_documents(lambda k: self.hits(text, group, k), self.owners, relevant, least)
        return [Place(document, hit) for document, hit in found.items()]

    def hits(self, text: str, group: str, k: int) -> Sequence[Hit]:
        """Return the hits of a search with default settings."""
        options = replace(self._engine.defaults.search, filters=Filters(projects=(_project(group),)), k=k)
        reply = self._engine.search(text, options)
        if refused := [note for note in reply.notes if note.startswith("not reranked")]:
            raise NotReranked(refused[0])
        return reply.hits

    def owners(self, hit: Hit) -> Iterator[str]:
        """Return the documents of a hit: its own, then those of its folded duplicates."""
        yield from self._layout.documents(hit.source, hit.start_line, hit.end_line)
        for place in hit.duplicates:
            yield from self._layout.at(place)

    def _lane(self, propose: Callable[[int], list[ChunkKey]]) -> list[ChunkKey]:
        limit = 2 * RANKING_DEPTH
        while True:
            keys = propose(limit)
            if len(keys) < limit or len(self._places(keys)) >= RANKING_DEPTH:
                return keys
            limit *= 4

    def _places(self, keys: Sequence[ChunkKey]) -> list[Place]:
        return [
            Place(fromkey)
            for fromkey in dict.fromkeys(fromkey for key in keys for fromkey in self._documents.get(key, ()))
        ]


def parts_of(hit: Hit) -> Mapping[str, float]:
    """Return the parts of a hit's score by name."""
    return {part.name: part.value for part in hit.explanation.parts}


def _project(group: str) -> str:
    return group or _UNGROUPED
