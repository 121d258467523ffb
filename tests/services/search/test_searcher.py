"""How the lanes become an answer: breadth, fusion, repeats, notes, and questions nobody should ask; keywords, times, and what is kept between questions."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.services.search.shelf import DirectedEmbedder, Shelf, away, shelf_of
from tests.stores.making import TemporaryStore, chunk, update, vector

from lorelog.core.document import Chunk
from lorelog.core.errors import ModelFault, ModelUnavailable, UsageError
from lorelog.core.options import CacheOptions, RerankOptions, SearchOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.core.query import Fusion, Hit, Lane, SearchReply
from lorelog.engine import Engine
from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.cache import AnswerCache
from lorelog.retrieval.time_expressions import TIME_WEIGHT
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.places.workspace import Project
from lorelog.services.search.searcher import MAX_QUERY_CHARS, SearchDeps, Searcher
from lorelog.wiring import Location, open_engine


class SilentEmbedder(DirectedEmbedder):
    def embed_query(self, text: str) -> Vector:
        raise ModelUnavailable("no server at localhost:1")


class ConfusedEmbedder(DirectedEmbedder):
    """A model whose answer is no vector."""

    def embed_query(self, text: str) -> Vector:
        return vector(float("nan"), 1.0)


@pytest.fixture
def shelf() -> Shelf:
    return shelf_of(DirectedEmbedder())


def part_note(hit: Hit, name: str) -> str:
    return next(part.note for part in hit.explanation.parts if part.name == name)


# -- breadth and fusion ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    ("fusion", "better", "far"),
    # Ranks count every text that has a vector, however far away; so there the far ones have none.
    [(Fusion.CONVEX, 150, away(1.5)), (Fusion.RRF, 40, None)],
)
def test_candidates_come_from_well_beyond_k(
    shelf: Shelf, fusion: Fusion, better: int, far: Vector | None, k: int
) -> None:
    """A text that dozens beat in each lane, but none in both, is the first hit of a search for one or two."""
    shelf.put((f"otter n{n}", far) for n in range(better))
    shelf.put((f"pelican n{n}", away(0.001 * n)) for n in range(better))
    shelf.put({"otter beside stones": away(0.3)})
    for lane in (Lane.LEXICAL, Lane.DENSE):
        assert shelf.found("otter", better + 1, lane).index("otter beside stones") == better

    assert shelf.found("otter", k, fusion=fusion)[0] == "otter beside stones"


def test_candidates_grow_with_k(shelf: Shelf) -> None:
    """A search for many hits is given as many as there are, whichever lane answers."""
    shelf.put((f"otter n{n}", away(0.002 * n)) for n in range(300))

    for lane in Lane:
        assert len(shelf.found("otter", 250, lane)) == 250


def test_a_lexical_candidate_keeps_its_cosine(shelf: Shelf) -> None:
    """A text whose vector lies too far away to be a dense candidate is scored by that vector, not as if it had none."""
    shelf.put({"otter far": away(1.5)})
    shelf.put((f"pelican n{n}", away(0.001 * n)) for n in range(210))

    reply = shelf.search("otter", 211)

    far = next(hit for hit in reply.hits if hit.content == "otter far")
    assert "cosine 0.071" in part_note(far, "dense")


@pytest.mark.parametrize("fusion", list(Fusion))
def test_hits_without_vectors_are_found(shelf: Shelf, fusion: Fusion) -> None:
    """What has no vector yet is found by its words among what has, and a note says how much is covered."""
    shelf.put({"pelican": away(0.0), "otter swims": None, "heron": away(0.1)})

    reply = shelf.search("otter", 3, fusion=fusion)

    assert "otter swims" in [hit.content for hit in reply.hits]
    assert (reply.coverage.chunks, reply.coverage.with_vectors) == (3, 2)
    assert [note for note in reply.notes if note.startswith("2 of 3 chunks have vectors")]


def test_vectors_that_are_being_made_are_counted(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """During an index run the note says how many vectors there are already, and is not kept in the cache of answers."""
    monkeypatch.setattr(shelf.store, "is_running", lambda: True)
    shelf.put({"pelican": None, "otter": None})

    assert shelf.search("otter").notes == ("vectors are being made: 0 of 2; showing keyword matches only",)
    shelf.put({"heron": away(0.1)})
    assert shelf.search("otter").notes == ("vectors are being made: 1 of 3; the rest is found by keywords",)
    monkeypatch.setattr(shelf.store, "is_running", lambda: False)
    assert shelf.search("otter").notes == ("1 of 3 chunks have vectors; the rest is found by keywords",)


def test_a_new_text_is_not_a_bad_one(shelf: Shelf) -> None:
    """Under the default fusion the best match by words comes first though its vector is still to be made."""
    shelf.put({"pelican": away(1.0), "otter": None, "otter beside many other words": away(0.0)})

    first = shelf.search("otter", 1).hits[0]

    assert first.content == "otter"
    assert "no vector yet" in part_note(first, "dense")


# -- repeats -----------------------------------------------------------------------------------------------------------


def test_repeats_fold_into_the_best_of_them(shelf: Shelf) -> None:
    """Texts that differ in white space only are one hit that names the other places, and take no other's place."""
    shelf.put([("otter swims", away(0.1)), ("otter  swims", away(0.1)), ("otter\nswims", away(0.1))])
    shelf.put({"otter sleeps elsewhere": away(0.2)})

    reply = shelf.search("otter", 2)

    assert [" ".join(hit.content.split()) for hit in reply.hits] == ["otter swims", "otter sleeps elsewhere"]
    assert len(reply.hits[0].duplicates) == 2
    others = {duplicate.rpartition(":")[0] for duplicate in reply.hits[0].duplicates}
    assert len(others.union(hit.source for hit in reply.hits)) == 4


