"""Conversion of records, tasks and runs to the replies of `schema`: the same fields wherever they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorelog.operations.records import schema
from lorelog.operations.replies import grounding_ref, reply_from, verification_hint

if TYPE_CHECKING:
    from lorelog.records.tables import Task, ToolRun
    from lorelog.services.records.record_scope import RatedRecord
    from lorelog.services.records.search import RecordHit, TaskHit
    from lorelog.services.records.writer import WrittenRecord


def artifact_info(rated: RatedRecord) -> schema.ArtifactInfo:
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
    return schema.ArtifactInfo(**(fields | attributes))  # the ledger's own attributes win over fields


def task_info(task: Task, **changed: Any) -> schema.TaskInfo:
    """Return a task under its JSON names."""
    return reply_from(task, schema.TaskInfo, task_id=task.id, writer=task.agent, parent_task_id=task.parent, **changed)


def run_info(run: ToolRun, **changed: Any) -> schema.RunInfo:
    """Return a tool run under its JSON names."""
    names = {"artifact_id": run.id, "writer": run.agent, "tool_name": run.tool, "finish_artifact_id": run.finish}
    return reply_from(run, schema.RunInfo, **names, **changed)


def written_artifact(written: WrittenRecord) -> schema.WrittenArtifact:
    """Return a written record."""
    record = written.record
    return schema.WrittenArtifact(
        task_id=record.task,
        artifact_id=record.id,
        thread_id=record.thread,
        trust=written.rated.trust,
        notes=tuple(written.notes),
    )


def task_hit_info(hit: TaskHit) -> schema.TaskHitInfo:
    """Return a task that matches a search."""
    return reply_from(
        hit.task,
        schema.TaskHitInfo,
        task_id=hit.task.id,
        score=hit.score,
        relevance=hit.relevance,
        matched=tuple(
            schema.RecordMatchInfo(
                artifact_id=match.rated.record.id,
                artifact_kind=match.rated.record.kind,
                snippet=match.snippet,
                score=match.score,
                trust=match.rated.trust,
            )
            for match in hit.matches
        ),
        trust=hit.trust,
        verification_hint=verification_hint(hit.trust),
        grounding_refs=tuple(grounding_ref(match.rated.grounding) for match in hit.matches),
    )


def artifact_hit_info(hit: RecordHit, *, in_full: bool) -> schema.ArtifactHitInfo:
    """Return a record that matches a search, with all its fields if `in_full`."""
    match, record, trust = hit.match, hit.match.rated.record, hit.match.rated.trust
    return schema.ArtifactHitInfo(
        artifact_id=record.id,
        artifact_kind=record.kind,
        task_id=record.task,
        thread_id=record.thread,
        goal=hit.goal,
        snippet=match.snippet,
        score=match.score,
        relevance=match.relevance,
        artifact=artifact_info(match.rated) if in_full else None,
        trust=trust,
        verification_hint=verification_hint(trust),
        grounding_refs=tuple(map(grounding_ref, hit.grounding)),
    )
