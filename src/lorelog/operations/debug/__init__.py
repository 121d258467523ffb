"""Operations on traced calls and errors: `debug.*`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError
from lorelog.operations.debug import handlers, schema
from lorelog.operations.operation import Operation

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation("debug.find_tool_calls", schema.ToolCallsRequest, schema.ToolCallsReply, handlers.find_tool_calls),
    Operation("debug.find_errors", schema.ErrorsRequest, schema.ErrorsReply, handlers.find_errors),
    Operation(
        "debug.why",
        schema.WhyRequest,
        schema.WhyReply,
        handlers.why,
        errors=(ModelError,),
        warms=True,
    ),
)
