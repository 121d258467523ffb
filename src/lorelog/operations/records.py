"""Requests and replies of `task.*` and `artifact.*`, and how records become replies; artifacts are records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from lorelog.core.query import SupportingRecord
from lorelog.core.record import Trust, VerificationHint
from lorelog.core.serializable import ReplyItems
from lorelog.operations.operation import OperationReply, SparseReply, reply_from
from lorelog.operations.requests import OperationRequest, Projects, ScopedRequest, Words
from lorelog.records.kinds import FIELDS

if TYPE_CHECKING:
    from lorelog.records.tables import Task, ToolRun
    from lorelog.services.records.record_scope import RatedRecord
    from lorelog.services.records.search import RecordHit, TaskHit
    from lorelog.services.records.writer import WrittenRecord

_Text = Annotated[str, Meta(max_length=1_000_000)]
_Name = Annotated[str, Meta(max_length=200)]
_Id = Annotated[str, Meta(min_length=1, max_length=200)]
_Texts = Annotated[Sequence[_Text], Meta(max_length=1000)]
_Parts = Annotated[Sequence[dict[str, _Text]], Meta(max_length=1000)]
_MetricValue = str | float | dict[str, Any]
RecordKind = Literal[
    "task_start",
    "task_progress",
    "run_start",
    "run_finish",
    "evidence",
    "review",
    "revision",
    "verification",
    "decision",
    "task_finish",
    "wiki_page",
]
_ID_PREFIX_HINT = " A unique prefix is enough."


def _field_description(name: str) -> Meta:
    text = FIELDS[name].description
    return Meta(description=text[0].upper() + text[1:] + ".")


TASK_HELP = "id of the task, or its first characters (default: the task in progress)"


class _RecordRequest(OperationRequest, frozen=True, kw_only=True):
    """Fields of every record: its writer, origin and subjects."""

    writer: Annotated[
        _Name | None, Meta(description="The writer; the signing identity or records.writer if not given.")
    ] = None
    session_id: Annotated[_Name, Meta(description="The session it was written in.")] = ""
    origin: Annotated[
        Literal["user", "agent", "tool", "import"],
        Meta(description="Where its text comes from; text of a tool or an import verifies nothing."),
    ] = "agent"
    dataset_refs: Annotated[_Parts, _field_description("dataset_refs")] = []
    entity_refs: Annotated[_Parts, _field_description("entity_refs")] = []
    provenance: Annotated[dict[str, _Text], _field_description("provenance")] = {}


class _TaskRecordRequest(_RecordRequest, frozen=True):
    task_id: Annotated[_Id, Meta(description="The task." + _ID_PREFIX_HINT)]


class TaskStartRequest(_RecordRequest, frozen=True):
    """The start of a task."""

    goal: Annotated[_Text, _field_description("goal")]
    motivation: Annotated[_Text, _field_description("motivation")] = ""
    hypothesis: Annotated[_Text, _field_description("hypothesis")] = ""
    scientific_question: Annotated[_Text, _field_description("scientific_question")] = ""
    expected_outputs: Annotated[_Texts, _field_description("expected_outputs")] = []
    parent_task_id: Annotated[_Name, _field_description("parent_task_id")] = ""
    challenge_id: Annotated[_Name, _field_description("challenge_id")] = ""
    to_global: Annotated[bool, Meta(description="Make it visible in every project.")] = False


class TaskProgressRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """Progress of a task."""

    summary: Annotated[_Text, _field_description("summary")]
    next_step: Annotated[_Text, _field_description("next_step")] = ""
    blockers: Annotated[_Texts, _field_description("blockers")] = []
    failed_attempts: Annotated[_Texts, Meta(description="Failed attempts; stored as what_failed.")] = []
    what_worked: Annotated[_Texts, _field_description("what_worked")] = []
    status: Annotated[_Name, Meta(description="in_progress, blocked, …; in_progress if not given.")] = ""


class RunStartRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """The start of a tool run."""

    tool_name: Annotated[_Text, _field_description("tool_name")]
    command: Annotated[_Text, _field_description("command")]
    why_chosen: Annotated[_Text, _field_description("why_chosen")]
    inputs: Annotated[_Texts, _field_description("inputs")]
    tool_version: Annotated[_Text, _field_description("tool_version")] = ""
    parameters: Annotated[dict[str, Any], _field_description("parameters")] = {}
    summary: Annotated[_Text, _field_description("summary")] = ""


class RunFinishRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """The end of a tool run."""

    status: Annotated[_Name, Meta(min_length=1, description="completed, failed, cancelled, …")]
    notes: Annotated[_Text, Meta(description="The result; stored as summary.")]
    run_id: Annotated[
        _Name,
        Meta(
            description="The artifact of the run's start; the last matching open run of the task and writer if not given."
        ),
    ] = ""
    tool_name: Annotated[_Text, _field_description("tool_name")] = ""
    command: Annotated[_Text, _field_description("command")] = ""
    outputs: Annotated[_Texts, _field_description("outputs")] = []
    metrics: Annotated[dict[str, Any], _field_description("metrics")] = {}
    validation: Annotated[_Texts, _field_description("validation")] = []


class AddEvidenceRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """Evidence for or against a claim of a task."""

    evidence_kind: Annotated[_Text, _field_description("evidence_kind")]
    summary: Annotated[_Text, _field_description("summary")]
    supports_claim: Annotated[bool | None, Meta(description="Whether it supports the claim of the task.")] = None
    reply_to_artifact_id: Annotated[_Name, Meta(description="The record it is about." + _ID_PREFIX_HINT)] = ""
    metric_name: Annotated[_Text, _field_description("metric_name")] = ""
    metric_value: Annotated[float | None, _field_description("metric_value")] = None
    metrics: Annotated[dict[str, Any], _field_description("metrics")] = {}


class TaskFinishRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """The end of a task."""

    status: Annotated[_Name, Meta(description="completed, failed, cancelled, …; completed if not given.")] = ""
    summary: Annotated[_Text, _field_description("summary")] = ""
    goal: Annotated[_Text, _field_description("goal")] = ""
    what_worked: Annotated[_Texts, _field_description("what_worked")] = []
    what_failed: Annotated[_Texts, _field_description("what_failed")] = []
    validation: Annotated[_Texts, _field_description("validation")] = []
    uncertainty: Annotated[_Texts, _field_description("uncertainty")] = []
    followups: Annotated[_Texts, _field_description("followups")] = []
    confidence: Annotated[float | None, _field_description("confidence")] = None


class _ArtifactRequest(_RecordRequest, frozen=True, kw_only=True):
    """Fields of a record of any kind."""

    task_id: Annotated[
        _Name,
        Meta(
            description="The task; that of the record it replies to if not given. A decision needs none."
            + _ID_PREFIX_HINT
        ),
    ] = ""
    thread_id: Annotated[
        _Name, Meta(description="The thread; that of the record it replies to, or the task's own, if not given.")
    ] = ""
    reply_to_artifact_id: Annotated[_Name, Meta(description="The record it replies to." + _ID_PREFIX_HINT)] = ""
    relation_kind: Annotated[
        _Name,
        Meta(
            description="Its relation to that record: reviews, revises, verifies, reply_to, …; the kind's own if not given."
        ),
    ] = ""
    supports_claim: Annotated[
        bool | None, Meta(description="Whether it supports the record it replies to; required to verify one.")
    ] = None
    supersedes: Annotated[_Name, Meta(description="The record it replaces." + _ID_PREFIX_HINT)] = ""
    status: Annotated[_Name, Meta(description="Such as recorded, completed, failed; the kind's own if not given.")] = ""
    goal: Annotated[_Text, _field_description("goal")] = ""
    motivation: Annotated[_Text, _field_description("motivation")] = ""
    hypothesis: Annotated[_Text, _field_description("hypothesis")] = ""
    scientific_question: Annotated[_Text, _field_description("scientific_question")] = ""
    expected_outputs: Annotated[_Texts, _field_description("expected_outputs")] = []
    method_summary: Annotated[_Text, _field_description("method_summary")] = ""
    summary: Annotated[_Text, _field_description("summary")] = ""
    next_step: Annotated[_Text, _field_description("next_step")] = ""
    blockers: Annotated[_Texts, _field_description("blockers")] = []
    what_worked: Annotated[_Texts, _field_description("what_worked")] = []
    what_failed: Annotated[_Texts, _field_description("what_failed")] = []
    validation: Annotated[_Texts, _field_description("validation")] = []
    uncertainty: Annotated[_Texts, _field_description("uncertainty")] = []
    followups: Annotated[_Texts, _field_description("followups")] = []
    confidence: Annotated[float | None, _field_description("confidence")] = None
    evidence_kind: Annotated[_Text, _field_description("evidence_kind")] = ""
    metric_name: Annotated[_Text, _field_description("metric_name")] = ""
    metric_value: Annotated[float | None, _field_description("metric_value")] = None
    metrics: Annotated[dict[str, Any], _field_description("metrics")] = {}
    tool_name: Annotated[_Text, _field_description("tool_name")] = ""
    tool_version: Annotated[_Text, _field_description("tool_version")] = ""
    command: Annotated[_Text, _field_description("command")] = ""
    parameters: Annotated[dict[str, Any], _field_description("parameters")] = {}
    inputs: Annotated[_Texts, _field_description("inputs")] = []
    outputs: Annotated[_Texts, _field_description("outputs")] = []
    why_chosen: Annotated[_Text, _field_description("why_chosen")] = ""
    requested_action: Annotated[_Text, _field_description("requested_action")] = ""
    verification_status: Annotated[_Text, _field_description("verification_status")] = ""
    approval_state: Annotated[_Text, _field_description("approval_state")] = ""
    artifact_role: Annotated[_Text, _field_description("artifact_role")] = ""
    challenge_id: Annotated[_Name, _field_description("challenge_id")] = ""
    parent_task_id: Annotated[_Name, _field_description("parent_task_id")] = ""
    related_artifact_ids: Annotated[
        Annotated[Sequence[_Id], Meta(max_length=1000)], _field_description("related_artifact_ids")
    ] = []
    contributors: Annotated[_Texts, _field_description("contributors")] = []
    compute_budget: Annotated[_MetricValue | None, _field_description("compute_budget")] = None
    cost_actual: Annotated[_MetricValue | None, _field_description("cost_actual")] = None
    data_access_level: Annotated[_Text, _field_description("data_access_level")] = ""
    policy_tags: Annotated[_Texts, _field_description("policy_tags")] = []
    allowed_tools: Annotated[_Texts, _field_description("allowed_tools")] = []
    timestamp_observed: Annotated[_Text, _field_description("timestamp_observed")] = ""
    to_global: Annotated[bool, Meta(description="Without a task: make it visible in every project.")] = False


class ArtifactCreateRequest(_ArtifactRequest, frozen=True):
    """A record of any kind."""

    artifact_kind: Annotated[
        _Id, Meta(description=f"One of {', '.join(RecordKind.__args__)}. Digests cannot be written.")
    ]
    content: Annotated[_Text, Meta(description="The text of a page, in Markdown; only for a wiki_page.")] = ""


class ReviewRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A review of a record."""

    artifact_kind: Annotated[Literal["review"], Meta(description="Always this kind; need not be given.")] = "review"


class RevisionRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A revised version of a record."""

    artifact_kind: Annotated[Literal["revision"], Meta(description="Always this kind; need not be given.")] = "revision"


class DecisionRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A decision."""

    artifact_kind: Annotated[Literal["decision"], Meta(description="Always this kind; need not be given.")] = "decision"


class VerificationRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A verification of a record."""

    artifact_kind: Annotated[Literal["verification"], Meta(description="Always this kind; need not be given.")] = (
        "verification"
    )


class TaskGetRequest(OperationRequest, frozen=True):
    """One task."""

    task_id: Annotated[_Id, Meta(description="The task." + _ID_PREFIX_HINT)]


class ArtifactGetRequest(OperationRequest, frozen=True):
    """One record."""

    artifact_id: Annotated[_Id, Meta(description="The record." + _ID_PREFIX_HINT)]


class ListThreadRequest(OperationRequest, frozen=True, kw_only=True):
    """One thread."""

    thread_id: Annotated[_Name, Meta(description="The thread; the first thread of a task has the task's id.")] = ""
    artifact_id: Annotated[_Name, Meta(description="A record of the thread." + _ID_PREFIX_HINT)] = ""


class _RecordSearchRequest(ScopedRequest, frozen=True):
    """A query and exact filters. Empty filters are ignored."""

    query: Annotated[_Text, Meta(description="A question or keywords; the newest first if empty.")] = ""
    k: Annotated[int, Meta(ge=1, le=1000, description="Number of hits.")] = 10
    kinds: Annotated[Words, Meta(description="Only records of one of these kinds.")] = []
    task_id: Annotated[_Name, Meta(description="Only records of this task." + _ID_PREFIX_HINT)] = ""
    parent_task_id: Annotated[_Name, Meta(description="Only records of subtasks of this task." + _ID_PREFIX_HINT)] = ""
    thread_id: Annotated[_Name, Meta(description="Only records of this thread.")] = ""
    reply_to_artifact_id: Annotated[_Name, Meta(description="Only replies to this record." + _ID_PREFIX_HINT)] = ""
    writer: Annotated[_Name, Meta(description="Only records of this writer.")] = ""
    session_id: Annotated[_Name, Meta(description="Only records of this session.")] = ""
    challenge_id: Annotated[_Name, Meta(description="Only records of this challenge.")] = ""
    artifact_role: Annotated[_Name, Meta(description="Only records with this role.")] = ""
    relation_kind: Annotated[
        _Name, Meta(description="Only records with this relation to the record they reply to.")
    ] = ""
    evidence_kind: Annotated[_Name, Meta(description="Only evidence of this kind.")] = ""
    tool_name: Annotated[_Name, Meta(description="Only runs of this tool.")] = ""
    verification_status: Annotated[_Name, Meta(description="Only records with this verdict.")] = ""
    approval_state: Annotated[_Name, Meta(description="Only records in this state.")] = ""
    contributor: Annotated[_Name, Meta(description="Only records with this contributor.")] = ""
    dataset: Annotated[_Name, Meta(description="Only records about the dataset of this name.")] = ""
    entity: Annotated[_Name, Meta(description="Only records about the entity of this name.")] = ""
    origin: Annotated[_Name, Meta(description="Only records of this origin: user, agent, tool, import.")] = ""
    supports_claim: Annotated[
        bool | None,
        Meta(description="Only records that support (true) or contradict (false) the record they reply to."),
    ] = None
    since: Annotated[
        str,
        Meta(max_length=40, description="From this day on: 2026-03-05, today, yesterday, or an age: 7d, 2w, 3m, 1y."),
    ] = ""
    until: Annotated[str, Meta(max_length=40, description="Up to and including this day.")] = ""
    trust: Annotated[
        Literal["any", "canonical", "verified"],
        Meta(description="Minimum trust: any, canonical (every record is), or verified by a second writer."),
    ] = "any"
    include_superseded: Annotated[bool, Meta(description="Include superseded records.")] = False
    projects: Projects = None


class TaskSearchRequest(_RecordSearchRequest, frozen=True, kw_only=True):
    """Filters of a task search."""

    status: Annotated[
        _Name,
        Meta(description="Only tasks with this status: in_progress, completed, failed, …; open: all unfinished tasks."),
    ] = ""


class ArtifactSearchRequest(_RecordSearchRequest, frozen=True, kw_only=True):
    """Filters of a record search."""

    status: Annotated[_Name, Meta(description="Only records of this status.")] = ""
    include_artifact: Annotated[bool, Meta(description="Include each record in full.")] = True
    token_budget: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000_000,
            description="Return the best hits whose JSON fits into this many tokens, in full where that fits; 0: no budget.",
        ),
    ] = 0


class FindRelatedRequest(ScopedRequest, frozen=True):
    """A claim to check against records."""

    claim: Annotated[_Text, Meta(min_length=1, description="The claim.")]
    task_id: Annotated[_Name, Meta(description="Search only this task." + _ID_PREFIX_HINT)] = ""
    thread_id: Annotated[_Name, Meta(description="Search only this thread.")] = ""
    candidate_artifact_ids: Annotated[
        Sequence[_Id], Meta(max_length=1000, description="Search only these records." + _ID_PREFIX_HINT)
    ] = []
    k: Annotated[int, Meta(ge=1, le=100, description="Maximum number of supporting and of conflicting records.")] = 8
    create_artifact: Annotated[
        bool, Meta(description="Record the result as a verification; it does not raise trust.")
    ] = False
    record_task_id: Annotated[
        _Name, Meta(description="The task to record it in; that of task_id or of the best record if not given.")
    ] = ""
    writer: Annotated[_Name | None, Meta(description="The writer of the record.")] = None


class ArtifactInfo(SparseReply, frozen=True, kw_only=True):
    """A record. Empty fields are left out of the JSON."""

    artifact_id: str
    artifact_kind: str
    thread_id: str
    status: str
    at: str
    origin: str
    signed: bool
    trust: Trust
    task_id: str = ""
    project: str = ""
    writer: str = ""
    session_id: str = ""
    reply_to_artifact_id: str = ""
    relation_kind: str = ""
    supports_claim: bool | None = None
    supersedes: str = ""
    goal: str = ""
    motivation: str = ""
    hypothesis: str = ""
    scientific_question: str = ""
    expected_outputs: list[str] = []
    method_summary: str = ""
    summary: str = ""
    next_step: str = ""
    blockers: list[str] = []
    what_worked: list[str] = []
    what_failed: list[str] = []
    validation: list[str] = []
    uncertainty: list[str] = []
    followups: list[str] = []
    confidence: float | None = None
    evidence_kind: str = ""
    metric_name: str = ""
    metric_value: float | None = None
    metrics: dict[str, Any] = {}
    tool_name: str = ""
    tool_version: str = ""
    command: str = ""
    parameters: dict[str, Any] = {}
    inputs: list[str] = []
    outputs: list[str] = []
    why_chosen: str = ""
    requested_action: str = ""
    verification_status: str = ""
    approval_state: str = ""
    artifact_role: str = ""
    content: str = ""
    challenge_id: str = ""
    parent_task_id: str = ""
    related_artifact_ids: list[str] = []
    contributors: list[str] = []
    dataset_refs: list[dict[str, str]] = []
    entity_refs: list[dict[str, str]] = []
    provenance: dict[str, str] = {}
    compute_budget: str | float | dict[str, Any] | None = None
    cost_actual: str | float | dict[str, Any] | None = None
    data_access_level: str = ""
    policy_tags: list[str] = []
    allowed_tools: list[str] = []
    timestamp_observed: str = ""


class TaskInfo(SparseReply, frozen=True, kw_only=True):
    """A task and its status."""

    task_id: str
    goal: str
    status: str
    project: str
    writer: str
    started_at: str
    updated_at: str
    finished_at: str = ""
    parent_task_id: str = ""
    records: int


class RunInfo(OperationReply, frozen=True, kw_only=True):
    """A tool run of a task; its id is that of the record that started it."""

    artifact_id: str
    writer: str
    tool_name: str
    command: str
    status: str
    summary: str
    started_at: str
    finished_at: str
    finish_artifact_id: str


class WrittenArtifact(OperationReply, frozen=True, kw_only=True):
    """A record that was written."""

    task_id: str
    artifact_id: str
    thread_id: str
    trust: Trust
    notes: tuple[str, ...]


class DatasetInfo(SparseReply, frozen=True, kw_only=True):
    """A dataset that records name."""

    name: str
    version: str = ""
    description: str = ""


class EntityInfo(SparseReply, frozen=True, kw_only=True):
    """An entity that records name."""

    name: str
    entity_type: str
    role: str = ""


class TaskGetReply(OperationReply, frozen=True, kw_only=True):
    """A task and all its records, oldest first."""

    task: TaskInfo
    artifacts: tuple[ArtifactInfo, ...]
    runs: tuple[RunInfo, ...]
    datasets: tuple[DatasetInfo, ...]
    entities: tuple[EntityInfo, ...]


class ArtifactGetReply(OperationReply, frozen=True, kw_only=True):
    """A record, its replies, and the records that supersede it."""

    found: bool
    artifact: ArtifactInfo | None
    replies: tuple[ArtifactInfo, ...]
    superseded_by: tuple[ArtifactInfo, ...]
    notes: tuple[str, ...]


class ThreadReply(ReplyItems[ArtifactInfo], OperationReply, frozen=True, kw_only=True):
    """A thread, oldest record first."""

    thread_id: str
    artifacts: tuple[ArtifactInfo, ...]


class RecordMatchInfo(OperationReply, frozen=True, kw_only=True):
    """A record that matches a task search."""

    artifact_id: str
    artifact_kind: str
    snippet: str
    score: float
    trust: Trust


class TaskHitInfo(OperationReply, frozen=True, kw_only=True):
    """A task that matches a search."""

    task_id: str
    goal: str
    status: str
    project: str
    updated_at: str
    score: float
    relevance: float
    matched: tuple[RecordMatchInfo, ...]
    trust: Trust
    verification_hint: VerificationHint
    grounding_refs: tuple[SupportingRecord, ...]


class TaskSearchReply(ReplyItems[TaskHitInfo], OperationReply, frozen=True, kw_only=True):
    """Tasks, best first."""

    query: str
    hits: tuple[TaskHitInfo, ...]
    notes: tuple[str, ...]


class ArtifactHitInfo(SparseReply, frozen=True, kw_only=True):
    """A record that matches a search."""

    artifact_id: str
    artifact_kind: str
    task_id: str
    thread_id: str
    goal: str
    snippet: str
    score: float
    relevance: float
    artifact: ArtifactInfo | None = None
    trust: Trust
    verification_hint: VerificationHint
    grounding_refs: tuple[SupportingRecord, ...]


class ArtifactSearchReply(ReplyItems[ArtifactHitInfo], OperationReply, frozen=True, kw_only=True):
    """Records, best first."""

    query: str
    hits: tuple[ArtifactHitInfo, ...]
    notes: tuple[str, ...]


class RelatedReply(OperationReply, frozen=True, kw_only=True):
    """Records that support a claim, and records that contradict it."""

    claim: str
    grounding_status: str
    confidence: float
    supporting_artifacts: tuple[ArtifactHitInfo, ...]
    conflicting_artifacts: tuple[ArtifactHitInfo, ...]
    grounding_refs: tuple[SupportingRecord, ...]
    verification_hint: VerificationHint
    verification_artifact: WrittenArtifact | None
    notes: tuple[str, ...]


def artifact_info(rated: RatedRecord) -> ArtifactInfo:
    """Return a record and its trust."""
    record = rated.record
    attributes: dict[str, Any] = {
        "artifact_id": record.id,
        "artifact_kind": record.kind,
        "thread_id": record.thread,
        "status": record.status,
        "at": record.at,
        "origin": record.origin,
        "signed": rated.signed,
        "trust": rated.trust,
        "supports_claim": record.supports_claim,
        "task_id": record.task,
        "project": record.project,
        "writer": record.agent,
        "session_id": record.session,
        "reply_to_artifact_id": record.reply_to,
        "relation_kind": record.relation,
        "supersedes": record.supersedes,
    }
    fields = {name: value for name, value in record.fields.items() if value not in ("", [], {})}
    return ArtifactInfo(**(fields | attributes))  # the ledger's own attributes win over fields


def task_info(task: Task, **changed: Any) -> TaskInfo:
    """Return a task under its JSON names."""
    return reply_from(task, TaskInfo, task_id=task.id, writer=task.agent, parent_task_id=task.parent, **changed)


def run_info(run: ToolRun, **changed: Any) -> RunInfo:
    """Return a tool run under its JSON names."""
    names = {"artifact_id": run.id, "writer": run.agent, "tool_name": run.tool, "finish_artifact_id": run.finish}
    return reply_from(run, RunInfo, **names, **changed)


def written_artifact(written: WrittenRecord) -> WrittenArtifact:
    """Return a written record."""
    record = written.record
    return WrittenArtifact(
        task_id=record.task,
        artifact_id=record.id,
        thread_id=record.thread,
        trust=written.rated.trust,
        notes=tuple(written.notes),
    )


def task_hit_info(hit: TaskHit) -> TaskHitInfo:
    """Return a task that matches a search."""
    return reply_from(
        hit.task,
        TaskHitInfo,
        task_id=hit.task.id,
        score=hit.score,
        relevance=hit.relevance,
        matched=tuple(
            RecordMatchInfo(
                artifact_id=match.rated.record.id,
                artifact_kind=match.rated.record.kind,
                snippet=match.snippet,
                score=match.score,
                trust=match.rated.trust,
            )
            for match in hit.matches
        ),
        trust=hit.trust,
        verification_hint=hit.trust.verification_hint,
        grounding_refs=tuple(match.rated.grounding for match in hit.matches),
    )


def artifact_hit_info(hit: RecordHit, *, in_full: bool) -> ArtifactHitInfo:
    """Return a record that matches a search, with all its fields if `in_full`."""
    record, trust = hit.rated.record, hit.rated.trust
    return ArtifactHitInfo(
        artifact_id=record.id,
        artifact_kind=record.kind,
        task_id=record.task,
        thread_id=record.thread,
        goal=hit.goal,
        snippet=hit.snippet,
        score=hit.score,
        relevance=hit.relevance,
        artifact=artifact_info(hit.rated) if in_full else None,
        trust=trust,
        verification_hint=trust.verification_hint,
        grounding_refs=tuple(hit.grounding),
    )
