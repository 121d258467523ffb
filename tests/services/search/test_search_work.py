"""How much work a search is: statements, files and texts are counted, because a test cannot time them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.search.shelf import DirectedEmbedder, Shelf, away

from lorelog import Lorelog
from lorelog.core.options import SearchOptions
from lorelog.language.analyser import TokenSpan, WordAnalyser
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.search.searcher import Searcher
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


def test_each_text_is_analysed_once(store: EmbeddedStore) -> None:
    """Close reading and snippets share the words of a text, and no snippet is searched that has none of the question's."""
    analyser = CountingAnalyser()

    reply = Searcher(store, DirectedEmbedder(), analyser).search("otter", SearchOptions(k=40))

    assert analyser.counts.pop("spans") == sum(bool(hit.matches) for hit in reply.hits) < len(reply.hits)
    assert max(analyser.counts.values()) == 1


def test_the_cost_of_a_section_is_known_without_its_file(tmp_path: Path) -> None:
    """A hit costs what `expand` shows; in a file that has changed since, its chunk is counted."""
    body = "".join(f"The otter of line {n} tells of water{n} and of rivers.\n" for n in range(60))
    note = tmp_path / "one.md"
    note.write_text(f"# Otters\n\n{body}\n## More\n\nIt sleeps.\n", "utf-8")
    with Lorelog(project=tmp_path, settings={"embedding.provider": "none"}) as memory:
        memory.index([tmp_path])
        before = memory.search("otter", k=20).hits
        assert [hit.expand_tokens for hit in before] == [memory.expand(hit.id).tokens for hit in before]

        with note.open("a", encoding="utf-8") as file:
            file.write("And wakes.\n")
        after = memory.search("otter", k=20).hits
        assert [hit.expand_tokens for hit in after] == [estimate_tokens(hit.content) for hit in after]
