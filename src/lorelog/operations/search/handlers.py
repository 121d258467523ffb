"""Handler of `memory.search`. Its docstring is the help text of the operation on every surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorelog.core.dataclasses import fields, replace
from lorelog.core.options import SearchOptions
from lorelog.core.query import Fusion, Lane, TrustFilter
from lorelog.operations.arguments import read_filters
from lorelog.operations.search import schema

if TYPE_CHECKING:
    from lorelog.core.query import SearchReply
    from lorelog.engine import Engine
    from lorelog.operations.operation import RequestContext

_SEARCH_OPTIONS = tuple(
    field.name for field in fields(SearchOptions) if field.name in schema.SearchRequest.__struct_fields__
)
"""Fields that a search request shares with `SearchOptions`; one that is not given keeps its setting."""
_OPTION_ENUMS = {"lane": Lane, "fusion": Fusion, "trust": TrustFilter}


def search(engine: Engine, request: schema.SearchRequest, call: RequestContext) -> SearchReply:
    """Search memories, notes and records, best hit first.

    Keywords and vectors are searched together. Each hit has its location, its relevance and trust, and the number of
    tokens it takes to read more.
    """
    options: dict[str, Any] = {
        name: _OPTION_ENUMS[name](value) if name in _OPTION_ENUMS else value
        for name in _SEARCH_OPTIONS
        if (value := getattr(request, name)) is not None
    }
    return engine.search(
        request.query,
        replace(engine.defaults.search, filters=read_filters(request, call), **options),
        all_projects=request.all_projects,
    )
