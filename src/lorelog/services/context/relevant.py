"""What fits a task: what is marked as always worth knowing, then what a search finds among what was written to be read again.

A search over everything finds chatter, too. As in memd, only documents, research, decisions, plans and summaries count here,
what bears a `ctx:` tag, and records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lorelog.core.document import StoredChunk
from lorelog.core.query import Coverage, Explanation, Filters, Hit, Lane, Part, SearchReply
from lorelog.core.record import CANDIDATE_TRUST, FOREIGN
from lorelog.services.context.sight import HOT, MARK, SUBSYSTEM, Sight
from lorelog.services.context.subsystems import subsystems_of
from lorelog.services.price import price

TYPES = ("doc", "research", "decision", "plan", "summary")
MOST_HOT = 5
_WIDER = 4
"""So many times what is wanted is searched for where most of what is found does not count."""
_LEAST = 40
_LETTERS = 300


@dataclass(frozen=True, slots=True)
class Relevant:
    """Hits for a task, and how many of them are there because they are hot."""

    hits: tuple[Hit, ...]
    hot: int
    notes: tuple[str, ...] = ()


def hot_context(sight: Sight, limit: int) -> tuple[Hit, ...]:
    """Return what is marked as hot, newest first."""
    hits = tuple(_hit(one) for one in sight.newest(limit, HOT))
    return price(SearchReply("", Lane.LEXICAL, hits, Coverage(0, 0))).hits


def newest_hits(sight: Sight, limit: int) -> tuple[Hit, ...]:
    """Return what was remembered last: entries of journals; where there are none, whatever is newest."""
    return tuple(_hit(one) for one in sight.remembered(limit) or sight.newest(limit))


def find_relevant(sight: Sight, task: str, k: int, keys: Sequence[str] = (), *, include_hot: bool = True) -> Relevant:
    """Return what fits a task, hot ones first, each once."""
    hot = hot_context(sight, min(k, MOST_HOT)) if include_hot else ()
    notes: list[str] = []
    found: list[Hit] = []
    for filters, wanted in _searches(sight.filters, k, keys):
        reply = sight.archive.search(
            task, replace(sight.archive.options, k=wanted, filters=filters, token_budget=0, min_relevance=0.0)
        )
        notes += [note for note in reply.notes if note not in notes]
        found += [hit for hit in reply.hits if filters.types or filters.tags or _counts(sight, hit, keys)]
    found.sort(key=lambda hit: -hit.relevance)
    return Relevant(tuple(distinct([*hot, *found])[:k]), len(hot), tuple(notes))


def distinct(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits, each and each text and each record once: the first of them."""
    seen: set[str] = set()
    kept = []
    for hit in hits:
        names = {hit.id, f"{hit.project}\n{hit.content_hash}", *(one.record for one in hit.grounding[:1])}
        if not names & seen:
            kept.append(hit)
        seen |= names
    return kept


def _searches(filters: Filters, k: int, keys: Sequence[str]) -> list[tuple[Filters, int]]:
    """Return what to search, and for how many: what a filter can say by itself, and all, for what it cannot."""
    wider = (filters, max(_WIDER * k, _LEAST))
    if keys:
        return [*((replace(filters, tags=(SUBSYSTEM + key,)), k) for key in keys), wider]
    return [(replace(filters, types=TYPES), k), wider]


def _counts(sight: Sight, hit: Hit, keys: Sequence[str]) -> bool:
    """Say whether a hit of a search over everything is one of those that count."""
    if not keys:
        return bool(hit.grounding) or any(tag.startswith(MARK) for tag in hit.tags)
    if not hit.grounding or not sight.archive.book.exists():
        return False
    record = sight.archive.book.tables().get(hit.grounding[0].record)
    return record is not None and not set(keys).isdisjoint(subsystems_of(record))


def _hit(stored: StoredChunk) -> Hit:
    """Return a memory as a hit that nobody searched for."""
    chunk = stored.chunk
    foreign = chunk.anchor is not None and chunk.anchor.origin in FOREIGN
    return Hit(
        id=stored.id,
        score=1.0,
        source=chunk.source,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        heading=chunk.heading,
        heading_level=chunk.heading_level,
        heading_path=chunk.heading_path,
        project=stored.project,
        date=chunk.date,
        type=chunk.type,
        tags=chunk.tags,
        content=chunk.content,
        content_hash=chunk.content_hash,
        snippet=" ".join(chunk.text.split())[:_LETTERS],
        matches=(),
        anchor=chunk.anchor,
        explanation=Explanation((Part("hot", 1.0, "marked as always worth knowing"),)),
        relevance=1.0,
        trust=replace(CANDIDATE_TRUST, tainted=foreign),
    )
