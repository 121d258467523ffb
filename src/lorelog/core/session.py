"""An agent's session as capture sees it: what a hook tells of a moment, what a turn came to, and what was kept of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lorelog.core.trace import FoundTrace

MOMENTS = ("session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end")
_UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:msg|item|turn)_[\w-]{12,}")
"""Ids that no two turns of the world share, whatever session they stand in."""
_OFFSET_MINUTES = 24 * 60


class Summarizer(Protocol):
    """Words a note. `summarize` returns None where the extractive note is to do."""

    def summarize(self, text: str, host: str, session: str = "") -> str | None:
        """Return bullets about a turn, or None."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """A moment of a session, as the hook spooled it: where the conversation lies, never what it says."""

    host: str
    moment: str
    session: str
    at: datetime
    offset: int = 0
    """Minutes that the local time was ahead of UTC."""
    turn: str = ""
    """The host's own name of the prompt or turn."""
    transcript: str = ""
    directory: str = ""
    project: str = ""
    branch: str = ""
    commit: str = ""
    agent: str = ""
    source: str = ""
    """How a session came about, or why it ended."""
    answer: str = ""
    """Beginning of the hash of what was said last: tells whether the transcript is complete."""
    again: bool = False
    """A stop of a turn that was stopped before and had to go on."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, event: Mapping[str, object], now: datetime) -> HookEvent:
        """Read what is there; what is missing or odd is as good as empty, and without a time it happened now."""
        texts = {name: _text(event.get(name)) for name in _TEXTS}
        given = event.get("environment")
        environment = {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}
        offset = event.get("offset")
        whole = offset if isinstance(offset, int) and not isinstance(offset, bool) else 0
        return cls(
            at=moment_of(event.get("at")) or now,
            offset=whole if abs(whole) < _OFFSET_MINUTES else 0,
            again=event.get("again") is True,
            environment=environment,
            **texts,
        )


_TEXTS = (
    "host",
    "moment",
    "session",
    "turn",
    "transcript",
    "directory",
    "project",
    "branch",
    "commit",
    "agent",
    "source",
    "answer",
)


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that a turn did with a tool."""

    tool: str
    files: tuple[str, ...] = ()
    """Files that it was to write."""
    command: str = ""
    failed: bool = False
    error: str = ""
    """The first line of what went wrong."""
    faults: tuple[FoundTrace, ...] = ()
    """Errors that its answer tells."""


@dataclass(frozen=True, slots=True)
class Told:
    """A turn, told for a note: what was asked, what was said last, what was done."""

    asked: str = ""
    said: tuple[str, ...] = ()
    """The last texts of the assistant, each as it stood; what it concluded is the last one."""
    deeds: tuple[Deed, ...] = ()
    interrupted: bool = False
    failed: bool = False
    """The host gave up on it: what was said last is an error's text."""


@dataclass(frozen=True, slots=True)
class CapturedTurn:
    """A turn that stands in a journal now."""

    turn: str
    memory: str
    source: str
    start_line: int
    time: str
    """When the turn began: ISO, with the offset of where it was."""


@dataclass(frozen=True, slots=True)
class CaptureReply:
    """What came of a moment."""

    captured: tuple[CapturedTurn, ...] = ()
    skipped: int = 0
    """Turns of the session that were captured before, are not finished, or hold nothing to remember."""
    waiting: bool = False
    """The transcript is not complete yet: the same is to be asked again later."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostCaptures:
    """What was captured of one host."""

    host: str
    first_event: str
    last_event: str
    last_capture: str
    """ISO, UTC; empty when nothing was captured yet."""
    captured: int
    today: int


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """What was captured of all hosts, and what still waits."""

    hosts: tuple[HostCaptures, ...]
    waiting: int
    """Events in the spool."""
    oldest_s: float
    """Age of the oldest of them."""
    failed: int
    """Events that were set aside."""
    tokens_today: int = 0


def turn_memory(host: str, session: str, turn: str, part: str = "") -> str:
    """Return the id of the memory that a turn becomes: always the same, so that it can be written once only.

    A fork repeats turns with their ids in another session; where an id is unique in the world the session is left out.
    """
    owner = "" if is_unique(turn) else session
    named = "\0".join(("lorelog turn", host, owner, turn, *((part,) if part else ())))
    digits = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def is_unique(turn: str) -> bool:
    """Say whether a turn's id is enough to know it by, whatever its session."""
    return bool(_UNIQUE.fullmatch(turn))


def answer_mark(text: str) -> str:
    """Return what a hook writes down of the last answer, in the place of the answer."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def moment_of(value: object) -> datetime | None:
    """Return a time that was written as ISO; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and "\0" not in value else ""
