"""Operations that collect context for agents: `context.*`, except `context.brief_project` (see `records`)."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError
from lorelog.operations.context import handlers, schema
from lorelog.operations.operation import Operation, ShellCommand

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "context.find_relevant_context",
        schema.RelevantContextRequest,
        schema.RelevantContextJson,
        handlers.find_relevant_context,
        handlers.relevant_context_json,
        errors=(ModelError,),
        warms=True,
    ),
    Operation(
        "context.get_hot_context",
        schema.HotContextRequest,
        schema.HotContextJson,
        handlers.get_hot_context,
        handlers.hot_context_json,
    ),
    Operation("context.list_subsystems", schema.SubsystemsRequest, schema.SubsystemsReply, handlers.list_subsystems),
    Operation(
        "context.get_files_for_subsystem",
        schema.SubsystemRequest,
        schema.SubsystemFilesReply,
        handlers.get_files_for_subsystem,
    ),
    Operation("context.suggest_agent", schema.SuggestAgentRequest, schema.SuggestAgentReply, handlers.suggest_agent),
    Operation(
        "context.agent_context",
        schema.AgentContextRequest,
        schema.AgentContextReply,
        handlers.agent_context,
        errors=(ModelError,),
        warms=True,
        commands=(ShellCommand("agent-context", options={"k": "-k --k -n --limit --top-k"}),),
    ),
)
