"""Our WordPiece gives the ids of the library `tokenizers`, for every text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.reference_tokenizer import make_tokenizer

from lorelog.models.embed import wordpiece
from lorelog.models.embed.builtin import encoder_folder
from lorelog.models.embed.wordpiece import WordPieceTokenizer
from lorelog.models.in_process import VOCABULARY_FILE

ROOT = Path(__file__).parents[2]
MAX_TOKENS = 64
OURS = WordPieceTokenizer.from_file(encoder_folder() / VOCABULARY_FILE)
REFERENCE = make_tokenizer()
REFERENCE.enable_truncation(MAX_TOKENS)


def is_same(text: str) -> bool:
    ours, reference = OURS.encode(text, MAX_TOKENS), REFERENCE.encode(text)
    return ours.ids == reference.ids and ours.truncated == bool(reference.overflowing)


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
