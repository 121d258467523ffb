"""The caches never return a reply that a search would not give now, and stay within their limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from tests.examples import examples
from tests.stores.making import TemporaryStore, update
from tests.threads import in_threads

from lorelog.core.options import CacheOptions, SearchOptions
from lorelog.core.query import Explanation, Filters, Hit, Lane, SearchReply, VectorCoverage
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.retrieval.cache import AnswerCache, AnswerKey, normalize_spaces
from lorelog.services.search.searcher import Searcher

DAY = "2026-03-05"


def inquiry(query: str = "where do otters sleep", **more: object) -> AnswerKey:
    given: dict[str, object] = {"options": SearchOptions(), "model": "fake/fake-64", "day": DAY}
    return AnswerKey(query, **(given | more))  # type: ignore[arg-type]


def reply(query: str = "where do otters sleep", hits: int = 1, notes: tuple[str, ...] = ()) -> SearchReply:
    return SearchReply(
        query, Lane.HYBRID, tuple(hit(number) for number in range(hits)), VectorCoverage(hits, hits), notes
    )


def hit(number: int) -> Hit:
    where = (f"/{number}.md", 1, 1, "", 0, (), "", "", "", ())
    return Hit(f"id{number}", 1.0, *where, "text", "hash", "text", (), None, Explanation(()))


def cache(**more: object) -> AnswerCache:
    made = AnswerCache(CacheOptions(**more))  # type: ignore[arg-type]
    assert made.get(inquiry(), "r1") is None
    return made


# -- the same question -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        inquiry("where do otters sleep?"),
        inquiry("Where do otters sleep"),
        inquiry(options=SearchOptions(k=6)),
        inquiry(options=SearchOptions(lane=Lane.LEXICAL)),
        inquiry(options=SearchOptions(filters=Filters(projects=("/p",)))),
        inquiry(options=SearchOptions(filters=Filters(tags=("x",)))),
        inquiry(model="fake/other"),
        inquiry(day="2026-03-06"),
    ],
    ids=str,
)
def test_everything_that_decides_an_answer_is_in_its_key(other: AnswerKey) -> None:
    """Another text, option, filter, model or day is another key."""
    kept = cache()
    kept.put(inquiry(), "r1", reply())

    assert kept.get(other, "r1") is None


def test_the_answer_unused_for_longest_makes_room() -> None:
    """The number of replies is limited, and the least recently used is evicted."""
    kept = cache(answers_entries=2)
    for name in ("one", "two"):
        kept.put(inquiry(name), "r1", reply(name))
    kept.get(inquiry("one"), "r1")

    kept.put(inquiry("three"), "r1", reply("three"))

    assert [kept.get(inquiry(name), "r1") is not None for name in ("one", "two", "three")] == [True, False, True]
    assert (kept.counters().evicted, kept.counters().answers) == (1, 2)


def test_large_answers_are_held_in_smaller_number() -> None:
    """Replies together have at most sixteen hits for each allowed reply; a larger one is not stored."""
    kept = cache(answers_entries=4)
    for name in ("one", "two", "three"):
        kept.put(inquiry(name), "r1", reply(name, hits=30))
    kept.put(inquiry("vast"), "r1", reply("vast", hits=65))

    held = [name for name in ("one", "two", "three", "vast") if kept.get(inquiry(name), "r1")]
    assert held == ["two", "three"]


def test_filters_made_of_lists_are_searched_and_not_kept() -> None:
    """Filters made of lists are a miss and never an error."""
    listed = inquiry(options=SearchOptions(filters=Filters(types=["lesson"])))  # type: ignore[arg-type]
    kept = cache()

    kept.put(listed, "r1", reply())

    assert kept.get(listed, "r1") is None


@given(st.text(max_size=40), st.text(" \t\n", min_size=1, max_size=4))
def test_white_space_does_not_make_another_question(query: str, space: str) -> None:
    """Normalising spaces keeps the words and is idempotent."""
    assert normalize_spaces(f"{space}{query}{space}") == normalize_spaces(query)
    assert normalize_spaces(normalize_spaces(query)) == normalize_spaces(query)
    assert normalize_spaces(query).split() == query.split()


# -- never stale -------------------------------------------------------------------------------------------------------

WORDS = ("otter", "river", "stone", "sleep", "bridge", "not")
SOURCES = ("/a.md", "/b.md", "/c.md")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
QUESTIONS = st.builds(str.format, st.sampled_from(("{}", "{}?", " the  {}", "The {}")), TEXTS)
OPTIONS = st.builds(
    SearchOptions,
    k=st.sampled_from((1, 3)),
    lane=st.sampled_from(Lane),
    filters=st.sampled_from((Filters(), Filters(projects=("/p",)), Filters(source_prefix="/a.md"))),
)


class CacheComparison:
    """A store, and searches over it with caches and without."""

    def __init__(self, options: CacheOptions) -> None:
        analyser = WordAnalyser()
        self.model = FakeEmbedder()
        self.store = TemporaryStore(analyser, provider="fake", model="fake-64")
        self.searcher = Searcher(self.store, self.model, analyser)
        self.answers = AnswerCache(options)

    def plain(self, query: str, options: SearchOptions) -> SearchReply:
        return self.searcher.search(normalize_spaces(query), options)

    def cached(self, query: str, options: SearchOptions, write: Sequence[str] = ()) -> SearchReply:
        """Search with caches; `write` runs between reading the revision and searching."""
        answers = self.answers
        asked, revision = AnswerKey(normalize_spaces(query), options, "fake/fake-64", DAY), self.store.revision()
        found = answers.get(asked, revision)
        if write:
            self.put("/a.md", write)
        if found is not None:
            return found
        made = self.plain(query, options)
        answers.put(asked, revision, made)
        return made

    def put(self, source: str, texts: Sequence[str]) -> None:
        with self.store.writer() as writer:
            writer.put([update(source, texts)])


class CachedSearch(RuleBasedStateMachine):
    """Writes and searches in any order; a cached search returns the same as an uncached one."""

    options = CacheOptions(answers_entries=6)

    def __init__(self) -> None:
        super().__init__()
        self.desk = CacheComparison(self.options)

    @rule(source=st.sampled_from(SOURCES), texts=st.lists(TEXTS, min_size=1, max_size=3))
    def put(self, source: str, texts: list[str]) -> None:
        self.desk.put(source, texts)

    @rule(source=st.sampled_from(SOURCES))
    def remove(self, source: str) -> None:
        with self.desk.store.writer() as writer:
            writer.remove([source])

    @rule(limit=st.integers(1, 3))
    def embed(self, limit: int) -> None:
        waiting = self.desk.store.pending(limit)
        vectors = self.desk.model.embed_documents([pending.text for pending in waiting]).vectors
        with self.desk.store.writer() as writer:
            writer.put_vectors({pending.vector_key: made for pending, made in zip(waiting, vectors, strict=True)})

    @rule()
    def reset(self) -> None:
        self.desk.store.reset()

    @rule(query=QUESTIONS, options=OPTIONS, texts=st.lists(TEXTS, min_size=1, max_size=2))
    def search_while_another_writes(self, query: str, options: SearchOptions, texts: list[str]) -> None:
        self.desk.cached(query, options, texts)

    @rule(query=QUESTIONS, options=OPTIONS, times=st.integers(1, 3))
    def search(self, query: str, options: SearchOptions, times: int) -> None:
        for _ in range(times):
            assert self.desk.cached(query, options) == self.desk.plain(query, options)

    @invariant()
    def is_bounded(self) -> None:
        counts = self.desk.answers.counters()
        assert counts.answers <= self.options.answers_entries
        assert counts.exact <= counts.lookups


TestCachedSearch = CachedSearch.TestCase
TestCachedSearch.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)


def test_threads_share_the_caches() -> None:
    """Threads with different revisions never get a reply of another revision."""
    answers = AnswerCache(CacheOptions(answers_entries=4))
    wrong: list[object] = []

    def work(own: int) -> None:
        for turn in range(300):
            asked, revision = inquiry(f"question {turn % 7}"), f"r{(turn // 10 + own) % 3}"
            found = answers.get(asked, revision)
            if found is not None and found.weighing != revision:
                wrong.append(found)
            answers.put(asked, revision, replace(reply(), weighing=revision))

    assert in_threads(work, 4) == []

    assert wrong == []
    assert answers.counters().answers <= 4
