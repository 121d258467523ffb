"""Namespaces of operations on `Lorelog`: `memory.task`, `memory.artifact`, `memory.code` and so on.

    with Lorelog(".") as memory:
        task = memory.task.start("make the importer idempotent", writer="mara")
        memory.task.progress(task.task_id, summary="keys are unique", next_step="replay last week")

A method is made from the request and the handler of its operation (`methods.py`).
"""

from __future__ import annotations

from lorelog.operations import (
    artifacts,
    backup,
    changes,
    code,
    debug,
    delivery,
    digests,
    guard,
    records,
    review,
    settings,
    sync,
)
from lorelog.operations.requests import EmptyRequest, ScopedRequest
from lorelog.surfaces.python.methods import ModeT, OperationMethods, method


class TaskNamespace(OperationMethods[ModeT]):
    """Operations on tasks."""

    start = method(records.TaskStartRequest, records.start_task)
    progress = method(records.TaskProgressRequest, records.add_progress)
    run_start = method(records.RunStartRequest, records.start_run)
    run_finish = method(records.RunFinishRequest, records.finish_run)
    add_evidence = method(records.AddEvidenceRequest, records.add_evidence)
    finish = method(records.TaskFinishRequest, records.finish_task)
    get = method(artifacts.TaskGetRequest, artifacts.get_task)
    search = method(artifacts.TaskSearchRequest, artifacts.search_tasks)
    resume = method(digests.ResumeRequest, digests.resume)


class ArtifactNamespace(OperationMethods[ModeT]):
    """Operations on artifacts, which are records."""

    create = method(records.ArtifactCreateRequest, records.create_artifact)
    review = method(records.ReviewRequest, records.write_review)
    revision = method(records.RevisionRequest, records.write_revision)
    decision = method(records.DecisionRequest, records.write_decision)
    verification = method(records.VerificationRequest, records.write_verification)
    get = method(artifacts.ArtifactGetRequest, artifacts.get_artifact)
    search = method(artifacts.ArtifactSearchRequest, artifacts.search_artifacts)
    list_thread = method(artifacts.ListThreadRequest, artifacts.list_thread)
    find_failures = method(digests.LibraryRequest, digests.find_failures)
    find_decisions = method(digests.LibraryRequest, digests.find_decisions)
    find_evidence = method(digests.LibraryRequest, digests.find_evidence)
    read_wiki = method(digests.WikiRequest, digests.read_wiki)


class ContextNamespace(OperationMethods[ModeT]):
    """Operations that collect context for an agent."""

    brief_project = method(digests.BriefRequest, digests.brief_project)
    find_relevant_context = method(digests.RelevantContextRequest, digests.find_relevant_context)
    get_hot_context = method(digests.HotContextRequest, digests.get_hot_context)
    agent_context = method(digests.AgentContextRequest, digests.agent_context)


class BackupNamespace(OperationMethods[ModeT]):
    """Operations on backups of the home: all tenants and all known projects."""

    create = method(backup.BackupRequest, backup.create)
    verify = method(backup.BackupFileRequest, backup.verify)
    restore = method(backup.RestoreRequest, backup.restore)


class SyncNamespace(OperationMethods[ModeT]):
    """Operations on exchanges with other machines."""

    exchange = method(sync.SyncRequest, sync.run)
    status = method(sync.SyncStatusRequest, sync.status)


class LedgerNamespace(OperationMethods[ModeT]):
    """Operations on the ledger."""

    verify = method(artifacts.VerifyRequest, artifacts.verify)


class CodeNamespace(OperationMethods[ModeT]):
    """Operations on indexed code. Lines and columns count from 1."""

    index = method(code.CodeIndexRequest, code.index_tree)
    forget = method(code.CodeForgetRequest, code.forget_tree)
    status = method(EmptyRequest, code.tree_status)
    find_definition = method(code.DefinitionRequest, code.find_definition)
    find_references = method(code.ReferencesRequest, code.find_references)
    find_callers = method(code.CallersRequest, code.find_callers)
    find_imports = method(code.ImportsRequest, code.find_imports)
    outline = method(code.OutlineRequest, code.outline)
    search = method(code.CodeSearchRequest, code.search)
    why = method(code.LineRequest, code.why_line)
    check = method(changes.ChangeRequest, changes.check_diff)
    memories = method(code.MemoriesRequest, code.file_memories)


class DebugNamespace(OperationMethods[ModeT]):
    """Operations on traced calls and errors."""

    find_tool_calls = method(debug.ToolCallsRequest, debug.find_tool_calls)
    find_errors = method(debug.ErrorsRequest, debug.find_errors)
    why = method(debug.WhyRequest, debug.why)
    how = method(debug.HowRequest, debug.how)
    friction = method(debug.FrictionRequest, debug.friction)


class GuardNamespace(OperationMethods[ModeT]):
    """Operations on guards, which check agents' tool calls."""

    list = method(ScopedRequest, guard.list_guards)
    rules = method(guard.RulesRequest, guard.list_rules)
    test = method(guard.GuardTestRequest, guard.test_guard)
    add = method(guard.GuardAddRequest, guard.add_guard)
    enable = method(guard.GuardEnableRequest, guard.enable_guard)
    change = method(guard.GuardChangeRequest, guard.change_guard)


class DeliveryNamespace(OperationMethods[ModeT]):
    """Operations on the memories that agents were shown."""

    list = method(delivery.DeliveryListRequest, delivery.list_shown)
    balance = method(delivery.BalanceRequest, delivery.balance)


class ReviewNamespace(OperationMethods[ModeT]):
    """Operations on what waits for somebody's word."""

    list = method(review.ReviewListRequest, review.list_items)
    decide = method(review.ReviewDecideRequest, review.decide_items)
    run = method(review.ReviewRunRequest, review.run_review)


class SettingsNamespace(OperationMethods[ModeT]):
    """Operations on settings files."""

    list = method(EmptyRequest, settings.list_settings)
    set = method(settings.SettingRequest, settings.set_setting)
