"""Errors as a captured turn stores them, without a session around them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.tracebacks.finder import find_traces, trace_family, trace_signature
from lorelog.services.traces.tables import TURN, TracedError, redact_trace, trace_id
from lorelog.wiring import open_engine, resolve_location


def errors_in(text: str, project: str = "") -> Iterator[TracedError]:
    """Yield the errors of a command's output, without secrets."""
    for number, located in enumerate(find_traces(text, 10_000)):
        clean = redact_trace(located, lambda part: redact(part).text)
        yield TracedError(
            id=trace_id(text, str(number)),
            at=int(time.time() * 1000),
            signature=trace_signature(clean.trace),
            family=trace_family(clean.trace),
            trace=clean.trace,
            source=TURN,
            project=project,
            text=clean.text,
        )


def store_errors(project: Path, text: str) -> None:
    """Store the errors of a command's output, as errors of the project."""
    with open_engine(resolve_location(project=str(project)), {}) as engine:
        engine.place.create()
        engine.traces().tables().add(errors=errors_in(text, engine.place.project.id))
