"""Models that change or fail between index and question: notes and words, never a wrong vector and never a crash."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.models.conftest import embedder as embedder  # noqa: PLC0414 (a fixture)
from tests.services.search.shelf import DirectedEmbedder, Shelf, away, make_hit, shelf_of
from tests.stores.making import TemporaryStore, vector

from lorelog.core.errors import ModelFault, ModelUnavailable, UsageError
from lorelog.core.options import RerankOptions
from lorelog.core.ports import Embedder, Store, Vector
from lorelog.core.query import Fusion, Lane, SearchReply
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.builtin import BuiltinEmbedder
from lorelog.retrieval.rerank import RERANK_PART_NAME
from lorelog.services.search.postprocess import add_confidence, judge_hits
from lorelog.services.search.searcher import SearchDeps
from lorelog.stores.embedded import EmbeddedStore

TEXTS = {
    "the otter sleeps below the old bridge": away(0.1),
    "the otter swims in the pond at night": away(0.3),
    "pelicans nest on the roof of the mill": away(0.9),
}


class OtherEmbedder(DirectedEmbedder):
    model = "directed-other"


class GrownEmbedder(DirectedEmbedder):
    """The same model by its name, with vectors of another length."""

    def embed_query(self, text: str) -> Vector:
        return vector(1.0, 0.0, 0.0)


class ScriptedReranker:
    provider, model = "stub", "stub"

    def __init__(self, answer: Sequence[float | None] | Exception) -> None:
        self.answer = answer

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)

    def close(self) -> None:
        pass


def ranking(reply: SearchReply) -> list[tuple[str, float]]:
    return [(hit.content, hit.score) for hit in reply.hits]


# -- another model ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index that was made under one model."""
    store = open_store(tmp_path, DirectedEmbedder())
    Shelf(store, DirectedEmbedder()).put(TEXTS)
    store.close()
    return tmp_path


def open_store(place: Path, embedder: Embedder) -> EmbeddedStore:
    return EmbeddedStore(place / "index", WordAnalyser(), provider=embedder.provider, model=embedder.model)


@pytest.fixture
def other(folder: Path) -> Iterator[Shelf]:
    """The same index, asked under another model."""
    store = open_store(folder, OtherEmbedder())
    yield Shelf(store, OtherEmbedder())
    store.close()


@pytest.mark.parametrize("fusion", list(Fusion))
def test_another_model_is_answered_by_words_alone(other: Shelf, fusion: Fusion) -> None:
    """Under another model no vector of the first one counts, and the note names the command that makes this one's."""
    reply = other.search("otter bridge", fusion=fusion)

    assert {hit.content for hit in reply.hits} == set(list(TEXTS)[:2])
    assert all(part.name != "dense" for hit in reply.hits for part in hit.explanation.parts)
    (note,) = [note for note in reply.notes if "vectors of another model" in note]
    assert "showing keyword matches only" in note
    assert "lorelog index --reembed" in note
    assert isinstance(other.embedder, DirectedEmbedder)
    assert other.embedder.asked == [], "a question whose vector fits nothing need not be embedded"


@pytest.mark.parametrize("kind", ["memory", "embedded"])
def test_a_model_that_changed_under_its_name(kind: str, tmp_path: Path) -> None:
    """Where the question's vector has another length than the index's, words answer, and the note says what to do."""
    store: Store = open_store(tmp_path, DirectedEmbedder())
    if kind == "memory":
        store = TemporaryStore(WordAnalyser(), provider="directed", model="directed-2")
    Shelf(store, DirectedEmbedder()).put(TEXTS)
    grown = Shelf(store, GrownEmbedder())

    reply = grown.search("otter bridge")

    assert reply.hits[0].content == "the otter sleeps below the old bridge"
    (note,) = [note for note in reply.notes if note.startswith("showing keyword matches only: ")]
    assert "dimensions" in note
    assert kind == "memory" or "--reembed" in note
    with pytest.raises(ModelFault):
        grown.search("otter", lane=Lane.DENSE)
    store.close()


# -- cross-encoders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ([math.nan] * 3, "not finite numbers"),
        ([math.inf, -math.inf, math.nan], "not finite numbers"),
        ([1.0], "the model returned 1 scores for 3 candidates"),
        ([], "the model returned 0 scores for 3 candidates"),
        ([1.0] * 9, "the model returned 9 scores for 3 candidates"),
        (ModelUnavailable("no model at /nowhere", hint="fetch it"), "not reranked: no model at /nowhere (fetch it)"),
        (ModelFault("the model answered with a poem"), "not reranked: the model answered with a poem"),
    ],
)
def test_a_cross_encoder_that_fails(answer: Sequence[float | None] | Exception, note: str) -> None:
    """A cross-encoder that gives no sound scores is a note, and the first ranking stands to the last digit."""
    plain = shelf_of(DirectedEmbedder())
    plain.put(TEXTS)
    judged = Shelf(plain.store, plain.embedder, SearchDeps(ScriptedReranker(answer), RerankOptions(model="stub")))

    reply = judged.search("where does the otter sleep")

    assert ranking(reply) == ranking(plain.search("where does the otter sleep"))
    assert [item for item in reply.notes if note in item]


