"""Ranking metrics: by hand where the number is known, by property otherwise."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorelog.services.evaluation.search_quality import mean_interval, measure_ranking, metric_names, paired_difference

NAMES = st.sampled_from([f"d{number}" for number in range(30)])
RANKED = st.lists(NAMES, unique=True)
GAINS = st.dictionaries(NAMES, st.sampled_from([0.0, 1.0, 2.0, 3.0])).filter(lambda gains: any(gains.values()))


def test_one_relevant_document_at_the_third_place() -> None:
    """A document at the third position counts below the first and above the fifth, with the discount of the third."""
    assert measure_ranking(["a", "b", "c"], {"c": 1.0}) == {
        "R@1": 0.0,
        "R@5": 1.0,
        "R@10": 1.0,
        "all@10": 1.0,
        "nDCG@10": 0.5,
        "MRR": pytest.approx(1 / 3),
    }


def test_gain_is_linear_and_the_ideal_is_made_of_all_judged_documents() -> None:
    """Gains 3, 2 and 1, of which the best was not found: (1 + 2 / log2 3) over (3 + 2 / log2 3 + 1 / 2)."""
    values = measure_ranking(["small", "middle"], {"large": 3.0, "middle": 2.0, "small": 1.0, "wrong": 0.0})

    assert values["nDCG@10"] == pytest.approx((1 + 2 / log2(3)) / (3 + 2 / log2(3) + 0.5))
    assert [values["R@1"], values["R@5"]] == pytest.approx([1 / 3, 2 / 3])
    assert (values["all@10"], values["MRR"]) == (0.0, 1.0)


BEFORE = [f"x{number}" for number in range(99)]


@pytest.mark.parametrize(
    ("ranked", "metric", "value"),
    [
        # At 100 the first relevant document counts a hundredth, at 101 nothing; no other metric looks below the tenth position.
        ([*BEFORE, "a"], "MRR", 0.01),
        ([*BEFORE, "x", "a"], "MRR", 0.0),
        ([*BEFORE, "a"], "R@10", 0.0),
        # A document that is ranked twice counts at its first position only.
        (["x", "x", "a", "a"], "MRR", 0.5),
    ],
)
def test_how_far_down_a_document_counts(ranked: list[str], metric: str, value: float) -> None:
    """The first relevant document counts down to the hundredth position, and each at its first position only."""
    assert measure_ranking(ranked, {"a": 1.0})[metric] == value


def test_the_depth_can_be_chosen() -> None:
    """At depth 3 the fourth position is ignored, and the metrics are named by the depth."""
    values = measure_ranking(["x", "y", "z", "a"], {"a": 1.0}, k=3)

    assert tuple(values) == metric_names(3) == ("R@1", "R@3", "R@5", "all@3", "nDCG@3", "MRR")
    assert (values["R@3"], values["R@5"], values["nDCG@3"]) == (0.0, 1.0, 0.0)


def test_a_question_without_a_relevant_document_is_refused() -> None:
    """A query without a relevant document is rejected."""
    with pytest.raises(ValueError, match="relevant"):
        measure_ranking(["a"], {"a": 0.0})


@given(RANKED, GAINS)
def test_measures_stay_within_their_bounds(ranked: list[str], gains: dict[str, float]) -> None:
    """Every metric is between 0 and 1, recall grows with depth, and all@10 is full recall."""
    values = measure_ranking(ranked, gains)

    assert all(0.0 <= value <= 1.0 + 1e-12 for value in values.values())
    assert values["R@1"] <= values["R@5"] <= values["R@10"]
    assert (values["all@10"] == 1.0) == (values["R@10"] == 1.0)
    assert values["R@1"] <= values["MRR"] or values["R@1"] == 0.0


@given(GAINS)
def test_the_ideal_ranking_is_perfect(gains: dict[str, float]) -> None:
    """Documents in order of their gain give nDCG and reciprocal rank 1."""
    values = measure_ranking(sorted(gains, key=lambda name: -gains[name]), gains)

    assert values["nDCG@10"] == pytest.approx(1.0)
    assert values["MRR"] == 1.0


@given(RANKED.filter(lambda ranked: len(ranked) > 1), GAINS, st.data())
def test_moving_a_relevant_document_up_never_hurts(
    ranked: list[str], gains: dict[str, float], data: st.DataObject
) -> None:
    """Moving a greater gain before a smaller one lowers no metric."""
    place = data.draw(st.integers(0, len(ranked) - 2))
    first, second = ranked[place : place + 2]
    if gains.get(first, 0.0) > gains.get(second, 0.0):
        first, second = second, first
    worse = [*ranked[:place], first, second, *ranked[place + 2 :]]
    better = [*ranked[:place], second, first, *ranked[place + 2 :]]
    before, after = measure_ranking(worse, gains), measure_ranking(better, gains)

    assert all(after[name] >= before[name] - 1e-12 for name in before)


@settings(deadline=None)  # the first draw loads numpy
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_the_interval_holds_the_average_and_repeats(values: list[float]) -> None:
    """The interval is within the values, and deterministic."""
    interval = mean_interval(values)

    assert interval == mean_interval(values)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9
    assert interval.mean == pytest.approx(sum(values) / len(values))


def test_the_interval_has_the_width_that_theory_gives() -> None:
    """For 400 values, half of them 1, the interval is the average and about 1.96 standard errors of .025 to each side."""
    interval = mean_interval([0.0, 1.0] * 200)

    assert [interval.mean, interval.low, interval.high] == pytest.approx([0.5, 0.451, 0.549], abs=0.008)


def test_rankings_are_compared_question_by_question() -> None:
    """A small lead on every query is significant, although the two intervals overlap widely."""
    second = [number / 50 for number in range(50)]
    first = [value + 0.01 for value in second]
    ahead = paired_difference(first, second)

    assert [ahead.low, ahead.high] == pytest.approx([0.01, 0.01])
    assert mean_interval(first).low < mean_interval(second).high
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0], [1.0, 0.0])
