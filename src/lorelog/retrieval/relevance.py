"""How likely a hit is relevant at all.

A score ranks the hits of one question; it does not tell whether any of them answers it, and the best of nothing looks like
the best of something. So each hit also carries a probability, calibrated on questions with and without an answer (asked
in the right place, in the wrong place, and LoCoMo's adversarial ones). It is a logistic function of what the hit
holds of the question literally, of how far its vector stands out, of its score, and of how long the question is: the more
a question says, the less easily it is satisfied by accident. Raw cosines are not used, since each model has its own
band of them. `python -m bench.quality.fit_relevance` prints the numbers, and `bench/quality` how well they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log1p

from lorelog.retrieval.closeread import Reading

_MOST_TERMS = 40


@dataclass(frozen=True, slots=True)
class Asked:
    """What is the same for all hits of a question."""

    terms: int
    unread: float
    """Share of its letters that the encoder does not read; what words find then counts for more."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What each thing counts, on the scale of log-odds."""

    base: float
    terms: float
    coverage: float
    proximity: float
    part_words: float
    unread: float
    unread_coverage: float
    distance: float = 0.0
    score: float = 0.0


_OURS = _Numbers(-11.89, 0.92, 2.97, 0.07, 2.44, -0.03, 6.99, 0.13, 10.86)
_OTHER = _Numbers(-7.05, 0.87, 4.38, 0.85, 3.96, -2.04, 14.00, 0.35)
"""For rankings other than ours, whose scores mean something else."""
_WORDS = _Numbers(-6.31, 0.93, 4.45, 1.42, 4.23, -2.63, 14.17)
"""Where words alone answered."""


def judge(asked: Asked, reading: Reading, score: float | None, distance: float | None) -> float:
    """Return the probability that a hit is relevant.

    `score` is that of the mixed lanes and the close reading; None where something else ranked. `distance` is how far its
    cosine is above the mean of the dense candidates, in standard deviations; None where it has none.
    """
    numbers = _WORDS if distance is None else _OTHER if score is None else _OURS
    held = reading.coverage
    logit = numbers.base + numbers.terms * log1p(min(asked.terms, _MOST_TERMS)) + numbers.coverage * held
    logit += numbers.proximity * reading.proximity + numbers.part_words * reading.part_words
    logit += asked.unread * (numbers.unread + numbers.unread_coverage * held)
    logit += numbers.distance * min(max(distance or 0.0, -5.0), 10.0) + numbers.score * min(max(score or 0.0, 0.0), 1.0)
    return round(1.0 / (1.0 + exp(-logit)), 4)
