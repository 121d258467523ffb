"""Fusion of two lanes: the explanation of its scores, and how much each lane weighs."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from lorelog.core.document import ChunkKey
from lorelog.core.ports import ChunkNeighbours
from lorelog.core.query import Candidate, Explanation, Lane
from lorelog.retrieval.fusion import (
    MAX_BORROWER_CHARS,
    MAX_DENSE_WEIGHT_EXACT,
    MAX_NEIGHBOUR_SHARE,
    MIN_NEIGHBOUR_SHARE,
    NO_SUPPORT,
    FusedCandidate,
    LaneEvidence,
    LaneMix,
    NeighbourSupport,
    foreign_share,
    fuse_convex,
    fuse_rrf,
    keyword_likeness,
    neighbour_share,
    non_latin_share,
    rank_single,
    support_from_neighbours,
    weigh_lanes,
)
from lorelog.retrieval.relevance import LaneNumbers, load_calibrations

SCORES = st.floats(allow_nan=True, allow_infinity=True)
BM25 = st.floats(0.0, 100.0)
COSINES = st.floats(-1.0, 1.0)
STEPS = st.integers(0, 1000).map(lambda number: number / 1000)
WEIGHTS = st.floats(0.0, 1.0)
LENT = st.dictionaries(st.integers(0, 9), st.floats(0.0, 150.0)), st.dictionaries(st.integers(0, 9), COSINES)


def candidates(scores: dict[ChunkKey, float]) -> list[Candidate]:
    return [Candidate(key, score) for key, score in scores.items()]


def keys(fused: Sequence[FusedCandidate]) -> list[ChunkKey]:
    return [candidate.key for candidate in fused]


def summarize(fused: Sequence[FusedCandidate]) -> list[tuple[ChunkKey, float, Explanation]]:
    return [(candidate.key, candidate.score, candidate.explanation) for candidate in fused]


def part(candidate: FusedCandidate, name: str) -> tuple[float, str]:
    return next((part.value, part.note) for part in candidate.explanation.parts if part.name == name)


def test_convex_example() -> None:
    """The score is the weighted sum of BM25 over the best and the cosine's position in its range."""
    lexical = [Candidate("a", 14.0), Candidate("b", 7.0)]
    dense = [Candidate("c", 0.8), Candidate("b", 0.75)]
    fused = fuse_convex(lexical, dense, {"a": 0.7, "b": 0.75, "c": 0.8}, LaneMix(0.5))
    assert {candidate.key: pytest.approx(candidate.score) for candidate in fused} == {"a": 0.5, "b": 0.5, "c": 0.5}
    assert keys(fused) == ["a", "b", "c"]
    assert part(fused[1], "lexical") == (0.25, "BM25 7.00 of best 14.00, weight 0.50")
    assert part(fused[1], "dense")[1] == "cosine 0.750 between 0.700 and 0.800, weight 0.50"
    assert part(fused[2], "lexical") == (0.0, "not among the lexical candidates")


def test_new_text_is_not_punished() -> None:
    """A chunk without a vector is scored by its words alone, with a note."""
    fused = fuse_convex(
        [Candidate(1, 10.0), Candidate(2, 8.0)], [Candidate(2, 0.8), Candidate(3, 0.7)], {}, LaneMix(0.7)
    )
    assert keys(fused)[0] == 1
    assert fused[0].score == pytest.approx(1.0)
    assert "no vector yet" in part(fused[0], "dense")[1]


def test_ties_keep_the_lanes_order() -> None:
    """Equal scores keep the order of the lexical lane, then of the dense lane."""
    lexical = candidates({"b": 1.0, "a": 1.0})
    assert keys(fuse_convex(lexical, [], {}, LaneMix(0.0))) == ["b", "a"]
    assert keys(fuse_convex(lexical, candidates({"d": 0.5, "c": 0.5}), {}, LaneMix(0.0))) == ["b", "a", "d", "c"]


