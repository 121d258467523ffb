"""Operations on what is delivered to agents: `delivery.*` and `guard.*`."""

from __future__ import annotations

from typing import Any

from lorelog.operations.delivery import handlers, schema
from lorelog.operations.delivery.guard_operations import GUARD_OPERATIONS
from lorelog.operations.operation import Operation

DELIVERY_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation("delivery.list", schema.DeliveryListRequest, schema.DeliveryListReply, handlers.list_shown),
    Operation("delivery.unused", schema.UnusedRequest, schema.UnusedReply, handlers.list_unused),
)

OPERATIONS: tuple[Operation[Any, Any], ...] = (*DELIVERY_OPERATIONS, *GUARD_OPERATIONS)
