"""Tokens are counted as the built-in tokenizer counts them, and never fewer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lorelog.core.errors import ModelUnavailable
from lorelog.models.tokens import TOKENIZER, TokenCounter

COUNT = TokenCounter()
REAL = Tokenizer.from_buffer(TOKENIZER.read_bytes())
REAL.no_padding()
REAL.no_truncation()


def real(text: str) -> int:
    return len(REAL.encode(text, add_special_tokens=False).ids)


def test_plain_text_counts_as_the_tokenizer_says() -> None:
    """What the tokenizer can read is counted by it, however long it is."""
    text = "Redis keys live for five minutes; longer ones served stale prices. " * 100

    assert COUNT(text) == real(text)
    assert COUNT("") == 0


@settings(deadline=None)
@given(st.text())
def test_no_count_is_lower_than_the_tokenizers(text: str) -> None:
    """Whatever the text, at least as many tokens are counted as there are."""
    assert COUNT(text) >= real(text)


def test_data_that_the_tokenizer_cannot_read_is_not_free() -> None:
    """A run of letters that is one unknown token to the tokenizer is counted by its length."""
    assert real("q7" * 500) == 1
    assert COUNT("q7" * 500) > 400


def test_a_lone_surrogate_is_counted() -> None:
    """Text that is no UTF-8 can be counted too."""
    assert COUNT("a \udcff b") >= 2


def test_nothing_is_loaded_before_the_first_count(tmp_path: Path) -> None:
    """Making a counter never fails; asking one whose tokenizer is not there tells what to do."""
    counter = TokenCounter(tmp_path / "tokenizer.json")

    with pytest.raises(ModelUnavailable, match="cannot be counted") as raised:
        counter("text")
    assert raised.value.hint