# -- models that fail, nothing to find -----------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", [SilentEmbedder(), ConfusedEmbedder()])
def test_words_answer_when_the_model_fails(embedder: DirectedEmbedder) -> None:
    """A hybrid search whose question cannot be embedded is answered by words, with a note that says why."""
    shelf = shelf_of(embedder)
    shelf.put({"otter": away(0.1), "pelican": away(0.0)})

    reply = shelf.search("otter")

    assert [hit.content for hit in reply.hits] == ["otter"]
    assert [note for note in reply.notes if note.startswith("showing keyword matches only: ")]


@pytest.mark.parametrize(
    ("embedder", "error"), [(SilentEmbedder(), ModelUnavailable), (ConfusedEmbedder(), ModelFault), (None, UsageError)]
)
def test_the_dense_lane_alone_raises_when_the_model_fails(
    embedder: DirectedEmbedder | None, error: type[Exception]
) -> None:
    """A search by meaning alone has nothing else to give, so it fails with its cause."""
    shelf = shelf_of(embedder)
    shelf.put({"otter": away(0.1)})

    with pytest.raises(error):
        shelf.search("otter", lane=Lane.DENSE)


def test_words_alone_ask_no_model(shelf: Shelf) -> None:
    """The lexical lane neither needs nor asks the model, and has nothing to note about vectors."""
    shelf.put({"otter": None})

    reply = shelf.search("otter", lane=Lane.LEXICAL)

    assert [hit.content for hit in reply.hits] == ["otter"]
    assert reply.notes == ()
    assert isinstance(shelf.embedder, DirectedEmbedder)
    assert shelf.embedder.asked == []


@pytest.mark.parametrize("lane", [Lane.HYBRID, Lane.DENSE])
def test_no_vectors_at_all_is_said(shelf: Shelf, lane: Lane) -> None:
    """Where nothing has a vector of the current model, a note says so and how to make them."""
    shelf.put({"otter": None})

    reply = shelf.search("otter", lane=lane)

    assert len(reply.hits) == (lane is Lane.HYBRID)
    assert [note for note in reply.notes if "no chunk has a vector" in note and "lorelog index" in note]


@pytest.mark.parametrize("lane", list(Lane))
def test_nothing_indexed_says_what_to_do(shelf: Shelf, lane: Lane) -> None:
    """A search of an empty index finds nothing, does not fail, and says which command to type."""
    reply = shelf.search("otter", lane=lane)

    assert reply.hits == ()
    assert [note for note in reply.notes if "lorelog index" in note]


def test_other_projects_are_hinted_at(shelf: Shelf) -> None:
    """When no word matches here but one does in another project, a note names the flag; else, or if no words were asked for, it does not."""
    shelf.put({"otter": away(0.1)}, project="/p")
    shelf.put({"pelican": away(0.1)}, project="/q")

    assert [note for note in shelf.search("pelican", projects=("/p",)).notes if "--all-projects" in note]
    assert shelf.search("otter", projects=("/p",)).notes == ()
    assert shelf.search("pelican", lane=Lane.DENSE, projects=("/p",)).notes == ()
    assert not [note for note in shelf.search("heron", projects=("/p",)).notes if "--all-projects" in note]
    assert [hit.content for hit in shelf.search("otter pelican", projects=("/p",)).hits] == ["otter"]


