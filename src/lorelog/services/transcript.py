"""Reading the conversation behind a memory: the turn that it comes from, and some before and after.

A conversation is read from its beginning, a record at a time, and only the turns that are shown are kept; so the size of a
transcript costs time, not memory. What is returned is what the transcript says, cut to limits that the notes tell.
"""

from __future__ import annotations

import difflib
from collections import deque
from dataclasses import replace

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.ports import Store
from lorelog.core.transcript import TranscriptReply, Turn
from lorelog.ingest.scan_read import printable
from lorelog.ingest.transcripts.building import INPUT_CHARS, RESULT_CHARS, TEXT_CHARS, TOOLS, Found, Tally
from lorelog.ingest.transcripts.detect import Conversation, open_conversation
from lorelog.retrieval.cost import estimate_tokens
from lorelog.services.transcript_place import Place, find_place

MOST_CONTEXT = 100
REPLY_CHARS = 120_000
"""Of all turns of a reply together; the turns that are farthest from the focus are left out first."""
_SHORTEST_PREFIX = 4
_ID, _NAME, _ID_PREFIX, _NAME_PREFIX = 4, 3, 2, 1
_REMEMBERED = 10_000
"""Ids that a wrong one is compared with."""


def read_transcript(
    place: str, store: Store, *, turn: str = "", context: int = 3, directory: str | None
) -> TranscriptReply:
    """Return a turn and `context` turns before and after it; without one, the last turns.

    `place` is a path, absolute or relative to `directory`, or the id of a chunk or a memory, whose anchor then names the
    conversation and its turn. Without a directory only an id is understood: whoever asks may not name files. A session of a database is named as `FILE#SESSION`. A turn may be named by the beginning
    of its id, or by any name that the host has for something in it.
    """
    if not 0 <= context <= MOST_CONTEXT:
        raise UsageError(f"--context must be 0 to {MOST_CONTEXT}: {context}")
    turn = turn.strip()
    found = find_place(place, store, directory)
    if turn:
        found = replace(found, turn=turn, moment="")
    conversation = open_conversation(found.path, found.session, found.turn)
    window, tally = _read(conversation, found, context)
    notes: list[str] = []
    if not window.total and conversation.format == "sqlite":
        raise NotFound(
            f"{printable(conversation.path)} holds no session {conversation.session!r} in which something was said",
            hint="without '#SESSION' the newest one is shown",
        )
    if found.turn and not window.focus:
        if turn:
            raise _unknown(conversation, turn, window)
        notes.append(f"turn {found.turn}, which the anchor names, is not in it; the last turns are shown")
    if found.moment and window.focus:
        notes.append("the anchor names no turn; the one that went on when the entry was written is the focus")
    if len(window.rivals) > 1:
        raise UsageError(
            f"{len(window.rivals)} turns have a name that starts with {found.turn!r}: {', '.join(window.rivals[:5])}",
            hint="give more of the id",
        )
    turns = _within_budget(window.turns, window.focus)
    if len(turns) < len(window.turns):
        notes.append(f"{len(window.turns) - len(turns)} turns more would be over {REPLY_CHARS:,} characters")
    return TranscriptReply(
        address=conversation.address,
        host=conversation.host,
        format=conversation.format,
        session=tally.session or conversation.session,
        turns=turns,
        total=window.total,
        focus=window.focus,
        skipped=tally.skipped,
        broken=tally.broken,
        notes=(*notes, *_remarks(conversation, tally, turns)),
        tokens=sum(map(_tokens, turns)),
    )


def _read(conversation: Conversation, found: Place, context: int) -> tuple[_Window, Tally]:
    tally = Tally()
    window = _Window(found, context)
    for one in conversation.turns(tally):
        window.take(one)
    return window, tally


