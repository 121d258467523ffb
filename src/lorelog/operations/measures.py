"""Operations that measure: search quality, sizes, growth, latency, the cost of models, and the state of captures and hosts.

`lorelog status` calls most of them, so what only one of them needs is imported by it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec.structs import asdict, replace

from lorelog.core.document import Document
from lorelog.core.errors import NotFound, SourceError, StoreBusy, StoreUnwritable, UsageError
from lorelog.core.memory import EvaluateReply, SessionStatus
from lorelog.core.options import ListOptions
from lorelog.core.ports import group_by
from lorelog.core.processes import resident_bytes
from lorelog.core.query import Filters, Lane, VectorCoverage
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.hosts import HOSTS
from lorelog.operations.operation import (
    OperationFamily,
    OperationLatency,
    OperationReply,
    RequestContext,
    ShellCommand,
    reply_from,
)
from lorelog.operations.requests import (
    Day,
    EmptyRequest,
    FilePath,
    FilteredRequest,
    LaneName,
    OperationRequest,
    ScopedRequest,
    about,
    parse_past_day,
    read_filters,
    resolve_path,
)
from lorelog.services.install.status import HostStatus, host_status
from lorelog.services.llm import receipts
from lorelog.services.llm.receipts import DEFAULT_COST_KEYS, CostReply
from lorelog.services.sessions.capture_db import session_status

OPERATIONS = OperationFamily()


class EvaluateRequest(FilteredRequest, frozen=True, kw_only=True):
    """Judged questions to measure search with."""

    queries: Annotated[FilePath | None, about("Questions: JSON lines with id and text, plain or gzip.")] = None
    qrels: Annotated[FilePath | None, about("Judgements, tab-separated: question, document, gain.")] = None
    feedback: Annotated[bool, about("Use the judgements of memory.feedback instead of files.")] = False
    k: Annotated[int, about("Number of top hits that count.", ge=1, le=1000)] = 10
    lane: Annotated[LaneName | None, about("Only the rankings of this lane.")] = None


class DeliveryDay(OperationReply, frozen=True, kw_only=True):
    """Memories shown to agents on one day."""

    day: str
    deliveries: int
    tokens: int


class DeliveryStats(OperationReply, frozen=True, kw_only=True):
    """Tokens of memories shown to agents in the last 7 and 30 days, and by day, newest first."""

    tokens_7_days: int
    tokens_30_days: int
    days: tuple[DeliveryDay, ...]


class ProjectStats(OperationReply, frozen=True, kw_only=True):
    """Sizes of one project; the empty id is the global one."""

    id: str
    documents: int
    coverage: VectorCoverage


class StatsRequest(ScopedRequest, frozen=True):
    """What to show besides the sizes."""

    growth_since: Annotated[Day | None, about("Also return the growth since this day: 2026-03-05, 30d, 1y.")] = None


class GrowthDay(OperationReply, frozen=True):
    """Documents dated with one day."""

    day: str
    documents: int
    chunks: int
    bytes: int


class StatsReply(OperationReply, frozen=True, kw_only=True):
    """Sizes of the index of all projects, and of this project; tokens of deliveries."""

    project: ProjectStats

    documents: int
    chunks: int
    vectors: int
    other_vectors: int
    coverage: VectorCoverage
    model: str
    projects: dict[str, int]
    bytes_on_disk: int
    bytes_mapped: int
    schema_version: int
    location: str
    deliveries: DeliveryStats
    growth: tuple[GrowthDay, ...] = ()
    """Documents, chunks and bytes of Markdown by day, oldest first. Older ones are in the line of the first day."""


class HostsReply(ReplyItems[HostStatus], OperationReply, frozen=True, kw_only=True):
    """All hosts that lorelog can be installed in."""

    hosts: tuple[HostStatus, ...]


class MetricsReply(OperationReply, frozen=True, kw_only=True):
    """Counters of this process since it started."""

    pid: int
    uptime_s: float
    rss_bytes: int
    operations: tuple[OperationLatency, ...]
    cache: dict[str, int]


@OPERATIONS.declare(
    "memory.stats",
    ShellCommand("status index", hidden=("growth_since", "all_projects"), summary="show the sizes of the index"),
)
def stats(engine: Engine, request: StatsRequest, call: RequestContext) -> StatsReply:
    """Show the size of the index and the tokens of delivered memories: documents, chunks, vectors, bytes, days.

    `project` has the sizes of this project alone, which search and list look into; `growth` those of this project or, with
    `all_projects`, of all; all else is of all projects. The day of a journal is in its name; other files count on the day of
    their text or of their last change.
    """
    from lorelog.services.usage.history import days_ago, sum_days

    sizes, own = engine.store.stats(), engine.place.project.id
    days, week = sum_days(engine.place.tenant_folder / "deliveries", days_ago(30)), days_ago(7)
    deliveries = DeliveryStats(
        tokens_7_days=sum(total.tokens for day, total in days.items() if day >= week),
        tokens_30_days=sum(total.tokens for total in days.values()),
        days=tuple(reply_from(total, DeliveryDay, day=day) for day, total in reversed(days.items())),
    )
    growth: tuple[GrowthDay, ...] = ()
    if since := parse_past_day(request.growth_since):
        listed = engine.memories().list(documents=True, limit=sys.maxsize, all_projects=request.all_projects)
        growth = _measure_growth(listed.documents, since)
    return reply_from(
        sizes,
        StatsReply,
        project=ProjectStats(
            id=own,
            documents=sizes.project_documents.get(own, 0),
            coverage=engine.store.coverage(Filters(projects=(own,))),
        ),
        projects=dict(sizes.projects),
        coverage=engine.store.coverage(Filters()),
        model=engine.model,
        deliveries=deliveries,
        growth=growth,
    )


def _measure_growth(documents: Iterable[Document], since: str) -> tuple[GrowthDay, ...]:
    """Return the files, chunks and bytes by the day of the documents, oldest first; earlier ones count on the day `since`."""
    days = group_by(documents, lambda document: max(document.date[:10], since))
    return tuple(
        GrowthDay(
            day,
            len(days[day]),
            sum(document.chunk_count for document in days[day]),
            sum(document.stamp.size for document in days[day]),
        )
        for day in sorted(days)
    )


@OPERATIONS.declare("session.status", errors=(StoreUnwritable, StoreBusy))
def get_session_status(engine: Engine, request: EmptyRequest, call: RequestContext) -> SessionStatus:
    """Show the last capture of each host, the number of turns captured today, and the events still waiting."""
    return session_status(engine.place)


@OPERATIONS.declare("session.hosts", errors=(StoreUnwritable, StoreBusy))
def list_hosts(engine: Engine, request: EmptyRequest, call: RequestContext) -> HostsReply:
    """Show the agents' hosts on this machine: whether lorelog is installed, what is left to approve, the last capture."""
    from lorelog.services.install.plan import InstallContext, resolve_command

    user_home = Path(call.environment.get("HOME") or Path.home())
    context = InstallContext(user_home, engine.place.home, resolve_command(call.environment), call.environment)
    captures = {captures.host: (captures,) for captures in session_status(engine.place).hosts}
    return HostsReply(hosts=tuple(host_status(host, context, *captures.get(host, ())) for host in HOSTS))


