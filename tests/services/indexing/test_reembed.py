"""How an index goes over to another model: beside the old vectors, at once, and back again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.services.indexing.test_run import CountingEmbedder, PickyEmbedder
from tests.surfaces.conftest import write

from lorelog.core.errors import ModelUnavailable, NotFound, StoreBusy
from lorelog.core.memory import IndexReport, ReembedReport
from lorelog.core.options import ChunkOptions, ScanOptions, SearchOptions
from lorelog.core.ports import EmbeddedTexts, Embedder, Progress, Store, Vector
from lorelog.core.query import Lane, SearchReply
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.run import IndexRun, drop_old_vectors, roll_back
from lorelog.services.places.roots import Root
from lorelog.services.search.searcher import Searcher
from lorelog.stores.embedded import EmbeddedStore

CHUNKS = 40
ANIMALS = ("otter", "beaver", "heron", "stoat", "badger", "linnet", "marten", "plover")
PLACES = ("river", "meadow", "quarry", "harbour", "orchard", "moor")


class Good(CountingEmbedder):
    """Another model that knows as much as the fake one, in as many dimensions: its numbers stand in another order."""

    model = "good"

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        made = super().embed_documents(texts)
        return replace(made, vectors=tuple(map(turned, made.vectors)))

    def embed_query(self, text: str) -> Vector:
        return turned(super().embed_query(text))


class Failing(Good):
    """A model whose server goes away after some texts."""

    def __init__(self, texts: int) -> None:
        super().__init__()
        self._left = texts

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        self._left -= len(texts)
        if self._left < 0:
            raise ModelUnavailable("the server went away")
        return super().embed_documents(texts)


class RefusingModel(PickyEmbedder, Good):
    refuses = "seen 7 times"


def changed(report: IndexReport) -> ReembedReport:
    assert report.reembedding is not None
    return report.reembedding


def turned(vector: Vector) -> Vector:
    return vector[128:] + vector[:128]


class TwoModelIndex:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.notes = place / "notes"
        lines = []
        for number in range(CHUNKS):
            animal, ground = ANIMALS[number % 8], PLACES[number % 6]
            lines.append(
                f"## Note {number}\n\nThe {animal} of the {ground} was seen {number} times by warden w{number}.\n\n"
            )
        write(self.notes / "a.md", "".join(lines))
        self._stores: dict[str, Store] = {}

    def store(self, embedder: Embedder) -> Store:
        if embedder.model not in self._stores:
            self._stores[embedder.model] = EmbeddedStore(
                self.place / "index", WordAnalyser(), provider="fake", model=embedder.model
            )
        return self._stores[embedder.model]

    def run(self, embedder: Embedder, progress: Progress | None = None, **how: Any) -> IndexReport:
        root = Root(os.path.realpath(self.notes), "/p")
        job = IndexJob((root,), (), ScanOptions(), ChunkOptions(), batch_size=4, **how)
        return IndexRun(self.store(embedder), embedder, job, progress).over_roots()

    def change(self, embedder: Embedder, progress: Progress | None = None, **how: Any) -> ReembedReport:
        return changed(self.run(embedder, progress, **how))

    def search(self, embedder: Embedder, query: str = "otter of the river w0") -> SearchReply:
        return Searcher(self.store(embedder), embedder, WordAnalyser()).search(query, SearchOptions(k=5))

    def by_meaning(self, embedder: Embedder) -> bool:
        """Whether vectors answer, and the right ones: the best hit is nearest by that model."""
        lane = SearchOptions(k=1, lane=Lane.DENSE)
        query = "badger meadow warden w12"
        reply = Searcher(self.store(embedder), embedder, WordAnalyser()).search(query, lane)
        return bool(reply.hits) and reply.coverage.with_vectors == reply.coverage.chunks and not reply.notes

    def close(self) -> None:
        for store in self._stores.values():
            store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[TwoModelIndex]:
    made = TwoModelIndex(tmp_path)
    assert made.run(FakeEmbedder()).embedded == CHUNKS
    yield made
    made.close()


@pytest.mark.parametrize("asked", [True, False])
def test_the_old_vectors_answer_until_the_new_ones_do(bench: TwoModelIndex, asked: object) -> None:
    """All through a run the old model finds by meaning and the new one by words; then the new one does, and both are told."""
    old, new = FakeEmbedder(), Good()
    seen = 0

    def look(stage: str, done: int, total: int) -> None:
        nonlocal seen
        if stage == "vectors":
            seen += 1
            assert bench.by_meaning(old)
            reply = bench.search(new)
            assert reply.hits
            assert any("vectors of another model" in note for note in reply.notes)

    report = bench.run(new, look, reembed=bool(asked))

    assert seen > CHUNKS // 4
    told = changed(report)
    assert (told.old, told.new, told.swapped) == ("fake/fake-64", "fake/good", True)
    assert (report.embedded, report.waiting, report.problems) == (CHUNKS, 0, ())
    assert bench.by_meaning(new)
    assert not bench.by_meaning(old)
    assert bench.search(old).hits
    assert bench.store(new).stats().other_vectors == CHUNKS


@pytest.mark.slow
def test_a_model_can_embed_everything_again(bench: TwoModelIndex) -> None:
    """The same model embeds every text once more, meanwhile its old vectors answer, and it can be gone back to those."""
    model = CountingEmbedder()

    def look(stage: str, done: int, total: int) -> None:
        assert bench.by_meaning(model)

    for _ in range(2):
        model.asked.clear()
        told = bench.change(model, look, reembed=True)
        assert told.swapped
        assert told.old == told.new == "fake/fake-64"
        assert len(model.asked) == CHUNKS
        assert bench.by_meaning(model)
    assert roll_back(bench.store(model)).reembedding is not None
    assert bench.by_meaning(model)
    assert bench.run(model).embedded == 0
    assert bench.store(model).serves_model()


@pytest.mark.parametrize("asked", [True, False])
def test_an_outage_in_the_middle(bench: TwoModelIndex, asked: object) -> None:
    """A server that goes away leaves the old vectors answering, says so, and the next run makes the rest and no text twice."""
    broken = Failing(17)

    report = bench.run(broken, reembed=True)

    assert [problem.message for problem in report.problems] == ["no vectors: the server went away"]
    assert any("keep using the vectors of fake/fake-64" in note for note in report.notes)
    assert not changed(report).swapped
    assert bench.by_meaning(FakeEmbedder())
    whole = Good()
    again = bench.change(whole, reembed=bool(asked))
    assert again.swapped
    assert len(broken.asked) == 16
    assert sorted(broken.asked + whole.asked) == sorted({*broken.asked, *whole.asked})
    assert len(broken.asked + whole.asked) == CHUNKS
    assert bench.by_meaning(whole)


def test_a_text_that_the_new_model_refuses_does_not_keep_it_back(bench: TwoModelIndex) -> None:
    """The other texts have their vectors, the change is made, the file is named once, and that text is found by its words."""
    picky = RefusingModel()

    report = bench.run(picky, reembed=True)

    assert [problem.message for problem in report.problems] == ["no vector for one of its texts: not allowed"]
    assert report.problems[0].path.endswith("a.md")
    assert changed(report).swapped
    assert (report.embedded, report.waiting, len(picky.asked)) == (CHUNKS - 1, 1, CHUNKS)
    found = bench.search(picky, "seen 7 times by warden w7")
    assert found.hits[0].heading == "Note 7"


KILLED = """
import os, sys
from pathlib import Path
from tests.services.indexing.test_reembed import Good, TwoModelIndex

