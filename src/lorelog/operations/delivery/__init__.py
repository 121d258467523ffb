"""Operations on what is delivered to agents: `guard.*`."""

from __future__ import annotations

from typing import Any

from lorelog.operations.delivery.guard_operations import GUARD_OPERATIONS
from lorelog.operations.operation import Operation

OPERATIONS: tuple[Operation[Any, Any], ...] = (*GUARD_OPERATIONS,)
