"""Find memories with nearly the same content, by words and, if there are vectors, by meaning. Changes nothing.

Every memory is compared with every newer one, which for ten thousand is one matrix product and takes a few seconds. Cosines alone are
not enough: with the built-in model texts of one kind are close whatever they say. So two memories that are close in meaning must also
share many words. By words, only texts are compared that share a run of three words which few others have.

A group is a memory and all older ones close to it, without those close only to the latter: chains of small steps lead far. The
newest is usually the one to keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.errors import UsageError
from lorelog.core.memory import Duplicate, DuplicatesReply
from lorelog.core.options import ListOptions
from lorelog.core.ports import Store, Vector
from lorelog.core.query import Filters
from lorelog.retrieval.dedupe import normalized_text, split_words, word_shingles
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

MIN_COSINE, MIN_WORD_SHARE = 0.94, 0.8
"""Default thresholds: cosine, or share of common words."""
MIN_COSINES = {"builtin/lorelog-1": 0.84}
"""Of models whose cosines are known to lie elsewhere.

Of eight pairs of notes that say the same in other words, lorelog-1 finds seven this way; the eighth shares no words. Of 33,525 pairs of
dialogue turns, man pages and functions it names one: two functions that do the same.
"""
MAX_COMPARED = 10_000
"""Maximum memories to compare; older ones are left out, with a note."""
_MIN_SHARED_WORDS = 0.5
"""Share of the shorter text's words that the other must contain if their vectors are close."""
_BLOCK_ROWS = 512
_MAX_HOLDERS = 50
"""A run of words that more texts share is not significant."""

NearPairs = Mapping[int, Sequence[tuple[int, float]]]
"""By position of a memory, newest first: the positions of older ones close to it, and their similarity."""


class NearDuplicateOptions(Struct, frozen=True):
    """Threshold, scope and number of groups."""

    filters: Filters
    threshold: float | None = None
    limit: int = 20


def find_near_duplicates(store: Store, lifecycle: LifecycleIndex, options: NearDuplicateOptions) -> DuplicatesReply:
    """Return groups of memories with nearly the same content, the largest and closest first."""
    if options.threshold is not None and not 0.0 < options.threshold <= 1.0:
        raise UsageError(f"the threshold must be between 0 and 1 (got {options.threshold})")
    visible = ListOptions()
    recent = [
        stored for stored in store.recent(options.filters, MAX_COMPARED + 1) if not lifecycle.hides(stored, visible)
    ]
    notes = (f"only the newest {MAX_COMPARED:,} memories were compared",) if len(recent) > MAX_COMPARED else ()
    memories = [
        stored for stored in recent[:MAX_COMPARED] if normalized_text(stored) and not lifecycle.is_record(stored)
    ]
    vectors = store.vectors([memory.key for memory in memories])
    words = [split_words(normalized_text(memory)) for memory in memories]
    min_cosine = MIN_COSINES.get(store.reembed_state().served, MIN_COSINE)
    pairs = _find_pairs(
        memories, vectors, words, (options.threshold or min_cosine, options.threshold or MIN_WORD_SHARE)
    )
    groups = sorted(_group_pairs(memories, pairs), key=lambda group: (-len(group), -group[1].similarity))
    return DuplicatesReply(
        groups=tuple(groups[: options.limit]),
        compared=len(memories),
        by_vectors=len(vectors),
        more=len(groups) > options.limit,
        notes=notes,
    )


def _find_pairs(
    memories: Sequence[StoredChunk],
    vectors: Mapping[ChunkKey, Vector],
    words: Sequence[list[str]],
    thresholds: tuple[float, float],
) -> NearPairs:
    min_cosine, min_share = thresholds
    near: dict[int, list[tuple[int, float]]] = defaultdict(list)
    sets = [frozenset(word) for word in words]
    positions = [position for position, memory in enumerate(memories) if memory.key in vectors]
    for newer, older, cosine in _pairs_by_meaning(
        [vectors[memories[position].key] for position in positions], min_cosine
    ):
        first, second = positions[newer], positions[older]
        if len(sets[first] & sets[second]) >= _MIN_SHARED_WORDS * min(len(sets[first]), len(sets[second])):
            near[first].append((second, cosine))
    for first, second, share in _pairs_by_words(words, sets, min_share):
        near[first].append((second, share))
    return near


def _pairs_by_meaning(vectors: Sequence[Vector], min_cosine: float) -> Iterator[tuple[int, int, float]]:
    """Yield positions of vectors that are close, the newer one first, and their cosine."""
    if len(vectors) < 2:
        return
    import numpy as np

    matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS] @ matrix[start:].T
        for newer, older in zip(*np.nonzero(block >= min_cosine), strict=True):
            if older > newer:
                yield start + int(newer), start + int(older), min(float(block[newer, older]), 1.0)


def _pairs_by_words(
    words: Sequence[list[str]], sets: Sequence[frozenset[str]], min_share: float
) -> Iterator[tuple[int, int, float]]:
    """Yield positions of texts that share most of their words, the newer one first, and the share."""
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    runs: list[set[tuple[str, ...]]] = [{*word_shingles(word)} or {tuple(word)} for word in words]
    for position, own in enumerate(runs):
        for run in own:
            if len(holders[run]) <= _MAX_HOLDERS:
                holders[run].append(position)
    for position, own in enumerate(runs):
        others = {
            other for run in own if len(holders[run]) <= _MAX_HOLDERS for other in holders[run] if other > position
        }
        mine = sets[position]
        for other in others:
            shared = len(mine & sets[other])
            share = shared / (len(mine) + len(sets[other]) - shared) if shared else 0.0
            if share >= min_share:
                yield position, other, share


def _group_pairs(memories: Sequence[StoredChunk], pairs: NearPairs) -> Iterator[tuple[Duplicate, ...]]:
    taken: set[int] = set()
    for position in sorted(pairs):
        if position in taken:
            continue
        older: dict[int, float] = {}
        for other, share in pairs[position]:
            if other not in taken:
                older[other] = max(share, older.get(other, 0.0))
        if older:
            taken |= {position, *older}
            rest = sorted(older.items(), key=lambda item: (-item[1], item[0]))
            yield (Duplicate(memories[position], 1.0), *(Duplicate(memories[other], share) for other, share in rest))
