"""Handlers of `debug.*`. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lorelog.core.errors import UsageError
from lorelog.engine import Engine
from lorelog.operations.arguments import parse_past_day
from lorelog.operations.debug import schema
from lorelog.operations.debug.serialize import call_info, error_info, group_info, why_reply
from lorelog.operations.operation import RequestContext
from lorelog.services.places.project import visible_projects

if TYPE_CHECKING:
    from lorelog.core.document import StoredChunk
    from lorelog.core.query import SearchReply
    from lorelog.services.traces.tables import TraceFilter

_END_OF_DAY = time(23, 59, 59, 999_000)


def find_tool_calls(engine: Engine, request: schema.ToolCallsRequest, call: RequestContext) -> schema.ToolCallsReply:
    """List called operations and tools, newest first: time, duration, session and failures.

    For lorelog's own operations only the length of texts is stored. Calls of agents' tools come from captured turns.
    """
    filters = replace(
        _trace_filter(engine, request), tool=_replace_surrogates(request.tool_name), errors_only=request.errors_only
    )
    calls, total = engine.traces().tables().calls(filters)
    return schema.ToolCallsReply(tool_calls=tuple(map(call_info, calls)), total_count=total)


def find_errors(engine: Engine, request: schema.ErrorsRequest, call: RequestContext) -> schema.ErrorsReply:
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
    return schema.ErrorsReply(
        errors=tuple(error_info(error, frames=request.include_frames) for error in errors),
        groups=tuple(map(group_info, tables.groups(filters))),
        total_count=total,
    )


def why(engine: Engine, request: schema.WhyRequest, call: RequestContext) -> schema.WhyReply:
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

    projects = _visible_projects(engine, all_projects=request.all_projects)
    sources = ErrorHistorySources(engine.traces().tables(), search, get, projects)
    history = explain_error(
        _replace_surrogates(request.text), sources, lambda text: redact(text, engine.defaults.capture.patterns).text
    )
    return why_reply(history)


def _trace_filter(engine: Engine, request: schema.TraceFilterRequest) -> TraceFilter:
    from lorelog.services.traces.tables import TraceFilter

    return TraceFilter(
        projects=_visible_projects(engine, all_projects=request.all_projects),
        since=_parse_timestamp(request.time_from),
        until=_parse_timestamp(request.time_to, _END_OF_DAY),
        source=request.source,
        session=_replace_surrogates(request.session_id),
        limit=request.limit,
    )


def _visible_projects(engine: Engine, *, all_projects: bool) -> tuple[str, ...] | None:
    return None if all_projects or engine.defaults.all_projects else visible_projects(engine.place.project, ())


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
