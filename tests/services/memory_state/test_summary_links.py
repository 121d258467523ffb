"""What is summed up goes below its summary in a search that both answer, is one `expand` away, and nothing else moves."""

from __future__ import annotations

from itertools import pairwise
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
from lorelog.services.memory_state.lifecycle_index import SummaryLinks, rank_below_summaries

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


def test_originals_go_below_their_summary_and_are_still_found(book: Notebook) -> None:
    """A general question shows the summary first; each original has a part that says why, and the parts add up."""
    before = found(book, "otters sleep")
    summary = book.compact().summary
    assert summary is not None
    hits = found(book, "otters sleep")

    assert [is_summary(hit) for hit in hits] == [True, False, False]
    for hit in hits:
        assert isclose(hit.score, sum(part.value for part in hit.explanation.parts))
    lowered = [part for hit in hits for part in hit.explanation.parts if part.name == "covered"]
    assert lowered
    assert all(part.value < 0 and summary.memory in part.note for part in lowered)
    assert {hit.content for hit in before} < {hit.content for hit in hits}


def test_what_only_the_original_says_stays_where_it_was(book: Notebook) -> None:
    """A question for something that the summary has left out is answered by the original."""
    book.compact()
    hits = found(book, "otters ford code E77")

    assert "E77" in hits[0].content
    assert all(part.name != "covered" for part in hits[0].explanation.parts)


def test_only_while_the_summary_is_there(book: Notebook) -> None:
    """Once it is deleted nothing is lowered for it, and the order is the old one."""
    before = [hit.id for hit in found(book, "otters sleep")]
    summary = book.compact().summary
    assert summary is not None
    with book.engine() as engine:
        engine.memories().delete(summary.memory)

    hits = found(book, "otters sleep")
    assert [hit.id for hit in hits] == before
    assert all(part.name != "covered" for hit in hits for part in hit.explanation.parts)


def test_rankings_that_are_not_ours_are_left_alone(book: Notebook) -> None:
    """Reciprocal ranks stay what they are."""
    book.compact()

    parts = [part.name for hit in found(book, "otters sleep", fusion=Fusion.RRF) for part in hit.explanation.parts]
    assert "covered" not in parts


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
    st.data(),
)
def test_no_covered_one_is_above_its_summary(scores: list[float], pieces: list[float], data: st.DataObject) -> None:
    """What is covered ends below the best piece of its summary, in its order; all else keeps its score; parts add up."""
    plain = [ranked(number, score, "/p") for number, score in enumerate(scores)]
    summaries = [ranked(100 + number, score, "/p", "s") for number, score in enumerate(pieces)]
    covered = data.draw(st.sets(st.sampled_from(range(len(scores)))))
    hashes = tuple(plain[number].stored.chunk.content_hash for number in sorted(covered))
    coverings = SummaryLinks([SummaryLink("s", "/p", hashes)] if hashes else [])
    given_ranking = sorted([*plain, *summaries], key=lambda one: -one.fused.score)

    lowered = rank_below_summaries(given_ranking, coverings, lambda _: frozenset({"word"}))

    after = {element.fused.key: element.fused.score for element in lowered}
    assert sorted(after) == sorted(part.fused.key for part in given_ranking)
    assert [member.fused.score for member in lowered] == sorted(after.values(), reverse=True)
    for item in lowered:
        assert isclose(item.fused.score, item.fused.explanation.score, abs_tol=1e-9)
        if item.fused.key in covered:
            assert item.fused.score < max(pieces)
    for entry in given_ranking:
        if entry.fused.key not in covered:
            assert after[entry.fused.key] == entry.fused.score
    in_order = sorted(covered, key=lambda number: scores[number])
    assert all(after[low] <= after[high] + 1e-12 for low, high in pairwise(in_order))


def test_another_projects_summary_moves_nothing() -> None:
    """What a file of one project says to cover is no word on another's; a global summary's is."""
    one, summary = ranked(1, 1.0, "/p"), ranked(2, 0.5, "/q", "s")
    hashes = (one.stored.chunk.content_hash,)

    for project, moved in (("/q", False), ("/p", True), ("", True)):
        coverings = SummaryLinks([SummaryLink("s", project, hashes)])
        best = rank_below_summaries([one, summary], coverings, lambda _: frozenset())[0]
        assert (best.fused.key == 2) is moved


def test_words_that_the_summary_lacks_keep_an_original_up() -> None:
    """Only a summary with all of the question's words that the original has goes before it."""
    one, summary = ranked(1, 1.0, "/p"), ranked(2, 0.5, "/p", "s")
    coverings = SummaryLinks([SummaryLink("s", "/p", (one.stored.chunk.content_hash,))])
    words = {"text 1": frozenset({"otter", "e77"}), "text 2": frozenset({"otter"})}

    assert rank_below_summaries([one, summary], coverings, lambda text: words[text]) == [one, summary]
