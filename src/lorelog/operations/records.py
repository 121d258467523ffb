"""Operations that write records: `task.start`, `task.finish`, `artifact.create` and the others; artifacts are records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from lorelog.core.caller import checked_origin
from lorelog.core.errors import NotFound
from lorelog.core.record import Record, RecordDraft, Trust
from lorelog.engine import Engine
from lorelog.operations.operation import (
    Handler,
    OperationFamily,
    OperationReply,
    RequestContext,
    RequestT,
    ShellCommand,
)
from lorelog.operations.requests import Name, NonEmptyId, OperationRequest, Text, about
from lorelog.records.kinds import FIELDS, KINDS

OPERATIONS = OperationFamily()
_Texts = Annotated[Sequence[Text], Meta(max_length=1000)]
_Parts = Annotated[Sequence[dict[str, Text]], Meta(max_length=1000)]
_MetricValue = str | float | dict[str, Any]
ID_PREFIX_HINT = " A unique prefix is enough."
TASK_HELP = "id of the task, or its first characters (default: the task in progress)"
RECORD_ATTRIBUTES = {
    "task_id": "task",
    "thread_id": "thread",
    "session_id": "session",
    "reply_to_artifact_id": "reply_to",
    "relation_kind": "relation",
    "supports_claim": "supports_claim",
    "supersedes": "supersedes",
    "origin": "origin",
    "status": "status",
}
"""Fields of requests and replies that are attributes of the record and not among its `fields`."""
_REQUEST_ATTRIBUTES = {**RECORD_ATTRIBUTES, "run_id": "reply_to"}
_REPLY_ATTRIBUTES = RECORD_ATTRIBUTES | {
    "artifact_id": "id",
    "artifact_kind": "kind",
    "writer": "agent",
    "at": "at",
    "project": "project",
}
_FIELD_ALIASES = {"failed_attempts": "what_failed", "notes": "summary"}
"""memd's names of record fields that are stored under another name."""
_CALL_FIELDS = frozenset({"project", "tenant", "writer", "artifact_kind", "to_global"})
_FIXED_KIND = about("Always this kind; need not be given.")


def _field_description(name: str) -> Meta:
    text = FIELDS[name].description
    return about(text[0].upper() + text[1:] + ".")


class _RecordRequest(OperationRequest, frozen=True, kw_only=True):
    writer: Annotated[Name | None, about("The writer; the signing identity or records.writer if not given.")] = None
    session_id: Annotated[Name, about("The session it was written in.")] = ""
    origin: Annotated[
        Literal["user", "agent", "tool", "import"],
        about("Where its text comes from; text of a tool or an import verifies nothing."),
    ] = "agent"
    dataset_refs: Annotated[_Parts, _field_description("dataset_refs")] = []
    entity_refs: Annotated[_Parts, _field_description("entity_refs")] = []
    provenance: Annotated[dict[str, Text], _field_description("provenance")] = {}


class _TaskRecordRequest(_RecordRequest, frozen=True):
    task_id: Annotated[NonEmptyId, about("The task." + ID_PREFIX_HINT)]


class TaskStartRequest(_RecordRequest, frozen=True):
    """The start of a task."""

    goal: Annotated[Text, _field_description("goal")]
    motivation: Annotated[Text, _field_description("motivation")] = ""
    hypothesis: Annotated[Text, _field_description("hypothesis")] = ""
    scientific_question: Annotated[Text, _field_description("scientific_question")] = ""
    expected_outputs: Annotated[_Texts, _field_description("expected_outputs")] = []
    parent_task_id: Annotated[Name, _field_description("parent_task_id")] = ""
    challenge_id: Annotated[Name, _field_description("challenge_id")] = ""
    to_global: Annotated[bool, about("Make it visible in every project.")] = False


class TaskProgressRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """Progress of a task."""

    summary: Annotated[Text, _field_description("summary")]
    next_step: Annotated[Text, _field_description("next_step")] = ""
    blockers: Annotated[_Texts, _field_description("blockers")] = []
    failed_attempts: Annotated[_Texts, about("Failed attempts; stored as what_failed.")] = []
    what_worked: Annotated[_Texts, _field_description("what_worked")] = []
    status: Annotated[Name, about("in_progress, blocked, …; in_progress if not given.")] = ""


class RunStartRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """The start of a tool run."""

    tool_name: Annotated[Text, _field_description("tool_name")]
    command: Annotated[Text, _field_description("command")]
    why_chosen: Annotated[Text, _field_description("why_chosen")]
    inputs: Annotated[_Texts, _field_description("inputs")]
    tool_version: Annotated[Text, _field_description("tool_version")] = ""
    parameters: Annotated[dict[str, Any], _field_description("parameters")] = {}
    summary: Annotated[Text, _field_description("summary")] = ""


class RunFinishRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """The end of a tool run."""

    status: Annotated[Name, about("completed, failed, cancelled, …", min_length=1)]
    notes: Annotated[Text, about("The result; stored as summary.")]
    run_id: Annotated[
        Name, about("The artifact of the run's start; the last matching open run of the task and writer if not given.")
    ] = ""
    tool_name: Annotated[Text, _field_description("tool_name")] = ""
    command: Annotated[Text, _field_description("command")] = ""
    outputs: Annotated[_Texts, _field_description("outputs")] = []
    metrics: Annotated[dict[str, Any], _field_description("metrics")] = {}
    validation: Annotated[_Texts, _field_description("validation")] = []


class AddEvidenceRequest(_TaskRecordRequest, frozen=True, kw_only=True):
    """Evidence for or against a claim of a task."""

    evidence_kind: Annotated[Text, _field_description("evidence_kind")]
    summary: Annotated[Text, _field_description("summary")]
    supports_claim: Annotated[bool | None, about("Whether it supports the claim of the task.")] = None
    reply_to_artifact_id: Annotated[Name, about("The record it is about." + ID_PREFIX_HINT)] = ""
    metric_name: Annotated[Text, _field_description("metric_name")] = ""
    metric_value: Annotated[float | None, _field_description("metric_value")] = None
    metrics: Annotated[dict[str, Any], _field_description("metrics")] = {}


class _OutcomeRequest(_RecordRequest, frozen=True, kw_only=True):
    summary: Annotated[Text, _field_description("summary")] = ""
    goal: Annotated[Text, _field_description("goal")] = ""
    what_worked: Annotated[_Texts, _field_description("what_worked")] = []
    what_failed: Annotated[_Texts, _field_description("what_failed")] = []
    validation: Annotated[_Texts, _field_description("validation")] = []
    uncertainty: Annotated[_Texts, _field_description("uncertainty")] = []
    followups: Annotated[_Texts, _field_description("followups")] = []
    confidence: Annotated[float | None, _field_description("confidence")] = None


class TaskFinishRequest(_OutcomeRequest, frozen=True):
    """The end of a task."""

    task_id: Annotated[NonEmptyId, about("The task." + ID_PREFIX_HINT)]
    status: Annotated[Name, about("completed, failed, cancelled, …; completed if not given.")] = ""


