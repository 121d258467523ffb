"""Operations on tasks, artifacts and their digests: `task.*`, `artifact.*`, `context.brief_project`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from lorelog.core.errors import ModelError, NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.records import digests, handlers, schema

_TASK_HELP = "id of the task, or its first characters (default: the task in progress)"


def _offer_record_fields(command: ShellCommand) -> ShellCommand:
    """Return a command that also offers the fields that every record has."""
    return structs.replace(
        command,
        options={**command.options, "writer": "--as"},
        offered=("session_id", "origin", *command.offered),
        helps={"task_id": _TASK_HELP, **command.helps},
    )


def _write_operation(
    name: str, request: type, handler: Callable[..., Any], *commands: ShellCommand
) -> Operation[Any, Any]:
    return Operation(
        name,
        request,
        schema.WrittenArtifact,
        handler,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        commands=tuple(map(_offer_record_fields, commands)),
    )


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    _write_operation(
        "task.start",
        schema.TaskStartRequest,
        handlers.start_task,
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
    ),
    _write_operation(
        "task.progress",
        schema.TaskProgressRequest,
        handlers.add_progress,
        ShellCommand(
            "task progress",
            ("task_id?", "summary"),
            {"next_step": "--next", "failed_attempts": "--failed", "what_worked": "--worked"},
            offered=("blockers",),
        ),
    ),
    _write_operation(
        "task.run_start",
        schema.RunStartRequest,
        handlers.start_run,
        ShellCommand(
            "task run-start",
            ("task_id?",),
            {"why_chosen": "--why"},
            offered=("tool_name", "command", "inputs", "tool_version"),
        ),
    ),
    _write_operation(
        "task.run_finish",
        schema.RunFinishRequest,
        handlers.finish_run,
        ShellCommand(
            "task run-finish",
            ("task_id?", "notes"),
            offered=("status", "run_id", "tool_name", "outputs", "metrics", "validation"),
            metavars={"metrics": "NAME=NUMBER"},
            defaults={"status": "completed"},
        ),
    ),
    _write_operation(
        "task.add_evidence",
        schema.AddEvidenceRequest,
        handlers.add_evidence,
        ShellCommand(
            "task evidence",
            ("task_id?", "summary"),
            {"evidence_kind": "--kind", "reply_to_artifact_id": "--about", "supports_claim": "--supports/--against"},
            offered=("metrics",),
            metavars={"metrics": "NAME=NUMBER"},
            helps={"supports_claim": "it supports the task's hypothesis / it contradicts the task's hypothesis"},
            defaults={"evidence_kind": "observation"},
        ),
    ),
    _write_operation(
        "task.finish",
        schema.TaskFinishRequest,
        handlers.finish_task,
        ShellCommand(
            "task finish",
            ("task_id?",),
            {"what_worked": "--worked", "what_failed": "--failed", "uncertainty": "--uncertain"},
            offered=("status", "summary", "validation", "followups", "confidence"),
            defaults={"status": "completed"},
        ),
    ),
    Operation(
        "task.get",
        schema.TaskGetRequest,
        schema.TaskGetReply,
        handlers.get_task,
        errors=(NotFound,),
        commands=(ShellCommand("task show", ("task_id?",), helps={"task_id": _TASK_HELP}),),
    ),
    Operation(
        "task.search",
        schema.TaskSearchRequest,
        schema.TaskSearchReply,
        handlers.search_tasks,
        errors=(NotFound, ModelError),
        warms=True,
        commands=(
            ShellCommand(
                "task list",
                offered=("status", "k", "all_projects"),
                helps={"status": "open, all, or a status such as completed, failed"},
                defaults={"status": "open", "k": 20},
                summary="list tasks, most recently updated first",
            ),
            ShellCommand(
                "task search",
                ("query!...",),
                {"writer": "--as"},
                offered=("status", "tool_name", "dataset", "k", "all_projects"),
                defaults={"k": 5},
            ),
        ),
    ),
    _write_operation("artifact.create", schema.ArtifactCreateRequest, handlers.create_artifact),
    _write_operation("artifact.review", schema.ReviewRequest, handlers.write_review),
    _write_operation("artifact.revision", schema.RevisionRequest, handlers.write_revision),
    _write_operation(
        "artifact.decision",
        schema.DecisionRequest,
        handlers.write_decision,
        ShellCommand(
            "decide",
            ("summary!",),
            {"motivation": "--because", "uncertainty": "--uncertain"},
            offered=("task_id", "supersedes", "validation", "to_global"),
            metavars={"summary": "TEXT", "supersedes": "ID"},
            helps={"summary": "the decision", "task_id": "the task it belongs to (default: none)"},
        ),
    ),
    _write_operation(
        "artifact.verification",
        schema.VerificationRequest,
        handlers.write_verification,
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
    ),
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
    Operation(
        "task.resume",
        digests.ResumeRequest,
        digests.ResumeReply,
        digests.resume,
        errors=(NotFound,),
        commands=(ShellCommand("task resume", ("task_id?",), hidden=("query", "k"), helps={"task_id": _TASK_HELP}),),
    ),
    Operation("artifact.find_failures", digests.LibraryRequest, digests.LibraryReply, digests.find_failures),
    Operation("artifact.find_decisions", digests.LibraryRequest, digests.LibraryReply, digests.find_decisions),
    Operation("artifact.find_evidence", digests.LibraryRequest, digests.LibraryReply, digests.find_evidence),
    Operation("artifact.find_highlights", digests.LibraryRequest, digests.LibraryReply, digests.find_highlights),
    Operation("artifact.read_wiki", digests.WikiRequest, digests.WikiReply, digests.read_wiki, errors=(NotFound,)),
    Operation(
        "context.brief_project",
        digests.BriefRequest,
        digests.BriefReply,
        digests.brief_project,
        commands=(
            ShellCommand(
                "brief",
                options={"include_related_projects": "/--no-related"},
                helps={"include_related_projects": "omit related projects"},
            ),
        ),
    ),
)