def test_faulty_scores_are_named() -> None:
    """A score that is not finite is left out, with a note."""
    fused = fuse_convex(
        candidates({1: math.nan, 2: 3.0}), candidates({1: 0.9, 3: math.inf}), {2: math.nan}, LaneMix(0.5)
    )
    assert keys(fused) == [2, 1]
    assert "finite" in part(fused[1], "lexical")[1]
    assert "finite" in part(fused[0], "dense")[1]


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
def test_weight_outside_its_range(weight: float) -> None:
    """A weight outside 0 to 1 is rejected."""
    with pytest.raises(ValueError, match="dense share"):
        LaneMix(weight)


@given(
    st.dictionaries(st.integers(0, 20), SCORES),
    st.dictionaries(st.integers(0, 20), SCORES),
    st.builds(LaneMix, WEIGHTS, st.floats(0.1, 1.0)),
    st.builds(NeighbourSupport, *LENT),
)
@example({}, {0: sys.float_info.max, 1: -sys.float_info.max}, LaneMix(0.5), NO_SUPPORT)
def test_parts_add_up(
    lexical: dict[ChunkKey, float], dense: dict[ChunkKey, float], mix: LaneMix, support: NeighbourSupport
) -> None:
    """The parts add up to the score, which is in range; every candidate with a finite score is ranked once, by its score."""
    finite = [{key for key, score in lane.items() if math.isfinite(score)} for lane in (lexical, dense)]
    words, vectors = candidates(lexical), candidates(dense)
    for fused, ranked, most in (
        (fuse_convex(words, vectors, {}, mix, support), finite[0] | finite[1], mix.whole),
        (fuse_convex(words, vectors, dense, LaneMix(mix.dense)), finite[0] | finite[1], 1.0),
        (fuse_rrf(words, vectors), finite[0] | finite[1], 1.0),
        (rank_single(words, Lane.LEXICAL), finite[0], 1.0),
        (rank_single(vectors, Lane.DENSE), finite[1], 1.0),
    ):
        scores = [candidate.score for candidate in fused]
        assert scores == pytest.approx([candidate.explanation.score for candidate in fused], abs=1e-9)
        assert scores == sorted(scores, reverse=True)
        assert all(-1e-9 <= score <= most + 1e-9 for score in scores)
        assert sorted(keys(fused)) == sorted(ranked)


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, unique_by=(lambda pair: pair[0], lambda pair: pair[1])))
def test_extreme_weights(pairs: list[tuple[float, float]]) -> None:
    """Weight 0 is the lexical order, weight 1 the dense order."""
    words: dict[ChunkKey, float] = {key: pair[0] for key, pair in enumerate(pairs)}
    cosines: dict[ChunkKey, float] = {key: pair[1] for key, pair in enumerate(pairs)}
    for weight, lane, name in ((0.0, words, Lane.LEXICAL), (1.0, cosines, Lane.DENSE)):
        by_lane = sorted(lane, key=lambda key: -lane[key])
        assert keys(fuse_convex(candidates(words), candidates(cosines), {}, LaneMix(weight))) == by_lane
        assert keys(rank_single(candidates(lane), name)) == by_lane


@given(
    st.dictionaries(st.integers(0, 9), BM25, min_size=1),
    st.dictionaries(st.integers(0, 9), COSINES),
    WEIGHTS,
    st.floats(0.0, 50.0),
    st.data(),
)
def test_monotone(
    lexical: dict[ChunkKey, float], dense: dict[ChunkKey, float], weight: float, more: float, data: st.DataObject
) -> None:
    """A better lexical score never lowers a chunk's rank, all else equal."""
    key = data.draw(st.sampled_from(sorted(lexical, key=str)))
    similarities = dense | {other: 0.1 for other in lexical if other not in dense}
    before = fuse_convex(candidates(lexical), candidates(dense), similarities, LaneMix(weight))
    after = fuse_convex(
        candidates(lexical | {key: lexical[key] + more}), candidates(dense), similarities, LaneMix(weight)
    )
    assert keys(after).index(key) <= keys(before).index(key)


