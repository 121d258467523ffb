"""Requests, replies and handlers of `memory.cost`, `memory.growth` and `memory.check_store`.

A handler's docstring is the help text of its operation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from lorelog.core.ports import StoreComparison
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.arguments import parse_past_day
from lorelog.operations.operation import RequestContext
from lorelog.operations.replies import OperationReply, reply_from
from lorelog.operations.requests import OperationRequest
from lorelog.services.llm.receipts import DEFAULT_COST_KEYS, CostReply
from lorelog.services.memories.listing import GrowthDay, measure_growth

CostGroup = Literal["day", "purpose", "project", "model"]


class CostRequest(OperationRequest, frozen=True, kw_only=True):
    """The days to report, and how to group calls."""

    since: Annotated[
        str,
        Meta(min_length=1, max_length=40, description="From this day on: 2026-03-05, today, yesterday, 7d, 2w, 3m."),
    ] = "7d"
    by: Annotated[
        Annotated[Sequence[CostGroup], Meta(max_length=4)],
        Meta(description="Group calls by these; by day, purpose and project if none are given."),
    ] = []


class GrowthRequest(OperationRequest, frozen=True, kw_only=True):
    """The days to report."""

    since: Annotated[
        str,
        Meta(min_length=1, max_length=40, description="From this day on: 2026-03-05, today, yesterday, 7d, 2w, 3m."),
    ] = "1y"
    all_projects: Annotated[bool, Meta(description="Count every project, not only this one and the global one.")] = (
        False
    )


class GrowthReply(ReplyItems[GrowthDay], OperationReply, frozen=True, kw_only=True):
    """Documents, chunks and bytes of Markdown by day, oldest first. Older ones are in the line of the first day."""

    items_field = "days"

    since: str
    days: tuple[GrowthDay, ...]


class StoreRequest(OperationRequest, frozen=True, kw_only=True):
    """Whether to repair differences."""

    repair: Annotated[bool, Meta(description="Repair differences from the catalog; nothing is embedded again.")] = False


class StoreJson(OperationReply, frozen=True, kw_only=True):
    """Differences between the catalog and the search index made from it."""

    ok: bool
    place: str
    here: int
    there: int
    missing: int
    unlike: int
    surplus: int
    waiting: int
    repaired: bool
    damage: str


def report_cost(engine: Engine, request: CostRequest, call: RequestContext) -> CostReply:
    """Show the model calls and their cost in tokens, by day, purpose, project or model.

    Covers all projects of the tenant. Tokens are those reported by the models, or the reserved number where a model
    reports none. Embeddings from remote providers have the purpose `embedding`. The reply also has what is left of
    today's limits.
    """
    from lorelog.services.llm import receipts

    reply = receipts.report_cost(
        receipts.Receipts.of_tenant(engine.place.tenant_folder),
        engine.defaults.spending,
        parse_past_day(request.since),
        request.by or DEFAULT_COST_KEYS,
    )
    return replace(reply, notes=(*reply.notes, *engine.defaults.warnings))


def report_growth(engine: Engine, request: GrowthRequest, call: RequestContext) -> GrowthReply:
    """Show how the index and the journals grew: documents, chunks and bytes of Markdown by the day of the document.

    The day of a journal is in its name; other files count on the day of their text or of their last change.
    """
    since = parse_past_day(request.since)
    listed = engine.memories().list(documents=True, limit=sys.maxsize, all_projects=request.all_projects)
    return GrowthReply(since=since, days=measure_growth(listed.documents, since))


def check_store(engine: Engine, request: StoreRequest, call: RequestContext) -> StoreComparison:
    """Compare the catalog with the search index: the rows in Milvus, or the local index files.

    Reads every row. `repair` adds missing rows and deletes surplus ones.
    """
    return engine.store.compare(repair=request.repair)


def store_json(comparison: StoreComparison, _: object = None) -> StoreJson:
    """Return a comparison with its verdict."""
    return reply_from(comparison, StoreJson, ok=comparison.is_consistent or comparison.repaired)
