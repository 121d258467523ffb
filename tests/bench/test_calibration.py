"""Metrics of probabilities: by hand where the number is known, by property otherwise."""

from __future__ import annotations

from math import isnan

import pytest
from bench.quality.calibration import auroc, calibration_error
from hypothesis import given
from hypothesis import strategies as st

CLAIMS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1)


def test_area_under_the_curve_by_hand() -> None:
    """Of four pairs of a true and a false one, two are in order, one is tied and one is not: 2.5 of 4."""
    assert auroc([0.9, 0.5, 0.5, 0.7], [True, True, False, False]) == 2.5 / 4
    assert auroc([0.1, 0.2, 0.8, 0.9], [False, False, True, True]) == 1.0
    assert isnan(auroc([0.5, 0.6], [True, True]))


@given(CLAIMS.filter(lambda claims: len({label for _, label in claims}) == 2))
def test_area_under_the_curve_is_the_share_of_pairs_in_order(claims: list[tuple[float, bool]]) -> None:
    """The fast computation equals the comparison of all pairs."""
    true = [score for score, label in claims if label]
    false = [score for score, label in claims if not label]
    pairs = [(high > low) + 0.5 * (high == low) for high in true for low in false]

    scores, labels = zip(*claims, strict=True)
    assert auroc(scores, labels) == pytest.approx(sum(pairs) / len(pairs))


def test_calibration_error_by_hand() -> None:
    """Two predictions of .9 of which one is true and two of .1 of which none is: (|1.8 - 1| + |.2 - 0|) / 4."""
    assert calibration_error([0.9, 0.9, 0.1, 0.1], [True, False, False, False]) == pytest.approx(0.25)
    assert calibration_error([1.0, 0.0], [True, False]) == 0.0
    assert isnan(calibration_error([], []))
    with pytest.raises(ValueError, match="probability"):
        calibration_error([1.5], [True])


@given(CLAIMS)
def test_calibration_error_stays_within_its_bounds(claims: list[tuple[float, bool]]) -> None:
    """The calibration error is between 0 and 1."""
    probabilities, labels = zip(*claims, strict=True)

    assert 0.0 <= calibration_error(probabilities, labels) <= 1.0
