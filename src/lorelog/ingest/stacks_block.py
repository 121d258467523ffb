"""An error that is being read, line by line: what every language's reader is given and has to say.

A block is opened by a line that begins an error, takes the lines that belong to it and says when it is over. It holds a
bounded number of lines, so that neither a stack of a million frames nor a log that never ends fills the memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto

from lorelog.core.trace import StackTrace

MOST_LINES = 300
"""Lines that are held of the beginning of an error, and as many of its end."""
LINE_CHARS = 2_000
MESSAGE_CHARS = 2_000


class Step(Enum):
    """What a block makes of a line."""

    TAKEN = auto()
    LAST = auto()
    """It was taken, and nothing more will be."""
    OVER = auto()
    """The error has ended before it."""
    FOREIGN = auto()
    """It is somebody else's, put in between."""


class Block(ABC):
    """An error that is being read. `body` is a line without what a log puts before it."""

    reach = 0
    """How many of the lines before the one that opened it are its own."""
    is_apart = False
    """Whether lines of others stand between what it took last and the line that it is asked about."""

    def __init__(self, *lines: str) -> None:
        self._first = [line[:LINE_CHARS] for line in lines]
        self._last: deque[str] = deque(maxlen=MOST_LINES)

    @abstractmethod
    def take(self, body: str) -> Step:
        """Look at the next line, and keep it if it belongs here."""

    @abstractmethod
    def trace(self) -> StackTrace | None:
        """Return the error that was read; None where it was none after all."""

    @property
    def lines(self) -> list[str]:
        """The lines that are held."""
        return [*self._first, *self._last]

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    def keep(self, body: str) -> Step:
        """Hold a line."""
        if len(self._first) < MOST_LINES:
            self._first.append(body[:LINE_CHARS])
        else:
            self._last.append(body[:LINE_CHARS])
        return Step.TAKEN


class Whole(Block):
    """An error that is told in one line."""

    def __init__(self, body: str, trace: StackTrace) -> None:
        super().__init__(body)
        self._trace = trace

    def take(self, body: str) -> Step:
        """Take nothing more."""
        return Step.OVER

    def trace(self) -> StackTrace:
        """Return it."""
        return self._trace


def number(text: str | None) -> int:
    """Return a line or column as it is written, within what a file can have."""
    return min(int(text), 1_000_000_000) if text and text.isascii() and text.isdigit() and len(text) < 12 else 0


def cut(message: str) -> str:
    """Return a message within what is kept of one."""
    return message.strip()[:MESSAGE_CHARS]


def chained(traces: Iterator[StackTrace]) -> StackTrace | None:
    """Return the first of several with the others as its causes."""
    first = next(traces, None)
    if first is None:
        return None
    return StackTrace(first.language, first.type, first.message, first.frames, (*first.causes, *traces))
