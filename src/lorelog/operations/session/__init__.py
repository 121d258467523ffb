"""Operations on agents' sessions: `session.*`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError, NotFound, StoreBusy, StoreUnwritable
from lorelog.core.session import CaptureReply, SessionStatus
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.requests import EmptyRequest
from lorelog.operations.session import handlers, schema

_ABSENT_FOR_HOOKS = "hooks of agents call it and show its reply themselves; search_memory finds the same memories"
_ABSENT_WHY = "hooks of agents call it and show its reply themselves; debug.why answers in full"
_ABSENT_READS_SESSIONS = "it reads conversations that the caller names; hooks on this machine call it"

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "session.recall",
        schema.RecallRequest,
        schema.RecallJson,
        handlers.recall_memories,
        handlers.recall_json,
        errors=(ModelError, StoreUnwritable, StoreBusy),
        warms=True,
        absent={"mcp": _ABSENT_FOR_HOOKS},
    ),
    Operation(
        "session.why",
        schema.WhyHintRequest,
        schema.WhyHintReply,
        handlers.find_why_hints,
        errors=(StoreUnwritable, StoreBusy),
        absent={"mcp": _ABSENT_WHY},
    ),
    Operation(
        "session.capture",
        schema.CaptureRequest,
        CaptureReply,
        handlers.capture_session,
        errors=(StoreUnwritable, StoreBusy),
        writes=True,
        absent={"http": _ABSENT_READS_SESSIONS, "mcp": _ABSENT_READS_SESSIONS},
    ),
    Operation(
        "session.status",
        EmptyRequest,
        SessionStatus,
        handlers.get_session_status,
        errors=(StoreUnwritable, StoreBusy),
    ),
    Operation("session.timeline", schema.TimelineRequest, schema.TimelineReply, handlers.list_timeline),
    Operation(
        "session.hosts", EmptyRequest, schema.HostsReply, handlers.list_hosts, errors=(StoreUnwritable, StoreBusy)
    ),
    Operation(
        "session.handoff",
        schema.HandoffRequest,
        schema.HandoffReply,
        handlers.hand_over,
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        commands=(ShellCommand("handoff", metavars={"to": "HOST"}),),
    ),
)
