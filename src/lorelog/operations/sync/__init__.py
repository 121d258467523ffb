"""Operations on exchanges between machines: `sync.*`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound, StoreBusy, StoreDamaged, StoreUnreachable, StoreUnwritable
from lorelog.operations.operation import Operation
from lorelog.operations.sync import handlers

_ABSENT_REMOTE = "it sends memories to a Git remote with the credentials of a person's shell; run it there"
_ABSENT = {"http": _ABSENT_REMOTE, "mcp": _ABSENT_REMOTE}

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "sync.exchange",
        handlers.SyncRequest,
        handlers.SyncReply,
        handlers.run,
        errors=(NotFound, StoreBusy, StoreDamaged, StoreUnreachable, StoreUnwritable),
        writes=True,
        absent=_ABSENT,
    ),
    Operation(
        "sync.status",
        handlers.SyncStatusRequest,
        handlers.SyncStatusReply,
        handlers.status,
        errors=(NotFound, StoreDamaged, StoreUnreachable),
        absent=_ABSENT,
    ),
)
