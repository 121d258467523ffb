"""One set from its files to rankings: written as Markdown, indexed and asked by the engine that users have.

The engine is wired as a command wires it, with default settings and a home of its own. The one thing exchanged is the
embedder, for one that remembers (`vectors`). A group of a set is a project, and its questions are asked in that project.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.quality.layout import Layout
from bench.quality.rivals import CUT, PlainBM25, memsearch
from bench.quality.sets import JudgedSet, Question
from bench.quality.vectors import KeptEmbedder, VectorFolder

from lorelog.core.document import Key
from lorelog.core.query import Filters, Hit
from lorelog.core.vectors import unit
from lorelog.retrieval.analyse import WordAnalyser
from lorelog.retrieval.measure import DEPTH
from lorelog.services.evaluate import deepen
from lorelog.services.reach import Named
from lorelog.services.scope import Project
from lorelog.stores.embedded import EmbeddedStore
from lorelog.wiring import Standpoint, open_engine

RANKINGS = ("BM25", "dense", "memsearch", "ours")
_UNGROUPED = "corpus"


class NotIndexed(Exception):
    """Files of a set did not get into the index, so that its numbers would mean nothing."""


@dataclass(frozen=True)
class Place:
    """A document in a ranking, with the hit that brought it there where one did."""

    document: str
    hit: Hit | None = None


class Bench:
    """A set, indexed. Use it as a context manager."""

    def __init__(self, given: JudgedSet, folder: Path, vectors: Path, *, anchors: bool = False) -> None:
        self._layout = Layout(folder / "files", anchors=anchors)
        self._layout.write(given.texts)
        project = Project(id=str(folder / "here"), root=str(folder / "here"), name="here", git=False)
        (folder / "here").mkdir(exist_ok=True)
        # Without the cache of answers: what is measured is searching, and each search is to be seen.
        settings = {"LORELOG_CACHE_ANSWERS": "false"}
        self._engine = open_engine(Standpoint(folder / "home", project, settings))
        inner = self._engine._embedder  # noqa: SLF001  (wired as for everyone, then taught to remember)
        if inner is None:
            raise NotIndexed("the default settings name no model")
        self.embedder = KeptEmbedder(inner, VectorFolder(vectors, f"{inner.provider}/{inner.model}"))
        self._engine._embedder = self.embedder  # noqa: SLF001
        self._analyser = WordAnalyser()
        self._store = EmbeddedStore(
            self._engine.place.tenant_folder / "index", self._analyser, provider=inner.provider, model=inner.model
        )
        self._documents: dict[Key, list[str]] = {}
        self._plain: dict[str, PlainBM25] = {}
        self.chunks = 0
        self.shared_chunks = 0
        """Chunks with lines of more than one document, as an unclosed fence makes them."""
        self.seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()
        self._store.close()

    def index(self) -> None:
        """Index every group under its own project, and learn which chunk belongs to which document."""
        started = time.perf_counter()
        for group, folder in self._layout.folders.items():
            report = self._engine.index(Named((str(folder),), project=_project(group)))
            if report.problems or report.waiting:
                first = report.problems[0].message if report.problems else f"{report.waiting} chunks without vectors"
                raise NotIndexed(f"{folder}: {first}")
        self.seconds = time.perf_counter() - started
        texts: dict[str, dict[Key, str]] = {_project(group): {} for group in self._layout.folders}
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
        """The index, to be read."""
        return self._store

    @property
    def analyser(self) -> WordAnalyser:
        """What made its words."""
        return self._analyser

    def project(self, question: Question) -> str:
        """The project that a question is asked in."""
        return _project(question.group)

    def documents_of(self, key: Key) -> list[str]:
        """The documents that a chunk has lines of."""
        return self._documents[key]

    @property
    def unreachable(self) -> int:
        """How many documents have no chunk, being empty."""
        written = sum(map(len, (page.ids for page in self._layout.pages())))
        return written - len({one for owners in self._documents.values() for one in owners})

    def rankings(self, question: Question, relevant: Collection[str], least: int) -> dict[str, list[Place]]:
        """Rank the documents for a question in each way, as deep as its measures need."""
        project = _project(question.group)
        filters = Filters(projects=(project,))
        terms = self._analyser.query_terms(question.text)
        vector = unit(self.embedder.embed_query(question.text))
        dense = self._lane(lambda limit: [one.key for one in self._store.dense(vector, filters, limit)])
        words = self._lane(lambda limit: [one.key for one in self._store.lexical(terms, filters, limit)])
        both = memsearch(self._plain[project].rank(question.text, CUT), dense)
        return {
            "BM25": self._places(words),
            "dense": self._places(dense),
            "memsearch": self._places(both),
            "ours": self.ask(question.text, question.group, relevant, least),
        }

    def ask(self, text: str, group: str, relevant: Collection[str] = (), least: int = 1) -> list[Place]:
        """Ask as a user would, and go on asking for more until `least` documents and a relevant one are among them."""
        found = deepen(lambda k: self.hits(text, group, k), self.owners, relevant, least)
        return [Place(document, hit) for document, hit in found.items()]

    def hits(self, text: str, group: str, k: int) -> Sequence[Hit]:
        """The hits of a search with default settings."""
        options = replace(self._engine.defaults.search, filters=Filters(projects=(_project(group),)), k=k)
        return self._engine.search(text, options).hits

    def owners(self, hit: Hit) -> Iterator[str]:
        """The documents a hit stands for: its own, then those whose repeats it folds, as if they were not folded."""
        yield from self._layout.documents(hit.source, hit.start_line, hit.end_line)
        for place in hit.duplicates:
            yield from self._layout.at(place)

    def _lane(self, propose: Callable[[int], list[Key]]) -> list[Key]:
        limit = 2 * DEPTH
        while True:
            keys = propose(limit)
            if len(keys) < limit or len(self._places(keys)) >= DEPTH:
                return keys
            limit *= 4

    def _places(self, keys: Sequence[Key]) -> list[Place]:
        return [Place(one) for one in dict.fromkeys(one for key in keys for one in self._documents.get(key, ()))]


def parts_of(hit: Hit) -> Mapping[str, float]:
    """The shares of a hit's score by name."""
    return {part.name: part.value for part in hit.explanation.parts}


def _project(group: str) -> str:
    return group or _UNGROUPED
