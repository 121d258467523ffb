"""What a hit is worth: the records that stand behind it, judged as the ledger is now.

A search finds by text, and its answers may be cached; trust comes from neither. So it is looked up for each answer, after the
search and its cache, from tables that have just caught up with the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.core.document import Anchor, Chunk
from lorelog.core.errors import StoreError
from lorelog.core.options import SearchOptions
from lorelog.core.paths import is_below
from lorelog.core.query import Grounding, Hit, SearchReply, Trusted
from lorelog.core.record import CANDIDATE_TRUST, FOREIGN, Record, Tier, Trust
from lorelog.services.sifting import Keep

if TYPE_CHECKING:  # a search of a home without records must not load what reads them
    from lorelog.services.records.book import Book

_MOST_GROUNDS = 12
_ABOUT = frozenset({"review", "verification"})
"""Kinds that say nothing but what another record is worth."""
_UNKNOWN = replace(CANDIDATE_TRUST, reason="made from a record that the ledger does not hold now")
_TAINTED = replace(
    CANDIDATE_TRUST, reason="found by its text, which a tool or an import brought; nobody speaks for it", tainted=True
)


@dataclass(slots=True)
class Grounder:
    """Judges the hits of one search. Without a book nothing is a record."""

    folder: Path
    """Where the pages of records lie."""
    book: Book | None = None
    _superseded: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    def ground(self, reply: SearchReply) -> SearchReply:
        """Return the answer with what each hit is worth, and what it stands on."""
        ids = {hit.id: found for hit in reply.hits if (found := self.record_of(hit))}
        judged = self._judged(ids.values())
        hits = tuple(
            judged[ids[hit.id]].of(hit)
            if ids.get(hit.id) in judged
            else replace(hit, trust=_worth_of_text(hit.anchor, was_record=hit.id in ids))
            for hit in reply.hits
        )
        return replace(reply, hits=hits)

    def record_of(self, hit: Hit) -> str:
        """Return the id of the record that a hit is made from; empty for any other text, whatever its anchor says."""
        return self._record(hit.source, hit.anchor)

    def standing(self, chunk: Chunk) -> tuple[Trust, str]:
        """Return what a chunk is worth, and which record has taken the place of the one that it is made from."""
        identity = self._record(chunk.source, chunk.anchor)
        judged = self._judged([identity]) if identity else {}
        if self.book is None or identity not in judged:
            return _worth_of_text(chunk.anchor, was_record=bool(identity)), ""
        newer = self.book.tables().superseding(identity)
        return judged[identity].trust, newer[-1].id if newer else ""

    def _record(self, source: str, anchor: Anchor | None) -> str:
        if self.book is None or anchor is None or not is_below(source, str(self.folder)):
            return ""
        from lorelog.services.records.page import identity_of

        return identity_of(anchor.memory)

    def keeps(self, options: SearchOptions) -> Keep:
        """Return what keeps the hits, once grounded, that are worth what was asked for and in force."""

        def keep(hit: Hit) -> bool:
            identity = self.record_of(hit)
            if identity and (
                identity not in self._known or (identity in self._superseded and not options.include_superseded)
            ):
                return False
            return is_worth(hit.trust, options.trust)

        return keep

    def _judged(self, ids: Iterable[str]) -> dict[str, _Judged]:
        wanted = list(dict.fromkeys(ids))
        if self.book is None or not wanted:
            return {}
        with suppress(StoreError):  # a ledger that cannot be read makes nothing of a hit; it does not take it away
            return self._judge(self.book, wanted)
        self._known.update(wanted)
        return {}

    def _judge(self, book: Book, wanted: list[str]) -> dict[str, _Judged]:
        from lorelog.records.trust import rests_on, tiers

        tables = book.tables()
        records = {one.id: one for one in reversed(tables.of_ids(wanted))}
        grounds = {one: rests_on(record)[: _MOST_GROUNDS - 1] for one, record in records.items()}
        around = tables.around([*wanted, *(other for near in grounds.values() for other in near)])
        worth = tiers(around, book.signer)
        near = {one.id: one for one in reversed(around)}
        self._known.update(records)
        self._superseded.update(one.supersedes for one in around if one.supersedes and one.supersedes != one.id)
        # What was said of a record goes with it: a check of what no longer holds would be found in its stead.
        self._superseded.update(
            one.id for one in records.values() if one.kind in _ABOUT and one.reply_to in self._superseded
        )
        return {
            one: _Judged(
                worth[one], tuple(_ground(near[other], worth) for other in (one, *grounds[one]) if other in near)
            )
            for one in records
            if one in worth
        }


@dataclass(frozen=True, slots=True)
class _Judged:
    trust: Trust
    grounding: tuple[Grounding, ...]

    def of(self, hit: Hit) -> Hit:
        return replace(hit, trust=self.trust, grounding=self.grounding)


def at_least(options: SearchOptions, folder: Path) -> SearchOptions:
    """Return options that look among the records alone, where only records are worth enough."""
    if options.trust is Trusted.ANY or options.filters.source_prefix:
        return options
    return replace(options, filters=replace(options.filters, source_prefix=str(folder)))


def is_worth(trust: Trust, wanted: Trusted) -> bool:
    """Say whether something is worth what was asked for; verified is also what a verified record speaks for."""
    if wanted is Trusted.VERIFIED:
        return trust.tier is Tier.VERIFIED or bool(trust.verified_by)
    return wanted is Trusted.ANY or trust.tier in {Tier.CANONICAL, Tier.VERIFIED}


def _ground(record: Record, worth: Mapping[str, Trust]) -> Grounding:
    return Grounding(record.id, record.task, record.thread, record.kind, worth[record.id].tier)


def _worth_of_text(anchor: Anchor | None, *, was_record: bool) -> Trust:
    """Return what a text is worth that no record stands behind; what it says may still be a tool's."""
    if was_record:
        return _UNKNOWN
    return _TAINTED if anchor is not None and anchor.origin in FOREIGN else CANDIDATE_TRUST
