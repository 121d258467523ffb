"""Operations on traced calls and errors: `debug.*`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from lorelog.core.document import StoredChunk
from lorelog.core.errors import ModelError, UsageError
from lorelog.core.memory import NewMemory
from lorelog.core.query import Hit
from lorelog.core.serializable import ReplyItems
from lorelog.core.session import StackFrame, StackTrace, turn_memory_id
from lorelog.engine import Engine
from lorelog.light.guard_check import AGENT
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import ScopedRequest, Text, about, parse_past_day
from lorelog.services.guards.guard_log import MAX_MESSAGE_CHARS, GuardDraft, GuardLog, guard_id
from lorelog.services.traces.error_history import MATCH_SIMILAR, ErrorFix, RelatedTurn, explain_error
from lorelog.services.traces.friction import REREAD, SAID, FrictionReply, Wall, find_walls, project_file
from lorelog.services.traces.how import MAX_ACTIONS, HowReply, PurposeMatcher, find_commands
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
        Literal["", "operation", "turn"], about("Only lorelog's own operations, or only agents' turns.")
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


class HowRequest(ScopedRequest, frozen=True):
    """What is to be done."""

    purpose: Annotated[str, about("What is to be done, in your words: run the tests.", min_length=1, max_length=1000)]
    limit: Annotated[int, about("Maximum number of commands.", ge=1, le=50)] = 3


class FrictionRequest(ScopedRequest, frozen=True):
    """How many walls to look for, and whether to propose their remedies."""

    limit: Annotated[int, about("Maximum number of walls of each kind.", ge=1, le=100)] = 5
    fix: Annotated[
        bool, about("Put a guard or a rule for each wall of this project into the inbox, to be approved.")
    ] = False


class _TraceReply(OperationReply, frozen=True, kw_only=True):
    trace_id: str
    timestamp_ms: int
    timestamp_formatted: str
    session_id: str
    turn: str
    host: str
    branch: str
    project: str
    memory: str


class TracedCallInfo(_TraceReply, frozen=True, kw_only=True):
    """A traced call."""

    tool_name: str
    input: str
    output: str
    error: str
    failed: bool
    duration_ms: float | None
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


class OccurrenceInfo(_TraceReply, frozen=True, kw_only=True):
    """One occurrence of an error."""

    error_signature: str
    error_type: str
    error_message: str
    language: str
    source: str
    command: str


class TracedErrorInfo(OccurrenceInfo, frozen=True, kw_only=True, omit_defaults=True):
    """An error, with its stack frames if requested."""

    frames: tuple[FrameInfo, ...] | None = None
    causes: tuple[CauseInfo, ...] | None = None
    text: str | None = None


class _ErrorReply(OperationReply, frozen=True, kw_only=True):
    error_signature: str
    error_type: str
    error_message: str
    language: str


class QueriedError(_ErrorReply, frozen=True, kw_only=True):
    """The error to look up."""

    frames: tuple[FrameInfo, ...]


class ErrorGroupInfo(_ErrorReply, frozen=True, kw_only=True):
    """Errors with the same signature."""

    times: int
    first_ms: int
    last_ms: int
    first_formatted: str
    last_formatted: str
    sessions: int


class KnownErrorInfo(ErrorGroupInfo, frozen=True, kw_only=True):
    """An earlier error that matches: `exact`, `same message` or `similar`."""

    match: str


class ErrorsReply(ReplyItems[TracedErrorInfo], OperationReply, frozen=True, kw_only=True):
    """Errors, newest first, and grouped by signature."""

    errors: tuple[TracedErrorInfo, ...]
    groups: tuple[ErrorGroupInfo, ...]
    total_count: int


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


GroupT = TypeVar("GroupT", bound=ErrorGroupInfo)
_MAX_TEXT = 1_200
"""Characters of a memory's text."""


def _call_info(call: TracedCall) -> TracedCallInfo:
    tags = tuple(tag for tag in (call.source, call.host) if tag)
    return reply_from(call, TracedCallInfo, **_trace_fields(call), tool_name=call.tool, context_tags=tags)


def _error_info(error: TracedError, *, frames: bool) -> TracedErrorInfo:
    stack: dict[str, Any] = {"frames": None, "causes": None, "text": None}
    if frames:
        causes = tuple(
            CauseInfo(error_type=cause.type, error_message=cause.message, frames=_frames(cause.frames))
            for cause in error.trace.causes
        )
        stack = {"frames": _frames(error.trace.frames), "causes": causes, "text": error.text}
    return reply_from(_occurrence_info(error), TracedErrorInfo, **stack)


def _group_info(group: ErrorGroup, kind: type[GroupT], **changed: str) -> GroupT:
    return reply_from(
        group,
        kind,
        **_error_fields(group.signature, group),
        first_ms=group.first_at,
        last_ms=group.last_at,
        first_formatted=_format_time(group.first_at),
        last_formatted=_format_time(group.last_at),
        **changed,
    )


def _occurrence_info(error: TracedError) -> OccurrenceInfo:
    return reply_from(error, OccurrenceInfo, **_trace_fields(error), **_error_fields(error.signature, error.trace))


def _trace_fields(trace: TracedCall | TracedError) -> dict[str, Any]:
    return {
        "trace_id": trace.id,
        "timestamp_ms": trace.at,
        "timestamp_formatted": _format_time(trace.at),
        "session_id": trace.session,
    }


