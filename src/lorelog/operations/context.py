"""The operations on what an agent should know before it works. The first line of a docstring is its help everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.operations.shapes import search_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorelog.core.query import Hit
    from lorelog.engine import Engine
    from lorelog.operations import context_requests as requests
    from lorelog.operations.operation import Call
    from lorelog.operations.replies import HitShape
    from lorelog.services.context.agents import Suggestion
    from lorelog.services.context.gathering import AgentContext
    from lorelog.services.context.relevant import Relevant
    from lorelog.services.context.subsystems import Subsystem, SubsystemFiles


def get_hot_context(engine: Engine, request: requests.HotContextRequest, call: Call) -> Sequence[Hit]:
    """Return the memories that are marked as always worth knowing, newest first.

    Those are memories that bear the tag `ctx:tier:hot`.
    """
    from lorelog.services.context.relevant import hot_context

    return hot_context(engine.context(all_projects=request.all_projects), request.k)


def list_subsystems(engine: Engine, request: requests.SubsystemsRequest, call: Call) -> tuple[list[Subsystem], int]:
    """List the parts that a project is said to have, with how much is known of each.

    Memories say it by tags `ctx:subsystem:KEY`, records by entities of the type `subsystem`.
    """
    from lorelog.services.context.subsystems import list_subsystems

    return list_subsystems(engine.context(all_projects=request.all_projects), request.prefix, request.limit)


def get_files_for_subsystem(engine: Engine, request: requests.SubsystemRequest, call: Call) -> SubsystemFiles:
    """Return the files that belong to a part of a project.

    Memories name them by tags `ctx:file:PATH`, records by their provenance and outputs.
    """
    from lorelog.services.context.subsystems import files_of

    return files_of(engine.context(all_projects=request.all_projects), request.subsystem_key)


def find_relevant_context(engine: Engine, request: requests.RelevantRequest, call: Call) -> Relevant:
    """Find what to know before a task: what is hot, then documents, research, decisions, plans, summaries and records."""
    from lorelog.services.context.relevant import find_relevant

    sight = engine.context(all_projects=request.all_projects)
    keys = tuple(dict.fromkeys(request.subsystem_keys))
    return find_relevant(sight, request.task, request.k, keys, include_hot=request.include_hot)


def suggest_agent(engine: Engine, request: requests.SuggestRequest, call: Call) -> tuple[list[Suggestion], int]:
    """Suggest which agent should do a task, with reasons.

    Memories name agents by tags `ctx:agent:NAME`, and what is theirs by `ctx:trigger:GLOB`, `ctx:file:PATH` and
    `ctx:subsystem:KEY`; records tell who has finished similar tasks.
    """
    from lorelog.services.context.agents import suggest_agents

    sight = engine.context(all_projects=request.all_projects)
    return suggest_agents(sight, request.task, request.changed_files, request.k)


def agent_context(engine: Engine, request: requests.AgentContextRequest, call: Call) -> AgentContext:
    """Put together what an agent should read before it works, within a budget of tokens.

    Memories that answer the questions, decisions in force, failures to avoid, open tasks and hot memories, each with an id
    to cite it by and its tier. The text is never longer than the budget.
    """
    from lorelog.services.context.gathering import ContextRequest, agent_context

    asked = ContextRequest(tuple(request.queries), request.k, request.token_budget, request.format)
    return agent_context(engine.context(all_projects=request.all_projects), asked)


def hit_shapes(hits: Sequence[Hit]) -> list[HitShape]:
    """Hits, as a search shows them."""
    from lorelog.core.query import Coverage, Lane, SearchReply

    return search_shape(SearchReply("", Lane.HYBRID, tuple(hits), Coverage(0, 0)), explain=False)["hits"]
