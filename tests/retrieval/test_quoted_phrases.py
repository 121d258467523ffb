"""Quoted phrases that a text contains literally."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.score_features import (
    COVERAGE_WEIGHT,
    ENTRY_WEIGHT,
    LANES_WEIGHT,
    PART_WORDS_WEIGHT,
    PHRASE_WEIGHT,
    PROXIMITY_WEIGHT,
    QUOTED_WEIGHT,
    find_quoted_phrases,
    match_phrases,
)


def held(question: str, text: str) -> tuple[int, int]:
    quoted = match_phrases(find_quoted_phrases(question), text)
    return quoted.matched, quoted.total


@pytest.mark.parametrize(
    "text", ["the red fox ran", "The Red\n  Fox ran", "(red fox)", "a red fox, and more", "red fox"]
)
def test_phrase_is_found(text: str) -> None:
    """Case, white space and line ends are ignored."""
    assert held('where is the "red fox"', text) == (1, 1)


@pytest.mark.parametrize("text", ["fox red", "red and fox", "bored fox", "red foxes", "redfox", ""])
def test_words_apart_are_not_the_phrase(text: str) -> None:
    """The same words apart, reversed or inside longer words are not the phrase."""
    assert held('where is the "red fox"', text) == (0, 1)


@pytest.mark.parametrize(
    "question",
    ["“red fox”", "„red fox“", "«red fox»", "「red fox」", '"red fox'],  # the last is open
)
def test_quotation_marks(question: str) -> None:
    """Quotation marks of other languages work; an unpaired mark quotes nothing."""
    assert len(find_quoted_phrases(question)) == (question[0] != '"')


@pytest.mark.parametrize("question", ["red fox", "it's the fox's", "`red fox`", '""', '"?!"', '" "'])
def test_what_quotes_nothing(question: str) -> None:
    """Apostrophes, code and empty marks are not quotations."""
    assert find_quoted_phrases(question) == []


def test_scripts_without_spaces() -> None:
    """A Chinese phrase is found inside a sentence without spaces."""
    assert held("「红狐狸」在哪里", "森林里有一只红狐狸在跑") == (1, 1)
    assert held("「红狐狸」在哪里", "森林里有一只红色的狐狸") == (0, 1)


def test_each_phrase_counts_once() -> None:
    """Each phrase counts alike, and a repeated one once."""
    question = '"red fox" or "blue owl" or "Red  Fox"'
    assert held(question, "a red fox") == (1, 2)
    assert match_phrases(find_quoted_phrases(question), "a red fox, a blue owl").score == QUOTED_WEIGHT


def test_phrase_outweighs_all_else() -> None:
    """A matched phrase adds as much as everything else together."""
    assert (
        LANES_WEIGHT + COVERAGE_WEIGHT + PHRASE_WEIGHT + PROXIMITY_WEIGHT + PART_WORDS_WEIGHT + ENTRY_WEIGHT
        <= QUOTED_WEIGHT + 1e-9
    )


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
