"""Requests and replies of `code.*`. Fields that memd has too have memd's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.memory import FileProblem
from lorelog.core.serializable import ReplyItems
from lorelog.operations.replies import (
    CallerInfo,
    DefinitionInfo,
    FileOutlineInfo,
    ImportInfo,
    OperationReply,
    ReferenceInfo,
)
from lorelog.operations.requests import OperationRequest, Path

SymbolName = Annotated[str, Meta(min_length=1, max_length=1000)]
SymbolKindName = Literal["function", "method", "class", "interface", "type", "enum", "variable", "constant", "module"]
UseKinds = Annotated[Sequence[Literal["call", "read", "write", "type", "import"]], Meta(max_length=10)]
CertaintyName = Literal["exact", "likely", "name"]
_Language = Annotated[Annotated[str, Meta(max_length=64)], Meta(description="Only code in this language.")]
_Kind = Annotated[
    SymbolKindName | None,
    Meta(
        description="Only symbols of this kind: function, method, class, interface, type, enum, variable, constant, module."
    ),
]


class CodeIndexRequest(OperationRequest, frozen=True):
    """A working tree to index."""

    path: Annotated[
        Path | None,
        Meta(
            description="A folder or file of the working tree, to index only that part; the current tree if not given."
        ),
    ] = None
    force: Annotated[bool, Meta(description="Parse every file again, changed or not.")] = False


class CodeForgetRequest(OperationRequest, frozen=True):
    """A working tree to forget."""

    path: Annotated[Path | None, Meta(description="A path of the working tree; the current tree if not given.")] = None


class CodeRequest(OperationRequest, frozen=True, kw_only=True):
    """Which code to search, and how many results to return."""

    all_projects: Annotated[bool, Meta(description="Search every indexed working tree, not only this one.")] = False
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of results.")] = 100


class SymbolRequest(CodeRequest, frozen=True):
    """A symbol, and properties that distinguish it from others of its name."""

    name: Annotated[
        SymbolName, Meta(description="Name of a symbol, optionally with its container: parse, Engine.search.")
    ]
    path: Annotated[
        Path | None, Meta(description="Only the symbol that is defined in this file, or below this folder.")
    ] = None
    line: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="With path: only the symbol whose definition has this line."),
    ] = None
    container: Annotated[
        Annotated[str, Meta(max_length=1000)], Meta(description="Only symbols inside this class or other symbol.")
    ] = ""
    kind: _Kind = None
    language: _Language = ""


class DefinitionRequest(SymbolRequest, frozen=True, kw_only=True):
    """A symbol whose definition to find."""


class ReferencesRequest(SymbolRequest, frozen=True, kw_only=True):
    """A symbol whose uses to find."""

    uses: Annotated[UseKinds, Meta(description="Only these kinds of uses; all if none are given.")] = []
    certainty: Annotated[
        CertaintyName, Meta(description="Minimum certainty of a use; `name` includes every use of the same name.")
    ] = "likely"
    below: Annotated[Path | None, Meta(description="Only uses in this file, or below this folder.")] = None


class CallersRequest(SymbolRequest, frozen=True, kw_only=True):
    """A symbol whose callers to find."""

    depth: Annotated[int, Meta(ge=1, le=3, description="2 also finds the callers of its callers, 3 theirs.")] = 1
    certainty: Annotated[
        CertaintyName, Meta(description="Minimum certainty of a call; `name` includes every call of the same name.")
    ] = "likely"
    below: Annotated[Path | None, Meta(description="Only calls in this file, or below this folder.")] = None


class ImportsRequest(CodeRequest, frozen=True):
    """A module whose importers to find."""

    module: Annotated[SymbolName, Meta(description="A module, a package, a file of the project, or an imported name.")]
    below: Annotated[Path | None, Meta(description="Only imports in this file, or below this folder.")] = None


class OutlineRequest(CodeRequest, frozen=True):
    """A file or folder whose symbols to list."""

    path: Annotated[Path, Meta(description="A file, or a folder to list the top-level symbols of its files.")] = "."
    depth: Annotated[
        Annotated[int, Meta(ge=1, le=40)] | None,
        Meta(description="Number of nesting levels; if not given, all for a file and one for a folder."),
    ] = None


class _NameRequest(CodeRequest, frozen=True):
    query: Annotated[SymbolName, Meta(description="Part of a name, its initials, or a misspelling of it.")]


class CodeSearchRequest(_NameRequest, frozen=True, kw_only=True):
    """Part of a symbol's name."""

    kind: _Kind = None
    language: _Language = ""
    below: Annotated[Path | None, Meta(description="Only in this file, or below this folder.")] = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of results.")] = 20


