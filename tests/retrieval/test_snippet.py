"""Snippets and their marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.snippet import ELLIPSIS, SNIPPET_WIDTH, Snippet, cut_snippet

ANALYSER = WordAnalyser()
FILLER = "lorem ipsum dolor sit amet " * 40


def cut(content: str, query: str, width: int = SNIPPET_WIDTH) -> Snippet:
    return cut_snippet(content, ANALYSER.query_terms(query), ANALYSER, width)


def marked(content: str, query: str, width: int = SNIPPET_WIDTH) -> list[str]:
    snippet = cut(content, query, width)
    return [snippet.text[start:end] for start, end in snippet.matches]


@pytest.mark.parametrize(
    ("content", "query", "words"),
    [
        ("He was running the parsers", "run parser", ["running", "parsers"]),
        ("call parse_config now", "config", ["config"]),
        ("call parse_config now", "parse_config", ["parse_config"]),
        ("see src/db/user_repo.py", "user", ["user"]),
        ("use getUserById here", "user id", ["User", "Id"]),
        ("ein Café", "cafe", ["Café"]),
        ("我们使用Redis缓存来加速", "redis 缓存", ["Redis缓存"]),
        ("加速数据库查询", "数据库", ["数据库"]),
        ("黑猫", "猫", ["猫"]),
        ("ｶﾞｷﾞ", "ガギ", ["ｶﾞｷﾞ"]),
        ("nothing to see", "zebra", []),
    ],
)
def test_marks(content: str, query: str, words: list[str]) -> None:
    """Marks are the actual matches: stems, parts of identifiers, joined pairs of characters."""
    assert marked(content, query) == words


def test_best_window() -> None:
    """The window has the most different terms of the query."""
    content = f"cache {FILLER} the redis cache expires {FILLER} cache cache cache {FILLER}"
    snippet = cut(content, "redis cache expiry", 80)
    assert "the redis cache expires" in snippet.text
    assert snippet.text.startswith(ELLIPSIS)
    assert snippet.text.endswith(ELLIPSIS)


def test_whole_words() -> None:
    """A snippet is cut between words."""
    content = f"{FILLER} zebra {FILLER}"
    assert set(cut(content, "zebra").text.strip(ELLIPSIS).split()) <= set(content.split())


def test_short_text_is_shown_whole() -> None:
    """A text that fits is shown whole, on one line."""
    assert cut("- one\n- two\n\n  three", "two").text == "- one - two three"


def test_no_match_shows_the_beginning() -> None:
    """Without a match the snippet is the beginning of the text."""
    assert cut(f"First {FILLER}", "zebra", 30).text == f"First lorem ipsum dolor sit{ELLIPSIS}"


def test_what_was_searched_is_what_is_shown() -> None:
    """A comment in the text, such as one in a code fence, is shown and marked."""
    shown = cut("An anchor:\n```\n<!-- session:zebra -->\n```", "zebra")
    assert "zebra" in shown.text
    assert len(shown.matches) == 1


def test_heading_is_left_out() -> None:
    """The heading is shown only if it matches and the text below does not."""
    assert cut("## Cache\n\nthe cache expires", "cache").text == "the cache expires"
    assert cut("## Cache\n\nit expires", "cache") == Snippet("Cache it expires", ((0, 5),))
    assert cut("## Cache\n\nit expires", "zebra").text == "it expires"
    assert cut("## Cache", "cache") == Snippet("Cache", ((0, 5),))


_WORDS = st.sampled_from(
    ["cache", "parse_config", "getUserById", "缓存数据库", "running", "a/b.py", "é", "x" * 90, "\n", "<!--", "-->", "#"]
)
_TEXTS = st.one_of(st.text(), st.lists(_WORDS, max_size=60).map(" ".join), st.lists(_WORDS, max_size=60).map("".join))


@given(_TEXTS, _TEXTS, st.integers(0, 120))
def test_any_snippet(content: str, query: str, width: int) -> None:
    """Any snippet fits its width, is one line, and every mark is inside it and matches the query."""
    snippet = cut(content, query, width)
    wanted = {term.text for term in ANALYSER.query_terms(query)}
    assert len(snippet.text) <= max(width, 1) + 2 * len(ELLIPSIS)
    assert len(snippet.text.splitlines()) <= 1
    last = 0
    for start, end in snippet.matches:
        assert last <= start < end <= len(snippet.text)
        assert wanted.intersection(ANALYSER.words(snippet.text[start:end]))
        last = end


@pytest.mark.slow
@pytest.mark.parametrize("content", ["cache ", "漢字", "a/b/", "<!-- ", "x", "\n", "<!-- --> "])
def test_huge_text(content: str) -> None:
    """A huge text is cut in one pass."""
    assert len(cut(content * (400_000 // len(content)), "cache 漢字 a x").text) <= SNIPPET_WIDTH + 2


def test_a_compound_is_marked_as_one() -> None:
    """Adjacent parts of a name are marked together."""
    shown = cut("see scripts/check_migrations.py for it", "check_migrations.py")
    assert [shown.text[start:end] for start, end in shown.matches] == ["check_migrations.py"]
