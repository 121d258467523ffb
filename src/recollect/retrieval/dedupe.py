"""One text, one hit: repeats are named with the best of them instead of taking its neighbours' places.

Texts are the same when they differ in white space only. Anything looser (case, near repeats) would hide a text that
does say something else. Comments do not count, because `Chunk.text` has none, and neither does a heading that only tells
the time: the same note at 14:30 and at 16:05 is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from recollect.core.document import StoredChunk
from recollect.retrieval.fuse import Fused

_CLOCK = re.compile(r"\A#{1,6}[ \t]+\d{1,2}:\d{2}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A scored chunk, and the places that say exactly the same, as `source:first-last`."""

    fused: Fused
    stored: StoredChunk
    duplicates: tuple[str, ...] = ()


def drop_repeats(ranked: Iterable[tuple[Fused, StoredChunk]]) -> list[Ranked]:
    """Keep the first of each text in a ranking, best first; where the best scores are equal, the newest of these."""
    groups: dict[str, list[tuple[Fused, StoredChunk]]] = {}
    for fused, stored in ranked:
        groups.setdefault(_said(stored), []).append((fused, stored))
    return [_join(group) for group in groups.values()]


def _said(stored: StoredChunk) -> str:
    return " ".join(_CLOCK.sub("", stored.chunk.text).split())


def place(stored: StoredChunk) -> str:
    """Return where a chunk stands, as `source:first-last`."""
    return f"{stored.chunk.source}:{stored.chunk.start_line}-{stored.chunk.end_line}"


def _join(group: list[tuple[Fused, StoredChunk]]) -> Ranked:
    best_score = group[0][0].score
    equals = [one for one in group if one[0].score == best_score]
    best = max(equals, key=lambda one: one[1].chunk.date)
    return Ranked(*best, duplicates=tuple(place(stored) for _, stored in group if stored is not best[1]))
