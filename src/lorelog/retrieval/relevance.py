"""The probability that a hit is relevant at all.

A score ranks the hits of one query; it does not say whether any of them answers it. So each hit also has a
probability, calibrated on questions with and without an answer (in the right project, in the wrong project, and
LoCoMo's adversarial ones). It is a logistic function of the words of the query in the hit, how far its cosine stands
out, its score, and the length of the query: a longer query is less likely matched by accident. Raw cosines are not
used because each model has its own range. `python -m bench.quality.fit_relevance` prints the weights, and
`bench/quality` measures them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p

from lorelog.core.dataclasses import dataclass
from lorelog.retrieval.score_features import MatchFeatures

_MAX_TERMS = 40


@dataclass(frozen=True, slots=True)
class QueryFeatures:
    """Features that all hits of a query share."""

    terms: int
    unread: float
    """Share of its letters that the encoder was not trained on; lexical matches then count for more."""


@dataclass(frozen=True, slots=True)
class _LogitWeights:
    """Weights on the log-odds scale."""

    base: float
    terms: float
    coverage: float
    proximity: float
    part_words: float
    unread: float
    unread_coverage: float
    distance: float = 0.0
    score: float = 0.0


_HYBRID_WEIGHTS = _LogitWeights(-11.89, 0.92, 2.97, 0.07, 2.44, -0.03, 6.99, 0.13, 10.86)
_OTHER_RANKING_WEIGHTS = _LogitWeights(-7.05, 0.87, 4.38, 0.85, 3.96, -2.04, 14.00, 0.35)
"""For other rankings, whose scores have another meaning."""
_LEXICAL_WEIGHTS = _LogitWeights(-6.31, 0.93, 4.45, 1.42, 4.23, -2.63, 14.17)
"""For the lexical lane alone."""


def relevance_probability(
    query: QueryFeatures, features: MatchFeatures, score: float | None, distance: float | None
) -> float:
    """Return the probability that a hit is relevant.

    `score` is that of the fused lanes and the match features; None for other rankings. `distance` is how far its
    cosine is above the mean of the dense candidates, in standard deviations; None if it has no vector.
    """
    weights = _LEXICAL_WEIGHTS if distance is None else _OTHER_RANKING_WEIGHTS if score is None else _HYBRID_WEIGHTS
    coverage = features.coverage
    logit = weights.base + weights.terms * log1p(min(query.terms, _MAX_TERMS)) + weights.coverage * coverage
    logit += weights.proximity * features.proximity + weights.part_words * features.part_words
    logit += query.unread * (weights.unread + weights.unread_coverage * coverage)
    logit += weights.distance * min(max(distance or 0.0, -5.0), 10.0) + weights.score * min(max(score or 0.0, 0.0), 1.0)
    return round(1.0 / (1.0 + exp(-logit)), 4)


MIN_CHUNKS_FOR_CONFIDENCE = 50
"""In a smaller index relevance means little: it was calibrated on sets of hundreds of chunks and more."""
CONFIDENCE_THRESHOLDS = (("strong", 0.6), ("likely", 0.2), ("weak", 0.0))
"""Each word with the lowest relevance it stands for.

Among the first five hits of 515 queries (memd_codesearchnet, xquad_de, xquad_zh) 89 % of the strong ones were relevant,
49 % of the likely ones and 2 % of the weak ones. None of the 177 queries without an answer had a first hit above weak.
"""


def confidence_words(relevances: Sequence[float]) -> tuple[str, ...]:
    """Return the relevance of each hit, best first, in a word. A later hit never gets a better word than an earlier one."""
    return tuple(
        next(word for word, lowest in CONFIDENCE_THRESHOLDS if relevance >= lowest)
        for relevance in falling_relevances(relevances)
    )


def falling_relevances(relevances: Sequence[float]) -> tuple[float, ...]:
    """Return the closest values that never rise, by least squares (isotonic regression by pooling adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for relevance in relevances:
        total, count = relevance, 1
        while pools and pools[-1][0] * count < total * pools[-1][1]:
            earlier, size = pools.pop()
            total, count = total + earlier, count + size
        pools.append((total, count))
    return tuple(total / count for total, count in pools for _ in range(count))
