"""Namespaces of operations on `Lorelog`: `memory.task`, `memory.artifact`, `memory.code` and so on.

    with Lorelog(".") as memory:
        task = memory.task.start("make the importer idempotent", writer="mara")
        memory.task.progress(task.task_id, summary="keys are unique", next_step="replay last week")

A method is made from the request and the handler of its operation (`methods.py`).
"""

from __future__ import annotations

from lorelog.operations import artifacts as artifacts_operations
from lorelog.operations import backup as backup_operations
from lorelog.operations import code as code_operations
from lorelog.operations import context as context_operations
from lorelog.operations import debug as debug_operations
from lorelog.operations import delivery as delivery_operations
from lorelog.operations import digests as digests_operations
from lorelog.operations import guard as guard_operations
from lorelog.operations import records as records_operations
from lorelog.operations import settings as settings_operations
from lorelog.operations import sync as sync_operations
from lorelog.operations.requests import EmptyRequest
from lorelog.surfaces.python.methods import ModeT, OperationMethods, method


class TaskNamespace(OperationMethods[ModeT]):
    """Operations on tasks."""

    start = method(records_operations.TaskStartRequest, artifacts_operations.start_task)
    progress = method(records_operations.TaskProgressRequest, artifacts_operations.add_progress)
    run_start = method(records_operations.RunStartRequest, artifacts_operations.start_run)
    run_finish = method(records_operations.RunFinishRequest, artifacts_operations.finish_run)
    add_evidence = method(records_operations.AddEvidenceRequest, artifacts_operations.add_evidence)
    finish = method(records_operations.TaskFinishRequest, artifacts_operations.finish_task)
    get = method(records_operations.TaskGetRequest, artifacts_operations.get_task)
    search = method(records_operations.TaskSearchRequest, artifacts_operations.search_tasks)
    resume = method(digests_operations.ResumeRequest, digests_operations.resume)


class ArtifactNamespace(OperationMethods[ModeT]):
    """Operations on artifacts, which are records."""

    create = method(records_operations.ArtifactCreateRequest, artifacts_operations.create_artifact)
    review = method(records_operations.ReviewRequest, artifacts_operations.write_review)
    revision = method(records_operations.RevisionRequest, artifacts_operations.write_revision)
    decision = method(records_operations.DecisionRequest, artifacts_operations.write_decision)
    verification = method(records_operations.VerificationRequest, artifacts_operations.write_verification)
    get = method(records_operations.ArtifactGetRequest, artifacts_operations.get_artifact)
    search = method(records_operations.ArtifactSearchRequest, artifacts_operations.search_artifacts)
    list_thread = method(records_operations.ListThreadRequest, artifacts_operations.list_thread)
    find_related = method(records_operations.FindRelatedRequest, artifacts_operations.find_related)
    find_failures = method(digests_operations.LibraryRequest, digests_operations.find_failures)
    find_decisions = method(digests_operations.LibraryRequest, digests_operations.find_decisions)
    find_evidence = method(digests_operations.LibraryRequest, digests_operations.find_evidence)
    find_highlights = method(digests_operations.LibraryRequest, digests_operations.find_highlights)
    read_wiki = method(digests_operations.WikiRequest, digests_operations.read_wiki)


class ContextNamespace(OperationMethods[ModeT]):
    """Operations that collect context for an agent."""

    brief_project = method(digests_operations.BriefRequest, digests_operations.brief_project)
    find_relevant_context = method(context_operations.RelevantContextRequest, context_operations.find_relevant_context)
    get_hot_context = method(context_operations.HotContextRequest, context_operations.get_hot_context)
    list_subsystems = method(context_operations.SubsystemsRequest, context_operations.list_subsystems)
    get_files_for_subsystem = method(context_operations.SubsystemRequest, context_operations.get_files_for_subsystem)
    suggest_agent = method(context_operations.SuggestAgentRequest, context_operations.suggest_agent)
    agent_context = method(context_operations.AgentContextRequest, context_operations.agent_context)


class BackupNamespace(OperationMethods[ModeT]):
    """Operations on backups of the home: all tenants and all known projects."""

    create = method(backup_operations.BackupRequest, backup_operations.create)
    verify = method(backup_operations.BackupFileRequest, backup_operations.verify)
    restore = method(backup_operations.RestoreRequest, backup_operations.restore)


class SyncNamespace(OperationMethods[ModeT]):
    """Operations on exchanges with other machines."""

    exchange = method(sync_operations.SyncRequest, sync_operations.run)
    status = method(sync_operations.SyncStatusRequest, sync_operations.status)


class LedgerNamespace(OperationMethods[ModeT]):
    """Operations on the ledger."""

    verify = method(artifacts_operations.VerifyRequest, artifacts_operations.verify)


class CodeNamespace(OperationMethods[ModeT]):
    """Operations on indexed code. Lines and columns count from 1."""

    index = method(code_operations.CodeIndexRequest, code_operations.index_tree)
    forget = method(code_operations.CodeForgetRequest, code_operations.forget_tree)
    status = method(EmptyRequest, code_operations.tree_status)
    find_definition = method(code_operations.SymbolRequest, code_operations.find_definition)
    find_references = method(code_operations.ReferencesRequest, code_operations.find_references)
    find_callers = method(code_operations.CallersRequest, code_operations.find_callers)
    find_imports = method(code_operations.ImportsRequest, code_operations.find_imports)
    outline = method(code_operations.OutlineRequest, code_operations.outline)
    search = method(code_operations.CodeSearchRequest, code_operations.search)


class DebugNamespace(OperationMethods[ModeT]):
    """Operations on traced calls and errors."""

    find_tool_calls = method(debug_operations.ToolCallsRequest, debug_operations.find_tool_calls)
    find_errors = method(debug_operations.ErrorsRequest, debug_operations.find_errors)
    why = method(debug_operations.WhyRequest, debug_operations.why)


class GuardNamespace(OperationMethods[ModeT]):
    """Operations on guards, which check agents' tool calls."""

    list = method(guard_operations.GuardListRequest, guard_operations.list_guards)
    show = method(guard_operations.GuardIdRequest, guard_operations.show_guard)
    propose = method(guard_operations.GuardProposeRequest, guard_operations.propose_guards)
    test = method(guard_operations.GuardTestRequest, guard_operations.test_guard)
    add = method(guard_operations.GuardAddRequest, guard_operations.add_guard)
    enable = method(guard_operations.GuardEnableRequest, guard_operations.enable_guard)
    disable = method(guard_operations.GuardIdRequest, guard_operations.disable_guard)
    dismiss = method(guard_operations.GuardIdRequest, guard_operations.dismiss_guard)
    remove = method(guard_operations.GuardIdRequest, guard_operations.remove_guard)


class DeliveryNamespace(OperationMethods[ModeT]):
    """Operations on the memories that agents were shown."""

    list = method(delivery_operations.DeliveryListRequest, delivery_operations.list_shown)
    unused = method(delivery_operations.UnusedRequest, delivery_operations.list_unused)
    inbox = method(delivery_operations.InboxRequest, delivery_operations.list_inbox)
    approve = method(delivery_operations.ApproveRequest, delivery_operations.approve_item)
    refuse = method(delivery_operations.RefuseRequest, delivery_operations.refuse_item)


class SettingsNamespace(OperationMethods[ModeT]):
    """Operations on settings files."""

    list = method(EmptyRequest, settings_operations.list_settings)
    set = method(settings_operations.SettingRequest, settings_operations.set_setting)
