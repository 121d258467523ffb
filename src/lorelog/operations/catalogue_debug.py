"""The operations debug.*: what was called, and what went wrong."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError, NotFound, SourceError, StoreBusy, StoreUnwritable
from lorelog.operations import debug, debug_replies, debug_requests, debug_shapes
from lorelog.operations.operation import Operation

DEBUG: tuple[Operation[Any, Any], ...] = (
    Operation(
        "debug.find_tool_calls",
        debug_requests.CallsRequest,
        debug_replies.ToolCallsShape,
        debug.find_tool_calls,
        debug_shapes.calls_shape,
    ),
    Operation(
        "debug.find_errors",
        debug_requests.ErrorsRequest,
        debug_replies.ErrorsShape,
        debug.find_errors,
        debug_shapes.errors_shape,
    ),
    Operation(
        "debug.ingest",
        debug_requests.IngestRequest,
        debug_replies.IngestShape,
        debug.ingest,
        debug_shapes.ingest_shape,
        errors=(NotFound, SourceError, StoreUnwritable, StoreBusy),
    ),
    Operation(
        "debug.why",
        debug_requests.WhyRequest,
        debug_replies.WhyShape,
        debug.why,
        debug_shapes.why_shape,
        errors=(ModelError,),
        warms=True,
    ),
)
