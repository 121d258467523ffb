"""What holds for every answer, over every store: the parts add up, the order is by score, relevance is a probability."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.search.shelf import DirectedEmbedder, away
from tests.stores.making import TemporaryStore, chunk, update, vector

from lorelog.core.options import SearchOptions
from lorelog.core.ports import Store, Vector
from lorelog.core.query import Fusion, Lane
from lorelog.language.analyser import WordAnalyser
from lorelog.services.search.searcher import SearchDeps, Searcher

TODAY = dt.date(2026, 3, 12)
ANALYSER = WordAnalyser()
WORDS = ["otter", "swims", "pond", "parse_config", "水獭", "the", "Zwischenspeicher", "speicher", "restart"]
DATES = ["", "2026-03-04", "2026-03-10T14:30", "2025-06-01"]
VECTORS: list[Vector | None] = [None, vector(0.0, 0.0), *(away(angle) for angle in (0.0, 0.1, 0.8, 1.5, 3.0))]
QUERIES = [
    "otter",
    "pond swims last week",
    "parse_config speicher",
    '"otter pond',
    'where "otter swims" in the "pond"',
    "the",
    "🦦",
    "水獭",
    "heron in 2010",
]


@dataclass(frozen=True)
class Written:
    """A chunk to be: what it says, when, and the vector of that text."""

    text: str
    date: str
    vector: Vector | None


def corpora(most_words: int) -> st.SearchStrategy[list[list[Written]]]:
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=most_words).map(" ".join)
    written = st.builds(Written, texts, st.sampled_from(DATES), st.sampled_from(VECTORS))
    return st.lists(st.lists(written, max_size=6), min_size=1, max_size=4)


def fill(store: Store, corpus: list[list[Written]]) -> None:
    updates = [
        update(
            f"/{place}.md",
            [chunk(f"/{place}.md", element.text, line, date=element.date) for line, element in enumerate(document, 1)],
        )
        for place, document in enumerate(corpus)
    ]
    made = zip(
        (item for each in updates for item in each.chunks), (entry for each in corpus for entry in each), strict=True
    )
    with store.writer(take_over=True) as writer:
        writer.put(updates)
        writer.put_vectors({member.vector_key: given.vector for member, given in made if given.vector is not None})


def check_answers(store: Store, embedder: DirectedEmbedder | None, query: str, k: int) -> None:
    """Ask by every lane and fusion, and look at every hit."""
    searcher = Searcher(store, embedder, ANALYSER, SearchDeps(today=lambda: TODAY))
    for lane in Lane if embedder else (Lane.LEXICAL, Lane.HYBRID):
        for fusion in Fusion:
            hits = searcher.search(query, SearchOptions(k, lane, fusion)).hits
            more = searcher.search(query, SearchOptions(30, lane, fusion)).hits
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in more[:k]])
            for hit in hits:
                total = math.fsum(part.value for part in hit.explanation.parts)
                assert math.isclose(total, hit.score, rel_tol=1e-9, abs_tol=1e-12)
                assert math.isfinite(hit.score)
                assert 0.0 <= hit.relevance <= 1.0
            assert all(first.score >= second.score - 1e-12 for first, second in pairwise(hits))


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(corpora(150), st.integers(1, 12))
def test_every_answer_adds_up(corpus: list[list[Written]], k: int) -> None:
    """Whatever is on the shelf and whatever is asked, by every lane and fusion, each score is the sum of its named parts."""
    store = TemporaryStore(ANALYSER, provider="directed", model="directed-2")
    fill(store, corpus)
    for query in QUERIES:
        check_answers(store, DirectedEmbedder(), query, k)
    check_answers(store, None, QUERIES[0], k)
