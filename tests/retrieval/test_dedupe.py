"""Which of several equal texts is kept."""

from __future__ import annotations

from recollect.core.document import Chunk, StoredChunk
from recollect.core.query import Part
from recollect.retrieval.dedupe import Ranked, drop_repeats
from recollect.retrieval.fuse import Fused


def pair(key: int, score: float, text: str, date: str = "") -> tuple[Fused, StoredChunk]:
    chunk = Chunk(
        source=f"/notes/{key}.md",
        heading="",
        heading_level=0,
        heading_path=(),
        start_line=key,
        end_line=key + 1,
        content=text,
        text=text,
        date=date,
    )
    fused = Fused(key, score, lambda _: (Part("lexical", score),))
    return fused, StoredChunk(key=key, id=str(key), chunk=chunk, project="", has_vector=True)


def kept(ranked: list[Ranked]) -> list[tuple[object, tuple[str, ...]]]:
    return [(one.fused.key, one.duplicates) for one in ranked]


def test_best_of_equal_texts() -> None:
    """Of equal texts the best is kept in its place, and names where the others stand."""
    ranked = [pair(1, 0.9, "same  text\n"), pair(2, 0.8, "other"), pair(3, 0.7, "same text", "2026-01-01")]
    assert kept(drop_repeats(ranked)) == [(1, ("/notes/3.md:3-4",)), (2, ())]


def test_newest_of_equal_scores() -> None:
    """Of equal texts with equal scores the newest is kept."""
    ranked = [
        pair(1, 0.9, "same", "2026-01-01"),
        pair(2, 0.9, "same", "2026-03-05T14:30"),
        pair(3, 0.9, "same", "2026-02-01"),
        pair(4, 0.5, "same", "2027-01-01"),
    ]
    assert kept(drop_repeats(ranked)) == [(2, ("/notes/1.md:1-2", "/notes/3.md:3-4", "/notes/4.md:4-5"))]


def test_first_of_equal_dates() -> None:
    """Where date and score are equal too, the first stays first."""
    assert kept(drop_repeats([pair(1, 0.9, "same"), pair(2, 0.9, "same")]))[0][0] == 1


def test_different_texts_stay() -> None:
    """Texts that differ in more than white space are different texts."""
    ranked = [pair(1, 0.9, "Use the cache"), pair(2, 0.9, "use the cache"), pair(3, 0.8, "Use the cache.")]
    assert [key for key, _ in kept(drop_repeats(ranked))] == [1, 2, 3]
    assert drop_repeats([]) == []
