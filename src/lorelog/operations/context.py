"""Operations that collect context for agents: `context.*`, except `context.brief_project` (see `digests`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.errors import ModelError
from lorelog.core.query import Hit
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand
from lorelog.operations.requests import ScopedRequest, Text, about
from lorelog.services.context.collect import AgentContextReply, build_agent_context
from lorelog.services.context.relevance import RelevantContext, find_relevant, hot_hits

OPERATIONS = OperationFamily()
ResultLimit = Annotated[int, Meta(ge=1, le=1000)]


class HotContextRequest(ScopedRequest, frozen=True, kw_only=True):
    """How many hot memories to return."""

    k: Annotated[ResultLimit, about("Maximum number of memories.")] = 20


class RelevantContextRequest(ScopedRequest, frozen=True):
    """A task that is about to begin."""

    task: Annotated[Text, about("Description of the task.", min_length=1)]
    k: Annotated[ResultLimit, about("Maximum number of hits.")] = 20
    include_hot: Annotated[bool, about("Put up to five hot memories first.")] = True


class AgentContextRequest(ScopedRequest, frozen=True):
    """The questions of an agent, and its token budget."""

    queries: Annotated[
        Sequence[Annotated[str, Meta(min_length=1, max_length=10000)]],
        about("Questions about the work; the newest memories if none are given.", max_length=50),
    ] = []
    k: Annotated[int, about("Number of memories per question, or of newest ones without questions.", ge=1, le=100)] = 2
    token_budget: Annotated[
        int, about("Maximum number of tokens of the whole text, headings included.", ge=1, le=1000000)
    ] = 700
    format: Annotated[Literal["markdown", "json"], about("Format of the text.")] = "markdown"


class HotContext(ReplyItems[Hit], OperationReply, frozen=True, kw_only=True):
    """Memories marked as hot, newest first."""

    results: tuple[Hit, ...]


@OPERATIONS.declare("context.get_hot_context")
def get_hot_context(engine: Engine, request: HotContextRequest, call: RequestContext) -> HotContext:
    """Return the memories that are marked as hot, newest first.

    A memory is hot if it has the tag `ctx:tier:hot`.
    """
    return HotContext(results=hot_hits(engine.context(all_projects=request.all_projects), request.k))


@OPERATIONS.declare("context.find_relevant_context", errors=(ModelError,), warms=True)
def find_relevant_context(engine: Engine, request: RelevantContextRequest, call: RequestContext) -> RelevantContext:
    """Find context for a task: hot memories, then documents, research, decisions, plans, summaries and records."""
    scope = engine.context(all_projects=request.all_projects)
    return find_relevant(scope, request.task, request.k, include_hot=request.include_hot)


@OPERATIONS.declare(
    "context.agent_context",
    ShellCommand("agent-context", options={"k": "-k --k -n --limit --top-k"}),
    errors=(ModelError,),
    warms=True,
)
def agent_context(engine: Engine, request: AgentContextRequest, call: RequestContext) -> AgentContextReply:
    """Compose a text for an agent to read before it starts, within a token budget.

    It has memories that answer the questions, decisions in force, failures to avoid, open tasks and hot memories, each
    with a citation id and its trust tier. The text never exceeds the budget.
    """
    scope = engine.context(all_projects=request.all_projects)
    return build_agent_context(scope, request.queries, request.k, request.token_budget, request.format)