class _Window:
    """The turns around the one that is wanted, as they pass by."""

    def __init__(self, wanted: Place, context: int) -> None:
        self._wanted = wanted
        self._context = context
        self._best = 0
        self._left = 0
        self._before: deque[Turn] = deque(maxlen=context)
        self._last: deque[Turn] = deque(maxlen=2 * context + 1)
        self._around: list[Turn] = []
        self.ids: deque[str] = deque(maxlen=_REMEMBERED)
        self.rivals: list[str] = []
        """Turns that the wanted beginning of an id fits equally well."""
        self.total = 0
        self.focus = ""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What is to be shown, in order."""
        return tuple(self._around if self.focus else self._last)

    def take(self, found: Found) -> None:
        """Look at the next turn."""
        turn, rank = found.turn, self._rank(found)
        self.total += 1
        if rank > self._best or (rank and self._wanted.moment):
            self._best, self.focus, self._left = rank, turn.id, self._context
            self._around = [*self._before, turn]
            self.rivals = [turn.id]
        else:
            if rank and rank == self._best and rank in {_ID_PREFIX, _NAME_PREFIX}:
                self.rivals.append(turn.id)
            if self._left:
                self._around.append(turn)
                self._left -= 1
        self._before.append(turn)
        self._last.append(turn)
        self.ids.append(turn.id)

    def _rank(self, found: Found) -> int:
        """Return how well a turn fits: its own id before other names, all of a name before its beginning."""
        wanted = self._wanted.turn
        if not wanted:
            return int(bool(self._wanted.moment and "" < found.turn.time <= self._wanted.moment))
        if found.turn.id == wanted:
            return _ID
        if wanted in found.names:
            return _NAME
        if len(wanted) < _SHORTEST_PREFIX:
            return 0
        if found.turn.id.startswith(wanted):
            return _ID_PREFIX
        return _NAME_PREFIX if any(name.startswith(wanted) for name in found.names) else 0


def _unknown(conversation: Conversation, turn: str, window: _Window) -> NotFound:
    near = difflib.get_close_matches(turn, window.ids, 3, 0.5)
    last = list(window.ids)[-3:]
    if not last:
        hint = "nothing was said in it yet"
    elif near:
        hint = f"nearest are {', '.join(near)}"
    else:
        hint = f"its last turns are {', '.join(last)}"
    return NotFound(f"{printable(conversation.address)} has no turn {turn!r}", hint=hint)


def _within_budget(turns: tuple[Turn, ...], focus: str) -> tuple[Turn, ...]:
    """Return the turns around the focus, or else the last ones, that fit together; the first of them always does."""
    if not turns:
        return turns
    at = next((place for place, one in enumerate(turns) if one.id == focus), len(turns) - 1)
    order = sorted(range(len(turns)), key=lambda place: (abs(place - at), place))
    taken, room = {at}, REPLY_CHARS - _length(turns[at])
    for place in order[1:]:
        room -= _length(turns[place])
        if room < 0:
            break
        taken.add(place)
    return tuple(turns[place] for place in sorted(taken))


def _remarks(conversation: Conversation, tally: Tally, turns: tuple[Turn, ...]) -> list[str]:
    said = [conversation.note] if conversation.note else []
    said += [text if times == 1 else f"{text} ({times} times)" for text, times in tally.notes.items()]
    if tally.broken:
        said.append(f"{tally.broken} of its lines could not be read")
    if not turns:
        said.append("nothing was said in it yet")
    if any(one.truncated for one in turns):
        said.append(
            f"long texts are cut: what was said at {TEXT_CHARS:,} characters, calls at {INPUT_CHARS} and results at"
            f" {RESULT_CHARS}, and of a turn's calls the first {TOOLS} are kept"
        )
    return said


def _pieces(turn: Turn) -> list[str]:
    tools = [text for one in turn.tools for text in (one.name, one.input, one.result)]
    return [turn.id, turn.time, turn.user, turn.assistant, *tools]


def _length(turn: Turn) -> int:
    return sum(map(len, _pieces(turn)))


def _tokens(turn: Turn) -> int:
    return estimate_tokens("\n".join(_pieces(turn)))
