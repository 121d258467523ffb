"""How deep a question is asked, apart from any index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lorelog.core.query import Explanation, Hit
from lorelog.services.evaluation.search_quality import rank_documents


def hit(source: str) -> Hit:
    return Hit(
        id=source,
        score=1.0,
        source=source,
        start_line=1,
        end_line=1,
        heading="",
        heading_level=0,
        heading_path=(),
        project="",
        date="",
        type="",
        tags=(),
        content="",
        content_hash="",
        snippet="",
        matches=(),
        anchor=None,
        explanation=Explanation(()),
    )


def searching(sources: Sequence[str], asked: list[int]) -> Callable[[int], list[Hit]]:
    def search(k: int) -> list[Hit]:
        asked.append(k)
        return [hit(source) for source in sources[:k]]

    return search


def sources_of(one: Hit) -> list[str]:
    return [one.source]


def test_a_question_that_is_answered_early_is_asked_once() -> None:
    """Where enough documents and a relevant one are among the first hits, nobody asks for more."""
    asked: list[int] = []
    found = rank_documents(searching([f"{n}.md" for n in range(1000)], asked), sources_of, {"3.md"}, 10)

    assert asked == [20]
    assert list(found)[:4] == ["0.md", "1.md", "2.md", "3.md"]


def test_more_is_asked_until_a_relevant_document_is_there() -> None:
    """The ninetieth document is looked for, and found."""
    asked: list[int] = []
    found = rank_documents(searching([f"{n}.md" for n in range(1000)], asked), sources_of, {"90.md"}, 10)

    assert "90.md" in found
    assert asked == sorted(asked)


def test_ranks_below_the_hundredth_are_not_searched() -> None:
    """A document that would not count any more is not looked for."""
    asked: list[int] = []
    rank_documents(searching([f"{n}.md" for n in range(100_000)], asked), sources_of, {"nowhere.md"}, 10)

    assert max(asked) < 1000


def test_many_hits_of_few_documents_are_gone_through() -> None:
    """A hundred hits of one document do not hide the next document, and its rank is that of its best hit."""
    sources = ["long.md"] * 300 + ["short.md", "long.md"]
    found = rank_documents(searching(sources, []), sources_of, {"short.md"}, 2)

    assert list(found) == ["long.md", "short.md"]


def test_what_a_first_answer_ranked_stays() -> None:
    """A deeper answer in another order adds documents below and moves none."""

    def search(k: int) -> list[Hit]:
        names = [f"{n}.md" for n in range(40)]
        return [hit(name) for name in (names[:k] if k <= 20 else names[::-1])]

    found = rank_documents(search, sources_of, {"39.md"}, 10)

    assert list(found)[:20] == [f"{n}.md" for n in range(20)]
    assert list(found)[20] == "39.md"
