"""Namespaces of operations on `Lorelog`: `memory.task`, `memory.artifact`, `memory.code` and so on.

    with Lorelog(".") as memory:
        task = memory.task.start("make the importer idempotent", writer="mara")
        memory.task.progress(task.task_id, summary="keys are unique", next_step="replay last week")

A method is made from the request and the handler of its operation (`methods.py`).
"""

from __future__ import annotations

from lorelog.operations.backup import handlers as backup_handlers
from lorelog.operations.backup import schema as backup
from lorelog.operations.code import handlers as code_handlers
from lorelog.operations.code import schema as code
from lorelog.operations.context import handlers as context_handlers
from lorelog.operations.context import schema as context
from lorelog.operations.debug import handlers as debug_handlers
from lorelog.operations.debug import schema as debug
from lorelog.operations.delivery import guard_handlers, inbox_handlers
from lorelog.operations.delivery import guard_schema as guards
from lorelog.operations.delivery import handlers as delivery_handlers
from lorelog.operations.delivery import schema as delivery
from lorelog.operations.ledger import handlers as ledger
from lorelog.operations.ledger import handlers as ledger_handlers
from lorelog.operations.records import digests
from lorelog.operations.records import handlers as record_handlers
from lorelog.operations.records import schema as records
from lorelog.operations.requests import EmptyRequest
from lorelog.operations.settings import handlers as settings_handlers
from lorelog.operations.settings import schema as settings
from lorelog.operations.sync import handlers as sync_handlers
from lorelog.surfaces.python.methods import ModeT, OperationMethods, method


class TaskNamespace(OperationMethods[ModeT]):
    """Operations on tasks."""

    start = method(records.TaskStartRequest, record_handlers.start_task)
    progress = method(records.TaskProgressRequest, record_handlers.add_progress)
    run_start = method(records.RunStartRequest, record_handlers.start_run)
    run_finish = method(records.RunFinishRequest, record_handlers.finish_run)
    add_evidence = method(records.AddEvidenceRequest, record_handlers.add_evidence)
    finish = method(records.TaskFinishRequest, record_handlers.finish_task)
    get = method(records.TaskGetRequest, record_handlers.get_task)
    search = method(records.TaskSearchRequest, record_handlers.search_tasks)
    resume = method(digests.ResumeRequest, digests.resume)


class ArtifactNamespace(OperationMethods[ModeT]):
    """Operations on artifacts, which are records."""

    create = method(records.ArtifactCreateRequest, record_handlers.create_artifact)
    review = method(records.ReviewRequest, record_handlers.write_review)
    revision = method(records.RevisionRequest, record_handlers.write_revision)
    decision = method(records.DecisionRequest, record_handlers.write_decision)
    verification = method(records.VerificationRequest, record_handlers.write_verification)
    get = method(records.ArtifactGetRequest, record_handlers.get_artifact)
    search = method(records.ArtifactSearchRequest, record_handlers.search_artifacts)
    list_thread = method(records.ListThreadRequest, record_handlers.list_thread)
    find_related = method(records.FindRelatedRequest, record_handlers.find_related)
    find_failures = method(digests.LibraryRequest, digests.find_failures)
    find_decisions = method(digests.LibraryRequest, digests.find_decisions)
    find_evidence = method(digests.LibraryRequest, digests.find_evidence)
    find_highlights = method(digests.LibraryRequest, digests.find_highlights)
    read_wiki = method(digests.WikiRequest, digests.read_wiki)


class ContextNamespace(OperationMethods[ModeT]):
    """Operations that collect context for an agent."""

    brief_project = method(digests.BriefRequest, digests.brief_project)
    find_relevant_context = method(context.RelevantContextRequest, context_handlers.find_relevant_context)
    get_hot_context = method(context.HotContextRequest, context_handlers.get_hot_context)
    list_subsystems = method(context.SubsystemsRequest, context_handlers.list_subsystems)
    get_files_for_subsystem = method(context.SubsystemRequest, context_handlers.get_files_for_subsystem)
    suggest_agent = method(context.SuggestAgentRequest, context_handlers.suggest_agent)
    agent_context = method(context.AgentContextRequest, context_handlers.agent_context)


class BackupNamespace(OperationMethods[ModeT]):
    """Operations on backups of the home: all tenants and all known projects."""

    create = method(backup.BackupRequest, backup_handlers.create)
    verify = method(backup.BackupFileRequest, backup_handlers.verify)
    restore = method(backup.RestoreRequest, backup_handlers.restore)


class SyncNamespace(OperationMethods[ModeT]):
    """Operations on exchanges with other machines."""

    exchange = method(sync_handlers.SyncRequest, sync_handlers.run)
    status = method(sync_handlers.SyncStatusRequest, sync_handlers.status)


class LedgerNamespace(OperationMethods[ModeT]):
    """Operations on the ledger."""

    verify = method(ledger.VerifyRequest, ledger_handlers.verify)


class CodeNamespace(OperationMethods[ModeT]):
    """Operations on indexed code. Lines and columns count from 1."""

    index = method(code.CodeIndexRequest, code_handlers.index_tree)
    forget = method(code.CodeForgetRequest, code_handlers.forget_tree)
    status = method(EmptyRequest, code_handlers.tree_status)
    find_definition = method(code.DefinitionRequest, code_handlers.find_definition)
    find_references = method(code.ReferencesRequest, code_handlers.find_references)
    find_callers = method(code.CallersRequest, code_handlers.find_callers)
    find_imports = method(code.ImportsRequest, code_handlers.find_imports)
    outline = method(code.OutlineRequest, code_handlers.outline)
    search = method(code.CodeSearchRequest, code_handlers.search)


class DebugNamespace(OperationMethods[ModeT]):
    """Operations on traced calls and errors."""

    find_tool_calls = method(debug.ToolCallsRequest, debug_handlers.find_tool_calls)
    find_errors = method(debug.ErrorsRequest, debug_handlers.find_errors)
    why = method(debug.WhyRequest, debug_handlers.why)


class GuardNamespace(OperationMethods[ModeT]):
    """Operations on guards, which check agents' tool calls."""

    list = method(guards.GuardListRequest, guard_handlers.list_guards)
    show = method(guards.GuardIdRequest, guard_handlers.show_guard)
    propose = method(guards.GuardProposeRequest, guard_handlers.propose_guards)
    test = method(guards.GuardTestRequest, guard_handlers.test_guard)
    add = method(guards.GuardAddRequest, guard_handlers.add_guard)
    enable = method(guards.GuardEnableRequest, guard_handlers.enable_guard)
    disable = method(guards.GuardIdRequest, guard_handlers.disable_guard)
    dismiss = method(guards.GuardIdRequest, guard_handlers.dismiss_guard)
    remove = method(guards.GuardIdRequest, guard_handlers.remove_guard)


class DeliveryNamespace(OperationMethods[ModeT]):
    """Operations on the memories that agents were shown."""

    list = method(delivery.DeliveryListRequest, delivery_handlers.list_shown)
    unused = method(delivery.UnusedRequest, delivery_handlers.list_unused)
    inbox = method(delivery.InboxRequest, inbox_handlers.list_inbox)
    approve = method(delivery.ApproveRequest, inbox_handlers.approve_item)
    refuse = method(delivery.RefuseRequest, inbox_handlers.refuse_item)


class SettingsNamespace(OperationMethods[ModeT]):
    """Operations on settings files."""

    list = method(EmptyRequest, settings_handlers.list_settings)
    set = method(settings.SettingRequest, settings_handlers.set_setting)
