"""How deep a question is asked, apart from any index."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.services.search.shelf import make_hit

from lorelog.core.query import Hit
from lorelog.services.evaluation.search_quality import rank_documents


def rank(sources: Sequence[str], relevant: str, depth: int) -> tuple[list[str], list[int]]:
    """Rank the documents of a search that has these hits; return them with the numbers of hits that were asked for."""
    asked: list[int] = []

    def search(k: int) -> list[Hit]:
        asked.append(k)
        return [make_hit(number, source) for number, source in enumerate(sources[:k])]

    return list(rank_documents(search, lambda hit: [hit.source], {relevant}, depth)), asked


@pytest.mark.parametrize(("relevant", "is_found", "deepest"), [(3, True, 20), (90, True, 999), (99_999, False, 999)])
def test_hits_are_asked_for_until_a_relevant_document_is_found(relevant: int, is_found: bool, deepest: int) -> None:  # noqa: FBT001
    """One request is enough for a document among the first hits; the ninetieth is found, one far below is given up."""
    found, asked = rank([f"{n}.md" for n in range(100_000)], f"{relevant}.md", 10)

    assert found[:4] == ["0.md", "1.md", "2.md", "3.md"]
    assert (f"{relevant}.md" in found) == is_found
    assert asked[0] == 20
    assert asked == sorted(asked)
    assert asked[-1] <= deepest


def test_many_hits_of_few_documents_are_gone_through() -> None:
    """A hundred hits of one document do not hide the next document, and its rank is that of its best hit."""
    assert rank(["long.md"] * 300 + ["short.md", "long.md"], "short.md", 2)[0] == ["long.md", "short.md"]


def test_a_deeper_search_moves_no_document() -> None:
    """A deeper answer in another order adds documents below and moves none."""

    def search(k: int) -> list[Hit]:
        hits = [make_hit(number, f"{number}.md") for number in range(40)]
        return hits[:k] if k <= 20 else hits[::-1]

    found = list(rank_documents(search, lambda hit: [hit.source], {"39.md"}, 10))

    assert found[:21] == [*(f"{n}.md" for n in range(20)), "39.md"]
