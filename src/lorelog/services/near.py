"""Which memories say nearly the same: by their words, and by what they mean where there are vectors. Nothing is changed.

Every memory is compared with every newer one, which for ten thousand is one product of matrices and takes a few seconds. Cosines alone
do not tell: with the built-in model texts of one kind come near each other whatever they say. So two memories that are near
by meaning must also share a good part of their words. By words, only texts are compared that share a run of three which few
others have.

A group is a memory and all older ones that are near to it, and not what is near to those: chains of small steps lead far. The newest is
the one to keep, as a rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lorelog.core.document import Key, StoredChunk
from lorelog.core.errors import UsageError
from lorelog.core.memory import Twin, TwinsReply
from lorelog.core.options import ListOptions
from lorelog.core.ports import Store, Vector
from lorelog.core.query import Filters
from lorelog.retrieval.dedupe import cut_words, said_by, shingles_of
from lorelog.services.fates import Fates

MEANING, WORDING = 0.94, 0.8
"""From which cosine, or from which share of common words, two memories are near unless told otherwise.

With the built-in model, of six pairs of notes that say the same in other words these find four; of 33,670 pairs of dialogue turns, man
pages and functions they name 13, most of which are alike."""
MOST = 10_000
"""Memories that are compared; beyond these, the older ones are left out and it is said."""
_SHARED = 0.5
"""Of the shorter text's words, how many the other must have where vectors are near."""
_A_TIME = 512
_MOST_HOLDERS = 50
"""A run of words that more texts share tells nothing of any two."""

Pairs = Mapping[int, Sequence[tuple[int, float]]]
"""By the place of a memory, newest first: the places of older ones that are near to it, and how near."""


@dataclass(frozen=True, slots=True)
class NearOptions:
    """What counts as near, and how many groups are wanted."""

    filters: Filters
    threshold: float | None = None
    limit: int = 20


def find_near(store: Store, fates: Fates, options: NearOptions) -> TwinsReply:
    """Return groups of memories that say nearly the same, the largest and nearest first."""
    if options.threshold is not None and not 0.0 < options.threshold <= 1.0:
        raise UsageError(f"the threshold is {options.threshold}, not within 0 and 1")
    shown = ListOptions()
    found = [one for one in store.recent(options.filters, MOST + 1) if not fates.hides(one, shown)]
    notes = (f"only the newest {MOST:,} memories were compared",) if len(found) > MOST else ()
    memories = [one for one in found[:MOST] if said_by(one) and not fates.is_record(one)]
    vectors = store.vectors([one.key for one in memories])
    words = [cut_words(said_by(one)) for one in memories]
    pairs = _pairs(memories, vectors, words, options.threshold)
    groups = sorted(_groups(memories, pairs), key=lambda group: (-len(group), -group[1].similarity))
    return TwinsReply(
        groups=tuple(groups[: options.limit]),
        compared=len(memories),
        by_vectors=len(vectors),
        more=len(groups) > options.limit,
        notes=notes,
    )


def _pairs(
    memories: Sequence[StoredChunk],
    vectors: Mapping[Key, Vector],
    words: Sequence[list[str]],
    threshold: float | None,
) -> Pairs:
    near: dict[int, list[tuple[int, float]]] = defaultdict(list)
    sets = [frozenset(one) for one in words]
    places = [place for place, one in enumerate(memories) if one.key in vectors]
    for newer, older, cosine in _by_meaning([vectors[memories[one].key] for one in places], threshold or MEANING):
        first, second = places[newer], places[older]
        if len(sets[first] & sets[second]) >= _SHARED * min(len(sets[first]), len(sets[second])):
            near[first].append((second, cosine))
    for first, second, share in _by_words(words, sets, threshold or WORDING):
        near[first].append((second, share))
    return near


def _by_meaning(vectors: Sequence[Vector], least: float) -> Iterator[tuple[int, int, float]]:
    """Yield places of vectors that are near, the newer one first, and their cosine."""
    if len(vectors) < 2:
        return
    import numpy as np

    matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
    for start in range(0, len(vectors), _A_TIME):
        block = matrix[start : start + _A_TIME] @ matrix[start:].T
        for newer, older in zip(*np.nonzero(block >= least), strict=True):
            if older > newer:
                yield start + int(newer), start + int(older), min(float(block[newer, older]), 1.0)


def _by_words(
    words: Sequence[list[str]], sets: Sequence[frozenset[str]], least: float
) -> Iterator[tuple[int, int, float]]:
    """Yield places of texts that share most of their words, the newer one first, and how many they share."""
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    runs: list[set[tuple[str, ...]]] = [{*shingles_of(one)} or {tuple(one)} for one in words]
    for place, own in enumerate(runs):
        for run in own:
            if len(holders[run]) <= _MOST_HOLDERS:
                holders[run].append(place)
    for place, own in enumerate(runs):
        others = {other for run in own if len(holders[run]) <= _MOST_HOLDERS for other in holders[run] if other > place}
        mine = sets[place]
        for other in others:
            shared = len(mine & sets[other])
            share = shared / (len(mine) + len(sets[other]) - shared) if shared else 0.0
            if share >= least:
                yield place, other, share


def _groups(memories: Sequence[StoredChunk], pairs: Pairs) -> Iterator[tuple[Twin, ...]]:
    taken: set[int] = set()
    for place in sorted(pairs):
        if place in taken:
            continue
        older: dict[int, float] = {}
        for other, share in pairs[place]:
            if other not in taken:
                older[other] = max(share, older.get(other, 0.0))
        if older:
            taken |= {place, *older}
            rest = sorted(older.items(), key=lambda one: (-one[1], one[0]))
            yield (Twin(memories[place], 1.0), *(Twin(memories[one], share) for one, share in rest))
