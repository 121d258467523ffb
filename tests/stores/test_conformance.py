"""The contract of all stores, run over each of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.stores.making import ALL, anchored, chunk, update, vector

from lorelog.core.document import Anchor, Chunk
from lorelog.core.errors import ModelFault, NotFound, StoreBusy
from lorelog.core.ports import MIN_BM25_WORDS, ChunkNeighbours, DocumentUpdate, Store, SummaryLink, Supersession, Vector
from lorelog.core.query import Filters, Term
from lorelog.stores.milvus.store import MilvusStore


def put(store: Store, *updates: DocumentUpdate) -> None:
    with store.writer() as writer:
        writer.put(updates)


def texts(store: Store, *words: str, filters: Filters = ALL, limit: int = 10) -> list[str]:
    found = store.propose([Term(word) for word in words], None, filters, limit)[0]
    chunks = store.fetch([hit.key for hit in found])
    return [chunks[hit.key].chunk.text for hit in found if hit.key in chunks]


def near(store: Store, *numbers: float, filters: Filters = ALL, limit: int = 10) -> list[str]:
    found = store.propose((), vector(*numbers), filters, limit)[1]
    chunks = store.fetch([hit.key for hit in found])
    return [chunks[hit.key].chunk.text for hit in found if hit.key in chunks]


def embed(store: Store, **vectors: tuple[float, ...]) -> None:
    keys = {pending.text: pending.vector_key for pending in store.pending(1000)}
    with store.writer() as writer:
        writer.put_vectors({keys[text.replace("_", " ")]: vector(*numbers) for text, numbers in vectors.items()})


def test_empty_store_answers_everything_with_nothing(store: Store, tmp_path: Path) -> None:
    """An index that was never written returns nothing, raises nothing, and is not created by reading."""
    assert store.documents() == []
    assert store.chunks_of("/a.md") == []
    assert store.find("ab") == []
    assert store.tags("", ALL) == {}
    assert list(store.supersessions()) == []
    assert store.recent(ALL, 10, session="s") == []
    assert store.authored_chunks(ALL, 10) == []
    assert list(store.summary_links()) == []
    assert store.vectors([1]) == {}
    assert store.pending(10) == []
    assert texts(store, "word") == []
    assert near(store, 1, 0) == []
    assert store.missing_vectors(["k"]) == {"k"}
    assert store.rarity(["otter"]) == {"otter": 0.0}
    assert store.coverage(ALL).chunks == store.stats().documents == 0
    assert not (tmp_path / "index").exists()


@pytest.mark.slow
def test_a_document_comes_back_as_it_went_in(store: Store) -> None:
    """Every field of a document and its chunks survives the store."""
    one = chunk(
        "/a.md",
        "said",
        3,
        end_line=7,
        content="### H\n<!-- c -->\nsaid\n\n",
        heading="H",
        heading_level=3,
        heading_path=("Top", "H"),
        context="Top",
        date="2026-03-05T14:30",
        type="decision",
        tags=("x", 'q"%_'),
        anchor=anchored("0199-abc"),
    )
    wanted = update("/a.md", [one])
    put(store, wanted)

    (document,) = store.documents()
    (stored,) = store.chunks_of("/a.md")

    assert document.source == "/a.md"
    assert document.stamp == wanted.document.stamp
    assert document.chunk_count == 1
    assert stored.chunk == one
    assert stored.id == one.identify("m")
    assert stored.project == "/p"
    assert not stored.has_vector


def test_words_find_chunks_by_any_term(store: Store) -> None:
    """One matching word is enough, and more matching words rank higher."""
    put(store, update("/a.md", ["red cache", "red fox", "blue sky"]))

    assert texts(store, "red", "cache") == ["red cache", "red fox"]
    assert texts(store, "green") == []
    assert texts(store, "red", limit=1) == ["red cache"] or texts(store, "red", limit=1) == ["red fox"]


def test_headings_are_matched_too(store: Store) -> None:
    """A chunk is found by the words of its headings too, including days and times."""
    below = chunk("/a.md", "body", 1, context="2026-03-05 > Redis > 14:30")
    put(store, update("/a.md", [below, chunk("/a.md", "redis redis", 2)]))

    assert texts(store, "redis") == ["redis redis", "body"]
    assert texts(store, "2026-03-05") == texts(store, "14:30") == texts(store, "body") == ["body"]


def test_a_short_text_counts_as_a_longer_one(store: Store) -> None:
    """Texts of up to MIN_BM25_WORDS words score alike for one occurrence; longer texts score less."""
    lengths = (1, 2, MIN_BM25_WORDS - 1, MIN_BM25_WORDS, MIN_BM25_WORDS + 10, 4 * MIN_BM25_WORDS)
    put(store, update("/a.md", [" ".join(["otter", *(f"w{n}" for n in range(1, length))]) for length in lengths]))

    found = {hit.key: hit.score for hit in store.propose([Term("otter")], None, ALL, 10)[0]}
    scores = [found[stored.key] for stored in store.chunks_of("/a.md")]

    assert scores[:4] == pytest.approx([scores[3]] * 4)
    assert scores[3] > scores[4] > scores[5]


def test_the_fewer_have_a_word_the_rarer_it_is(store: Store) -> None:
    """A word is rarer the fewer chunks contain it, in text or headings; an unknown word is the rarest. Milvus estimates it."""
    above = [chunk("/b.md", "alone", 1, context="everywhere")]
    put(store, update("/a.md", ["everywhere twice", "everywhere twice twice", "everywhere"]), update("/b.md", above))

    rarity = store.rarity(["everywhere", "twice", "alone", "unknown", "alone"])

    assert (list(rarity), store.rarity([])) == (["everywhere", "twice", "alone", "unknown"], {})
    assert 0 < rarity["everywhere"] < rarity["twice"] < rarity["alone"] < rarity["unknown"]
    exact = (("everywhere", 4), ("twice", 2), ("alone", 1), ("unknown", 0))
    for word, holding in () if isinstance(store, MilvusStore) else exact:
        assert rarity[word] == pytest.approx(math.log1p((4 - holding + 0.5) / (holding + 0.5)))


def test_what_stands_around_a_chunk(store: Store) -> None:
    """The chunks before and after are near, the next ones far; of longer chunks only the length is given."""
    put(store, update("/a.md", ["one", "two", "three", "four", "five", "x" * 41]), update("/b.md", ["lonely"]))
    one, two, three, four, five, long = (found.key for found in store.chunks_of("/a.md"))
    (lonely,) = (found.key for found in store.chunks_of("/b.md"))

    around = store.chunk_neighbours([three, one, five, long, lonely], 40)

    assert around == {
        three: ChunkNeighbours(5, near=(two, four), far=(one, five)),
        one: ChunkNeighbours(3, near=(two,), far=(three,)),
        five: ChunkNeighbours(4, near=(four, long), far=(three,)),
        long: ChunkNeighbours(41),
        lonely: ChunkNeighbours(6),
    }
    assert store.chunk_neighbours([], 40) == {}


def test_surroundings_follow_a_put(store: Store) -> None:
    """A chunk inserted in between is a neighbour and in the entry, and a removed one is neither; lengths are in characters."""
    put(store, update("/a.md", ["one", "three"]))
    gone = store.chunks_of("/a.md")[1].key
    put(store, update("/a.md", ["one", "two", "four"], size=2))
    one, two, four = (found.key for found in store.chunks_of("/a.md"))

    assert store.chunk_neighbours([one, gone], 40) == {one: ChunkNeighbours(3, near=(two,), far=(four,))}
    put(store, update("/a.md", [chunk("/a.md", "水獭🦦é", 1), chunk("/a.md", "new", 2, piece=1)], size=3))
    first = store.chunks_of("/a.md")[0].key
    assert store.entry_sizes([first, gone], 4) == {first: 2}
    assert store.chunk_neighbours([first], 3) == {first: ChunkNeighbours(4)}


def test_size_of_an_entry(store: Store) -> None:
    """An entry is an outermost section with all below it, or what has no heading, or a turn of a journal.

    It is counted up to the most asked for.
    """

    def of(path: tuple[str, ...], line: int, piece: int = 0, source: str = "/a.md") -> Chunk:
        return chunk(source, f"text {line}", line, heading_path=path, heading_level=len(path), piece=piece)

    one, two = ("One",), ("Two",)
    placed = [((), 0), ((), 1), (one, 0), (one, 1), ((*one, "Below"), 0), (two, 0), (two, 0), ((*two, "Below"), 0)]
    put(store, update("/a.md", [of(path, line, piece) for line, (path, piece) in enumerate(placed, 1)]))
    day = ("2026-03-04", "Session 09:05")
    turns = [(*day, "09:05"), (*day, "09:52"), (*day, "09:52", "Below")]
    put(store, update("/b.md", [of(path, line, source="/b.md") for line, path in enumerate(turns, 1)]))
    keys = [found.key for source in ("/a.md", "/b.md") for found in store.chunks_of(source)]

    assert [store.entry_sizes(keys, 9)[key] for key in keys] == [2, 2, 3, 3, 3, 1, 2, 2, 1, 2, 2]
    assert [store.entry_sizes(keys, 2)[key] for key in keys] == [2, 2, 2, 2, 2, 1, 2, 2, 1, 2, 2]
    assert store.entry_sizes([], 4) == {}


def test_a_put_replaces_the_whole_document(store: Store) -> None:
    """After a put nothing of the old version is found, and all of the new one is."""
    put(store, update("/a.md", ["old words", "kept words"]))
    put(store, update("/a.md", ["kept words", "new words"], size=2))

    assert sorted(texts(store, "words")) == ["kept words", "new words"]
    assert texts(store, "old") == []
    assert [c.chunk.text for c in store.chunks_of("/a.md")] == ["kept words", "new words"]
    assert [c.chunk.start_line for c in store.chunks_of("/a.md")] == [1, 2]


def test_lines_may_move_while_the_text_stays(store: Store) -> None:
    """Chunks whose lines moved have their new lines and ids, and are found as before."""
    put(store, update("/a.md", ["same", "same", "other"]))
    put(store, update("/a.md", [chunk("/a.md", "same", 2), chunk("/a.md", "same", 3), chunk("/a.md", "other", 4)]))

    stored = store.chunks_of("/a.md")
    assert [c.chunk.start_line for c in stored] == [2, 3, 4]
    assert [c.id for c in stored] == [c.chunk.identify("m") for c in stored]
    assert texts(store, "other") == ["other"]


def test_removed_documents_are_gone(store: Store) -> None:
    """A removed document is neither listed nor found; removing an unknown one removes nothing."""
    put(store, update("/a.md", ["alpha"]), update("/b.md", ["beta"]))
    embed(store, alpha=(1, 0), beta=(0, 1))

    with store.writer() as writer:
        assert writer.remove(["/a.md", "/unknown.md"]) == 1

    assert [d.source for d in store.documents()] == ["/b.md"]
    assert texts(store, "alpha") == []
    assert near(store, 1, 0) == ["beta"]


def test_an_empty_document_is_known_and_finds_nothing(store: Store) -> None:
    """A document without chunks keeps its stamp, so that it is not read again."""
    put(store, update("/a.md", []))

    assert [d.source for d in store.documents()] == ["/a.md"]
    assert store.chunks_of("/a.md") == []


def test_touch_changes_the_stamp_and_nothing_else(store: Store) -> None:
    """A touched document has its new stamp and its old chunks."""
    put(store, update("/a.md", ["alpha"]))
    touched = update("/a.md", [], size=9).document

    with store.writer() as writer:
        writer.touch([touched])

    (document,) = store.documents()
    assert document.stamp == touched.stamp
    assert document.chunk_count == 1
    assert texts(store, "alpha") == ["alpha"]


def test_vectors_are_addressed_by_content(store: Store) -> None:
    """Two chunks with one text share one vector, and a text that returns later has it at once."""
    put(store, update("/a.md", ["same"]), update("/b.md", ["same"]))
    assert len(store.pending(10)) == 1
    embed(store, same=(1, 0))
    assert store.pending(10) == []
    assert near(store, 1, 0) == ["same", "same"]

    put(store, update("/c.md", ["same"]))

    assert store.pending(10) == []
    assert store.coverage(ALL).with_vectors == store.coverage(ALL).chunks == 3
    assert len(near(store, 1, 0)) == 3


def test_dense_ranks_by_cosine(store: Store) -> None:
    """The nearest vector comes first, with its cosine as score."""
    put(store, update("/a.md", ["east", "north", "between"]))
    embed(store, east=(1, 0), north=(0, 1), between=(1, 1))

    found = store.propose((), vector(1, 0), ALL, 2)[1]

    assert near(store, 1, 0, limit=2) == ["east", "between"]
    assert found[0].score == pytest.approx(1.0)
    assert found[1].score == pytest.approx(0.7071, abs=1e-3)


@pytest.mark.slow
def test_both_lanes_asked_together_answer_as_each_alone(store: Store) -> None:
    """Both lanes together propose the same as each alone; without a vector or without words, one lane answers."""
    put(store, update("/a.md", ["east wind", "north wind", "nothing"]), update("/b.md", ["east"], project="/q"))
    embed(store, **{"east wind": (1, 0), "north wind": (0, 1), "nothing": (1, 1), "east": (1, 0.1)})
    terms, near_by = [Term("wind"), Term("east")], vector(1, 0.2)

    for filters in (ALL, Filters(projects=("/p",)), Filters(projects=("/none",))):
        for limit in (10, 2, 0):
            words, meaning = (
                store.propose(terms, None, filters, limit)[0],
                store.propose((), near_by, filters, limit)[1],
            )
            assert store.propose(terms, near_by, filters, limit) == (words, meaning)
            assert store.propose(terms, None, filters, limit) == (words, [])
            assert store.propose([], near_by, filters, limit) == ([], meaning)
    assert store.lane_coverage(ALL) == store.coverage(ALL)
    assert store.find_remote("a") == []


def test_similarities_answer_only_for_what_has_a_vector(store: Store) -> None:
    """Cosines are returned for the given chunks that have vectors, and for no others."""
    put(store, update("/a.md", ["east", "north", "none"]))
    embed(store, east=(1, 0), north=(0, 1))
    by_text = {c.chunk.text: c.key for c in store.chunks_of("/a.md")}

    found = store.similarities(vector(1, 0), [by_text["north"], by_text["none"]])

    assert found == {by_text["north"]: pytest.approx(0.0)}


def test_chunks_without_vectors_are_found_by_words_at_once(store: Store) -> None:
    """Words are found before vectors exist, and coverage reports how many are missing."""
    put(store, update("/a.md", ["alpha", "beta"]))
    embed(store, alpha=(1, 0))

    assert texts(store, "beta") == ["beta"]
    coverage = store.coverage(ALL)
    assert (coverage.chunks, coverage.with_vectors) == (2, 1)
    assert [c.has_vector for c in store.chunks_of("/a.md")] == [True, False]


def test_vectors_of_another_dimension_are_refused(store: Store) -> None:
    """A vector of another dimension is rejected, in a write and in a query."""
    put(store, update("/a.md", ["alpha", "beta"]))
    embed(store, alpha=(1, 0))

    with pytest.raises(ModelFault), store.writer() as writer:
        writer.put_vectors({store.pending(1)[0].vector_key: vector(1, 0, 0)})
    with pytest.raises(ModelFault):
        store.propose((), vector(1, 0, 0), ALL, 5)[1]
    assert len(store.pending(10)) == 1


def test_zero_vectors_are_kept_and_far_from_everything(store: Store) -> None:
    """A zero vector is stored and does no harm."""
    put(store, update("/a.md", ["nothing", "east"]))
    embed(store, nothing=(0, 0), east=(1, 0))

    assert near(store, 1, 0) == ["east", "nothing"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (Filters(projects=("/p",)), {"a", "c", "d"}),
        (Filters(projects=("",)), {"b"}),
        (Filters(projects=()), set()),
        (Filters(projects=("/p", "")), {"a", "b", "c", "d"}),
        (Filters(source_prefix="/docs"), {"a"}),
        (Filters(source_prefix="/docs/"), {"a"}),
        (Filters(source_prefix="/docs/a.md"), {"a"}),
        (Filters(source_prefix="/docs-v2"), {"b"}),
        (Filters(source_prefix="/"), {"a", "b", "c", "d"}),
        (Filters(source_prefix="/do%"), set()),
        (Filters(source_prefix="/we_rd"), {"d"}),
        (Filters(source_prefix="/q\"uote's"), {"c"}),
        (Filters(since="2026-03-03"), {"b", "c"}),
        (Filters(until="2026-03-03"), {"a", "b"}),
        (Filters(since="2026-03-03", until="2026-03-03"), {"b"}),
        (Filters(types=("decision",)), {"a"}),
        (Filters(types=("decision", "note")), {"a", "b"}),
        (Filters(types=('de"cision',)), set()),
        (Filters(tags=("x",)), {"a", "b"}),
        (Filters(tags=("x", "y")), {"b"}),
        (Filters(tags=('q"%_',)), {"c"}),
        (Filters(tags=("%",)), set()),
    ],
)
def test_filters_admit_exactly_what_they_say(store: Store, filters: Filters, wanted: set[str]) -> None:
    """Filters mean the same in both lanes, respect path boundaries, and have no special characters."""
    rows = [
        ("/docs/a.md", "/p", "2026-03-02", "decision", ("x",), "a"),
        ("/docs-v2/b.md", "", "2026-03-03T10:00", "note", ("x", "y"), "b"),
        ("/q\"uote's/c.md", "/p", "2026-03-04", "", ('q"%_',), "c"),
        ("/we_rd/d.md", "/p", "", "", (), "d"),
    ]
    for source, project, date, kind, tags, text in rows:
        one = chunk(source, f"word {text}", 1, date=date, type=kind, tags=tags)
        put(store, update(source, [one], project=project))
    embed(store, word_a=(1, 0), word_b=(1, 0.1), word_c=(1, 0.2), word_d=(1, 0.3))

    assert {text.split()[1] for text in texts(store, "word", filters=filters)} == wanted
    assert {text.split()[1] for text in near(store, 1, 0, filters=filters)} == wanted


def test_ids_are_found_by_prefix(store: Store) -> None:
    """A chunk is found by a prefix of its id or memory id, without wildcards."""
    put(store, update("/a.md", [chunk("/a.md", "one", 1, anchor=anchored("0199-aaa")), chunk("/a.md", "two", 2)]))
    one, two = store.chunks_of("/a.md")

    assert [c.id for c in store.find(two.id[:8])] == [two.id]
    assert [c.id for c in store.find("0199-a")] == [one.id]
    assert store.find("%") == []
    assert store.find("_") == []


def test_a_failed_put_changes_nothing(store: Store) -> None:
    """After a failed put the old version of every document is intact."""
    put(store, update("/a.md", ["old"]))
    broken = update("/b.md", [chunk("/b.md", "x", 1), chunk("/b.md", "x", 1)])

    with pytest.raises(Exception, match=r"."), store.writer() as writer:
        writer.put([update("/a.md", ["new"], size=2), broken])

    assert [c.chunk.text for c in store.chunks_of("/a.md")] == ["old"]
    assert [d.source for d in store.documents()] == ["/a.md"]
    assert texts(store, "old") == ["old"]
    assert texts(store, "new") == []


def test_only_one_writes(store: Store) -> None:
    """A second writer is rejected as busy, and reading continues."""
    put(store, update("/a.md", ["alpha"]))

    with store.writer() as first:
        with pytest.raises(StoreBusy), store.writer(wait_s=0):
            pass
        assert texts(store, "alpha") == ["alpha"]
        first.put([update("/b.md", ["beta"])])
        assert texts(store, "beta") == ["beta"]


@pytest.mark.slow
def test_reset_empties_the_index(store: Store) -> None:
    """After a reset the index is empty and can be filled again."""
    put(store, update("/a.md", ["alpha"]))
    embed(store, alpha=(1, 0))

    store.reset()

    assert store.documents() == []
    assert texts(store, "alpha") == []
    put(store, update("/a.md", ["alpha"]))
    assert texts(store, "alpha") == ["alpha"]
    assert len(store.pending(10)) == 1


def test_a_change_of_project_moves_the_document(store: Store) -> None:
    """A document put under another project is found there and no longer where it was."""
    put(store, update("/a.md", ["alpha"], project="/p"))
    put(store, update("/a.md", ["alpha"], project="/q"))

    assert texts(store, "alpha", filters=Filters(projects=("/p",))) == []
    assert texts(store, "alpha", filters=Filters(projects=("/q",))) == ["alpha"]


def test_stats_count_what_is_there(store: Store) -> None:
    """Stats report documents, chunks, vectors and projects."""
    put(store, update("/a.md", ["alpha", "beta"], project="/p"), update("/b.md", ["alpha"], project=""))
    embed(store, alpha=(1, 0))

    stats = store.stats()

    assert (stats.documents, stats.chunks, stats.vectors, stats.other_vectors) == (2, 3, 1, 0)
    assert dict(stats.projects) == {"/p": 2, "": 1}


def test_recent_lists_sections_newest_first(store: Store) -> None:
    """The newest sections come first, each once however many pieces it has, within the filters."""
    old = chunk("/a.md", "old", 1, date="2026-03-01")
    first = chunk("/b.md", "new first", 1, date="2026-03-05T10:00", type="decision")
    second = chunk("/b.md", "new second", 2, date="2026-03-05T10:00", piece=1)
    later = chunk("/b.md", "later", 3, date="2026-03-05T11:00")
    put(store, update("/a.md", [old]), update("/b.md", [first, second, later]))

    assert [stored.chunk.text for stored in store.recent(ALL, 10)] == ["later", "new first", "old"]
    assert [stored.chunk.text for stored in store.recent(ALL, 1)] == ["later"]
    assert [stored.chunk.text for stored in store.recent(Filters(types=("decision",)), 10)] == ["new first"]


def test_recent_keys_are_those_of_recent_or_only_the_new_ones(store: Store) -> None:
    """Keys come in the order of `recent`; with a mark only those of chunks written since, whatever their date."""
    put(
        store,
        update("/a.md", [chunk("/a.md", "new", 1, date="2026-03-05"), chunk("/a.md", "newer", 2, date="2026-03-06")]),
    )
    keys, mark = store.recent_keys(ALL, 10)
    assert keys == [stored.key for stored in store.recent(ALL, 10)]
    assert store.recent_keys(ALL, 10, mark=mark) == ([], mark)
    assert store.recent_keys(ALL, 10, mark="of another index")[0] == keys

    put(store, update("/b.md", [chunk("/b.md", "old", 1, date="2020-03-05")], project="/q"))
    (added,), later = store.recent_keys(ALL, 10, mark=mark)
    assert [stored.chunk.text for stored in store.fetch([added]).values()] == ["old"]
    assert store.recent_keys(Filters(projects=("/p",)), 10, mark=mark)[0] == []
    assert store.recent_keys(ALL, 10, mark=later)[0] == []


def test_tags_are_told_by_how_they_begin(store: Store) -> None:
    """Tags with a prefix are counted by section in the admitted projects, without wildcards."""
    one = chunk("/a.md", "one", 1, tags=("ctx:a", "ctx:a", "ctx:b%", "other"))
    rest = chunk("/a.md", "rest of one", 2, tags=("ctx:a",), piece=1)
    two = chunk("/a.md", "two", 3, tags=("ctx:a", "ctx_a", "ctx:é"))
    put(store, update("/a.md", [one, rest, two]), update("/b.md", [chunk("/b.md", "b", tags=("ctx:a",))], project="/q"))

    assert store.tags("ctx:", ALL) == {"ctx:a": 3, "ctx:b%": 1, "ctx:é": 1}
    assert store.tags("ctx:", Filters(projects=("/p",))) == {"ctx:a": 2, "ctx:b%": 1, "ctx:é": 1}
    assert store.tags("ctx:", Filters(tags=("other",))) == {"ctx:a": 1, "ctx:b%": 1}
    assert store.tags("ctx%", ALL) == store.tags("CTX:", ALL) == {}
    assert [stored.chunk.text for stored in store.recent(Filters(tags=("ctx:a",), projects=("/p",)), 10)] == [
        "two",
        "one",
    ]


def test_types_are_counted_and_dates_keep_their_source(store: Store) -> None:
    """Types are counted by chunk in the admitted projects; chunks and documents keep where their date comes from."""
    dated, undated = chunk("/a.md", "one", 1, type="fact"), chunk("/a.md", "two", 2, type="fact", date_source="file")
    put(store, update("/a.md", [dated, undated]), update("/b.md", [chunk("/b.md", "b", type="todo")], project="/q"))

    assert store.types(ALL) == {"fact": 2, "todo": 1}
    assert store.types(Filters(projects=("/q",), types=("fact",))) == {"todo": 1}
    assert [stored.chunk.date_source for stored in store.chunks_of("/a.md")] == ["text", "file"]


def test_tags_follow_what_is_written(store: Store) -> None:
    """Tag counts follow changes of tags and projects, and removals."""
    put(store, update("/a.md", [chunk("/a.md", "one", tags=("ctx:a",))]))
    put(store, update("/a.md", [chunk("/a.md", "one", tags=("ctx:b",)), chunk("/a.md", "two", 2, tags=("ctx:c",))]))
    assert store.tags("ctx:", ALL) == {"ctx:b": 1, "ctx:c": 1}

    put(store, update("/a.md", [chunk("/a.md", "one", tags=("ctx:b",))], project="/q"))
    assert store.tags("ctx:", Filters(projects=("/p",))) == {}
    assert store.tags("ctx:", Filters(projects=("/q",))) == {"ctx:b": 1}

    with store.writer() as writer:
        writer.remove(["/a.md"])
    assert store.tags("", ALL) == {}


def test_supersessions_are_told_oldest_word_first_and_follow_what_is_written(store: Store) -> None:
    """Supersessions come with their author and project, oldest first, and disappear with their document."""
    old = chunk("/a.md", "old", 1, anchor=Anchor(memory="m1"))
    late = chunk("/a.md", "late", 2, anchor=Anchor(memory="m3", supersedes="m1,m2"), date="2026-03-09")
    rest = chunk("/a.md", "rest of late", 3, anchor=Anchor(memory="m3", supersedes="m1,m2"), date="2026-03-09", piece=1)
    own = chunk("/a.md", "itself", 4, anchor=Anchor(memory="m4", supersedes="m4"))
    early = chunk("/b.md", "early", 1, anchor=Anchor(session="s", supersedes="m9"), date="2026-03-01")
    put(store, update("/a.md", [old, late, rest, own]), update("/b.md", [early], project="/q"))

    assert list(store.supersessions()) == [
        Supersession("m9", early.identify("m"), "/q", source="/b.md"),
        Supersession("m1", "m3", "/p", source="/a.md"),
        Supersession("m2", "m3", "/p", source="/a.md"),
    ]

    put(store, update("/a.md", [old]))
    assert [supersession.old for supersession in store.supersessions()] == ["m9"]
    with store.writer() as writer:
        writer.remove(["/b.md"])
    assert list(store.supersessions()) == []


def test_coverings_are_told_oldest_word_first_and_follow_what_is_written(store: Store) -> None:
    """Summaries come with the memories they cover and their project, and disappear with their document."""
    covers = ("0123456789abcdef", "fedcba9876543210")
    late = chunk("/a.md", "late", 1, anchor=Anchor(memory="s2", covers=covers), date="2026-03-09")
    rest = chunk("/a.md", "rest of late", 2, anchor=Anchor(memory="s2"), date="2026-03-09", piece=1)
    early = chunk("/b.md", "early", 1, anchor=Anchor(memory="s1", covers=covers[:1]), date="2026-03-01")
    put(store, update("/a.md", [late, rest]), update("/b.md", [early], project="/q"))

    assert list(store.summary_links()) == [SummaryLink("s1", "/q", covers[:1]), SummaryLink("s2", "/p", covers)]
    assert next(stored.chunk.anchor for stored in store.find("s1")) == Anchor(memory="s1", covers=covers[:1])

    put(store, update("/a.md", [rest]))
    assert [covering.summary for covering in store.summary_links()] == ["s1"]
    with store.writer() as writer:
        writer.remove(["/b.md"])
    assert list(store.summary_links()) == []


def test_what_no_id_names_is_found_by_its_content(store: Store) -> None:
    """A prefix of a content hash finds its chunks everywhere; an id with that prefix takes precedence."""
    one, two = chunk("/a.md", "the same", 1), chunk("/b.md", "the same", 7)
    put(store, update("/a.md", [one]), update("/b.md", [two]))

    assert {found.chunk.source for found in store.find(one.content_hash[:8])} == {"/a.md", "/b.md"}
    named = chunk("/c.md", "named so", 1, anchor=Anchor(memory=one.content_hash))
    put(store, update("/c.md", [named]))
    assert [found.chunk.source for found in store.find(one.content_hash[:8])] == ["/c.md"]


def test_a_session_is_told_newest_first(store: Store) -> None:
    """Sections whose anchor names a session are found, within the filters; pieces and other sessions are not."""
    one = chunk("/a.md", "one", 1, anchor=Anchor(session="s"), date="2026-03-01")
    two = chunk("/a.md", "two", 2, anchor=Anchor(session="s"), date="2026-03-02")
    rest = chunk("/a.md", "rest", 3, anchor=Anchor(session="s"), date="2026-03-02", piece=1)
    other = chunk("/a.md", "other", 4, anchor=Anchor(session="s2", memory="s"))
    put(store, update("/a.md", [one, two, rest, other, chunk("/a.md", "none", 5)]))

    assert [found.chunk.text for found in store.recent(ALL, 10, session="s")] == ["two", "one"]
    assert [found.chunk.text for found in store.recent(ALL, 1, session="s")] == ["two"]
    assert store.recent(Filters(projects=("/q",)), 10, session="s") == store.recent(ALL, 10, session="") == []


def test_memories_with_an_id_are_listed_without_notes_of_turns(store: Store) -> None:
    """Sections whose anchor has an id, newest first, within the filters; neither turns, pieces nor a given directory."""
    cued = Anchor(memory="b", cues=("path=src/**", "command=npm *"))
    rule = chunk("/a.md", "rule", 1, anchor=Anchor(memory="a"), type="correction", date="2026-03-01")
    fact = chunk("/a.md", "fact", 2, anchor=cued, date="2026-03-02")
    turn = chunk("/a.md", "turn", 3, anchor=Anchor(memory="c"), type="turn", date="2026-03-03")
    rest = chunk("/a.md", "rest", 4, anchor=Anchor(memory="d"), piece=1)
    page = chunk("/pages/x.md", "page", 1, anchor=Anchor(memory="e"), date="2026-03-04")
    put(store, update("/a.md", [rule, fact, turn, rest, chunk("/a.md", "none", 5)]), update("/pages/x.md", [page]))

    assert [found.chunk.text for found in store.authored_chunks(ALL, 10)] == ["page", "fact", "rule"]
    listed = store.authored_chunks(ALL, 10, outside="/pages")
    assert [found.chunk.text for found in listed] == ["fact", "rule"]
    assert listed[0].chunk.anchor == cued
    assert [found.chunk.text for found in store.authored_chunks(ALL, 1, outside="/pages")] == ["fact"]
    assert store.authored_chunks(Filters(projects=("/q",)), 10) == []


def numbers(found: Vector) -> Any:
    """Return a vector's numbers, for comparison to the precision that every store keeps."""
    return pytest.approx(np.frombuffer(found, "<f4").tolist(), abs=2e-5)


