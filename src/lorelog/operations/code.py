"""Operations on the code of working trees: `code.*`. Fields that memd has too have memd's names."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from lorelog.core.code import Certainty, SymbolKind, UseKind
from lorelog.core.code_reply import CodeReply
from lorelog.core.errors import ModelError, NotFound, UsageError
from lorelog.core.paths import path_exists
from lorelog.core.query import Filters, Hit
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand
from lorelog.operations.requests import EmptyRequest, FilePath, OperationRequest, ScopedRequest, about, resolve_path
from lorelog.services.code.index_run import CodeIndexReport, CodeTree, IndexedTrees
from lorelog.services.code.navigation import CodeNavigator, CodeQueryOptions, SymbolQuery, parse_name
from lorelog.services.lines.explain import FileMemories, LineReason
from lorelog.services.places.root_selection import real_path
from lorelog.services.places.workspace import find_project

OPERATIONS = OperationFamily()
_SYMBOL_OPTIONS = {"path": "--in", "container": "--of"}
_SYMBOL_METAVARS = {"container": "NAME", "kind": "KIND"}
SymbolName = Annotated[str, Meta(min_length=1, max_length=1000)]
SymbolKindName = Literal["function", "method", "class", "interface", "type", "enum", "variable", "constant", "module"]
UseKinds = Annotated[Sequence[Literal["call", "read", "write", "type", "import"]], Meta(max_length=10)]
CertaintyName = Literal["exact", "likely", "name"]
_Language = Annotated[str, about("Only code in this language.", max_length=64)]
_Kind = Annotated[
    SymbolKindName | None,
    about("Only symbols of this kind: function, method, class, interface, type, enum, variable, constant, module."),
]


class CodeIndexRequest(OperationRequest, frozen=True):
    """A working tree to index."""

    path: Annotated[
        FilePath | None,
        about("A folder or file of the working tree, to index only that part; the current tree if not given."),
    ] = None
    force: Annotated[bool, about("Parse every file again, changed or not.")] = False


class CodeForgetRequest(OperationRequest, frozen=True):
    """A working tree to forget."""

    path: Annotated[FilePath | None, about("A path of the working tree; the current tree if not given.")] = None


class CodeRequest(OperationRequest, frozen=True, kw_only=True):
    """Which code to search, and how many results to return."""

    all_projects: Annotated[bool, about("Search every indexed working tree, not only this one.")] = False
    limit: Annotated[int, about("Maximum number of results.", ge=1, le=10_000)] = 100


class SymbolRequest(CodeRequest, frozen=True):
    """A symbol, and properties that distinguish it from others of its name."""

    name: Annotated[SymbolName, about("Name of a symbol, optionally with its container: parse, Engine.search.")]
    path: Annotated[FilePath | None, about("Only the symbol that is defined in this file, or below this folder.")] = (
        None
    )
    line: Annotated[
        Annotated[int, Meta(ge=1)] | None, about("With path: only the symbol whose definition has this line.")
    ] = None
    container: Annotated[str, about("Only symbols inside this class or other symbol.", max_length=1000)] = ""
    kind: _Kind = None
    language: _Language = ""


class DefinitionRequest(SymbolRequest, frozen=True, kw_only=True):
    """A symbol whose definitions to find."""

    implementors: Annotated[
        bool, about("Find its subclasses and implementations instead; of a method, the methods that override it.")
    ] = False


class ReferencesRequest(SymbolRequest, frozen=True, kw_only=True):
    """A symbol whose uses to find."""

    uses: Annotated[UseKinds, about("Only these kinds of uses; all if none are given.")] = []
    certainty: Annotated[
        CertaintyName, about("Minimum certainty of a use; `name` includes every use of the same name.")
    ] = "likely"
    below: Annotated[FilePath | None, about("Only uses in this file, or below this folder.")] = None


class CallersRequest(SymbolRequest, frozen=True, kw_only=True):
    """A symbol whose callers to find."""

    callees: Annotated[bool, about("Find what it calls instead: functions, methods, and classes that it creates.")] = (
        False
    )
    depth: Annotated[int, about("2 also finds the callers of its callers, 3 theirs.", ge=1, le=3)] = 1
    certainty: Annotated[
        CertaintyName, about("Minimum certainty of a call; `name` includes every call of the same name.")
    ] = "likely"
    below: Annotated[FilePath | None, about("Only calls in this file, or below this folder.")] = None


class ImportsRequest(CodeRequest, frozen=True):
    """A module whose importers to find."""

    module: Annotated[SymbolName, about("A module, a package, a file of the project, or an imported name.")]
    below: Annotated[FilePath | None, about("Only imports in this file, or below this folder.")] = None


class OutlineRequest(CodeRequest, frozen=True):
    """A file or folder whose symbols to list."""

    path: Annotated[FilePath, about("A file, or a folder to list the top-level symbols of its files.")] = "."
    depth: Annotated[
        Annotated[int, Meta(ge=1, le=40)] | None,
        about("Number of nesting levels; if not given, all for a file and one for a folder."),
    ] = None
    unused: Annotated[bool, about("Only symbols that nothing in the code uses; an import alone is not a use.")] = False


class _NameRequest(CodeRequest, frozen=True):
    query: Annotated[SymbolName, about("Part of a name, or a misspelling of it.")]


class CodeSearchRequest(_NameRequest, frozen=True, kw_only=True):
    """Part of a symbol's name."""

    kind: _Kind = None
    language: _Language = ""
    below: Annotated[FilePath | None, about("Only in this file, or below this folder.")] = None
    limit: Annotated[int, about("Maximum number of results.", ge=1, le=10_000)] = 20


