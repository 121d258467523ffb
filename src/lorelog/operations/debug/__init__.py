"""Operations on traced calls and errors: `debug.*`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError
from lorelog.operations.debug import handlers, schema
from lorelog.operations.operation import Operation, ShellCommand

_TRACE_OPTIONS = {"session_id": "--session", "source": "--from", "time_from": "--since", "time_to": "--until"}
_TRACE_METAVARS = {"session_id": "ID", "time_from": "WHEN", "time_to": "WHEN"}

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "debug.find_tool_calls",
        schema.ToolCallsRequest,
        schema.ToolCallsReply,
        handlers.find_tool_calls,
        commands=(
            ShellCommand(
                "debug calls",
                options={"errors_only": "--failed", **_TRACE_OPTIONS},
                metavars={**_TRACE_METAVARS},
                defaults={"limit": 20},
            ),
        ),
    ),
    Operation(
        "debug.find_errors",
        schema.ErrorsRequest,
        schema.ErrorsReply,
        handlers.find_errors,
        commands=(
            ShellCommand(
                "debug errors",
                ("error_signature",),
                {"file_path": "--file", **_TRACE_OPTIONS},
                hidden=("include_frames",),
                metavars={"error_signature": "SIGNATURE", **_TRACE_METAVARS},
                defaults={"limit": 20},
            ),
        ),
    ),
    Operation(
        "debug.why",
        schema.WhyRequest,
        schema.WhyReply,
        handlers.why,
        errors=(ModelError,),
        warms=True,
        commands=(ShellCommand("why", ("text...",), helps={"text": "the error as printed; '-' reads standard input"}),),
    ),
)