def test_vectors_come_back_as_they_went_in(store: Store) -> None:
    """Vectors are returned by key, to 16 bits; a chunk without a vector has none."""
    put(store, update("/a.md", ["alpha", "beta", "gamma"]))
    embed(store, alpha=(1, 0), beta=(3, 4))
    keys = {stored.chunk.text: stored.key for stored in store.chunks_of("/a.md")}

    found = store.vectors([*keys.values(), 999])

    got = {key: np.frombuffer(stored, "<f4").tolist() for key, stored in found.items()}
    assert got == {keys["alpha"]: numbers(vector(1, 0)), keys["beta"]: numbers(vector(3, 4))}


def test_every_write_has_its_own_revision(store: Store) -> None:
    """The revision changes with each completed write and reset, and not with reads."""
    document = update("/a.md", ["alpha"])
    seen = [store.revision()]

    def changed() -> bool:
        new = store.revision()
        texts(store, "alpha")
        near(store, 1, 0)
        told = new not in seen and store.revision() == new
        seen.append(new)
        return told

    with store.writer() as writer:
        writer.put([document])
        assert changed()
        writer.touch([document.document])
        assert changed()
        writer.put_vectors({pending.vector_key: vector(1, 0) for pending in store.pending(5)})
        assert changed()
        writer.remove(["/a.md"])
        assert changed()
        writer.put([document])
        assert changed()
    store.reset()
    put(store, document)
    assert changed()


