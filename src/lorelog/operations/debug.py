"""Operations on traced calls and errors: `debug.*`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from lorelog.core.errors import ModelError, UsageError
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import ScopedRequest, Text, about, parse_past_day

if TYPE_CHECKING:
    from lorelog.core.document import StoredChunk
    from lorelog.core.query import Hit, SearchReply
    from lorelog.core.session import StackFrame
    from lorelog.services.traces.error_history import ErrorFix, ErrorHistory, RelatedTurn
    from lorelog.services.traces.tables import ErrorGroup, TracedCall, TracedError, TraceFilter

OPERATIONS = OperationFamily()
_TRACE_OPTIONS = {"session_id": "--session", "source": "--from", "time_from": "--since", "time_to": "--until"}
_TRACE_METAVARS = {"session_id": "ID", "time_from": "WHEN", "time_to": "WHEN"}
_Name = Annotated[str, Meta(max_length=400)]
_Time = Annotated[str, Meta(max_length=40)]
_SINCE_HELP = "From this day (2026-03-05, today, 7d, 2w) or time (2026-03-05T14:30:00Z) on."
_UNTIL_HELP = "Up to and including this day, or up to this time."


class TraceFilterRequest(ScopedRequest, frozen=True, kw_only=True):
    """Time, session and source of traces."""

    time_from: Annotated[_Time, about(_SINCE_HELP)] = ""
    time_to: Annotated[_Time, about(_UNTIL_HELP)] = ""
    session_id: Annotated[_Name, about("Only traces of this session.")] = ""
    source: Annotated[
        Literal["", "operation", "turn", "log"],
        about("Only lorelog's own operations, only agents' turns, or only logs."),
    ] = ""
    limit: Annotated[int, about("Maximum number of entries, newest first.", ge=1, le=1000)] = 50


class ToolCallsRequest(TraceFilterRequest, frozen=True):
    """Filters of traced calls."""

    tool_name: Annotated[
        _Name, about("Only calls of this tool or operation; `memory` means every operation `memory.…`.")
    ] = ""
    errors_only: Annotated[bool, about("Only failed calls.")] = False


class ErrorsRequest(TraceFilterRequest, frozen=True):
    """Filters of traced errors."""

    error_signature: Annotated[_Name, about("Only errors with this signature or prefix of one, or of this type.")] = ""
    function_name: Annotated[_Name, about("Only errors with a frame whose function name contains this.")] = ""
    file_path: Annotated[_Name, about("Only errors with a frame whose file path contains this.")] = ""
    text: Annotated[_Name, about("Only errors whose message contains this.")] = ""
    include_frames: Annotated[bool, about("Include the stack frames.")] = True


class WhyRequest(ScopedRequest, frozen=True):
    """An error to look up."""

    text: Annotated[Text, about("The error as printed: one line, or a whole stack trace.", min_length=1)]


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


_MAX_TEXT = 1_200
"""Characters of a memory's text."""


def call_info(call: TracedCall) -> TracedCallInfo:
    """Return a traced call."""
    return reply_from(
        call,
        TracedCallInfo,
        trace_id=call.id,
        tool_name=call.tool,
        timestamp_ms=call.at,
        timestamp_formatted=_format_time(call.at),
        session_id=call.session,
        context_tags=tuple(tag for tag in (call.source, call.host) if tag),
    )


def error_info(error: TracedError, *, frames: bool) -> TracedErrorInfo:
    """Return a traced error, with its stack frames if requested."""
    stack: dict[str, Any] = {"frames": None, "causes": None, "text": None}
    if frames:
        causes = tuple(
            CauseInfo(error_type=cause.type, error_message=cause.message, frames=_frames(cause.frames))
            for cause in error.trace.causes
        )
        stack = {"frames": _frames(error.trace.frames), "causes": causes, "text": error.text}
    return reply_from(_occurrence_info(error), TracedErrorInfo, **stack)


