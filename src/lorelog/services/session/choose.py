"""Which turns of a conversation are finished, as far as an event tells.

An event may be looked at late, when the next turn is under way, or repeatedly. So it certifies only what it speaks of: a turn
that has ended and all before it, or those before a prompt. A prompt may be typed while a turn goes on: that one is left to its
own end. A turn's time is when it began, in the host's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lorelog.core.session import HookEvent, answer_mark
from lorelog.ingest.transcripts.building import Found

SLACK_S = 2.0
"""Clocks of a host and its hooks are the same, but what they time is not done at once."""
_ENDS = frozenset({"turn-end", "turn-failed"})


@dataclass(frozen=True, slots=True)
class Finished:
    """The turns that are, and whether the transcript holds all that the event speaks of."""

    turns: Sequence[Found]
    whole: bool
    ends: Found | None = None
    """The turn whose end the event is."""


def finished(turns: Sequence[Found], event: HookEvent) -> Finished:
    """Return the finished turns of a main conversation, in order."""
    at = event.at.timestamp()
    named = _named(turns, event.turn)
    begun = _begun(turns, at + SLACK_S)
    if event.moment in _ENDS:
        return _ended(turns, event, named, begun)
    if event.moment == "prompt":
        count = named if named is not None else _begun(turns, at - SLACK_S)
        return Finished(closed(turns[:count]), whole=True)
    if event.moment == "compact":
        return Finished(closed(turns[: min(begun, len(turns) - 1)]), whole=True)  # the last one may go on
    # A resumed session's turn may begin within the slack of the event before it: it is not over for that.
    surely = _begun(turns, at)
    return Finished([*turns[:surely], *closed(turns[surely:begun])], whole=True)


def closed(turns: Sequence[Found]) -> Sequence[Found]:
    """Return turns without those at the end that may be going on."""
    count = len(turns)
    while count and turns[count - 1].open:
        count -= 1
    return turns[:count]


def is_answered(found: Found) -> bool:
    """Say whether anything was said or done about a request."""
    return bool(found.texts or found.calls)


def _named(turns: Sequence[Found], name: str) -> int | None:
    """Return the place of the last turn of a name: a fork gives its own first one to all that it repeats."""
    if not name:
        return None
    places = [place for place, one in enumerate(turns) if name == one.turn.id or name in one.names]
    return places[-1] if places else None


def _begun(turns: Sequence[Found], at: float) -> int:
    """Return how many turns had begun; one that does not tell when began no later than the next."""
    count = 0
    for place, one in enumerate(turns, 1):
        if one.began is not None and one.began > at:
            break
        count = place
    return count


def _ended(turns: Sequence[Found], event: HookEvent, named: int | None, begun: int) -> Finished:
    """Return the turns up to the one that ended.

    That is the one that was answered so: what was typed meanwhile stands behind the turn that the host names, and without a
    name the next turn may have begun just now.
    """
    count = begun if named is None else named + 1
    if event.answer:
        least = _begun(turns, event.at.timestamp() - SLACK_S) if named is None else count
        for place in (count, *range(begun, max(least, 1) - 1, -1)):
            if place and event.answer in _marks(turns[place - 1].told.said):
                return Finished(turns[:place], whole=True, ends=turns[place - 1])
        return Finished(turns[:count], whole=False, ends=turns[count - 1] if count else None)
    if count and event.moment == "turn-end" and turns[count - 1].open and not is_answered(turns[count - 1]):
        return Finished(turns[: count - 1], whole=True)  # asked just now; its own end is to come
    # OpenCode tells of a stop before the last words are written down, and only then that it is over.
    is_whole = bool(count) and (named is not None or not event.turn) and not turns[count - 1].open
    return Finished(turns[:count], is_whole, turns[count - 1] if count else None)


def _marks(said: Sequence[str]) -> set[str]:
    """Return what an answer may be marked as: hosts tell its last text, or all texts of its last message.

    More may have been said since: a turn that was stopped can have to go on.
    """
    runs = [said[first:last] for last in range(1, len(said) + 1) for first in range(last)]
    return {answer_mark(gap.join(run)) for run in runs for gap in ("\n", "\n\n", "")}
