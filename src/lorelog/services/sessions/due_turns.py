"""Decides which turns of a session are due: finished ones that are on the record, and the rest of silent sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from math import inf

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from lorelog.core.ids import answer_hash
from lorelog.core.paths import modified_at
from lorelog.core.session import CaptureReply, HookEvent
from lorelog.ingest.transcripts.turns import ParsedTurn
from lorelog.light.spool import CLOCK_SLACK_S, WORDS, PauseNotes
from lorelog.services.sessions.capture_db import CaptureDatabase

END_MOMENTS = frozenset({"turn-end", "turn-failed"})
_LATE_HOSTS = frozenset({"copilot"})
"""Hosts that write a transcript after their hooks, so that it may lack the turn which an event names."""
SILENCE = timedelta(hours=2)
"""A session without an event for this long has ended."""


class FinishedTurns(Struct, frozen=True):
    """The finished turns, and whether the transcript contains everything that the event refers to."""

    turns: Sequence[ParsedTurn]
    complete: bool
    ends: ParsedTurn | None = None
    """The turn whose end the event reports."""


def split_off_record(
    turns: Sequence[ParsedTurn], pauses: PauseNotes, until: float = inf, *, durable: bool = True
) -> tuple[list[ParsedTurn], list[ParsedTurn]]:
    """Return the turns that may be captured, and those off the record. The words in a prompt are noted as a pause.

    What follows a turn off the record does not quote it.
    """
    for turn in turns:
        begun = turn.start_time or 0.0
        if turn.is_off_record and not pauses.covers(begun, begun):
            pauses.add(WORDS, begun, durable=durable)
    kept: list[ParsedTurn] = []
    off: list[ParsedTurn] = []
    for number, turn in enumerate(turns):
        ended = turns[number + 1].start_time if number + 1 < len(turns) else None
        if pauses.covers(turn.start_time, inf if ended is None else ended, until):
            off.append(turn)
        elif off and off[-1] is turns[number - 1]:
            said = tuple(replace(statement, context="") for statement in turn.digest.statements)
            kept.append(replace(turn, digest=replace(turn.digest, asked="", statements=said)))
        else:
            kept.append(turn)
    return kept, off


def select_finished(turns: Sequence[ParsedTurn], event: HookEvent) -> FinishedTurns:
    """Return the finished turns of a main conversation, in order."""
    at = event.at.timestamp()
    # The last turn with the name: a fork repeats the name of its own first turn.
    names = [index for index, turn in enumerate(turns) if event.turn and event.turn in {turn.turn.id, *turn.aliases}]
    named = names[-1] if names else None
    begun = _count_begun(turns, at + CLOCK_SLACK_S)
    if event.moment in END_MOMENTS:
        return _turns_until_end(turns, event, named, begun)
    if event.moment == "prompt":
        count = named if named is not None else _count_begun(turns, at - CLOCK_SLACK_S)
        return FinishedTurns(drop_open_turns(turns[:count]), complete=True)
    if event.moment == "compact":  # the last turn may go on
        return FinishedTurns(drop_open_turns(turns[: min(begun, len(turns) - 1)]), complete=True)
    # A resumed session's turn may begin within the tolerance before the event; that does not make it finished.
    surely = _count_begun(turns, at)
    is_whole = event.host not in _LATE_HOSTS or not event.turn or named is not None
    return FinishedTurns([*turns[:surely], *drop_open_turns(turns[surely:begun])], complete=is_whole)


def drop_open_turns(turns: Sequence[ParsedTurn]) -> Sequence[ParsedTurn]:
    """Return the turns without the open ones at the end."""
    count = len(turns)
    while count and turns[count - 1].is_open:
        count -= 1
    return turns[:count]


def _count_begun(turns: Sequence[ParsedTurn], at: float) -> int:
    """Return how many turns had begun by a time. A turn without a time began no later than the next."""
    later = (number for number, turn in enumerate(turns) if turn.start_time is not None and turn.start_time > at)
    return next(later, len(turns))


def _turns_until_end(turns: Sequence[ParsedTurn], event: HookEvent, named: int | None, begun: int) -> FinishedTurns:
    """Return the turns up to the one that ended.

    It is identified by its answer: a prompt typed meanwhile comes after the turn that the host names, and without a
    name the next turn may just have begun.
    """
    count = begun if named is None else named + 1
    if event.answer:
        first = _count_begun(turns, event.at.timestamp() - CLOCK_SLACK_S) if named is None else count
        for number in (count, *range(begun, max(first, 1) - 1, -1)):
            if number and event.answer in _answer_hashes(turns[number - 1].digest.assistant_texts):
                return FinishedTurns(turns[:number], complete=True, ends=turns[number - 1])
        return FinishedTurns(turns[:count], complete=False, ends=turns[count - 1] if count else None)
    is_late = event.host in _LATE_HOSTS and bool(event.turn) and named is None
    last = turns[count - 1] if count else None
    is_begun = last is not None and last.is_open and not (last.text_count or last.call_count)
    if is_begun and event.moment == "turn-end" and not is_late:
        return FinishedTurns(turns[: count - 1], complete=True)  # it has just begun; its own end is to come
    # OpenCode reports a stop before the last text is written, and reports the end only afterwards.
    is_whole = last is not None and (named is not None or not event.turn) and not last.is_open
    return FinishedTurns(turns[:count], is_whole, last)


def _answer_hashes(texts: Sequence[str]) -> set[str]:
    """Return the possible hashes of an answer: hosts report its last text, or all texts of its last message.

    Earlier texts count as well: a stopped turn may have been continued.
    """
    runs = [texts[first:last] for last in range(1, len(texts) + 1) for first in range(last)]
    return {answer_hash(gap.join(run)) for run in runs for gap in ("\n", "\n\n", "")}


def note_open_session(event: HookEvent, project: str, captures: CaptureDatabase) -> None:
    """Save that a session is open, or that it has ended."""
    fields = {
        name: value for name, value in to_builtins(event).items() if name not in {"at", "environment", "answer", "turn"}
    }
    text = "" if event.moment == "session-end" else json.dumps(fields)
    captures.save_open_session(
        host=event.host, session=event.session, project=project, at=event.at.timestamp(), event=text
    )


def capture_stragglers(
    event: HookEvent,
    project: str,
    captures: CaptureDatabase,
    now: datetime,
    capture: Callable[[HookEvent], CaptureReply],
) -> CaptureReply:
    """Capture the remaining turns of earlier sessions that ended without an event."""
    replies: list[CaptureReply] = []
    for text in captures.open_sessions(event.host, project, (now - SILENCE).timestamp()):
        # An end in the past: the transcript will not become more complete.
        end = replace(HookEvent.from_mapping(json.loads(text), now), moment="session-end", at=now - SILENCE / 2)
        if end.session == event.session or not _is_silent(end.transcript, now):
            continue
        reply = capture(end)
        if not reply.waiting:
            note_open_session(end, project, captures)
            replies.append(reply)
    return CaptureReply(
        tuple(turn for reply in replies for turn in reply.captured),
        notes=tuple(note for reply in replies for note in reply.notes),
    )


def _is_silent(transcript: str, now: datetime) -> bool:
    """Return True if a transcript was not written lately. The time of a database with many sessions is ignored."""
    return not transcript.endswith(".jsonl") or modified_at(transcript) < (now - SILENCE).timestamp()
