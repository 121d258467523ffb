"""Word lists are read from their files; prose is split into sentences and clauses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog import language
from lorelog.language import lexicon
from lorelog.language.analyser import split_sentences

LISTS = sorted(path.stem for path in (Path(language.__file__ or "").parent / "words").glob("*.txt"))


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_lower_case_words_once(name: str) -> None:
    """A list's own words are in lower case unless it says otherwise, and none is written twice."""
    lines = (Path(language.__file__ or "").parent / "words" / f"{name}.txt").read_text("utf-8").splitlines()
    words = [line for line in lines if not line.startswith("#")]

    assert words == [word.strip() if lines[0].startswith("# as written: ") else word.lower().strip() for word in words]
    assert len(words) == len(set(words))
    assert lexicon(name).issuperset(words)


def test_a_list_includes_another_list() -> None:
    """`# with stop_words` adds the stop words to a list."""
    assert lexicon("stop_words") < lexicon("function_words")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It works. We use it (e.g. `here`). Done!", ["It works.", "We use it (e.g. `here`).", "Done!"]),
        ("See v1. then go on", ["See v1. then go on"]),
        ("1. Add the file. Then run it.", ["1. Add the file.", "Then run it."]),
        ("One\n\nTwo", ["One", "Two"]),
        ("先测试。再提交。", ["先测试。", "再提交。"]),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    """A sentence ends before something that can begin one, and at the end of a line."""
    assert split_sentences(text) == sentences


@given(st.text())
def test_no_text_is_lost(text: str) -> None:
    """The sentences of a text hold all of its letters, in order."""
    letters = [character for character in text if character.isalpha()]

    assert [character for character in "".join(split_sentences(text)) if character.isalpha()] == letters
