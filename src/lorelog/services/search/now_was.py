"""Marks hits that state different values of one thing, and ranks an outdated value below the current one.

Only the best candidates of a search are compared (`retrieval.value_changes`), short ones whole, long ones in the lines that have words of the
question. The newer hit of a pair takes the place right above the older one: the pair stands where its better half stood, and nothing is
removed. Contradictions that the dates do not settle are marked on both hits, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import ChunkKey
from lorelog.core.query import Hit, ScorePart, ValueChange, ValueRole
from lorelog.retrieval.dedupe import RankedChunk
from lorelog.retrieval.value_changes import DatedText, ValuePair, find_value_pairs

_COMPARED_PER_HIT = 2
_MIN_COMPARED, _MAX_COMPARED = 10, 20
_LEAD = 1e-6
"""Score of the newer hit above the older one."""
_MAX_ABOUT_CHARS = 80


class MarkedRanking(Struct):
    """A ranking, the changes of each chunk, and the older chunk whose place a newer one took."""

    ranked: list[RankedChunk]
    changes: dict[ChunkKey, list[ValueChange]] = field(default_factory=dict)
    raised: dict[ChunkKey, ChunkKey] = field(default_factory=dict)


def mark_changes(ranked: list[RankedChunk], terms: Sequence[str], k: int, *, reorder: bool) -> MarkedRanking:
    """Compare what the first chunks of a ranking, of which `k` are shown, state about the terms of a question."""
    marked = MarkedRanking(ranked)
    best = ranked[: min(max(_COMPARED_PER_HIT * k, _MIN_COMPARED), _MAX_COMPARED)]
    pairs = find_value_pairs([DatedText.from_chunk(item.stored) for item in best], terms)
    for pair in pairs:
        older, newer = best[pair.older], best[pair.newer]
        was, now = (ValueRole.WAS, ValueRole.NOW) if pair.is_settled else (ValueRole.CONFLICT, ValueRole.CONFLICT)
        marked.changes.setdefault(older.fused.key, []).append(_change(was, pair.was, pair.now, pair, newer))
        marked.changes.setdefault(newer.fused.key, []).append(_change(now, pair.now, pair.was, pair, older))
    raised: dict[int, int] = {}
    for pair in pairs if reorder else ():
        if pair.is_settled and pair.older < pair.newer:
            raised[pair.newer] = min(raised.get(pair.newer, pair.older), pair.older)
    for place, above in raised.items():
        item, target = best[place], best[above]
        value = target.fused.score + _LEAD - item.fused.score
        part = ScorePart("now", value, f"states a newer value than {target.stored.id}, which would rank above it")
        marked.ranked[place] = replace(item, fused=item.fused.plus(value, partial(tuple, (part,))))
        marked.raised[item.fused.key] = target.fused.key
    if raised:
        marked.ranked.sort(key=lambda item: -item.fused.score)
    return marked


def _change(role: ValueRole, value: str, other_value: str, pair: ValuePair, other: RankedChunk) -> ValueChange:
    about = " ".join(pair.about.split())[:_MAX_ABOUT_CHARS]
    return ValueChange(role, about, value, other_value, other.stored.id, other.stored.chunk.date)


def forget_hidden(hits: Sequence[Hit], hidden: frozenset[str]) -> tuple[Hit, ...]:
    """Return hits without the changes that name hidden ones."""
    return tuple(
        replace(hit, now_was=tuple(change for change in hit.now_was if change.other not in hidden))
        if any(change.other in hidden for change in hit.now_was)
        else hit
        for hit in hits
    )
