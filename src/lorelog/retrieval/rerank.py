"""Blends a cross-encoder's scores of the first candidates into the ranking.

The weight depends on the query, because no fixed weight is right: a cross-encoder improves dialogue and prose and
worsens code. The scored candidates keep the range of their first-stage scores; the cross-encoder moves each within
that range by its weight. So no candidate it read falls below one it did not read, the scores keep their scale, and
the move is one more part of the explanation. Four things lower the weight:

- Code: these models were trained on prose. The measure is the share of code-like words in the median candidate.
- Identifiers in the query, by the same measure.
- Letters outside the Latin script, which most of these models do not support.
- Low logits: if even the best text is called irrelevant, its lead is mostly noise; the scale then ends at
  `SURE_LOGIT`, above the best one, and part of the range is not used.

If the weight is zero, the model is not called. Agreement with the first stage, the lead of the best logit and the
share of candidates called relevant were tried as further features and did not help.

Nothing here raises. A score that is not finite, or a list of the wrong length, counts as not scored, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from statistics import median
from time import monotonic

from msgspec import Struct

from lorelog.core.errors import ModelError
from lorelog.core.options import RerankOptions
from lorelog.core.ports import Reranker
from lorelog.core.query import ScorePart
from lorelog.retrieval.fusion import non_latin_share

RERANK_PART_NAME = "cross-encoder"
"""Name of the part in the explanation."""
MAX_RERANK_WEIGHT = 0.7
"""The weight if nothing lowers it."""
MAX_CODE_SHARE = 0.1
"""Share of code-like words in the median candidate at which the weight is zero."""
SURE_LOGIT = 3.0
"""The logit of the best text from which its lead counts in full."""

_MAX_CHARS_READ = 2_000
_LOGIT_LIMIT = 30.0
"""Odds of e^30, so that no sum overflows."""
_PUNCTUATION = ".,;:!?\"'“”‘’…*`"
_CODE_PATTERN = re.compile(
    r"\w[_/\\=@|]\w|[a-z][A-Z]"  # snake_case, paths, a=b, camelCase
    r"|\w\.[a-z_]\w|\w\(|::"  # dotted names, calls
    r"|[={}<>;\\|$]|\A-{1,2}[a-z]"  # operators, flags
)


class RerankResult(Struct, frozen=True):
    """The changes by a cross-encoder: for each candidate a part to add to its explanation, or None."""

    parts: tuple[ScorePart | None, ...]
    weight: float = 0.0
    reason: str = ""
    """The weight and its reason, for `SearchReply.weighing`; empty if the model did not answer."""
    notes: tuple[str, ...] = ()


def rerank(
    query: str, first: Sequence[float], texts: Sequence[str], reranker: Reranker, options: RerankOptions
) -> RerankResult:
    """Score the first candidates, best first, with a cross-encoder; on failure a note gives the reason.

    `first` are the candidates' scores; the options limit how many are read.
    """
    count = min(options.candidates, len(first), len(texts))
    weight, reason = _rerank_weight(query, texts[:count])
    if not weight:  # the model is not needed, nor need it exist
        return RerankResult((None,) * len(first), 0.0, reason)
    try:
        cross = reranker.score(query, texts[:count], monotonic() + options.timeout_s)
    except ModelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return RerankResult((None,) * len(first), notes=(f"not reranked: {error.message}{hint}",))
    done = blend(query, first[:count], texts[:count], cross)
    notes = list(done.notes)
    if len(cross) == count and (late := sum(score is None for score in cross)):
        notes.append(
            f"the cross-encoder read {count - late} of {count} candidates in {options.timeout_s:g} s; "
            "the others keep their score (rerank.timeout_s)"
        )
    rest = (None,) * (len(first) - count)
    return RerankResult((*done.parts, *rest), done.weight, done.reason, tuple(notes))


def blend(query: str, first: Sequence[float], texts: Sequence[str], cross: Sequence[float | None]) -> RerankResult:
    """Return how the logits move each candidate from its first score."""
    none: tuple[ScorePart | None, ...] = (None,) * len(first)
    if len(cross) != len(first):
        return RerankResult(
            none, notes=(f"not reranked: the model returned {len(cross)} scores for {len(first)} candidates",)
        )
    logits = {
        place: min(max(score, -_LOGIT_LIMIT), _LOGIT_LIMIT)
        for place, score in enumerate(cross)
        if score is not None and isfinite(score)
    }
    faulty = sum(score is not None for score in cross) - len(logits)
    notes = (f"{faulty} of the cross-encoder's scores were not finite numbers and are left out",) if faulty else ()
    scored = [first[place] for place in logits]
    if len(scored) < 2 or not isfinite(width := max(scored) - min(scored)):
        return RerankResult(none, notes=notes)
    weight, reason = _rerank_weight(query, texts)
    worst, best = min(logits.values()), max(SURE_LOGIT, *logits.values())
    parts = list(none)
    for place, logit in logits.items():
        share = (logit - worst) / (best - worst) if best > worst else 1.0
        move = weight * (min(scored) + width * share - first[place])
        note = f"logit {logit:.2f} between {worst:.2f} and {best:.2f}, weight {weight:.2f}"
        parts[place] = ScorePart(RERANK_PART_NAME, move, note)
    return RerankResult(tuple(parts), weight, reason, notes)


def _rerank_weight(query: str, texts: Sequence[str]) -> tuple[float, str]:
    if not texts:
        return 0.0, ""
    code, exact, unread = median(map(code_share, texts)), code_share(query), non_latin_share(query[:_MAX_CHARS_READ])
    weight = round(MAX_RERANK_WEIGHT * max(1.0 - code / MAX_CODE_SHARE, 0.0) * (1.0 - exact) * (1.0 - unread), 4)
    shares = {
        "a candidate's words look like code": code,
        "the question's words look like code": exact,
        "its letters are outside Latin script": unread,
    }
    reasons = [f"{share:.0%} of {what}" for what, share in shares.items() if share > 0.0]
    return weight, f"{RERANK_PART_NAME} {weight:.2f}: {'; '.join(reasons) or 'prose'}"


def code_share(text: str) -> float:
    """Return the share of a text's words that look like code."""
    words = text[:_MAX_CHARS_READ].split()
    return (
        sum(_CODE_PATTERN.search(word.strip(_PUNCTUATION)) is not None for word in words) / len(words) if words else 0.0
    )
