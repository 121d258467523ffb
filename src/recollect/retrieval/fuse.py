"""Two lanes' scores become one, and every share of it keeps its name.

The default is a convex combination, because it keeps what the lanes know about distances: a best hit far ahead of the
others stays far ahead. Reciprocal ranks, which throw that away, are there by choice. Both lanes are normalised per
question: BM25 has no upper end, so it is divided by the best; cosines of one model sit in a narrow band, so they are
stretched over the range of the candidates at hand. Where all cosines are equal they say nothing and each counts as 1.

A chunk without a vector is new, not bad: its lexical share stands in for the dense one. A score that is not a finite
number is left out with a note. Equal scores keep the order of the lexical lane, then of the dense lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from recollect.core.document import Key
from recollect.core.query import Candidate, Explanation, Lane, Part

RRF_K = 60


@dataclass(frozen=True, slots=True)
class Fused:
    """A candidate with its final score, which is nothing but the sum of its explanation."""

    key: Key
    explanation: Explanation

    @property
    def score(self) -> float:
        return self.explanation.score


@dataclass(frozen=True, slots=True)
class _Scores:
    """One lane's finite scores, best first, and the keys whose score was not a finite number."""

    by_key: dict[Key, float]
    faulty: frozenset[Key]

    @property
    def ranks(self) -> dict[Key, int]:
        return {key: rank for rank, key in enumerate(self.by_key, start=1)}


def fuse_convex(
    lexical: Sequence[Candidate],
    dense: Sequence[Candidate],
    similarities: Mapping[Key, float],
    weight_dense: float,
) -> list[Fused]:
    """Rank the union of both lanes by `(1 - w) * lexical + w * dense`, each normalised to 0..1.

    `similarities` are the cosines of the candidates that have a vector, whichever lane proposed them; a dense
    candidate that is not among them keeps the cosine it came with.
    """
    if not 0.0 <= weight_dense <= 1.0:
        raise ValueError(f"weight_dense is {weight_dense}, not within 0 and 1")
    words = _scores(lexical)
    proposed = _scores(dense)
    keys = _union(words, proposed)
    cosines = _scores(
        Candidate(key, similarities.get(key, proposed.by_key.get(key, inf)))
        for key in keys
        if key in similarities or key in proposed.by_key
    )
    share = _LexicalShare(words, 1.0 - weight_dense)
    spread = _DenseShare(cosines, weight_dense)
    fused = [Fused(key, Explanation((share.part(key), spread.part(key, share.ratio(key))))) for key in keys]
    return _ranked(fused, words.ranks, cosines.ranks)


def fuse_rrf(lexical: Sequence[Candidate], dense: Sequence[Candidate], k: int = RRF_K) -> list[Fused]:
    """Rank the union of both lanes by the sum of `1 / (k + rank)`."""
    words, proposed = _scores(lexical), _scores(dense)
    lanes = ((Lane.LEXICAL, words.ranks), (Lane.DENSE, proposed.ranks))
    fused = [
        Fused(key, Explanation(tuple(_reciprocal(lane, ranks, key, k) for lane, ranks in lanes)))
        for key in _union(words, proposed)
    ]
    return _ranked(fused, words.ranks, proposed.ranks)


def rank_single(candidates: Sequence[Candidate], lane: Lane) -> list[Fused]:
    """Rank one lane alone, normalised as in the convex combination, so that scores of all lanes read alike."""
    scores = _scores(candidates)
    if lane is Lane.LEXICAL:
        share = _LexicalShare(scores, 1.0)
        parts = {key: share.part(key) for key in scores.by_key}
    elif lane is Lane.DENSE:
        spread = _DenseShare(scores, 1.0)
        parts = {key: spread.part(key, 0.0) for key in scores.by_key}
    else:
        raise ValueError(f"{lane} is not a single lane")
    return _ranked([Fused(key, Explanation((part,))) for key, part in parts.items()], scores.ranks, {})


class _LexicalShare:
    """BM25 as a share of the best BM25; no words in common is 0."""

    def __init__(self, scores: _Scores, weight: float) -> None:
        self._scores = scores
        self._weight = weight
        self._best = max(scores.by_key.values(), default=0.0)

    def ratio(self, key: Key) -> float:
        score = self._scores.by_key.get(key, 0.0)
        return score / self._best if score > 0.0 else 0.0

    def part(self, key: Key) -> Part:
        score = self._scores.by_key.get(key)
        if score is not None:
            note = f"BM25 {score:.2f} of best {self._best:.2f}, weight {self._weight:.2f}"
        elif key in self._scores.faulty:
            note = "BM25 was not a finite number and is left out"
        else:
            note = "not among the lexical candidates"
        return Part(Lane.LEXICAL.value, self._weight * self.ratio(key), note)


class _DenseShare:
    """A cosine's place between the lowest and the highest of the candidates."""

    def __init__(self, cosines: _Scores, weight: float) -> None:
        self._cosines = cosines
        self._weight = weight
        self._low = min(cosines.by_key.values(), default=0.0)
        self._high = max(cosines.by_key.values(), default=0.0)

    def part(self, key: Key, stand_in: float) -> Part:
        cosine = self._cosines.by_key.get(key)
        if cosine is not None:
            value = self._ratio(cosine)
            note = f"cosine {cosine:.3f} between {self._low:.3f} and {self._high:.3f}, weight {self._weight:.2f}"
        else:
            value = stand_in
            cause = "cosine was not a finite number" if key in self._cosines.faulty else "no vector yet"
            note = f"{cause}, the lexical share stands in, weight {self._weight:.2f}"
        return Part(Lane.DENSE.value, self._weight * value, note)

    def _ratio(self, cosine: float) -> float:
        low = self._low / 2  # halves, so that not even the widest range of floats overflows
        width = self._high / 2 - low
        return min((cosine / 2 - low) / width, 1.0) if width > 0.0 else 1.0


def _scores(candidates: Iterable[Candidate]) -> _Scores:
    """Sort by score, best first; of a key that comes twice the better score counts."""
    finite: dict[Key, float] = {}
    faulty: set[Key] = set()
    for candidate in candidates:
        if not isfinite(candidate.score):
            faulty.add(candidate.key)
        elif candidate.score > finite.get(candidate.key, -inf):
            finite[candidate.key] = candidate.score
    best_first = sorted(finite.items(), key=lambda item: -item[1])
    return _Scores(dict(best_first), frozenset(faulty.difference(finite)))


def _union(words: _Scores, proposed: _Scores) -> list[Key]:
    return list(dict.fromkeys((*words.by_key, *proposed.by_key)))


def _reciprocal(lane: Lane, ranks: Mapping[Key, int], key: Key, k: int) -> Part:
    rank = ranks.get(key)
    if rank is None:
        return Part(lane.value, 0.0, f"not among the {lane.value} candidates")
    return Part(lane.value, 1.0 / (k + rank), f"rank {rank} of {len(ranks)}, k {k}")


def _ranked(fused: list[Fused], first: Mapping[Key, int], second: Mapping[Key, int]) -> list[Fused]:
    return sorted(fused, key=lambda one: (-one.score, first.get(one.key, inf), second.get(one.key, inf)))