def beside(store: Store, **vectors: tuple[float, ...]) -> None:
    keys = {pending.text: pending.vector_key for pending in store.pending(1000, shadow=True)}
    with store.writer() as writer:
        writer.put_vectors({keys[text]: vector(*numbers) for text, numbers in vectors.items()}, shadow=True)


def test_vectors_beside_are_not_seen_until_they_are_served(store: Store) -> None:
    """During a re-embedding, even with another dimension, searches use the old vectors; a swap changes all at once."""
    put(store, update("/a.md", ["alpha", "beta"]))
    embed(store, alpha=(1, 0), beta=(0, 1))
    ids = [stored.id for stored in store.chunks_of("/a.md")]

    with store.writer() as writer:
        writer.begin_shadow_vectors(3)
    for text, numbers in (("alpha", (0, 0, 1)), ("beta", (1, 0, 0))):
        beside(store, **{text: numbers})
        assert near(store, 1, 0) == ["alpha", "beta"]
        assert store.coverage(ALL).with_vectors == store.stats().vectors == 2
        assert set(store.vectors([stored.key for stored in store.chunks_of("/a.md")]).values()) == {
            vector(1, 0),
            vector(0, 1),
        }
    before = store.revision()
    with store.writer() as writer:
        writer.swap_vectors()

    assert near(store, 0, 0, 1) == ["alpha", "beta"]
    assert store.coverage(ALL).with_vectors == store.stats().vectors == store.stats().other_vectors == 2
    assert [stored.id for stored in store.chunks_of("/a.md")] == ids
    assert store.revision() != before
    assert not store.reembed_state().begun
    with pytest.raises(ModelFault):
        near(store, 1, 0)


