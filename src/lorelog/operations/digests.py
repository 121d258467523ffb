"""Operations that compile: digests of records (the state of a task, libraries of failures and decisions, a project's brief), and context for agents.

Requests, replies and handlers together: the digest replies are built from each other. Digests are compiled on request
from records alone and have the trust tier `digest`; readers rely on the records that a digest cites.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from lorelog.core.errors import ModelError, NotFound
from lorelog.core.query import Hit, SupportingRecord
from lorelog.core.record import Trust, VerificationHint
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.artifacts import RunInfo, TaskInfo, run_info, task_info
from lorelog.operations.operation import (
    OperationFamily,
    OperationReply,
    RequestContext,
    ShellCommand,
    SparseReply,
    reply_from,
)
from lorelog.operations.records import ID_PREFIX_HINT, TASK_HELP, record_fields
from lorelog.operations.requests import NonEmptyId, OperationRequest, ScopedRequest, Text, about
from lorelog.records.digests import Digest, DigestItem, DigestLine, DigestRole, build_brief, build_library
from lorelog.records.tables import RelatedProject, Task
from lorelog.services.context.collect import AgentContextReply, build_agent_context
from lorelog.services.context.relevance import RelevantContext, find_relevant, hot_hits
from lorelog.services.records.record_scope import compile_resume, digest_scope_for, find_grounding
from lorelog.services.records.wiki import compile_wiki

OPERATIONS = OperationFamily()


_Query = Annotated[
    str,
    about(
        "Purpose of the digest: entries that share most words with it come first; else the newest.", max_length=10000
    ),
]
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
"""A character that Markdown would interpret, escaped."""


class ResumeRequest(OperationRequest, frozen=True):
    """A task to resume."""

    task_id: Annotated[NonEmptyId, about("The task." + ID_PREFIX_HINT)]
    query: _Query = ""
    k: Annotated[int, about("Maximum number of entries in each list.", ge=1, le=100)] = 10


class LibraryRequest(ScopedRequest, frozen=True):
    """A library of records."""

    query: _Query = ""
    k: Annotated[int, about("Number of items.", ge=1, le=100)] = 10


class BriefRequest(OperationRequest, frozen=True):
    """Options of a project's brief."""

    query: _Query = ""
    k: Annotated[int, about("Number of failures, of decisions, and of evidence.", ge=1, le=10)] = 10
    include_related_projects: Annotated[
        bool, about("List other projects whose records name the same entities, datasets or challenges.")
    ] = True


class WikiRequest(ScopedRequest, frozen=True):
    """A page of the wiki."""

    page: Annotated[str, about("Name of the page, such as decisions.md.", min_length=1, max_length=500)] = "index.md"


_ResultLimit = Annotated[int, Meta(ge=1, le=1000)]


class HotContextRequest(ScopedRequest, frozen=True, kw_only=True):
    """How many hot memories to return."""

    k: Annotated[_ResultLimit, about("Maximum number of memories.")] = 20


class RelevantContextRequest(ScopedRequest, frozen=True):
    """A task that is about to begin."""

    task: Annotated[Text, about("Description of the task.", min_length=1)]
    k: Annotated[_ResultLimit, about("Maximum number of hits.")] = 20
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


class WikiPageInfo(OperationReply, frozen=True, kw_only=True):
    """A page of the wiki, by its name and title."""

    page: str
    title: str


class WikiReply(OperationReply, frozen=True, kw_only=True):
    """A page of the wiki in Markdown, and the names of all pages."""

    page: str
    title: str
    text: str
    pages: tuple[WikiPageInfo, ...]


class DigestInfo(OperationReply, frozen=True, kw_only=True):
    """A page compiled from records."""

    artifact_id: str
    artifact_kind: str
    artifact_role: str
    status: str
    scope: str
    title: str
    lines: tuple[DigestLine, ...]
    related_artifact_ids: tuple[str, ...]
    content_hash: str
    tainted: bool


