"""How much work a search is: statements, files and texts are counted, because a test cannot time them. Searches of one process compute one at a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.search.shelf import DirectedEmbedder, Shelf, away

from lorelog.core.options import SearchOptions
from lorelog.core.query import Lane
from lorelog.language.analyser import TokenSpan, WordAnalyser
from lorelog.services.search import searcher
from lorelog.services.search.searcher import Searcher, SearchTurn
from lorelog.stores.embedded import EmbeddedStore

MAX_STATEMENTS = 6
"""Of a hybrid search while nothing is written: three ask for the version of the catalog, and one each for neighbours, entries and texts."""
TEXTS = 60


class CountingAnalyser(WordAnalyser):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def words(self, text: str) -> list[str]:
        self.counts[text] += bool(text)
        return super().words(text)

    def matching_spans(self, text: str, wanted: frozenset[str]) -> Iterator[TokenSpan]:
        self.counts["spans"] += 1
        return super().matching_spans(text, wanted)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """An index of sixty texts with vectors; every second one has a word of the question."""
    analyser = WordAnalyser()
    store = EmbeddedStore(tmp_path, analyser, provider=DirectedEmbedder.provider, model=DirectedEmbedder.model)
    shelf = Shelf(store, DirectedEmbedder())
    shelf.put((f"{'otter' if n % 2 else 'heron'} number{n} swims past stone{n}", away(0.01 * n)) for n in range(TEXTS))
    yield store
    store.close()


def test_a_search_asks_the_catalog_few_questions(store: EmbeddedStore) -> None:
    """A warm hybrid search executes a fixed number of statements, however many candidates it has."""
    searcher = Searcher(store, DirectedEmbedder(), WordAnalyser())
    searcher.search("otter past", SearchOptions(k=10))
    statements: list[str] = []
    (reader,) = store._idle_readers
    reader.database.set_trace_callback(statements.append)

    assert len(searcher.search("heron past", SearchOptions(k=10)).hits) == 10

    assert 0 < len(statements) <= MAX_STATEMENTS, "\n".join(statement[:100] for statement in statements)


def test_repeats_do_not_crowd_others_out(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ninety copies of the best text leave room for others. The lexical lane alone proposes few candidates, and more only then."""
    limits, propose = dict[int, int](), store.propose
    monkeypatch.setattr(store, "propose", lambda *args: limits.setdefault(len(limits), args[-1]) and propose(*args))
    shelf = Shelf(store, None)

    assert len(shelf.search("past", lane=Lane.LEXICAL).hits) == len(limits) * 5 == 5
    shelf.put([("past past past", None)] * 90)

    for lane in (Lane.LEXICAL, Lane.HYBRID):
        assert [len(hit.duplicates) for hit in shelf.search("past", lane=lane).hits] == [89, 0, 0, 0, 0]
    assert limits[0] == limits[1] < limits[2]


def test_each_text_is_analysed_once(store: EmbeddedStore) -> None:
    """Close reading and snippets share the words of a text, and no snippet is searched that has none of the question's."""
    analyser = CountingAnalyser()

    reply = Searcher(store, DirectedEmbedder(), analyser).search("otter", SearchOptions(k=40))

    assert analyser.counts.pop("spans") == sum(bool(hit.matches) for hit in reply.hits) < len(reply.hits)
    assert max(analyser.counts.values()) == 1


def test_one_search_computes_at_a_time_and_none_is_overtaken() -> None:
    """Waiting threads get their turn in the order in which they came."""
    turn, order, running = SearchTurn(), list[int](), list[int]()
    threads: list[threading.Thread] = []

    def compute(number: int) -> None:
        with turn.taken():
            running.append(number)
            assert running == [number]
            order.append(number)
            running.remove(number)

    with turn.taken():
        for number in range(8):
            threads.append(threading.Thread(target=compute, args=(number,)))
            threads[-1].start()
            while len(turn._waiting) <= number:
                threads[-1].join(0.001)
        assert not order
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_a_search_that_waits_for_its_vector_lets_others_compute() -> None:
    """Another thread computes while the first one has left its turn, and the first has its turn again afterwards."""
    turn, said = SearchTurn(), list[str]()

    def other() -> None:
        with turn.taken():
            said.append("other")

    with turn.taken(), turn.taken():
        with turn.left():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        late = threading.Thread(target=other)
        late.start()
        while not turn._waiting:
            late.join(0.001)
        said.append("first")
    late.join()
    assert said == ["other", "first", "other"]


def test_a_search_that_hangs_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread goes ahead without a turn after the longest wait, and the turn still works for the next one."""
    monkeypatch.setattr(searcher, "_MAX_TURN_WAIT_S", 0.01)
    turn, said = SearchTurn(), list[str]()

    def other() -> None:
        with turn.taken():
            said.append("went ahead")

    with turn.taken():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert said == ["went ahead"]
    with turn.taken():
        assert turn._owner == threading.get_ident()
    assert not turn._is_taken
