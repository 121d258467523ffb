"""The words of identifiers, numbers and scripts."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
