"""Combines the scores of the two lanes into one, with named parts.

Weights. The share of the vectors is a logistic function of what this question found, and of nothing else: not of the index, its size or
the length of its texts. docs/search.md has the formula and the reasons, docs/decisions/retrieval.md what was measured. Both
shares are cubed (`SHARPNESS`): what a lane puts first by a clear margin is not buried by what is in the middle of both. The
numbers are learned (`relevance`). Last, a question of a few literal words only (identifiers, paths, codes, quoted phrases) is for
the lexical lane, and in a short question one more identifier never raises the weight of the vectors.

Neighbours. A turn of a dialogue or a line of a journal says little by itself, so a short chunk borrows from its neighbours in the file, the more the
shorter it is. The borrowed score is a part of its own, so that the lanes' parts are the chunk's own scores.

Fusion. The default is a convex combination because it keeps distances: a best hit far ahead stays far ahead. Both lanes are
normalised per query: BM25 is divided by the best; cosines are stretched over the range of the candidates.

A chunk without a vector is new, not bad: its lexical share replaces the dense one. A score that is not finite is left
out, with a note. Equal scores keep the order of the lexical lane, then of the dense lane. Hundreds of candidates are
scored and a few are shown, so scores are plain numbers and their explanation is built on demand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from math import exp, fsum, inf, isfinite, log
from operator import add, itemgetter, mul
from typing import overload

from msgspec import Struct, field
from msgspec.structs import astuple

from lorelog.core.document import ChunkKey
from lorelog.core.ports import ChunkNeighbours
from lorelog.core.query import Candidate, Explanation, Lane, ScorePart
from lorelog.language import lexicon
from lorelog.language.analyser import STOP_WORDS
from lorelog.retrieval.relevance import UNMEASURED, LaneNumbers, calibration_of
from lorelog.retrieval.score_features import LANES_WEIGHT, WORDS_READING_WEIGHTS, ReadingWeights

MAX_DENSE_WEIGHT_EXACT = 0.15
"""Maximum weight for a query that is all identifiers and quotes."""

_MAX_QUERY_CHARS = 4_000
_MAX_EXACT_CHARS = 200
SHARPNESS = 3.0
"""Power of both lanes' shares of their best, where both lanes are weighed."""
USUAL_REACH = 4.0
"""Usual difference of the highest and the lowest cosine, in deviations of the encoder; a smaller one is not stretched."""
MIN_COVERAGE, MAX_COVERAGE = 0.01, 2.0
USUAL_TERMS = 6.0
_EXACT_POWER = 8.0
_FEW_EXACT = 8
"""How soon literal words count, and of how many words at most: a report of an error has many, and is about something."""
_MAX_LOGIT = 6.0
_FEW_TERMS, _FEW_RARE_TERMS = 3, 5
_COMMON, _RARE = 0.45, 0.65
"""Mean rarity of terms, as a share of the logarithm of the number of chunks, of common words and of keywords."""
_PUNCTUATION = ".,;:!?()[]{}<>\"'“”‘’…"
QUOTED_PATTERN = r'"([^"\n]{2,200})"|“([^”\n]{2,200})”|`([^`\n]{1,200})`'
_QUOTE_MARKS = frozenset('"“`')
_EXACT_PATTERN = (
    r"\w+(?:[_/\\:@]|\.(?=\w)|::)[\w./\\:@-]*\w"  # snake_case, paths, dotted names, host:port, 1.2.3
    r"|[a-z]+[A-Z]\w*|[A-Z]+[a-z]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*"  # camelCase, PascalCase, HTTPServer
    r"|[A-Z][A-Z_]*-?\d{2,}\w*"  # E0308, CVE-2024, SQL1042
    r"|0x[0-9a-fA-F]+|(?=[a-f]*\d)[0-9a-f]{7,64}"  # addresses, hashes
    r"|--?[a-z][\w-]+|\w+\(\)"  # flags, calls
)


class LaneEvidence(Struct, frozen=True):
    """Features of a query from the results of both lanes."""

    coverage: float = 0.0
    """The best chunk's BM25 divided by that of a chunk with every term; 0 to 1 or a little above."""
    terms: int = 0
    lead: float = 0.0
    """How far the best cosine is above the mean of the dense candidates, in standard deviations, divided by the
    expected maximum of as many random numbers.
    """
    agreement: float = 0.0
    """BM25 of the chunk with the best cosine, divided by the best BM25."""
    keywords: float = 0.0
    """How much the query looks like keywords, see `keyword_likeness`."""


