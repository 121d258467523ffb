"""The words of identifiers, numbers and scripts, and what holds for the words of every text."""

from __future__ import annotations

import string
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.core.ports import Analyser
from lorelog.language.analyser import MAX_QUERY_TERMS, MAX_TOKEN_CHARS, WordAnalyser

ANALYSER = WordAnalyser()


def asked(text: str) -> list[str]:
    return [term.text for term in ANALYSER.query_terms(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # An identifier is found whole and by its parts, in any naming convention.
        ("parseConfig", ["parseconfig", "pars", "config"]),
        ("ParseConfig", ["parseconfig", "pars", "config"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("getURLsFor", ["geturlsfor", "get", "url", "for"]),
        ("utf8Decoder", ["utf8decoder", "utf8", "utf", "8", "decod"]),
        ("parse_config", ["parse_config", "pars", "config"]),
        ("MAX_CHUNK_SIZE", ["max_chunk_size", "max", "chunk", "size"]),
        ("__init__.py", ["init__.py", "init", "py"]),
        ("dry-run", ["dry-run", "dri", "run"]),
        ("os.path.join", ["os.path.join", "os", "path", "join"]),
        ("std::vector", ["std::vector", "std", "vector"]),
        ("localhost:8080", ["localhost:8080", "localhost", "8080"]),
        ("me@example.org", ["me@example.org", "me", "example.org", "exampl", "org"]),
        ("C++ and C#", ["c++", "c", "and", "c#", "c"]),
        ("IDs APIs", ["id", "api"]),
        ("k8s", ["k8s"]),
        ("sha256 10ms", ["sha256", "sha", "256", "10ms", "10", "ms"]),
        # A path is found whole, by its file name, by the name without ending, and by each part.
        (
            "src/lib/parse_config.py",
            "src/lib/parse_config.py src lib parse_config.py parse_config pars config py".split(),
        ),
        # A version or a date is found whole and by its prefixes, never by a single digit inside it.
        ("v1.2.3", ["v1.2.3", "1.2.3", "1.2"]),
        ("0.4.23", ["0.4.23", "0.4"]),
        ("3.11", ["3.11"]),
        ("1.2.3-rc1", ["1.2.3-rc1", "1.2.3", "1.2", "rc1", "rc", "1"]),
        ("python-3.11", ["python-3.11", "python", "3.11"]),
        ("2026-03-05", ["2026-03-05", "2026-03", "2026"]),
        ("2026-03-05T14:30", ["2026-03-05t14:30", "2026-03-05t14", "2026-03-05", "2026-03", "2026", "14", "30"]),
        ("8080", ["8080"]),
        # Forms of one English word are one word.
        ("running", ["run"]),
        ("runs", ["run"]),
        ("caches", ["cach"]),
        ("Caching", ["cach"]),
        ("user's", ["user"]),
        ("user’s", ["user"]),
        # Case, accents and width are ignored; vowel signs of other scripts are kept.
        ("Café", ["cafe"]),
        ("Cafe\u0301", ["cafe"]),
        ("STRASSE", ["strass"]),
        ("Straße", ["strass"]),
        ("Ёлка", ["елка"]),
        ("Ελλάς", ["ελλασ"]),
        ("Łódź", ["lodz"]),
        ("ﬁle", ["file"]),
        ("Ｆｕｌｌ", ["full"]),
        ("हिन्दी", ["हिन्दी"]),
        ("co\u00adoperate", ["cooper"]),
        # Chinese, Japanese and Korean are found by characters and pairs, separately from Latin words.
        ("缓存", ["缓", "缓存", "存"]),
        ("猫", ["猫"]),
        ("使用Redis缓存", ["使", "使用", "用", "redi", "缓", "缓存", "存"]),
        ("データ", ["デ", "デー", "ー", "ータ", "タ"]),
        ("ガ", ["ガ"]),
        ("ｶﾞ", ["ガ"]),
        ("한국", ["한", "한국", "국"]),
        ("\u1112\u1161\u11ab", ["한"]),
        # A NUL byte ends a word.
        ("left\0right", ["left", "right"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    """A text has exactly these words, which are all that finds it."""
    assert ANALYSER.words(text) == words


def test_names_with_digits_in_pieces_and_alone() -> None:
    """A lower-case name with digits gives the same words as next to a capital, where the general rules apply."""
    for name in ("t123", "utf8", "running2", "3running", "a1b2", "ab12cd", "x" * 70 + "1"):
        assert ANALYSER.words(name) == ANALYSER.words(name.replace(name[0], name[0].upper(), 1)), name


def test_question_in_unspaced_script() -> None:
    """A query uses pairs and, at half the weight, their characters; a character that stands alone counts in full."""
    terms = {term.text: term.weight for term in ANALYSER.query_terms("数据库 猫")}

    assert terms == {"数": 0.5, "数据": 1.0, "据": 0.5, "据库": 1.0, "库": 0.5, "猫": 1.0}


@pytest.mark.parametrize("text", ["", " \n\t", "🎉🎉", "…!?—", "___", "--", "\0", "\ud800"])
def test_nothing_to_find(text: str) -> None:
    """Emoji, punctuation and control characters are not words."""
    assert ANALYSER.words(text) == []
    assert asked(text) == []


def test_stop_words_of_questions() -> None:
    """A question drops its stop words."""
    assert asked("How do we cache the results?") == ["we", "cach", "result"]


@pytest.mark.parametrize("text", ["to be or not to be", "it", "The", "don't"])
def test_only_stop_words(text: str) -> None:
    """A query of stop words alone still finds the text that contains them."""
    assert set(asked(text)) & set(ANALYSER.words(f"He wrote: {text}, and left."))


def test_huge_question() -> None:
    """A query of 100 KB has a bounded number of terms."""
    assert len(asked(" ".join(f"word{number}" for number in range(12_000)))) == MAX_QUERY_TERMS
    assert len(asked("".join(map(chr, range(0x4E00, 0x9000))))) == MAX_QUERY_TERMS


def test_long_blobs() -> None:
    """A SHA-256 is kept whole, a longer blob is cut, and both are found again by themselves."""
    sha = "d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad"
    assert ANALYSER.words(sha) == [sha]
    assert ANALYSER.words(sha * 2) == [sha]
    assert asked(sha * 2) == [sha]
    blob = "dGhpcyBpcyBhIHRlc3Qgb2YgYmFzZTY0IGVuY29kaW5n"
    assert ANALYSER.words(blob) == [blob.lower()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["a", "a/", "aA", "a'", "_", "1.", "--a", "漢字", "e\u0301", "\u0301", "a.é/", ".", "ab1 "], ids=ascii
)
def test_one_line_of_a_megabyte(line: str) -> None:
    """A line of a megabyte gives bounded words in one pass."""
    words = ANALYSER.words(line * (1_000_000 // len(line)))
    assert len(words) < 2_100_000
    assert max(map(len, words), default=0) <= MAX_TOKEN_CHARS


def test_more_words_than_are_remembered() -> None:
    """Clearing the caches does not change the words."""
    analyser = WordAnalyser()
    first = analyser.words("parse_config running")
    analyser.words(" ".join(map(str, range(70_000))))
    assert analyser.words("parse_config running") == first


def test_contract() -> None:
    """The analyser fulfils the stores' contract, and reports the version of its rules."""
    contract: Analyser = ANALYSER
    assert contract.version.startswith("words-")
    assert contract.version == WordAnalyser().version


def test_import_is_light() -> None:
    """Importing the package loads neither the stemmer nor numpy."""
    modules = (
        "language.analyser",
        "retrieval.dedupe",
        "retrieval.fusion",
        "retrieval.snippet",
        "retrieval.score_features",
    )
    code = "".join(f"import lorelog.{name}\n" for name in modules)
    code += "import sys\nprint([name for name in ('Stemmer', 'numpy', 'tantivy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
