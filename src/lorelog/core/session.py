"""Conversations with agents: turns as they are shown, hook events, and captured turns.

The texts are quoted from someone's transcript: data, never instructions, and not escaped for a terminal. The code
that prints them escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from lorelog.core.ids import sha256
from lorelog.core.serializable import ReplyItems, Serializable, parse_iso_time


class StackFrame(NamedTuple):
    """A call on the stack. Lines and columns count from 1; 0 means unknown."""

    function: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


class StackTrace(Struct, frozen=True):
    """An error as a program printed it."""

    language: str
    """python, javascript, rust, go, java, csharp, ruby, php; `generic` is a message with a location, or a message alone."""
    type: str
    """`ValueError`, `java.lang.IllegalStateException`, `panic`, `TS2322`; empty if unknown."""
    message: str
    frames: tuple[StackFrame, ...] = ()
    """Innermost first."""
    causes: tuple[StackTrace, ...] = ()
    """Its causes, the nearest first; for a group, its members."""

    @property
    def root(self) -> StackTrace:
        return self.causes[-1] if self.causes else self


class LocatedTrace(Struct, frozen=True):
    """A stack trace and its location in a text."""

    trace: StackTrace
    text: str
    """Its lines without log prefixes; a long one without its middle."""
    first_line: int
    last_line: int


class ToolCall(Serializable, Struct, frozen=True):
    """A tool call of the assistant: input and result, each cut to a few lines."""

    name: str
    input: str = ""
    result: str = ""
    failed: bool = False
    truncated: bool = False
    """True if input or result is longer than shown."""


class TranscriptTurn(Serializable, Struct, frozen=True):
    """One request and the work on it, up to the next request."""

    id: str
    """The host's own turn id, or `turn-N` if it has none; unique in a reply."""
    number: int
    """Position in the conversation, from 1."""
    time: str = ""
    """Start time: ISO, UTC, to the second; empty if unknown."""
    user: str = ""
    assistant: str = ""
    tools: tuple[ToolCall, ...] = ()
    sidechain: bool = False
    """True if it belongs to a subagent's conversation."""
    interrupted: bool = False
    truncated: bool = False
    """True if texts or tool calls were left out."""
    tools_left_out: int = 0


class TranscriptReply(ReplyItems["TranscriptTurn"], Struct, frozen=True):
    """Turns of a conversation, in order."""

    items_field = "turns"

    address: str
    """The file; for a database, followed by `#` and the session."""
    host: str
    """A name that `lorelog hosts status` lists: `claude`, `codex`, …"""
    format: str
    """`jsonl`, `json` or `sqlite`."""
    session: str
    turns: tuple[TranscriptTurn, ...]
    total: int
    """Number of turns in the whole conversation."""
    focus: str = ""
    """Id of the requested turn; empty if the last turns are shown."""
    skipped: int = 0
    """Lines or rows without conversation, or of an unknown kind."""
    broken: int = 0
    """Lines or rows that could not be read: truncated, too long, or not JSON."""
    notes: tuple[str, ...] = ()
    tokens: int = 0
    """Estimated tokens of the turns."""


MOMENTS = ("session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end")
_UNIQUE_TURN_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:msg|item|turn)_[\w-]{12,}"
"""Ids that are globally unique, across sessions."""
_MAX_OFFSET_MINUTES = 24 * 60


class TurnSummarizer(Protocol):
    """Writes a note. `summarize` returns None if the extractive note should be used."""

    def summarize(self, text: str, host: str, session: str = "") -> str | None:
        """Return bullets about a turn, or None."""


