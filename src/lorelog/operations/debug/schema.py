"""Requests and replies of `debug.*`. docs/json.md explains the reply fields."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.serializable import ReplyItems
from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest, Text

_Name = Annotated[str, Meta(max_length=400)]
_Time = Annotated[str, Meta(max_length=40)]
_SINCE_HELP = "From this day (2026-03-05, today, 7d, 2w) or time (2026-03-05T14:30:00Z) on."
_UNTIL_HELP = "Up to and including this day, or up to this time."


class TraceFilterRequest(OperationRequest, frozen=True, kw_only=True):
    """Time, session and source of traces."""

    time_from: Annotated[_Time, Meta(description=_SINCE_HELP)] = ""
    time_to: Annotated[_Time, Meta(description=_UNTIL_HELP)] = ""
    session_id: Annotated[_Name, Meta(description="Only traces of this session.")] = ""
    source: Annotated[
        Literal["", "operation", "turn", "log"],
        Meta(description="Only lorelog's own operations, only agents' turns, or only logs."),
    ] = ""
    all_projects: Annotated[bool, Meta(description="Include all projects of the tenant.")] = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of entries, newest first.")] = 50


class ToolCallsRequest(TraceFilterRequest, frozen=True):
    """Filters of traced calls."""

    tool_name: Annotated[
        _Name, Meta(description="Only calls of this tool or operation; `memory` means every operation `memory.…`.")
    ] = ""
    errors_only: Annotated[bool, Meta(description="Only failed calls.")] = False


class ErrorsRequest(TraceFilterRequest, frozen=True):
    """Filters of traced errors."""

    error_signature: Annotated[
        _Name, Meta(description="Only errors with this signature or prefix of one, or of this type.")
    ] = ""
    function_name: Annotated[_Name, Meta(description="Only errors with a frame whose function name contains this.")] = (
        ""
    )
    file_path: Annotated[_Name, Meta(description="Only errors with a frame whose file path contains this.")] = ""
    text: Annotated[_Name, Meta(description="Only errors whose message contains this.")] = ""
    include_frames: Annotated[bool, Meta(description="Include the stack frames.")] = True


class WhyRequest(OperationRequest, frozen=True):
    """An error to look up."""

    text: Annotated[Text, Meta(min_length=1, description="The error as printed: one line, or a whole stack trace.")]
    all_projects: Annotated[bool, Meta(description="Search every project.")] = False


class TracedCallInfo(OperationReply, frozen=True, kw_only=True):
    """A traced call."""

    trace_id: str
    tool_name: str
    timestamp_ms: int
    timestamp_formatted: str
    input: str
    output: str
    error: str
    failed: bool
    duration_ms: float | None
    session_id: str
    turn: str
    host: str
    branch: str
    project: str
    memory: str
    files: tuple[str, ...]
    context_tags: tuple[str, ...]


class ToolCallsReply(ReplyItems[TracedCallInfo], OperationReply, frozen=True, kw_only=True):
    """Calls, newest first."""

    items_field = "tool_calls"

    tool_calls: tuple[TracedCallInfo, ...]
    total_count: int


class FrameInfo(OperationReply, frozen=True, kw_only=True):
    """A stack frame; the innermost has the index 0."""

    index: int
    function_name: str
    file_path: str
    line_number: int
    col_number: int


class CauseInfo(OperationReply, frozen=True, kw_only=True):
    """The cause of an error."""

    error_type: str
    error_message: str
    frames: tuple[FrameInfo, ...]


class OccurrenceInfo(OperationReply, frozen=True, kw_only=True):
    """One occurrence of an error."""

    trace_id: str
    error_signature: str
    error_type: str
    error_message: str
    language: str
    timestamp_ms: int
    timestamp_formatted: str
    source: str
    session_id: str
    turn: str
    host: str
    branch: str
    project: str
    memory: str
    command: str


class TracedErrorInfo(OccurrenceInfo, frozen=True, kw_only=True, omit_defaults=True):
    """An error, with its stack frames if requested."""

    frames: tuple[FrameInfo, ...] | None = None
    causes: tuple[CauseInfo, ...] | None = None
    text: str | None = None


class ErrorGroupInfo(OperationReply, frozen=True, kw_only=True):
    """Errors with the same signature."""

    error_signature: str
    error_type: str
    error_message: str
    language: str
    times: int
    first_ms: int
    last_ms: int
    first_formatted: str
    last_formatted: str
    sessions: int


class ErrorsReply(ReplyItems[TracedErrorInfo], OperationReply, frozen=True, kw_only=True):
    """Errors, newest first, and grouped by signature."""

    items_field = "errors"

    errors: tuple[TracedErrorInfo, ...]
    groups: tuple[ErrorGroupInfo, ...]
    total_count: int


class KnownErrorInfo(ErrorGroupInfo, frozen=True, kw_only=True):
    """An earlier error that matches: `exact`, `same message` or `similar`."""

    match: str


class NearbyMemory(OperationReply, frozen=True, kw_only=True):
    """A memory from a turn near an error."""

    id: str
    memory: str
    text: str
    source: str
    start_line: int
    end_line: int
    date: str
    session_id: str
    host: str
    branch: str
    timestamp_ms: int
    timestamp_formatted: str
    is_after: bool


class FixInfo(OperationReply, frozen=True, kw_only=True):
    """A later run in which the same command passed."""

    command: str
    failed_ms: int
    passed_ms: int
    failed_at: str
    passed_at: str
    error_signature: str
    files: tuple[str, ...]
    session_id: str
    turn: str
    host: str
    branch: str
    memory: str
    text: str


class ErrorMention(OperationReply, frozen=True, kw_only=True):
    """A memory or a record that mentions an error."""

    id: str
    type: str
    date: str
    heading: str
    snippet: str
    source: str
    start_line: int
    end_line: int
    relevance: float
    tier: str
    record: str
    task: str


class QueriedError(OperationReply, frozen=True, kw_only=True):
    """The error to look up."""

    error_signature: str
    error_type: str
    error_message: str
    language: str
    frames: tuple[FrameInfo, ...]


class WhyReply(OperationReply, frozen=True, kw_only=True):
    """Earlier occurrences of an error, and related fixes, decisions, tasks and memories."""

    asked: QueriedError
    seen_before: bool
    seen: tuple[KnownErrorInfo, ...]
    occurrences: tuple[OccurrenceInfo, ...]
    fixes: tuple[FixInfo, ...]
    turns: tuple[NearbyMemory, ...]
    decisions: tuple[ErrorMention, ...]
    tasks: tuple[ErrorMention, ...]
    memories: tuple[ErrorMention, ...]
    notes: tuple[str, ...]
