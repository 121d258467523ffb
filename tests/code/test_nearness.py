"""A name is found by what somebody remembers of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.code.nearness import Likeness


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
def test_the_nearer_name_is_more_like_it(text: str, better: str, worse: str) -> None:
    """The same, then the same but for case, then beginnings, parts, initials and slips of the fingers."""
    likeness = Likeness(text)
    assert likeness.of(better) > likeness.of(worse)


@pytest.mark.parametrize(
    ("text", "name"),
    [("xyz", "parse"), ("ab", "cd"), ("cat", "cut"), ("code", "a_ce_of_our_door_and_even_more_than_that")],
)
def test_what_has_nothing_in_common_is_not_alike(text: str, name: str) -> None:
    """Short texts are not taken for mistyped ones, and letters strewn over a long name are no likeness."""
    assert Likeness(text).of(name) < 0.3


@given(st.text(max_size=40), st.text(max_size=60))
def test_likeness_is_a_number_between_nothing_and_the_same(text: str, name: str) -> None:
    """Whatever is compared: 1 for the same, less for everything else."""
    value = Likeness(text).of(name)
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (text == name)
