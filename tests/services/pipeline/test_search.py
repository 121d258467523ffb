"""Hits that are left out after a search are made up for by further ones."""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.search.shelf import make_hit
from tests.stores.making import TemporaryStore

from lorelog.core.options import ChunkOptions, ScanOptions, SearchOptions
from lorelog.core.query import Lane, SearchReply, VectorCoverage
from lorelog.language.analyser import WordAnalyser
from lorelog.services.pipeline.scope import EngineDefaults, EngineDeps, ProjectScope
from lorelog.services.pipeline.search import SearchPipeline
from lorelog.services.places.workspace import Project, Workspace
from lorelog.services.search.searcher import Searcher


class CountedHits(Searcher):
    """So many hits, `pieces` of each memory, and how many were asked for."""

    def __init__(self, count: int, pieces: int = 1) -> None:
        self.store = TemporaryStore(WordAnalyser(), provider="none", model="none")
        super().__init__(self.store, None, WordAnalyser())
        self.asked: list[int] = []
        self._count, self._pieces = count, pieces

    def search(self, query: str, options: SearchOptions) -> SearchReply:
        self.asked.append(options.k)
        hits = tuple(
            make_hit(number, heading_path=(str(number // self._pieces),))
            for number in range(min(self._count, options.k))
        )
        return SearchReply(query, Lane.HYBRID, hits, VectorCoverage(0, 0), ("a note",))


def search(shelf: CountedHits, options: SearchOptions, folder: Path) -> SearchReply:
    workspace = Workspace(Project(str(folder), str(folder), "project", git=False), folder, "default")
    defaults = EngineDefaults(scan=ScanOptions(), chunking=ChunkOptions(), search=options)
    scope = ProjectScope(
        store=shelf.store, deps=EngineDeps(analyser=WordAnalyser()), workspace=workspace, defaults=defaults
    )
    return SearchPipeline(shelf, scope, never).search("q", options)


def never() -> Never:
    raise AssertionError


@given(st.integers(0, 300), st.integers(1, 20), st.integers(1, 12))
def test_the_best_that_are_kept_are_returned(
    tmp_path_factory: pytest.TempPathFactory, count: int, k: int, pieces: int
) -> None:
    """As many memories as were asked for, in order, if there are that many."""
    reply = search(CountedHits(count, pieces), SearchOptions(k=k, one_per_memory=True), tmp_path_factory.getbasetemp())

    assert [int(hit.id) for hit in reply.hits] == list(range(0, count, pieces))[:k]
    assert reply.notes == ("a note",)


def test_a_search_that_keeps_all_hits_asks_once(tmp_path: Path) -> None:
    """A search from which nothing is hidden costs what it cost before."""
    shelf = CountedHits(100)

    assert len(search(shelf, SearchOptions(k=5), tmp_path).hits) == 5
    assert shelf.asked == [5]


def test_looking_further_has_an_end(tmp_path: Path) -> None:
    """Where too little is kept, a large index is not read through."""
    shelf = CountedHits(10**9, 10**9)

    assert len(search(shelf, SearchOptions(k=5, one_per_memory=True), tmp_path).hits) == 1
    assert shelf.asked == [5, 20, 80, 320, 1000]
