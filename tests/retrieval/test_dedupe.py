"""Which of several duplicates is kept."""

from __future__ import annotations

import pytest

from lorelog.core.document import Anchor, Chunk, StoredChunk
from lorelog.core.query import ScorePart
from lorelog.retrieval.dedupe import RankedChunk, drop_duplicates
from lorelog.retrieval.fusion import FusedCandidate


def pair(key: int, score: float, text: str, date: str = "", origin: str = "") -> tuple[FusedCandidate, StoredChunk]:
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
        anchor=Anchor(origin=origin) if origin else None,
    )
    fused = FusedCandidate(key, score, lambda _: (ScorePart("lexical", score),))
    return fused, StoredChunk(key=key, id=str(key), chunk=chunk, project="", has_vector=True)


def kept(ranked: list[RankedChunk]) -> list[tuple[object, tuple[str, ...]]]:
    return [(chunk.fused.key, chunk.duplicates) for chunk in ranked]


def test_best_of_equal_texts() -> None:
    """The best of equal texts is kept, with the locations of the others."""
    ranked = [pair(1, 0.9, "same  text\n"), pair(2, 0.8, "other"), pair(3, 0.7, "same text", "2026-01-01")]
    assert kept(drop_duplicates(ranked)) == [(1, ("/notes/3.md:3-4",)), (2, ())]


def test_newest_of_equal_scores() -> None:
    """Of equal texts with equal scores the newest is kept; where the date is equal too, the first stays first."""
    ranked = [
        pair(1, 0.9, "same", "2026-01-01"),
        pair(2, 0.9, "same", "2026-03-05T14:30"),
        pair(3, 0.9, "same", "2026-02-01"),
        pair(4, 0.5, "same", "2027-01-01"),
    ]
    assert kept(drop_duplicates(ranked)) == [(2, ("/notes/1.md:1-2", "/notes/3.md:3-4", "/notes/4.md:4-5"))]
    assert kept(drop_duplicates([pair(1, 0.9, "same"), pair(2, 0.9, "same")]))[0][0] == 1


def test_a_persons_text_is_not_hidden_behind_an_agents() -> None:
    """Of equal texts a person's is kept, however well an agent's, a tool's or an import's ranks."""
    for origin in ("agent", "tool", "import"):
        ranked = [pair(1, 0.9, "same", origin=origin), pair(2, 0.8, "other"), pair(3, 0.5, "same", origin="user")]
        assert kept(drop_duplicates(ranked)) == [(2, ()), (3, ("/notes/1.md:1-2",))]


LONG = " ".join(f"word{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10]}" for n in range(80))


def changed(text: str, place: int, word: str) -> str:
    words = text.split()
    return " ".join([*words[:place], word, *words[place + 1 :]])


def test_nearly_the_same_is_folded() -> None:
    """A long text with one other word, or in other case, is folded into the better one."""
    ranked = [
        pair(1, 0.9, LONG),
        pair(2, 0.8, "other"),
        pair(3, 0.7, changed(LONG, 40, "else")),
        pair(4, 0.6, LONG.upper()),
    ]
    assert kept(drop_duplicates(ranked)) == [(1, ("/notes/3.md:3-4", "/notes/4.md:4-5")), (2, ())]


SHORT = " ".join(LONG.split()[:40])
SIGNS = " ".join("".join(chr(0x4E00 + 7 * n) for n in range(start, start + 10)) for start in range(0, 120, 10))
PAIRS: dict[str, tuple[str, str, int]] = {
    "another case of a short text": ("Use the cache", "use the cache", 2),
    "another sign of a short text": ("Use the cache", "Use the cache.", 2),
    "another number": (changed(LONG, 40, "30"), changed(LONG, 40, "60"), 2),
    "one other word of a short text": (SHORT, changed(SHORT, 20, "not"), 2),
    "a long addition": (LONG, f"{LONG} {SHORT.upper()}x", 2),
    "one sign of a script without spaces": (SIGNS, SIGNS.replace(SIGNS[55], "龠"), 1),
    "many of its signs": (SIGNS, "".join("龠" if n % 5 == 0 else sign for n, sign in enumerate(SIGNS)), 2),
}


@pytest.mark.parametrize(("first", "second", "left"), PAIRS.values(), ids=PAIRS)
def test_texts_that_differ_in_more_than_little_stay(first: str, second: str, left: int) -> None:
    """Texts that differ in a number, or in more than white space if they are short, are different; signs count as words."""
    assert len(drop_duplicates([pair(1, 0.9, first), pair(2, 0.8, second)])) == left
    assert drop_duplicates([]) == []