class LineRequest(ScopedRequest, frozen=True):
    """A line of a file."""

    place: Annotated[
        str, about("FILE:LINE or FILE:SYMBOL; FILE is in this working tree.", min_length=3, max_length=4096)
    ]


class MemoriesRequest(OperationRequest, frozen=True):
    """A file."""

    path: Annotated[FilePath, about("A file of this working tree.")]


class CodeForgetReply(OperationReply, frozen=True, kw_only=True):
    """The forgotten working tree, and its number of files."""

    root: str
    files: int


class CodeStatusReply(OperationReply, frozen=True, kw_only=True):
    """All indexed working trees, and the size of their index."""

    trees: tuple[CodeTree, ...]
    bytes: int


@OPERATIONS.declare(
    "code.index", ShellCommand("code index", ("path",)), errors=(NotFound,), writes=True, needs="index_code"
)
def index_tree(engine: Engine, request: CodeIndexRequest, call: RequestContext) -> CodeIndexReport:
    """Index the code of a working tree; from then on the daemon keeps its index up to date.

    Only changed files are read, and files that Git ignores are skipped. A file that cannot be read is listed in
    `problems` and does not stop the run.
    """
    trees = _open_trees(engine)
    if not call.own and (request.path is not None or not trees.is_registered()):
        raise UsageError(
            "only the shell and Python can choose the code to index", hint="run 'lorelog code index' there once"
        )
    path = "" if request.path is None else resolve_path(request.path, call.directory)
    with call.yield_write_slot():  # code has its own database and lock, so other writers need not wait
        return trees.index(path, scan=engine.defaults.scan, force=request.force, progress=call.progress)


@OPERATIONS.declare("code.forget", errors=(NotFound,), writes=True, needs="maintain")
def forget_tree(engine: Engine, request: CodeForgetRequest, call: RequestContext) -> CodeForgetReply:
    """Delete the index of a working tree's code and stop updating it. The files stay."""
    with call.yield_write_slot():
        root, files = _open_trees(engine).forget(
            "" if request.path is None else resolve_path(request.path, call.directory)
        )
    return CodeForgetReply(root=root, files=files)