class Killed(Good):
    def embed_documents(self, texts):
        if len(self.asked) >= 12:
            os._exit(9)
        return super().embed_documents(texts)

TwoModelIndex(Path(sys.argv[1])).run(Killed(), reembed=True)
"""


def test_a_killed_change_is_carried_on(bench: TwoModelIndex) -> None:
    """After a kill the old vectors answer; the next run makes the rest, and none of those that were stored."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(bench.place)], check=False, timeout=60)

    assert killed.returncode == 9
    assert bench.by_meaning(FakeEmbedder())
    whole = Good()
    assert bench.change(whole).swapped
    assert len(whole.asked) <= CHUNKS - 8
    assert bench.by_meaning(whole)


@pytest.mark.slow
def test_going_back(bench: TwoModelIndex) -> None:
    """Going back has the old model answer at once; the other one is told, is not put in place unasked, and may return."""
    old, new = FakeEmbedder(), Good()
    with pytest.raises(NotFound):
        roll_back(bench.store(old))
    bench.run(new, reembed=True)

    report = roll_back(bench.store(new))

    assert bench.by_meaning(old)
    assert "set embedding.provider to 'fake' and embedding.model to 'fake-64'" in report.notes[0]
    new.asked.clear()
    plain = bench.run(new)
    assert "fake/good was rolled back" in plain.notes[0]
    assert bench.by_meaning(old)
    again = bench.change(new, reembed=True)
    assert again.swapped
    assert new.asked == []
    assert bench.by_meaning(new)


def test_forgetting_the_old(bench: TwoModelIndex) -> None:
    """Forgotten vectors are gone from the index and from the disk, those in place answer, and there is no way back."""
    old, new = FakeEmbedder(), Good()
    bench.run(new, reembed=True)

    report = drop_old_vectors(bench.store(new))

    assert report.notes == (f"dropped {CHUNKS} vectors; those of fake/good are left",)
    assert bench.store(new).stats().other_vectors == 0
    assert len(list((bench.place / "index" / "dense").iterdir())) == 1
    assert bench.by_meaning(new)
    assert bench.search(old).hits
    with pytest.raises(NotFound):
        roll_back(bench.store(new))


def test_what_changed_meanwhile_is_embedded_once(bench: TwoModelIndex) -> None:
    """Files that changed are read in the same run; each of their texts is embedded once, by the new model."""
    text = (bench.notes / "a.md").read_text("utf-8").replace("was seen 7 times", "was never seen")
    write(bench.notes / "a.md", text)
    new = Good()

    report = bench.run(new, reembed=True)

    assert report.changed == 1
    assert len(new.asked) == CHUNKS
    assert bench.search(new, "never seen").hits
    assert bench.by_meaning(new)


@pytest.mark.slow
def test_nothing_is_exchanged_while_a_run_is_under_way(bench: TwoModelIndex) -> None:
    """Whoever goes back, or forgets, in the middle of a run is told that it is busy."""

    def look(stage: str, done: int, total: int) -> None:
        if stage != "vectors" or done:
            return
        for act in (roll_back, drop_old_vectors):
            with pytest.raises(StoreBusy):
                act(EmbeddedStore(bench.place / "index", WordAnalyser(), provider="fake", model="good"))

    bench.run(Good(), look, reembed=True)

    assert bench.by_meaning(Good())