@given(
    st.lists(BM25, unique=True).flatmap(lambda scores: st.permutations(list(enumerate(scores)))),
    st.lists(COSINES, unique=True).flatmap(lambda scores: st.permutations(list(enumerate(scores, start=3)))),
    WEIGHTS,
)
def test_order_of_arrival(lexical: list[tuple[int, float]], dense: list[tuple[int, float]], weight: float) -> None:
    """The order in which the lanes list their candidates does not matter if scores differ."""
    words = [Candidate(key, score) for key, score in lexical]
    vectors = [Candidate(key, score) for key, score in dense]
    arrived = fuse_convex(words, vectors, {}, LaneMix(weight))
    sorted_first = fuse_convex(
        sorted(words, key=lambda candidate: -candidate.score),
        sorted(vectors, key=lambda candidate: -candidate.score),
        {},
        LaneMix(weight),
    )
    assert summarize(arrived) == summarize(sorted_first)
    assert summarize(fuse_rrf(words, vectors)) == summarize(fuse_rrf(words[::-1], vectors[::-1]))


def test_reciprocal_ranks() -> None:
    """Reciprocal rank fusion counts ranks from 1 and nothing else; the first of both lanes has the score 1."""
    fused = fuse_rrf(candidates({"a": 9.0, "b": 1.0}), candidates({"b": 0.9}))
    assert keys(fused) == ["b", "a"]
    assert fused[0].score == pytest.approx((1 / 62 + 1 / 61) * 61 / 2)
    assert fuse_rrf(candidates({"a": 9.0}), candidates({"a": 0.9}))[0].score == 1.0
    assert part(fused[0], "lexical")[1] == "rank 2 of 2, k 60"


def test_single_lane_is_one_part() -> None:
    """A single lane has one part, with the best hit at 1."""
    for lane in (Lane.LEXICAL, Lane.DENSE):
        fused = rank_single(candidates({"a": 0.5, "b": 0.7}), lane)
        assert keys(fused) == ["b", "a"]
        assert fused[0].score == 1.0
        assert [[part.name for part in candidate.explanation.parts] for candidate in fused] == [[lane.value]] * 2
    with pytest.raises(ValueError, match="single"):
        rank_single([], Lane.HYBRID)


# -- what neighbours lend ----------------------------------------------------------------------------------------------


def test_support_is_a_part_of_its_own() -> None:
    """The neighbours' contribution is a part of its own, and both lanes together stay within the mix."""
    lexical, dense = candidates({"a": 8.0, "b": 4.0}), candidates({"a": 0.9, "b": 0.5})
    fused = fuse_convex(lexical, dense, {}, LaneMix(0.5, 0.6), NeighbourSupport({"b": 10.0}, {"b": 0.9}))
    assert keys(fused) == ["b", "a"]
    assert fused[0].score == pytest.approx(0.6)
    assert part(fused[0], "lexical")[0] == pytest.approx(0.3 * 0.4)
    assert part(fused[0], "dense")[0] == 0.0
    assert part(fused[0], "neighbours")[0] == pytest.approx(0.3 * 0.6 + 0.3)
    assert [candidate.name for candidate in fused[1].explanation.parts] == ["lexical", "dense"]


def test_neighbours_may_take_away() -> None:
    """Neighbours with other meanings lower the score of a short chunk."""
    fused = fuse_convex([], candidates({"a": 0.9, "b": 0.1}), {}, LaneMix(1.0), NeighbourSupport({}, {"a": 0.5}))
    assert part(fused[0], "neighbours")[0] == pytest.approx(-0.5)
    assert fused[0].score == pytest.approx(0.5)


# -- neighbours

KEYS = st.integers(0, 6)
LEXICAL_BY_KEY = st.dictionaries(KEYS, st.floats(0.0, 100.0))
COSINES_BY_KEY = st.dictionaries(KEYS, st.floats(-1.0, 1.0))
PLACES = st.builds(
    ChunkNeighbours,
    st.integers(0, 2 * MAX_BORROWER_CHARS),
    st.lists(KEYS, max_size=2, unique=True).map(tuple),
    st.lists(KEYS, max_size=2, unique=True).map(tuple),
)
AROUND = st.dictionaries(KEYS, PLACES)