class DigestItemInfo(SparseReply, frozen=True, kw_only=True):
    """An entry of a library: a record and its relevant text. Fields that do not apply are None."""

    artifact_id: str
    artifact_kind: str
    task_id: str
    project: str
    writer: str
    at: str
    origin: str
    text: str
    trust: Trust
    explicit: bool | None = None
    supports_claim: bool | None = None


class ResumeView(OperationReply, frozen=True, kw_only=True):
    """The state of a task."""

    task: TaskInfo
    latest_summary: str
    next_step: str
    blockers: tuple[str, ...]
    what_worked: tuple[str, ...]
    what_failed: tuple[str, ...]
    validation: tuple[str, ...]
    followups: tuple[str, ...]
    open_runs: tuple[RunInfo, ...]
    recent_runs: tuple[RunInfo, ...]
    decisions: tuple[DigestItemInfo, ...]
    source_artifact_ids: tuple[str, ...]


class HotContext(ReplyItems[Hit], OperationReply, frozen=True, kw_only=True):
    """Memories marked as hot, newest first."""

    results: tuple[Hit, ...]


class _DigestReply(OperationReply, frozen=True, kw_only=True):
    artifact: DigestInfo
    trust: Trust
    grounding_refs: tuple[SupportingRecord, ...]
    verification_hint: VerificationHint


class ResumeReply(_DigestReply, frozen=True, kw_only=True):
    """The state of a task, and the records it is compiled from."""

    resume: ResumeView


class LibraryReply(ReplyItems[DigestItemInfo], _DigestReply, frozen=True, kw_only=True):
    """Entries of a library, and the records they are compiled from."""

    results: tuple[DigestItemInfo, ...]


class BriefTask(OperationReply, frozen=True, kw_only=True):
    """A task in one sentence."""

    task_id: str
    status: str
    text: str
    artifact_ids: tuple[str, ...]


class BriefView(OperationReply, frozen=True, kw_only=True):
    """Tasks, failures, decisions and evidence of a project."""

    overview: str
    rules: tuple[str, ...]
    """Rules that stand, each with its reason, or quoted as another person's."""
    standing_decisions: tuple[str, ...]
    """Decisions that stand and are not records."""
    active_tasks: tuple[BriefTask, ...]
    completed_tasks: tuple[BriefTask, ...]
    failures: tuple[DigestItemInfo, ...]
    decisions: tuple[DigestItemInfo, ...]
    evidence: tuple[DigestItemInfo, ...]
    related_projects: tuple[RelatedProject, ...]


class BriefReply(_DigestReply, frozen=True, kw_only=True):
    """A project's brief, and the records it is compiled from."""

    brief: BriefView


@OPERATIONS.declare(
    "task.resume",
    ShellCommand("task resume", ("task_id?",), hidden=("query", "k"), helps={"task_id": TASK_HELP}),
    errors=(NotFound,),
)
def resume(engine: Engine, request: ResumeRequest, call: RequestContext) -> ResumeReply:
    """Show the state of a task before resuming it: summary, next step, what worked, what failed, open runs.

    Each list has every entry once, newest first, from records that are not superseded. Text from a tool or an import is
    quoted.
    """
    content = compile_resume(engine.records(), request.task_id, query=request.query, k=request.k)
    view = ResumeView(
        task=task_info(content.task, goal=content.goal),
        latest_summary=content.latest,
        next_step=content.next_step,
        **content.lists,
        open_runs=tuple(map(run_info, content.open_runs)),
        recent_runs=tuple(map(run_info, content.recent_runs)),
        decisions=tuple(map(item_info, content.decisions)),
        source_artifact_ids=content.digest.records,
    )
    return ResumeReply(resume=view, **_digest_parts(engine, content.digest))


@OPERATIONS.declare("artifact.find_failures")
def find_failures(engine: Engine, request: LibraryRequest, call: RequestContext) -> LibraryReply:
    """List failed attempts and blockers, newest first."""
    return _library(engine, request, DigestRole.FAILURES)


@OPERATIONS.declare("artifact.find_decisions")
def find_decisions(engine: Engine, request: LibraryRequest, call: RequestContext) -> LibraryReply:
    """List decisions in force: first those recorded as decisions, then those that other records imply."""
    return _library(engine, request, DigestRole.DECISIONS)