class HookEvent(Struct, frozen=True):
    """A session event as the hook spooled it: the address of the conversation, never its text."""

    host: str
    moment: str
    session: str
    at: datetime
    offset: int = 0
    """Minutes that local time was ahead of UTC."""
    turn: str = ""
    """The host's own id of the prompt or turn."""
    transcript: str = ""
    directory: str = ""
    project: str = ""
    branch: str = ""
    commit: str = ""
    agent: str = ""
    source: str = ""
    """Why a session started or ended."""
    answer: str = ""
    """Prefix of the hash of the last answer: shows whether the transcript is complete."""
    again: bool = False
    """True for a stop of a turn that was stopped before and continued."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, event: Mapping[str, object], now: datetime) -> HookEvent:
        """Read the fields of a mapping. Missing or malformed fields become empty; a missing time becomes now."""
        texts = {name: _clean_text(event.get(name)) for name in _TEXT_FIELDS}
        variables = event.get("environment")
        environment = (
            {str(name): str(value) for name, value in variables.items()} if isinstance(variables, Mapping) else {}
        )
        offset = event.get("offset")
        whole = offset if isinstance(offset, int) and not isinstance(offset, bool) else 0
        return cls(
            at=parse_iso_time(event.get("at")) or now,
            offset=whole if abs(whole) < _MAX_OFFSET_MINUTES else 0,
            again=event.get("again") is True,
            environment=environment,
            **texts,
        )


_TEXT_FIELDS = [name for name in HookEvent.__struct_fields__ if name not in {"at", "offset", "again", "environment"}]


class FileEdit(NamedTuple):
    """The lines that an action was meant to write to a file, without those it replaced unchanged. Not redacted."""

    file: str
    lines: tuple[str, ...]


class ToolAction(Struct, frozen=True):
    """An action of a turn with a tool."""

    tool: str
    files: tuple[str, ...] = ()
    """Files it was meant to write."""
    command: str = ""
    failed: bool = False
    error: str = ""
    """First line of the error."""
    traces: tuple[LocatedTrace, ...] = ()
    """Stack traces in its output."""
    edits: tuple[FileEdit, ...] = ()
    time: float | None = None
    """Seconds since 1970; None if unknown."""
    purpose: str = ""
    """What the agent said that the command is for."""
    opened: str = ""
    """The file that it reads."""
    result_chars: int = 0
    outcome: str = ""
    """`stopped` by a guard or a rule, `rejected` or `interrupted` by the user; empty if it ran."""
    words: str = ""
    """The user's words at a rejection."""


STATEMENT_KINDS = ("correction", "preference", "decision", "plan")
"""Memory types of the entries that hold the user's own words."""


class UserStatement(Struct, frozen=True):
    """Words of the user that correct, answer or decide: an entry of its own besides the turn's note."""

    kind: str
    """One of STATEMENT_KINDS."""
    text: str
    """The words, unchanged; for an answer, the question in front. Not redacted and not shortened yet."""
    context: str = ""
    """What the words are about: the rejected call, the other options, the text that was answered."""
    key: str = ""
    """Name that is unique in the turn and stable: its memory id is made from it."""


class TurnDigest(Struct, frozen=True):
    """The parts of a turn that a note is written from: the request, the last texts, the actions."""

    request: str = ""
    assistant_texts: tuple[str, ...] = ()
    """The last texts of the assistant, unchanged; the last one is its conclusion."""
    actions: tuple[ToolAction, ...] = ()
    delegated: tuple[ToolAction, ...] = ()
    """Actions of its subagents."""
    interrupted: bool = False
    failed: bool = False
    """True if the host gave up; the last text is then an error message."""
    statements: tuple[UserStatement, ...] = ()
    asked: str = ""
    """Last paragraph of the assistant before this request, with the options it offers."""
    findings: tuple[str, ...] = ()
    """Sentences worth keeping from earlier texts of the assistant, which `assistant_texts` lacks."""


class CapturedTurn(Serializable, Struct, frozen=True):
    """A turn that is now in a journal."""

    turn: str
    memory: str
    source: str
    start_line: int
    time: str
    """Start of the turn: ISO, with its local UTC offset."""


class CaptureReply(Serializable, Struct, frozen=True):
    """Result of a session event."""

    captured: tuple[CapturedTurn, ...] = ()
    skipped: int = 0
    """Turns captured before, unfinished, or without anything to remember."""
    waiting: bool = False
    """True if the transcript is not complete yet; send the same event again later."""
    notes: tuple[str, ...] = ()
    statements: int = 0
    """Entries written for the user's own words: corrections, preferences, decisions and plans."""
    left_out: tuple[str, ...] = ()
    """For a backfill: what the reader of the transcript did not understand."""


def turn_memory_id(host: str, session: str, turn: str, part: str = "") -> str:
    """Return the memory id of a turn: deterministic, so that it is written only once.

    A fork repeats turns with their ids in another session; a globally unique turn id is used without the session.
    """
    owner = "" if is_unique_turn_id(turn) else session
    named = "\0".join(("lorelog turn", host, owner, turn, *((part,) if part else ())))
    digits = sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def is_unique_turn_id(turn: str) -> bool:
    """Return True if a turn id is globally unique, regardless of its session."""
    return bool(re.fullmatch(_UNIQUE_TURN_ID, turn))


def _clean_text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and "\0" not in value else ""
