"""What captured turns contribute: each tool that an agent called, and the errors that it met.

Kept under the id of the memory that the turn became, so that deleting the memory takes them along. A turn that is captured
again adds nothing. It never keeps a turn from being captured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lorelog.core.errors import LorelogError
from lorelog.core.session import Deed, HookEvent

if TYPE_CHECKING:
    from lorelog.services.traces.book import TraceBook
    from lorelog.services.traces.values import Clean, Origin, TracedCall, TracedError


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """A turn, or what is new of one."""

    memory: str
    turn: str
    when: datetime
    deeds: tuple[Deed, ...]


def note_turns(
    book: TraceBook | None, event: HookEvent, project: str, turns: Sequence[TracedTurn], clean: Clean
) -> None:
    """Keep what was called and what went wrong in turns."""
    if book is None or not book.options.enabled or not any(turn.deeds for turn in turns):
        return
    with suppress(LorelogError, OSError):
        noted = [_Turn(turn, event, project, clean) for turn in turns]
        book.tables().add(
            (call for turn in noted for call in turn.calls()), (error for turn in noted for error in turn.errors())
        )


class _Turn:
    def __init__(self, turn: TracedTurn, event: HookEvent, project: str, clean: Clean) -> None:
        from lorelog.services.traces.values import TURN, Origin

        self._turn, self._clean = turn, clean
        self._at = int(turn.when.timestamp() * 1000)
        self._origin: Origin = Origin(TURN, project, event.session, turn.turn, event.host, event.branch, turn.memory)

    def calls(self) -> Iterator[TracedCall]:
        """Yield the calls, in the order they were made: each a millisecond after the one before, as nothing tells when."""
        from lorelog.services.traces.values import INPUT_CHARS, MESSAGE_CHARS, TracedCall, mark_of

        for number, deed in enumerate(self._turn.deeds):
            yield TracedCall(
                mark_of("call", self._turn.memory, str(number)),
                self._at + number,
                deed.tool,
                self._origin,
                self._clean(deed.command or " ".join(deed.files))[:INPUT_CHARS],
                error=self._clean(deed.error)[:MESSAGE_CHARS],
                failed=deed.failed,
                command=self._key(deed),
                files=deed.files,
            )

    def errors(self) -> Iterator[TracedError]:
        """Yield the errors that calls came to."""
        from lorelog.ingest.stacks_signature import family, signature
        from lorelog.services.traces.values import TracedError, cleaned, mark_of

        for number, deed in enumerate(self._turn.deeds):
            for place, fault in enumerate(deed.faults):
                found = cleaned(fault, self._clean)
                yield TracedError(
                    mark_of("error", self._turn.memory, str(number), str(place)),
                    self._at + number,
                    signature(found.trace),
                    family(found.trace),
                    found.trace,
                    self._origin,
                    self._key(deed),
                    text=found.text,
                )

    def _key(self, deed: Deed) -> str:
        from lorelog.services.traces.values import command_key

        return command_key(self._clean(deed.command)) if deed.command else ""
