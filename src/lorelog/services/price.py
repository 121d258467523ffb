"""What each hit costs its reader: its snippet, and the section that expanding it would show.

Disclosure has three layers, and each names the price of the next: a search shows snippets and says what each section would
cost, `expand` shows a section and says what its conversation would. Every search prices its hits, so it is done by a
glance at the files, and loads no parser. Where a file has changed or is gone, `expand` would show the indexed chunk, and
that is the price.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lorelog.core.query import Hit, SearchReply
from lorelog.ingest.glance import Glance
from lorelog.retrieval.cost import estimate_tokens

_SAMPLE = 1 << 14
"""Characters after which a section's price is told from its beginning."""


def price(reply: SearchReply) -> SearchReply:
    """Return the answer with the cost of each hit's snippet and section."""
    prices: dict[str, int] = {}
    for source, hits in by_source(reply.hits).items():
        with Glance(source) as file:
            for hit in hits:
                prices[hit.id] = _price(file.section(hit.content, hit.start_line, hit.heading_level) or hit.content)
    priced = (replace(hit, tokens=estimate_tokens(hit.snippet), expand_tokens=prices[hit.id]) for hit in reply.hits)
    return replace(reply, hits=tuple(priced))


def by_source(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Return the hits of each file together, so that it is read once and let go of."""
    grouped: dict[str, list[Hit]] = {}
    for hit in hits:
        grouped.setdefault(hit.source, []).append(hit)
    return grouped


def _price(text: str) -> int:
    if len(text) <= _SAMPLE:
        return estimate_tokens(text)
    return estimate_tokens(text[:_SAMPLE]) * len(text) // _SAMPLE
