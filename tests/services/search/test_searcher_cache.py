"""What a searcher keeps between questions, and what it does not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from tests.stores.making import TemporaryStore, update, vector

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import CacheOptions, RerankOptions, SearchOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.core.query import SearchReply
from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.cache import AnswerCache
from lorelog.services.search.searcher import SearchDeps, Searcher


class OneWayEmbedder:
    """Every question points one way; it fails while it is told to."""

    provider, model = "directed", "directed-2"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        raise AssertionError("a search embeds no documents")

    def embed_query(self, text: str) -> Vector:
        if self.fails:
            raise ModelUnavailable("no server at localhost:1")
        self.asked.append(text)
        return vector(1.0, 0.0)

    def close(self) -> None:
        pass


class FailingReranker(OneWayEmbedder):
    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if self.fails:
            raise ModelUnavailable("no such file")
        return [float(len(text)) for text in texts]


class CachedSearches:
    """Two otters with vectors, and a searcher that keeps everything."""

    def __init__(self) -> None:
        self.model, self.judge, self.today = OneWayEmbedder(), FailingReranker(), dt.date(2026, 3, 5)
        analyser = WordAnalyser()
        self.store = TemporaryStore(analyser, provider="directed", model="directed-2")
        self.write("one otter sleeps", "another otter swims in the river")
        self.answers = AnswerCache(CacheOptions())
        judges = SearchDeps(self.judge, RerankOptions(model="judge"), lambda: self.today)
        self.searcher = Searcher(self.store, self.model, analyser, judges, self.answers)

    def write(self, *texts: str) -> None:
        with self.store.writer() as writer:
            writer.put([update("/a.md", texts)])
            writer.put_vectors({item.vector_key: vector(1.0, 0.1) for item in self.store.pending(9)})

    def ask(self, query: str = "otter") -> SearchReply:
        return self.searcher.search(query, SearchOptions())


def test_a_question_asked_again_is_not_searched_again() -> None:
    """White space aside it is the same question, and the model is not asked twice."""
    desk = CachedSearches()

    assert desk.ask("otter  sleeps") == desk.ask(" otter sleeps")
    assert desk.model.asked == ["otter sleeps"]
    assert desk.answers.counters().exact == 1


def test_a_write_is_seen_at_once() -> None:
    """After a write the answer is the new one."""
    desk = CachedSearches()
    desk.ask()

    desk.write("the otter is gone")

    assert [hit.content for hit in desk.ask().hits] == ["the otter is gone"]


def test_tomorrow_it_is_another_question() -> None:
    """Words like yesterday mean another day then."""
    desk = CachedSearches()
    desk.ask()

    desk.today = dt.date(2026, 3, 6)
    desk.ask()

    assert desk.answers.counters().exact == 0


@pytest.mark.parametrize(
    ("part", "note"),
    [("model", "showing keyword matches only: no server at localhost:1"), ("judge", "not reranked: no such file")],
)
def test_the_answer_of_a_model_that_failed_is_not_kept(part: str, note: str) -> None:
    """As soon as the model or the cross-encoder is back, it is asked, though nothing was written."""
    desk = CachedSearches()
    failing = getattr(desk, part)
    failing.fails = True
    assert note in desk.ask().notes

    failing.fails = False
    desk.model.asked.clear()

    assert desk.ask().notes == ()
    assert desk.model.asked == ["otter"]
