"""The match features of a chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from lorelog.core.query import Term
from lorelog.retrieval.score_features import (
    COVERAGE_WEIGHT,
    ENTRY_WEIGHT,
    LANES_WEIGHT,
    PART_WORDS_WEIGHT,
    PHRASE_WEIGHT,
    PROXIMITY_WEIGHT,
    CloseReader,
    MatchFeatures,
)

WORDS = st.lists(st.sampled_from(["red", "cache", "cachewarm", "cold", "start", "restart", "x", "缓存"]), max_size=30)
RARITY = st.dictionaries(st.sampled_from(["red", "cache", "cold", "start", "x", "缓存"]), st.floats(0.0, 15.0))


def reader(*terms: str, rarity: dict[str, float] | None = None) -> CloseReader:
    return CloseReader([Term(term) for term in terms], dict.fromkeys(terms, 1.0) if rarity is None else rarity)


class CountedWords(Sequence[str]):
    """Words that count their accesses."""

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
    """A rare word covers more of the query than a common one."""
    ask = reader("common", "rare", rarity={"common": 1.0, "rare": 3.0})
    assert ask.read(["rare", "birds"]).coverage == pytest.approx(0.75)
    assert ask.read(["common", "birds"]).coverage == pytest.approx(0.25)
    assert ask.read(["common", "rare"]).coverage == 1.0


def test_words_side_by_side() -> None:
    """Words adjacent as in the query are a phrase; the same words apart or reversed are not."""
    ask = reader("red", "fox")
    assert ask.read(["a", "red", "fox"]).phrase > 0.0
    assert ask.read(["red", "and", "fox"]).phrase == 0.0
    assert ask.read(["fox", "red"]).phrase == 0.0


def test_the_nearer_the_better() -> None:
    """Proximity falls with the distance of two words at their nearest positions."""
    ask = reader("red", "fox")
    beside, near, far = (ask.read(["red", *["and"] * gap, "fox"]).proximity for gap in (0, 2, 20))
    assert beside > near > far > 0.0
    assert ask.read(["red", *["and"] * 20, "fox", "red"]).proximity == beside


def test_compounds_hold_their_parts() -> None:
    """A missing word that is part of a longer one counts as a part-word, and never twice."""
    ask = reader("speicher", "cache")
    assert ask.read(["zwischenspeicher"]).part_words == pytest.approx(0.5)
    assert ask.read(["zwischenspeicher", "speicher"]).part_words == 0.0
    assert reader("abc").read(["xabcx"]).part_words == 0.0, "a part of three letters is in too many words"
    assert reader("speicher").read(["spei", "cher"]).part_words == 0.0, "two words are no longer one"


def test_words_of_other_languages_match_by_most_of_their_letters() -> None:
    """Only English is stemmed, so in another language an inflected word counts in part, one with half of the letters does not."""
    terms, rarity = [Term("gerichtshofs")], {"gerichtshofs": 1.0}
    german, english = CloseReader(terms, rarity, 0.8), CloseReader(terms, rarity, 0.5)

    assert german.read(["gerichtshof"]).part_words == pytest.approx(7 / 9)
    assert english.read(["gerichtshof"]).part_words == 0.0
    assert german.read(["gerichte"]).part_words == 0.0
    assert german.read(["verwaltungsgerichtshofs"]).part_words == 1.0


@pytest.mark.parametrize("ask", [reader(), reader("red", rarity={}), reader("red", rarity={"red": 0.0})])
def test_an_empty_question(ask: CloseReader) -> None:
    """An empty query, or one of words without rarity, matches no chunk."""
    assert ask.read(["red", "fox"]) == MatchFeatures(0.0, 0.0, 0.0, 0.0)
    assert reader("red").read([]) == MatchFeatures(0.0, 0.0, 0.0, 0.0)


@given(WORDS, RARITY, WORDS)
def test_every_number_is_a_share(asked: list[str], rarity: dict[str, float], words: list[str]) -> None:
    """Features are between 0 and 1, a repeated term counts once, and the parts and the lanes add up to at most 1."""
    reading = reader(*asked, rarity=rarity).read(words)
    assert all(0.0 <= number <= 1.0 for number in astuple(reading))
    assert reading.coverage + reading.part_words <= 1.0 + 1e-9
    assert reading == reader(*dict.fromkeys(asked), rarity=rarity).read(words)
    assert math.fsum(part.value for part in reading.parts()) == pytest.approx(reading.score())
    assert reading.score() <= 1.0 - LANES_WEIGHT + 1e-9


def test_the_weights_are_shares_of_one() -> None:
    """The weights of lanes, match features and entry size add up to 1."""
    assert math.isclose(
        LANES_WEIGHT + COVERAGE_WEIGHT + PHRASE_WEIGHT + PROXIMITY_WEIGHT + PART_WORDS_WEIGHT + ENTRY_WEIGHT, 1.0
    )


@given(WORDS, RARITY, WORDS, WORDS)
def test_holding_more_never_covers_less(
    asked: list[str], rarity: dict[str, float], words: list[str], more: list[str]
) -> None:
    """More words in a chunk never lower its coverage or break a phrase."""
    ask = reader(*asked, rarity=rarity)
    before, after = ask.read(words), ask.read(words + more)
    assert after.coverage >= before.coverage
    assert after.phrase >= before.phrase


def test_a_thousand_terms() -> None:
    """A query of a thousand terms is handled."""
    terms = [f"word{n}" for n in range(1000)]
    whole = reader(*terms).read(terms)
    assert whole.coverage == pytest.approx(1.0)
    assert whole.phrase == pytest.approx(1.0, abs=0.01)
    assert reader(*terms).read(terms[::2]).coverage == pytest.approx(0.5)


@pytest.mark.parametrize("asked", [("red", "fox"), ("red", "fox", "missing"), tuple(f"word{n}" for n in range(500))])
def test_a_long_chunk_costs_its_length(asked: tuple[str, ...]) -> None:
    """The work is linear in the chunk: two passes, and one for each matched word."""
    ask = reader(*asked)
    held = len({"red", "fox"} & set(asked))
    for length in (1_000, 50_000):
        words = CountedWords(["red", "fox"] * (length // 2))
        ask.read(words)
        assert words.looks <= (2 + held) * length