@OPERATIONS.declare("memory.metrics")
def metrics(engine: Engine, request: EmptyRequest, call: RequestContext) -> MetricsReply:
    """Show the counters of this process: calls, failures, durations, caches.

    A command that runs without the daemon has counted nothing yet.
    """
    return MetricsReply(
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - call.meter.started, 3),
        rss_bytes=resident_bytes(),
        operations=call.meter.latencies(),
        cache=asdict(engine.answers.counters()),
    )


@OPERATIONS.declare(
    "memory.evaluate",
    ShellCommand("eval", options={"k": "-k --k -n --limit --top-k"}, hidden=("projects", "lane")),
    errors=(NotFound, SourceError),
    warms=True,
    needs="maintain",
)
def evaluate(engine: Engine, request: EvaluateRequest, call: RequestContext) -> EvaluateReply:
    """Measure how well search answers judged questions: by keywords, by vectors, and by both."""
    from lorelog.services.evaluation import search_quality
    from lorelog.services.memory_state.lifecycle_index import tenant_state

    if request.feedback and (request.queries or request.qrels):
        raise UsageError(
            "feedback cannot be combined with files of judgements", hint="use either files or feedback, not both"
        )
    if request.feedback:
        judged = search_quality.questions_from_feedback(tenant_state(engine.place.tenant_folder).feedback)
    elif request.queries and request.qrels:
        judged = search_quality.read_judged_questions(
            Path(resolve_path(request.queries, call.directory)), Path(resolve_path(request.qrels, call.directory))
        )
    else:
        raise UsageError("judged questions are missing", hint="give queries and qrels, or feedback")
    options = search_quality.EvaluationOptions(
        judged=judged,
        options=engine.with_scope(
            replace(engine.defaults.search, filters=read_filters(request, call.directory)),
            all_projects=request.all_projects,
        ),
        k=request.k,
        lane=Lane(request.lane) if request.lane else None,
        has_model=engine.embedder is not None,
        is_hidden=partial(engine.lifecycle_index().hides, options=ListOptions()),
    )
    search = partial(engine.without_feedback().search, all_projects=True)
    return search_quality.evaluate(search, engine.store, options, call.progress)


CostGroup = Literal["day", "purpose", "project", "model"]
if TYPE_CHECKING:
    CostGroups = CostGroup | Iterable[CostGroup]
else:
    CostGroups = Sequence[CostGroup]


_Since = Annotated[
    Day, about("From this day on: 2026-03-05, today, yesterday, 7d, 2w, 3m.", min_length=1, max_length=40)
]


class CostRequest(OperationRequest, frozen=True):
    """The days to report, and how to group calls."""

    since: _Since = "7d"
    by: Annotated[
        CostGroups, about("Group calls by these; by day, purpose and project if none are given.", max_length=4)
    ] = []


@OPERATIONS.declare(
    "memory.cost", ShellCommand("status cost", metavars={"since": "DAY"}, summary="show calls and tokens of models")
)
def report_cost(engine: Engine, request: CostRequest, call: RequestContext) -> CostReply:
    """Show the model calls and their cost in tokens, by day, purpose, project or model.

    Covers all projects of the tenant. Tokens are those reported by the models, or the reserved number where a model
    reports none. Embeddings from remote providers have the purpose `embedding`. The reply also has what is left of
    today's limits.
    """
    return receipts.report_cost(
        receipts.Receipts.of_tenant(engine.place.tenant_folder),
        engine.defaults.spending,
        parse_past_day(request.since),
        request.by or DEFAULT_COST_KEYS,
    )