def test_an_answer_borrows_from_the_question_before_it() -> None:
    """A turn without any word of the query borrows from the turn before it."""
    support = support_from_neighbours({2: ChunkNeighbours(0, near=(1,))}, {1: 10.0}, {1: 0.9, 2: 0.5})
    assert support.lexical == {2: pytest.approx(MAX_NEIGHBOUR_SHARE * 10.0)}
    assert support.dense == {2: pytest.approx((0.5 + MAX_NEIGHBOUR_SHARE * 0.9) / (1 + MAX_NEIGHBOUR_SHARE))}


def test_the_nearer_lends_more() -> None:
    """The adjacent chunk counts twice as much as the next one."""
    place = ChunkNeighbours(0, near=(1,), far=(2,))
    near, far = (support_from_neighbours({0: place}, {key: 9.0}, {}).lexical[0] for key in (1, 2))
    assert near == pytest.approx(2 * far)


@given(LEXICAL_BY_KEY, COSINES_BY_KEY)
def test_a_long_text_borrows_nothing(lexical: dict[ChunkKey, float], cosines: dict[ChunkKey, float]) -> None:
    """A long chunk borrows nothing."""
    around: dict[ChunkKey, ChunkNeighbours] = {0: ChunkNeighbours(MAX_BORROWER_CHARS + 1, (1, 2), (3, 4))}
    assert support_from_neighbours(around, lexical, cosines) == NO_SUPPORT


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_shorter_borrows_more(length: int, more: int) -> None:
    """Each further character lowers the borrowed share, down to almost nothing at the maximum length."""
    assert neighbour_share(length + more) <= neighbour_share(length) <= MAX_NEIGHBOUR_SHARE
    assert neighbour_share(MAX_BORROWER_CHARS + 1) < MIN_NEIGHBOUR_SHARE <= neighbour_share(MAX_BORROWER_CHARS - 10)


@given(AROUND, LEXICAL_BY_KEY, COSINES_BY_KEY)
def test_never_more_than_the_best_neighbour_gives(
    around: dict[ChunkKey, ChunkNeighbours], lexical: dict[ChunkKey, float], cosines: dict[ChunkKey, float]
) -> None:
    """The borrowed score is at most the share of the best neighbour's, and a cosine ends between both."""
    support = support_from_neighbours(around, lexical, cosines)
    for key, score in support.lexical.items():
        place = around[key]
        best = max(lexical.get(other, 0.0) for other in (*place.near, *place.far))
        own = lexical.get(key, 0.0)
        assert own <= score <= own + neighbour_share(place.length) * best + 1e-9
    for key, cosine in support.dense.items():
        place = around[key]
        known = [cosines[other] for other in (*place.near, *place.far) if other in cosines]
        assert min(cosines[key], *known) - 1e-9 <= cosine <= max(cosines[key], *known) + 1e-9


@given(AROUND, LEXICAL_BY_KEY, COSINES_BY_KEY, st.sampled_from([math.nan, math.inf, -math.inf]), KEYS)
def test_faulty_scores_are_ignored(
    around: dict[ChunkKey, ChunkNeighbours],
    lexical: dict[ChunkKey, float],
    cosines: dict[ChunkKey, float],
    fault: float,
    key: int,
) -> None:
    """A score that is not finite is ignored in either lane."""
    without = support_from_neighbours(
        around, *({other: score for other, score in lane.items() if other != key} for lane in (lexical, cosines))
    )
    assert support_from_neighbours(around, lexical | {key: fault}, cosines | {key: fault}) == without


def test_a_clear_first_is_not_buried() -> None:
    """What one lane puts first by far stays before what is in the middle of both, if the shares are sharpened; nearly equal cosines stay nearly equal."""
    lexical, dense = candidates({"a": 1.0, "b": 8.0, "c": 10.0}), candidates({"a": 0.9, "b": 0.6, "c": 0.3})
    assert keys(fuse_convex(lexical, dense, {}, LaneMix(0.55, 1.0)))[0] == "b"
    assert keys(fuse_convex(lexical, dense, {}, LaneMix(0.55, 1.0, 3.0)))[0] == "a"
    alike = fuse_convex([], candidates({"a": 0.51, "b": 0.5}), {}, LaneMix(1.0, 1.0, 3.0, 0.25))
    assert alike[1].score > 0.85


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
