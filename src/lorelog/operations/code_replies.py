"""What the operations that ask about code answer, and the way there from values. Fields that memd has bear its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from lorelog.core.code import Symbol
    from lorelog.core.code_answers import Caller, CodeReply, Definition, Importing, Outlined, Reference


class SymbolShape(TypedDict):
    """A symbol in its file. Lines and columns count from 1; the end is the place after the last character."""

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


class DefinitionShape(SymbolShape):
    """A symbol, and its file."""

    file_path: str
    path: str
    language: str


class ReferenceShape(TypedDict):
    """A use of a symbol."""

    file_path: str
    path: str
    line: int
    col: int
    use: str
    name: str
    container: str
    certainty: str
    text: str


class CallerShape(TypedDict):
    """Who calls a symbol, and where."""

    caller_name: str
    caller_file: str
    caller_kind: str
    caller_container: str
    caller_line: int
    path: str
    call_line: int
    call_col: int
    callee: str
    depth: int
    certainty: str
    text: str


class ImportShape(TypedDict):
    """An import."""

    importing_file: str
    path: str
    import_line: int
    import_col: int
    module: str
    name: str
    alias: str
    text: str


class OutlinedShape(TypedDict):
    """A file, and the symbols in it."""

    file_path: str
    path: str
    language: str
    lines: int
    broken: int
    problem: str
    symbols: list[SymbolShape]


class DefinitionsShape(TypedDict):
    """Definitions, nearest first."""

    name: str
    definitions: list[DefinitionShape]
    total: int
    notes: list[str]


class ReferencesShape(TypedDict):
    """Uses of a symbol: the surest first, and of those the nearest to its definition."""

    name: str
    definitions: list[DefinitionShape]
    references: list[ReferenceShape]
    total: int
    doubtful: int
    notes: list[str]


class CallersShape(TypedDict):
    """Callers of a symbol: the nearest in the chain of calls first."""

    name: str
    definitions: list[DefinitionShape]
    callers: list[CallerShape]
    total: int
    doubtful: int
    notes: list[str]


class ImportsShape(TypedDict):
    """Who imports a module."""

    module: str
    imports: list[ImportShape]
    total: int
    notes: list[str]


class OutlineShape(TypedDict):
    """What is defined in a file, or in the files of a folder."""

    path: str
    files: list[OutlinedShape]
    total: int
    notes: list[str]


class CodeSearchShape(TypedDict):
    """Symbols, the most alike first."""

    query: str
    definitions: list[DefinitionShape]
    total: int
    notes: list[str]


class CodeAnswerShape(TypedDict):
    """What the code says to a question that was typed into a search; only what was asked for is there."""

    verb: str
    about: str
    definitions: NotRequired[list[DefinitionShape]]
    references: NotRequired[list[ReferenceShape]]
    callers: NotRequired[list[CallerShape]]
    imports: NotRequired[list[ImportShape]]
    files: NotRequired[list[OutlinedShape]]
    total: int
    notes: list[str]


def definitions_shape(reply: CodeReply) -> DefinitionsShape:
    """Return definitions as JSON."""
    return {
        "name": reply.about,
        "definitions": [_definition_shape(one) for one in reply.definitions],
        "total": reply.total,
        "notes": list(reply.notes),
    }


def references_shape(reply: CodeReply) -> ReferencesShape:
    """Return references as JSON."""
    return {
        "name": reply.about,
        "definitions": [_definition_shape(one) for one in reply.definitions],
        "references": [_reference_shape(one) for one in reply.references],
        "total": reply.total,
        "doubtful": reply.doubtful,
        "notes": list(reply.notes),
    }


def callers_shape(reply: CodeReply) -> CallersShape:
    """Return callers as JSON."""
    return {
        "name": reply.about,
        "definitions": [_definition_shape(one) for one in reply.definitions],
        "callers": [_caller_shape(one) for one in reply.callers],
        "total": reply.total,
        "doubtful": reply.doubtful,
        "notes": list(reply.notes),
    }


def imports_shape(reply: CodeReply) -> ImportsShape:
    """Return imports as JSON."""
    return {
        "module": reply.about,
        "imports": [_import_shape(one) for one in reply.imports],
        "total": reply.total,
        "notes": list(reply.notes),
    }


def outline_shape(reply: CodeReply) -> OutlineShape:
    """Return an outline as JSON."""
    return {
        "path": reply.about,
        "files": [_outlined_shape(one) for one in reply.files],
        "total": reply.total,
        "notes": list(reply.notes),
    }


def code_search_shape(reply: CodeReply) -> CodeSearchShape:
    """Return symbols that were searched for as JSON."""
    return {
        "query": reply.about,
        "definitions": [_definition_shape(one) for one in reply.definitions],
        "total": reply.total,
        "notes": list(reply.notes),
    }


def code_answer_shape(reply: CodeReply) -> CodeAnswerShape:
    """Return the answer to a question that was typed into a search."""
    shape: CodeAnswerShape = {
        "verb": reply.verb.value,
        "about": reply.about,
        "total": reply.total,
        "notes": list(reply.notes),
    }
    if reply.definitions:
        shape["definitions"] = [_definition_shape(one) for one in reply.definitions]
    if reply.references:
        shape["references"] = [_reference_shape(one) for one in reply.references]
    if reply.callers:
        shape["callers"] = [_caller_shape(one) for one in reply.callers]
    if reply.imports:
        shape["imports"] = [_import_shape(one) for one in reply.imports]
    if reply.files:
        shape["files"] = [_outlined_shape(one) for one in reply.files]
    return shape


def _symbol_shape(symbol: Symbol) -> SymbolShape:
    return {
        "name": symbol.name,
        "kind": symbol.kind.value,
        "container": symbol.container,
        "line_start": symbol.span.start_line,
        "line_end": symbol.span.end_line,
        "col_start": symbol.span.start_column,
        "col_end": symbol.span.end_column,
        "name_line": symbol.name_line,
        "name_col": symbol.name_column,
        "signature": symbol.signature,
        "docstring": symbol.docstring,
        "visibility": symbol.visibility,
    }


def _definition_shape(one: Definition) -> DefinitionShape:
    return {
        "file_path": one.spot.absolute,
        "path": one.spot.path,
        "language": one.spot.language,
        **_symbol_shape(one.symbol),
    }


def _reference_shape(one: Reference) -> ReferenceShape:
    return {
        "file_path": one.spot.absolute,
        "path": one.spot.path,
        "line": one.spot.line,
        "col": one.spot.column,
        "use": one.use.value,
        "name": one.name,
        "container": one.container,
        "certainty": one.certainty.value,
        "text": one.text,
    }


def _caller_shape(one: Caller) -> CallerShape:
    return {
        "caller_name": one.name,
        "caller_file": one.spot.absolute,
        "caller_kind": one.kind.value,
        "caller_container": one.container,
        "caller_line": one.line_start,
        "path": one.spot.path,
        "call_line": one.spot.line,
        "call_col": one.spot.column,
        "callee": one.callee,
        "depth": one.depth,
        "certainty": one.certainty.value,
        "text": one.text,
    }


def _import_shape(one: Importing) -> ImportShape:
    return {
        "importing_file": one.spot.absolute,
        "path": one.spot.path,
        "import_line": one.spot.line,
        "import_col": one.spot.column,
        "module": one.module,
        "name": one.name,
        "alias": one.alias,
        "text": one.text,
    }


def _outlined_shape(one: Outlined) -> OutlinedShape:
    return {
        "file_path": one.absolute,
        "path": one.path,
        "language": one.language,
        "lines": one.lines,
        "broken": one.broken,
        "problem": one.problem,
        "symbols": [_symbol_shape(symbol) for symbol in one.symbols],
    }
