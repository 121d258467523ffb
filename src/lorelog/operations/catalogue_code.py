"""The operations code.*: what is in the code of a working tree."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound
from lorelog.operations import code, code_replies, code_requests, code_trees
from lorelog.operations.operation import Operation

CODE: tuple[Operation[Any, Any], ...] = (
    *code_trees.TREES,
    Operation(
        "code.find_definition",
        code_requests.DefinitionRequest,
        code_replies.DefinitionsShape,
        code.find_definition,
        lambda reply, _: code_replies.definitions_shape(reply),
    ),
    Operation(
        "code.find_references",
        code_requests.ReferencesRequest,
        code_replies.ReferencesShape,
        code.find_references,
        lambda reply, _: code_replies.references_shape(reply),
    ),
    Operation(
        "code.find_callers",
        code_requests.CallersRequest,
        code_replies.CallersShape,
        code.find_callers,
        lambda reply, _: code_replies.callers_shape(reply),
    ),
    Operation(
        "code.find_imports",
        code_requests.ImportsRequest,
        code_replies.ImportsShape,
        code.find_imports,
        lambda reply, _: code_replies.imports_shape(reply),
    ),
    Operation(
        "code.outline",
        code_requests.OutlineRequest,
        code_replies.OutlineShape,
        code.outline,
        lambda reply, _: code_replies.outline_shape(reply),
        errors=(NotFound,),
    ),
    Operation(
        "code.search",
        code_requests.CodeSearchRequest,
        code_replies.CodeSearchShape,
        code.search,
        lambda reply, _: code_replies.code_search_shape(reply),
    ),
)