@OPERATIONS.declare("code.status", ShellCommand("code status"))
def tree_status(engine: Engine, request: EmptyRequest, call: RequestContext) -> CodeStatusReply:
    """List the indexed working trees: files, symbols, languages, and skipped files."""
    trees = _open_trees(engine)
    return CodeStatusReply(trees=tuple(trees.all()), bytes=trees.size())


@OPERATIONS.declare(
    "code.find_definition", ShellCommand("code def", ("name",), _SYMBOL_OPTIONS, metavars=_SYMBOL_METAVARS)
)
def find_definition(engine: Engine, request: DefinitionRequest, call: RequestContext) -> CodeReply:
    """Find where a symbol is defined: file, exact span, signature and docstring of each definition, nearest first."""
    query = _symbol_query(engine, request, call)
    navigator = _navigator(engine, request, call)
    return navigator.find_definition(query, request.limit, implementors=request.implementors)


@OPERATIONS.declare(
    "code.find_references", ShellCommand("code refs", ("name",), _SYMBOL_OPTIONS, metavars=_SYMBOL_METAVARS)
)
def find_references(engine: Engine, request: ReferencesRequest, call: RequestContext) -> CodeReply:
    """Find where a symbol is used: calls, reads, writes, types and imports.

    Each use has the certainty that it means this symbol: `exact`, `likely`, or only the same `name`.
    """
    options = CodeQueryOptions(
        request.limit,
        Certainty(request.certainty),
        frozenset(UseKind(use) for use in request.uses),
        _path_filter(engine, request.below, call),
    )
    query = _symbol_query(engine, request, call)
    return _navigator(engine, request, call).find_references(query, options)


@OPERATIONS.declare(
    "code.find_callers", ShellCommand("code callers", ("name",), _SYMBOL_OPTIONS, metavars=_SYMBOL_METAVARS)
)
def find_callers(engine: Engine, request: CallersRequest, call: RequestContext) -> CodeReply:
    """Find the functions, methods and files that call a symbol, or what it calls, up to three calls away."""
    below = _path_filter(engine, request.below, call)
    options = CodeQueryOptions(request.limit, Certainty(request.certainty), below=below)
    query = _symbol_query(engine, request, call)
    navigator = _navigator(engine, request, call)
    return navigator.find_callers(query, options, request.depth, callees=request.callees)


@OPERATIONS.declare("code.find_imports", ShellCommand("code imports", ("module",)))
def find_imports(engine: Engine, request: ImportsRequest, call: RequestContext) -> CodeReply:
    """Find the files that import a module, or a name from one."""
    options = CodeQueryOptions(request.limit, below=_path_filter(engine, request.below, call))
    return _navigator(engine, request, call).find_imports(request.module, options)


@OPERATIONS.declare("code.outline", ShellCommand("code outline", ("path",)), errors=(NotFound,))
def outline(engine: Engine, request: OutlineRequest, call: RequestContext) -> CodeReply:
    """List the symbols of a file, or of the files in a folder."""
    path = _path_filter(engine, request.path, call)
    return _navigator(engine, request, call).outline(path, request.depth, request.limit, unused=request.unused)


@OPERATIONS.declare("code.why", ShellCommand("code why", ("place",)), errors=(NotFound, ModelError), warms=True)
def why_line(engine: Engine, request: LineRequest, call: RequestContext) -> LineReason:
    """Say why a line of code exists: its commit, the session that wrote it, the prompt, and whether the reasons still hold.

    The evidence is named, the strongest first: the text of an edit in a captured session; notes of git-ai and Agent Trace, and
    trailers, which are the repository's own words; time and file, only a hint. Without evidence about the line itself no
    session is named, and `unknown` says why. Commits of bots are never attributed.
    """
    from lorelog.ingest.redaction.redact import redact
    from lorelog.services.lines.explain import ReasonSources, explain_line

    def search(query: str, k: int, types: tuple[str, ...]) -> Sequence[Hit]:
        options = replace(engine.defaults.search, k=k, token_budget=0, min_relevance=0.0, filters=Filters(types=types))
        return engine.search(query, options, all_projects=request.all_projects).hits

    sources = ReasonSources(
        tables=engine.traces().tables(),
        projects=engine.log_projects(all_projects=request.all_projects),
        root=tree_root(engine, call),
        search=search,
        of_session=lambda filters, session: engine.store.recent(filters, 20, session=session),
        get=lambda memory: engine.memories().get(memory).memory,
        state_of=engine.lifecycle_index().state_of,
        clean=lambda text: redact(text, engine.defaults.capture.patterns).text,
    )
    reason = explain_line(request.place, call.directory, sources, time.time())
    # HTTP and MCP read no files: only what Git knows is quoted.
    return reason if reason.commit or call.names_files else replace(reason, text="")


