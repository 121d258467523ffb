"""Which quoted phrases a text holds word for word."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.closeread import COVERAGE, LANES, PART_WORDS, PHRASE, PROXIMITY
from lorelog.retrieval.entry import ENTRY
from lorelog.retrieval.quoted import QUOTED, find_phrases, look_for


def held(question: str, text: str) -> tuple[int, int]:
    quoted = look_for(find_phrases(question), text)
    return quoted.held, quoted.asked


@pytest.mark.parametrize(
    "text", ["the red fox ran", "The Red\n  Fox ran", "(red fox)", "a red fox, and more", "red fox"]
)
def test_phrase_is_found(text: str) -> None:
    """Case, white space and the end of a line make no difference."""
    assert held('where is the "red fox"', text) == (1, 1)


@pytest.mark.parametrize("text", ["fox red", "red and fox", "bored fox", "red foxes", "redfox", ""])
def test_words_alone_are_no_phrase(text: str) -> None:
    """The same words apart, turned round or inside longer words are not the phrase."""
    assert held('where is the "red fox"', text) == (0, 1)


@pytest.mark.parametrize(
    "question",
    ["“red fox”", "„red fox“", "«red fox»", "「red fox」", '"red fox'],  # the last is open
)
def test_quotation_marks(question: str) -> None:
    """Quotation marks of other languages quote too; a mark without its other half quotes nothing."""
    assert len(find_phrases(question)) == (question[0] != '"')


@pytest.mark.parametrize("question", ["red fox", "it's the fox's", "`red fox`", '""', '"?!"', '" "'])
def test_what_quotes_nothing(question: str) -> None:
    """Apostrophes, code and empty marks are no quotations."""
    assert find_phrases(question) == []


def test_scripts_without_spaces() -> None:
    """A Chinese phrase is found inside a sentence, where no space says that a word ends."""
    assert held("「红狐狸」在哪里", "森林里有一只红狐狸在跑") == (1, 1)
    assert held("「红狐狸」在哪里", "森林里有一只红色的狐狸") == (0, 1)


def test_each_phrase_counts_once() -> None:
    """Of several phrases each counts alike, and the same one twice counts once."""
    question = '"red fox" or "blue owl" or "Red  Fox"'
    assert held(question, "a red fox") == (1, 2)
    assert look_for(find_phrases(question), "a red fox, a blue owl").value == QUOTED


def test_phrase_outweighs_all_else() -> None:
    """What a held phrase adds is as much as everything else together can reach."""
    assert LANES + COVERAGE + PHRASE + PROXIMITY + PART_WORDS + ENTRY <= QUOTED + 1e-9


@given(st.text(max_size=60), st.text(max_size=60))
def test_anything_goes(question: str, text: str) -> None:
    """No question and no text is too odd, and parts add up to the value."""
    phrases = find_phrases(question)
    if not phrases:
        return
    quoted = look_for(phrases, text)
    assert 0.0 <= quoted.value <= QUOTED
    assert math.isclose(sum(part.value for part in quoted.parts()), quoted.value)


@given(st.from_regex(r"[a-zäöü]{1,9}( [a-zäöü0-9]{1,9}){0,3}", fullmatch=True))
def test_every_phrase_finds_itself(phrase: str) -> None:
    """A text that is the phrase holds it."""
    assert held(f'"{phrase}x"', f"so: {phrase}X!") == (1, 1)
