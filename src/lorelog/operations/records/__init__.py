"""Operations on tasks, artifacts and their digests: `task.*`, `artifact.*`, `context.brief_project`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lorelog.core.errors import ModelError, NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.records import digests, handlers, schema

_LIMIT = "-k -n --limit --top-k"
_RECORD_OPTIONS = {"writer": "--as", "session_id": "--session", "origin": "--origin"}


def _record_command(
    words: str,
    positional: tuple[str, ...],
    options: Mapping[str, str],
    metavars: Mapping[str, str] = {},
    defaults: Mapping[str, Any] = {},
) -> ShellCommand:
    """Return a command that writes a record: it offers the given fields and those that every record has."""
    names = {"writer": "NAME", "session_id": "ID", **metavars}
    return ShellCommand(words, positional, {**options, **_RECORD_OPTIONS}, ("*",), names, defaults)


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
        commands=commands,
    )


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    _write_operation(
        "task.start",
        schema.TaskStartRequest,
        handlers.start_task,
        _record_command(
            "task start",
            ("goal",),
            {
                "motivation": "--why",
                "hypothesis": "--hypothesis",
                "scientific_question": "--question",
                "expected_outputs": "--expect",
                "dataset_refs": "--dataset",
                "parent_task_id": "--parent",
                "to_global": "--global",
            },
            {"dataset_refs": "NAME[@VERSION]", "parent_task_id": "TASK"},
        ),
    ),
    _write_operation(
        "task.progress",
        schema.TaskProgressRequest,
        handlers.add_progress,
        _record_command(
            "task progress",
            ("task_id?", "summary"),
            {"next_step": "--next", "blockers": "--blocker", "failed_attempts": "--failed", "what_worked": "--worked"},
        ),
    ),
    _write_operation(
        "task.run_start",
        schema.RunStartRequest,
        handlers.start_run,
        _record_command(
            "task run-start",
            ("task_id?",),
            {
                "tool_name": "--tool",
                "command": "--command",
                "why_chosen": "--why",
                "inputs": "--input",
                "tool_version": "--tool-version",
            },
            {"tool_name": "NAME"},
        ),
    ),
    _write_operation(
        "task.run_finish",
        schema.RunFinishRequest,
        handlers.finish_run,
        _record_command(
            "task run-finish",
            ("task_id?", "notes"),
            {
                "status": "--status",
                "run_id": "--run",
                "tool_name": "--tool",
                "outputs": "--output",
                "metrics": "--metric",
                "validation": "--validation",
            },
            {"run_id": "ID", "tool_name": "NAME", "metrics": "NAME=NUMBER"},
            {"status": "completed"},
        ),
    ),
    _write_operation(
        "task.add_evidence",
        schema.AddEvidenceRequest,
        handlers.add_evidence,
        _record_command(
            "task evidence",
            ("task_id?", "summary"),
            {
                "evidence_kind": "--kind",
                "reply_to_artifact_id": "--about",
                "supports_claim": "--supports/--against",
                "metrics": "--metric",
            },
            {"evidence_kind": "KIND", "reply_to_artifact_id": "ID", "metrics": "NAME=NUMBER"},
            {"evidence_kind": "observation"},
        ),
    ),
    _write_operation(
        "task.finish",
        schema.TaskFinishRequest,
        handlers.finish_task,
        _record_command(
            "task finish",
            ("task_id?",),
            {
                "status": "--status",
                "summary": "--summary",
                "what_worked": "--worked",
                "what_failed": "--failed",
                "validation": "--validation",
                "uncertainty": "--uncertain",
                "followups": "--followup",
                "confidence": "--confidence",
            },
            defaults={"status": "completed"},
        ),
    ),
    Operation(
        "task.get",
        schema.TaskGetRequest,
        schema.TaskGetReply,
        handlers.get_task,
        errors=(NotFound,),
        commands=(ShellCommand("task show", ("task_id?",)),),
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
                options={"status": "--status", "k": _LIMIT, "all_projects": "--all-projects"},
                hidden=("*",),
                defaults={"status": "open", "k": 20},
                summary="list tasks, most recently updated first",
            ),
            ShellCommand(
                "task search",
                ("query!...",),
                {
                    "status": "--status",
                    "tool_name": "--tool",
                    "dataset": "--dataset",
                    "writer": "--as",
                    "k": _LIMIT,
                    "all_projects": "--all-projects",
                },
                hidden=("*",),
                metavars={"query": "WORDS", "tool_name": "NAME", "dataset": "NAME", "writer": "NAME"},
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
        _record_command(
            "decide",
            ("summary!",),
            {
                "motivation": "--because",
                "task_id": "--task",
                "supersedes": "--supersedes",
                "validation": "--validation",
                "uncertainty": "--uncertain",
                "to_global": "--global",
            },
            {"summary": "TEXT", "supersedes": "ID"},
        ),
    ),
    _write_operation(
        "artifact.verification",
        schema.VerificationRequest,
        handlers.write_verification,
        _record_command(
            "verify",
            ("reply_to_artifact_id!", "summary"),
            {"supports_claim": "/--against", "validation": "--validation"},
            {"reply_to_artifact_id": "ID", "summary": "TEXT"},
            {"supports_claim": True},
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
        commands=(ShellCommand("task resume", ("task_id?",), hidden=("query", "k")),),
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
        commands=(ShellCommand("brief", options={"include_related_projects": "/--no-related"}),),
    ),
)
