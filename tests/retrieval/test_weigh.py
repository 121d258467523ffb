"""Which lane a question leans on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.retrieval.weigh import BASE, EXACT, PROSE, UNREAD, weigh

LITERAL = [
    "parse_config",
    "getUserById",
    "HTTPServer",
    "src/app/main.py",
    "E0308",
    "0xdeadbeef",
    "d74a213ce712",
    "--all",
]


@pytest.mark.parametrize("query", ["how is caching done", "redis", "", "   ", "???"])
def test_plain_questions(query: str) -> None:
    """A plain question trusts both lanes alike."""
    assert weigh(query).dense == BASE


@pytest.mark.parametrize("query", [*LITERAL, '"connection reset by peer"', "`ls`", "0.4.23", "run()"])
def test_literal_questions(query: str) -> None:
    """A question that is all identifiers, paths, codes or quotes leans on words."""
    assert weigh(query).dense == EXACT
    assert "literally" in weigh(query).reason


@pytest.mark.parametrize("query", ["如何配置缓存", "キャッシュの設定", "캐시 설정 방법", "как настроить кеш", "πώς"])
def test_unread_scripts(query: str) -> None:
    """A question in a script the built-in encoder does not read leans on words strongly."""
    assert weigh(query).dense == UNREAD
    assert "Latin" in weigh(query).reason


def test_long_prose() -> None:
    """A long paraphrase leans on meaning a little."""
    query = "people kept complaining because signing in again every morning felt slow after we shortened how long sessions live "
    assert BASE < weigh(query).dense <= weigh(query * 2).dense == PROSE


def test_accents_are_latin() -> None:
    """German or French is Latin script, not a foreign one."""
    assert weigh("Größe der Zwischenablage über Bord").dense == BASE


@given(st.text())
def test_weight_is_a_share(query: str) -> None:
    """Any question has a weight within the documented ends and a reason."""
    weights = weigh(query)
    assert EXACT <= weights.dense <= PROSE
    assert weights.reason


@given(st.lists(st.sampled_from(["cache", "slow", "缓存", "the", "login", "Größe"])), st.sampled_from(LITERAL))
def test_one_more_identifier(words: list[str], literal: str) -> None:
    """One more identifier never raises the weight of the dense lane."""
    assert weigh(" ".join([*words, literal])).dense <= weigh(" ".join(words)).dense


@pytest.mark.parametrize("query", ["a" * 1_000_000, "_a" * 500_000, '"' * 1_000_000, "a " * 500_000, "漢" * 1_000_000])
def test_huge_questions(query: str) -> None:
    """A huge question is weighed by its beginning."""
    assert weigh(query) == weigh(query[:10_000])
