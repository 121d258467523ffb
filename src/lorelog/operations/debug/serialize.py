"""Conversion of traces to the replies of `schema`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lorelog.operations.debug import schema
from lorelog.operations.replies import reply_from

if TYPE_CHECKING:
    from lorelog.core.document import StoredChunk
    from lorelog.core.query import Hit
    from lorelog.core.stack_trace import StackFrame
    from lorelog.services.traces.error_history import ErrorFix, ErrorHistory, RelatedTurn
    from lorelog.services.traces.values import ErrorGroup, TracedCall, TracedError

_MAX_TEXT = 1_200
"""Characters of a memory's text."""


def call_info(call: TracedCall) -> schema.TracedCallInfo:
    """Return a traced call."""
    origin = call.origin
    return reply_from(
        call,
        schema.TracedCallInfo,
        trace_id=call.id,
        tool_name=call.tool,
        timestamp_ms=call.at,
        timestamp_formatted=_format_time(call.at),
        session_id=origin.session,
        turn=origin.turn,
        host=origin.host,
        branch=origin.branch,
        project=origin.project,
        memory=origin.memory,
        context_tags=tuple(tag for tag in (origin.source, origin.host) if tag),
    )


def error_info(error: TracedError, *, frames: bool) -> schema.TracedErrorInfo:
    """Return a traced error, with its stack frames if requested."""
    stack: dict[str, Any] = {"frames": None, "causes": None, "text": None}
    if frames:
        causes = tuple(
            schema.CauseInfo(error_type=cause.type, error_message=cause.message, frames=_frames(cause.frames))
            for cause in error.trace.causes
        )
        stack = {"frames": _frames(error.trace.frames), "causes": causes, "text": error.text}
    return reply_from(_occurrence_info(error), schema.TracedErrorInfo, **stack)


def group_info(group: ErrorGroup) -> schema.ErrorGroupInfo:
    """Return errors with the same signature."""
    return reply_from(
        group,
        schema.ErrorGroupInfo,
        error_signature=group.signature,
        error_type=group.type,
        error_message=group.message,
        first_ms=group.first_at,
        last_ms=group.last_at,
        first_formatted=_format_time(group.first_at),
        last_formatted=_format_time(group.last_at),
    )


def why_reply(history: ErrorHistory) -> schema.WhyReply:
    """Return the history of an error."""
    from lorelog.services.traces.error_history import MATCH_SIMILAR

    trace = history.trace
    return schema.WhyReply(
        asked=schema.QueriedError(
            error_signature=history.signature,
            error_type=trace.type,
            error_message=trace.message,
            language=trace.language,
            frames=_frames(trace.frames),
        ),
        seen_before=any(seen.match != MATCH_SIMILAR for seen in history.seen),
        seen=tuple(
            reply_from(group_info(seen.group), schema.KnownErrorInfo, match=seen.match) for seen in history.seen
        ),
        occurrences=tuple(map(_occurrence_info, history.occurrences)),
        fixes=tuple(map(_fix_info, history.fixes)),
        turns=tuple(map(_nearby_memory, history.turns)),
        decisions=tuple(map(_mention, history.decisions)),
        tasks=tuple(map(_mention, history.tasks)),
        memories=tuple(map(_mention, history.memories)),
        notes=tuple(history.notes),
    )


def _occurrence_info(error: TracedError) -> schema.OccurrenceInfo:
    origin, trace = error.origin, error.trace
    return reply_from(
        error,
        schema.OccurrenceInfo,
        trace_id=error.id,
        error_signature=error.signature,
        error_type=trace.type,
        error_message=trace.message,
        language=trace.language,
        timestamp_ms=error.at,
        timestamp_formatted=_format_time(error.at),
        source=origin.source,
        session_id=origin.session,
        turn=origin.turn,
        host=origin.host,
        branch=origin.branch,
        project=origin.project,
        memory=origin.memory,
    )


def _fix_info(fix: ErrorFix) -> schema.FixInfo:
    origin = fix.passed.origin
    return schema.FixInfo(
        command=fix.failed.command,
        failed_ms=fix.failed.at,
        passed_ms=fix.passed.at,
        failed_at=_format_time(fix.failed.at),
        passed_at=_format_time(fix.passed.at),
        error_signature=fix.failed.signature,
        files=tuple(fix.files),
        session_id=origin.session,
        turn=origin.turn,
        host=origin.host,
        branch=origin.branch,
        memory=origin.memory,
        text="" if fix.memory is None else _memory_text(fix.memory),
    )


def _nearby_memory(turn: RelatedTurn) -> schema.NearbyMemory:
    stored, chunk = turn.memory, turn.memory.chunk
    return reply_from(
        chunk,
        schema.NearbyMemory,
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


def _mention(hit: Hit) -> schema.ErrorMention:
    return reply_from(
        hit,
        schema.ErrorMention,
        relevance=round(hit.relevance, 4),
        tier=hit.trust.tier.value,
        record=hit.grounding[0].record if hit.grounding else "",
        task=hit.grounding[0].task if hit.grounding else "",
    )


def _frames(frames: Sequence[StackFrame]) -> tuple[schema.FrameInfo, ...]:
    return tuple(
        schema.FrameInfo(
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
