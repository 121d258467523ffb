"""Our WordPiece gives the ids of the library `tokenizers`, for every text; tokens are counted with it, and never fewer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.reference_tokenizer import make_tokenizer

from lorelog.core.errors import ModelUnavailable
from lorelog.models.embed import wordpiece
from lorelog.models.embed.builtin import TokenCounter, encoder_folder
from lorelog.models.embed.wordpiece import WordPieceTokenizer
from lorelog.models.in_process import VOCABULARY_FILE

ROOT = Path(__file__).parents[2]
MAX_TOKENS = 64
OURS = WordPieceTokenizer.from_file(encoder_folder() / VOCABULARY_FILE)
REFERENCE = make_tokenizer()
REFERENCE.enable_truncation(MAX_TOKENS)


def is_same(text: str) -> bool:
    reference = REFERENCE.encode(text)
    return OURS.encode(text, MAX_TOKENS) == (reference.ids, bool(reference.overflowing))


LETTERS = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from(
        "abzAZ019 \t\n\r\x00\x0b\x1c\x85\xa0\xad\u0301\u0327\u200b\u2028\u302eİIıΣσςßéÅ王가𠀀[]#.'–…\ufffd\u0e31"
    ),
    st.sampled_from(["[SEP]", "[UNK]", "[MASK]", "##ing", "running", "redis", "x" * 101]),
)


@settings(deadline=None)
@given(st.lists(LETTERS, max_size=60).map("".join))
def test_any_text_has_the_references_ids(text: str) -> None:
    """Ids and truncation are those of the reference for arbitrary Unicode."""
    assert is_same(text)


@pytest.mark.slow
def test_every_character_has_the_references_ids() -> None:
    """Alone, inside a word and after an accent, every character of Unicode is read as the reference reads it."""
    characters = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
    different = [f"U+{ord(letter):04X}" for letter in characters if not is_same(f"ab{letter}c {letter} É{letter}x")]
    assert different == []


def test_real_texts_have_the_references_ids() -> None:
    """Documentation and source code are read as the reference reads them, piece by piece."""
    for path in [*sorted((ROOT / "docs").glob("*.md"))[:8], Path(__file__), Path(wordpiece.__file__)]:
        text = path.read_text("utf-8")
        assert all(is_same(text[start : start + 200]) for start in range(0, len(text), 200)), path


def test_a_full_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of a word do not depend on whether it is cached."""
    monkeypatch.setattr(wordpiece, "_MAX_CACHED_WORDS", 2)
    small = WordPieceTokenizer.from_file(encoder_folder() / VOCABULARY_FILE)
    text = "unbelievable tokenizers unbelievable caches tokenizers"
    assert small.encode(text, 50) == OURS.encode(text, 50) == small.encode(text, 50)


# -- counting

COUNT = TokenCounter()
WHOLE = make_tokenizer()


def real(text: str) -> int:
    return len(WHOLE.encode(text, add_special_tokens=False).ids)


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
    """A long word that is one unknown token is counted by its length; invalid UTF-8 can be counted too."""
    assert COUNT("a \udcff b") >= 2
    assert real("q7" * 500) == 1
    assert COUNT("q7" * 500) > 400


def test_nothing_is_loaded_before_the_first_count(tmp_path: Path) -> None:
    """Creating a counter never fails; using one without its tokenizer raises an error with a hint."""
    counter = TokenCounter(tmp_path)

    with pytest.raises(ModelUnavailable, match="cannot be counted") as raised:
        counter("text")
    assert raised.value.hint
