"""Links between summaries and the chunks they cover: ranking of originals below their summary, and navigation between both.

A summary's anchor lists the content hashes it covers, so originals are recognized in any file, and an edited one is no longer
covered. Originals stay searchable. They rank below their summary if both match and the summary contains all query words that
the original contains: a general question shows the summary first, and a detail that only the original has keeps its rank. Links
hold as long as the summary is indexed, within its project, or everywhere for a global summary: a cloned repository must not
change the ranking of other projects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT, StoredChunk
from lorelog.core.grammar import plural
from lorelog.core.ports import Store, SummaryLink
from lorelog.core.query import ScorePart
from lorelog.retrieval.token_estimate import estimate_tokens

if TYPE_CHECKING:
    from lorelog.core.memory import ExpandReply
    from lorelog.retrieval.dedupe import RankedChunk


MAX_SOURCES_SHOWN = 50
"""Sources of a summary that `expand` lists."""
_COVERS_PREFIX = "<!-- covers:"
_MARGIN = 0.02
"""Score range below a summary into which the lowered originals are mapped, in their order."""


class SummaryLinks:
    """Which contents are covered by which summaries."""

    def __init__(self, links: Iterable[SummaryLink] = ()) -> None:
        self._by_content: dict[str, list[SummaryLink]] = {}
        self._by_summary: dict[str, SummaryLink] = {}
        for link in links:
            self._by_summary[link.summary] = link
            for content in link.covers:
                self._by_content.setdefault(content, []).append(link)

    def __bool__(self) -> bool:
        return bool(self._by_content)

    def summaries_of(self, stored: StoredChunk) -> list[str]:
        """Return the ids of the summaries that cover a chunk."""
        links = self._by_content.get(stored.chunk.content_hash, ())
        return [link.summary for link in links if link.project in (stored.project, GLOBAL_PROJECT)]

    def contents_of(self, summary: str) -> tuple[str, ...]:
        """Return the content hashes that a summary covers."""
        link = self._by_summary.get(summary)
        return link.covers if link is not None else ()


def rank_below_summaries(
    ranked: Sequence[RankedChunk], links: SummaryLinks, words: Callable[[str], frozenset[str]]
) -> list[RankedChunk]:
    """Return the ranking with covered chunks below their summary. `words` returns the query words of a text."""
    pieces: dict[str, list[tuple[float, frozenset[str]]]] = {}
    for item in ranked:
        anchor = item.stored.chunk.anchor
        if anchor is not None and links.contents_of(anchor.memory):
            piece = (item.fused.score, words(item.stored.chunk.matched_text))
            pieces.setdefault(anchor.memory, []).append(piece)
    if not pieces:
        return list(ranked)
    lowered = [_lower_below_summary(item, links, pieces, words) for item in ranked]
    return sorted(lowered, key=lambda item: -item.fused.score)


def _lower_below_summary(
    ranked: RankedChunk,
    links: SummaryLinks,
    pieces: dict[str, list[tuple[float, frozenset[str]]]],
    words: Callable[[str], frozenset[str]],
) -> RankedChunk:
    summaries = [summary for summary in links.summaries_of(ranked.stored) if summary in pieces]
    if not summaries:
        return ranked
    own_words = words(ranked.stored.chunk.matched_text)
    candidates = [
        (score, summary) for summary in summaries for score, words_of in pieces[summary] if words_of >= own_words
    ]
    if not candidates:
        return ranked
    score, summary = max(candidates)
    value = _score_below(ranked.fused.score, score) - ranked.fused.score
    if value >= 0.0:
        return ranked
    part = ScorePart("covered", value, f"covered by the summary {summary}")
    return replace(ranked, fused=ranked.fused.plus(value, lambda: (part,)))


def _score_below(score: float, summary: float) -> float:
    """Return a score below the summary's that keeps the order; a score well below it is unchanged."""
    above = score - (summary - _MARGIN)
    return score if above <= 0.0 else summary - _MARGIN * _MARGIN / (_MARGIN + above)


def attach_sources(reply: ExpandReply, store: Store, links: SummaryLinks) -> ExpandReply:
    """Return a section with the sources it covers, or with a note of the summaries that cover it."""
    anchor = reply.chunk.chunk.anchor
    covers = links.contents_of(anchor.memory) if anchor is not None and anchor.memory else ()
    if not covers:
        summaries = links.summaries_of(reply.chunk)
        notes = [f"summarized in {summary}: 'lorelog show {summary}' shows it" for summary in summaries]
        return replace(reply, notes=(*reply.notes, *notes)) if notes else reply
    # The list of hashes is useless to a reader and may be longer than the summary.
    content = "\n".join(line for line in reply.content.split("\n") if not line.startswith(_COVERS_PREFIX))
    reply = replace(reply, content=content, tokens=estimate_tokens(content))
    from lorelog.core.memory import CoveredChunk

    sources: list[CoveredChunk] = []
    for content in covers[:MAX_SOURCES_SHOWN]:
        matches = [stored for stored in store.find(content) if stored.chunk.content_hash == content]
        if matches:
            chunk = matches[0].chunk
            sources.append(
                CoveredChunk(content, matches[0].id, chunk.source, chunk.start_line, chunk.end_line, chunk.date)
            )
    notes = [f"it summarizes {plural(len(covers), 'chunk')}; 'lorelog show ID' shows one, by the id that a line cites"]
    gone = min(len(covers), MAX_SOURCES_SHOWN) - len(sources)
    if gone:
        notes.append(f"{gone:,} of them were changed or removed since")
    return replace(reply, covers=tuple(sources), covered=len(covers), notes=(*reply.notes, *notes))