class LaneWeights(Struct, frozen=True):
    """The dense lane's share of the lanes' score (the lexical lane has the rest), the reason, and the lanes' share of all."""

    dense: float
    reason: str
    lanes: float = LANES_WEIGHT
    readings: ReadingWeights = WORDS_READING_WEIGHTS


def weigh_lanes(query: str, evidence: LaneEvidence, numbers: LaneNumbers | None = None) -> LaneWeights:
    numbers = numbers or calibration_of(UNMEASURED).lanes
    exact, others = _split_exact_words(query[:_MAX_QUERY_CHARS])
    words = len(exact) + sum(word.lower() not in STOP_WORDS for word in others)
    # Only in the other words: the Latin letters of an identifier must not make Chinese look readable.
    unread = max(non_latin_share(" ".join(others)), foreign_share(others))
    coverage = min(max(evidence.coverage, MIN_COVERAGE), MAX_COVERAGE)
    features = lane_features(coverage, evidence.terms, evidence.lead, evidence.keywords, unread, evidence.agreement)
    share = dense_share(features, numbers)
    rest = 1.0 - share
    lexical = rest * coverage**numbers.bm25_power
    read = ReadingWeights(0.0, 0.0, rest * numbers.proximity, rest * numbers.part_words, share * numbers.entry)
    whole = lexical + share + read.total
    dense = limit_dense(share / (lexical + share), literalness(len(exact), words))
    reasons = [
        f"words cover {evidence.coverage:.0%} of {evidence.terms} terms",
        f"the best vector leads by {evidence.lead:.2f}",
    ]
    if evidence.keywords == 1.0:
        reasons.append("taken for keywords")
    if unread > 0.0:
        reasons.append(f"{unread:.0%} is in scripts or languages that the built-in model hardly reads")
    if exact:
        reasons.append(f"{len(exact)} of {words} words are meant literally")
    return LaneWeights(round(dense, 4), "; ".join(reasons), (lexical + share) / whole, read.scaled(1.0 / whole))


def literalness(exact: int, words: int) -> float:
    """Return how far a query of so many words, some of them literal, is meant literally."""
    return float((exact / words) ** _EXACT_POWER * min(1.0, _FEW_EXACT / words) ** 2) if words else 0.0


def limit_dense(dense: float, literal: float) -> float:
    """Return the dense lane's share for a query that is meant literally so far."""
    return dense - max(dense - MAX_DENSE_WEIGHT_EXACT, 0.0) * literal


def lane_features(
    coverage: float, terms: float, lead: float, likeness: float, unread: float, agreement: float
) -> tuple[float, ...]:
    """Return what the share of the vectors depends on, in the order of `LaneNumbers`. `bench.quality` learns from the same."""
    coverage = min(max(coverage, MIN_COVERAGE), MAX_COVERAGE)
    return (1.0, log(coverage), log(max(terms, 1) / USUAL_TERMS), lead, likeness, unread, agreement)


def dense_share(features: Sequence[float], numbers: LaneNumbers) -> float:
    """Return the share of the vectors before the rest is weighed: a logistic function."""
    logit = sum(map(mul, features, astuple(numbers)))
    return 1.0 / (1.0 + exp(-min(max(logit, -_MAX_LOGIT), _MAX_LOGIT)))


