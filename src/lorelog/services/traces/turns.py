"""Records the tool calls and errors of captured turns.

They are stored with the id of the turn's memory, so that deleting the memory hides them too. A turn that is captured
again adds nothing. Errors here never prevent a capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.errors import LorelogError
from lorelog.core.session import HookEvent, ToolAction

if TYPE_CHECKING:
    from lorelog.services.traces.recorder import TraceStore
    from lorelog.services.traces.values import RedactText, TracedCall, TracedError, TraceOrigin


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
        from lorelog.services.traces.values import TURN, TraceOrigin

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
        from lorelog.services.traces.values import MAX_INPUT_CHARS, MAX_MESSAGE_CHARS, TracedCall, trace_id

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
        from lorelog.ingest.tracebacks.signature import trace_family, trace_signature
        from lorelog.services.traces.values import TracedError, redact_trace, trace_id

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
        from lorelog.services.traces.values import command_key

        return command_key(self._clean(action.command)) if action.command else ""
