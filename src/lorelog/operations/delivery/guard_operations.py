"""Declarations of `guard.*`.

Every surface offers all of them. The handlers limit agents (MCP, HTTP, and shells of agents): their guards only warn,
and they cannot change a guard that a person wrote or approved.
"""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.delivery import guard_handlers as handlers
from lorelog.operations.delivery import guard_schema as schema
from lorelog.operations.operation import Operation

_WRITE_ERRORS = (NotFound, StoreUnwritable, StoreBusy)

GUARD_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation("guard.list", schema.GuardListRequest, schema.GuardListReply, handlers.list_guards),
    Operation("guard.show", schema.GuardIdRequest, schema.GuardDetails, handlers.show_guard, errors=(NotFound,)),
    Operation("guard.propose", schema.GuardProposeRequest, schema.GuardProposalsReply, handlers.propose_guards),
    Operation("guard.test", schema.GuardTestRequest, schema.GuardReplay, handlers.test_guard, errors=(NotFound,)),
    Operation(
        "guard.add",
        schema.GuardAddRequest,
        schema.GuardChangeReply,
        handlers.add_guard,
        errors=_WRITE_ERRORS,
        writes=True,
    ),
    Operation(
        "guard.enable",
        schema.GuardEnableRequest,
        schema.GuardEnableReply,
        handlers.enable_guard,
        errors=_WRITE_ERRORS,
        writes=True,
    ),
    Operation(
        "guard.disable",
        schema.GuardIdRequest,
        schema.GuardChangeReply,
        handlers.disable_guard,
        errors=_WRITE_ERRORS,
        writes=True,
    ),
    Operation(
        "guard.dismiss",
        schema.GuardIdRequest,
        schema.GuardChangeReply,
        handlers.dismiss_guard,
        errors=_WRITE_ERRORS,
        writes=True,
        once=True,
    ),
    Operation(
        "guard.remove",
        schema.GuardIdRequest,
        schema.GuardChangeReply,
        handlers.remove_guard,
        errors=_WRITE_ERRORS,
        writes=True,
    ),
)
