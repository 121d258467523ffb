"""Which lane a question leans on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.retrieval.weigh import EXACT, Evidence, find_unread_share, weigh

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
PROSE = ["cache", "slow", "缓存", "the", "login", "Größe", "кеш"]
UNSURE = Evidence(coverage=0.3, terms=3, lead=1.0)
EVIDENCE = st.builds(Evidence, st.floats(0.0, 2.0), st.integers(0, 2_000), st.floats(0.0, 5.0))
HOSTILE = {
    "nothing": "",
    "white space": " \n\t ",
    "one stop word": "the",
    "punctuation": "?!… --- ;;; ()[]{}",
    "emoji": "🦦 👩‍👩‍👧‍👦🏳️‍🌈",
    "unbalanced quotes": "\"otter ` “and 'then",
    "a regular expression": r"(otter|[a-z)*+?{3,}\b^$.",
    "mixed scripts": "otter 水獭 выдра ثعلب นาก カワウソ",
    "control characters": "otter\x00\x1b[31m\u202e",
    "half a surrogate pair": "otter \ud83e",
    "10,000 words": " ".join(f"word{n}" for n in range(10_000)),
}


@pytest.mark.parametrize("query", [*LITERAL, '"connection reset by peer"', "`ls`", "0.4.23", "run()"])
def test_literal_questions(query: str) -> None:
    """A question that is all identifiers, paths, codes or quotes leans on words, however sure the vectors are."""
    weights = weigh(query, replace(UNSURE, lead=5.0))
    assert weights.dense == EXACT
    assert "literally" in weights.reason


@pytest.mark.parametrize("query", ["如何配置缓存", "キャッシュの設定", "캐시 설정 방법", "как настроить кеш", "πώς"])
def test_unread_scripts(query: str) -> None:
    """A question in a script the built-in encoder does not read leans on words more than one in a script it reads."""
    assert find_unread_share(query) == 1.0
    weights = weigh(query, UNSURE)
    assert weights.dense < weigh("how is caching done", UNSURE).dense
    assert "Latin" in weights.reason


def test_accents_are_latin() -> None:
    """German, Vietnamese or full-width letters are Latin script, not a foreign one."""
    for query in ("Größe der Zwischenablage über Bord", "bộ nhớ đệm", "ＣＡＣＨＥ"):
        assert find_unread_share(query) == 0.0
    assert weigh("Größe über Bord", UNSURE).dense == weigh("size over board", UNSURE).dense


def test_the_reason_names_the_evidence() -> None:
    """The reason says what was covered, of how many terms, and how far the best vector leads."""
    reason = weigh("how is caching done", Evidence(coverage=0.25, terms=2, lead=1.5)).reason
    assert reason == "words cover 25% of 2 terms; the best vector leads by 1.50"


@given(st.lists(st.sampled_from(PROSE)), EVIDENCE, st.floats(0.0, 2.0))
def test_more_coverage(words: list[str], evidence: Evidence, more: float) -> None:
    """The more of the question the best chunk holds, the less the dense lane counts, or as much."""
    query = " ".join(words)
    better = replace(evidence, coverage=evidence.coverage + more)
    assert weigh(query, better).dense <= weigh(query, evidence).dense


@given(st.lists(st.sampled_from(PROSE)), EVIDENCE, st.integers(0, 2_000))
def test_more_terms(words: list[str], evidence: Evidence, more: int) -> None:
    """The more terms a question has, the less the dense lane counts, or as much."""
    query = " ".join(words)
    longer = replace(evidence, terms=evidence.terms + more)
    assert weigh(query, longer).dense <= weigh(query, evidence).dense


@given(st.lists(st.sampled_from(PROSE + LITERAL)), EVIDENCE, st.floats(0.0, 5.0))
def test_a_larger_lead(words: list[str], evidence: Evidence, more: float) -> None:
    """The farther the best vector leads, the more the dense lane counts, or as much."""
    query = " ".join(words)
    surer = replace(evidence, lead=evidence.lead + more)
    assert weigh(query, surer).dense >= weigh(query, evidence).dense


@given(st.lists(st.sampled_from(PROSE)), st.sampled_from(LITERAL), EVIDENCE)
def test_one_more_identifier(words: list[str], literal: str, evidence: Evidence) -> None:
    """One more identifier never raises the weight of the dense lane, whatever script the other words are in."""
    assert weigh(" ".join([*words, literal]), evidence).dense <= weigh(" ".join(words), evidence).dense


@given(st.lists(st.sampled_from(PROSE + LITERAL), min_size=1), EVIDENCE, st.data())
def test_more_unread_letters(words: list[str], evidence: Evidence, data: st.DataObject) -> None:
    """A word in letters that the encoder does not read, in place of a plain one, never raises the dense lane's weight."""
    place = data.draw(st.integers(0, len(words) - 1))
    plain, unread = list(words), list(words)
    plain[place], unread[place] = "otter", "выдра"
    assert weigh(" ".join(unread), evidence).dense <= weigh(" ".join(plain), evidence).dense


@given(st.text(), EVIDENCE)
def test_weight_is_a_share(query: str, evidence: Evidence) -> None:
    """Any question has a weight within 0 and 1 and a reason."""
    weights = weigh(query, evidence)
    assert 0.0 <= weights.dense <= 1.0
    assert weights.reason


@pytest.mark.parametrize("query", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_questions(query: str) -> None:
    """No question is too awkward to be weighed, whether the lanes found nothing or as much as they can."""
    for evidence in (Evidence(), UNSURE, Evidence(2.0, 10_000, 5.0)):
        assert 0.0 <= weigh(query, evidence).dense <= 1.0


@pytest.mark.parametrize("query", ["a" * 1_000_000, "_a" * 500_000, '"' * 1_000_000, "a " * 500_000, "漢" * 1_000_000])
def test_huge_questions(query: str) -> None:
    """A huge question is weighed by its beginning."""
    assert weigh(query, UNSURE) == weigh(query[:10_000], UNSURE)
