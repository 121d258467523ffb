"""What was learned of an encoder: where its cosines lie, how far to trust it, and what its hits are worth.

`python -m bench.quality.fit --write FILE` learns these numbers on judged sets and writes `calibrations.json`.

A cosine says nothing by itself: each encoder has its own range, and each question its own level. So the mean vector of a hundred
texts about anything is shipped with an encoder (`centre`): its product with the question's vector is the cosine that this question
has with a text chosen at random. `spread` is the usual deviation from it. An encoder that was not measured has no centre.

A score ranks the hits of one query; it does not say whether any of them answers it. So each hit also has a probability of being
relevant: a logistic function of features that docs/search.md explains, calibrated on questions with and without an answer, in
indexes of 5 chunks to thousands. Along a list of hits it never rises. Where nothing is known it is 0 and has no word: a hit without a
word of the query, by an encoder that was not measured, in an index too small to compare its cosine with others.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, fsum, log1p, log10
from operator import mul
from pathlib import Path

from msgspec import Struct, field

from lorelog.core.ports import Vector
from lorelog.retrieval.score_features import MatchFeatures

CALIBRATIONS_FILE = "calibrations.json"
UNMEASURED = "unmeasured"
"""Name of the numbers for encoders that were not measured."""


class LaneNumbers(Struct, frozen=True):
    """Weights of the lanes. The first seven give the log-odds of the vectors' share, in the order of `fusion.lane_features`."""

    constant: float = 0.0
    coverage: float = 0.0
    terms: float = 0.0
    lead: float = 0.0
    keywords: float = 0.0
    unread: float = 0.0
    agreement: float = 0.0
    bm25_power: float = 1.0
    """Power of the coverage that BM25 is multiplied by."""
    proximity: float = 1.0
    """Weights of readings beside the best chunk of their lane: of the words, and of the size of an entry beside the vectors."""
    part_words: float = 1.0
    entry: float = 0.0


RelevanceNumbers = Mapping[str, float]
"""Weights of a hit's features on the log-odds scale; all of `RELEVANCE_FEATURES`."""
RELEVANCE_FEATURES = tuple("base terms coverage proximity part_words keywords chunks lead height margin".split())


class EncoderCalibration(Struct, frozen=True):
    centre: tuple[float, ...] = ()
    """Mean vector of texts about anything; empty if the encoder was not measured."""
    spread: float = 0.0
    """Standard deviation of a question's cosines with such texts."""
    lanes: LaneNumbers = field(default_factory=LaneNumbers)
    hybrid: RelevanceNumbers = field(default_factory=dict)
    """For hits of our ranking of both lanes."""
    other: RelevanceNumbers = field(default_factory=dict)
    """For other rankings with vectors, whose scores have another meaning."""
    words: RelevanceNumbers = field(default_factory=dict)
    """For the lexical lane alone."""

    @property
    def is_measured(self) -> bool:
        """Whether cosines can be compared with those of texts about anything."""
        return bool(self.centre)

    def mean_cosine(self, vector: Vector) -> float:
        """Return the mean cosine of a question with texts about anything; 0 if that is not known."""
        if 4 * len(self.centre) != len(vector):
            return 0.0
        return fsum(map(mul, self.centre, array("f", vector)))


def calibration_of(model: str) -> EncoderCalibration:
    known = load_calibrations()
    return known.get(model) or known[UNMEASURED]


@lru_cache(maxsize=1)
def load_calibrations() -> dict[str, EncoderCalibration]:
    """Read the numbers of all encoders."""
    import json

    text = (Path(__file__).parent / CALIBRATIONS_FILE).read_text("utf-8")
    return {model: _read_calibration(found) for model, found in json.loads(text).items()}


def _read_calibration(found: dict[str, object]) -> EncoderCalibration:
    from binascii import a2b_base64
    from typing import Any, cast

    values = cast("dict[str, Any]", found)
    none = dict.fromkeys(RELEVANCE_FEATURES, 0.0)
    codes = array("b", a2b_base64(values["centre"]))
    return EncoderCalibration(
        centre=tuple(values["step"] * code for code in codes),
        spread=values["spread"],
        lanes=LaneNumbers(**values["lanes"]),
        hybrid={**none, **values["hybrid"]},
        other={**none, **values["other"]},
        words={**none, **values["words"]},
    )


_MAX_TERMS = 40
_MAX_CHUNKS = 10_000
_MIN_HEIGHT, _MAX_HEIGHT = -4.0, 12.0
UNKNOWN_RELEVANCE = 0.0
_MIN_RELEVANCE = 0.0001
MIN_CHUNKS_TO_COMPARE = 200
"""In a smaller index the cosines of the other chunks say too little about that of a hit."""


class QueryFeatures(Struct, frozen=True):
    """Features that all hits of a query share."""

    terms: int
    chunks: int = 1_000
    """Number of chunks that were searched."""
    lead: float = 0.0
    """How far the best cosine is ahead of the others."""
    mean_cosine: float = 0.0
    """The query's mean cosine with texts about anything; 0 if not known."""
    keywords: float = 0.0
    """How much it looks like keywords (`fusion.keyword_likeness`)."""


def relevance_probability(
    query: QueryFeatures,
    reading: MatchFeatures,
    calibration: EncoderCalibration,
    *,
    margin: float | None = None,
    cosine: float | None = None,
) -> float:
    """Return the probability that a hit is relevant; `UNKNOWN_RELEVANCE` if nothing is known of it.

    `margin` is how far its score, that of the fused lanes and the match features, is above that of the best other hit, or above 0 if there is
    none; None for other rankings. `cosine` is None if the hit has no vector, or no vectors were searched.
    """
    height = 0.0
    if cosine is None:
        numbers = calibration.words
    else:
        numbers = calibration.other if margin is None else calibration.hybrid
        if calibration.is_measured:
            height = (cosine - query.mean_cosine) / calibration.spread
        elif query.chunks < MIN_CHUNKS_TO_COMPARE and reading.coverage + reading.part_words <= 0.0:
            return UNKNOWN_RELEVANCE
    features = relevance_features(query, reading, height, margin or 0.0)
    logit = sum(numbers[name] * value for name, value in features.items())
    return max(round(1.0 / (1.0 + exp(-min(max(logit, -30.0), 30.0))), 4), _MIN_RELEVANCE)


def relevance_features(query: QueryFeatures, reading: MatchFeatures, height: float, margin: float) -> dict[str, float]:
    """Return the features of a hit by the names of `calibration.RELEVANCE_FEATURES`. `bench.quality` learns from the same.

    `height` is in deviations of the encoder, and 0 if it was not measured.
    """
    return {
        "base": 1.0,
        "terms": log1p(min(query.terms, _MAX_TERMS)),
        "coverage": reading.coverage,
        "proximity": reading.proximity if query.terms > 1 else reading.coverage,
        "part_words": reading.part_words,
        "keywords": query.keywords,
        "chunks": log10(min(max(query.chunks, 1), _MAX_CHUNKS)) - 2.0,
        "lead": query.lead,
        "height": min(max(height, _MIN_HEIGHT), _MAX_HEIGHT),
        "margin": min(max(margin, -1.0), 1.0),
    }


CONFIDENCE_THRESHOLDS = (("strong", 0.8), ("likely", 0.5), ("weak", 0.0))
"""Each word with the lowest relevance it stands for: of strong hits nine in ten are relevant, of likely ones seven."""


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
