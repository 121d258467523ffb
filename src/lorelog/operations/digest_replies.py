"""What the operations on digests answer, as JSON. docs/json.md explains these fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from lorelog.operations.record_shapes import RunShape, TaskShape, run_shape, task_shape
from lorelog.operations.trust_shapes import (
    GroundingShape,
    HintShape,
    TrustShape,
    grounding_shape,
    hint_shape,
    trust_shape,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorelog.records.digests import Digest, Item
    from lorelog.records.digests_build import Brief, Library, TaskLine
    from lorelog.records.digests_resume import Resume, ToldRun
    from lorelog.services.records.digesting import Compiled


class LineShape(TypedDict):
    """A sentence of a digest, and the records that it rests on."""

    text: str
    artifact_ids: list[str]
    section: str
    tainted: bool


class DigestShape(TypedDict):
    """A page that was compiled from records."""

    artifact_id: str
    artifact_kind: str
    artifact_role: str
    status: str
    scope: str
    title: str
    lines: list[LineShape]
    related_artifact_ids: list[str]
    content_hash: str
    tainted: bool


class ItemShape(TypedDict):
    """Something that a record says, as a library lists it."""

    artifact_id: str
    artifact_kind: str
    task_id: str
    project: str
    agent_id: str
    at: str
    origin: str
    text: str
    trust: TrustShape
    explicit: NotRequired[bool]
    supports_claim: NotRequired[bool]
    category: NotRequired[str]
    support_count: NotRequired[int]
    confidence: NotRequired[float]
    supporting_artifact_ids: NotRequired[list[str]]


class ResumeViewShape(TypedDict):
    """Where a task is."""

    task: TaskShape
    latest_summary: str
    next_step: str
    blockers: list[str]
    what_worked: list[str]
    what_failed: list[str]
    validation: list[str]
    followups: list[str]
    open_runs: list[RunShape]
    recent_runs: list[RunShape]
    decisions: list[ItemShape]
    source_artifact_ids: list[str]


class _Worth(TypedDict):
    artifact: DigestShape
    trust: TrustShape
    grounding_refs: list[GroundingShape]
    verification_hint: HintShape


class ResumeShape(_Worth):
    """Where a task is, and what that rests on."""

    resume: ResumeViewShape


class LibraryShape(_Worth):
    """What records say on one matter, and what that rests on."""

    results: list[ItemShape]


class BriefTaskShape(TypedDict):
    """A task in a sentence."""

    task_id: str
    status: str
    text: str
    artifact_ids: list[str]


class RelatedProjectShape(TypedDict):
    """Another project that names the same things."""

    project: str
    names: list[str]
    artifact_id: str


class BriefViewShape(TypedDict):
    """What there is to know of a project."""

    overview: str
    active_tasks: list[BriefTaskShape]
    completed_tasks: list[BriefTaskShape]
    failures: list[ItemShape]
    decisions: list[ItemShape]
    evidence: list[ItemShape]
    related_projects: list[RelatedProjectShape]


class BriefShape(_Worth):
    """What there is to know of a project, and what that rests on."""

    brief: BriefViewShape


def resume_shape(compiled: Compiled[Resume]) -> ResumeShape:
    """Where a task is."""
    made = compiled.made
    lists = {name: [one.text for one in told] for name, told in made.lists.items()}
    view: ResumeViewShape = {
        "task": {**task_shape(made.task), "goal": made.goal.text if made.goal else ""},
        "latest_summary": made.latest.text if made.latest else "",
        "next_step": made.next_step.text if made.next_step else "",
        "blockers": lists["blockers"],
        "what_worked": lists["what_worked"],
        "what_failed": lists["what_failed"],
        "validation": lists["validation"],
        "followups": lists["followups"],
        "open_runs": list(map(_run, made.open_runs)),
        "recent_runs": list(map(_run, made.recent_runs)),
        "decisions": list(map(item_shape, made.decisions)),
        "source_artifact_ids": list(compiled.digest.records),
    }
    return {**_worth(compiled), "resume": view}


def library_shape(compiled: Compiled[Library]) -> LibraryShape:
    """What records say on one matter."""
    return {**_worth(compiled), "results": list(map(item_shape, compiled.made.items))}


def brief_shape(compiled: Compiled[Brief]) -> BriefShape:
    """What there is to know of a project."""
    made = compiled.made
    view: BriefViewShape = {
        "overview": made.overview,
        "active_tasks": _tasks(made.active),
        "completed_tasks": _tasks(made.completed),
        "failures": list(map(item_shape, made.failures)),
        "decisions": list(map(item_shape, made.decisions)),
        "evidence": list(map(item_shape, made.evidence)),
        "related_projects": [
            {"project": one.project, "names": list(one.names), "artifact_id": one.record} for one in made.related
        ],
    }
    return {**_worth(compiled), "brief": view}


def item_shape(item: Item) -> ItemShape:
    """An item of a library."""
    record = item.record
    shape: ItemShape = {
        "artifact_id": record.id,
        "artifact_kind": record.kind,
        "task_id": record.task,
        "project": record.project,
        "agent_id": record.agent,
        "at": record.at,
        "origin": record.origin,
        "text": item.text,
        "trust": trust_shape(item.trust),
    }
    if record.supports_claim is not None:
        shape["supports_claim"] = record.supports_claim
    if item.explicit is not None:
        shape["explicit"] = item.explicit
    if item.category:
        shape["category"] = item.category
        shape["support_count"] = len(item.cites)
        shape["supporting_artifact_ids"] = list(item.support)
    if item.confidence is not None:
        shape["confidence"] = item.confidence
    return shape


def digest_shape(digest: Digest) -> DigestShape:
    """A digest."""
    return {
        "artifact_id": digest.id,
        "artifact_kind": "digest",
        "artifact_role": str(digest.role),
        "status": "generated",
        "scope": digest.scope,
        "title": digest.title,
        "lines": [
            {"text": one.text, "artifact_ids": list(one.cites), "section": one.section, "tainted": one.tainted}
            for one in digest.lines
        ],
        "related_artifact_ids": list(digest.records),
        "content_hash": digest.hash,
        "tainted": digest.tainted,
    }


def _worth(compiled: Compiled[Any]) -> _Worth:
    trust = compiled.digest.trust
    return {
        "artifact": digest_shape(compiled.digest),
        "trust": trust_shape(trust),
        "grounding_refs": list(map(grounding_shape, compiled.grounding)),
        "verification_hint": hint_shape(trust),
    }


def _run(told: ToldRun) -> RunShape:
    return {**run_shape(told.run), "summary": told.text}


def _tasks(tasks: Iterable[TaskLine]) -> list[BriefTaskShape]:
    return [
        {
            "task_id": one.task.id,
            "status": one.task.status,
            "text": one.line.text,
            "artifact_ids": list(one.line.cites),
        }
        for one in tasks
    ]