# -- questions nobody should ask -----------------------------------------------------------------------------------------

AWKWARD = {
    "one stop word": "the",
    "only stop words": "what is the",
    "punctuation": "?!… --- ;;;",
    "an emoji": "🦦",
    "joined emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "an unbalanced quote": 'otter "and then',
    "unbalanced quotes of all kinds": "“otter ' ` \"",
    "a regular expression": r"(otter|[a-z)*+?{3,}\b^$.",
    "query syntax": "AND OR NOT + - title:otter ^2 ~3 [a TO b] *",
    "SQL": "otter'; DROP TABLE chunks; --",
    "10,000 words": " ".join(f"word{n}" for n in range(9_999)) + " otter",
    "one word 100,000 long": "o" * 100_000,
    "mixed scripts": "otter 水獭 выдра ثعلب الماء นาก カワウソ",
    "half a surrogate pair": "otter \ud83e",
    "control characters": "otter\x00\x1b[31m\u202e",
    "line breaks": "otter\r\n\n\tswims",
}


@pytest.fixture
def filled() -> Shelf:
    embedder = DirectedEmbedder()
    shelf = Shelf(TemporaryStore(WordAnalyser(), provider=embedder.provider, model=embedder.model), embedder)
    shelf.put({"what is the otter swims": away(0.1), "水獭 🦦 word9": away(0.2), "pelican": None})
    return shelf


@pytest.mark.slow
@pytest.mark.parametrize("query", AWKWARD.values(), ids=AWKWARD.keys())
def test_no_question_is_too_awkward(filled: Shelf, query: str) -> None:
    """Whatever is asked, every lane answers with sound hits, never with an error, and what is asked on is valid text."""
    for lane in Lane:
        reply = filled.search(query, 3, lane)
        assert len(reply.hits) >= (0 if lane is Lane.LEXICAL else 2)
        assert reply.hits or reply.notes or WordAnalyser().query_terms(query), "a question without words is told so"
        assert all(0.0 <= hit.relevance <= 1.0 for hit in reply.hits)
        assert [hit.score for hit in reply.hits] == pytest.approx([hit.explanation.score for hit in reply.hits])
        assert all(0 <= start < end <= len(hit.snippet) for hit in reply.hits for start, end in hit.matches)
        assert reply.query.encode("utf-8", "replace").decode() == reply.query
    assert isinstance(filled.embedder, DirectedEmbedder)
    assert filled.embedder.asked == [reply.query] * 2


@pytest.mark.parametrize(
    "query", [query for query in AWKWARD.values() if "otter" in query or query in {"the", "what is the"}]
)
def test_an_awkward_question_still_finds_its_word(filled: Shelf, query: str) -> None:
    """The one word that means something is found amid anything else, a stop word alone finds its text, and padding finds none."""
    found = [hit.content for hit in filled.search(query, 3, Lane.LEXICAL).hits]

    # Of 10,000 words the first thousand or so are asked for, and word9 is one of them.
    wanted = "水獭 🦦 word9" if query.startswith("word0") else "what is the otter swims"
    assert wanted in found
    assert filled.found("¤ ¤¤", lane=Lane.LEXICAL) == []


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_an_empty_question_is_a_mistake(shelf: Shelf, query: str) -> None:
    """A question of nothing is refused as a mistake of whoever asked, and so is a search for no hits."""
    with pytest.raises(UsageError):
        shelf.search(query)
    with pytest.raises(UsageError):
        shelf.search("otter", 0)


def test_a_long_query_is_cut_and_says_so(shelf: Shelf) -> None:
    """Only the first characters of a very long query are used, up to a word's end, and a note tells so."""
    shelf.put({"the quokka sleeps": None})
    reply = shelf.search("quokka " + "ab " * 500_000, lane=Lane.LEXICAL)
    assert len(reply.query) <= MAX_QUERY_CHARS
    assert set(reply.query.split()) == {"quokka", "ab"}
    assert reply.notes[-1] == "only the first 10,000 characters of the query were used"
    assert [hit.content for hit in reply.hits] == ["the quokka sleeps"]


