"""The operation that tells what models have cost: what it may be told, what it does, and its answer as JSON."""

# ruff: noqa: RUF012  (msgspec copies them)

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Literal, TypedDict, cast

from msgspec import Meta

from lorelog.engine import Engine
from lorelog.operations.days import day_of
from lorelog.operations.operation import Call
from lorelog.operations.requests import Request
from lorelog.services.cost import USUAL, CostReply

Key = Literal["day", "purpose", "project", "model"]


class CostRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which days, and laid out by what."""

    since: Annotated[
        str,
        Meta(min_length=1, max_length=40, description="From this day on: 2026-03-05, today, yesterday, 7d, 2w, 3m."),
    ] = "7d"
    by: Annotated[
        Annotated[list[Key], Meta(max_length=4)],
        Meta(description="What calls are told apart by; without any, by day, purpose and project."),
    ] = []


class CostLineShape(TypedDict):
    """Calls that have something in common."""

    day: str
    purpose: str
    project: str
    model: str
    calls: int
    failures: int
    unfinished: int
    tokens_in: int
    tokens_out: int
    seconds: float


class DayLimitShape(TypedDict):
    """One of today's limits."""

    setting: str
    tokens: int
    spent: int
    left: int


class CostShape(TypedDict):
    """What models have cost."""

    since: str
    by: list[str]
    lines: list[CostLineShape]
    total: CostLineShape
    today: list[DayLimitShape]
    notes: list[str]


def cost(engine: Engine, request: CostRequest, call: Call) -> CostReply:
    """Tell what was asked of models and what it cost in tokens, by day, purpose, project or model.

    Of all projects of the tenant. Tokens are as the models told them, or what was reserved where one did not. Vectors of
    providers over the wire are among them, with the purpose `embedding`. It also tells what is left of today's limits.
    """
    from lorelog.services.cost import cost as bill
    from lorelog.services.receipts import Receipts

    receipts = Receipts.of(engine.place.tenant_folder)
    reply = bill(receipts, engine.defaults.spending, day_of(request.since), request.by or USUAL)
    return replace(reply, notes=(*reply.notes, *engine.defaults.warnings))


def cost_shape(reply: CostReply) -> CostShape:
    """The bill."""
    return cast("CostShape", asdict(reply))
