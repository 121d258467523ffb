"""What an index run does when a model fails in the middle, or does not take one of the texts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.indexing.test_run import CountingEmbedder
from tests.surfaces.conftest import write

from lorelog.core.errors import ModelUnavailable
from lorelog.core.memory import IndexReport
from lorelog.core.options import ChunkOptions, ScanOptions
from lorelog.core.ports import EmbeddedTexts, Store
from lorelog.core.query import Filters
from lorelog.language.analyser import WordAnalyser
from lorelog.services.indexing.run import IndexJob, IndexRun
from lorelog.services.places.roots import Root
from lorelog.stores.embedded import EmbeddedStore


class Gone(CountingEmbedder):
    """A model whose server goes away after the first two texts of a call; those two it had made."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        made = super().embed_documents(texts[:2])
        gone = ModelUnavailable("the server went away")
        gone.done = dict(enumerate(made.vectors))
        raise gone


class PickyEmbedder(CountingEmbedder):
    """A model that does not take texts about one animal."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        made = super().embed_documents(texts)
        refused = {place: "not allowed" for place, text in enumerate(texts) if "stoat" in text}
        vectors = tuple(b"" if place in refused else vector for place, vector in enumerate(made.vectors))
        return replace(made, vectors=vectors, refused=refused)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = EmbeddedStore(tmp_path / "index", WordAnalyser(), provider="fake", model="fake-64")
    yield made
    made.close()


def run(store: Store, place: Path, embedder: CountingEmbedder) -> IndexReport:
    root = Root(os.path.realpath(place / "notes"), "/p")
    return IndexRun(store, embedder, IndexJob((root,), (), ScanOptions(), ChunkOptions(), batch_size=4)).over_roots()


def texts_of(store: Store, path: Path) -> list[tuple[str, bool]]:
    return [(item.chunk.text, item.has_vector) for item in store.chunks_of(os.path.realpath(path))]


def test_what_a_failing_call_had_made_is_kept(store: Store, tmp_path: Path) -> None:
    """Vectors that come along with an error are stored, and the next run asks for the others only."""
    for number in range(6):
        write(tmp_path / "notes" / f"{number}.md", f"otter number {number}\n")
    gone, well = Gone(), CountingEmbedder()

    report = run(store, tmp_path, gone)

    assert (report.embedded, report.waiting, len(report.problems)) == (2, 4, 1)
    assert run(store, tmp_path, well).embedded == 4
    assert len({*gone.asked, *well.asked}) == len(gone.asked) + len(well.asked) == 6


def test_a_refused_text_is_named_once_and_the_run_goes_on(store: Store, tmp_path: Path) -> None:
    """All other texts have their vectors, the file is a problem, and the text is asked for once in a run."""
    for number in range(9):
        animal = "stoat" if number == 3 else "otter"
        write(tmp_path / "notes" / f"{number}.md", f"{animal} number {number}\n")
    picky = PickyEmbedder()

    report = run(store, tmp_path, picky)

    assert [(Path(problem.path).name, problem.message) for problem in report.problems] == [
        ("3.md", "no vector for one of its texts: not allowed")
    ]
    assert (report.embedded, report.waiting) == (8, 1)
    assert len(picky.asked) == 9
    assert store.coverage(Filters()).with_vectors == 8


def test_a_rewritten_file_with_a_refused_text_takes_its_place(store: Store, tmp_path: Path) -> None:
    """The new version is found: waiting for a vector that never comes would keep the old one for ever."""
    path = write(tmp_path / "notes" / "a.md", "the otter is here\n")
    run(store, tmp_path, PickyEmbedder())
    write(path, "the stoat is here\n")

    report = run(store, tmp_path, PickyEmbedder())

    assert report.changed == 1
    assert texts_of(store, path) == [("the stoat is here", False)]


def test_a_rewritten_file_keeps_its_old_version_in_an_outage(store: Store, tmp_path: Path) -> None:
    """The old text stays with its vector, the file is named, and a note says that it is found as before."""
    path = write(tmp_path / "notes" / "a.md", "the otter is here\n")
    run(store, tmp_path, CountingEmbedder())
    write(path, "# A\n\nthe heron\n\n# B\n\nthe linnet\n\n# C\n\nthe plover\n")

    report = run(store, tmp_path, Gone())

    assert texts_of(store, path) == [("the otter is here", True)]
    assert [Path(problem.path).name for problem in report.problems] == ["a.md"]
    assert "1 changed file keeps its old version in the index until the model answers again" in report.notes
    assert run(store, tmp_path, CountingEmbedder()).embedded == 1
    assert len(texts_of(store, path)) == 3
