"""What questions about code are answered with: definitions, references, callers, imports, outlines.

Paths are relative to the working tree that they are below, whose real path is `root`; lines and columns count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lorelog.core.code import Symbol, SymbolKind, UseKind


class Certainty(StrEnum):
    """How sure it is that a use means the definition that was asked about.

    Exact where scopes, imports or types say so; likely where nothing speaks against it and no other definition could be
    meant; `name` where the name is the same, and that is all that is known.
    """

    EXACT = "exact"
    LIKELY = "likely"
    NAME = "name"


class CodeVerb(StrEnum):
    """What is asked."""

    DEFINITION = "definition"
    REFERENCES = "references"
    CALLERS = "callers"
    IMPORTS = "imports"
    OUTLINE = "outline"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Spot:
    """A file of a working tree, and a place in it."""

    root: str
    path: str
    language: str
    line: int
    column: int

    @property
    def absolute(self) -> str:
        """Return where its file lies."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol, and where its name stands in its definition."""

    spot: Spot
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Reference:
    """A use of a symbol."""

    spot: Spot
    name: str
    """As it is called there."""
    use: UseKind
    certainty: Certainty
    container: str = ""
    """The definitions around it, outermost first, joined by dots; empty at the top of a file."""
    text: str = ""
    """Its line, as the file has it now."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a symbol, and where."""

    spot: Spot
    """Of the call."""
    name: str
    """Of the function, method or class that the call stands in; of a call at the top of a file, the file's."""
    kind: SymbolKind
    container: str
    line_start: int
    """Where the caller's definition begins; 1 for a file."""
    callee: str
    """What is called, by its full name: what was asked for, or at a greater depth one of its callers."""
    depth: int
    certainty: Certainty
    text: str = ""


@dataclass(frozen=True, slots=True)
class Importing:
    """A file that imports a module, or something out of it."""

    spot: Spot
    module: str
    """As it is written."""
    name: str
    alias: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Outlined:
    """A file and the symbols in it."""

    root: str
    path: str
    language: str
    lines: int
    symbols: tuple[Symbol, ...]
    broken: int = 0
    """First line that could not be parsed; 0 where all could be."""
    problem: str = ""
    """Why nothing is known of what is in it."""

    @property
    def absolute(self) -> str:
        """Return where it lies."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class CodeReply:
    """The answer to a question about code. What was not asked for is empty."""

    verb: CodeVerb
    about: str
    """The symbol, the module, the path, or the words that were asked for."""
    definitions: tuple[Definition, ...] = ()
    """Of the symbol that was asked about: with references and callers, those that are meant."""
    references: tuple[Reference, ...] = ()
    callers: tuple[Caller, ...] = ()
    imports: tuple[Importing, ...] = ()
    files: tuple[Outlined, ...] = ()
    total: int = 0
    """How many there are of what was asked for; more than are here where a limit cut them off."""
    doubtful: int = 0
    """Uses of the same name that were left out because nothing but the name speaks for them."""
    notes: tuple[str, ...] = ()
