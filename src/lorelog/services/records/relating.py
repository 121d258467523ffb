"""What speaks for a claim, and what against it: looked up in records, never taken from a claim's own wording.

The statuses and numbers are memd's. A record speaks for a claim when it is found by it and says nothing against; it speaks
against when it, or a reply to what speaks for the claim, rejects. What is recorded of such a look-up says so, and vouches for
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lorelog.core.errors import UsageError
from lorelog.core.query import Trusted
from lorelog.core.record import CANDIDATE_TRUST, Draft, Record
from lorelog.services.records.archive import Archive
from lorelog.services.records.finding import Match, RecordHit, find_records, shown_records
from lorelog.services.records.grounding import is_worth
from lorelog.services.records.judged import Judged
from lorelog.services.records.naming import find_record
from lorelog.services.records.wanted import Wanted
from lorelog.services.records.writing import Written, write

ROLE = "claim_grounding"
NEGATIVE = frozenset({"rejected", "failed", "conflicted", "unsupported", "insufficient_grounding", "invalid"})
"""Verdicts that speak against."""
_RELEVANT = 0.2
"""Records that are less likely than this to be about the claim say nothing of it."""
_FETCHED = 4


class GroundingStatus(StrEnum):
    """How a claim stands."""

    VERIFIED = "verified_record"
    CANONICAL = "canonically_grounded"
    INSUFFICIENT = "insufficient_grounding"
    CONFLICTED = "conflicted"


_FOUND = {
    GroundingStatus.VERIFIED: "a verified record speaks for it",
    GroundingStatus.CANONICAL: "records speak for it",
    GroundingStatus.INSUFFICIENT: "no record speaks for it",
    GroundingStatus.CONFLICTED: "records speak against it",
}
"""What is written of a look-up: that it found something, not that it is worth what it found."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is held to be true, and where to look."""

    text: str
    wanted: Wanted
    candidates: Sequence[str] = ()
    """Only these records, by their ids; all that are found where none is named."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where what was found is to be recorded, and by whom."""

    task: str = ""
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """What there is on a claim."""

    claim: str
    status: GroundingStatus
    confidence: float
    supporting: tuple[RecordHit, ...] = ()
    conflicting: tuple[RecordHit, ...] = ()
    notes: tuple[str, ...] = ()
    written: Written | None = None


def find_related(archive: Archive, claim: Claim, recorded: Recorded | None = None) -> Related:
    """Return what speaks for a claim and what against it; with `recorded`, and write that down."""
    k = claim.wanted.k
    found = _consulted(archive, claim)
    supporting = [one for one in found if not _rejects(one.match.judged.record)][:k]
    against = {one.match.judged.record.id: one for one in found if _rejects(one.match.judged.record)}
    against |= {one.match.judged.record.id: one for one in _objections(archive, supporting, against)}
    conflicting = list(against.values())[:k]
    status, confidence = _grounding(supporting, conflicting)
    related = Related(claim.text, status, confidence, tuple(supporting), tuple(conflicting), tuple(_notes(found)))
    if recorded is None:
        return related
    return replace(related, written=_record(archive, related, claim, recorded))


def _consulted(archive: Archive, claim: Claim) -> list[RecordHit]:
    """Return the records that are about the claim. Those that were named are about it because somebody says so."""
    tables = archive.book.tables()
    named = {find_record(tables, one).id for one in claim.candidates}
    most = max(_FETCHED * claim.wanted.k, len(named))
    hits = find_records(archive, replace(claim.wanted, query=claim.text, k=most)).records
    if not named:
        relevant = [one for one in hits if one.match.relevance >= _RELEVANT]
        return [one for one in relevant if one.match.judged.record.text("artifact_role") != ROLE]
    found = [one for one in hits if one.match.judged.record.id in named]
    missing = named.difference(one.match.judged.record.id for one in found)
    return [*found, *_hits(archive, tables.of_ids(missing))]


def _objections(archive: Archive, supporting: Iterable[RecordHit], known: Iterable[str]) -> list[RecordHit]:
    """Return the records that reject one that speaks for the claim, in whatever words."""
    tables = archive.book.tables()
    seen = set(known)
    records: dict[str, Record] = {}
    for one in supporting:
        for reply in tables.replies(one.match.judged.record.id):
            if _rejects(reply) and reply.id not in seen and not tables.superseding(reply.id):
                records[reply.id] = reply
    return _hits(archive, records.values())


def _hits(archive: Archive, records: Iterable[Record]) -> list[RecordHit]:
    return shown_records(archive, [Match(Judged(one, CANDIDATE_TRUST), one.text("summary")) for one in records])


def _rejects(record: Record) -> bool:
    return record.supports_claim is False or record.text("verification_status").strip().lower() in NEGATIVE


def _grounding(supporting: Sequence[RecordHit], conflicting: Sequence[RecordHit]) -> tuple[GroundingStatus, float]:
    verified = sum(is_worth(one.match.judged.trust, Trusted.VERIFIED) for one in supporting)
    if conflicting:
        return GroundingStatus.CONFLICTED, max(0.18, round(0.38 - 0.04 * len(conflicting), 2))
    if verified:
        return GroundingStatus.VERIFIED, min(0.99, round(0.92 + 0.03 * min(verified, 3), 2))
    if supporting:
        return GroundingStatus.CANONICAL, min(0.94, round(0.82 + 0.03 * min(len(supporting), 4), 2))
    return GroundingStatus.INSUFFICIENT, 0.12


def _notes(found: Sequence[RecordHit]) -> Iterable[str]:
    if not found:
        yield "no record is about it"
    elif any(one.match.judged.trust.tainted for one in found):
        yield "some of it rests on what a tool or an import brought"


def _record(archive: Archive, related: Related, claim: Claim, recorded: Recorded) -> Written:
    """Write what was found. It replies to nothing and supports nothing, so it can verify nothing."""
    consulted = [one.match.judged.record for one in (*related.supporting, *related.conflicting)]
    task = recorded.task or claim.wanted.task or next((one.task for one in consulted if one.task), "")
    if not task:
        raise UsageError("there is no task to record it in", hint="give record_task_id")
    counts = f"{len(related.supporting)} for, {len(related.conflicting)} against"
    draft = Draft(
        "verification",
        task=task,
        fields={
            "summary": f"{_FOUND[related.status]} ({counts}): {claim.text}",
            "artifact_role": ROLE,
            "verification_status": str(related.status),
            "confidence": related.confidence,
            "related_artifact_ids": [one.id for one in consulted],
        },
    )
    return write(archive, draft, agent=recorded.agent)
