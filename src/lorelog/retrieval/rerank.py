"""A cross-encoder's second look at the first candidates, and how much it counts.

It counts as much as the evidence of this very question allows, because no fixed weight is right: it lifts dialogue and
prose and lowers code. The scored candidates share the range of first-stage scores they had; the cross-encoder moves each
within that range by its weight. So nothing it read falls below what it did not read, the scores keep their scale
whatever made them, and the move is one more part of the explanation. Four things lower the weight:

- Code. These models have read prose. What counts is the share of words that look like code, in the middle candidate.
- Identifiers in the question, by the same measure.
- Letters outside the Latin script, which most of these models do not read.
- Low logits. Where even the best text is called irrelevant, its lead over the others is mostly noise: the scale then
  ends at `SURE`, above the best one, and the whole of the range is not used.

Where the weight is nothing, the model is not asked at all. Agreement with the first stage, the lead of the best logit and the
share of candidates called relevant were tried as further evidence and did not pay.

Nothing here raises. A score that is no finite number, or a list of the wrong length, counts as not scored, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from time import monotonic

from lorelog.core.errors import ModelError
from lorelog.core.options import RerankOptions
from lorelog.core.ports import Reranker
from lorelog.core.query import Part

NAME = "cross-encoder"
"""What the part of the explanation is called."""
WEIGHT = 0.7
"""The weight where nothing speaks against it."""
CODE = 0.1
"""Share of the middle candidate's words that look like code at which the cross-encoder counts for nothing."""
SURE = 3.0
"""The logit that the best text must reach for its lead to count in full."""

_LONGEST_READ = 2_000
_LOGIT_LIMIT = 30.0
_MARKS = ".,;:!?\"'“”‘’…*`"
_LIKE_CODE = re.compile(
    r"\w[_/\\=@|]\w|[a-z][A-Z]"  # snake_case, paths, a=b, camelCase
    r"|\w\.[a-z_]\w|\w\(|::"  # dotted names, calls
    r"|[={}<>;\\|$]|\A-{1,2}[a-z]"  # operators, flags
)


@dataclass(frozen=True, slots=True)
class Reranked:
    """What a cross-encoder changes: for each candidate a part to add to its explanation, or None."""

    parts: tuple[Part | None, ...]
    weight: float = 0.0
    reason: str = ""
    """How much it counted and why, in words, for `SearchReply.weighing`; empty when it did not answer."""
    notes: tuple[str, ...] = ()


def rerank(
    query: str, first: Sequence[float], texts: Sequence[str], reranker: Reranker, options: RerankOptions
) -> Reranked:
    """Let a cross-encoder look at the first candidates, given best first; where it cannot, a note says why.

    `first` are the scores that the candidates have; as many of them as the options allow are read.
    """
    count = min(options.candidates, len(first), len(texts))
    weight, reason = _weigh(query, texts[:count])
    if not weight:  # then it need not be asked, nor be there
        return Reranked((None,) * len(first), 0.0, reason)
    try:
        cross = reranker.score(query, texts[:count], monotonic() + options.timeout_s)
    except ModelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Reranked((None,) * len(first), notes=(f"not reranked: {error.message}{hint}",))
    done = blend(query, first[:count], texts[:count], cross)
    notes = list(done.notes)
    if len(cross) == count and (late := sum(score is None for score in cross)):
        notes.append(
            f"the cross-encoder read {count - late} of {count} candidates in {options.timeout_s:g} s; "
            "the others keep their score (rerank.timeout_s)"
        )
    rest = (None,) * (len(first) - count)
    return Reranked((*done.parts, *rest), done.weight, done.reason, tuple(notes))


def blend(query: str, first: Sequence[float], texts: Sequence[str], cross: Sequence[float | None]) -> Reranked:
    """Return how the logits of a cross-encoder move each candidate from its first score."""
    none: tuple[Part | None, ...] = (None,) * len(first)
    if len(cross) != len(first):
        return Reranked(none, notes=(f"not reranked: {len(cross)} scores came for {len(first)} candidates",))
    logits = {place: _limit(score) for place, score in enumerate(cross) if score is not None and isfinite(score)}
    faulty = sum(score is not None for score in cross) - len(logits)
    notes = (f"{faulty} of the cross-encoder's scores were not finite numbers and are left out",) if faulty else ()
    scored = [first[place] for place in logits]
    if len(scored) < 2 or not isfinite(width := max(scored) - min(scored)):
        return Reranked(none, notes=notes)
    weight, reason = _weigh(query, texts)
    scale = _Scale(min(scored), width, min(logits.values()), max(SURE, *logits.values()))
    parts = list(none)
    for place, logit in logits.items():
        move = weight * (scale.place(logit) - first[place])
        note = f"logit {logit:.2f} between {scale.worst:.2f} and {scale.best:.2f}, weight {weight:.2f}"
        parts[place] = Part(NAME, move, note)
    return Reranked(tuple(parts), weight, reason, notes)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logits laid over the range of the first-stage scores."""

    low: float
    width: float
    worst: float
    best: float

    def place(self, logit: float) -> float:
        span = self.best - self.worst
        return self.low + self.width * ((logit - self.worst) / span if span > 0.0 else 1.0)


def _weigh(query: str, texts: Sequence[str]) -> tuple[float, str]:
    """Return the cross-encoder's weight for a question and its candidates, with the reason."""
    if not texts:
        return 0.0, ""
    code, exact, unread = median(map(code_share, texts)), code_share(query), _unread_share(query)
    weight = round(WEIGHT * max(1.0 - code / CODE, 0.0) * (1.0 - exact) * (1.0 - unread), 4)
    reasons = []
    if code > 0.0:
        reasons.append(f"{code:.0%} of a candidate's words look like code")
    if exact > 0.0:
        reasons.append(f"{exact:.0%} of the question's words look like code")
    if unread > 0.0:
        reasons.append(f"{unread:.0%} of its letters are outside Latin script")
    return weight, f"{NAME} {weight:.2f}: {'; '.join(reasons) or 'prose'}"


def code_share(text: str) -> float:
    """Return the share of a text's words that look like code."""
    words = text[:_LONGEST_READ].split()
    return sum(_LIKE_CODE.search(word.strip(_MARKS)) is not None for word in words) / len(words) if words else 0.0


def _unread_share(text: str) -> float:
    letters = [character for character in text[:_LONGEST_READ] if character.isalpha()]
    return sum(not _is_latin(character) for character in letters) / len(letters) if letters else 0.0


def _is_latin(character: str) -> bool:
    return character < "\u0250" or "\u1e00" <= character <= "\u1eff"


def _limit(logit: float) -> float:
    """Odds beyond e^30 to one say nothing more, and no sum of them overflows."""
    return min(max(logit, -_LOGIT_LIMIT), _LOGIT_LIMIT)