@OPERATIONS.declare("artifact.find_evidence")
def find_evidence(engine: Engine, request: LibraryRequest, call: RequestContext) -> LibraryReply:
    """List evidence for and against claims, and how things were validated, newest first."""
    return _library(engine, request, DigestRole.EVIDENCE)


@OPERATIONS.declare(
    "context.brief_project",
    ShellCommand(
        "brief",
        options={"include_related_projects": "/--no-related"},
        helps={"include_related_projects": "omit related projects"},
    ),
)
def brief_project(engine: Engine, request: BriefRequest, call: RequestContext) -> BriefReply:
    """Summarize a project for a newcomer on one page: rules that stand, tasks, failures, decisions, evidence."""
    from lorelog.services.standing.rules import read_standing_rules

    scope, standing = engine.records(), read_standing_rules(engine.place)
    content = build_brief(
        scope.records.tables(),
        scope.records.trust,
        digest_scope_for(scope),
        query=request.query,
        limit=request.k,
        related=request.include_related_projects,
    )
    libraries = {name: tuple(map(item_info, getattr(content, name))) for name in ("failures", "decisions", "evidence")}
    view = BriefView(
        overview=content.overview,
        rules=tuple(rule.line for rule in standing.rules[: request.k]),
        standing_decisions=tuple(decision.line for decision in standing.decisions[: request.k]),
        active_tasks=_brief_tasks(content.active),
        completed_tasks=_brief_tasks(content.completed),
        related_projects=content.related,
        **libraries,
    )
    return BriefReply(brief=view, **_digest_parts(engine, content.digest))


@OPERATIONS.declare("artifact.read_wiki", errors=(NotFound,))
def read_wiki(engine: Engine, request: WikiRequest, call: RequestContext) -> WikiReply:
    """Show a page of the wiki in Markdown, compiled now: 'lorelog wiki build' writes the same pages to files.

    Links lead to other pages by their names. Without records the text is empty.
    """
    bodies = {
        name: text.partition("\n")[2]  # without the mark that a file begins with
        for name, text in compile_wiki(engine.records(), all_projects=request.all_projects).pages.items()
    }
    if bodies and request.page not in bodies:
        raise NotFound(f"the wiki has no page {request.page!r}", hint="index.md lists the pages")
    titles = {name: _ESCAPED.sub(r"\1", text.partition("\n")[0].removeprefix("# ")) for name, text in bodies.items()}
    return WikiReply(
        page=request.page,
        title=titles.get(request.page, ""),
        text=bodies.get(request.page, ""),
        pages=tuple(WikiPageInfo(page=name, title=title) for name, title in titles.items()),
    )


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


def _library(engine: Engine, request: LibraryRequest, role: DigestRole) -> LibraryReply:
    scope = engine.records()
    view = digest_scope_for(scope, all_projects=request.all_projects)
    tables, trust = scope.records.tables(), scope.records.trust
    digest, items = build_library(tables, trust, view, role, query=request.query, limit=request.k)
    return LibraryReply(results=tuple(map(item_info, items)), **_digest_parts(engine, digest))


def item_info(item: DigestItem) -> DigestItemInfo:
    return reply_from(item, DigestItemInfo, **record_fields(item.record, DigestItemInfo))


def _digest_parts(engine: Engine, digest: Digest) -> dict[str, Any]:
    trust = digest.trust
    artifact = reply_from(
        digest,
        DigestInfo,
        artifact_id=digest.id,
        artifact_kind="digest",
        artifact_role=str(digest.role),
        status="generated",
        related_artifact_ids=digest.records,
        content_hash=digest.hash,
    )
    return {
        "artifact": artifact,
        "trust": trust,
        "grounding_refs": find_grounding(engine.records().records, digest),
        "verification_hint": trust.verification_hint,
    }


def _brief_tasks(tasks: Iterable[tuple[Task, DigestLine]]) -> tuple[BriefTask, ...]:
    return tuple(
        BriefTask(task_id=task.id, status=task.status, text=line.text, artifact_ids=line.cites) for task, line in tasks
    )
