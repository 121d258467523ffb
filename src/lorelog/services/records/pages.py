"""Records as search results: trust of each hit, and the pages of records in the index.

Trust comes neither from the search nor from its cache: it is looked up for each reply, from tables that have just
caught up with the ledger. Every search imports this module, so it loads the record modules only if records exist.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import Anchor, Chunk, StoredChunk
from lorelog.core.errors import StoreError, UsageError
from lorelog.core.options import ChunkOptions, ScanOptions, SearchOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Hit, LifecycleState, SupportingRecord, TrustFilter
from lorelog.core.record import CANDIDATE_TRUST, UNTRUSTED_ORIGINS, Trust, TrustTier
from lorelog.services.places.workspace import RECORD_PAGES, Workspace

if TYPE_CHECKING:
    from lorelog.core.memory import ExpandReply
    from lorelog.services.records.projection import RecordProjection
    from lorelog.services.records.store import RecordStore


_MAX_GROUNDING = 12
_REVIEW_KINDS = frozenset({"review", "verification"})
"""Kinds that only rate another record."""
_VERIFIED_BELOW = 5
_UNKNOWN_TRUST = replace(CANDIDATE_TRUST, reason="made from a record that is not in the ledger")
_TAINTED_TRUST = replace(
    CANDIDATE_TRUST, reason="text from a tool or an import, without a record that supports it", tainted=True
)


_RecordRating = tuple[Trust, tuple[SupportingRecord, ...]]
"""The trust of a record, and the records that support it."""


class TrustAnnotator(Struct):
    """Adds trust to the hits of one search. Without a record store, nothing is a record."""

    folder: Path
    """Folder of the record pages."""
    records: RecordStore | None = None
    _superseded: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _verified: dict[str, str] = field(default_factory=dict)
    """By the id of a verification: the record that it verifies."""

    @property
    def spare_hits(self) -> int:
        """Further hits to annotate: a record may rank below its verifications."""
        return 0 if self.records is None else _VERIFIED_BELOW

    def annotate(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        ids = {hit.id: record_id for hit in hits if (record_id := self.record_id(hit))}
        ratings = self._rate(ids.values())
        rated = tuple(
            replace(hit, trust=ratings[ids[hit.id]][0], grounding=ratings[ids[hit.id]][1])
            if ids.get(hit.id) in ratings
            else replace(hit, trust=_text_trust(hit.anchor, was_record=hit.id in ids))
            for hit in hits
        )
        if not self._verified:
            return rated
        # Each verification comes after the record that it verifies, if both were found.
        scores = {ids[hit.id]: (hit.score, hit.relevance) for hit in reversed(rated) if hit.id in ids}
        ranked = []
        for hit in rated:
            score, relevance = scores.get(self._verified.get(ids.get(hit.id, ""), ""), (hit.score, hit.relevance))
            lower = replace(hit, score=score, relevance=min(relevance, hit.relevance)) if score < hit.score else hit
            ranked.append(lower)
        return tuple(sorted(ranked, key=lambda hit: (-hit.score, ids.get(hit.id, "") in self._verified)))

    def record_id(self, hit: Hit) -> str:
        """Return the id of the record behind a hit; empty for other text, even if its anchor names a record."""
        return self._record_id(hit.source, hit.anchor)

    def chunk_trust(self, chunk: Chunk) -> tuple[Trust, str]:
        """Return a chunk's trust, and the id of the record that supersedes its record."""
        identity = self._record_id(chunk.source, chunk.anchor)
        ratings = self._rate([identity]) if identity else {}
        if self.records is None or identity not in ratings:
            return _text_trust(chunk.anchor, was_record=bool(identity)), ""
        newer = self.records.tables().where("supersedes", identity)
        return ratings[identity][0], newer[-1].id if newer else ""

    def _record_id(self, source: str, anchor: Anchor | None) -> str:
        if self.records is None or anchor is None or not is_below(source, str(self.folder)):
            return ""
        from lorelog.services.records.projection import decode_anchor_id

        return decode_anchor_id(anchor.memory)

    def is_kept(self, hit: Hit, options: SearchOptions) -> bool:
        """Return whether an annotated hit is in force and has the required trust."""
        identity = self.record_id(hit)
        if identity and (
            identity not in self._known or (identity in self._superseded and not options.include_superseded)
        ):
            return False
        return meets_trust(hit.trust, options.trust)

    def _rate(self, ids: Iterable[str]) -> dict[str, _RecordRating]:
        unique_ids = list(dict.fromkeys(ids))
        if self.records is None or not unique_ids:
            return {}
        with suppress(StoreError):  # an unreadable ledger must not remove hits; they stay unrated
            return self._rate_from_tables(self.records, unique_ids)
        self._known.update(unique_ids)
        return {}

    def _rate_from_tables(self, store: RecordStore, ids: list[str]) -> dict[str, _RecordRating]:
        from lorelog.records.trust import assess_records, source_ids

        tables = store.tables()
        records = {record.id: record for record in reversed(tables.by_ids(ids))}
        sources = {id_: source_ids(record)[: _MAX_GROUNDING - 1] for id_, record in records.items()}
        context = tables.trust_context([*ids, *(source for cited in sources.values() for source in cited)])
        trust = assess_records(context, store.signer)
        by_id = {record.id: record for record in reversed(context)}
        self._known.update(records)
        self._superseded |= {record.supersedes for record in context if record.supersedes not in ("", record.id)}
        for record in records.values():
            if record.kind == "verification" and record.reply_to:
                self._verified[record.id] = record.reply_to
            # A review of a superseded record is hidden with it, or it would be found in its place.
            if record.kind in _REVIEW_KINDS and record.reply_to in self._superseded:
                self._superseded.add(record.id)
        return {
            id_: (
                trust[id_],
                tuple(
                    SupportingRecord(record.id, record.task, record.thread, record.kind, trust[record.id].tier)
                    for record in (by_id[cited] for cited in (id_, *sources[id_]) if cited in by_id)
                ),
            )
            for id_ in records
            if id_ in trust
        }


