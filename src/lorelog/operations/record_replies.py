"""What the operations on tasks and artifacts answer, as JSON. docs/json.md explains these fields."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from lorelog.operations.record_shapes import ArtifactShape, RunShape, TaskShape
from lorelog.operations.trust_shapes import GroundingShape, HintShape, TrustShape


class WrittenShape(TypedDict):
    """A record that is on disk."""

    task_id: str
    artifact_id: str
    thread_id: str
    trust: TrustShape
    notes: list[str]


class DatasetShape(TypedDict):
    """Data that records name."""

    name: str
    version: NotRequired[str]
    description: NotRequired[str]


class EntityShape(TypedDict):
    """A thing that records name."""

    name: str
    entity_type: str
    role: NotRequired[str]


class TaskGetShape(TypedDict):
    """A task, and all that was said of it, oldest first."""

    task: TaskShape
    artifacts: list[ArtifactShape]
    runs: list[RunShape]
    datasets: list[DatasetShape]
    entities: list[EntityShape]


class ArtifactGetShape(TypedDict):
    """A record, what replies to it, and what took its place."""

    found: bool
    artifact: ArtifactShape | None
    replies: list[ArtifactShape]
    superseded_by: list[ArtifactShape]
    notes: list[str]


class ThreadShape(TypedDict):
    """A thread, oldest first."""

    thread_id: str
    artifacts: list[ArtifactShape]


class MatchShape(TypedDict):
    """A record by which a task was found."""

    artifact_id: str
    artifact_kind: str
    snippet: str
    score: float
    trust: TrustShape


class TaskHitShape(TypedDict):
    """A task that was found."""

    task_id: str
    goal: str
    status: str
    project: str
    updated_at: str
    score: float
    relevance: float
    matched: list[MatchShape]
    trust: TrustShape
    verification_hint: HintShape
    grounding_refs: list[GroundingShape]


class TaskSearchShape(TypedDict):
    """Tasks, best first."""

    query: str
    hits: list[TaskHitShape]
    notes: list[str]


class ArtifactHitShape(TypedDict):
    """A record that was found."""

    artifact_id: str
    artifact_kind: str
    task_id: str
    thread_id: str
    goal: str
    snippet: str
    score: float
    relevance: float
    artifact: NotRequired[ArtifactShape]
    trust: TrustShape
    verification_hint: HintShape
    grounding_refs: list[GroundingShape]


class ArtifactSearchShape(TypedDict):
    """Records, best first."""

    query: str
    hits: list[ArtifactHitShape]
    notes: list[str]


class RelatedShape(TypedDict):
    """What speaks for a claim and what against it."""

    claim: str
    grounding_status: str
    confidence: float
    supporting_artifacts: list[ArtifactHitShape]
    conflicting_artifacts: list[ArtifactHitShape]
    grounding_refs: list[GroundingShape]
    verification_hint: HintShape
    verification_artifact: WrittenShape | None
    notes: list[str]
