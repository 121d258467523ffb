"""Stack traces: the values that parsers, the trace database and its readers share."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

TRACE_LANGUAGES = ("python", "javascript", "rust", "go", "java", "csharp", "ruby", "php", "generic")
"""Supported formats; `generic` is a message with a location, or a message alone."""


class StackFrame(NamedTuple):
    """A call on the stack. Lines and columns count from 1; 0 means unknown."""

    function: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


class StackTrace(Struct, frozen=True):
    """An error as a program printed it."""

    language: str
    type: str
    """`ValueError`, `java.lang.IllegalStateException`, `panic`, `TS2322`; empty if unknown."""
    message: str
    frames: tuple[StackFrame, ...] = ()
    """Innermost first."""
    causes: tuple[StackTrace, ...] = ()
    """Its causes, the nearest first; for a group, its members."""

    @property
    def root(self) -> StackTrace:
        """The root cause."""
        return self.causes[-1] if self.causes else self


class LocatedTrace(Struct, frozen=True):
    """A stack trace and its location in a text."""

    trace: StackTrace
    text: str
    """Its lines without log prefixes; a long one without its middle."""
    first_line: int
    last_line: int
