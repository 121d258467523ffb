"""The operations debug.*: what was called, what went wrong, and what is known of an error."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from lorelog.core.errors import UsageError
from lorelog.engine import Engine
from lorelog.operations.days import day_of
from lorelog.operations.debug_requests import CallsRequest, ErrorsRequest, IngestRequest, Traced, WhyRequest
from lorelog.operations.operation import Call
from lorelog.services.scope import visible_projects

if TYPE_CHECKING:
    from lorelog.services.traces.ingesting import Ingested, Ingester
    from lorelog.services.traces.tables import Wanted
    from lorelog.services.traces.values import ErrorGroup, TracedCall, TracedError
    from lorelog.services.traces.why import WhyReply

_LAST = time(23, 59, 59, 999_000)


def find_tool_calls(engine: Engine, request: CallsRequest, call: Call) -> tuple[list[TracedCall], int]:
    """Tell which operations and tools were called, newest first: when, for how long, by which session, and what failed.

    Of lorelog's own operations texts are not kept, only how long they were. Calls of agents' tools come from captured turns.
    """
    wanted = replace(_wanted(engine, request), tool=_encodable(request.tool_name), errors_only=request.errors_only)
    return engine.traces().tables().calls(wanted)


def find_errors(engine: Engine, request: ErrorsRequest, call: Call) -> tuple[list[TracedError], list[ErrorGroup], int]:
    """Tell what went wrong, newest first and grouped by signature: in agents' turns, in logs, and in lorelog itself.

    The same error has the same signature, whatever line numbers, addresses and paths it is told with.
    """
    wanted = replace(
        _wanted(engine, request),
        signature=_encodable(request.error_signature),
        function=_encodable(request.function_name),
        file=_encodable(request.file_path),
        words=_encodable(request.text),
    )
    tables = engine.traces().tables()
    errors, total = tables.errors(wanted)
    return errors, tables.groups(wanted), total


def ingest(engine: Engine, request: IngestRequest, call: Call) -> Ingested:
    """Read a log and keep the errors that it tells: stack traces of many languages, compilers, test runners.

    Of any length, plain or gzipped. Secrets are taken out. Reading the same log again adds nothing.
    """
    if (request.path is None) == (request.text is None):
        raise UsageError("name a path or give a text", hint="one of them, not both")
    if request.path is not None and not call.own:
        raise UsageError("which files are read is chosen on this machine", hint="send the text itself")
    reader = ingester(engine)
    if request.text is not None:
        return reader.read_text(request.text)
    path = os.path.join(call.directory, os.path.expanduser(request.path or ""))  # noqa: PTH111, PTH118
    total = os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202
    progress = call.progress
    told = None if progress is None else lambda done: progress("ingest", done, max(total, done))
    return reader.read_file(path, told)


def ingester(engine: Engine) -> Ingester:
    """Return who reads logs for the project one stands in. Raise UsageError where nothing is to be kept."""
    from lorelog.services.traces.ingesting import Ingester

    book = engine.traces()
    if not book.options.enabled:
        raise UsageError("traces are not kept here (traces.enabled)", hint="lorelog config set traces.enabled true")
    engine.place.found()
    return Ingester(book.tables(), engine.place.project.id, engine.defaults.capture.patterns)


def why(engine: Engine, request: WhyRequest, call: Call) -> WhyReply:
    """Say whether an error was seen before, and what was done about it.

    Earlier occurrences, the turns around them, what was changed before the same command passed again, and the decisions,
    finished tasks and memories that mention it.
    """
    from lorelog.core.document import StoredChunk
    from lorelog.core.query import SearchReply
    from lorelog.ingest.redact import redact
    from lorelog.services.traces.why import Sources
    from lorelog.services.traces.why import why as explain

    def search(question: str, k: int) -> SearchReply:
        options = replace(engine.defaults.search, k=k, token_budget=0, min_relevance=0.0)
        return engine.search(question, options, all_projects=request.all_projects)

    def get(memory: str) -> StoredChunk | None:
        return engine.get(memory).memory

    sources = Sources(engine.traces().tables(), search, get, _projects(engine, all_projects=request.all_projects))
    return explain(_encodable(request.text), sources, lambda text: redact(text, engine.defaults.capture.patterns).text)


def _wanted(engine: Engine, request: Traced) -> Wanted:
    from lorelog.services.traces.tables import Wanted

    return Wanted(
        projects=_projects(engine, all_projects=request.all_projects),
        since=_moment(request.time_from),
        until=_moment(request.time_to, _LAST),
        source=request.source,
        session=_encodable(request.session_id),
        limit=request.limit,
    )


def _projects(engine: Engine, *, all_projects: bool) -> tuple[str, ...] | None:
    return None if all_projects or engine.defaults.all_projects else visible_projects(engine.place.project, ())


def _encodable(text: str) -> str:
    """Return a text that can be asked for: JSON may hold half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _moment(text: str, of_day: time = time.min) -> int:
    """Return milliseconds since 1970: of a time, or of the beginning or the end of a day here."""
    if not text:
        return 0
    try:
        when = datetime.fromisoformat(text) if "T" in text or ":" in text else None
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint="write 2026-03-05T14:30:00Z, or a day") from None
    if when is None:
        when = datetime.combine(datetime.fromisoformat(day_of(text)), of_day)
    return int(when.astimezone(UTC).timestamp() * 1000)
