"""A call and an error as they are kept: where they come from, in which session, and what is told of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from lorelog.core.trace import FoundTrace, Frame, StackTrace

OPERATION, TURN, LOG = "operation", "turn", "log"
"""Where a trace comes from: a call of ours, an agent's captured turn, or a log that was handed over."""
SOURCES = (OPERATION, TURN, LOG)
MESSAGE_CHARS = 500
TEXT_CHARS = 2_000
FRAMES = 40
NAME_CHARS = 300
INPUT_CHARS = 300
_KEY_CHARS = 400
_CHANGES_PLACE = re.compile(
    r"^(?:\s*cd\s+[^;&|]+(?:&&|;)|\s*(?:[A-Z_][A-Z0-9_]*=\S*|sudo|time|nice(?:\s+-n\s+\d+)?|env|timeout\s+\S+)\s)+"
)
_PASSED_ON = re.compile(
    r"\s*(?:2>&1|[12]?>+\s*/dev/null|\|\s*(?:tail|head|tee|grep|cat|less|sed|awk)\b[^|]*|;?\s*echo\b.*\$\?.*)\s*$"
)

Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was traced."""

    source: str
    project: str = ""
    session: str = ""
    turn: str = ""
    host: str = ""
    branch: str = ""
    memory: str = ""
    """Id of the memory that the turn became: what is deleted with it is not told any more."""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """Something that was called."""

    id: str
    at: int
    """Milliseconds since 1970."""
    tool: str
    origin: Origin
    input: str = ""
    output: str = ""
    error: str = ""
    failed: bool = False
    duration_ms: float | None = None
    command: str = ""
    """What a command is known by, however its output is cut; empty for what is none."""
    files: tuple[str, ...] = ()
    """Files that it was to write."""


@dataclass(frozen=True, slots=True)
class TracedError:
    """Something that went wrong, at one time; `times` of them where a log had too many to keep each."""

    id: str
    at: int
    signature: str
    family: str
    trace: StackTrace
    origin: Origin
    command: str = ""
    place: str = ""
    """Where it was read: a file and a line."""
    text: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """An error and how often it was seen."""

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


def cleaned(found: FoundTrace, clean: Clean) -> FoundTrace:
    """Return an error without secrets, within what is kept of one."""
    return replace(found, trace=_cleaned(found.trace, clean), text=clean(found.text)[:TEXT_CHARS])


def _cleaned(trace: StackTrace, clean: Clean) -> StackTrace:
    frames = tuple(
        Frame(one.function[:NAME_CHARS], one.file[:NAME_CHARS], one.line, one.column) for one in trace.frames[:FRAMES]
    )
    causes = tuple(_cleaned(one, clean) for one in trace.causes[:8])
    return StackTrace(trace.language, trace.type[:NAME_CHARS], clean(trace.message)[:MESSAGE_CHARS], frames, causes)


def command_key(command: str) -> str:
    """Return what a command is known by: without where it is run, and without what only cuts its output."""
    bare = _CHANGES_PLACE.sub("", command.strip())
    while True:
        shorter = _PASSED_ON.sub("", bare)
        if shorter == bare or not shorter:
            break
        bare = shorter
    return " ".join(bare.split())[:_KEY_CHARS]


def mark_of(*parts: str) -> str:
    """Return the same id for the same parts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]
