"""A shelf of texts to search, with vectors chosen by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import cos, sin

from tests.stores.making import TemporaryStore, update, vector

from lorelog.core.options import SearchOptions
from lorelog.core.ports import EmbeddedTexts, Embedder, Store, Vector
from lorelog.core.query import Explanation, Filters, Fusion, Hit, Lane, SearchReply
from lorelog.language.analyser import WordAnalyser
from lorelog.services.search.searcher import SearchDeps, Searcher


class DirectedEmbedder:
    """Every question points one way; what was asked is kept."""

    provider = "directed"
    model = "directed-2"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        raise AssertionError("a search embeds no documents")

    def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return vector(1.0, 0.0)

    def close(self) -> None:
        pass


def away(angle: float) -> Vector:
    """Return a vector that lies so far from every question, in radians."""
    return vector(cos(angle), sin(angle))


class Shelf:
    """A store to fill with texts, and a searcher over it."""

    def __init__(self, store: Store, embedder: Embedder | None, judges: SearchDeps | None = None) -> None:
        self.store = store
        self.embedder = embedder
        self.judges = judges

    def put(
        self, texts: Mapping[str, Vector | None] | Iterable[tuple[str, Vector | None]], project: str = "/p"
    ) -> None:
        """Store each text as a document of its own, in order, with a vector or without one."""
        pairs = list(texts.items() if isinstance(texts, Mapping) else texts)
        shelved = len(self.store.documents())
        updates = [
            update(f"{project}/{number:04}.md", [text], project=project)
            for number, (text, _) in enumerate(pairs, shelved)
        ]
        vectors = {
            item.chunks[0].vector_key: given
            for item, (_, given) in zip(updates, pairs, strict=True)
            if given is not None
        }
        with self.store.writer(take_over=True) as writer:
            writer.put(updates)
            writer.put_vectors(vectors)

    def search(
        self,
        query: str,
        k: int = 5,
        lane: Lane = Lane.HYBRID,
        fusion: Fusion = Fusion.CONVEX,
        projects: tuple[str, ...] | None = None,
        min_relevance: float = 0.0,
    ) -> SearchReply:
        options = SearchOptions(k, lane, fusion, Filters(projects=projects), min_relevance=min_relevance)
        return Searcher(self.store, self.embedder, WordAnalyser(), self.judges).search(query, options)

    def found(self, query: str, k: int = 5, lane: Lane = Lane.HYBRID, fusion: Fusion = Fusion.CONVEX) -> list[str]:
        return [hit.content for hit in self.search(query, k, lane, fusion).hits]


def shelf_of(embedder: Embedder | None) -> Shelf:
    name = embedder or DirectedEmbedder()
    return Shelf(TemporaryStore(WordAnalyser(), provider=name.provider, model=name.model), embedder)


def make_hit(number: int, source: str = "/a.md", heading_path: tuple[str, ...] = ()) -> Hit:
    """A hit of a file, the better the lower its number."""
    where = (source, 1, 1, "", 0, heading_path, "", "", "", ())
    return Hit(str(number), -float(number), *where, "", "", "", (), None, Explanation(()))
