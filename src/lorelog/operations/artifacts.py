"""The operations on artifacts, which are records. The first line of a docstring is its help everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorelog.core.errors import NotFound, UsageError
from lorelog.engine import Engine
from lorelog.operations import record_replies as replies
from lorelog.operations import record_requests as requests
from lorelog.operations.operation import Call
from lorelog.operations.record_shapes import artifact_shape
from lorelog.operations.tasks import projects_of, wanted_of, write_record, written_shape
from lorelog.operations.trust_shapes import grounding_shape, hint_shape, trust_shape

if TYPE_CHECKING:
    from lorelog.services.records.finding import Finding, RecordHit
    from lorelog.services.records.judged import Judged
    from lorelog.services.records.relating import Related
    from lorelog.services.records.writing import Written


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread, oldest first."""

    id: str
    artifacts: list[Judged]


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, or that there is none."""

    artifact: Judged | None
    replies: list[Judged]
    superseding: list[Judged]
    notes: tuple[str, ...] = ()


def create(engine: Engine, request: requests.ArtifactCreateRequest, call: Call) -> Written:
    """Write a record of any kind.

    What it is worth is computed: no field of it sets that. Digests cannot be written.
    """
    return write_record(engine, request.artifact_kind, request)


def review(engine: Engine, request: requests.ReviewRequest, call: Call) -> Written:
    """Give an opinion on a record."""
    return write_record(engine, "review", request)


def revision(engine: Engine, request: requests.RevisionRequest, call: Call) -> Written:
    """Say a record anew: the new one supersedes the one that it replies to."""
    return write_record(engine, "revision", request)


def decision(engine: Engine, request: requests.DecisionRequest, call: Call) -> Written:
    """Record what was decided, in a task or outside of all."""
    return write_record(engine, "decision", request)


def verification(engine: Engine, request: requests.VerificationRequest, call: Call) -> Written:
    """Record a check of somebody else's record.

    With `supports_claim` it is verified, if another writer has written what it replies to; otherwise the answer says why not.
    """
    return write_record(engine, "verification", request)


def get(engine: Engine, request: requests.ArtifactGetRequest, call: Call) -> Entry:
    """Show a record, what replies to it, and what took its place; or say that there is none."""
    from lorelog.services.records.judged import judged
    from lorelog.services.records.naming import find_record

    book = engine.records().book
    tables = book.tables()
    try:
        record = find_record(tables, request.artifact_id)
    except NotFound as error:
        return Entry(None, [], [], (f"{error.message}; {error.hint}" if error.hint else error.message,))
    (one,) = judged(book, [record])
    return Entry(one, judged(book, tables.replies(record.id)), judged(book, tables.superseding(record.id)))


def list_thread(engine: Engine, request: requests.ListThreadRequest, call: Call) -> Thread:
    """Show a thread, named by its id or one of its records, oldest first."""
    from lorelog.services.records.judged import judged
    from lorelog.services.records.naming import find_record, find_task

    book = engine.records().book
    tables = book.tables()
    if bool(request.thread_id) == bool(request.artifact_id):
        raise UsageError("which thread?", hint="give either thread_id or artifact_id")
    thread = request.thread_id or find_record(tables, request.artifact_id).thread
    records = tables.of_thread(thread)
    if not records:  # the first characters of a task's own thread
        try:
            thread = find_task(tables, thread)
        except NotFound:
            raise NotFound(
                f"there is no thread {thread!r}", hint="a task's first thread bears its id; artifact_id names any other"
            ) from None
        records = tables.of_thread(thread)
    return Thread(thread, judged(book, records))


def search(engine: Engine, request: requests.ArtifactSearchRequest, call: Call) -> Finding:
    """Find records by what they say, best first; without a question the newest.

    One hit a record, with what it is worth. Conditions are exact, and each is asked of the record itself.
    """
    from lorelog.services.records.finding import find_records

    archive = engine.records()
    return find_records(archive, wanted_of(engine, request))


def find_related(engine: Engine, request: requests.FindRelatedRequest, call: Call) -> Related:
    """Say which records speak for a claim and which against it, and how well grounded that makes it.

    With `create_artifact` that is recorded, as a verification that vouches for nothing.
    """
    from lorelog.services.records.naming import find_task
    from lorelog.services.records.relating import Claim, Recorded, find_related
    from lorelog.services.records.wanted import Wanted

    archive = engine.records()
    tables = archive.book.tables()
    wanted = Wanted(
        k=request.k,
        task=find_task(tables, request.task_id) if request.task_id else "",
        thread=request.thread_id,
        projects=projects_of(engine, None, all_projects=request.all_projects),
    )
    recorded = Recorded(request.record_task_id, request.agent_id) if request.create_artifact else None
    return find_related(archive, Claim(request.claim, wanted, request.candidate_artifact_ids), recorded)


def found_records_shape(finding: Finding, request: requests.ArtifactSearchRequest) -> replies.ArtifactSearchShape:
    """Records, best first."""
    hits = [_hit_shape(one, in_full=request.include_artifact) for one in finding.records]
    return {"query": request.query, "hits": hits, "notes": list(finding.notes)}


def related_shape(related: Related) -> replies.RelatedShape:
    """What there is on a claim."""
    grounds = {one.record: one for hit in (*related.supporting, *related.conflicting) for one in hit.grounding}
    return {
        "claim": related.claim,
        "grounding_status": str(related.status),
        "confidence": related.confidence,
        "supporting_artifacts": [_hit_shape(one, in_full=False) for one in related.supporting],
        "conflicting_artifacts": [_hit_shape(one, in_full=False) for one in related.conflicting],
        "grounding_refs": [grounding_shape(one) for one in grounds.values()],
        "verification_hint": {
            "requires_verification": str(related.status) != "verified_record",
            "reason": _REASONS[str(related.status)],
        },
        "verification_artifact": None if related.written is None else written_shape(related.written),
        "notes": list(related.notes),
    }


_REASONS = {
    "verified_record": "a second writer stands by a record that speaks for it",
    "canonically_grounded": "records speak for it; no second writer stands by them",
    "insufficient_grounding": "no record speaks for it",
    "conflicted": "records speak against it",
}


def _hit_shape(hit: RecordHit, *, in_full: bool) -> replies.ArtifactHitShape:
    match, record = hit.match, hit.match.judged.record
    shape: replies.ArtifactHitShape = {
        "artifact_id": record.id,
        "artifact_kind": record.kind,
        "task_id": record.task,
        "thread_id": record.thread,
        "goal": hit.goal,
        "snippet": match.snippet,
        "score": match.score,
        "relevance": match.relevance,
        "trust": trust_shape(match.judged.trust),
        "verification_hint": hint_shape(match.judged.trust),
        "grounding_refs": [grounding_shape(one) for one in hit.grounding],
    }
    if in_full:
        shape["artifact"] = artifact_shape(match.judged)
    return shape


def entry_shape(entry: Entry) -> replies.ArtifactGetShape:
    """A record by its id."""
    return {
        "found": entry.artifact is not None,
        "artifact": None if entry.artifact is None else artifact_shape(entry.artifact),
        "replies": [artifact_shape(one) for one in entry.replies],
        "superseded_by": [artifact_shape(one) for one in entry.superseding],
        "notes": list(entry.notes),
    }


def thread_shape(thread: Thread) -> replies.ThreadShape:
    """A thread."""
    return {"thread_id": thread.id, "artifacts": [artifact_shape(one) for one in thread.artifacts]}
