"""Operations on the code of working trees: `code.*`."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound, StoreBusy, StoreUnwritable
from lorelog.operations.code import handlers, schema
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.requests import EmptyRequest

_ABSENT_CHOOSES_CODE = "which code is indexed is the user's decision"

_SYMBOL_OPTIONS = {"path": "--in", "container": "--of"}
_SYMBOL_METAVARS = {"container": "NAME", "kind": "KIND"}

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "code.index",
        schema.CodeIndexRequest,
        schema.CodeIndexReply,
        handlers.index_tree,
        errors=(NotFound, StoreBusy, StoreUnwritable),
        writes=True,
        absent={"mcp": _ABSENT_CHOOSES_CODE},
        commands=(ShellCommand("code index", ("path",)),),
    ),
    Operation(
        "code.forget",
        schema.CodeForgetRequest,
        schema.CodeForgetReply,
        handlers.forget_tree,
        errors=(NotFound, StoreBusy, StoreUnwritable),
        writes=True,
        absent={"http": _ABSENT_CHOOSES_CODE, "mcp": _ABSENT_CHOOSES_CODE},
    ),
    Operation(
        "code.status",
        EmptyRequest,
        schema.CodeStatusReply,
        handlers.tree_status,
        commands=(ShellCommand("code status"),),
    ),
    Operation(
        "code.find_definition",
        schema.DefinitionRequest,
        schema.DefinitionsReply,
        handlers.find_definition,
        commands=(ShellCommand("code def", ("name",), _SYMBOL_OPTIONS, metavars=_SYMBOL_METAVARS),),
    ),
    Operation(
        "code.find_references",
        schema.ReferencesRequest,
        schema.ReferencesReply,
        handlers.find_references,
        commands=(ShellCommand("code refs", ("name",), _SYMBOL_OPTIONS, metavars=_SYMBOL_METAVARS),),
    ),
    Operation(
        "code.find_callers",
        schema.CallersRequest,
        schema.CallersReply,
        handlers.find_callers,
        commands=(ShellCommand("code callers", ("name",), _SYMBOL_OPTIONS, metavars=_SYMBOL_METAVARS),),
    ),
    Operation(
        "code.find_imports",
        schema.ImportsRequest,
        schema.ImportsReply,
        handlers.find_imports,
        commands=(ShellCommand("code imports", ("module",)),),
    ),
    Operation(
        "code.outline",
        schema.OutlineRequest,
        schema.OutlineReply,
        handlers.outline,
        errors=(NotFound,),
        commands=(ShellCommand("code outline", ("path",)),),
    ),
    Operation(
        "code.search",
        schema.CodeSearchRequest,
        schema.CodeSearchReply,
        handlers.search,
        commands=(ShellCommand("code search", ("query",), metavars={"kind": "KIND"}),),
    ),
)