def test_a_cross_encoder_that_answers() -> None:
    """What a cross-encoder says is one more part of the score, the parts still add up, and the weighing names it."""
    plain = shelf_of(DirectedEmbedder())
    plain.put(TEXTS)
    query = "where does the otter sleep"
    before = plain.search(query)
    # It disagrees: the worst of the first ranking is the best.
    judged = Shelf(
        plain.store, plain.embedder, SearchDeps(ScriptedReranker([-5.0, -5.0, 9.0]), RerankOptions(model="stub"))
    )

    reply = judged.search(query)

    assert reply.hits[0].content == before.hits[-1].content
    assert [part.name for part in reply.hits[0].explanation.parts][-1] == RERANK_PART_NAME
    for hit in reply.hits:
        assert hit.score == pytest.approx(math.fsum(part.value for part in hit.explanation.parts))
    assert RERANK_PART_NAME in reply.weighing


@pytest.mark.parametrize(("lane", "fusion"), [(Lane.LEXICAL, Fusion.CONVEX), (Lane.HYBRID, Fusion.RRF)])
def test_single_lanes_are_left_as_they_are(lane: Lane, fusion: Fusion) -> None:
    """Who asks for one lane or for reciprocal ranks gets that, without a second look."""
    shelf = shelf_of(DirectedEmbedder())
    shelf.put(TEXTS)
    shelf.judges = SearchDeps(ScriptedReranker(AssertionError("nobody asked")), RerankOptions(model="stub"))

    assert shelf.search("otter", lane=lane, fusion=fusion).hits


# -- relevance ----------------------------------------------------------------------------------------------------------


def test_what_is_not_likely_enough_is_left_out() -> None:
    """Hits below the asked relevance are left out; where none is left, a note says what the best was."""
    shelf = shelf_of(DirectedEmbedder())
    shelf.put(TEXTS)
    everything = shelf.search("otter sleeps bridge")
    likely = sorted(hit.relevance for hit in everything.hits)
    assert likely[0] < likely[-1]

    some = shelf.search("otter sleeps bridge", min_relevance=likely[-1])
    none = shelf.search("otter sleeps bridge", min_relevance=1.0)

    assert [hit.relevance for hit in some.hits] == [likely[-1]]
    assert none.hits == ()
    assert [note for note in none.notes if note.startswith("nothing relevant found") and "100%" in note]
    assert not [note for note in some.notes if "nothing relevant" in note]


@pytest.mark.parametrize("wanted", [-0.1, 1.1, math.nan])
def test_a_relevance_must_be_a_probability(wanted: float) -> None:
    """What cannot be a probability is refused."""
    with pytest.raises(UsageError, match="relevance"):
        shelf_of(DirectedEmbedder()).search("otter", min_relevance=wanted)


MEMORIES = [
    "We cache prices in Redis for five minutes, because the supplier's API allows ten requests a second.",
    "The deploy pipeline runs the migrations before it swaps the containers.",
    "Webhooks are retried with exponential backoff, at most eight times, then they go to the dead letter queue.",
    "Session tokens live for twelve hours; people complained about signing in every morning.",
    "The search box debounces for 200 ms, since every keystroke used to hit the server.",
    "Invoices are rendered with WeasyPrint; wkhtmltopdf broke on the new fonts.",
    "Feature flags are read once at start, so a change needs a restart of the workers.",
    "Backups go to another region nightly and are restored to staging every Sunday as a test.",
]


@pytest.fixture
def memories(embedder: BuiltinEmbedder) -> Shelf:
    shelf = shelf_of(embedder)
    made = embedder.embed_documents(MEMORIES)
    shelf.put(dict(zip(MEMORIES, made.vectors, strict=True)))
    return shelf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relevances", "is_said"),
    [((), True), ((0.46,), True), ((0.46, 0.35, 0.14), False), ((0.2, 0.2, 0.1, 0.1, 0.1, 0.1), True), ((0.0,), False)],
)
def test_nothing_is_relevant_if_probably_none_of_the_first_hits_is(
    relevances: Sequence[float], *, is_said: bool
) -> None:
    """That nothing is relevant is said of weak hits only if all of the first three probably are not, and never of unknown ones."""
    hits = add_confidence(tuple(replace(make_hit(n), relevance=value) for n, value in enumerate(relevances)))

    assert bool(judge_hits(hits)) is is_said


def test_nonsense_is_less_relevant_than_a_question(memories: Shelf) -> None:
    """With the built-in model the best hit of a question is likelier than the best hit of nonsense, by each fusion,
    and among fifty notes it is said that nothing is relevant to nonsense.
    """
    for fusion in Fusion:
        good = memories.search("how often are webhooks retried?", fusion=fusion)
        bad = memories.search("purple giraffes juggle quantum marmalade", fusion=fusion)

        assert good.hits[0].content == MEMORIES[2]
        assert good.hits[0].relevance > 2 * max(hit.relevance for hit in bad.hits)
        assert not judge_hits(add_confidence(good.hits))
    memories.put(dict.fromkeys(f"filler {n}" for n in range(50)))
    for query, is_said in (("how often are webhooks retried?", False), ("purple giraffes juggle marmalade", True)):
        assert bool(judge_hits(add_confidence(memories.search(query).hits))) is is_said
