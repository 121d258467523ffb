"""Tokens are counted with the built-in tokenizer, and never fewer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.reference_tokenizer import make_tokenizer

from lorelog.core.errors import ModelUnavailable
from lorelog.models.embed.builtin import TokenCounter

COUNT = TokenCounter()
REAL = make_tokenizer()


def real(text: str) -> int:
    return len(REAL.encode(text, add_special_tokens=False).ids)


def test_plain_text_counts_as_the_tokenizer_says() -> None:
    """Known words are counted by the tokenizer, for any length of text."""
    text = "Redis keys live for five minutes; longer ones served stale prices. " * 100

    assert COUNT(text) == real(text)
    assert COUNT("") == 0


@settings(deadline=None)
@given(st.text())
def test_no_count_is_lower_than_the_tokenizers(text: str) -> None:
    """The count is never lower than the tokenizer's."""
    assert COUNT(text) >= real(text)


def test_data_that_the_tokenizer_cannot_read_is_not_free() -> None:
    """A long word that is one unknown token is counted by its length."""
    assert real("q7" * 500) == 1
    assert COUNT("q7" * 500) > 400


def test_a_lone_surrogate_is_counted() -> None:
    """Invalid UTF-8 can be counted too."""
    assert COUNT("a \udcff b") >= 2


def test_nothing_is_loaded_before_the_first_count(tmp_path: Path) -> None:
    """Creating a counter never fails; using one without its tokenizer raises an error with a hint."""
    counter = TokenCounter(tmp_path)

    with pytest.raises(ModelUnavailable, match="cannot be counted") as raised:
        counter("text")
    assert raised.value.hint
