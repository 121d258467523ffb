"""Requests and replies of `context.*`. docs/json.md explains the reply fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.query import Hit
from lorelog.core.serializable import ReplyItems
from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest, Text
from lorelog.operations.search.schema import HitJson

SubsystemKey = Annotated[str, Meta(min_length=1, max_length=200)]
ResultLimit = Annotated[int, Meta(ge=1, le=1000)]


class ContextRequestBase(OperationRequest, frozen=True, kw_only=True):
    """The projects to search."""

    all_projects: Annotated[bool, Meta(description="Search every project, not only this one and the global one.")] = (
        False
    )


class HotContextRequest(ContextRequestBase, frozen=True, kw_only=True):
    """How many hot memories to return."""

    k: Annotated[ResultLimit, Meta(description="Maximum number of memories.")] = 20


class SubsystemsRequest(ContextRequestBase, frozen=True):
    """Which subsystems to list."""

    prefix: Annotated[str, Meta(max_length=200, description="Only keys that start with this.")] = ""
    limit: Annotated[ResultLimit, Meta(description="Maximum number of subsystems.")] = 50


class SubsystemRequest(ContextRequestBase, frozen=True):
    """One subsystem."""

    subsystem_key: Annotated[SubsystemKey, Meta(description="Its key, as in context.list_subsystems.")]


class RelevantContextRequest(ContextRequestBase, frozen=True):
    """A task that is about to begin."""

    task: Annotated[Text, Meta(min_length=1, description="Description of the task.")]
    k: Annotated[ResultLimit, Meta(description="Maximum number of hits.")] = 20
    subsystem_keys: Annotated[
        Annotated[Sequence[SubsystemKey], Meta(max_length=20)],
        Meta(description="Only results of one of these subsystems."),
    ] = []
    include_hot: Annotated[bool, Meta(description="Put up to five hot memories first.")] = True


class SuggestAgentRequest(ContextRequestBase, frozen=True):
    """A task to assign."""

    task: Annotated[Text, Meta(min_length=1, description="Description of the task.")]
    changed_files: Annotated[
        Annotated[Sequence[Annotated[str, Meta(min_length=1, max_length=4096)]], Meta(max_length=1000)],
        Meta(description="Files that the task concerns, relative to the project's directory."),
    ] = []
    k: Annotated[Annotated[int, Meta(ge=1, le=100)], Meta(description="Maximum number of agents.")] = 3


class AgentContextRequest(ContextRequestBase, frozen=True):
    """The questions of an agent, and its token budget."""

    queries: Annotated[
        Annotated[Sequence[Annotated[str, Meta(min_length=1, max_length=10_000)]], Meta(max_length=50)],
        Meta(description="Questions about the work; the newest memories if none are given."),
    ] = []
    k: Annotated[
        Annotated[int, Meta(ge=1, le=100)],
        Meta(description="Number of memories per question, or of newest ones without questions."),
    ] = 2
    token_budget: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        Meta(description="Maximum number of tokens of the whole text, headings included."),
    ] = 700
    format: Annotated[Literal["markdown", "json"], Meta(description="Format of the text.")] = "markdown"


class HotContext(ReplyItems[Hit], OperationReply, frozen=True, kw_only=True):
    """Memories marked as hot, newest first."""

    items_field = "results"

    results: tuple[Hit, ...]


class RelevantContext(ReplyItems[Hit], OperationReply, frozen=True, kw_only=True):
    """Context of a task: hot memories first, then the best hits."""

    items_field = "results"

    results: tuple[Hit, ...]
    hot_included: int
    notes: tuple[str, ...]


class HotContextJson(OperationReply, frozen=True, kw_only=True):
    """Memories marked as hot, newest first."""

    results: tuple[HitJson, ...]


class RelevantContextJson(OperationReply, frozen=True, kw_only=True):
    """Context of a task: hot memories first, then the best hits."""

    results: tuple[HitJson, ...]
    hot_included: int
    notes: tuple[str, ...]


class SubsystemInfo(OperationReply, frozen=True, kw_only=True):
    """A subsystem of a project, and the number of its chunks, records and files."""

    key: str
    chunk_count: int
    record_count: int
    file_count: int


class SubsystemsReply(ReplyItems[SubsystemInfo], OperationReply, frozen=True, kw_only=True):
    """Subsystems of a project, the largest first."""

    items_field = "subsystems"

    subsystems: tuple[SubsystemInfo, ...]
    total: int


class SubsystemFilesReply(OperationReply, frozen=True, kw_only=True):
    """Files of a subsystem."""

    subsystem_key: str
    files: tuple[str, ...]
    notes: tuple[str, ...]


class AgentRecommendation(OperationReply, frozen=True, kw_only=True):
    """An agent, its score, and the reasons."""

    agent_name: str
    score: float
    reasons: tuple[str, ...]
    matched_triggers: tuple[str, ...]


class SuggestAgentReply(OperationReply, frozen=True, kw_only=True):
    """Agents for a task, best first."""

    recommendations: tuple[AgentRecommendation, ...]
    considered_agents: int


class QueryCount(OperationReply, frozen=True, kw_only=True):
    """A question, and its number of hits."""

    query: str
    result_count: int


class ContextItemInfo(OperationReply, frozen=True, kw_only=True):
    """An item of the text."""

    section: str
    id: str
    citation_id: str
    kind: str
    trust_tier: str
    date: str
    origin: str
    tainted: bool
    stale: str


class AgentContextReply(OperationReply, frozen=True, kw_only=True):
    """The text for an agent to read before it starts, and its contents."""

    tool: str
    tenant: str
    project: str
    queries: tuple[QueryCount, ...]
    k_per_query: int
    token_budget: int
    tokens: int
    tokens_estimated: bool
    format: str
    result_count: int
    items: tuple[ContextItemInfo, ...]
    left_out: dict[str, int]
    text: str
    notes: tuple[str, ...]