class _ArtifactRequest(_OutcomeRequest, frozen=True, kw_only=True):
    task_id: Annotated[
        Name, about("The task; that of the record it replies to if not given. A decision needs none." + ID_PREFIX_HINT)
    ] = ""
    thread_id: Annotated[
        Name, about("The thread; that of the record it replies to, or the task's own, if not given.")
    ] = ""
    reply_to_artifact_id: Annotated[Name, about("The record it replies to." + ID_PREFIX_HINT)] = ""
    relation_kind: Annotated[
        Name,
        about("Its relation to that record: reviews, revises, verifies, reply_to, …; the kind's own if not given."),
    ] = ""
    supports_claim: Annotated[
        bool | None, about("Whether it supports the record it replies to; required to verify one.")
    ] = None
    supersedes: Annotated[Name, about("The record it replaces." + ID_PREFIX_HINT)] = ""
    status: Annotated[Name, about("Such as recorded, completed, failed; the kind's own if not given.")] = ""
    motivation: Annotated[Text, _field_description("motivation")] = ""
    hypothesis: Annotated[Text, _field_description("hypothesis")] = ""
    scientific_question: Annotated[Text, _field_description("scientific_question")] = ""
    expected_outputs: Annotated[_Texts, _field_description("expected_outputs")] = []
    method_summary: Annotated[Text, _field_description("method_summary")] = ""
    next_step: Annotated[Text, _field_description("next_step")] = ""
    blockers: Annotated[_Texts, _field_description("blockers")] = []
    evidence_kind: Annotated[Text, _field_description("evidence_kind")] = ""
    metric_name: Annotated[Text, _field_description("metric_name")] = ""
    metric_value: Annotated[float | None, _field_description("metric_value")] = None
    metrics: Annotated[dict[str, Any], _field_description("metrics")] = {}
    tool_name: Annotated[Text, _field_description("tool_name")] = ""
    tool_version: Annotated[Text, _field_description("tool_version")] = ""
    command: Annotated[Text, _field_description("command")] = ""
    parameters: Annotated[dict[str, Any], _field_description("parameters")] = {}
    inputs: Annotated[_Texts, _field_description("inputs")] = []
    outputs: Annotated[_Texts, _field_description("outputs")] = []
    why_chosen: Annotated[Text, _field_description("why_chosen")] = ""
    requested_action: Annotated[Text, _field_description("requested_action")] = ""
    verification_status: Annotated[Text, _field_description("verification_status")] = ""
    approval_state: Annotated[Text, _field_description("approval_state")] = ""
    artifact_role: Annotated[Text, _field_description("artifact_role")] = ""
    challenge_id: Annotated[Name, _field_description("challenge_id")] = ""
    parent_task_id: Annotated[Name, _field_description("parent_task_id")] = ""
    related_artifact_ids: Annotated[
        Annotated[Sequence[NonEmptyId], Meta(max_length=1000)], _field_description("related_artifact_ids")
    ] = []
    contributors: Annotated[_Texts, _field_description("contributors")] = []
    compute_budget: Annotated[_MetricValue | None, _field_description("compute_budget")] = None
    cost_actual: Annotated[_MetricValue | None, _field_description("cost_actual")] = None
    data_access_level: Annotated[Text, _field_description("data_access_level")] = ""
    policy_tags: Annotated[_Texts, _field_description("policy_tags")] = []
    allowed_tools: Annotated[_Texts, _field_description("allowed_tools")] = []
    timestamp_observed: Annotated[Text, _field_description("timestamp_observed")] = ""
    to_global: Annotated[bool, about("Without a task: make it visible in every project.")] = False


class ArtifactCreateRequest(_ArtifactRequest, frozen=True):
    """A record of any kind."""

    artifact_kind: Annotated[NonEmptyId, about(f"One of {', '.join(KINDS)}. Digests cannot be written.")]
    content: Annotated[Text, about("The text of a page, in Markdown; only for a wiki_page.")] = ""


class ReviewRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A review of a record."""

    artifact_kind: Annotated[Literal["review"], _FIXED_KIND] = "review"


class RevisionRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A revised version of a record."""

    artifact_kind: Annotated[Literal["revision"], _FIXED_KIND] = "revision"


class DecisionRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A decision."""

    artifact_kind: Annotated[Literal["decision"], _FIXED_KIND] = "decision"


class VerificationRequest(_ArtifactRequest, frozen=True, kw_only=True):
    """A verification of a record."""

    artifact_kind: Annotated[Literal["verification"], _FIXED_KIND] = "verification"


class WrittenArtifact(OperationReply, frozen=True, kw_only=True):
    """A record that was written."""

    task_id: str
    artifact_id: str
    thread_id: str
    trust: Trust
    notes: tuple[str, ...]


def record_fields(record: Record, reply: type[Struct]) -> dict[str, Any]:
    """Return the attributes of a record that a reply has, under their JSON names."""
    names = _REPLY_ATTRIBUTES.keys() & set(reply.__struct_fields__)
    return {name: getattr(record, _REPLY_ATTRIBUTES[name]) for name in names}


def _offer_record_fields(command: ShellCommand) -> ShellCommand:
    return structs.replace(
        command,
        options={**command.options, "writer": "--as"},
        offered=("session_id", "origin", *command.offered),
        helps={"task_id": TASK_HELP, **command.helps},
    )


def _declare_writer(
    name: str, *commands: ShellCommand
) -> Callable[[Handler[RequestT, WrittenArtifact]], Handler[RequestT, WrittenArtifact]]:
    """Declare an operation that writes a record; its commands offer the fields that every record has, too."""
    return OPERATIONS.declare(name, *map(_offer_record_fields, commands), errors=(NotFound,), writes=True, once=True)


@_declare_writer(
    "task.start",
    ShellCommand(
        "task start",
        ("goal",),
        {
            "motivation": "--why",
            "scientific_question": "--question",
            "expected_outputs": "--expect",
            "dataset_refs": "--dataset",
            "parent_task_id": "--parent",
        },
        offered=("hypothesis", "to_global"),
        metavars={"dataset_refs": "NAME[@VERSION]"},
    ),
)
def start_task(engine: Engine, request: TaskStartRequest, call: RequestContext) -> WrittenArtifact:
    """Start a task with its goal.

    The reply has the `task_id`, which all other records of the task refer to.
    """
    return _write_record(engine, "task_start", request, call)


@_declare_writer(
    "task.progress",
    ShellCommand(
        "task progress",
        ("task_id?", "summary"),
        {"next_step": "--next", "failed_attempts": "--failed", "what_worked": "--worked"},
        offered=("blockers",),
    ),
)
def add_progress(engine: Engine, request: TaskProgressRequest, call: RequestContext) -> WrittenArtifact:
    """Record the progress of a task, and its next step if there is one."""
    return _write_record(engine, "task_progress", request, call)


@_declare_writer(
    "task.run_start",
    ShellCommand(
        "task run-start",
        ("task_id?",),
        {"why_chosen": "--why"},
        offered=("tool_name", "command", "inputs", "tool_version"),
    ),
)
def start_run(engine: Engine, request: RunStartRequest, call: RequestContext) -> WrittenArtifact:
    """Record that a tool run starts for a task, with its inputs and the reason."""
    return _write_record(engine, "run_start", request, call)


@_declare_writer(
    "task.run_finish",
    ShellCommand(
        "task run-finish",
        ("task_id?", "notes"),
        offered=("status", "run_id", "tool_name", "outputs", "metrics", "validation"),
        metavars={"metrics": "NAME=NUMBER"},
        defaults={"status": "completed"},
    ),
)
def finish_run(engine: Engine, request: RunFinishRequest, call: RequestContext) -> WrittenArtifact:
    """Record the result of a tool run."""
    return _write_record(engine, "run_finish", request, call)


@_declare_writer(
    "task.add_evidence",
    ShellCommand(
        "task evidence",
        ("task_id?", "summary"),
        {"evidence_kind": "--kind", "reply_to_artifact_id": "--about", "supports_claim": "--supports/--against"},
        offered=("metrics",),
        metavars={"metrics": "NAME=NUMBER"},
        helps={"supports_claim": "it supports the task's hypothesis / it contradicts the task's hypothesis"},
        defaults={"evidence_kind": "observation"},
    ),
)
def add_evidence(engine: Engine, request: AddEvidenceRequest, call: RequestContext) -> WrittenArtifact:
    """Record evidence for or against a claim of a task."""
    return _write_record(engine, "evidence", request, call)


@_declare_writer(
    "task.finish",
    ShellCommand(
        "task finish",
        ("task_id?",),
        {"what_worked": "--worked", "what_failed": "--failed", "uncertainty": "--uncertain"},
        offered=("status", "summary", "validation", "followups", "confidence"),
        defaults={"status": "completed"},
    ),
)
def finish_task(engine: Engine, request: TaskFinishRequest, call: RequestContext) -> WrittenArtifact:
    """Finish a task: what worked, what failed, and what is left to do."""
    return _write_record(engine, "task_finish", request, call)


@_declare_writer("artifact.create")
def create_artifact(engine: Engine, request: ArtifactCreateRequest, call: RequestContext) -> WrittenArtifact:
    """Write a record of any kind.

    Its trust is computed; no field sets it. Digests cannot be written.
    """
    return _write_record(engine, request.artifact_kind, request, call)


@_declare_writer("artifact.review")
def write_review(engine: Engine, request: ReviewRequest, call: RequestContext) -> WrittenArtifact:
    """Review a record."""
    return _write_record(engine, "review", request, call)


@_declare_writer("artifact.revision")
def write_revision(engine: Engine, request: RevisionRequest, call: RequestContext) -> WrittenArtifact:
    """Revise a record: the new record supersedes the one it replies to."""
    return _write_record(engine, "revision", request, call)


@_declare_writer(
    "artifact.decision",
    ShellCommand(
        "decide",
        ("summary!",),
        {"motivation": "--because", "uncertainty": "--uncertain"},
        offered=("task_id", "supersedes", "validation", "to_global"),
        metavars={"summary": "TEXT", "supersedes": "ID"},
        helps={"summary": "the decision", "task_id": "the task it belongs to (default: none)"},
    ),
)
def write_decision(engine: Engine, request: DecisionRequest, call: RequestContext) -> WrittenArtifact:
    """Record a decision, in a task or without one."""
    return _write_record(engine, "decision", request, call)


@_declare_writer(
    "artifact.verification",
    ShellCommand(
        "verify",
        ("reply_to_artifact_id!", "summary"),
        {"supports_claim": "/--against"},
        offered=("validation",),
        metavars={"reply_to_artifact_id": "ID", "summary": "TEXT"},
        helps={
            "reply_to_artifact_id": "id of the record, or its first characters",
            "summary": "what you checked and found",
            "supports_claim": "dispute the record",
        },
        defaults={"supports_claim": True},
    ),
)
def write_verification(engine: Engine, request: VerificationRequest, call: RequestContext) -> WrittenArtifact:
    """Record the verification of a record written by someone else.

    With `supports_claim` the record becomes verified if another writer wrote it; otherwise the reply says why not.
    """
    return _write_record(engine, "verification", request, call)


def _write_record(engine: Engine, kind: str, request: OperationRequest, call: RequestContext) -> WrittenArtifact:
    from lorelog.services.records.writer import append_record

    values = structs.asdict(request)
    attributes = {attribute: values[name] for name, attribute in _REQUEST_ATTRIBUTES.items() if name in values}
    attributes["origin"] = checked_origin(attributes["origin"], call.agent)
    fields = {
        _FIELD_ALIASES.get(name, name): value
        for name, value in values.items()
        if name not in _REQUEST_ATTRIBUTES and name not in _CALL_FIELDS and value is not None
    }
    draft = RecordDraft(kind, fields=fields, **attributes)
    written = append_record(engine.records(), draft, agent=values["writer"], to_global=values.get("to_global", False))
    fields = record_fields(written.record, WrittenArtifact)
    return WrittenArtifact(**fields, trust=written.rated.trust, notes=tuple(written.notes))