class CodeIndexReply(OperationReply, frozen=True, kw_only=True):
    """Result of indexing code."""

    root: str
    files: int
    changed: int
    unchanged: int
    touched: int
    removed: int
    symbols: int
    bytes: int
    broken: int
    languages: dict[str, int]
    left_out: dict[str, int]
    problems: tuple[FileProblem, ...]
    notes: tuple[str, ...]
    seconds: float


class CodeForgetReply(OperationReply, frozen=True, kw_only=True):
    """The forgotten working tree, and its number of files."""

    root: str
    files: int


class SkippedFile(OperationReply, frozen=True, kw_only=True):
    """A file that was not indexed, and why."""

    path: str
    reason: str


class CodeTree(OperationReply, frozen=True, kw_only=True):
    """An indexed working tree."""

    path: str
    project: str
    parts: tuple[str, ...]
    exists: bool
    files: int
    symbols: int
    languages: dict[str, int]
    indexed_at: str | None
    commit: str | None
    left_out: tuple[SkippedFile, ...]
    left_out_total: int


class CodeStatusReply(OperationReply, frozen=True, kw_only=True):
    """All indexed working trees, and the size of their index."""

    trees: tuple[CodeTree, ...]
    bytes: int


class DefinitionsReply(ReplyItems[DefinitionInfo], OperationReply, frozen=True, kw_only=True):
    """Definitions, nearest first."""

    items_field = "definitions"

    name: str
    definitions: tuple[DefinitionInfo, ...]
    total: int
    notes: tuple[str, ...]


class ReferencesReply(ReplyItems[ReferenceInfo], OperationReply, frozen=True, kw_only=True):
    """Uses of a symbol: the most certain first, then the nearest to its definition."""

    items_field = "references"

    name: str
    definitions: tuple[DefinitionInfo, ...]
    references: tuple[ReferenceInfo, ...]
    total: int
    doubtful: int
    notes: tuple[str, ...]


class CallersReply(ReplyItems[CallerInfo], OperationReply, frozen=True, kw_only=True):
    """Callers of a symbol, the shortest call chain first."""

    items_field = "callers"

    name: str
    definitions: tuple[DefinitionInfo, ...]
    callers: tuple[CallerInfo, ...]
    total: int
    doubtful: int
    notes: tuple[str, ...]


class ImportsReply(ReplyItems[ImportInfo], OperationReply, frozen=True, kw_only=True):
    """Files that import a module."""

    items_field = "imports"

    module: str
    imports: tuple[ImportInfo, ...]
    total: int
    notes: tuple[str, ...]


class OutlineReply(ReplyItems[FileOutlineInfo], OperationReply, frozen=True, kw_only=True):
    """Symbols of a file, or of the files in a folder."""

    items_field = "files"

    path: str
    files: tuple[FileOutlineInfo, ...]
    total: int
    notes: tuple[str, ...]


class CodeSearchReply(ReplyItems[DefinitionInfo], OperationReply, frozen=True, kw_only=True):
    """Symbols, the most similar name first."""

    items_field = "definitions"

    query: str
    definitions: tuple[DefinitionInfo, ...]
    total: int
    notes: tuple[str, ...]
