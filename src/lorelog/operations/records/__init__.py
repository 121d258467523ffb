"""Operations on tasks, artifacts and their digests: `task.*`, `artifact.*`, `context.brief_project`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lorelog.core.errors import ModelError, NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.operation import Operation
from lorelog.operations.records import digests, handlers, schema


def _write_operation(name: str, request: type, handler: Callable[..., Any]) -> Operation[Any, Any]:
    return Operation(
        name,
        request,
        schema.WrittenArtifact,
        handler,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
    )


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    _write_operation("task.start", schema.TaskStartRequest, handlers.start_task),
    _write_operation("task.progress", schema.TaskProgressRequest, handlers.add_progress),
    _write_operation("task.run_start", schema.RunStartRequest, handlers.start_run),
    _write_operation("task.run_finish", schema.RunFinishRequest, handlers.finish_run),
    _write_operation("task.add_evidence", schema.AddEvidenceRequest, handlers.add_evidence),
    _write_operation("task.finish", schema.TaskFinishRequest, handlers.finish_task),
    Operation("task.get", schema.TaskGetRequest, schema.TaskGetReply, handlers.get_task, errors=(NotFound,)),
    Operation(
        "task.search",
        schema.TaskSearchRequest,
        schema.TaskSearchReply,
        handlers.search_tasks,
        errors=(NotFound, ModelError),
        warms=True,
    ),
    _write_operation("artifact.create", schema.ArtifactCreateRequest, handlers.create_artifact),
    _write_operation("artifact.review", schema.ReviewRequest, handlers.write_review),
    _write_operation("artifact.revision", schema.RevisionRequest, handlers.write_revision),
    _write_operation("artifact.decision", schema.DecisionRequest, handlers.write_decision),
    _write_operation("artifact.verification", schema.VerificationRequest, handlers.write_verification),
    Operation("artifact.get", schema.ArtifactGetRequest, schema.ArtifactGetReply, handlers.get_artifact),
    Operation(
        "artifact.search",
        schema.ArtifactSearchRequest,
        schema.ArtifactSearchReply,
        handlers.search_artifacts,
        errors=(NotFound, ModelError),
        warms=True,
    ),
    Operation(
        "artifact.list_thread",
        schema.ListThreadRequest,
        schema.ThreadReply,
        handlers.list_thread,
        errors=(NotFound,),
    ),
    Operation(
        "artifact.find_related",
        schema.FindRelatedRequest,
        schema.RelatedReply,
        handlers.find_related,
        errors=(NotFound, ModelError, StoreUnwritable, StoreBusy),
        writes=True,  # with create_artifact
        once=True,
        warms=True,
    ),
    Operation("task.resume", digests.ResumeRequest, digests.ResumeReply, digests.resume, errors=(NotFound,)),
    Operation("artifact.find_failures", digests.LibraryRequest, digests.LibraryReply, digests.find_failures),
    Operation("artifact.find_decisions", digests.LibraryRequest, digests.LibraryReply, digests.find_decisions),
    Operation("artifact.find_evidence", digests.LibraryRequest, digests.LibraryReply, digests.find_evidence),
    Operation("artifact.find_highlights", digests.LibraryRequest, digests.LibraryReply, digests.find_highlights),
    Operation("artifact.read_wiki", digests.WikiRequest, digests.WikiReply, digests.read_wiki, errors=(NotFound,)),
    Operation("context.brief_project", digests.BriefRequest, digests.BriefReply, digests.brief_project),
)