FORTNIGHT = Path(__file__).parents[3] / "examples" / "fortnight"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("keywords")
    shutil.copytree(FORTNIGHT, folder / "notes")
    here = str(folder / "notes")
    opened = open_engine(Location(folder / "home", Project(id=here, root=here, name="notes", git=False), {}))
    opened.maintenance().index(IndexTargets((here,)))
    return opened


def test_a_word_that_one_note_has_finds_that_note(engine: Engine) -> None:
    """Whoever types a rare word gets the note that has it first, whatever the vectors say of the others."""
    analyser = WordAnalyser()
    files = "\n".join(path.read_text("utf-8") for path in sorted((FORTNIGHT / "memory").glob("*.md"))).lower()
    texts = re.sub(r"<!--.*?-->", "", files, flags=re.DOTALL)  # tags are found by filters, not by words
    stems = Counter(analyser.words(texts))
    plain = re.findall(r"(?<![\w/.`-])[a-z]{7,}(?![\w/`-])", texts)
    words = sorted({word for word in plain if [stems[stem] for stem in analyser.words(word)] == [1]})
    missed = [word for word in words if word not in _first(engine, word)]

    assert len(words) > 40
    assert len(missed) < len(words) / 20, missed  # a third, before keywords were told from questions


def _first(engine: Engine, query: str) -> str:
    hits = engine.search(query, SearchOptions(k=1)).hits
    return hits[0].content.lower() if hits else ""


TODAY = dt.date(2026, 3, 12)
"""A Thursday."""
LAST_WEEK, LONG_AGO = "2026-03-04", "2025-06-01"


def ask(query: str, chunks: Sequence[Chunk], k: int = 5) -> SearchReply:
    """Ask on that day, of chunks that are each a document of their own."""
    store = TemporaryStore(WordAnalyser(), provider="none", model="none")
    with store.writer() as writer:
        writer.put([update(chunk.source, [chunk]) for chunk in chunks])
    return Searcher(store, None, WordAnalyser(), SearchDeps(today=lambda: TODAY)).search(query, SearchOptions(k=k))


def note(text: str, date: str, number: int = 0) -> Chunk:
    return chunk(f"/{number:03}-{date}.md", text, date=date)


def found(reply: SearchReply) -> list[str]:
    return [hit.content for hit in reply.hits]


def time_part(hit: Hit) -> tuple[float, str] | None:
    return next(((part.value, part.note) for part in hit.explanation.parts if part.name == "time"), None)


def test_last_week_is_preferred() -> None:
    """Of two notes that say the same of the matter, the one of the named week comes first, and the ranking says why."""
    reply = ask(
        "otter decision last week", [note("otter decision old", LONG_AGO), note("otter decision new", LAST_WEEK)]
    )

    assert found(reply) == ["otter decision new", "otter decision old"]
    assert '"last week" is 2026-03-02 to 2026-03-08' in reply.weighing
    inside, outside = map(time_part, reply.hits)
    assert inside is not None
    assert outside is not None
    assert inside[0] == pytest.approx(TIME_WEIGHT)
    assert outside[0] < 0.1 * TIME_WEIGHT
    assert "this is of 2026-03-04" in inside[1]


def test_a_time_is_a_preference_and_no_filter() -> None:
    """What answers the question best is found though it is of another time."""
    texts = [
        note("the otter decision: keep the pond", LONG_AGO),
        note("weather", LAST_WEEK),
        note("otter", LAST_WEEK, 1),
    ]

    assert found(ask("otter decision pond last week", texts))[0] == "the otter decision: keep the pond"


def test_a_time_that_no_candidate_is_of_changes_nothing() -> None:
    """A year that is the subject of a text is no date of any note: no part, no word of it, and the same ranking."""
    texts = [note("otter census in March 2010", LONG_AGO), note("otter swims", LAST_WEEK)]
    reply = ask("otter census in March 2010", texts)

    assert [time_part(hit) for hit in reply.hits] == [None, None]
    assert reply.weighing == ""
    assert found(reply)[0] == "otter census in March 2010"


def test_all_candidates_are_measured_alike() -> None:
    """Whether a time counts is decided once: repeats that make a search read on do not give the later ones a part alone."""
    copies = [note("otter decision otter decision", LONG_AGO, number) for number in range(60)]
    later = [note("otter decision beside others", LAST_WEEK, number) for number in range(100, 104)]
    reply = ask("otter decision last week", [*copies, *later], k=2)

    assert len({time_part(hit) is None for hit in reply.hits}) == 1


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
