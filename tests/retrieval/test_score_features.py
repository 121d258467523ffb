"""Features of a score: matched words, quoted phrases and the size of an entry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from lorelog.core.query import Term
from lorelog.retrieval.score_features import (
    ENTRY_WEIGHT,
    LANES_WEIGHT,
    MAX_ENTRY_CHUNKS,
    QUOTED_WEIGHT,
    WORDS_READING_WEIGHTS,
    CloseReader,
    entry_score,
    entry_share,
    explain_entry,
    find_quoted_phrases,
    match_phrases,
)

WORDS = st.lists(st.sampled_from(["red", "cache", "cachewarm", "cold", "start", "restart", "x", "缓存"]), max_size=30)
RARITY = st.dictionaries(st.sampled_from(["red", "cache", "cold", "start", "x", "缓存"]), st.floats(0.0, 15.0))


def reader(*terms: str, rarity: dict[str, float] | None = None) -> CloseReader:
    return CloseReader([Term(term) for term in terms], dict.fromkeys(terms, 1.0) if rarity is None else rarity)


class CountedWords(Sequence[str]):
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
    """The weights of lanes, match features and entry size add up to 1, and a quoted phrase outweighs all of them."""
    assert LANES_WEIGHT + WORDS_READING_WEIGHTS.total == pytest.approx(1.0)
    assert QUOTED_WEIGHT >= 1.0


@given(WORDS, RARITY, WORDS, WORDS)
def test_holding_more_never_covers_less(
    asked: list[str], rarity: dict[str, float], words: list[str], more: list[str]
) -> None:
    """More words in a chunk never lower its coverage or break a phrase."""
    ask = reader(*asked, rarity=rarity)
    before, after = ask.read(words), ask.read(words + more)
    assert after.coverage >= before.coverage
    assert after.phrase >= before.phrase


@pytest.mark.parametrize("asked", [("red", "fox"), ("red", "fox", "missing"), tuple(f"word{n}" for n in range(500))])
def test_a_long_chunk_costs_its_length(asked: tuple[str, ...]) -> None:
    """The work is linear in the chunk: two passes, and one for each matched word."""
    ask = reader(*asked)
    held = len({"red", "fox"} & set(asked))
    for length in (1_000, 50_000):
        words = CountedWords(["red", "fox"] * (length // 2))
        ask.read(words)
        assert words.looks <= (2 + held) * length


# -- quoted phrases


def held(question: str, text: str) -> tuple[int, int]:
    quoted = match_phrases(find_quoted_phrases(question), text)
    return quoted.matched, quoted.total


def test_a_long_report_quotes_nothing() -> None:
    """Messages and code in a long report are not phrases to be found; a short question, or a long one that is mostly quotations, has some."""
    report = 'the worker stops with "red fox" when the second page is opened, ' + "and nothing helps; " * 20
    assert held(report, "red fox") == (0, 0)
    assert held(report[:100], "red fox") == (1, 1)
    assert held(report + f'"{"the whole message " * 8}"', "red fox") == (1, 2)


FOUND = ("the red fox ran", "The Red\n  Fox ran", "(red fox)", "a red fox, and more", "red fox")
APART = ("fox red", "red and fox", "bored fox", "red foxes", "redfox", "")


@pytest.mark.parametrize(("text", "matched"), [*((text, 1) for text in FOUND), *((text, 0) for text in APART)])
def test_phrase_is_found(text: str, matched: int) -> None:
    """Case, white space and line ends are ignored; the same words apart, reversed or inside longer words are not the phrase."""
    assert held('where is the "red fox"', text) == (matched, 1)


QUOTED = {
    "quotation marks of other languages": ("“red fox”", "„red fox“", "«red fox»", "「red fox」"),
    "neither an unpaired mark, apostrophes, code nor empty marks": (
        *('"red fox', "red fox", "it's the fox's", "`red fox`", '""', '"?!"', '" "'),
    ),
}


@pytest.mark.parametrize(
    ("marks", "question"), [(marks, question) for marks, questions in QUOTED.items() for question in questions]
)
def test_quotation_marks(marks: str, question: str) -> None:
    """Quotation marks of other languages work; an unpaired mark, apostrophes, code and empty marks quote nothing."""
    assert len(find_quoted_phrases(question)) == (not marks.startswith("neither"))


def test_scripts_without_spaces() -> None:
    """A Chinese phrase is found inside a sentence without spaces."""
    assert held("「红狐狸」在哪里", "森林里有一只红狐狸在跑") == (1, 1)
    assert held("「红狐狸」在哪里", "森林里有一只红色的狐狸") == (0, 1)


def test_each_phrase_counts_once() -> None:
    """Each phrase counts alike, and a repeated one once."""
    question = '"red fox" or "blue owl" or "Red  Fox"'
    assert held(question, "a red fox") == (1, 2)
    assert match_phrases(find_quoted_phrases(question), "a red fox, a blue owl").score == QUOTED_WEIGHT


@given(st.text(max_size=60), st.text(max_size=60))
def test_anything_goes(question: str, text: str) -> None:
    """No query and no text fails, and the parts add up to the score."""
    phrases = find_quoted_phrases(question)
    if not phrases:
        return
    quoted = match_phrases(phrases, text)
    assert 0.0 <= quoted.score <= QUOTED_WEIGHT
    assert math.isclose(sum(part.value for part in quoted.parts()), quoted.score)


@given(st.from_regex(r"[a-zäöü]{1,9}( [a-zäöü0-9]{1,9}){0,3}", fullmatch=True))
def test_every_phrase_finds_itself(phrase: str) -> None:
    """A text that is the phrase contains it."""
    assert held(f'"{phrase}x"', f"so: {phrase}X!") == (1, 1)


# -- size of an entry


def test_fewer_chunks_are_worth_more() -> None:
    """Each further chunk of an entry lowers its score, up to the maximum."""
    worths = [entry_score(size) for size in range(1, MAX_ENTRY_CHUNKS + 1)]
    assert all(first > second for first, second in pairwise(worths))
    assert worths[0] == ENTRY_WEIGHT
    assert worths[-1] == 0.0


@given(st.integers(-3, 10_000))
def test_its_share_is_a_share(size: int) -> None:
    """For any size the share is between 0 and 1, and the part is the addition to the score."""
    assert 0.0 <= entry_share(size) <= 1.0
    (part,) = explain_entry(size)
    assert part.value == entry_score(size)


@pytest.mark.parametrize(
    ("size", "said"), [(1, "of its own"), (2, "has 2 chunks"), (MAX_ENTRY_CHUNKS, f"{MAX_ENTRY_CHUNKS} or more chunks")]
)
def test_it_is_said_in_words(size: int, said: str) -> None:
    """The part names the size, and whether counting stopped."""
    assert said in explain_entry(size)[0].note
