"""Which chunks are summed up, and what of them a model sees.

Of one project, in the order of time. Left out is what a reader would not be shown either (superseded, expired), what was compiled
and would only say again what its sources say (records' pages, digests, earlier summaries of ours), and what a summary that is
there covers already: so the same is summed up once. A text that stands in two places counts once. What a model sees is redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lorelog.core.document import StoredChunk
from lorelog.core.options import ListOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import is_compiled
from lorelog.services.fates import Fates

OURS = "compact-"
"""How the id of a summary begins."""
_LEAST_LABEL = 8


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk to be summed up."""

    id: str
    """The beginning of its content's hash: what a line cites, and what `expand` finds it by."""
    day: str
    text: str
    """Redacted."""
    stored: StoredChunk

    @property
    def hash(self) -> str:
        """What it is known by, wherever it stands."""
        return self.stored.chunk.content_hash


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be summed up, oldest first, and how much was left out because it is summed up already."""

    sources: tuple[Source, ...]
    covered: int = 0


def choose(store: Store, project: str, filters: Filters, fates: Fates, clean: Callable[[str], str]) -> Chosen:
    """Return the chunks of a project that filters admit and that should be summed up."""
    found: dict[str, tuple[StoredChunk, str]] = {}
    covered: set[str] = set()
    for stored in _admitted(store, project, filters):
        chunk = stored.chunk
        if _is_left_out(stored, fates):
            continue
        if fates.covered_by(stored):
            covered.add(chunk.content_hash)
        elif chunk.content_hash not in found and (text := clean(chunk.matched_text).strip()):
            found[chunk.content_hash] = (stored, text)
    ordered = sorted(found.values(), key=lambda one: _place(one[0]))
    labels = label(list(found))
    return Chosen(
        tuple(Source(labels[one.chunk.content_hash], one.chunk.date[:10], text, one) for one, text in ordered),
        len(covered),
    )


def label(hashes: Sequence[str]) -> dict[str, str]:
    """Return the beginning of each hash that is long enough to mean one of them."""
    length = _LEAST_LABEL
    while len({one[:length] for one in hashes}) < len(set(hashes)):
        length += 1
    return {one: one[:length] for one in hashes}


def _admitted(store: Store, project: str, filters: Filters) -> Iterator[StoredChunk]:
    for document in store.documents():
        if document.project != project:
            continue
        if filters.source_prefix and not is_below(document.source, filters.source_prefix):
            continue
        for stored in store.chunks_of(document.source):
            day = stored.chunk.date[:10]
            if (not filters.since or day >= filters.since) and (not filters.until or "" < day <= filters.until):
                yield stored


def _is_left_out(stored: StoredChunk, fates: Fates) -> bool:
    anchor = stored.chunk.anchor
    if anchor is not None and anchor.memory.startswith(OURS):
        return True
    return fates.is_record(stored) or is_compiled(stored.chunk.content) or fates.hides(stored, ListOptions())


def _place(stored: StoredChunk) -> tuple[str, str, int, str]:
    chunk = stored.chunk
    return (chunk.date, chunk.source, chunk.start_line, chunk.content_hash)
