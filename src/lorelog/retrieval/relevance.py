"""The probability that a hit is relevant at all.

A score ranks the hits of one query; it does not say whether any of them answers it. So each hit also has a
probability, calibrated on questions with and without an answer, in indexes of 5 chunks to thousands. It is a logistic
function of:

- the words of the query in the hit, and how far its cosine is above those of texts about anything (`calibration`);
- its score and its margin over the best other hit: a hit that stands alone is more often right;
- how far the best cosine is ahead of the others, and the number of chunks: among many, one looks like an answer by accident.

Along a list of hits it never rises: a hit is not more likely relevant than one that ranks before it. Where nothing is
known it is 0 and has no word: a hit without a word of the query, by an encoder that was not measured, in an index too small
to compare its cosine with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p, log10

from msgspec import Struct

from lorelog.retrieval.calibration import EncoderCalibration
from lorelog.retrieval.score_features import MatchFeatures

_MAX_TERMS = 40
_MAX_CHUNKS = 10_000
_MIN_HEIGHT, _MAX_HEIGHT = -4.0, 12.0
_MAX_LEVEL = 4.0
UNKNOWN_RELEVANCE = 0.0
_MIN_RELEVANCE = 0.0001
MIN_CHUNKS_TO_COMPARE = 200
"""In a smaller index the cosines of the other chunks say too little about that of a hit."""


class QueryFeatures(Struct, frozen=True):
    """Features that all hits of a query share."""

    terms: int
    unread: float
    """Share of its letters or small words that the encoder was not trained on; lexical matches then count for more."""
    chunks: int = 1_000
    """Number of chunks that were searched."""
    lead: float = 0.0
    """How far the best cosine is ahead of the others."""
    mean_cosine: float = 0.0
    """The query's mean cosine with texts about anything; 0 if not known."""


def relevance_probability(
    query: QueryFeatures,
    reading: MatchFeatures,
    calibration: EncoderCalibration,
    *,
    score: float | None = None,
    margin: float = 0.0,
    cosine: float | None = None,
) -> float:
    """Return the probability that a hit is relevant; `UNKNOWN_RELEVANCE` if nothing is known of it.

    `score` is that of the fused lanes and the match features, and None for other rankings; `margin` is how far it is above that
    of the best other hit. `cosine` is None if the hit has no vector, or no vectors were searched.
    """
    height, level = 0.0, 0.0
    if cosine is None:
        numbers = calibration.words
    else:
        numbers = calibration.other if score is None else calibration.hybrid
        if calibration.is_measured:
            height = (cosine - query.mean_cosine) / calibration.spread
            level = (query.mean_cosine - calibration.level) / calibration.spread
        elif query.chunks < MIN_CHUNKS_TO_COMPARE and reading.coverage + reading.part_words <= 0.0:
            return UNKNOWN_RELEVANCE
    ranked = (0.0, 0.0) if score is None else (score, margin)
    features = relevance_features(query, reading, height=height, level=level, score=ranked[0], margin=ranked[1])
    logit = sum(numbers[name] * value for name, value in features.items())
    return max(round(1.0 / (1.0 + exp(-min(max(logit, -30.0), 30.0))), 4), _MIN_RELEVANCE)


def relevance_features(
    query: QueryFeatures, reading: MatchFeatures, *, height: float, level: float, score: float, margin: float
) -> dict[str, float]:
    """Return the features of a hit by the names of `calibration.RELEVANCE_FEATURES`. `bench.quality` learns from the same.

    `height` and `level` are in deviations of the encoder, and 0 if it was not measured.
    """
    return {
        "base": 1.0,
        "terms": log1p(min(query.terms, _MAX_TERMS)),
        "coverage": reading.coverage,
        "proximity": reading.proximity,
        "part_words": reading.part_words,
        "unread": query.unread,
        "unread_coverage": query.unread * reading.coverage,
        "chunks": log10(min(max(query.chunks, 1), _MAX_CHUNKS)) - 2.0,
        "lead": query.lead,
        "height": min(max(height, _MIN_HEIGHT), _MAX_HEIGHT),
        "level": min(max(level, -_MAX_LEVEL), _MAX_LEVEL),
        "score": min(max(score, 0.0), 1.0),
        "margin": min(max(margin, -1.0), 1.0),
    }


CONFIDENCE_THRESHOLDS = (("strong", 0.6), ("likely", 0.2), ("weak", 0.0))
"""Each word with the lowest relevance it stands for."""


def never_rising(relevances: Sequence[float]) -> tuple[float, ...]:
    """Return each relevance, or that of an earlier hit if it is lower; unknown ones stay, and lower no other."""
    lowest = 1.0
    falling = []
    for relevance in relevances:
        if relevance != UNKNOWN_RELEVANCE:
            lowest = min(lowest, relevance)
        falling.append(UNKNOWN_RELEVANCE if relevance == UNKNOWN_RELEVANCE else lowest)
    return tuple(falling)


def confidence_words(relevances: Sequence[float]) -> tuple[str | None, ...]:
    """Return the relevance of each hit, best first, in a word; None if it is unknown."""
    return tuple(
        None
        if relevance == UNKNOWN_RELEVANCE
        else next(word for word, lowest in CONFIDENCE_THRESHOLDS if relevance >= lowest)
        for relevance in never_rising(relevances)
    )
