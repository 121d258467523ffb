"""Records and tasks as JSON, with the names that agents know from memd: one shape wherever they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from lorelog.operations.trust_shapes import TrustShape, trust_shape

if TYPE_CHECKING:
    from lorelog.records.tables import Run, Task
    from lorelog.services.records.judged import Judged


class _Head(TypedDict):
    artifact_id: str
    artifact_kind: str
    thread_id: str
    status: str
    at: str
    origin: str
    signed: bool
    trust: TrustShape


class ArtifactShape(_Head, total=False):
    """A record. What is empty is left out."""

    task_id: str
    project: str
    agent_id: str
    session_id: str
    reply_to_artifact_id: str
    relation_kind: str
    supports_claim: bool
    supersedes: str
    goal: str
    motivation: str
    hypothesis: str
    scientific_question: str
    expected_outputs: list[str]
    method_summary: str
    summary: str
    next_step: str
    blockers: list[str]
    what_worked: list[str]
    what_failed: list[str]
    validation: list[str]
    uncertainty: list[str]
    followups: list[str]
    confidence: float
    evidence_kind: str
    metric_name: str
    metric_value: float
    metrics: dict[str, Any]
    tool_name: str
    tool_version: str
    command: str
    parameters: dict[str, Any]
    inputs: list[str]
    outputs: list[str]
    why_chosen: str
    requested_action: str
    verification_status: str
    approval_state: str
    artifact_role: str
    content: str
    challenge_id: str
    parent_task_id: str
    related_artifact_ids: list[str]
    contributors: list[str]
    dataset_refs: list[dict[str, str]]
    entity_refs: list[dict[str, str]]
    provenance: dict[str, str]
    compute_budget: str | float | dict[str, Any]
    cost_actual: str | float | dict[str, Any]
    data_access_level: str
    policy_tags: list[str]
    allowed_tools: list[str]
    timestamp_observed: str


class TaskShape(TypedDict):
    """Where a task is."""

    task_id: str
    goal: str
    status: str
    project: str
    agent_id: str
    started_at: str
    updated_at: str
    finished_at: NotRequired[str]
    parent_task_id: NotRequired[str]
    records: int


class RunShape(TypedDict):
    """A tool that was run for a task; its id is that of the record that began it."""

    artifact_id: str
    agent_id: str
    tool_name: str
    command: str
    status: str
    summary: str
    started_at: str
    finished_at: str
    finish_artifact_id: str


def artifact_shape(judged: Judged) -> ArtifactShape:
    """A record, and what it is worth."""
    record = judged.record
    shape: dict[str, Any] = {
        "artifact_id": record.id,
        "artifact_kind": record.kind,
        "thread_id": record.thread,
        "status": record.status,
        "at": record.at,
        "origin": record.origin,
        "signed": judged.signed,
        "trust": trust_shape(judged.trust),
    }
    if record.supports_claim is not None:
        shape["supports_claim"] = record.supports_claim
    said = {
        "task_id": record.task,
        "project": record.project,
        "agent_id": record.agent,
        "session_id": record.session,
        "reply_to_artifact_id": record.reply_to,
        "relation_kind": record.relation,
        "supersedes": record.supersedes,
    }
    shape |= {name: value for name, value in said.items() if value}
    # A field never takes the place of what the ledger itself says.
    shape |= {name: value for name, value in record.fields.items() if name not in shape and value not in ("", [], {})}
    return cast("ArtifactShape", shape)


def task_shape(task: Task) -> TaskShape:
    """Where a task is."""
    shape: TaskShape = {
        "task_id": task.id,
        "goal": task.goal,
        "status": task.status,
        "project": task.project,
        "agent_id": task.agent,
        "started_at": task.started_at,
        "updated_at": task.updated_at,
        "records": task.records,
    }
    if task.finished_at:
        shape["finished_at"] = task.finished_at
    if task.parent:
        shape["parent_task_id"] = task.parent
    return shape


def run_shape(run: Run) -> RunShape:
    """A run."""
    return {
        "artifact_id": run.id,
        "agent_id": run.agent,
        "tool_name": run.tool,
        "command": run.command,
        "status": run.status,
        "summary": run.summary,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "finish_artifact_id": run.finish,
    }