def group_info(group: ErrorGroup) -> ErrorGroupInfo:
    """Return errors with the same signature."""
    return reply_from(
        group,
        ErrorGroupInfo,
        error_signature=group.signature,
        error_type=group.type,
        error_message=group.message,
        first_ms=group.first_at,
        last_ms=group.last_at,
        first_formatted=_format_time(group.first_at),
        last_formatted=_format_time(group.last_at),
    )


def why_reply(history: ErrorHistory) -> WhyReply:
    """Return the history of an error."""
    from lorelog.services.traces.error_history import MATCH_SIMILAR

    trace = history.trace
    return reply_from(
        history,
        WhyReply,
        asked=QueriedError(
            error_signature=history.signature,
            error_type=trace.type,
            error_message=trace.message,
            language=trace.language,
            frames=_frames(trace.frames),
        ),
        seen_before=any(seen.match != MATCH_SIMILAR for seen in history.seen),
        seen=tuple(reply_from(group_info(seen.group), KnownErrorInfo, match=seen.match) for seen in history.seen),
        occurrences=tuple(map(_occurrence_info, history.occurrences)),
        fixes=tuple(map(_fix_info, history.fixes)),
        turns=tuple(map(_nearby_memory, history.turns)),
        decisions=tuple(map(_mention, history.decisions)),
        tasks=tuple(map(_mention, history.tasks)),
        memories=tuple(map(_mention, history.memories)),
    )


def _occurrence_info(error: TracedError) -> OccurrenceInfo:
    trace = error.trace
    return reply_from(
        error,
        OccurrenceInfo,
        trace_id=error.id,
        error_signature=error.signature,
        error_type=trace.type,
        error_message=trace.message,
        language=trace.language,
        timestamp_ms=error.at,
        timestamp_formatted=_format_time(error.at),
        session_id=error.session,
    )


def _fix_info(fix: ErrorFix) -> FixInfo:
    return reply_from(
        fix.passed,
        FixInfo,
        command=fix.failed.command,
        failed_ms=fix.failed.at,
        passed_ms=fix.passed.at,
        failed_at=_format_time(fix.failed.at),
        passed_at=_format_time(fix.passed.at),
        error_signature=fix.failed.signature,
        files=tuple(fix.files),
        session_id=fix.passed.session,
        text="" if fix.memory is None else _memory_text(fix.memory),
    )


def _nearby_memory(turn: RelatedTurn) -> NearbyMemory:
    stored, chunk = turn.memory, turn.memory.chunk
    return reply_from(
        chunk,
        NearbyMemory,
        id=stored.id,
        memory=chunk.anchor.memory if chunk.anchor else "",
        text=_memory_text(stored),
        session_id=turn.session,
        host=turn.host,
        branch=turn.branch,
        timestamp_ms=turn.at,
        timestamp_formatted=_format_time(turn.at),
        is_after=turn.is_after,
    )


def _mention(hit: Hit) -> ErrorMention:
    return reply_from(
        hit,
        ErrorMention,
        relevance=round(hit.relevance, 4),
        tier=hit.trust.tier.value,
        record=hit.grounding[0].record if hit.grounding else "",
        task=hit.grounding[0].task if hit.grounding else "",
    )


def _frames(frames: Sequence[StackFrame]) -> tuple[FrameInfo, ...]:
    return tuple(
        FrameInfo(
            index=index,
            function_name=frame.function,
            file_path=frame.file,
            line_number=frame.line,
            col_number=frame.column,
        )
        for index, frame in enumerate(frames)
    )


def _memory_text(stored: StoredChunk) -> str:
    """Return the text of a memory without its heading, which only has the time."""
    text = stored.chunk.text.strip()
    return (text.partition("\n")[2].strip() if text.startswith("#") else text)[:_MAX_TEXT]


def _format_time(milliseconds: int) -> str:
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time.isoformat("T", "milliseconds").replace("+00:00", "Z")


_END_OF_DAY = time(23, 59, 59, 999_000)