def test_what_was_begun_beside_goes_on(store: Store) -> None:
    """A resumed re-embedding lacks only missing vectors; with another dimension it starts over."""
    put(store, update("/a.md", ["alpha", "beta", "alpha"]))
    embed(store, alpha=(1, 0), beta=(0, 1))
    for _ in range(2):
        with store.writer() as writer:
            writer.begin_shadow_vectors(2)
        assert store.reembed_state().begun == store.reembed_state().served != ""
        if store.reembed_state().waiting == 2:
            beside(store, alpha=(1, 1))
    assert [pending.text for pending in store.pending(10, shadow=True)] == ["beta"]
    put(store, update("/b.md", ["gamma"]))
    assert [pending.text for pending in store.pending(10, shadow=True)] == ["beta", "gamma"]
    assert len(store.pending(1, shadow=True)) == 1

    with store.writer() as writer:
        writer.begin_shadow_vectors(3)
        pending = enumerate(store.pending(9, shadow=True), 1)
        with pytest.raises(ModelFault):
            writer.put_vectors({text.vector_key: vector(1, *[0] * n) for n, text in pending}, shadow=True)

    assert store.reembed_state().waiting == len(store.pending(10, shadow=True)) == 3
    assert near(store, 1, 0) == ["alpha", "alpha", "beta"]


