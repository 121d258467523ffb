"""Values of the traces: calls, errors and their origin; and the calls and errors of captured turns.

Those are stored with the id of the turn's memory, so that deleting the memory hides them too. A turn that is captured again adds nothing.
Errors here never prevent a capture.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import LorelogError
from lorelog.core.session import HookEvent, LocatedTrace, StackFrame, StackTrace, ToolAction

if TYPE_CHECKING:
    from lorelog.services.traces.recorder import TraceStore

OPERATION, TURN = "operation", "turn"
"""Sources of a trace: an operation of ours, or a captured turn of an agent."""
MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 2_000
MAX_FRAMES = 40
MAX_NAME_CHARS = 300
MAX_INPUT_CHARS = 300
_MAX_KEY_CHARS = 400
_COMMAND_PREFIX = re.compile(
    r"^(?:\s*cd\s+[^;&|]+(?:&&|;)|\s*(?:[A-Z_][A-Z0-9_]*=\S*|sudo|time|nice(?:\s+-n\s+\d+)?|env|timeout\s+\S+)\s)+"
)
_OUTPUT_SUFFIX = re.compile(
    r"\s*(?:2>&1|[12]?>+\s*/dev/null|\|\s*(?:tail|head|tee|grep|cat|less|sed|awk)\b[^|]*|;?\s*echo\b.*\$\?.*)\s*$"
)

RedactText = Callable[[str], str]


class TraceOrigin(Struct, frozen=True, kw_only=True):
    """Where a trace comes from."""

    source: str
    project: str = ""
    session: str = ""
    turn: str = ""
    host: str = ""
    branch: str = ""
    memory: str = ""
    """Id of the turn's memory: the trace is hidden when the memory is deleted."""


class TracedCall(Struct, frozen=True, kw_only=True):
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


class TracedError(Struct, frozen=True, kw_only=True):
    """An error in the output of a call."""

    id: str
    at: int
    signature: str
    family: str
    trace: StackTrace
    origin: TraceOrigin
    command: str = ""
    text: str = ""


class ErrorGroup(Struct, frozen=True, kw_only=True):
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


class TracedTurn(Struct, frozen=True):
    """A captured turn, or its new part."""

    memory: str
    turn: str
    when: datetime
    actions: tuple[ToolAction, ...]


def record_turns(
    store: TraceStore | None, event: HookEvent, project: str, turns: Sequence[TracedTurn], clean: RedactText
) -> None:
    """Store the tool calls and errors of turns."""
    if store is None or not store.options.enabled or not any(turn.actions for turn in turns):
        return
    with suppress(LorelogError, OSError):
        traces = [_TurnTraces(turn, event, project, clean) for turn in turns]
        store.tables().add(
            (call for trace in traces for call in trace.calls()),
            (error for trace in traces for error in trace.errors()),
        )


class _TurnTraces:
    def __init__(self, turn: TracedTurn, event: HookEvent, project: str, clean: RedactText) -> None:
        self._turn, self._clean = turn, clean
        self._at = int(turn.when.timestamp() * 1000)
        self._origin: TraceOrigin = TraceOrigin(
            source=TURN,
            project=project,
            session=event.session,
            turn=turn.turn,
            host=event.host,
            branch=event.branch,
            memory=turn.memory,
        )

    def calls(self) -> Iterator[TracedCall]:
        """Yield the calls in order, a millisecond apart, because their times are unknown."""
        for number, action in enumerate(self._turn.actions):
            yield TracedCall(
                id=trace_id("call", self._turn.memory, str(number)),
                at=self._at + number,
                tool=action.tool,
                origin=self._origin,
                input=self._clean(action.command or " ".join(action.files))[:MAX_INPUT_CHARS],
                error=self._clean(action.error)[:MAX_MESSAGE_CHARS],
                failed=action.failed,
                command=self._key(action),
                files=action.files,
            )

    def errors(self) -> Iterator[TracedError]:
        """Yield the errors in the results of the calls."""
        from lorelog.ingest.tracebacks.finder import trace_family, trace_signature

        for number, action in enumerate(self._turn.actions):
            for index, located in enumerate(action.traces):
                located = redact_trace(located, self._clean)  # noqa: PLW2901
                yield TracedError(
                    id=trace_id("error", self._turn.memory, str(number), str(index)),
                    at=self._at + number,
                    signature=trace_signature(located.trace),
                    family=trace_family(located.trace),
                    trace=located.trace,
                    origin=self._origin,
                    command=self._key(action),
                    text=located.text,
                )

    def _key(self, action: ToolAction) -> str:
        return command_key(self._clean(action.command)) if action.command else ""
