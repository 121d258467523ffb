"""Names are scored by their similarity to a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.code.names import Similarity


@pytest.mark.parametrize(
    ("text", "better", "worse"),
    [
        ("parse", "parse", "Parse"),
        ("parse", "Parse", "parse_file"),
        ("parse", "parse_file", "reparse"),
        ("find_def", "find_definition", "undefined_finder"),
        ("findDefinition", "find_definition", "find_definitions"),
        ("fd", "find_definition", "find_all"),
        ("fDef", "find_definition", "define"),
        ("recieve", "receive", "review"),
        ("Enigne", "Engine", "Ensign"),
        ("search", "search", "searcher"),
    ],
)
def test_the_better_match_has_the_higher_score(text: str, better: str, worse: str) -> None:
    """Equal names score highest, then another case, prefixes, parts, initials and typos."""
    likeness = Similarity(text)
    assert likeness.score(better) > likeness.score(worse)


@pytest.mark.parametrize(
    ("text", "name"),
    [("xyz", "parse"), ("ab", "cd"), ("cat", "cut"), ("code", "a_ce_of_our_door_and_even_more_than_that")],
)
def test_unrelated_names_score_zero(text: str, name: str) -> None:
    """Short queries have no typos, and letters scattered over a long name do not match."""
    assert Similarity(text).score(name) < 0.3


@given(st.text(max_size=40), st.text(max_size=60))
def test_similarity_is_between_zero_and_one(text: str, name: str) -> None:
    """Equal names score 1, all others less."""
    value = Similarity(text).score(name)
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (text == name)
