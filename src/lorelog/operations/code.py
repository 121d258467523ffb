"""The operations that ask about code. The first line of a docstring is its help everywhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lorelog.core.code import SymbolKind, UseKind
from lorelog.core.code_answers import Certainty, CodeReply
from lorelog.core.errors import UsageError
from lorelog.engine import Engine
from lorelog.operations import code_requests as requests
from lorelog.operations.days import located
from lorelog.operations.operation import Call

if TYPE_CHECKING:
    from lorelog.services.code.asking import CodeAsker
    from lorelog.services.code.finding import Wanted


def find_definition(engine: Engine, request: requests.DefinitionRequest, call: Call) -> CodeReply:
    """Find where a symbol is defined: file, exact span, signature, docstring; every definition, nearest first."""
    return _asker(engine, request, call).find_definition(_wanted(engine, request, call), request.limit)


def find_references(engine: Engine, request: requests.ReferencesRequest, call: Call) -> CodeReply:
    """Find where a symbol is used: calls, reads, writes, types and imports, told apart.

    Each use says how sure it is that this symbol is meant: `exact`, `likely`, or only by `name`.
    """
    from lorelog.services.code.asking import Bounds

    bounds = Bounds(
        request.limit,
        Certainty(request.certainty),
        frozenset(UseKind(one) for one in request.uses),
        _below(engine, request.below, call),
    )
    return _asker(engine, request, call).find_references(_wanted(engine, request, call), bounds)


def find_callers(engine: Engine, request: requests.CallersRequest, call: Call) -> CodeReply:
    """Find who calls a symbol: the functions, methods and files that the calls stand in; up to three calls away."""
    from lorelog.services.code.asking import Bounds

    bounds = Bounds(request.limit, Certainty(request.certainty), below=_below(engine, request.below, call))
    return _asker(engine, request, call).find_callers(_wanted(engine, request, call), bounds, request.depth)


def find_imports(engine: Engine, request: requests.ImportsRequest, call: Call) -> CodeReply:
    """Find which files import a module, or a name out of one."""
    from lorelog.services.code.asking import Bounds

    bounds = Bounds(request.limit, below=_below(engine, request.below, call))
    return _asker(engine, request, call).find_imports(request.module, bounds)


def outline(engine: Engine, request: requests.OutlineRequest, call: Call) -> CodeReply:
    """List what a file defines, or the files of a folder."""
    path = _below(engine, request.path, call)
    return _asker(engine, request, call).outline(path, request.depth, request.limit)


def search(engine: Engine, request: requests.CodeSearchRequest, call: Call) -> CodeReply:
    """Find symbols by a part of their name, its initials, or a misspelling of it."""
    from lorelog.services.code.asking import Bounds
    from lorelog.services.code.finding import Wanted

    wanted = Wanted(request.query, kind=SymbolKind(request.kind) if request.kind else None, language=request.language)
    bounds = Bounds(request.limit, below=_below(engine, request.below, call))
    return _asker(engine, request, call).search(request.query, wanted, bounds)


def _asker(engine: Engine, request: requests.CodeRequest, call: Call) -> CodeAsker:
    from lorelog.services.code.asking import CodeAsker

    return CodeAsker(engine.code(all_projects=request.all_projects), os.path.realpath(call.directory))


def _wanted(engine: Engine, request: requests.SymbolRequest, call: Call) -> Wanted:
    from lorelog.services.code.finding import Wanted, read_name

    if request.line and not request.path:
        raise UsageError("a line of which file?", hint="give its path, too")
    name, container = read_name(request.name, request.container)
    return Wanted(
        name,
        container,
        _below(engine, request.path, call),
        request.line or 0,
        SymbolKind(request.kind) if request.kind else None,
        request.language,
    )


def _below(engine: Engine, path: str | None, call: Call) -> str:
    """Return a path as the index has it: from where the caller stands, or from the top of the working tree."""
    if not path:
        return ""
    from lorelog.services.reach import real_path

    here = real_path(located(path, call))
    if not os.path.exists(here) and not os.path.isabs(path):  # noqa: PTH110, PTH117
        root = engine.place.project.root
        below = real_path(os.path.join(root, path))  # noqa: PTH118
        return below if os.path.exists(below) else here  # noqa: PTH110
    return here
