"""Operations on backups and exports: `backup.*` and `memory.export`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound, StoreBusy, StoreDamaged, StoreUnwritable
from lorelog.operations.backup import handlers, schema
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.services.backup.restore import RestoreReport

_ABSENT_PATHS = "it reads or writes files of the machine it runs on, by their paths"
_ABSENT = {"http": _ABSENT_PATHS, "mcp": _ABSENT_PATHS}

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "backup.create",
        schema.BackupRequest,
        schema.BackupReply,
        handlers.create,
        errors=(StoreUnwritable, StoreBusy),
        absent=_ABSENT,
        commands=(ShellCommand("backup", ("file",)),),
    ),
    Operation(
        "backup.verify",
        schema.BackupFileRequest,
        schema.BackupReply,
        handlers.verify,
        errors=(NotFound, StoreDamaged),
        absent=_ABSENT,
    ),
    Operation(
        "backup.restore",
        schema.RestoreRequest,
        RestoreReport,
        handlers.restore,
        errors=(NotFound, StoreDamaged, StoreUnwritable, StoreBusy),
        writes=True,
        once=True,
        absent=_ABSENT,
    ),
    Operation(
        "memory.export",
        schema.ExportRequest,
        schema.ExportReply,
        handlers.export,
        errors=(StoreUnwritable,),
        absent=_ABSENT,
        commands=(
            ShellCommand(
                "export",
                options={"out": "--output --out"},
                hidden=("format",),
                helps={"out": "file to write, or an existing directory; never overwritten. For okf: a new folder"},
            ),
        ),
    ),
)
