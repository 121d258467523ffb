"""Operations on the store, its growth and the cost of models: `memory.check_store`, `memory.growth`, `memory.cost`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import StoreBusy, StoreUnreachable, StoreUnwritable
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.store import handlers
from lorelog.services.llm.receipts import CostReply

_ABSENT_MAINTENANCE = "it reads every row, and repair is maintenance of the machine it runs on"

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.cost",
        handlers.CostRequest,
        CostReply,
        handlers.report_cost,
        commands=(ShellCommand("status cost", metavars={"since": "DAY"}, summary="show calls and tokens of models"),),
    ),
    Operation("memory.growth", handlers.GrowthRequest, handlers.GrowthReply, handlers.report_growth),
    Operation(
        "memory.check_store",
        handlers.StoreRequest,
        handlers.StoreJson,
        handlers.check_store,
        handlers.store_json,
        errors=(StoreUnreachable, StoreBusy, StoreUnwritable),
        writes=True,
        absent={"http": _ABSENT_MAINTENANCE, "mcp": _ABSENT_MAINTENANCE},
    ),
)
