"""What a chunk holds of a question, read word by word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.query import Term
from lorelog.retrieval.closeread import COVERAGE, LANES, PART_WORDS, PHRASE, PROXIMITY, CloseReader, Reading
from lorelog.retrieval.entry import ENTRY

WORDS = st.lists(st.sampled_from(["red", "cache", "cachewarm", "cold", "start", "restart", "x", "缓存"]), max_size=30)
RARITY = st.dictionaries(st.sampled_from(["red", "cache", "cold", "start", "x", "缓存"]), st.floats(0.0, 15.0))


def reader(*terms: str, rarity: dict[str, float] | None = None) -> CloseReader:
    return CloseReader([Term(term) for term in terms], dict.fromkeys(terms, 1.0) if rarity is None else rarity)


class CountedWords(Sequence[str]):
    """Words that count how often one of them is looked at."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self.looks = 0

    def __len__(self) -> int:
        return len(self._words)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        self.looks += 1
        return self._words[place]

    def __iter__(self) -> Iterator[str]:
        for word in self._words:
            self.looks += 1
            yield word


def test_what_is_held_counts_by_its_rarity() -> None:
    """A rare word that is there covers more of the question than a common one."""
    ask = reader("common", "rare", rarity={"common": 1.0, "rare": 3.0})
    assert ask.read(["rare", "birds"]).coverage == pytest.approx(0.75)
    assert ask.read(["common", "birds"]).coverage == pytest.approx(0.25)
    assert ask.read(["common", "rare"]).coverage == 1.0


def test_words_side_by_side() -> None:
    """Words that follow one another as in the question are a phrase; the same words apart or turned round are none."""
    ask = reader("red", "fox")
    assert ask.read(["a", "red", "fox"]).phrase > 0.0
    assert ask.read(["red", "and", "fox"]).phrase == 0.0
    assert ask.read(["fox", "red"]).phrase == 0.0


def test_the_nearer_the_better() -> None:
    """The farther apart two words stand the less their proximity, and at their nearest place they are judged."""
    ask = reader("red", "fox")
    beside, near, far = (ask.read(["red", *["and"] * gap, "fox"]).proximity for gap in (0, 2, 20))
    assert beside > near > far > 0.0
    assert ask.read(["red", *["and"] * 20, "fox", "red"]).proximity == beside


def test_compounds_hold_their_parts() -> None:
    """A word that is missing counts as a part-word where it is part of a longer one, and never twice."""
    ask = reader("speicher", "cache")
    assert ask.read(["zwischenspeicher"]).part_words == pytest.approx(0.5)
    assert ask.read(["zwischenspeicher", "speicher"]).part_words == 0.0
    assert reader("abc").read(["xabcx"]).part_words == 0.0, "a part of three letters is in too many words"
    assert reader("speicher").read(["spei", "cher"]).part_words == 0.0, "two words are no longer one"


@pytest.mark.parametrize("ask", [reader(), reader("red", rarity={}), reader("red", rarity={"red": 0.0})])
def test_an_empty_question(ask: CloseReader) -> None:
    """A question of nothing, or of words that tell nothing apart, is held by no chunk."""
    assert ask.read(["red", "fox"]) == Reading(0.0, 0.0, 0.0, 0.0)
    assert reader("red").read([]) == Reading(0.0, 0.0, 0.0, 0.0)


@given(WORDS, RARITY, WORDS)
def test_every_number_is_a_share(asked: list[str], rarity: dict[str, float], words: list[str]) -> None:
    """Each number is within 0 and 1, a word asked for twice counts once, and the parts add up with the lanes to 1 at most."""
    reading = reader(*asked, rarity=rarity).read(words)
    assert all(0.0 <= number <= 1.0 for number in astuple(reading))
    assert reading.coverage + reading.part_words <= 1.0 + 1e-9
    assert reading == reader(*dict.fromkeys(asked), rarity=rarity).read(words)
    assert math.fsum(part.value for part in reading.parts()) == pytest.approx(reading.value)
    assert reading.value <= 1.0 - LANES + 1e-9


def test_the_weights_are_shares_of_one() -> None:
    """What the lanes, the close reading and an entry's size may reach together is 1."""
    assert math.isclose(LANES + COVERAGE + PHRASE + PROXIMITY + PART_WORDS + ENTRY, 1.0)


@given(WORDS, RARITY, WORDS, WORDS)
def test_holding_more_never_covers_less(
    asked: list[str], rarity: dict[str, float], words: list[str], more: list[str]
) -> None:
    """More words in a chunk never lower how much of the question it covers, nor break a phrase it has."""
    ask = reader(*asked, rarity=rarity)
    before, after = ask.read(words), ask.read(words + more)
    assert after.coverage >= before.coverage
    assert after.phrase >= before.phrase


def test_a_thousand_terms() -> None:
    """A question of a thousand terms is read as any other."""
    terms = [f"word{n}" for n in range(1000)]
    whole = reader(*terms).read(terms)
    assert whole.coverage == pytest.approx(1.0)
    assert whole.phrase == pytest.approx(1.0, abs=0.01)
    assert reader(*terms).read(terms[::2]).coverage == pytest.approx(0.5)


@pytest.mark.parametrize("asked", [("red", "fox"), ("red", "fox", "missing"), tuple(f"word{n}" for n in range(500))])
def test_a_long_chunk_costs_its_length(asked: tuple[str, ...]) -> None:
    """However long a chunk is and however often it repeats the words, it is read twice, and once for each word it holds."""
    ask = reader(*asked)
    held = len({"red", "fox"} & set(asked))
    for length in (1_000, 50_000):
        words = CountedWords(["red", "fox"] * (length // 2))
        ask.read(words)
        assert words.looks <= (2 + held) * length
