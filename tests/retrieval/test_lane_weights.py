"""The weights of the lanes for a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.retrieval.fusion import (
    MAX_DENSE_WEIGHT_EXACT,
    LaneEvidence,
    foreign_share,
    keyword_likeness,
    non_latin_share,
    weigh_lanes,
)
from lorelog.retrieval.relevance import LaneNumbers, load_calibrations

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
UNSURE = LaneEvidence(coverage=0.3, terms=3, lead=1.0)
EVIDENCE = st.builds(LaneEvidence, coverage=st.floats(0.0, 2.0), terms=st.integers(0, 2_000), lead=st.floats(0.0, 5.0))
BUILTIN = load_calibrations()["builtin/lorelog-2"].lanes
NUMBERS = st.sampled_from([found.lanes for found in load_calibrations().values()])


@pytest.mark.parametrize("query", [*LITERAL, '"connection reset by peer"', "`ls`", "0.4.23", "run()"])
def test_literal_questions(query: str) -> None:
    """A query of identifiers, paths, codes or quotes prefers the lexical lane, regardless of the vectors."""
    weights = weigh_lanes(query, replace(UNSURE, lead=5.0))
    assert weights.dense == MAX_DENSE_WEIGHT_EXACT
    assert "literally" in weights.reason


@pytest.mark.parametrize("query", ["如何配置缓存", "キャッシュの設定", "캐시 설정 방법", "как настроить кеш", "πώς"])
def test_unread_scripts(query: str) -> None:
    """A query in a script the built-in encoder does not support prefers the lexical lane more."""
    assert non_latin_share(query) == 1.0
    weights = weigh_lanes(query, UNSURE, BUILTIN)
    assert weights.dense < weigh_lanes("how is caching done", UNSURE, BUILTIN).dense
    assert "100% is in scripts or languages" in weights.reason


def test_accents_are_latin() -> None:
    """German, Vietnamese and full-width letters are Latin script."""
    for query in ("Größe der Zwischenablage über Bord", "bộ nhớ đệm", "ＣＡＣＨＥ"):
        assert non_latin_share(query) == 0.0
    assert weigh_lanes("Größe über Bord", UNSURE).dense == weigh_lanes("size over board", UNSURE).dense


@pytest.mark.parametrize("query", ["Wie groß ist der Zwischenspeicher", "Quelle est la taille", "¿Cuál es el tamaño?"])
def test_languages_that_the_encoder_hardly_knows(query: str) -> None:
    """A question in another language trusts the vectors of a measured encoder less than an English one, and says so."""
    foreign = weigh_lanes(query, UNSURE, BUILTIN)
    assert foreign.dense < weigh_lanes("How large is the cache", UNSURE, BUILTIN).dense
    assert "languages" in foreign.reason


@pytest.mark.parametrize("query", ["where is the MIT license", "who hat in Los Angeles", "sudo su", "parse_config", ""])
def test_english_is_not_another_language(query: str) -> None:
    """Names and commands in English questions are not taken for words of another language."""
    assert foreign_share(query.split()) == 0.0


def test_the_reason_names_the_evidence() -> None:
    """The reason names the coverage, the number of terms, and the lead of the best vector."""
    reason = weigh_lanes("how is caching done", LaneEvidence(coverage=0.25, terms=2, lead=1.5)).reason
    assert reason == "words cover 25% of 2 terms; the best vector leads by 1.50"


@given(st.lists(st.sampled_from(PROSE)), EVIDENCE, st.floats(0.0, 1.0), NUMBERS)
@pytest.mark.parametrize("case", [("coverage", 2.0, -1), ("lead", 5.0, 1), ("agreement", 1.0, 1)])
def test_more_evidence_speaks_for_its_lane(
    case: tuple[str, float, int], words: list[str], evidence: LaneEvidence, more: float, numbers: LaneNumbers
) -> None:
    """More coverage never raises the dense lane's weight; a larger lead, and more agreement, never lower it."""
    name, most, sign = case
    query, more_evidence = " ".join(words), replace(evidence, **{name: getattr(evidence, name) + more * most})
    assert sign * weigh_lanes(query, more_evidence, numbers).dense >= sign * weigh_lanes(query, evidence, numbers).dense


