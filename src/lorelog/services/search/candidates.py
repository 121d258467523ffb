"""Query the lexical and dense lanes, and fuse their candidates into a first ranking.

Both lanes return far more candidates than needed. Every lexical candidate gets its cosine, short chunks borrow support from their
neighbours, and the lanes are weighed by the evidence they give. No chunk's text is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum, isfinite, log, sqrt
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.options import SearchOptions
from lorelog.core.ports import ChunkNeighbours, Store, Vector
from lorelog.core.query import Candidate, Filters, Fusion, Lane, ScorePart, Term
from lorelog.light.delivery_files import STANDING_TYPES
from lorelog.retrieval import score_features
from lorelog.retrieval.fusion import (
    MAX_BORROWER_CHARS,
    MAX_COVERAGE,
    NO_SUPPORT,
    SHARPNESS,
    USUAL_REACH,
    FusedRanking,
    LaneEvidence,
    LaneMix,
    LaneWeights,
    NeighbourSupport,
    fuse_convex,
    fuse_rrf,
    keyword_likeness,
    rank_single,
    support_from_neighbours,
    weigh_lanes,
)
from lorelog.retrieval.relevance import UNMEASURED, EncoderCalibration, calibration_of
from lorelog.retrieval.score_features import LANES_WEIGHT, entry_mix, entry_share

MAX_HITS = 10_000
_CANDIDATES, _FIRST_OF_WORDS = (200, 10), (40, 4)
"""How many a lane is asked for, at least and per hit. Of the lexical lane alone, twice what is read is enough at first."""
_SUPPORTED_PER_LANE = 60
_SCORE = attrgetter("score")
_MEASURED_PER_HIT = 4
_MIN_MEASURED = 80
STANDING_WEIGHT = 0.35
"""Score of a rule or decision of the user that is near to a query of which no text has a word; twice that if its subject is named."""
_NEAR = 1.5
"""Deviations of the encoder above the cosines of texts about anything from which a text is near."""
_MAX_STANDING = 20
"""Of each lane."""
_PAST_WORDS = frozenset({"did", "was", "were", "had", "happened", "went", "came", "when"})
"""A question with one of them is about what happened, which turns tell."""
_FULL_TERM_SCORE = 2.2
"""BM25 of one term of rarity 1 in a chunk that consists of it: k1 + 1."""


StandingCheck = Callable[[StoredChunk, str], bool | None]
"""Whether a query names what a rule or decision of the user is about; None of a memory that is none, or does not stand."""


class SearchQuestion(Struct, frozen=True):
    """A query as text, as terms, and as a vector if a model is available, with what was learned of that model."""

    text: str
    terms: Sequence[Term]
    vector: Vector | None = None
    calibration: EncoderCalibration = field(default_factory=lambda: calibration_of(UNMEASURED))
    chunks: int = 0
    """Number of chunks that are searched."""
    stands: StandingCheck | None = None


class CandidateSet(Struct, frozen=True):
    """The ranked candidates of the lanes, and their statistics."""

    ranked: FusedRanking
    rarity: Mapping[str, float] = field(default_factory=dict)
    """Of the query's terms."""
    lexical: Sequence[Candidate] = ()
    cosines: Mapping[ChunkKey, float] = field(default_factory=dict)
    mean: float = 0.0
    weights: LaneWeights | None = None
    """None if a single lane answered, or the lanes were not weighed."""
    lead: float = 0.0
    """Of the dense lane, as in `LaneEvidence`."""
    priors: Mapping[ChunkKey, float] = field(default_factory=dict)
    """What the scores of the user's rules and decisions have in addition."""
    may_be_more: bool = False


def find_candidates(
    store: Store, question: SearchQuestion, options: SearchOptions, *, is_first: bool = True
) -> CandidateSet:
    """Return the candidates for a query, best first; with `is_first`, of the lexical lane alone those that are mostly enough."""
    with store.reading():
        return _find_candidates(store, question, options, is_first=is_first and options.lane is Lane.LEXICAL)