@OPERATIONS.declare(
    "debug.find_tool_calls",
    ShellCommand(
        "debug calls",
        options={"errors_only": "--failed", **_TRACE_OPTIONS},
        metavars={**_TRACE_METAVARS},
        defaults={"limit": 20},
    ),
)
def find_tool_calls(engine: Engine, request: ToolCallsRequest, call: RequestContext) -> ToolCallsReply:
    """List called operations and tools, newest first: time, duration, session and failures.

    For lorelog's own operations only the length of texts is stored. Calls of agents' tools come from captured turns.
    """
    filters = replace(
        _trace_filter(engine, request), tool=_replace_surrogates(request.tool_name), errors_only=request.errors_only
    )
    calls, total = engine.traces().tables().calls(filters)
    return ToolCallsReply(tool_calls=tuple(map(call_info, calls)), total_count=total)


@OPERATIONS.declare(
    "debug.find_errors",
    ShellCommand(
        "debug errors",
        ("error_signature",),
        {"file_path": "--file", **_TRACE_OPTIONS},
        hidden=("include_frames",),
        metavars={"error_signature": "SIGNATURE", **_TRACE_METAVARS},
        defaults={"limit": 20},
    ),
)
def find_errors(engine: Engine, request: ErrorsRequest, call: RequestContext) -> ErrorsReply:
    """List errors from agents' turns, logs and lorelog itself, newest first and grouped by signature.

    Occurrences of one error share a signature; line numbers, addresses and paths do not affect it.
    """
    filters = replace(
        _trace_filter(engine, request),
        signature=_replace_surrogates(request.error_signature),
        function=_replace_surrogates(request.function_name),
        file=_replace_surrogates(request.file_path),
        words=_replace_surrogates(request.text),
    )
    tables = engine.traces().tables()
    errors, total = tables.errors(filters)
    return ErrorsReply(
        errors=tuple(error_info(error, frames=request.include_frames) for error in errors),
        groups=tuple(map(group_info, tables.groups(filters))),
        total_count=total,
    )


@OPERATIONS.declare(
    "debug.why",
    ShellCommand("why", ("text...",), helps={"text": "the error as printed; '-' reads standard input"}),
    errors=(ModelError,),
    warms=True,
)
def why(engine: Engine, request: WhyRequest, call: RequestContext) -> WhyReply:
    """Show whether an error occurred before, and how it was fixed.

    The reply has earlier occurrences, the turns around them, the changes before the same command passed again, and the
    decisions, finished tasks and memories that mention it.
    """
    from lorelog.ingest.redaction.redact import redact
    from lorelog.services.traces.error_history import ErrorHistorySources, explain_error

    def search(query: str, k: int) -> SearchReply:
        options = replace(engine.defaults.search, k=k, token_budget=0, min_relevance=0.0)
        return engine.search(query, options, all_projects=request.all_projects)

    def get(memory: str) -> StoredChunk | None:
        return engine.memories().get(memory).memory

    projects = engine.log_projects(all_projects=request.all_projects)
    sources = ErrorHistorySources(engine.traces().tables(), search, get, projects)
    history = explain_error(
        _replace_surrogates(request.text), sources, lambda text: redact(text, engine.defaults.capture.patterns).text
    )
    return why_reply(history)


def _trace_filter(engine: Engine, request: TraceFilterRequest) -> TraceFilter:
    from lorelog.services.traces.tables import TraceFilter

    return TraceFilter(
        projects=engine.log_projects(all_projects=request.all_projects),
        since=_parse_timestamp(request.time_from),
        until=_parse_timestamp(request.time_to, _END_OF_DAY),
        source=request.source,
        session=_replace_surrogates(request.session_id),
        limit=request.limit,
    )


def _replace_surrogates(text: str) -> str:
    """Return text that SQLite accepts: JSON may contain half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _parse_timestamp(text: str, time_of_day: time = time.min) -> int:
    """Return milliseconds since 1970 for a time, or for a local day at `time_of_day`; 0 for an empty text."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text) if "T" in text or ":" in text else None
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint="write 2026-03-05T14:30:00Z, or a day") from None
    if moment is None:
        moment = datetime.combine(datetime.fromisoformat(parse_past_day(text)), time_of_day)
    return int(moment.astimezone(UTC).timestamp() * 1000)
