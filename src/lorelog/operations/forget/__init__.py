"""Operations that erase text permanently: `memory.forget` and the check of its receipts."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.forget import handlers
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.requests import EmptyRequest

_ABSENT_AGENTS = "an agent must not forget permanently: 'delete' hides a memory, and a person forgets in the shell"
_ABSENT_MCP = "receipts are for the person who forgot something"

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.forget",
        handlers.ForgetRequest,
        handlers.ForgetJson,
        handlers.forget,
        handlers.forget_json,
        errors=(NotFound, StoreBusy, StoreUnwritable),
        writes=True,
        once=True,
        absent={"mcp": _ABSENT_AGENTS},
        commands=(
            ShellCommand(
                "forget",
                ("ids",),
                hidden=("confirm",),
                helps={"match": "entries that contain this text, in any case ('-': from standard input)"},
            ),
        ),
    ),
    Operation(
        "memory.forget_verify",
        handlers.VerifyForgetRequest,
        handlers.ForgetProofJson,
        handlers.verify_forget,
        handlers.proof_json,
        errors=(NotFound,),
        absent={"mcp": _ABSENT_MCP},
    ),
    Operation(
        "memory.forget_receipts",
        EmptyRequest,
        handlers.ForgetReceiptsJson,
        handlers.list_receipts,
        handlers.receipts_json,
        absent={"mcp": _ABSENT_MCP},
    ),
)
