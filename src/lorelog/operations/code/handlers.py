"""Handlers of `code.*`. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lorelog.core.code import Certainty, SymbolKind, UseKind
from lorelog.core.errors import UsageError
from lorelog.engine import Engine
from lorelog.operations.arguments import resolve_path
from lorelog.operations.code import schema
from lorelog.operations.code.serialize import code_reply
from lorelog.operations.operation import RequestContext
from lorelog.operations.replies import reply_from
from lorelog.operations.requests import EmptyRequest

if TYPE_CHECKING:
    from lorelog.services.code.lookup import SymbolQuery
    from lorelog.services.code.navigation import CodeNavigator
    from lorelog.services.code.working_trees import IndexedTrees


def index_tree(engine: Engine, request: schema.CodeIndexRequest, call: RequestContext) -> schema.CodeIndexReply:
    """Index the code of a working tree; from then on the daemon keeps its index up to date.

    Only changed files are read, and files that Git ignores are skipped. A file that cannot be read is listed in
    `problems` and does not stop the run.
    """
    trees = _open_trees(engine)
    if not call.own and (request.path is not None or not trees.is_registered()):
        raise UsageError(
            "only the shell and Python can choose the code to index", hint="run 'lorelog code index' there once"
        )
    path = "" if request.path is None else resolve_path(request.path, call)
    with call.yield_write_slot():  # code has its own database and lock, so other writers need not wait
        report = trees.index(path, scan=engine.defaults.scan, force=request.force, progress=call.progress)
    return reply_from(report, schema.CodeIndexReply)


def forget_tree(engine: Engine, request: schema.CodeForgetRequest, call: RequestContext) -> schema.CodeForgetReply:
    """Delete the index of a working tree's code and stop updating it. The files stay."""
    with call.yield_write_slot():
        root, files = _open_trees(engine).forget("" if request.path is None else resolve_path(request.path, call))
    return schema.CodeForgetReply(root=root, files=files)


def tree_status(engine: Engine, request: EmptyRequest, call: RequestContext) -> schema.CodeStatusReply:
    """List the indexed working trees: files, symbols, languages, and skipped files."""
    trees = _open_trees(engine)
    return schema.CodeStatusReply(
        trees=tuple(
            reply_from(
                tree,
                schema.CodeTree,
                indexed_at=tree.indexed_at or None,
                commit=tree.head or None,
                left_out=tuple(schema.SkippedFile(path=file.absolute, reason=file.problem) for file in tree.left_out),
            )
            for tree in trees.all()
        ),
        bytes=trees.size(),
    )


def find_definition(engine: Engine, request: schema.DefinitionRequest, call: RequestContext) -> schema.DefinitionsReply:
    """Find where a symbol is defined: file, exact span, signature and docstring of each definition, nearest first."""
    query = _symbol_query(engine, request, call)
    return code_reply(_navigator(engine, request, call).find_definition(query, request.limit), schema.DefinitionsReply)


def find_references(engine: Engine, request: schema.ReferencesRequest, call: RequestContext) -> schema.ReferencesReply:
    """Find where a symbol is used: calls, reads, writes, types and imports.

    Each use has the certainty that it means this symbol: `exact`, `likely`, or only the same `name`.
    """
    from lorelog.services.code.navigation import CodeQueryOptions

    options = CodeQueryOptions(
        request.limit,
        Certainty(request.certainty),
        frozenset(UseKind(use) for use in request.uses),
        _path_filter(engine, request.below, call),
    )
    query = _symbol_query(engine, request, call)
    return code_reply(_navigator(engine, request, call).find_references(query, options), schema.ReferencesReply)


def find_callers(engine: Engine, request: schema.CallersRequest, call: RequestContext) -> schema.CallersReply:
    """Find the functions, methods and files that call a symbol, up to three calls away."""
    from lorelog.services.code.navigation import CodeQueryOptions

    below = _path_filter(engine, request.below, call)
    options = CodeQueryOptions(request.limit, Certainty(request.certainty), below=below)
    query = _symbol_query(engine, request, call)
    reply = _navigator(engine, request, call).find_callers(query, options, request.depth)
    return code_reply(reply, schema.CallersReply)


def find_imports(engine: Engine, request: schema.ImportsRequest, call: RequestContext) -> schema.ImportsReply:
    """Find the files that import a module, or a name from one."""
    from lorelog.services.code.navigation import CodeQueryOptions

    options = CodeQueryOptions(request.limit, below=_path_filter(engine, request.below, call))
    return code_reply(_navigator(engine, request, call).find_imports(request.module, options), schema.ImportsReply)


def outline(engine: Engine, request: schema.OutlineRequest, call: RequestContext) -> schema.OutlineReply:
    """List the symbols of a file, or of the files in a folder."""
    path = _path_filter(engine, request.path, call)
    reply = _navigator(engine, request, call).outline(path, request.depth, request.limit)
    return code_reply(reply, schema.OutlineReply)


def search(engine: Engine, request: schema.CodeSearchRequest, call: RequestContext) -> schema.CodeSearchReply:
    """Find symbols by part of their name, its initials, or a misspelling of it."""
    from lorelog.services.code.lookup import SymbolQuery
    from lorelog.services.code.navigation import CodeQueryOptions

    query = SymbolQuery(
        request.query, kind=SymbolKind(request.kind) if request.kind else None, language=request.language
    )
    options = CodeQueryOptions(request.limit, below=_path_filter(engine, request.below, call))
    reply = _navigator(engine, request, call).search(request.query, query, options)
    return code_reply(reply, schema.CodeSearchReply)


def _navigator(engine: Engine, request: schema.CodeRequest, call: RequestContext) -> CodeNavigator:
    from lorelog.services.code.navigation import CodeNavigator

    return CodeNavigator(engine.code(all_projects=request.all_projects), os.path.realpath(call.directory))


def _open_trees(engine: Engine) -> IndexedTrees:
    from lorelog.services.code.working_trees import IndexedTrees

    return IndexedTrees(engine.place, engine.code().tables)


def _symbol_query(engine: Engine, request: schema.SymbolRequest, call: RequestContext) -> SymbolQuery:
    from lorelog.services.code.lookup import SymbolQuery, parse_name

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
    from lorelog.services.places.root_selection import real_path

    from_directory = real_path(resolve_path(path, call))
    if os.path.exists(from_directory) or os.path.isabs(path):  # noqa: PTH110, PTH117
        return from_directory
    from_root = real_path(os.path.join(engine.place.project.root, path))  # noqa: PTH118
    return from_root if os.path.exists(from_root) else from_directory  # noqa: PTH110
