"""Replies to code queries: definitions, uses, callers, imports and outlines.

Lines and columns count from 1; the end of a span is exclusive. `file_path` is absolute, `path` is relative to the working
tree. Apart from `core.code`, because every search imports this and few need the parser's types.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lorelog.core.serializable import ReplyItems, Serializable


class SymbolInfo(Serializable, Struct, frozen=True, kw_only=True):
    """A symbol in its file. Lines and columns count from 1; the end is exclusive."""

    name: str
    kind: str
    container: str
    line_start: int
    line_end: int
    col_start: int
    col_end: int
    name_line: int
    name_col: int
    signature: str
    docstring: str
    visibility: str


class DefinitionInfo(SymbolInfo, frozen=True, kw_only=True):
    """A symbol, and its file."""

    file_path: str
    path: str
    language: str


class ReferenceInfo(Serializable, Struct, frozen=True, kw_only=True):
    """A use of a symbol."""

    file_path: str
    path: str
    line: int
    col: int
    use: str
    name: str
    """The name as used there."""
    container: str
    """The enclosing definitions, outermost first, joined by dots; empty at the top of a file."""
    certainty: str
    text: str
    """Current text of the line."""


class CallerInfo(Serializable, Struct, frozen=True, kw_only=True):
    """A caller of a symbol, and the location of the call."""

    caller_name: str
    """The function, method or class that contains the call; for a call at the top of a file, the file."""
    caller_file: str
    caller_kind: str
    caller_container: str
    caller_line: int
    """First line of the caller's definition; 1 for a file."""
    path: str
    call_line: int
    call_col: int
    callee: str
    """Full name of the called symbol: the queried one or, at a greater depth, one of its callers."""
    depth: int
    certainty: str
    text: str


class ImportInfo(Serializable, Struct, frozen=True, kw_only=True):
    """An import statement."""

    importing_file: str
    path: str
    import_line: int
    import_col: int
    module: str
    """As written."""
    name: str
    alias: str
    text: str


class FileOutlineInfo(Serializable, Struct, frozen=True, kw_only=True):
    """A file, and its symbols."""

    file_path: str
    path: str
    language: str
    lines: int
    broken: int
    """First line that could not be parsed; 0 if all could."""
    problem: str
    """Why the file could not be read or parsed."""
    symbols: tuple[SymbolInfo, ...]


class CodeReply(ReplyItems[Any], Struct, frozen=True, kw_only=True):
    """Answer to a code query. Lists that it does not ask for are empty; its items are the ones that it asks for."""

    items_field = "definitions"

    verb: str
    """`definition`, `references`, `callers`, `callees`, `imports`, `outline` or `search`."""
    about: str
    """The queried symbol, module, path or words."""
    definitions: tuple[DefinitionInfo, ...] = ()
    """The queried symbol's definitions; with references and callers, the definitions they refer to; of callees those that are called."""
    references: tuple[ReferenceInfo, ...] = ()
    callers: tuple[CallerInfo, ...] = ()
    """The callers; of callees the calls."""
    imports: tuple[ImportInfo, ...] = ()
    files: tuple[FileOutlineInfo, ...] = ()
    total: int
    """Total number of results; more than are included if a limit applied."""
    doubtful: int = 0
    """Uses of the same name that were left out because only the name matches."""
    notes: tuple[str, ...]

    def _items(self) -> tuple[Any, ...]:
        lists = {"references": self.references, "callers": self.callers, "imports": self.imports, "outline": self.files}
        return lists.get(self.verb, self.definitions)
