"""A summary goes below the best of what it sums up, its sources are one `expand` away, and nothing else moves."""

from __future__ import annotations

from math import isclose
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.compact.scripted import Notebook, Scripted, quoted

from lorelog.core.document import Anchor, Chunk, StoredChunk
from lorelog.core.options import SearchOptions
from lorelog.core.ports import SummaryLink
from lorelog.core.query import Fusion, Hit, ScorePart
from lorelog.retrieval.dedupe import RankedChunk
from lorelog.retrieval.fusion import FusedCandidate
from lorelog.services.memory_state.lifecycle_index import MIN_SOURCE_RELEVANCE, SummaryLinks, rank_below_sources

OTTER = "Otters sleep in holts near the river."
KELP = "Otters hold kelp while they sleep; the ford has code E77."


def gist(system: str, text: str) -> str:
    """Say of all sources in one line what they share."""
    return f"- Some otters sleep, others do too. [{', '.join(quoted(text))}]"


@pytest.fixture
def book(tmp_path: Path) -> Notebook:
    """Two facts, and a summary in other words."""
    book = Notebook(tmp_path, Scripted(gist))
    book.note("2026-03-01", OTTER, KELP)
    return book


def found(book: Notebook, query: str, **options: object) -> tuple[Hit, ...]:
    with book.engine() as engine:
        return engine.search(query, SearchOptions(**options)).hits  # type: ignore[arg-type]


def is_summary(hit: Hit) -> bool:
    return hit.type == "summary"


def test_a_summary_goes_below_its_sources(book: Notebook) -> None:
    """What it sums up is ranked and rated as before; the summary has a part that says why, and the parts add up."""
    before = found(book, "some otters sleep, do others")
    book.compact()
    hits = found(book, "some otters sleep, do others")

    assert [hit.id for hit in hits if not is_summary(hit)] == [hit.id for hit in before]
    assert not is_summary(hits[0])
    assert abs(hits[0].relevance - before[0].relevance) < 0.1
    for hit in hits:
        assert isclose(hit.score, sum(part.value for part in hit.explanation.parts))
    (lowered,) = [part for hit in hits for part in hit.explanation.parts if part.name == "covers"]
    assert lowered.value < 0
    assert hits[0].id in lowered.note


def test_rankings_that_are_not_ours_are_left_alone(book: Notebook) -> None:
    """Reciprocal ranks stay what they are."""
    book.compact()

    parts = [part.name for hit in found(book, "otters sleep", fusion=Fusion.RRF) for part in hit.explanation.parts]
    assert "covers" not in parts


def test_one_gets_from_the_summary_to_its_sources_and_back(book: Notebook) -> None:
    """Expanding a summary names what it sums up, by the ids that its lines cite; expanding one of these names the summary."""
    summary = book.compact().summary
    assert summary is not None
    with book.engine() as engine:
        shown = engine.memories().expand(summary.memory)
        cited = shown.content.rpartition("[")[2].rstrip("]").split(", ")
        sources = [engine.memories().expand(item) for item in cited]

    assert [cover.content_hash[:8] for cover in shown.covers] == sorted(cited)
    assert shown.covered == 2
    assert sorted(source.content.splitlines()[-1] for source in sources) == sorted([OTTER, KELP])
    assert all(any(summary.memory in note for note in source.notes) for source in sources)


def test_a_source_that_has_changed_since_is_told(book: Notebook) -> None:
    """What was edited is covered no more, and the summary says that some of it is gone."""
    summary = book.compact().summary
    assert summary is not None
    book.note("2026-03-01", OTTER, KELP.replace("E77", "E78"))
    with book.engine() as engine:
        shown = engine.memories().expand(summary.memory)

    assert (len(shown.covers), shown.covered) == (1, 2)
    assert any("1 of them were changed or removed since" in note for note in shown.notes)


def ranked(number: int, score: float, project: str, memory: str = "") -> RankedChunk:
    text = f"text {number}"
    anchor = Anchor(memory=memory) if memory else None
    chunk = Chunk("/p/a.md", "", 0, (), number, number, text, text, anchor=anchor)
    stored = StoredChunk(number, f"id{number}", chunk, project, has_vector=True)
    return RankedChunk(FusedCandidate(number, score, lambda _: (ScorePart("lexical", score),)), stored)


@given(
    st.lists(st.floats(0, 2), min_size=1, max_size=12),
    st.lists(st.floats(0, 2), min_size=1, max_size=3),
    st.sampled_from((0.0, MIN_SOURCE_RELEVANCE)),
    st.data(),
)
def test_no_summary_is_above_the_best_it_covers(
    scores: list[float], pieces: list[float], relevance: float, data: st.DataObject
) -> None:
    """It ends below the best of its sources if that is relevant; all else keeps its score; parts add up."""
    plain = [ranked(number, score, "/p") for number, score in enumerate(scores)]
    summaries = [ranked(100 + number, score, "/p", "s") for number, score in enumerate(pieces)]
    covered = data.draw(st.sets(st.sampled_from(range(len(scores)))))
    hashes = tuple(plain[number].stored.chunk.content_hash for number in sorted(covered))
    coverings = SummaryLinks([SummaryLink("s", "/p", hashes)] if hashes else [])
    given_ranking = sorted([*plain, *summaries], key=lambda one: -one.fused.score)

    lowered = rank_below_sources(given_ranking, coverings, lambda _: relevance)

    after = {element.fused.key: element.fused.score for element in lowered}
    assert [member.fused.score for member in lowered] == sorted(after.values(), reverse=True)
    is_lowered = bool(covered) and relevance > 0
    for item in given_ranking:
        if not item.stored.chunk.memory or not is_lowered:
            assert after[item.fused.key] == item.fused.score
        else:
            assert after[item.fused.key] < max(scores[number] for number in covered)
    assert all(isclose(item.fused.score, item.fused.explanation.score, abs_tol=1e-9) for item in lowered)


def test_another_projects_summary_is_left_alone() -> None:
    """What a file of one project says to cover is no word on another's; a global summary's is."""
    one, summary = ranked(1, 0.5, "/p"), ranked(2, 1.0, "/q", "s")
    hashes = (one.stored.chunk.content_hash,)

    for project, moved in (("/q", False), ("/p", True), ("", True)):
        coverings = SummaryLinks([SummaryLink("s", project, hashes)])
        best = rank_below_sources([summary, one], coverings, lambda _: 1.0)[0]
        assert (best.fused.key == 1) is moved