def _find_candidates(store: Store, question: SearchQuestion, options: SearchOptions, *, is_first: bool) -> CandidateSet:
    least, per_hit = _FIRST_OF_WORDS if is_first else _CANDIDATES
    limit = max(least, per_hit * min(options.k, MAX_HITS))
    # One call: a remote store answers both lanes in one round trip.
    terms = () if options.lane is Lane.DENSE else question.terms
    lexical, dense = store.propose(terms, question.vector, options.filters, limit)
    rarity = weigh_terms(store, question.terms)
    if question.vector is None:
        ranked = rank_single(lexical, Lane.LEXICAL)
        if options.lane is Lane.HYBRID:
            support = _find_support(store, None, _look_around(store, lexical, ()), lexical, {})
            standing = _find_standing(store, question, options.filters)
            ranked = fuse_convex(_join(lexical, standing.lexical), (), {}, LaneMix(0.0, LANES_WEIGHT), support)
            best = max(map(_SCORE, lexical), default=0.0)
            shares = {found.key: found.score / best for found in lexical} if best > 0.0 else {}
            priors = standing.priors(_coverage(rarity, best), shares)
            ranked = standing.raise_in(ranked, priors)
            ranked = _weigh_entry_sizes(store, ranked, options.k)
            return CandidateSet(ranked, rarity, lexical, priors=priors)
        return CandidateSet(ranked, rarity, lexical, may_be_more=is_first and len(lexical) == limit)
    cosines: dict[ChunkKey, float] = dict(dense)
    mean, deviation = _mean_and_deviation(list(map(_SCORE, dense)))
    lead = _lead(dense, mean, deviation)
    if options.lane is Lane.DENSE:
        return CandidateSet(rank_single(dense, Lane.DENSE), rarity, (), cosines, mean, lead=lead)
    if options.fusion is Fusion.RRF:
        return CandidateSet(fuse_rrf(lexical, dense), rarity, lexical, cosines, mean, lead=lead)
    standing = _find_standing(store, question, options.filters)
    missing = [key for key in dict((*lexical, *standing.lexical)) if key not in cosines]
    cosines |= store.similarities(question.vector, missing)
    around = _look_around(store, lexical, dense)
    support = _find_support(store, question.vector, around, lexical, cosines)
    best = max(filter(isfinite, (*map(_SCORE, lexical), *support.lexical.values())), default=0.0)
    likeness = keyword_likeness(question.text, rarity.values(), question.chunks)
    evidence = LaneEvidence(_coverage(rarity, best), len(rarity), lead, agreement(lexical, dense), likeness)
    weights = weigh_lanes(question.text, evidence, question.calibration.lanes)
    mix = LaneMix(weights.dense, weights.lanes, SHARPNESS, USUAL_REACH * question.calibration.spread)
    lanes = _join(lexical, standing.lexical), _join(dense, standing.dense)
    near = _height_shares(cosines, question, mean, standing.keys)
    priors = standing.priors(evidence.coverage, near)
    ranked = standing.raise_in(fuse_convex(*lanes, cosines, mix, support), priors)
    ranked = _weigh_entry_sizes(store, ranked, options.k, weights)
    return CandidateSet(ranked, rarity, lexical, cosines, mean, weights, lead, priors)


class _Standing(Struct, frozen=True):
    """The rules and decisions of the user that stand, and are nearest to a query, by lane."""

    keys: Mapping[ChunkKey, bool] = field(default_factory=dict)
    """With whether the query names what one is about."""
    lexical: Sequence[Candidate] = ()
    dense: Sequence[Candidate] = ()

    def priors(self, coverage: float, near: Mapping[ChunkKey, float]) -> dict[ChunkKey, float]:
        """Return what each gains: the more, the nearer it is, and the less of the query the best text has."""
        weak = STANDING_WEIGHT * max(1.0 - coverage**2, 0.0)
        gains = {
            key: 2.0 * STANDING_WEIGHT if is_named else weak * near.get(key, 0.0) for key, is_named in self.keys.items()
        }
        return {key: gain for key, gain in gains.items() if gain > 0.0}

    def raise_in(self, ranked: FusedRanking, priors: Mapping[ChunkKey, float]) -> FusedRanking:
        """Return a ranking with these priors."""
        if not priors:
            return ranked
        notes = "your rule or decision, which is near to the query", "your rule or decision about what the query names"
        return ranked.plus_first(
            len(ranked),
            lambda key: priors.get(key, 0.0),
            lambda key: (ScorePart("standing", priors[key], notes[self.keys[key]]),) if key in priors else (),
        )


def _height_shares(
    cosines: Mapping[ChunkKey, float], question: SearchQuestion, mean: float, keys: Mapping[ChunkKey, bool]
) -> dict[ChunkKey, float]:
    """Return how near chunks are to a query: 0 as texts about anything, 1 from `_NEAR` deviations of the encoder above them.

    Of an encoder that was not measured, 0 is the mean of the candidates and 1 the nearest.
    """
    low, reach = mean, max(cosines.values(), default=mean) - mean
    if question.vector is not None and question.calibration.spread > 0.0:
        low, reach = question.calibration.mean_cosine(question.vector), _NEAR * question.calibration.spread
    return {key: min(max((cosines.get(key, low) - low) / reach, 0.0), 1.0) for key in keys} if reach > 0.0 else {}