@pytest.mark.parametrize("terms", [2, 12])
def test_words_that_say_little(terms: int) -> None:
    """If the best chunk holds almost none of the query, the vectors decide, however long the query is."""
    evidence = LaneEvidence(coverage=0.02, terms=terms, lead=1.0)
    assert weigh_lanes("how do we ship it", evidence).dense > 0.8


@given(EVIDENCE, NUMBERS)
def test_all_weights_are_one(evidence: LaneEvidence, numbers: LaneNumbers) -> None:
    """The weights of the lanes, of close reading and of the entry sum to 1."""
    weights = weigh_lanes("how is caching done", evidence, numbers)
    assert weights.lanes + weights.readings.total == pytest.approx(1.0)


@given(st.lists(st.sampled_from(PROSE), max_size=7), st.sampled_from(LITERAL), EVIDENCE)
def test_one_more_identifier(words: list[str], literal: str, evidence: LaneEvidence) -> None:
    """One more identifier never raises the dense lane's weight in a short query, in any script."""
    assert weigh_lanes(" ".join([*words, literal]), evidence).dense <= weigh_lanes(" ".join(words), evidence).dense


@given(st.lists(st.sampled_from(PROSE + LITERAL), min_size=1), EVIDENCE, st.data())
def test_more_unread_letters(words: list[str], evidence: LaneEvidence, data: st.DataObject) -> None:
    """A word in an unsupported script never raises the dense lane's weight."""
    place = data.draw(st.integers(0, len(words) - 1))
    plain, unread = list(words), list(words)
    plain[place], unread[place] = "otter", "выдра"
    assert weigh_lanes(" ".join(unread), evidence).dense <= weigh_lanes(" ".join(plain), evidence).dense


@given(st.text() | st.text("?!… -;()[]{}<>|*+^$.`'\"“\ud83e水👩\u200d\u202e\0"), EVIDENCE)
def test_weight_is_a_share(query: str, evidence: LaneEvidence) -> None:
    """Any query has a weight between 0 and 1 and a reason."""
    weights = weigh_lanes(query, evidence)
    assert 0.0 <= weights.dense <= 1.0
    assert weights.reason


def test_a_report_is_not_meant_literally() -> None:
    """A few identifiers in a long report of an error hardly change the weight of the vectors; a question of nothing else does."""
    report = "the page stays empty after the second login and no error is shown, see {} in the log of the worker"
    plain, mixed = (weigh_lanes(report.format(name), UNSURE).dense for name in ("that", "parse_config"))
    assert mixed == pytest.approx(plain, abs=0.01)
    assert weigh_lanes("parse_config", UNSURE).dense < plain / 2


@pytest.mark.parametrize("query", ["a" * 1_000_000, "_a" * 500_000, '"' * 1_000_000, "a " * 500_000, "漢" * 1_000_000])
def test_huge_questions(query: str) -> None:
    """A huge query is weighed by its beginning."""
    assert weigh_lanes(query, UNSURE) == weigh_lanes(query[:10_000], UNSURE)


@pytest.mark.parametrize(
    ("query", "rarities", "likeness"),
    [
        ("Schmiergelder", [6.0], 1.0),
        ("lock timeout postgres", [2.0, 2.0, 2.0], 1.0),
        ("lock timeout postgres retry jitter", [6.0] * 5, 1.0),
        ("python check list empty string", [2.0] * 5, 0.6**4),
        ("what is a lock", [6.0], 0.0),
        ("wer war Luther", [6.0, 6.0], 0.0),
    ],
)
def test_keywords_are_told_from_questions(query: str, rarities: list[float], likeness: float) -> None:
    """Up to three words without small ones, and up to five rare ones, are keywords; common ones hardly, and a question has small words."""
    assert keyword_likeness(query, rarities, 1_000) == likeness


def test_keywords_are_meant_as_they_are_typed() -> None:
    """What looks like keywords gives the lexical lane more than the same evidence of a question, and says so."""
    typed, asked = (weigh_lanes("webhooks", replace(UNSURE, keywords=likeness), BUILTIN) for likeness in (1.0, 0.0))
    assert typed.dense < asked.dense / 2
    assert "taken for keywords" in typed.reason
