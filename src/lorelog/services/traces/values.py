"""Values of the traces: calls, errors and their origin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from lorelog.core.dataclasses import dataclass, replace
from lorelog.core.patterns import lazy_pattern
from lorelog.core.stack_trace import LocatedTrace, StackFrame, StackTrace

OPERATION, TURN = "operation", "turn"
"""Sources of a trace: an operation of ours, or a captured turn of an agent."""
SOURCES = (OPERATION, TURN)
MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 2_000
MAX_FRAMES = 40
MAX_NAME_CHARS = 300
MAX_INPUT_CHARS = 300
_MAX_KEY_CHARS = 400
_COMMAND_PREFIX = lazy_pattern(
    r"^(?:\s*cd\s+[^;&|]+(?:&&|;)|\s*(?:[A-Z_][A-Z0-9_]*=\S*|sudo|time|nice(?:\s+-n\s+\d+)?|env|timeout\s+\S+)\s)+"
)
_OUTPUT_SUFFIX = lazy_pattern(
    r"\s*(?:2>&1|[12]?>+\s*/dev/null|\|\s*(?:tail|head|tee|grep|cat|less|sed|awk)\b[^|]*|;?\s*echo\b.*\$\?.*)\s*$"
)

RedactText = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOrigin:
    """Where a trace comes from."""

    source: str
    project: str = ""
    session: str = ""
    turn: str = ""
    host: str = ""
    branch: str = ""
    memory: str = ""
    """Id of the turn's memory: the trace is hidden when the memory is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """A call of an operation or tool."""

    id: str
    at: int
    """Milliseconds since 1970."""
    tool: str
    origin: TraceOrigin
    input: str = ""
    output: str = ""
    error: str = ""
    failed: bool = False
    duration_ms: float | None = None
    command: str = ""
    """Normalized command, independent of how its output is cut; empty if the call is not a command."""
    files: tuple[str, ...] = ()
    """Files that the call was to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedError:
    """An error in the output of a call."""

    id: str
    at: int
    signature: str
    family: str
    trace: StackTrace
    origin: TraceOrigin
    command: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """All errors with the same signature."""

    signature: str
    family: str
    type: str
    message: str
    language: str
    times: int
    first_at: int
    last_at: int
    sessions: int
    projects: int


def redact_trace(located: LocatedTrace, clean: RedactText) -> LocatedTrace:
    """Return an error without secrets, cut to the stored lengths."""
    return replace(located, trace=_redact_stack(located.trace, clean), text=clean(located.text)[:MAX_TEXT_CHARS])


def _redact_stack(trace: StackTrace, clean: RedactText) -> StackTrace:
    frames = tuple(
        StackFrame(frame.function[:MAX_NAME_CHARS], frame.file[:MAX_NAME_CHARS], frame.line, frame.column)
        for frame in trace.frames[:MAX_FRAMES]
    )
    causes = tuple(_redact_stack(cause, clean) for cause in trace.causes[:8])
    return StackTrace(
        trace.language, trace.type[:MAX_NAME_CHARS], clean(trace.message)[:MAX_MESSAGE_CHARS], frames, causes
    )


def command_key(command: str) -> str:
    """Return a normalized command, without its directory, environment and output filters."""
    bare = _COMMAND_PREFIX.sub("", command.strip())
    while True:
        shorter = _OUTPUT_SUFFIX.sub("", bare)
        if shorter == bare or not shorter:
            break
        bare = shorter
    return " ".join(bare.split())[:_MAX_KEY_CHARS]


def trace_id(*parts: str) -> str:
    """Return a stable id for the parts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]