def _find_standing(store: Store, question: SearchQuestion, filters: Filters) -> _Standing:
    """Return what stands and is nearest to a question; nothing if that is about the past, or about types."""
    is_past = not _PAST_WORDS.isdisjoint(question.text.casefold().replace("?", " ").split())
    if question.stands is None or filters.types or is_past:
        return _Standing()
    lanes = store.propose(question.terms, question.vector, replace(filters, types=STANDING_TYPES), _MAX_STANDING)
    chunks = store.fetch(list({found.key for lane in lanes for found in lane}))
    found = ((key, question.stands(stored, question.text)) for key, stored in chunks.items())
    keys = {key: is_named for key, is_named in found if is_named is not None}
    return _Standing(keys, *([found for found in lane if found.key in keys] for lane in lanes))


def _join(lane: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of a lane, and those that are further down in it."""
    known = {found.key for found in lane}
    return [*lane, *(found for found in more if found.key not in known)]


def weigh_terms(store: Store, terms: Sequence[Term]) -> dict[str, float]:
    """Return the weight of each term: its rarity, less for a character that its pairs stand for as well."""
    rarity = store.rarity([term.text for term in terms])
    return {term.text: term.weight * rarity[term.text] for term in terms if term.text in rarity}


def _weigh_entry_sizes(store: Store, ranked: FusedRanking, k: int, weights: LaneWeights | None = None) -> FusedRanking:
    """Add the score of the entry's size to the first candidates; the others stay behind them."""
    measured = max(_MIN_MEASURED, _MEASURED_PER_HIT * min(k, MAX_HITS))
    sizes = store.entry_sizes(ranked.first_keys(measured), score_features.MAX_ENTRY_CHUNKS)
    weight = score_features.ENTRY_WEIGHT
    if weights is not None:
        weight = weights.readings.entry * entry_mix([entry_share(size) for size in sizes.values()])
    scores = {size: score_features.entry_score(size, weight) for size in set(sizes.values())}
    return ranked.plus_first(
        measured,
        lambda key: scores[size] if (size := sizes.get(key)) else 0.0,
        lambda key: score_features.explain_entry(size, weight) if (size := sizes.get(key)) else (),
    )


def _look_around(
    store: Store, lexical: Sequence[Candidate], dense: Sequence[Candidate]
) -> dict[ChunkKey, ChunkNeighbours]:
    """Return the lengths of the first candidates of each lane, and the neighbours of the short ones."""
    first = dict.fromkeys(candidate.key for lane in (lexical, dense) for candidate in lane[:_SUPPORTED_PER_LANE])
    return store.chunk_neighbours(list(first), MAX_BORROWER_CHARS)


def _find_support(
    store: Store,
    vector: Vector | None,
    around: Mapping[ChunkKey, ChunkNeighbours],
    lexical: Sequence[Candidate],
    cosines: Mapping[ChunkKey, float],
) -> NeighbourSupport:
    near = {key for neighbours in around.values() for key in (*neighbours.near, *neighbours.far)}
    if not near:
        return NO_SUPPORT
    if vector is not None:
        cosines = {**cosines, **store.similarities(vector, [key for key in near if key not in cosines])}
    return support_from_neighbours(around, dict(lexical), cosines)


def _coverage(rarity: Mapping[str, float], best: float) -> float:
    full_score = _FULL_TERM_SCORE * fsum(rarity.values())
    return min(best / full_score, MAX_COVERAGE) if full_score > 0.0 else 0.0


def agreement(lexical: Sequence[Candidate], dense: Sequence[Candidate]) -> float:
    """Return BM25 of the chunk that the dense lane puts first, as a share of the best."""
    words = {key: score for key, score in lexical if isfinite(score)}
    best = max(words.values(), default=0.0)
    first = max((found for found in dense if isfinite(found.score)), key=_SCORE, default=None)
    return words.get(first.key, 0.0) / best if first is not None and best > 0.0 else 0.0


def _lead(dense: Sequence[Candidate], mean: float, deviation: float) -> float:
    highest = max(filter(isfinite, map(_SCORE, dense)), default=0.0)
    expected = sqrt(2.0 * log(max(len(dense), 3)))
    return min((highest - mean) / deviation / expected, 5.0) if deviation > 0.0 else 0.0


def _mean_and_deviation(scores: Sequence[float]) -> tuple[float, float]:
    finite = list(filter(isfinite, scores))
    if len(finite) < 2:
        return (finite[0] if finite else 0.0), 0.0
    mean = fsum(finite) / len(finite)
    deviation = sqrt(fsum((score - mean) ** 2 for score in finite) / len(finite))
    return mean, (deviation if deviation > 1e-6 else 0.0)
