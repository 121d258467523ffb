"""What holds for the words of every text."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.language.analyser import MAX_TOKEN_CHARS, WordAnalyser

ANALYSER = WordAnalyser()
_PIECES = [
    "parseConfig",
    "HTTP",
    "src/a_b.py",
    "v1.2.3",
    "2026-03-05T10:00",
    "don't",
    "’s",
    "使用",
    "Redis",
    "데이터",
    "é",
    "e\u0301",
]
_PIECES += [
    "ß",
    "--",
    "..",
    "_",
    "::",
    "\u00ad",
    "\u200d",
    "½",
    "ﷺ",
    "ʼ",
    "+",
    "++",
    "#",
    " ",
    "\n",
    "\0",
    "🎉",
    "İ",
    "ｶﾞ",
    "१",
    "को",
]
TEXTS = st.one_of(st.text(), st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3))).map("".join))
_CASED = string.ascii_letters + string.digits + " .-_/:'\n" + "àéîöüçñßøÅÉß" + "αβγδΑΒΓΔ" + "жёйЖЁЙ" + "漢字かな한글"


@given(TEXTS)
@example("ʼ")
@example("ﷺ")
def test_words_are_clean(text: str) -> None:
    """No text makes the analyser fail, and no word is empty, too long, or holds white space or a capital."""
    for word in ANALYSER.words(text):
        assert 0 < len(word) <= MAX_TOKEN_CHARS
        assert len(word.split()) == 1
        assert word.split()[0] == word
        assert not any("A" <= character <= "Z" for character in word)


@given(TEXTS)
def test_words_do_not_depend_on_memory(text: str) -> None:
    """The same text gives the same words, whatever was analysed before."""
    assert ANALYSER.words(text) == WordAnalyser().words(text)


@given(TEXTS)
def test_spans_agree_with_words(text: str) -> None:
    """The tokens of a text, with their places, hold exactly its words, in order and without overlap."""
    spans = list(ANALYSER.spans(text))
    assert [word for span in spans for word in span.words] == ANALYSER.words(text)
    ends = [0, *(span.end for span in spans)]
    assert all(end <= span.start < span.end for end, span in zip(ends, spans, strict=False))


@given(TEXTS)
def test_own_words_are_found(text: str) -> None:
    """Whatever stands between white space in a text finds that text."""
    words = set(ANALYSER.words(text))
    for piece in text.split():
        if ANALYSER.words(piece):
            assert words.intersection(term.text for term in ANALYSER.query_terms(piece))


@given(st.text(alphabet="数据库缓存猫かなカナ한국어", min_size=1), st.data())
def test_any_stretch_of_an_unspaced_text_is_found(text: str, data: st.DataObject) -> None:
    """Any stretch of a text without spaces finds that text, down to one character."""
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert {term.text for term in ANALYSER.query_terms(text[start:end])} <= set(ANALYSER.words(text))


@given(st.text(alphabet=_CASED, max_size=MAX_TOKEN_CHARS // 2))
@example("0ß")
def test_case_does_not_matter(text: str) -> None:
    """A text in capitals gives the same words as in small letters."""
    assert ANALYSER.words(text.upper()) == ANALYSER.words(text.lower())


@given(TEXTS)
def test_questions_ask_for_words(text: str) -> None:
    """A question asks for nothing but its own words, each once, and asks for something if it has any."""
    terms = [term.text for term in ANALYSER.query_terms(text)]
    assert len(terms) == len(set(terms))
    assert set(terms) <= set(ANALYSER.words(text))
    assert bool(terms) == bool(ANALYSER.words(text))


@given(st.lists(st.text(alphabet=string.ascii_lowercase, min_size=2, max_size=8), min_size=1, max_size=4))
@example(["get", "user", "name"])
@example(["num", "py"])
@example(["dev", "ops"])
def test_a_camel_case_name_is_found_in_any_case(parts: list[str]) -> None:
    """A name written with humps is found by the same letters without them, and the other way round."""
    camel = parts[0] + "".join(part.capitalize() for part in parts[1:])
    for written in (camel, camel[0].upper() + camel[1:]):
        assert {term.text for term in ANALYSER.query_terms(camel.lower())} & set(ANALYSER.words(written))
        assert {term.text for term in ANALYSER.query_terms(written)} & set(ANALYSER.words(camel.lower()))
