"""Whether a hit's own word about its relevance can be trusted.

The first hit of every judged question is looked at, and it is true when it is a relevant document. Beside these stand
questions that nothing answers: those a set marks so (LoCoMo's category 5, abstentions), and those asked of the wrong
documents, of another group or, where a set has no groups, of another set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.quality.pipeline import Bench, Place
from bench.quality.sets import JudgedSet, Question

from lorelog.retrieval.measure import auroc, calibration_error

MOST_OF_A_KIND = 200


@dataclass(frozen=True)
class Claim:
    """What a first hit said of its own relevance, of which kind of question, and whether it was so."""

    kind: str
    relevance: float
    true: bool


@dataclass(frozen=True)
class Calibration:
    """What the claims of a set, or of all sets, come to."""

    claims: int
    unanswerable: int
    auroc: float
    """How well relevance tells a first hit that is relevant from one that is not."""
    auroc_answerable: float
    """How well it tells questions that have an answer from those that have none."""
    error: float


def claim(kind: str, places: Sequence[Place], relevant: Sequence[str] = ()) -> Claim | None:
    """The claim of a ranking's first hit; None while hits make no claims. No hit claims that nothing is relevant."""
    if not places:
        return Claim(kind, 0.0, true=False)
    value = getattr(places[0].hit, "relevance", None)
    return None if value is None else Claim(kind, float(value), places[0].document in relevant)


def negatives(bench: Bench, given: JudgedSet, strangers: Sequence[Question]) -> list[Claim]:
    """Claims about questions that nothing answers. `strangers` are the questions of another set."""
    claims = [claim("unanswerable", bench.ask(one.text, one.group)) for one in spread(given.unanswerable)]
    groups = sorted({text.group for text in given.texts})
    if len(groups) > 1:
        after = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
        astray = [(one.text, after[one.group]) for one in spread(given.judged) if one.group in after]
    else:
        astray = [(one.text, groups[0]) for one in spread(strangers)]
    claims += [claim("elsewhere", bench.ask(text, group)) for text, group in astray]
    return [one for one in claims if one is not None]


def spread(questions: Sequence[Question], most: int = MOST_OF_A_KIND) -> Sequence[Question]:
    """So many questions at most, from the whole length of the list."""
    step = max(1, -(-len(questions) // most))
    return questions[::step]


def calibrate(claims: Sequence[Claim]) -> Calibration:
    """Sum claims up."""
    values = [one.relevance for one in claims]
    return Calibration(
        claims=len(claims),
        unanswerable=sum(one.kind != "judged" for one in claims),
        auroc=auroc(values, [one.true for one in claims]),
        auroc_answerable=auroc(values, [one.kind == "judged" for one in claims]),
        error=calibration_error(values, [one.true for one in claims]),
    )