def _error_fields(signature: str, error: StackTrace | ErrorGroup) -> dict[str, Any]:
    fields = {"error_signature": signature, "error_type": error.type, "error_message": error.message}
    return {**fields, "language": error.language}


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
    chunk = turn.memory.chunk
    return reply_from(
        chunk,
        NearbyMemory,
        id=turn.memory.id,
        memory=chunk.anchor.memory if chunk.anchor else "",
        text=_memory_text(turn.memory),
        session_id=turn.session,
        host=turn.host,
        branch=turn.branch,
        timestamp_ms=turn.at,
        timestamp_formatted=_format_time(turn.at),
        is_after=turn.is_after,
    )


def _mentions(hits: Sequence[Hit]) -> tuple[ErrorMention, ...]:
    return tuple(
        reply_from(
            hit,
            ErrorMention,
            relevance=round(hit.relevance, 4),
            tier=hit.trust.tier.value,
            record=hit.grounding[0].record if hit.grounding else "",
            task=hit.grounding[0].task if hit.grounding else "",
        )
        for hit in hits
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
    filters = replace(_trace_filter(engine, request, tool=request.tool_name), errors_only=request.errors_only)
    calls, total = engine.traces().tables().calls(filters)
    return ToolCallsReply(tool_calls=tuple(map(_call_info, calls)), total_count=total)


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
    """List errors from agents' turns and lorelog itself, newest first and grouped by signature.

    Occurrences of one error share a signature; line numbers, addresses and paths do not affect it.
    """
    filters = _trace_filter(
        engine,
        request,
        signature=request.error_signature,
        function=request.function_name,
        file=request.file_path,
        words=request.text,
    )
    tables = engine.traces().tables()
    errors, total = tables.errors(filters)
    return ErrorsReply(
        errors=tuple(_error_info(error, frames=request.include_frames) for error in errors),
        groups=tuple(_group_info(group, ErrorGroupInfo) for group in tables.groups(filters)),
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
    sources = engine.error_sources(all_projects=request.all_projects)
    history = explain_error(_replace_surrogates(request.text), sources)
    asked, seen = _error_fields(history.signature, history.trace), history.seen
    return reply_from(
        history,
        WhyReply,
        asked=QueriedError(**asked, frames=_frames(history.trace.frames)),
        seen_before=any(match != MATCH_SIMILAR for _, match in seen),
        seen=tuple(_group_info(group, KnownErrorInfo, match=match) for group, match in seen),
        occurrences=tuple(map(_occurrence_info, history.occurrences)),
        fixes=tuple(map(_fix_info, history.fixes)),
        turns=tuple(map(_nearby_memory, history.turns)),
        decisions=_mentions(history.decisions),
        tasks=_mentions(history.tasks),
        memories=_mentions(history.memories),
    )


@OPERATIONS.declare("debug.how", ShellCommand("how", ("purpose...",)), errors=(ModelError,), warms=True)
def how(engine: Engine, request: HowRequest, call: RequestContext) -> HowReply:
    """Show the commands that passed here for a purpose, newest first: how often they were run, and when they failed last.

    Purposes are compared with what agents said when they ran a command in a captured session, and with the command's own words.
    Commands are text from sessions, with secrets removed: check one before you run it.
    """
    actions = engine.traces().tables().actions(engine.log_projects(all_projects=request.all_projects), MAX_ACTIONS)
    matcher = PurposeMatcher(engine.deps.analyser.words, engine.embedder, engine.model)
    return find_commands(_replace_surrogates(request.purpose), actions, matcher, request.limit)


@OPERATIONS.declare("debug.friction", ShellCommand("friction"))
def friction(engine: Engine, request: FrictionRequest, call: RequestContext) -> FrictionReply:
    """Show the walls that at least three sessions ran into, what they cost, and what would help.

    These are commands that keep failing and what passed instead, what you keep saying, in whatever words, if it was filed as one rule, and
    files that were read again and again.
    With `fix` a guard, which warns, or a rule for each is put into the inbox, and those that are new there are returned: nothing
    holds before a person approves it, and what was refused is not proposed again.
    """
    projects = engine.log_projects(all_projects=request.all_projects and not request.fix)
    found = find_walls(
        engine.traces().tables().actions(projects, MAX_ACTIONS),
        partial(project_file, engine.place.project.root),
        request.limit,
        engine.reviewer(call.environment).walls(projects),
    )
    if not request.fix:
        return found
    walls = tuple(wall for wall in found.walls if wall.kind != SAID and _propose(engine, wall))
    note = "'lorelog review' approves or refuses them" if walls else "nothing new to propose"
    return replace(found, walls=walls, notes=(note,))


def _propose(engine: Engine, wall: Wall) -> bool:
    """Put the remedy of a wall into the inbox; return False if it is or was there."""
    if wall.kind != REREAD:
        log, text = GuardLog(engine.place.tenant_folder / "guards.jsonl"), wall.remedy[:MAX_MESSAGE_CHARS]
        draft = GuardDraft(command=wall.what, message=text, project=engine.place.project.id)
        return guard_id(draft.project, draft) not in log.removed() and log.add(draft, AGENT).changed
    identity = turn_memory_id("friction", "", wall.what)
    known = engine.memories().get(identity)
    if known.memory is None and not known.deleted_at:
        engine.memories().add([NewMemory(wall.remedy, "preference", origin="agent", id=identity)])
    return known.memory is None and not known.deleted_at


def _trace_filter(engine: Engine, request: TraceFilterRequest, **texts: str) -> TraceFilter:
    texts["session"] = request.session_id
    conditions: dict[str, Any] = {name: _replace_surrogates(text) for name, text in texts.items()}
    return TraceFilter(
        projects=engine.log_projects(all_projects=request.all_projects),
        since=_parse_timestamp(request.time_from),
        until=_parse_timestamp(request.time_to, _END_OF_DAY),
        source=request.source,
        limit=request.limit,
        **conditions,
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
