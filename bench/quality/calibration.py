"""Whether a hit's own word about its relevance can be trusted.

The first hit of every judged question is looked at, and it is true when it is a relevant document. Beside these stand
questions that nothing answers: those a set marks so (LoCoMo's category 5, abstentions), and those asked of the wrong
documents, of another group or, where a set has no groups, of another set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, nan

from bench.quality.pipeline import Bench, Place
from bench.quality.sets import JudgedSet, Question

MOST_OF_A_KIND = 200
BINS = 10


@dataclass(frozen=True)
class Claim:
    """The relevance that a first hit claims, the kind of query, and whether the hit is relevant."""

    kind: str
    relevance: float
    true: bool


@dataclass(frozen=True)
class Calibration:
    """Calibration over the claims of one set or all sets."""

    claims: int
    unanswerable: int
    auroc: float
    """How well relevance separates relevant first hits from others."""
    auroc_answerable: float
    """How well it separates queries with an answer from those without."""
    error: float


def claim(kind: str, places: Sequence[Place], relevant: Sequence[str] = ()) -> Claim | None:
    """Return the claim of a ranking's first hit; None if hits make no claims. No hits claim relevance 0."""
    if not places:
        return Claim(kind, 0.0, true=False)
    value = getattr(places[0].hit, "relevance", None)
    return None if value is None else Claim(kind, float(value), places[0].document in relevant)


def negatives(bench: Bench, given: JudgedSet, strangers: Sequence[Question]) -> list[Claim]:
    """Return claims for queries without an answer. `strangers` are the queries of another set."""
    claims = [claim("unanswerable", bench.ask(item.text, item.group)) for item in spread(given.unanswerable)]
    groups = sorted({text.group for text in given.texts})
    if len(groups) > 1:
        after = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
        astray = [(item.text, after[item.group]) for item in spread(given.judged) if item.group in after]
    else:
        astray = [(item.text, groups[0]) for item in spread(strangers)]
    claims += [claim("elsewhere", bench.ask(text, group)) for text, group in astray]
    return [item for item in claims if item is not None]


def spread(questions: Sequence[Question], most: int = MOST_OF_A_KIND) -> Sequence[Question]:
    """Return at most a number of queries, spread over the list."""
    step = max(1, -(-len(questions) // most))
    return questions[::step]


def calibrate(claims: Sequence[Claim]) -> Calibration:
    """Summarize claims."""
    values = [item.relevance for item in claims]
    return Calibration(
        claims=len(claims),
        unanswerable=sum(item.kind != "judged" for item in claims),
        auroc=auroc(values, [item.true for item in claims]),
        auroc_answerable=auroc(values, [item.kind == "judged" for item in claims]),
        error=calibration_error(values, [item.true for item in claims]),
    )


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """Return how often a true score outranks a false one, ties counted half; NaN if either kind is missing."""
    order = sorted(zip(scores, labels, strict=True), key=lambda pair: pair[0])
    positives = sum(labels)
    negatives = len(order) - positives
    if not positives or not negatives:
        return nan
    wins = 0.0
    below = start = 0
    while start < len(order):
        end = start
        while end < len(order) and order[end][0] == order[start][0]:
            end += 1
        true = sum(label for _, label in order[start:end])
        false = end - start - true
        wins += true * (below + false / 2)
        below += false
        start = end
    return wins / (positives * negatives)


def calibration_error(probabilities: Sequence[float], labels: Sequence[bool], bins: int = BINS) -> float:
    """Return the expected calibration error: the gap between prediction and outcome, averaged over bins of equal
    width.
    """
    sums: dict[int, list[float]] = {}
    for probability, label in zip(probabilities, labels, strict=True):
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"{probability} is not a probability")
        kept = sums.setdefault(min(int(probability * bins), bins - 1), [0.0, 0.0])
        kept[0] += probability
        kept[1] += label
    if not sums:
        return nan
    return fsum(abs(promised - true) for promised, true in sums.values()) / len(labels)
