"""What the operations on context answer, as JSON. docs/json.md explains these fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lorelog.operations.replies import HitShape

if TYPE_CHECKING:
    from lorelog.services.context.agents import Suggestion
    from lorelog.services.context.gathering import AgentContext
    from lorelog.services.context.relevant import Relevant
    from lorelog.services.context.subsystems import Subsystem, SubsystemFiles


class HotContextShape(TypedDict):
    """What is marked as hot, newest first."""

    results: list[HitShape]


class RelevantShape(TypedDict):
    """What fits a task: hot memories first, then the best hits."""

    results: list[HitShape]
    hot_included: int
    notes: list[str]


class SubsystemShape(TypedDict):
    """A part of a project, and what there is of it."""

    key: str
    chunk_count: int
    record_count: int
    file_count: int


class SubsystemsShape(TypedDict):
    """The parts of a project, those first of which there is most."""

    subsystems: list[SubsystemShape]
    total: int


class SubsystemFilesShape(TypedDict):
    """The files of a part."""

    subsystem_key: str
    files: list[str]
    notes: list[str]


class SuggestionShape(TypedDict):
    """An agent, how well it fits, and why."""

    agent_name: str
    score: float
    reasons: list[str]
    matched_triggers: list[str]


class SuggestionsShape(TypedDict):
    """Who should do a task, best first."""

    recommendations: list[SuggestionShape]
    considered_agents: int


class AskedShape(TypedDict):
    """A question, and how many hits it had."""

    query: str
    result_count: int


class ContextItemShape(TypedDict):
    """Something that stands in the text."""

    section: str
    id: str
    citation_id: str
    kind: str
    trust_tier: str
    date: str
    origin: str
    tainted: bool
    stale: str


class AgentContextShape(TypedDict):
    """What an agent should read before it works."""

    tool: str
    tenant: str
    project: str
    queries: list[AskedShape]
    k_per_query: int
    token_budget: int
    tokens: int
    tokens_estimated: bool
    format: str
    result_count: int
    items: list[ContextItemShape]
    left_out: dict[str, int]
    text: str
    notes: list[str]


def subsystems_shape(found: tuple[list[Subsystem], int]) -> SubsystemsShape:
    """Parts of a project."""
    parts, total = found
    return {
        "subsystems": [
            {"key": one.key, "chunk_count": one.memories, "record_count": one.records, "file_count": one.files}
            for one in parts
        ],
        "total": total,
    }


def files_shape(found: SubsystemFiles) -> SubsystemFilesShape:
    """Files of a part."""
    return {"subsystem_key": found.key, "files": list(found.files), "notes": list(found.notes)}


def suggestions_shape(found: tuple[list[Suggestion], int]) -> SuggestionsShape:
    """Who should do it."""
    suggested, considered = found
    return {
        "recommendations": [
            {
                "agent_name": one.agent,
                "score": one.score,
                "reasons": list(one.reasons),
                "matched_triggers": list(one.triggers),
            }
            for one in suggested
        ],
        "considered_agents": considered,
    }


def relevant_shape(found: Relevant, hits: list[HitShape]) -> RelevantShape:
    """What fits a task."""
    return {"results": hits, "hot_included": found.hot, "notes": list(found.notes)}


def agent_context_shape(context: AgentContext) -> AgentContextShape:
    """What to read before work."""
    fitted = context.fitted
    return {
        "tool": "lorelog.agent_context",
        "tenant": context.tenant,
        "project": context.project,
        "queries": [{"query": query, "result_count": count} for query, count in context.found],
        "k_per_query": context.request.k,
        "token_budget": context.request.token_budget,
        "tokens": fitted.tokens,
        "tokens_estimated": context.estimated,
        "format": context.request.form,
        "result_count": len(fitted.items),
        "items": [
            {
                "section": one.section,
                "id": one.id,
                "citation_id": one.citation,
                "kind": one.kind,
                "trust_tier": one.tier,
                "date": one.date,
                "origin": one.origin,
                "tainted": one.tainted,
                "stale": one.stale,
            }
            for one in fitted.items
        ],
        "left_out": fitted.left_out,
        "text": fitted.text,
        "notes": list(context.notes),
    }
