"""Answers of debug.* as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from lorelog.operations.debug_requests import CallsRequest, ErrorsRequest, IngestRequest, WhyRequest

if TYPE_CHECKING:
    from lorelog.core.document import StoredChunk
    from lorelog.core.query import Hit
    from lorelog.core.trace import Frame
    from lorelog.operations import debug_replies as replies
    from lorelog.services.traces.ingesting import Ingested
    from lorelog.services.traces.values import ErrorGroup, TracedCall, TracedError
    from lorelog.services.traces.why import Around, Fix, WhyReply

_TEXT = 1_200


def calls_shape(found: tuple[list[TracedCall], int], request: CallsRequest) -> replies.ToolCallsShape:
    """Calls."""
    return {"tool_calls": [_call_shape(one) for one in found[0]], "total_count": found[1]}


def errors_shape(found: tuple[list[TracedError], list[ErrorGroup], int], request: ErrorsRequest) -> replies.ErrorsShape:
    """Errors, each and grouped."""
    errors, groups, total = found
    return {
        "errors": [_error_shape(one, frames=request.include_frames) for one in errors],
        "groups": [_group_shape(one) for one in groups],
        "total_count": total,
    }


def ingest_shape(found: Ingested, request: IngestRequest) -> replies.IngestShape:
    """What came of a log."""
    return {
        "name": found.name,
        "bytes": found.bytes,
        "lines": found.lines,
        "found": found.found,
        "added": found.added,
        "groups": [_group_shape(one) for one in found.groups],
        "notes": list(found.notes),
    }


def why_shape(found: WhyReply, request: WhyRequest) -> replies.WhyShape:
    """What is known of an error."""
    from lorelog.services.traces.why import SIMILAR

    trace = found.trace
    return {
        "asked": {
            "error_signature": found.signature,
            "error_type": trace.type,
            "error_message": trace.message,
            "language": trace.language,
            "frames": _frames(trace.frames),
        },
        "seen_before": any(one.match != SIMILAR for one in found.seen),
        "seen": [{**_group_shape(one.group), "match": one.match} for one in found.seen],
        "occurrences": [_occurrence_shape(one) for one in found.occurrences],
        "fixes": [_fix_shape(one) for one in found.fixes],
        "turns": [_around_shape(one) for one in found.turns],
        "decisions": [_mention_shape(one) for one in found.decisions],
        "tasks": [_mention_shape(one) for one in found.tasks],
        "memories": [_mention_shape(one) for one in found.memories],
        "notes": list(found.notes),
    }


def _call_shape(call: TracedCall) -> replies.ToolCallShape:
    told = call.origin
    return {
        "trace_id": call.id,
        "tool_name": call.tool,
        "timestamp_ms": call.at,
        "timestamp_formatted": _time(call.at),
        "input": call.input,
        "output": call.output,
        "error": call.error,
        "failed": call.failed,
        "duration_ms": call.duration_ms,
        "session_id": told.session,
        "turn": told.turn,
        "host": told.host,
        "branch": told.branch,
        "project": told.project,
        "memory": told.memory,
        "files": list(call.files),
        "context_tags": [one for one in (told.source, told.host) if one],
    }


def _error_shape(error: TracedError, *, frames: bool) -> replies.TracedErrorShape:
    shape = cast("replies.TracedErrorShape", _occurrence_shape(error))
    if frames:
        shape["frames"] = _frames(error.trace.frames)
        shape["causes"] = [
            {"error_type": one.type, "error_message": one.message, "frames": _frames(one.frames)}
            for one in error.trace.causes
        ]
        shape["text"] = error.text
    return shape


def _occurrence_shape(error: TracedError) -> replies.OccurrenceShape:
    told, trace = error.origin, error.trace
    return {
        "trace_id": error.id,
        "error_signature": error.signature,
        "error_type": trace.type,
        "error_message": trace.message,
        "language": trace.language,
        "timestamp_ms": error.at,
        "timestamp_formatted": _time(error.at),
        "times": error.times,
        "source": told.source,
        "session_id": told.session,
        "turn": told.turn,
        "host": told.host,
        "branch": told.branch,
        "project": told.project,
        "memory": told.memory,
        "command": error.command,
        "place": error.place,
    }


def _group_shape(group: ErrorGroup) -> replies.ErrorGroupShape:
    return {
        "error_signature": group.signature,
        "error_type": group.type,
        "error_message": group.message,
        "language": group.language,
        "times": group.times,
        "first_ms": group.first_at,
        "last_ms": group.last_at,
        "first_formatted": _time(group.first_at),
        "last_formatted": _time(group.last_at),
        "sessions": group.sessions,
    }


def _fix_shape(fix: Fix) -> replies.FixShape:
    told = fix.passed.origin
    return {
        "command": fix.failed.command,
        "failed_ms": fix.failed.at,
        "passed_ms": fix.passed.at,
        "failed_at": _time(fix.failed.at),
        "passed_at": _time(fix.passed.at),
        "error_signature": fix.failed.signature,
        "files": list(fix.files),
        "session_id": told.session,
        "turn": told.turn,
        "host": told.host,
        "branch": told.branch,
        "memory": told.memory,
        "text": "" if fix.memory is None else _said(fix.memory),
    }


def _around_shape(around: Around) -> replies.AroundShape:
    stored, chunk = around.memory, around.memory.chunk
    return {
        "id": stored.id,
        "memory": chunk.anchor.memory if chunk.anchor else "",
        "text": _said(stored),
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "date": chunk.date,
        "session_id": around.session,
        "host": around.host,
        "branch": around.branch,
        "timestamp_ms": around.at,
        "timestamp_formatted": _time(around.at),
        "is_after": around.is_after,
    }


def _mention_shape(hit: Hit) -> replies.MentionShape:
    return {
        "id": hit.id,
        "type": hit.type,
        "date": hit.date,
        "heading": hit.heading,
        "snippet": hit.snippet,
        "source": hit.source,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "relevance": round(hit.relevance, 4),
        "tier": hit.trust.tier.value,
        "record": hit.grounding[0].record if hit.grounding else "",
        "task": hit.grounding[0].task if hit.grounding else "",
    }


def _frames(frames: Sequence[Frame]) -> list[replies.FrameShape]:
    return [
        {
            "index": number,
            "function_name": one.function,
            "file_path": one.file,
            "line_number": one.line,
            "col_number": one.column,
        }
        for number, one in enumerate(frames)
    ]


def _said(stored: StoredChunk) -> str:
    """Return what a memory says, without the heading that tells its hour."""
    text = stored.chunk.text.strip()
    return (text.partition("\n")[2].strip() if text.startswith("#") else text)[:_TEXT]


def _time(milliseconds: int) -> str:
    when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return when.isoformat("T", "milliseconds").replace("+00:00", "Z")
