"""Two lanes' scores become one, and every share of it keeps its name.

The default is a convex combination, because it keeps what the lanes know about distances: a best hit far ahead of the
others stays far ahead. Reciprocal ranks, which throw that away, are there by choice. Both lanes are normalised per
question: BM25 has no upper end, so it is divided by the best; cosines of one model sit in a narrow band, so they are
stretched over the range of the candidates at hand. Where all cosines are equal they say nothing and each counts as 1.

Short chunks borrow from what stands around them (`neighbours`); what that adds is a part of its own, so that the lanes' own
parts say what the chunk itself scored.

A chunk without a vector is new, not bad: its lexical share stands in for the dense one. A score that is not a finite
number is left out with a note. Equal scores keep the order of the lexical lane, then of the dense lane.

Hundreds of candidates are scored and a few are shown, so scores are plain numbers and the parts are put into words only
when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from operator import attrgetter, itemgetter

from lorelog.core.document import Key
from lorelog.core.query import Candidate, Explanation, Lane, Part
from lorelog.retrieval.neighbours import NONE, Support

RRF_K = 60

Parts = Callable[[], tuple[Part, ...]]


class Fused:
    """A candidate with its score, and whoever can put that into words. The parts add up to the score but for rounding."""

    __slots__ = ("_explain", "key", "score")

    def __init__(self, key: Key, score: float, explain: Callable[[Key], tuple[Part, ...]]) -> None:
        self.key = key
        self.score = score
        self._explain = explain

    def parts(self) -> tuple[Part, ...]:
        """Return what its score is made of."""
        return self._explain(self.key)

    @property
    def explanation(self) -> Explanation:
        """The same, as an explanation."""
        return Explanation(self.parts())

    def plus(self, value: float, parts: Parts) -> Fused:
        """Return it with something more to its score."""
        return Fused(self.key, self.score + value, lambda _: (*self.parts(), *parts()))


@dataclass(frozen=True, slots=True)
class Mix:
    """How two lanes are mixed: the dense lane's share, and what both together may reach."""

    dense: float
    whole: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.dense <= 1.0:
            raise ValueError(f"the dense share is {self.dense}, not within 0 and 1")


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
    mix: Mix,
    support: Support = NONE,
) -> list[Fused]:
    """Rank the union of both lanes by `(1 - w) * lexical + w * dense`, each normalised to 0..1.

    `similarities` are the cosines of the candidates that have a vector, whichever lane proposed them; a dense
    candidate that is not among them keeps the cosine it came with.
    """
    words = _scores(lexical)
    proposed = _scores(dense)
    keys = _union(words, proposed)
    cosines = _only_finite({**proposed.by_key, **{key: similarities[key] for key in keys if key in similarities}})
    faulty = cosines.faulty | proposed.faulty.difference(cosines.by_key)
    convex = _Convex(
        _LexicalShare(words, mix.whole * (1.0 - mix.dense), support.lexical),
        _DenseShare(_Scores(cosines.by_key, faulty), mix.whole * mix.dense, support.dense),
    )
    parts = convex.parts
    return _ranked([Fused(key, score, parts) for key, score in zip(keys, convex.scores(keys), strict=True)])


def fuse_rrf(lexical: Sequence[Candidate], dense: Sequence[Candidate], k: int = RRF_K) -> list[Fused]:
    """Rank the union of both lanes by the sum of `1 / (k + rank)`."""
    words, proposed = _scores(lexical), _scores(dense)
    lanes = ((Lane.LEXICAL, words.ranks), (Lane.DENSE, proposed.ranks))

    def parts(key: Key) -> tuple[Part, ...]:
        return tuple(_reciprocal(lane, ranks, key, k) for lane, ranks in lanes)

    fused = [
        Fused(key, sum(1.0 / (k + ranks[key]) for _, ranks in lanes if key in ranks), parts)
        for key in _union(words, proposed)
    ]
    return _ranked(fused)