def test_chunks_that_came_meanwhile_wait_after_a_swap(store: Store) -> None:
    """A chunk without a new vector is found by words after the swap and is pending; new vectors count."""
    put(store, update("/a.md", ["alpha", "beta"]))
    embed(store, alpha=(1, 0))
    with store.writer() as writer:
        writer.begin_shadow_vectors(2)
    beside(store, beta=(0, 1))

    with store.writer() as writer:
        writer.swap_vectors()

    assert [pending.text for pending in store.pending(10)] == ["alpha"]
    assert near(store, 0, 1) == ["beta"]
    assert texts(store, "alpha") == ["alpha"]
    embed(store, alpha=(1, 1))
    assert near(store, 0, 1) == ["beta", "alpha"]


def test_going_back_and_forgetting(store: Store) -> None:
    """A swap can be rolled back and repeated; after dropping the others there is nothing to go back to."""
    put(store, update("/a.md", ["alpha", "beta"]))
    embed(store, alpha=(1, 0), beta=(0, 1))
    with store.writer() as writer, pytest.raises(NotFound):
        writer.roll_back()
    with store.writer() as writer:
        writer.begin_shadow_vectors(2)
    beside(store, alpha=(0, 1), beta=(1, 0))
    with store.writer() as writer:
        writer.swap_vectors()
        writer.sweep()
    assert near(store, 1, 0) == ["beta", "alpha"]

    with store.writer() as writer:
        writer.roll_back()
    assert near(store, 1, 0) == ["alpha", "beta"]
    assert store.reembed_state().declined == store.reembed_state().served
    put(store, update("/a.md", ["alpha", "beta", "gamma"], size=2))
    embed(store, gamma=(1, 0))
    with store.writer() as writer:
        writer.roll_back()
    assert near(store, 1, 0) == ["beta", "alpha"]
    assert [pending.text for pending in store.pending(10)] == ["gamma"]
    with store.writer() as writer:
        assert writer.drop_other_vectors() == 3
        with pytest.raises(NotFound):
            writer.roll_back()

    assert (store.stats().vectors, store.stats().other_vectors) == (2, 0)
    assert near(store, 1, 0) == ["beta", "alpha"]


