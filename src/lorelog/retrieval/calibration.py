"""What was learned of an encoder: where its cosines lie, how far to trust it, and what its hits are worth.

`python -m bench.quality.fit --write FILE` learns these numbers on judged sets and writes `calibrations.json`. One number of
lorelog-1 is set by hand: `unread` of hybrid hits (docs/decisions/retrieval.md).

A cosine says nothing by itself: each encoder has its own range, and each question its own level (short and common
questions are near everything). In a large index the other candidates give the level; in one of ten notes there are none.
So the mean vector of a hundred texts about anything is shipped with an encoder (`centre`): its product with the
question's vector is the cosine that this question has with a text chosen at random, and costs one product. `spread` is
the usual deviation from it.

An encoder that was not measured has no centre. Its cosines are then compared with those of the other candidates.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import lru_cache
from math import fsum
from operator import mul
from pathlib import Path

from msgspec import Struct, field

from lorelog.core.ports import Vector

CALIBRATIONS_FILE = "calibrations.json"
UNMEASURED = "unmeasured"
"""Name of the numbers for encoders that were not measured."""


class LaneNumbers(Struct, frozen=True):
    """Weights of the lanes: logarithms, and how evidence changes them; the weights of readings are plain numbers, and how evidence
    changes their logarithms.
    """

    words: float = 2.0
    words_rarity: float = 1.0
    words_coverage: float = 0.0
    words_length: float = 0.0
    words_keywords: float = 0.0
    vectors: float = 1.0
    vectors_known: float = 0.0
    vectors_unread: float = 0.0
    vectors_foreign: float = 0.0
    vectors_height: float = 0.0
    vectors_lead: float = 0.0
    vectors_length: float = 0.0
    proximity: float = 1.0
    proximity_known: float = 0.0
    part_words: float = 1.0
    entry: float = 1.0
    entry_long: float = 0.0


RelevanceNumbers = Mapping[str, float]
"""Weights of a hit's features on the log-odds scale; all of `RELEVANCE_FEATURES`."""
RELEVANCE_FEATURES = (
    *("base", "terms", "coverage", "proximity", "part_words", "unread", "unread_coverage"),
    *("chunks", "lead", "height", "level", "score", "margin"),
)


class EncoderCalibration(Struct, frozen=True):
    """The numbers of one encoder."""

    centre: tuple[float, ...] = ()
    """Mean vector of texts about anything; empty if the encoder was not measured."""
    level: float = 0.0
    """The mean cosine of questions with the centre."""
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
    """Return the numbers of an encoder, given as `provider/model`."""
    known = load_calibrations()
    return known.get(model) or known[UNMEASURED]


@lru_cache(maxsize=1)
def load_calibrations() -> dict[str, EncoderCalibration]:
    """Read the numbers of all encoders."""
    import json

    text = (Path(__file__).parent / CALIBRATIONS_FILE).read_text("utf-8")
    return {model: _read_calibration(found) for model, found in json.loads(text).items()}


def _read_calibration(found: dict[str, object]) -> EncoderCalibration:
    import base64
    from typing import Any, cast

    values = cast("dict[str, Any]", found)
    none = dict.fromkeys(RELEVANCE_FEATURES, 0.0)
    codes = array("b", base64.b64decode(values["centre"]))
    return EncoderCalibration(
        centre=tuple(values["step"] * code for code in codes),
        level=values["level"],
        spread=values["spread"],
        lanes=LaneNumbers(**values["lanes"]),
        hybrid={**none, **values["hybrid"]},
        other={**none, **values["other"]},
        words={**none, **values["words"]},
    )
