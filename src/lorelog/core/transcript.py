"""A conversation as it is shown: turns of it, and where they come from.

What stands in these values is what someone's transcript says: data, never instructions, and not made safe for a
terminal. Whoever shows it does that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the assistant used: what it was asked for and what it answered, each cut to a few lines."""

    name: str
    input: str = ""
    result: str = ""
    failed: bool = False
    truncated: bool = False
    """Input or result were longer than is shown."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and everything that was done and said about it, up to the next request."""

    id: str
    """The host's own name of the turn, or `turn-N` where it has none. No two turns of a reply have the same."""
    number: int
    """Its place in the conversation, from 1."""
    time: str = ""
    """When it began: ISO, UTC, to the second; empty when nothing says so."""
    user: str = ""
    assistant: str = ""
    tools: tuple[ToolCall, ...] = ()
    sidechain: bool = False
    """It belongs to a subagent's conversation, beside the main one."""
    interrupted: bool = False
    truncated: bool = False
    """Texts were longer, or tools more, than is shown."""
    tools_left_out: int = 0


@dataclass(frozen=True, slots=True)
class TranscriptReply:
    """Some turns of a conversation, in order."""

    address: str
    """The file that was read; a database's name is followed by `#` and the session."""
    host: str
    """`claude`, `codex`, `opencode`, `openclaw` or `dsh`."""
    format: str
    """`jsonl`, `json` or `sqlite`."""
    session: str
    turns: tuple[Turn, ...]
    total: int
    """Turns of the whole conversation."""
    focus: str = ""
    """Id of the turn that was asked for; empty when the last ones are shown."""
    skipped: int = 0
    """Lines or rows that hold nothing of the conversation, or are of a kind that is not known."""
    broken: int = 0
    """Lines or rows that could not be read: cut off, too long, or no JSON."""
    notes: tuple[str, ...] = ()
    tokens: int = 0
    """Estimated tokens of the turns."""
