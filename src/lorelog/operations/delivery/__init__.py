"""Operations on what is delivered to agents, and on what waits for a person's word: `delivery.*` and `guard.*`.

Every surface offers all of them. The handlers of guards limit agents (MCP, HTTP, and shells of agents): their guards
only warn, and they cannot change a guard that a person wrote or approved.
"""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.delivery import guard_handlers, guard_schema, handlers, inbox_handlers, schema
from lorelog.operations.operation import Operation, ShellCommand

_ABSENT_DECIDES = "only a person decides what was proposed: in the page, the shell or Python"
_WRITE_ERRORS = (NotFound, StoreUnwritable, StoreBusy)

_CONDITION_METAVARS = {"tool": "NAME", "paths": "PATTERN", "command": "PATTERN", "content": "PATTERN"}

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "delivery.list",
        schema.DeliveryListRequest,
        schema.DeliveryListReply,
        handlers.list_shown,
        commands=(ShellCommand("deliveries"),),
    ),
    Operation("delivery.unused", schema.UnusedRequest, schema.UnusedReply, handlers.list_unused),
    Operation("delivery.inbox", schema.InboxRequest, schema.InboxReply, inbox_handlers.list_inbox),
    Operation(
        "delivery.approve",
        schema.ApproveRequest,
        schema.InboxDecision,
        inbox_handlers.approve_item,
        errors=_WRITE_ERRORS,
        writes=True,
        once=True,
        absent={"http": _ABSENT_DECIDES, "mcp": _ABSENT_DECIDES},
    ),
    Operation(
        "delivery.refuse",
        schema.RefuseRequest,
        schema.InboxDecision,
        inbox_handlers.refuse_item,
        errors=_WRITE_ERRORS,
        writes=True,
        once=True,
        absent={"http": _ABSENT_DECIDES, "mcp": _ABSENT_DECIDES},
    ),
    Operation(
        "guard.list",
        guard_schema.GuardListRequest,
        guard_schema.GuardListReply,
        guard_handlers.list_guards,
        commands=(ShellCommand("guard list"),),
    ),
    Operation(
        "guard.show",
        guard_schema.GuardIdRequest,
        guard_schema.GuardDetails,
        guard_handlers.show_guard,
        errors=(NotFound,),
        commands=(ShellCommand("guard show", ("id",)),),
    ),
    Operation(
        "guard.propose",
        guard_schema.GuardProposeRequest,
        guard_schema.GuardProposalsReply,
        guard_handlers.propose_guards,
        commands=(ShellCommand("guard propose", defaults={"limit": 20}),),
    ),
    Operation(
        "guard.test",
        guard_schema.GuardTestRequest,
        guard_schema.GuardReplay,
        guard_handlers.test_guard,
        errors=(NotFound,),
        commands=(ShellCommand("guard test", ("id",), metavars=_CONDITION_METAVARS),),
    ),
    Operation(
        "guard.add",
        guard_schema.GuardAddRequest,
        guard_schema.GuardChangeReply,
        guard_handlers.add_guard,
        errors=_WRITE_ERRORS,
        writes=True,
        commands=(ShellCommand("guard add", hidden=("action",), metavars={**_CONDITION_METAVARS}),),
    ),
    Operation(
        "guard.enable",
        guard_schema.GuardEnableRequest,
        guard_schema.GuardEnableReply,
        guard_handlers.enable_guard,
        errors=_WRITE_ERRORS,
        writes=True,
        commands=(ShellCommand("guard enable", ("id",), hidden=("action",)),),
    ),
    Operation(
        "guard.disable",
        guard_schema.GuardIdRequest,
        guard_schema.GuardChangeReply,
        guard_handlers.disable_guard,
        errors=_WRITE_ERRORS,
        writes=True,
        commands=(ShellCommand("guard disable", ("id",)),),
    ),
    Operation(
        "guard.dismiss",
        guard_schema.GuardIdRequest,
        guard_schema.GuardChangeReply,
        guard_handlers.dismiss_guard,
        errors=_WRITE_ERRORS,
        writes=True,
        once=True,
        commands=(ShellCommand("guard dismiss", ("id",)),),
    ),
    Operation(
        "guard.remove",
        guard_schema.GuardIdRequest,
        guard_schema.GuardChangeReply,
        guard_handlers.remove_guard,
        errors=_WRITE_ERRORS,
        writes=True,
        commands=(ShellCommand("guard remove", ("id",)),),
    ),
)