@lru_cache(maxsize=8)
def _split_exact_words(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the literal words and the others. A search asks several times."""
    exact: list[str] = []
    others: list[str] = []
    if not _QUOTE_MARKS.isdisjoint(text):  # most queries quote nothing, and the pattern is slow to compile
        exact += [word for quoted in re.finditer(QUOTED_PATTERN, text) for word in quoted.group().split()]
        text = re.sub(QUOTED_PATTERN, " ", text)
    for word in text.split():
        if word.isascii() and word.isalpha() and word.islower():  # the usual case, which no pattern matches
            others.append(word)
            continue
        bare = word.strip(_PUNCTUATION)
        forms = (bare, word.rstrip(_PUNCTUATION), word)
        if len(bare) <= _MAX_EXACT_CHARS and any(re.fullmatch(_EXACT_PATTERN, form) for form in forms):
            exact.append(bare)
        elif bare:
            others.append(bare)
    return exact, others


def non_latin_share(text: str) -> float:
    """Return the share of a text's letters that are not Latin, which the built-in encoder has hardly seen."""
    if text.isascii():
        return 0.0
    letters = [character for character in text if character.isalpha()]
    return sum(not _is_latin(character) for character in letters) / len(letters) if letters else 0.0


FOREIGN_WORDS = lexicon("foreign_words")


def foreign_share(words: Sequence[str]) -> float:
    """Return the share of small words of another language; Latin letters with accents count as one, English small words against."""
    bare = [word.strip(_PUNCTUATION).lower() for word in words]
    foreign = sum(
        word in FOREIGN_WORDS or (not word.isascii() and word.isalpha() and all(map(_is_latin, word))) for word in bare
    )
    english = sum(word in STOP_WORDS for word in bare)
    return foreign / (foreign + english) if foreign else 0.0


def keyword_likeness(text: str, rarities: Collection[float], chunks: int) -> float:
    """Return how much a query looks like keywords in a search box, among so many chunks.

    Up to three terms give 1, and so do up to five that are rare; more give less. A query with a small word ("how", "the",
    "der") is a question and gives 0.
    """
    plain = (word.strip(_PUNCTUATION).lower() for word in _split_exact_words(text[:_MAX_QUERY_CHARS])[1])
    if any(word in STOP_WORDS or word in FOREIGN_WORDS for word in plain):
        return 0.0
    terms = max(len(rarities), 1)
    rarity = fsum(rarities) / terms / log(max(chunks, 1) + 1)
    rare = min(max((rarity - _COMMON) / (_RARE - _COMMON), 0.0), 1.0)
    return max(min(1.0, _FEW_TERMS / terms) ** 4, rare * min(1.0, _FEW_RARE_TERMS / terms) ** 4)


def unread_share(text: str) -> float:
    """Return the share of a text, by letters or by small words, that the built-in encoder hardly reads."""
    others = _split_exact_words(text[:_MAX_QUERY_CHARS])[1]
    return max(non_latin_share(" ".join(others)), foreign_share(others))


def _is_latin(character: str) -> bool:
    return character < "\u0250" or "\u1e00" <= character <= "\u1eff" or "\uff21" <= character <= "\uff5a"


MAX_NEIGHBOUR_SHARE = 0.7
"""Share borrowed by an empty text, relative to its own score of 1."""
NEIGHBOUR_FADE_CHARS = 170.0
"""Characters (about 30 words) after which the share falls to a third (1/e)."""
MIN_NEIGHBOUR_SHARE = 0.09
"""Nothing is borrowed below this share."""
MAX_BORROWER_CHARS = 350
"""Maximum length of a text that borrows: the share of a longer one is below the minimum."""
_NEAR_WEIGHT, _FAR_WEIGHT = 1.0, 0.5


class NeighbourSupport(Struct, frozen=True):
    """BM25 and cosine of the borrowing chunks, with their neighbours' contribution."""

    lexical: Mapping[ChunkKey, float] = field(default_factory=dict)
    dense: Mapping[ChunkKey, float] = field(default_factory=dict)


NO_SUPPORT = NeighbourSupport()


def support_from_neighbours(
    around: Mapping[ChunkKey, ChunkNeighbours], lexical: Mapping[ChunkKey, float], cosines: Mapping[ChunkKey, float]
) -> NeighbourSupport:
    """Return the scores of the borrowing chunks.

    A neighbour that is not a lexical candidate counts as 0; one without a vector is ignored.
    """
    words: dict[ChunkKey, float] = {}
    vectors: dict[ChunkKey, float] = {}
    for key, place in around.items():
        share = neighbour_share(place.length)
        neighbours = [(near, _NEAR_WEIGHT) for near in place.near] + [(far, _FAR_WEIGHT) for far in place.far]
        if share < MIN_NEIGHBOUR_SHARE or not neighbours:
            continue
        weight = sum(part for _, part in neighbours)
        borrowed = sum(part * _finite_or_zero(lexical.get(neighbour)) for neighbour, part in neighbours) / weight
        if borrowed > 0.0:
            words[key] = _finite_or_zero(lexical.get(key)) + share * borrowed
        known = [
            (cosines[neighbour], part)
            for neighbour, part in neighbours
            if isfinite(cosines.get(neighbour, float("nan")))
        ]
        if known and isfinite(cosines.get(key, float("nan"))):
            mean = sum(cosine * part for cosine, part in known) / sum(part for _, part in known)
            vectors[key] = (cosines[key] + share * mean) / (1.0 + share)
    return NeighbourSupport(words, vectors)


def neighbour_share(length: int) -> float:
    """Return the borrowed share of a text of this length."""
    return MAX_NEIGHBOUR_SHARE * exp(-length / NEIGHBOUR_FADE_CHARS)


def _finite_or_zero(score: float | None) -> float:
    return score if score is not None and isfinite(score) else 0.0


RRF_K = 60

PartsFunction = Callable[[], tuple[ScorePart, ...]]


class FusedCandidate:
    """A candidate with its score and a function that explains it. The parts add up to the score, except for rounding."""

    __slots__ = ("_explain", "key", "score")

    def __init__(self, key: ChunkKey, score: float, explain: Callable[[ChunkKey], tuple[ScorePart, ...]]) -> None:
        self.key = key
        self.score = score
        self._explain = explain

    def parts(self) -> tuple[ScorePart, ...]:
        return self._explain(self.key)

    @property
    def explanation(self) -> Explanation:
        return Explanation(self.parts())

    def plus(self, value: float, parts: PartsFunction) -> FusedCandidate:
        """Return a copy with more parts added to its score."""
        return FusedCandidate(self.key, self.score + value, lambda _: (*self.parts(), *parts()))


class FusedRanking(Sequence[FusedCandidate]):
    """Candidates in their order. Hundreds are ranked and a few are read, so only those that are asked for become objects."""

    __slots__ = ("_explain", "_keys", "_scores")

    def __init__(
        self,
        keys: Sequence[ChunkKey],
        scores: Sequence[float],
        explain: Callable[[ChunkKey], tuple[ScorePart, ...]],
        first: int | None = None,
    ) -> None:
        """Sort by score, or only the first so many. The sort is stable: the given order breaks ties."""
        order = sorted(range(len(keys))[:first], key=scores.__getitem__, reverse=True)
        self._keys = [*map(keys.__getitem__, order), *keys[len(order) :]]
        self._scores = [*map(scores.__getitem__, order), *scores[len(order) :]]
        self._explain = explain

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> FusedCandidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[FusedCandidate]: ...
    def __getitem__(self, index: int | slice) -> FusedCandidate | list[FusedCandidate]:
        if isinstance(index, slice):
            pairs = zip(self._keys[index], self._scores[index], strict=True)
            return [FusedCandidate(key, score, self._explain) for key, score in pairs]
        return FusedCandidate(self._keys[index], self._scores[index], self._explain)

    def first_keys(self, count: int) -> list[ChunkKey]:
        return self._keys[:count]

    def plus_first(
        self, count: int, values: Callable[[ChunkKey], float], parts: Callable[[ChunkKey], tuple[ScorePart, ...]]
    ) -> FusedRanking:
        """Return a ranking with a part added to the first candidates; the others stay behind them."""
        scores = list(map(add, self._scores[:count], map(values, self._keys[:count])))
        explain = self._explain
        return FusedRanking(
            self._keys, [*scores, *self._scores[count:]], lambda key: (*explain(key), *parts(key)), first=count
        )


class LaneMix(Struct, frozen=True):
    """How two lanes are mixed: the dense lane's share, the maximum of both together, the power of each lane's shares, and the
    least range of cosines: small differences between texts that are nearly alike say little.
    """

    dense: float
    whole: float = 1.0
    power: float = 1.0
    min_range: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.dense <= 1.0:
            raise ValueError(f"the dense share must be between 0 and 1, not {self.dense}")


_PLAIN_MIX = LaneMix(1.0)


class _LaneScores(Struct, frozen=True):
    """One lane's finite scores, best first, and the keys whose score is not finite."""

    by_key: dict[ChunkKey, float]
    faulty: frozenset[ChunkKey]

    @property
    def ranks(self) -> dict[ChunkKey, int]:
        return {key: rank for rank, key in enumerate(self.by_key, start=1)}


def fuse_convex(
    lexical: Sequence[Candidate],
    dense: Sequence[Candidate],
    similarities: Mapping[ChunkKey, float],
    mix: LaneMix,
    support: NeighbourSupport = NO_SUPPORT,
) -> FusedRanking:
    """Rank the union of both lanes by `(1 - w) * lexical + w * dense`, each normalised to 0..1 and raised to a power.

    `similarities` are the cosines of all candidates with a vector, from either lane; a dense candidate that is not
    among them keeps its own cosine.
    """
    words = _sort_scores(lexical)
    proposed = _sort_scores(dense)
    union = dict.fromkeys((*words.by_key, *proposed.by_key))
    keys = list(union)
    if not similarities.keys() <= union.keys():
        similarities = {key: similarities[key] for key in keys if key in similarities}
    cosines = _finite_scores({**proposed.by_key, **similarities})
    faulty = cosines.faulty | proposed.faulty.difference(cosines.by_key)
    convex = _ConvexScorer(
        _LexicalShare(words, mix.whole * (1.0 - mix.dense), support.lexical, mix.power),
        _DenseShare(_LaneScores(cosines.by_key, faulty), mix.whole * mix.dense, support.dense, mix),
    )
    return FusedRanking(keys, convex.scores(keys), convex.parts)


def fuse_rrf(lexical: Sequence[Candidate], dense: Sequence[Candidate], k: int = RRF_K) -> FusedRanking:
    """Rank the union of both lanes by the sum of `1 / (k + rank)`, scaled so that the first of both lanes has 1."""
    words, proposed = _sort_scores(lexical), _sort_scores(dense)
    lanes = ((Lane.LEXICAL, words.ranks), (Lane.DENSE, proposed.ranks))

    def parts(key: ChunkKey) -> tuple[ScorePart, ...]:
        return tuple(
            ScorePart(lane.value, _rrf_share(ranks[key], k), f"rank {ranks[key]} of {len(ranks)}, k {k}")
            if key in ranks
            else ScorePart(lane.value, 0.0, f"not among the {lane.value} candidates")
            for lane, ranks in lanes
        )

    keys = list(dict.fromkeys((*words.by_key, *proposed.by_key)))
    return FusedRanking(
        keys, [sum(_rrf_share(ranks[key], k) for _, ranks in lanes if key in ranks) for key in keys], parts
    )


def rank_single(candidates: Sequence[Candidate], lane: Lane) -> FusedRanking:
    """Rank one lane alone, normalised as in the convex combination, so that scores are comparable."""
    scores = _sort_scores(candidates)
    if lane is Lane.HYBRID:
        raise ValueError(f"{lane} is not a single lane")
    keys = list(scores.by_key)
    if lane is Lane.LEXICAL:
        words = _LexicalShare(scores, 1.0, {})
        return FusedRanking(keys, words.ratios(keys), lambda key: (words.part(key),))
    vectors = _DenseShare(scores, 1.0, {})
    return FusedRanking(keys, [vectors.value(key, 0.0) for key in keys], lambda key: (vectors.part(key, 0.0),))


class _LexicalShare:
    """BM25 divided by the best BM25, to a power; 0 without common words."""

    def __init__(
        self, scores: _LaneScores, weight: float, supported: Mapping[ChunkKey, float], power: float = 1.0
    ) -> None:
        self._scores = scores
        self.weight = weight
        self.supported = supported
        self._power = power
        self._best = max((*scores.by_key.values(), *supported.values()), default=0.0)

    def ratio(self, key: ChunkKey) -> float:
        score = self._scores.by_key.get(key, 0.0)
        return (score / self._best) ** self._power if score > 0.0 else 0.0

    def ratios(self, keys: Sequence[ChunkKey]) -> list[float]:
        """Return `ratio` of many scores at once: this runs for every candidate of every search."""
        get, best, power = self._scores.by_key.get, self._best, self._power
        return [(score / best) ** power if (score := get(key, 0.0)) > 0.0 else 0.0 for key in keys]

    def neighbour_share(self, key: ChunkKey) -> float:
        score = self.supported.get(key, 0.0)
        return self.weight * ((score / self._best) ** self._power - self.ratio(key)) if score > 0.0 else 0.0

    def part(self, key: ChunkKey) -> ScorePart:
        score = self._scores.by_key.get(key)
        if score is not None:
            note = f"BM25 {score:.2f} of best {self._best:.2f}, weight {self.weight:.2f}"
        elif key in self._scores.faulty:
            note = "BM25 was not a finite number and is left out"
        else:
            note = "not among the lexical candidates"
        return ScorePart(Lane.LEXICAL.value, self.weight * self.ratio(key), note)


class _DenseShare:
    """A cosine's position between the lowest and the highest of the candidates, to a power."""

    def __init__(
        self, cosines: _LaneScores, weight: float, supported: Mapping[ChunkKey, float], mix: LaneMix = _PLAIN_MIX
    ) -> None:
        self._cosines = cosines
        self.weight = weight
        self.supported = supported
        self._power = mix.power
        self._high = max(cosines.by_key.values(), default=0.0)
        self._low = min(min(cosines.by_key.values(), default=0.0), self._high - mix.min_range)
        self._half = self._high / 2 - self._low / 2  # halves, so that the widest range of floats does not overflow

    @property
    def is_empty(self) -> bool:
        """True if it has no weight and nothing to show."""
        return self.weight == 0.0 and not self._cosines.by_key

    def neighbour_share(self, key: ChunkKey) -> float:
        """Return the neighbours' addition, which may be negative."""
        cosine = self._cosines.by_key.get(key)
        if cosine is None or key not in self.supported:
            return 0.0
        return self.weight * (self._ratio(self.supported[key]) - self._ratio(cosine))

    def added(self, keys: Sequence[ChunkKey], ratios: Sequence[float], weight: float) -> list[float]:
        """Return the sums of lexical and dense shares of many candidates; the lexical share replaces a missing dense
        one.
        """
        cosines, low, half, high, own = self._cosines.by_key, self._low / 2, self._half, self._high, self.weight
        get, power = cosines.get, self._power
        if half <= 0.0:
            return [
                weight * ratio + own * (1.0 if key in cosines else ratio)
                for key, ratio in zip(keys, ratios, strict=True)
            ]
        return [
            weight * ratio
            + own
            * (
                ratio
                if (cosine := get(key)) is None
                else ((cosine / 2 - low) / half) ** power
                if cosine < high
                else 1.0
            )
            for key, ratio in zip(keys, ratios, strict=True)
        ]

    def value(self, key: ChunkKey, stand_in: float) -> float:
        cosine = self._cosines.by_key.get(key)
        return self.weight * (stand_in if cosine is None else self._ratio(cosine))

    def part(self, key: ChunkKey, stand_in: float) -> ScorePart:
        cosine = self._cosines.by_key.get(key)
        if cosine is not None:
            note = f"cosine {cosine:.3f} between {self._low:.3f} and {self._high:.3f}, weight {self.weight:.2f}"
        else:
            cause = "cosine was not a finite number" if key in self._cosines.faulty else "no vector yet"
            note = f"{cause}, the lexical share is used instead, weight {self.weight:.2f}"
        return ScorePart(Lane.DENSE.value, self.value(key, stand_in), note)

    def _ratio(self, cosine: float) -> float:
        ratio = min(max((cosine / 2 - self._low / 2) / self._half, 0.0), 1.0) if self._half > 0.0 else 1.0
        return float(ratio**self._power)


class _ConvexScorer(Struct, frozen=True):
    """Both shares of a candidate."""

    words: _LexicalShare
    vectors: _DenseShare

    def scores(self, keys: Sequence[ChunkKey]) -> list[float]:
        """Return the sum of each candidate's parts."""
        words, vectors = self.words, self.vectors
        ratios = words.ratios(keys)
        scores = vectors.added(keys, ratios, words.weight)
        if words.supported or vectors.supported:
            for position, key in enumerate(keys):
                if key in words.supported or key in vectors.supported:
                    scores[position] += words.neighbour_share(key) + vectors.neighbour_share(key)
        return scores

    def parts(self, key: ChunkKey) -> tuple[ScorePart, ...]:
        words, vectors = self.words, self.vectors
        parts = [words.part(key)]
        if not vectors.is_empty:
            parts.append(vectors.part(key, words.ratio(key)))
        lent = words.neighbour_share(key) + vectors.neighbour_share(key)
        if lent:
            parts.append(ScorePart("neighbours", lent, "scores of the chunks around this short one"))
        return tuple(parts)


def _sort_scores(candidates: Iterable[Candidate]) -> _LaneScores:
    """Sort by score, best first; of a repeated key the better score counts."""
    pairs = sorted(candidates, key=itemgetter(1), reverse=True)
    scores: dict[ChunkKey, float] = dict(pairs)
    if len(scores) == len(pairs) and isfinite(sum(scores.values())):
        return _LaneScores(scores, frozenset())
    # Invalid output of a lane: scores that are not finite, or repeated keys.
    finite: dict[ChunkKey, float] = {}
    for key, score in pairs:
        if isfinite(score) and score > finite.get(key, -inf):
            finite[key] = score
    best_first = sorted(finite.items(), key=itemgetter(1), reverse=True)
    return _LaneScores(dict(best_first), frozenset(key for key, _ in pairs if key not in finite))


def _finite_scores(scores: dict[ChunkKey, float]) -> _LaneScores:
    if isfinite(sum(scores.values())):  # one check for all: NaN or infinity makes the sum not finite
        return _LaneScores(scores, frozenset())
    finite = {key: score for key, score in scores.items() if isfinite(score)}
    return _LaneScores(finite, frozenset(scores).difference(finite))


def _rrf_share(rank: int, k: int) -> float:
    return 0.5 * (k + 1) / (k + rank)
