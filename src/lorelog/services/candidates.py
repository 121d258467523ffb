"""Asking the lanes: who could be meant, what the lanes' answers say about the question, and the first ranking.

Both lanes are asked for far more than is wanted. Whatever words propose gets its cosine too, short chunks borrow from
their neighbours, and the lanes are mixed by the evidence they gave. Nothing here reads a chunk's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import fsum, isfinite, log, sqrt
from operator import attrgetter

from lorelog.core.document import Key
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Store, Vector
from lorelog.core.query import Candidate, Fusion, Lane, Term
from lorelog.retrieval import entry
from lorelog.retrieval.closeread import LANES
from lorelog.retrieval.fuse import Fused, Mix, fuse_convex, fuse_rrf, rank_single
from lorelog.retrieval.neighbours import LONGEST, NONE, Support, lend
from lorelog.retrieval.weigh import Evidence, Weights, weigh
from lorelog.services.probe import known as how_well_known

MOST_HITS = 10_000
_LEAST_CANDIDATES = 200
_CANDIDATES_A_HIT = 10
_SUPPORTED_A_LANE = 60
_SCORE = attrgetter("score")
_MEASURED_A_HIT = 4
_LEAST_MEASURED = 80
_FULL_TERM = 2.2
"""BM25 of one term of rarity 1 in a chunk made of it: k1 + 1."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: as it was typed, as words, and as a vector where a model could make one."""

    text: str
    terms: Sequence[Term]
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What the lanes propose, ranked, and what is known of it."""

    ranked: list[Fused]
    rarity: Mapping[str, float] = field(default_factory=dict)
    """Of the question's terms."""
    lexical: Sequence[Candidate] = ()
    cosines: Mapping[Key, float] = field(default_factory=dict)
    mean: float = 0.0
    deviation: float = 0.0
    """Of the dense candidates' cosines."""
    weights: Weights | None = None
    """None where one lane answered alone, or the lanes were not weighed."""

    def distance(self, key: Key) -> float | None:
        """Return how far a chunk's cosine is above the mean, in standard deviations; None without one."""
        if key not in self.cosines or self.deviation <= 0.0:
            return None
        return (self.cosines[key] - self.mean) / self.deviation


def find(store: Store, question: Question, options: SearchOptions) -> Found:
    """Return the candidates for a question, best first."""
    limit = max(_LEAST_CANDIDATES, _CANDIDATES_A_HIT * min(options.k, MOST_HITS))
    # In one call: a store that is far away answers both lanes in the time of one.
    terms = () if options.lane is Lane.DENSE else question.terms
    lexical, dense = store.propose(terms, question.vector, options.filters, limit)
    rarity = store.rarity([term.text for term in question.terms])
    if question.vector is None:
        alone = Mix(0.0, LANES if options.lane is Lane.HYBRID else 1.0)
        return Found(_words_alone(store, lexical, alone, options.k), rarity, lexical)
    known: dict[Key, float] = dict(dense)
    mean, deviation = _spread(list(map(_SCORE, dense)))
    if options.lane is Lane.DENSE:
        return Found(rank_single(dense, Lane.DENSE), rarity, (), known, mean, deviation)
    if options.fusion is Fusion.RRF:
        return Found(fuse_rrf(lexical, dense), rarity, lexical, known, mean, deviation)
    missing = [one.key for one in lexical if one.key not in known]
    known |= store.similarities(question.vector, missing)
    evidence = replace(_evidence(rarity, lexical, dense, (mean, deviation)), known=how_well_known(store))
    weights = weigh(question.text, evidence)
    support = _support(store, question.vector, lexical, dense, known)
    ranked = fuse_convex(lexical, dense, known, Mix(weights.dense, LANES), support)
    return Found(_by_entry(store, ranked, options.k), rarity, lexical, known, mean, deviation, weights)


def _words_alone(store: Store, lexical: Sequence[Candidate], mix: Mix, k: int) -> list[Fused]:
    if mix.whole == 1.0:
        return rank_single(lexical, Lane.LEXICAL)
    return _by_entry(store, fuse_convex(lexical, (), {}, mix, _support(store, None, lexical, (), {})), k)


def _by_entry(store: Store, ranked: list[Fused], k: int) -> list[Fused]:
    """Count what an entry's size is worth, for the first candidates; what is behind them stays behind."""
    measured = max(_LEAST_MEASURED, _MEASURED_A_HIT * min(k, MOST_HITS))
    sizes = store.entry_sizes([one.key for one in ranked[:measured]], entry.MOST)
    first = [
        one.plus(entry.find_worth(size), partial(entry.explain, size)) if (size := sizes.get(one.key)) else one
        for one in ranked[:measured]
    ]
    return [*sorted(first, key=lambda one: -one.score), *ranked[measured:]]


def _support(
    store: Store,
    vector: Vector | None,
    lexical: Sequence[Candidate],
    dense: Sequence[Candidate],
    cosines: Mapping[Key, float],
) -> Support:
    """Return what the short ones among the first candidates of each lane borrow."""
    first = dict.fromkeys(one.key for lane in (lexical, dense) for one in lane[:_SUPPORTED_A_LANE])
    around = store.surroundings(list(first), LONGEST)
    near = {key for place in around.values() for key in (*place.near, *place.far)}
    if not near:
        return NONE
    if vector is not None:
        cosines = {**cosines, **store.similarities(vector, [key for key in near if key not in cosines])}
    return lend(around, dict(lexical), cosines)


def _evidence(
    rarity: Mapping[str, float], lexical: Sequence[Candidate], dense: Sequence[Candidate], spread: tuple[float, float]
) -> Evidence:
    whole = _FULL_TERM * fsum(rarity.values())
    best = max(filter(isfinite, map(_SCORE, lexical)), default=0.0)
    mean, deviation = spread
    highest = max(filter(isfinite, map(_SCORE, dense)), default=0.0)
    expected = sqrt(2.0 * log(max(len(dense), 3)))
    return Evidence(
        coverage=min(best / whole, 2.0) if whole > 0.0 else 0.0,
        terms=len(rarity),
        lead=min((highest - mean) / deviation / expected, 5.0) if deviation > 0.0 else 0.0,
    )


def _spread(scores: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation of the finite ones."""
    finite = list(filter(isfinite, scores))
    if len(finite) < 2:
        return (finite[0] if finite else 0.0), 0.0
    mean = fsum(finite) / len(finite)
    deviation = sqrt(fsum((score - mean) ** 2 for score in finite) / len(finite))
    return mean, (deviation if deviation > 1e-6 else 0.0)