@OPERATIONS.declare("code.search", ShellCommand("code search", ("query",), metavars={"kind": "KIND"}))
def search(engine: Engine, request: CodeSearchRequest, call: RequestContext) -> CodeReply:
    """Find symbols by part of their name, or a misspelling of it."""
    query = SymbolQuery(
        request.query, kind=SymbolKind(request.kind) if request.kind else None, language=request.language
    )
    options = CodeQueryOptions(request.limit, below=_path_filter(engine, request.below, call))
    return _navigator(engine, request, call).search(request.query, query, options)


def _navigator(engine: Engine, request: CodeRequest, call: RequestContext) -> CodeNavigator:
    return CodeNavigator(engine.code(all_projects=request.all_projects), os.path.realpath(call.directory))


@OPERATIONS.declare("code.memories", ShellCommand("code memories", ("path",)), errors=(NotFound,), warms=True)
def file_memories(engine: Engine, request: MemoriesRequest, call: RequestContext) -> FileMemories:
    """List the memories that name a file or something in it, with their freshness."""
    from lorelog.core.options import ListOptions
    from lorelog.services.lines.explain import find_memories, locate_file
    from lorelog.services.standing.memories import MAX_STANDING, is_unfiled

    lifecycle = engine.lifecycle_index()
    found = engine.store.authored_chunks(engine.scoped(Filters(), all_projects=False), MAX_STANDING)
    shown = (each for each in found if not (lifecycle.is_record(each) or is_unfiled(each)))
    root = tree_root(engine, call)
    file = locate_file(os.fspath(request.path), call.directory, root)
    memories = find_memories(
        file,
        root,
        [each for each in shown if not lifecycle.hides(each, ListOptions())],
        verdicts=engine.memories().check_all,
        with_origin=lambda stored: engine.ownership().with_shown_anchor(stored, engine.store),
    )
    return FileMemories(path=os.path.relpath(file, root), memories=memories)


def tree_root(engine: Engine, call: RequestContext) -> str:
    """Return the working tree of the caller's directory, which may be a linked one of the project."""
    from lorelog.light.git_location import find_worktree

    project = engine.place.project
    return find_worktree(call.directory)[1] if find_project(call.directory).id == project.id else project.root


def _open_trees(engine: Engine) -> IndexedTrees:
    return IndexedTrees(engine.place, engine.code().tables)


def _symbol_query(engine: Engine, request: SymbolRequest, call: RequestContext) -> SymbolQuery:
    if request.line and not request.path:
        raise UsageError("line requires path", hint="give the path of the file")
    name, container = parse_name(request.name, request.container)
    return SymbolQuery(
        name,
        container,
        _path_filter(engine, request.path, call),
        request.line or 0,
        SymbolKind(request.kind) if request.kind else None,
        request.language,
    )


def _path_filter(engine: Engine, path: str | os.PathLike[str] | None, call: RequestContext) -> str:
    """Return the real path of a path relative to the caller's directory or to the root of the working tree."""
    if not path:
        return ""
    from_directory = real_path(resolve_path(path, call.directory))
    if path_exists(from_directory) or os.fspath(path).startswith("/"):
        return from_directory
    from_root = real_path(f"{engine.place.project.root}/{path}")
    return from_root if path_exists(from_root) else from_directory
