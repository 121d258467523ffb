"""What went wrong as programs tell it, and what was called: the values that parsers, the book of traces and its readers share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

LANGUAGES = ("python", "javascript", "rust", "go", "java", "csharp", "ruby", "php", "generic")
"""Whose way of telling an error is recognised; `generic` is a message with a place, or a message alone."""


class Frame(NamedTuple):
    """A call that had not returned. Lines and columns count from 1; 0 where they are not told."""

    function: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class StackTrace:
    """An error as a program printed it."""

    language: str
    type: str
    """`ValueError`, `java.lang.IllegalStateException`, `panic`, `TS2322`; empty where none is told."""
    message: str
    frames: tuple[Frame, ...] = ()
    """Innermost first: where it was raised, then who called that."""
    causes: tuple[StackTrace, ...] = ()
    """What it came from, the nearest first; of a group, its members."""

    @property
    def root(self) -> StackTrace:
        """What it all began with."""
        return self.causes[-1] if self.causes else self


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """An error, and where in a text it stands."""

    trace: StackTrace
    text: str
    """Its lines, without what a log puts before them; a long one without its middle."""
    first_line: int
    last_line: int
    at: datetime | None = None
    """When, as its log says; a time without a zone is the machine's own."""
