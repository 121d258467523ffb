"""Leaving hits out that a search cannot leave out itself, and asking for more in their place.

What a store filters by stands in its index. Whether something was superseded, has expired or is believed is known elsewhere, and
changes without any write to the index: so it is looked at after the search, and after its cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lorelog.core.options import SearchOptions
from lorelog.core.query import Hit, SearchReply

Keep = Callable[[Hit], bool]

_TIMES = 4
_MOST = 1_000
"""Hits that are looked through at most for those that are kept; whoever wants more of them gets more."""


def sift(search: Callable[[SearchOptions], SearchReply], options: SearchOptions, keep: Keep) -> SearchReply:
    """Return the best `options.k` hits that are kept. Asks again for more, as long as there are more and too few are left."""
    asked, most = options.k, max(options.k, _MOST)
    while True:
        reply = search(replace(options, k=asked))
        kept = tuple(hit for hit in reply.hits if keep(hit))
        if len(kept) >= options.k or len(reply.hits) < asked or asked >= most:
            return replace(reply, hits=kept[: options.k])
        asked = min(asked * _TIMES, most)


def every(*keeps: Keep) -> Keep:
    """Return what keeps only what all of these keep."""
    return lambda hit: all(keep(hit) for keep in keeps)
