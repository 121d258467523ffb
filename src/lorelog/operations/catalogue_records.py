"""The operations on tasks and artifacts, as the catalogue lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lorelog.core.errors import ModelError, NotFound, StoreBusy, StoreUnwritable
from lorelog.operations import artifacts, tasks
from lorelog.operations import record_replies as replies
from lorelog.operations import record_requests as requests
from lorelog.operations.operation import Operation


def _writing(name: str, request: type, handle: Callable[..., Any]) -> Operation[Any, Any]:
    return Operation(
        name,
        request,
        replies.WrittenShape,
        handle,
        lambda reply, _: tasks.written_shape(reply),
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
    )


RECORDS: tuple[Operation[Any, Any], ...] = (
    _writing("task.start", requests.TaskStartRequest, tasks.start),
    _writing("task.progress", requests.TaskProgressRequest, tasks.progress),
    _writing("task.run_start", requests.RunStartRequest, tasks.run_start),
    _writing("task.run_finish", requests.RunFinishRequest, tasks.run_finish),
    _writing("task.add_evidence", requests.AddEvidenceRequest, tasks.add_evidence),
    _writing("task.finish", requests.TaskFinishRequest, tasks.finish),
    Operation(
        "task.get",
        requests.TaskGetRequest,
        replies.TaskGetShape,
        tasks.get,
        lambda reply, _: tasks.story_shape(reply),
        errors=(NotFound,),
    ),
    Operation(
        "task.search",
        requests.TaskSearchRequest,
        replies.TaskSearchShape,
        tasks.search,
        lambda reply, request: tasks.found_tasks_shape(reply, request.query),
        errors=(NotFound, ModelError),
        warms=True,
    ),
    _writing("artifact.create", requests.ArtifactCreateRequest, artifacts.create),
    _writing("artifact.review", requests.ReviewRequest, artifacts.review),
    _writing("artifact.revision", requests.RevisionRequest, artifacts.revision),
    _writing("artifact.decision", requests.DecisionRequest, artifacts.decision),
    _writing("artifact.verification", requests.VerificationRequest, artifacts.verification),
    Operation(
        "artifact.get",
        requests.ArtifactGetRequest,
        replies.ArtifactGetShape,
        artifacts.get,
        lambda reply, _: artifacts.entry_shape(reply),
    ),
    Operation(
        "artifact.search",
        requests.ArtifactSearchRequest,
        replies.ArtifactSearchShape,
        artifacts.search,
        artifacts.found_records_shape,
        errors=(NotFound, ModelError),
        warms=True,
    ),
    Operation(
        "artifact.list_thread",
        requests.ListThreadRequest,
        replies.ThreadShape,
        artifacts.list_thread,
        lambda reply, _: artifacts.thread_shape(reply),
        errors=(NotFound,),
    ),
    Operation(
        "artifact.find_related",
        requests.FindRelatedRequest,
        replies.RelatedShape,
        artifacts.find_related,
        lambda reply, _: artifacts.related_shape(reply),
        errors=(NotFound, ModelError, StoreUnwritable, StoreBusy),
        writes=True,  # when asked to
        warms=True,
    ),
)