def rank_single(candidates: Sequence[Candidate], lane: Lane) -> list[Fused]:
    """Rank one lane alone, normalised as in the convex combination, so that scores of all lanes read alike."""
    scores = _scores(candidates)
    share: _LexicalShare | _DenseShare
    if lane is Lane.LEXICAL:
        share = _LexicalShare(scores, 1.0, {})
    elif lane is Lane.DENSE:
        share = _DenseShare(scores, 1.0, {})
    else:
        raise ValueError(f"{lane} is not a single lane")

    def parts(key: Key) -> tuple[Part, ...]:
        return (share.part(key, 0.0),)

    fused = [Fused(key, share.value(key, 0.0), parts) for key in scores.by_key]
    return _ranked(fused)


class _LexicalShare:
    """BM25 as a share of the best BM25; no words in common is 0."""

    def __init__(self, scores: _Scores, weight: float, supported: Mapping[Key, float]) -> None:
        self._scores = scores
        self.weight = weight
        self.supported = supported
        self._best = max((*scores.by_key.values(), *supported.values()), default=0.0)

    def ratio(self, key: Key) -> float:
        score = self._scores.by_key.get(key, 0.0)
        return score / self._best if score > 0.0 else 0.0

    def ratios(self, keys: Sequence[Key]) -> list[float]:
        """Return `ratio` of many at once: this runs for every candidate of every search."""
        get, best = self._scores.by_key.get, self._best
        return [score / best if (score := get(key, 0.0)) > 0.0 else 0.0 for key in keys]

    def lent(self, key: Key) -> float:
        """Return what neighbours add."""
        score = self.supported.get(key, 0.0)
        return self.weight * (score / self._best - self.ratio(key)) if score > 0.0 else 0.0

    def value(self, key: Key, _: float = 0.0) -> float:
        return self.weight * self.ratio(key)

    def part(self, key: Key, _: float = 0.0) -> Part:
        score = self._scores.by_key.get(key)
        if score is not None:
            note = f"BM25 {score:.2f} of best {self._best:.2f}, weight {self.weight:.2f}"
        elif key in self._scores.faulty:
            note = "BM25 was not a finite number and is left out"
        else:
            note = "not among the lexical candidates"
        return Part(Lane.LEXICAL.value, self.value(key), note)


