"""Handlers of `context.*`. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.core.serializable import shows_as_json
from lorelog.operations.context import schema
from lorelog.operations.replies import reply_from
from lorelog.operations.search.handlers import hit_json

if TYPE_CHECKING:
    from lorelog.engine import Engine
    from lorelog.operations.operation import RequestContext


def get_hot_context(engine: Engine, request: schema.HotContextRequest, call: RequestContext) -> schema.HotContext:
    """Return the memories that are marked as hot, newest first.

    A memory is hot if it has the tag `ctx:tier:hot`.
    """
    from lorelog.services.context.relevance import hot_hits

    return schema.HotContext(results=hot_hits(engine.context(all_projects=request.all_projects), request.k))


def list_subsystems(engine: Engine, request: schema.SubsystemsRequest, call: RequestContext) -> schema.SubsystemsReply:
    """List the subsystems of a project, with the number of memories, records and files of each.

    Memories name a subsystem by tags `ctx:subsystem:KEY`, records by entities of the type `subsystem`.
    """
    from lorelog.services.context.scope import list_subsystems

    scope = engine.context(all_projects=request.all_projects)
    subsystems, total = list_subsystems(scope, request.prefix, request.limit)
    return schema.SubsystemsReply(
        subsystems=tuple(
            schema.SubsystemInfo(
                key=subsystem.key,
                chunk_count=subsystem.memories,
                record_count=subsystem.records,
                file_count=subsystem.files,
            )
            for subsystem in subsystems
        ),
        total=total,
    )


def get_files_for_subsystem(
    engine: Engine, request: schema.SubsystemRequest, call: RequestContext
) -> schema.SubsystemFilesReply:
    """Return the files of a subsystem.

    Memories name them by tags `ctx:file:PATH`, records by their provenance and outputs.
    """
    from lorelog.services.context.scope import find_subsystem_files

    files = find_subsystem_files(engine.context(all_projects=request.all_projects), request.subsystem_key)
    return reply_from(files, schema.SubsystemFilesReply, subsystem_key=files.key)


def find_relevant_context(
    engine: Engine, request: schema.RelevantContextRequest, call: RequestContext
) -> schema.RelevantContext:
    """Find context for a task: hot memories, then documents, research, decisions, plans, summaries and records."""
    from lorelog.services.context.relevance import find_relevant

    scope = engine.context(all_projects=request.all_projects)
    keys = tuple(dict.fromkeys(request.subsystem_keys))
    relevant = find_relevant(scope, request.task, request.k, keys, include_hot=request.include_hot)
    return schema.RelevantContext(results=relevant.hits, hot_included=relevant.hot_count, notes=relevant.notes)


def suggest_agent(
    engine: Engine, request: schema.SuggestAgentRequest, call: RequestContext
) -> schema.SuggestAgentReply:
    """Suggest which agent should do a task, with reasons.

    Memories name agents by tags `ctx:agent:NAME`, and their responsibilities by `ctx:trigger:GLOB`, `ctx:file:PATH`
    and `ctx:subsystem:KEY`; records show who finished similar tasks.
    """
    from lorelog.services.context.relevance import suggest_agents

    scope = engine.context(all_projects=request.all_projects)
    suggestions, considered = suggest_agents(scope, request.task, request.changed_files, request.k)
    return schema.SuggestAgentReply(
        recommendations=tuple(
            schema.AgentRecommendation(
                agent_name=suggestion.agent,
                score=suggestion.score,
                reasons=suggestion.reasons,
                matched_triggers=suggestion.triggers,
            )
            for suggestion in suggestions
        ),
        considered_agents=considered,
    )


def agent_context(
    engine: Engine, request: schema.AgentContextRequest, call: RequestContext
) -> schema.AgentContextReply:
    """Compose a text for an agent to read before it starts, within a token budget.

    It has memories that answer the questions, decisions in force, failures to avoid, open tasks and hot memories, each
    with a citation id and its trust tier. The text never exceeds the budget.
    """
    from lorelog.services.context.collect import ContextRequest, build_agent_context

    context = build_agent_context(
        engine.context(all_projects=request.all_projects),
        ContextRequest(tuple(request.queries), request.k, request.token_budget, request.format),
    )
    file = context.file
    return schema.AgentContextReply(
        tool="lorelog.agent_context",
        tenant=context.tenant,
        project=context.project,
        queries=tuple(schema.QueryCount(query=query, result_count=count) for query, count in context.hit_counts),
        k_per_query=request.k,
        token_budget=request.token_budget,
        tokens=file.tokens,
        tokens_estimated=context.is_estimated,
        format=request.format,
        result_count=len(file.items),
        items=tuple(
            reply_from(item, schema.ContextItemInfo, citation_id=item.citation, trust_tier=item.tier)
            for item in file.items
        ),
        left_out=file.left_out,
        text=file.text,
        notes=context.notes,
    )


@shows_as_json(schema.HotContext, schema.HotContextJson)
def hot_context_json(context: schema.HotContext) -> schema.HotContextJson:
    """Return hot memories with their hits under JSON names."""
    return schema.HotContextJson(results=tuple(map(hit_json, context.results)))


@shows_as_json(schema.RelevantContext, schema.RelevantContextJson)
def relevant_context_json(context: schema.RelevantContext) -> schema.RelevantContextJson:
    """Return the context of a task with its hits under JSON names."""
    return reply_from(context, schema.RelevantContextJson, results=tuple(map(hit_json, context.results)))
