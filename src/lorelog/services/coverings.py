"""Summaries and what they sum up: which goes below which in a ranking, and how one gets from one to the other.

A summary's anchor names the contents that it covers, so they are known wherever they stand, and an edited one is covered no more.
The originals stay and are found. In a search they go below their summary where both were found and the summary has all of the
question's words that the original has: who asks in general terms reads the summary first, and what only the original says still
comes up where it did. It holds for as long as the summary is in the index, and only within its own project, or everywhere for a
global one: what a cloned repository holds must not move what stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from lorelog.core.document import GLOBAL, StoredChunk
from lorelog.core.memory import CoveredChunk, ExpandReply
from lorelog.core.ports import Covering, Store
from lorelog.core.query import Part
from lorelog.retrieval.cost import estimate_tokens
from lorelog.retrieval.dedupe import Ranked

SHOWN = 50
"""Sources of a summary that `expand` names."""
_LISTED = "<!-- covers:"
_MARGIN = 0.02
"""Of the score: within this below its summary come those that would have been above it, in their order."""


class Coverings:
    """Which contents are summed up by what."""

    def __init__(self, told: Iterable[Covering] = ()) -> None:
        self._by_content: dict[str, list[Covering]] = {}
        self._by_summary: dict[str, Covering] = {}
        for one in told:
            self._by_summary[one.summary] = one
            for content in one.covers:
                self._by_content.setdefault(content, []).append(one)

    def __bool__(self) -> bool:
        return bool(self._by_content)

    def of(self, stored: StoredChunk) -> list[str]:
        """Return the ids of the summaries that cover a chunk."""
        known = self._by_content.get(stored.chunk.content_hash, ())
        return [one.summary for one in known if one.project in (stored.project, GLOBAL)]

    def covered(self, summary: str) -> tuple[str, ...]:
        """Return the contents that a summary covers."""
        known = self._by_summary.get(summary)
        return known.covers if known is not None else ()


@dataclass(frozen=True, slots=True)
class _Piece:
    score: float
    words: frozenset[str]


def put_below(ranked: Sequence[Ranked], coverings: Coverings, words: Callable[[str], frozenset[str]]) -> list[Ranked]:
    """Return a ranking in which what is covered goes below its summary. `words` tells which of the question's a text has."""
    pieces: dict[str, list[_Piece]] = {}
    for one in ranked:
        anchor = one.stored.chunk.anchor
        if anchor is not None and coverings.covered(anchor.memory):
            piece = _Piece(one.fused.score, words(one.stored.chunk.matched_text))
            pieces.setdefault(anchor.memory, []).append(piece)
    if not pieces:
        return list(ranked)
    lowered = [_lowered(one, coverings, pieces, words) for one in ranked]
    return sorted(lowered, key=lambda one: -one.fused.score)


def _lowered(
    one: Ranked, coverings: Coverings, pieces: dict[str, list[_Piece]], words: Callable[[str], frozenset[str]]
) -> Ranked:
    summaries = [summary for summary in coverings.of(one.stored) if summary in pieces]
    if not summaries:
        return one
    held = words(one.stored.chunk.matched_text)
    found = [(piece.score, summary) for summary in summaries for piece in pieces[summary] if piece.words >= held]
    if not found:
        return one
    score, summary = max(found)
    value = _below(one.fused.score, score) - one.fused.score
    if value >= 0.0:
        return one
    part = Part("covered", value, f"the summary {summary} says so too")
    return replace(one, fused=one.fused.plus(value, lambda: (part,)))


def _below(score: float, summary: float) -> float:
    """Return a score below that of the summary, higher the higher it was; what is well below stays as it is."""
    above = score - (summary - _MARGIN)
    return score if above <= 0.0 else summary - _MARGIN * _MARGIN / (_MARGIN + above)


def name_sources(reply: ExpandReply, store: Store, coverings: Coverings) -> ExpandReply:
    """Return a section with what it sums up, or with a note of what sums it up."""
    anchor = reply.chunk.chunk.anchor
    covers = coverings.covered(anchor.memory) if anchor is not None and anchor.memory else ()
    if not covers:
        summaries = coverings.of(reply.chunk)
        notes = [f"summed up in {summary}: 'lorelog expand {summary}' shows it" for summary in summaries]
        return replace(reply, notes=(*reply.notes, *notes)) if notes else reply
    # Its own list of hashes says nothing to a reader, and may be longer than the summary.
    content = "\n".join(line for line in reply.content.split("\n") if not line.startswith(_LISTED))
    reply = replace(reply, content=content, tokens=estimate_tokens(content))
    found: list[CoveredChunk] = []
    for content in covers[:SHOWN]:
        stands = [one for one in store.find(content) if one.chunk.content_hash == content]
        if stands:
            chunk = stands[0].chunk
            found.append(
                CoveredChunk(content, stands[0].id, chunk.source, chunk.start_line, chunk.end_line, chunk.date)
            )
    notes = [f"it sums up {len(covers):,} chunks; 'lorelog expand ID' shows one, by the id that a line cites"]
    gone = min(len(covers), SHOWN) - len(found)
    if gone:
        notes.append(f"{gone:,} of them were changed or left the index since")
    return replace(reply, covers=tuple(found), covered=len(covers), notes=(*reply.notes, *notes))
