"""The operation `memory.search`: a family of its own, so that a cold search loads no other verb."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import ModelError
from lorelog.operations.operation import Operation, ShellCommand
from lorelog.operations.search import handlers, schema

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.search",
        schema.SearchRequest,
        schema.SearchJson,
        handlers.search,
        handlers.search_json,
        errors=(ModelError,),
        warms=True,
        commands=(ShellCommand("search", ("query...",), hidden=("projects", "one_per_memory")),),
    ),
)
