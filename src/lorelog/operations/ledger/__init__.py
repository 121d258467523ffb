"""Operations on the ledger: `ledger.verify`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import StoreIncompatible
from lorelog.operations.ledger import handlers
from lorelog.operations.operation import Operation, ShellCommand

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "ledger.verify",
        handlers.VerifyRequest,
        handlers.VerifyReply,
        handlers.verify,
        errors=(StoreIncompatible,),
        commands=(ShellCommand("ledger check", hidden=("limit",)),),
    ),
)