def restrict_to_records(options: SearchOptions, folder: Path) -> SearchOptions:
    """Return options that search records only, if the trust filter excludes everything else."""
    if options.trust is TrustFilter.ANY or options.filters.source_prefix:
        return options
    return replace(options, filters=replace(options.filters, source_prefix=str(folder)))


def meets_trust(trust: Trust, required: TrustFilter) -> bool:
    """Return True if the trust meets the filter; a record that a verified one confirms counts as verified."""
    if required is TrustFilter.VERIFIED:
        return trust.tier is TrustTier.VERIFIED or bool(trust.verified_by)
    return required is TrustFilter.ANY or trust.tier in {TrustTier.CANONICAL, TrustTier.VERIFIED}


def _text_trust(anchor: Anchor | None, *, was_record: bool) -> Trust:
    """Return the trust of text without a record; its origin may still be a tool."""
    if was_record:
        return _UNKNOWN_TRUST
    return _TAINTED_TRUST if anchor is not None and anchor.origin in UNTRUSTED_ORIGINS else CANDIDATE_TRUST


_SEARCH_MAX_WAIT_S = 1.0
"""Longest time a search spends on pages of new records, enough for some thousand. The rest of a large import is left to
the daemon, an index run, or the next search, and a note says so."""

_INDEX_LOCK_WAIT_S = 10.0
"""An index run waits for other writers anyway."""


class RecordPages(Struct, frozen=True):
    """The pages of a tenant's records, in the index that also holds its memories."""

    store: Store
    open_records: Callable[[], RecordStore]
    workspace: Workspace
    chunking: ChunkOptions

    @property
    def folder(self) -> Path:
        return Path(os.path.realpath(self.workspace.cache_folder / RECORD_PAGES))

    def holds(self, path: str) -> bool:
        return is_below(path, str(self.folder))

    def projection(self) -> RecordProjection | None:
        """Return the projection; None, with nothing loaded, if the tenant has no records."""
        # Not pathlib: it takes 20 times as long as the system call, and a search comes here four times.
        if not os.path.exists(f"{self.workspace.tenant_folder}/ledger.jsonl") and not os.path.exists(  # noqa: PTH110
            f"{self.workspace.cache_folder}/{RECORD_PAGES}"
        ):
            return None
        from lorelog.services.records.projection import RecordProjection

        return RecordProjection(self.open_records(), self.store, self.folder, self.chunking)

    def catch_up(self) -> str:
        """Update the pages without a time limit; return a note for the user, or an empty string."""
        pages = self.projection()
        return pages.catch_up(lock_wait_s=_INDEX_LOCK_WAIT_S) if pages else ""

    def catch_up_briefly(self) -> tuple[str, ...]:
        """Update the pages before a search; return a note if there was not enough time."""
        pages = self.projection()
        note = pages.catch_up(_SEARCH_MAX_WAIT_S) if pages else ""
        return (note,) if note else ()

    def trust_annotator(self) -> TrustAnnotator:
        records = self.open_records() if self.projection() else None
        return TrustAnnotator(self.folder if records else self.workspace.cache_folder, records)

    def chunk_trust(self, stored: StoredChunk) -> tuple[Trust, str]:
        """Return a chunk's trust, and for a record the id of the one that supersedes it."""
        return self.trust_annotator().chunk_trust(stored.chunk)

    def annotate_section(self, reply: ExpandReply, *, around: bool) -> ExpandReply:
        """Return a section with its trust and lifecycle. `around`: neighbouring lines are shown as well."""
        trust, newer = self.chunk_trust(reply.chunk)
        notes = reply.notes
        if newer:
            notes = (*notes, f"superseded by {newer}")
            reply = replace(reply, lifecycle=LifecycleState(superseded_by=newer))
        if around and self.holds(reply.chunk.chunk.source):
            notes = (*notes, "the trust tier is of this record; the lines around it are other records")
        return replace(reply, trust=trust, notes=notes)

    def exclude_pages(self, scan: ScanOptions) -> ScanOptions:
        """Return scan options that keep a surrounding root from indexing the pages."""
        return replace(scan, exclude_paths=(*scan.exclude_paths, str(self.folder)))

    def reject_record_id(self, identity: str) -> None:
        """Raise UsageError for the id of a record: the ledger is append-only, and trust depends on all of it."""
        chunks = self.store.find(identity.strip()) if identity.strip() else []
        if chunks and all(self.holds(stored.chunk.source) for stored in chunks):
            raise UsageError(
                f"{identity.strip()} is a record, and records cannot be deleted",
                hint="write a revision that replies to it; searches then find the revision",
            )
