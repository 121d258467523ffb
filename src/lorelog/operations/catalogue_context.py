"""The operations on what an agent should know before it works, as the catalogue lists them."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError
from lorelog.operations import context, context_replies, context_requests
from lorelog.operations.operation import Operation

CONTEXT: tuple[Operation[Any, Any], ...] = (
    Operation(
        "context.find_relevant_context",
        context_requests.RelevantRequest,
        context_replies.RelevantShape,
        context.find_relevant_context,
        lambda reply, _: context_replies.relevant_shape(reply, context.hit_shapes(reply.hits)),
        errors=(ModelError,),
        warms=True,
    ),
    Operation(
        "context.get_hot_context",
        context_requests.HotContextRequest,
        context_replies.HotContextShape,
        context.get_hot_context,
        lambda reply, _: {"results": context.hit_shapes(reply)},
    ),
    Operation(
        "context.list_subsystems",
        context_requests.SubsystemsRequest,
        context_replies.SubsystemsShape,
        context.list_subsystems,
        lambda reply, _: context_replies.subsystems_shape(reply),
    ),
    Operation(
        "context.get_files_for_subsystem",
        context_requests.SubsystemRequest,
        context_replies.SubsystemFilesShape,
        context.get_files_for_subsystem,
        lambda reply, _: context_replies.files_shape(reply),
    ),
    Operation(
        "context.suggest_agent",
        context_requests.SuggestRequest,
        context_replies.SuggestionsShape,
        context.suggest_agent,
        lambda reply, _: context_replies.suggestions_shape(reply),
    ),
    Operation(
        "context.agent_context",
        context_requests.AgentContextRequest,
        context_replies.AgentContextShape,
        context.agent_context,
        lambda reply, _: context_replies.agent_context_shape(reply),
        errors=(ModelError,),
        warms=True,
    ),
)
