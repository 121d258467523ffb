"""Filter hits after a search, and add the token cost of each hit.

A store filters by what its index contains. Whether a memory is superseded, expired or trusted changes without a write to the index, so
it is checked after the search and its cache.

Each hit gets the cost of its snippet and of the section that `expand` would show; `expand` in turn gives the cost of the conversation.
Every search does this, so no file is opened: the index has the section. If its file was changed since or is gone, the cost is that of
the chunk, which `expand` shows if it does not find it in the file any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

from msgspec.structs import replace

from lorelog.core.document import FileStamp, StoredChunk
from lorelog.core.ports import Store
from lorelog.core.query import NOTHING_RELEVANT, Hit
from lorelog.retrieval.cache import ProcessCache
from lorelog.retrieval.relevance import confidence_words
from lorelog.retrieval.snippet import Snippet
from lorelog.retrieval.token_estimate import estimate_tokens

_GROWTH_FACTOR = 4
_MAX_HITS_SCANNED = 1_000
"""Maximum hits to scan for those that are kept, unless more are requested."""


_CHUNK_FIELDS = (
    *("source", "start_line", "end_line", "heading", "heading_level", "heading_path", "date", "date_source"),
    *("type", "tags", "content", "content_hash", "anchor"),
)
"""Fields of a hit that are those of its chunk."""


def hit_of(stored: StoredChunk, snippet: Snippet, **fields: Any) -> Hit:
    same = {name: getattr(stored.chunk, name) for name in _CHUNK_FIELDS}
    same |= {"snippet": snippet.text, "matches": snippet.matches, "tokens": estimate_tokens(snippet.text)}
    return Hit(id=stored.id, project=stored.project, **same, **fields)


def growing_limits(k: int, max_limit: int = _MAX_HITS_SCANNED) -> Iterator[int]:
    """Yield how many hits to search for, more each time, as long as filters leave fewer than `k`."""
    limit, max_limit = k, max(k, max_limit)
    yield limit
    while limit < max_limit:
        limit = min(limit * _GROWTH_FACTOR, max_limit)
        yield limit


def best_of_each_memory(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    distinct: dict[tuple[str, ...], Hit] = {}
    for hit in hits:
        memory = hit.anchor.memory if hit.anchor is not None else ""
        # Text without an id is one memory per section.
        distinct.setdefault(("memory", memory) if memory else (hit.source, *hit.heading_path), hit)
    return tuple(distinct.values())


def add_confidence(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Return hits with their confidence in a word, where their relevance is known."""
    words = confidence_words([hit.relevance for hit in hits])
    return tuple(replace(hit, confidence=word) for hit, word in zip(hits, words, strict=True))


_JUDGED_HITS = 3


def judge_hits(hits: Sequence[Hit]) -> str:
    """Return `NOTHING_RELEVANT` if there is no hit, or probably none of the first ones is relevant, as if each were by itself."""
    if hits and hits[0].confidence is None:
        return ""
    return NOTHING_RELEVANT if prod(1.0 - hit.relevance for hit in hits[:_JUDGED_HITS]) > 0.5 else ""


_COSTS: ProcessCache[int] = ProcessCache(4_096)
"""Estimated tokens of the sections of hits, by chunk and state of its file."""
_SAMPLE_CHARS = 1 << 14
"""A longer section's cost is extrapolated from its first characters."""


def add_token_costs(hits: tuple[Hit, ...], store: Store) -> tuple[Hit, ...]:
    """Return hits with the cost of their snippets, and of their sections as the store has them."""
    section_tokens: dict[str, int] = {}
    unknown: dict[str, tuple[Hit, FileStamp | None]] = {}
    stamps = {source: FileStamp.of(source) for source in {hit.source for hit in hits}}
    for hit in hits:
        tokens = _COSTS.get((hit.id, stamps[hit.source]))
        if tokens is None:
            unknown[hit.id] = hit, stamps[hit.source]
        else:
            section_tokens[hit.id] = tokens
    indexed = store.sections([id_ for id_, (_, stamp) in unknown.items() if stamp]) if unknown else {}
    for chunk_id, (hit, stamp) in unknown.items():
        section = indexed.get(chunk_id)
        is_current = section is not None and section.stamp == stamp
        tokens = _estimate_section_tokens(section.text.rstrip() if section and is_current else hit.content)
        section_tokens[chunk_id] = tokens
        if is_current:
            _COSTS.put((chunk_id, stamp), tokens)
    return tuple(
        replace(hit, tokens=hit.tokens or estimate_tokens(hit.snippet), expand_tokens=section_tokens[hit.id])
        for hit in hits
    )


def _estimate_section_tokens(text: str) -> int:
    if len(text) <= _SAMPLE_CHARS:
        return estimate_tokens(text)
    return estimate_tokens(text[:_SAMPLE_CHARS]) * len(text) // _SAMPLE_CHARS