class _DenseShare:
    """A cosine's place between the lowest and the highest of the candidates."""

    def __init__(self, cosines: _Scores, weight: float, supported: Mapping[Key, float]) -> None:
        self._cosines = cosines
        self.weight = weight
        self.supported = supported
        self._low = min(cosines.by_key.values(), default=0.0)
        self._high = max(cosines.by_key.values(), default=0.0)
        self._half = self._high / 2 - self._low / 2  # halves, so that not even the widest range of floats overflows

    @property
    def says_nothing(self) -> bool:
        """Whether it was given no weight and has nothing to show."""
        return self.weight == 0.0 and not self._cosines.by_key

    def lent(self, key: Key) -> float:
        """Return what neighbours add, or take away."""
        cosine = self._cosines.by_key.get(key)
        if cosine is None or key not in self.supported:
            return 0.0
        return self.weight * (max(self._ratio(self.supported[key]), 0.0) - self._ratio(cosine))

    def added(self, keys: Sequence[Key], ratios: Sequence[float], weight: float) -> list[float]:
        """Return this share of many at once, added to the lexical one of a weight, which stands in where need be."""
        cosines, low, half, high, own = self._cosines.by_key, self._low / 2, self._half, self._high, self.weight
        get = cosines.get
        if half <= 0.0:
            return [
                weight * ratio + own * (1.0 if key in cosines else ratio)
                for key, ratio in zip(keys, ratios, strict=True)
            ]
        return [
            weight * ratio
            + own * (ratio if (cosine := get(key)) is None else (cosine / 2 - low) / half if cosine < high else 1.0)
            for key, ratio in zip(keys, ratios, strict=True)
        ]

    def value(self, key: Key, stand_in: float) -> float:
        cosine = self._cosines.by_key.get(key)
        return self.weight * (stand_in if cosine is None else self._ratio(cosine))

    def part(self, key: Key, stand_in: float) -> Part:
        cosine = self._cosines.by_key.get(key)
        if cosine is not None:
            note = f"cosine {cosine:.3f} between {self._low:.3f} and {self._high:.3f}, weight {self.weight:.2f}"
        else:
            cause = "cosine was not a finite number" if key in self._cosines.faulty else "no vector yet"
            note = f"{cause}, the lexical share stands in, weight {self.weight:.2f}"
        return Part(Lane.DENSE.value, self.value(key, stand_in), note)

    def _ratio(self, cosine: float) -> float:
        return min((cosine / 2 - self._low / 2) / self._half, 1.0) if self._half > 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class _Convex:
    """Both shares of a candidate."""

    words: _LexicalShare
    vectors: _DenseShare

    def scores(self, keys: Sequence[Key]) -> list[float]:
        """Return the sum of each candidate's parts."""
        words, vectors = self.words, self.vectors
        ratios = words.ratios(keys)
        scores = vectors.added(keys, ratios, words.weight)
        if words.supported or vectors.supported:
            for position, key in enumerate(keys):
                if key in words.supported or key in vectors.supported:
                    scores[position] += words.lent(key) + vectors.lent(key)
        return scores

    def parts(self, key: Key) -> tuple[Part, ...]:
        words, vectors = self.words, self.vectors
        parts = [words.part(key)]
        if not vectors.says_nothing:
            parts.append(vectors.part(key, words.ratio(key)))
        lent = words.lent(key) + vectors.lent(key)
        if lent:
            parts.append(Part("neighbours", lent, "what the chunks around this short one score"))
        return tuple(parts)


def _scores(candidates: Iterable[Candidate]) -> _Scores:
    """Sort by score, best first; of a key that comes twice the better score counts."""
    pairs = sorted(candidates, key=itemgetter(1), reverse=True)
    scores: dict[Key, float] = dict(pairs)
    if len(scores) == len(pairs) and isfinite(sum(scores.values())):
        return _Scores(scores, frozenset())
    return _sifted(pairs)


def _sifted(pairs: Sequence[tuple[Key, float]]) -> _Scores:
    """Sort out what the lanes should not have said: scores that are no numbers, and a key that comes twice."""
    finite: dict[Key, float] = {}
    for key, score in pairs:
        if isfinite(score) and score > finite.get(key, -inf):
            finite[key] = score
    best_first = sorted(finite.items(), key=itemgetter(1), reverse=True)
    return _Scores(dict(best_first), frozenset(key for key, _ in pairs if key not in finite))


def _only_finite(scores: dict[Key, float]) -> _Scores:
    if isfinite(sum(scores.values())):  # one look at all: not a number, or an infinity, would not add up to a number
        return _Scores(scores, frozenset())
    finite = {key: score for key, score in scores.items() if isfinite(score)}
    return _Scores(finite, frozenset(scores).difference(finite))


def _union(words: _Scores, proposed: _Scores) -> list[Key]:
    return list(dict.fromkeys((*words.by_key, *proposed.by_key)))


def _reciprocal(lane: Lane, ranks: Mapping[Key, int], key: Key, k: int) -> Part:
    rank = ranks.get(key)
    if rank is None:
        return Part(lane.value, 0.0, f"not among the {lane.value} candidates")
    return Part(lane.value, 1.0 / (k + rank), f"rank {rank} of {len(ranks)}, k {k}")


def _ranked(fused: list[Fused]) -> list[Fused]:
    """Sort by score; the sort is stable, and the union was made in the order that decides between equals."""
    return sorted(fused, key=attrgetter("score"), reverse=True)
