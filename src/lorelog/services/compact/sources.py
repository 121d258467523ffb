"""Select the chunks to summarize, and group them into batches that a model can read at once.

Sources are of one project, in order of time. Excluded are superseded and expired memories, derived texts that repeat their
sources (record pages, digests, earlier summaries), and chunks that an existing summary covers: each is summarized once. Equal
texts count once. Texts are redacted.

The oldest remaining source begins a batch; sources that are close to it in meaning (or words) and in time join it as long as there
is room. Only the next LOOKAHEAD sources are candidates, so that a batch stays within its time and the work grows linearly.
The same sources give the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import islice
from operator import attrgetter

from msgspec import Struct

from lorelog.core.document import StoredChunk
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import is_digest_text
from lorelog.services.memories.extractive import content_words
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

SUMMARY_PREFIX = "compact-"
"""Prefix of a summary's id."""
_MIN_LABEL_CHARS = 8


class SummarySource(Struct, frozen=True):
    """A chunk to be summarized."""

    id: str
    """Prefix of its content hash: cited by lines, and accepted by `expand`."""
    day: str
    text: str
    """Redacted."""
    stored: StoredChunk

    @property
    def hash(self) -> str:
        """Content hash, the same in every file."""
        return self.stored.chunk.content_hash


def select_sources(
    store: Store, project: str, filters: Filters, lifecycle: LifecycleIndex, clean: Callable[[str], str]
) -> tuple[list[SummarySource], int]:
    """Return the chunks of a project that match the filters and need a summary, oldest first, and how many have one."""
    selected: dict[str, tuple[StoredChunk, str]] = {}
    covered: set[str] = set()
    for stored in _matching_chunks(store, project, filters):
        chunk, anchor = stored.chunk, stored.chunk.anchor
        is_summary = anchor is not None and anchor.memory.startswith(SUMMARY_PREFIX)
        if is_summary or is_digest_text(chunk.content) or not lifecycle.is_shown(stored):
            continue
        if lifecycle.covered_by(stored):
            covered.add(chunk.content_hash)
        elif chunk.content_hash not in selected and (text := clean(chunk.matched_text).strip()):
            selected[chunk.content_hash] = (stored, text)
    labels = shorten_hashes(list(selected))
    sources = [
        SummarySource(labels[key], stored.chunk.date[:10], text, stored) for key, (stored, text) in selected.items()
    ]
    place = attrgetter("date", "source", "start_line", "content_hash")
    return sorted(sources, key=lambda source: place(source.stored.chunk)), len(covered)


def shorten_hashes(hashes: Sequence[str]) -> dict[str, str]:
    """Return for each hash the shortest prefix length that keeps all of them distinct."""
    length = _MIN_LABEL_CHARS
    while len({digest[:length] for digest in hashes}) < len(set(hashes)):
        length += 1
    return {digest: digest[:length] for digest in hashes}


def _matching_chunks(store: Store, project: str, filters: Filters) -> Iterator[StoredChunk]:
    for document in store.documents():
        is_named = not filters.source_prefix or is_below(document.source, filters.source_prefix)
        for stored in store.chunks_of(document.source) if document.project == project and is_named else ():
            day = stored.chunk.date[:10]
            if (not filters.since or day >= filters.since) and (not filters.until or "" < day <= filters.until):
                yield stored


LOOKAHEAD = 200
_DAY_PENALTY = 0.02
"""Subtracted from the similarity for each day between two sources."""
_MAX_DAYS = 30

NearnessFunction = Callable[[SummarySource, Sequence[SummarySource]], Sequence[float]]
"""Returns the similarity, 0 to 1, of a source to each of some others."""


def make_batches(
    sources: Sequence[SummarySource], tokens: Callable[[SummarySource], int], max_tokens: int, near: NearnessFunction
) -> list[tuple[SummarySource, ...]]:
    """Return the sources, given in order of time, in batches of at most `max_tokens`; each source fits by itself."""
    batches: list[tuple[SummarySource, ...]] = []
    following = iter(sources)
    waiting: list[SummarySource] = []
    while True:
        waiting += islice(following, LOOKAHEAD - len(waiting))
        if not waiting:
            return batches
        first, others = waiting[0], waiting[1:]
        nearness = near(first, others) if others else ()
        weighed = [
            value - _DAY_PENALTY * _days_apart(first, other) for value, other in zip(nearness, others, strict=True)
        ]
        taken, room = {0}, max_tokens - tokens(first)
        for position in sorted(range(len(others)), key=lambda index: (-weighed[index], index)):
            if tokens(others[position]) <= room:
                taken.add(position + 1)
                room -= tokens(others[position])
        batches.append(tuple(source for position, source in enumerate(waiting) if position in taken))
        waiting = [source for position, source in enumerate(waiting) if position not in taken]


def compare_by_words(source: SummarySource, others: Sequence[SummarySource]) -> list[float]:
    """Return the share of words that a source has in common with each other."""
    words = content_words(source.text)
    theirs = [content_words(other.text) for other in others]
    return [len(words & other) / len(words | other) if words or other else 0.0 for other in theirs]


def compare_by_vectors(store: Store) -> NearnessFunction:
    """Return a function that compares sources by vectors, or by words if a vector is missing."""
    import numpy as np

    def near(source: SummarySource, others: Sequence[SummarySource]) -> list[float]:
        vectors = store.vectors([source.stored.key for source in (source, *others)])
        if len(vectors) <= len(others):
            return compare_by_words(source, others)
        first = np.frombuffer(vectors[source.stored.key], "<f4")
        return [float(first @ np.frombuffer(vectors[other.stored.key], "<f4")) for other in others]

    return near


def _days_apart(source: SummarySource, other: SummarySource) -> int:
    try:
        difference = date.fromisoformat(other.day) - date.fromisoformat(source.day)
    except ValueError:
        return _MAX_DAYS
    return min(abs(difference.days), _MAX_DAYS)
