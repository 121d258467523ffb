"""Finds the records that support or contradict a claim.

The statuses and confidence values are memd's. A record supports a claim if a search for the claim finds it and it does
not reject anything; it conflicts if it, or a reply to a supporting record, rejects. The recorded result says that it
came from a search and verifies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import UsageError
from lorelog.core.query import TrustFilter
from lorelog.core.record import CANDIDATE_TRUST, Record, RecordDraft
from lorelog.services.records.filters import RecordFilter, resolve_record
from lorelog.services.records.pages import meets_trust
from lorelog.services.records.record_scope import RatedRecord, RecordScope
from lorelog.services.records.search import RecordHit, RecordMatch, find_records, to_record_hits
from lorelog.services.records.writer import WrittenRecord, append_record

CLAIM_ROLE = "claim_grounding"
NEGATIVE_VERDICTS = frozenset({"rejected", "failed", "conflicted", "unsupported", "insufficient_grounding", "invalid"})
"""Verification statuses that reject a record."""
_MIN_RELEVANCE = 0.2
"""Records less relevant than this are ignored."""
_FETCH_FACTOR = 4


class GroundingStatus(StrEnum):
    """Support that a claim has among the records."""

    VERIFIED = "verified_record"
    CANONICAL = "canonically_grounded"
    INSUFFICIENT = "insufficient_grounding"
    CONFLICTED = "conflicted"


_STATUS_TEXTS = {
    GroundingStatus.VERIFIED: "a verified record speaks for it",
    GroundingStatus.CANONICAL: "records speak for it",
    GroundingStatus.INSUFFICIENT: "no record speaks for it",
    GroundingStatus.CONFLICTED: "records speak against it",
}
"""Summaries of a recorded lookup."""


class ClaimQuery(Struct, frozen=True):
    """A claim and the records to look in."""

    text: str
    conditions: RecordFilter
    candidates: Sequence[str] = ()
    """Ids of the only records to consider; empty for all that the search finds."""


class ClaimRecordTarget(Struct, frozen=True):
    """Task and writer under which the result is recorded."""

    task: str = ""
    agent: str | None = None


class ClaimEvidence(Struct, frozen=True, kw_only=True):
    """Records for and against a claim."""

    claim: str
    status: GroundingStatus
    confidence: float
    supporting: tuple[RecordHit, ...] = ()
    conflicting: tuple[RecordHit, ...] = ()
    notes: tuple[str, ...] = ()
    written: WrittenRecord | None = None


def find_claim_evidence(
    scope: RecordScope, claim: ClaimQuery, target: ClaimRecordTarget | None = None
) -> ClaimEvidence:
    """Return the records for and against a claim; with `target`, record the result as well."""
    k = claim.conditions.k
    hits = _find_records_about(scope, claim)
    supporting = [hit for hit in hits if not _rejects(hit.match.rated.record)][:k]
    against = {hit.match.rated.record.id: hit for hit in hits if _rejects(hit.match.rated.record)}
    against |= {hit.match.rated.record.id: hit for hit in _find_objections(scope, supporting, against)}
    conflicting = list(against.values())[:k]
    status, confidence = _grade_claim(supporting, conflicting)
    evidence = ClaimEvidence(
        claim=claim.text,
        status=status,
        confidence=confidence,
        supporting=tuple(supporting),
        conflicting=tuple(conflicting),
        notes=tuple(_format_notes(hits)),
    )
    if target is None:
        return evidence
    return replace(evidence, written=_write_verification(scope, evidence, claim, target))


def _find_records_about(scope: RecordScope, claim: ClaimQuery) -> list[RecordHit]:
    """Return the records about the claim. Named candidates count without a relevance check."""
    tables = scope.records.tables()
    named = {resolve_record(tables, candidate).id for candidate in claim.candidates}
    limit = max(_FETCH_FACTOR * claim.conditions.k, len(named))
    hits = find_records(scope, replace(claim.conditions, query=claim.text, k=limit)).records
    if not named:
        relevant = [hit for hit in hits if hit.match.relevance >= _MIN_RELEVANCE]
        return [hit for hit in relevant if hit.match.rated.record.text("artifact_role") != CLAIM_ROLE]
    matches = [hit for hit in hits if hit.match.rated.record.id in named]
    missing = named.difference(hit.match.rated.record.id for hit in matches)
    return [*matches, *_to_hits(scope, tables.by_ids(missing))]


def _find_objections(scope: RecordScope, supporting: Iterable[RecordHit], known: Iterable[str]) -> list[RecordHit]:
    """Return the replies that reject a supporting record, whether or not the search finds them."""
    tables = scope.records.tables()
    seen = set(known)
    records: dict[str, Record] = {}
    for hit in supporting:
        for reply in tables.replies(hit.match.rated.record.id):
            if _rejects(reply) and reply.id not in seen and not tables.superseding(reply.id):
                records[reply.id] = reply
    return _to_hits(scope, records.values())


def _to_hits(scope: RecordScope, records: Iterable[Record]) -> list[RecordHit]:
    return to_record_hits(
        scope, [RecordMatch(RatedRecord(record, CANDIDATE_TRUST), record.text("summary")) for record in records]
    )


def _rejects(record: Record) -> bool:
    return record.supports_claim is False or record.text("verification_status").strip().lower() in NEGATIVE_VERDICTS


def _grade_claim(supporting: Sequence[RecordHit], conflicting: Sequence[RecordHit]) -> tuple[GroundingStatus, float]:
    verified = sum(meets_trust(hit.match.rated.trust, TrustFilter.VERIFIED) for hit in supporting)
    if conflicting:
        return GroundingStatus.CONFLICTED, max(0.18, round(0.38 - 0.04 * len(conflicting), 2))
    if verified:
        return GroundingStatus.VERIFIED, min(0.99, round(0.92 + 0.03 * min(verified, 3), 2))
    if supporting:
        return GroundingStatus.CANONICAL, min(0.94, round(0.82 + 0.03 * min(len(supporting), 4), 2))
    return GroundingStatus.INSUFFICIENT, 0.12


def _format_notes(hits: Sequence[RecordHit]) -> Iterable[str]:
    if not hits:
        yield "no record is about this claim"
    elif any(hit.match.rated.trust.tainted for hit in hits):
        yield "some of these records come from a tool or an import"


def _write_verification(
    scope: RecordScope, evidence: ClaimEvidence, claim: ClaimQuery, target: ClaimRecordTarget
) -> WrittenRecord:
    """Write a verification that replies to nothing and supports nothing, so that it cannot verify a record."""
    consulted = [hit.match.rated.record for hit in (*evidence.supporting, *evidence.conflicting)]
    task = target.task or claim.conditions.task or next((record.task for record in consulted if record.task), "")
    if not task:
        raise UsageError("the result cannot be recorded without a task", hint="give record_task_id")
    counts = f"{len(evidence.supporting)} for, {len(evidence.conflicting)} against"
    draft = RecordDraft(
        "verification",
        task=task,
        fields={
            "summary": f"{_STATUS_TEXTS[evidence.status]} ({counts}): {claim.text}",
            "artifact_role": CLAIM_ROLE,
            "verification_status": str(evidence.status),
            "confidence": evidence.confidence,
            "related_artifact_ids": [record.id for record in consulted],
        },
    )
    return append_record(scope, draft, agent=target.agent)