def test_a_remark_is_kept_and_changes_the_revision(store: Store) -> None:
    """A remark is visible to every reader and changes the revision."""
    put(store, update("/a.md", ["alpha"]))
    before = store.revision()
    assert store.get_note("known") == ""

    with store.writer() as writer:
        writer.set_note("known", "4.2 200")
        writer.set_note("known", "4.5 300")

    assert store.get_note("known") == "4.5 300"
    assert store.get_note("other") == ""
    assert store.revision() != before


def test_a_purge_leaves_what_is_in_use_and_drops_the_vectors_of_what_is_gone(store: Store) -> None:
    """After a purge the removed text is not found and its vector is unknown; everything else answers as before."""
    put(store, update("/a.md", ["alpha one", "beta two"]), update("/b.md", ["alpha three"]))
    embed(store, **{"alpha one": (1, 0), "beta two": (0, 1), "alpha three": (1, 1)})
    gone, kept = (chunk("/a.md", text).vector_key for text in ("beta two", "alpha one"))
    put(store, update("/a.md", ["alpha one"]))

    with store.writer() as writer:
        writer.purge([gone, kept])

    assert texts(store, "beta") == []
    assert sorted(texts(store, "alpha")) == ["alpha one", "alpha three"]
    assert near(store, 1, 0) == ["alpha one", "alpha three"]
    assert store.missing_vectors([gone, kept]) == {gone}
    put(store, update("/c.md", ["beta four"]))
    assert texts(store, "beta") == ["beta four"]


def test_chunks_before_the_first_line_of_an_update_stay(store: Store) -> None:
    """An update from a line on replaces the chunks from there on; those before keep their keys and their marks."""
    first = update(
        "/a.md", [chunk("/a.md", text, line, anchor=Anchor(memory=text)) for line, text in ((1, "a"), (2, "b"))]
    )
    put(store, replace(first, resume="here"))
    before = store.chunks_of("/a.md")
    marks = dict(store.authored_marks(10))
    assert store.resume_point("/a.md") == "here"
    added = [chunk("/a.md", text, line, anchor=Anchor(memory=text)) for line, text in ((2, "b2"), (3, "c"))]
    put(store, replace(update("/a.md", added, size=2), first_line=2, base=store.document("/a.md")))
    assert [stored.chunk.text for stored in store.chunks_of("/a.md")] == ["a", "b2", "c"]
    assert (store.documents()[0].chunk_count, store.resume_point("/a.md")) == (3, "")
    kept = dict(store.authored_marks(10)).items() & marks.items()
    assert [key for key, _ in kept] == [before[0].key]
    assert [text.text for text in store.pending_of("/a.md")] == ["a", "b2", "c"]
    assert store.embedded_keys("/a.md") == set()
