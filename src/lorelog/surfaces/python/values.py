"""Conversion between Python values and the JSON of operations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any, Protocol, get_args, get_origin, get_type_hints

from msgspec import UNSET

from lorelog.operations.replies import to_json
from lorelog.operations.requests import OperationRequest

PathArgument = str | os.PathLike[str]
PathArguments = PathArgument | Iterable[PathArgument]
Names = str | Iterable[str]
"""One name or several."""
Day = str | date


class Identified(Protocol):
    """A hit, chunk or reply that has an id."""

    @property
    def id(self) -> str:
        """Return the id."""


def to_dict(value: object) -> Any:
    """Return a reply, or a part of one, as plain dictionaries and lists: the JSON that docs/json.md describes."""
    convert = _json_conversions().get(type(value))
    return to_json(value if convert is None else convert(value))


def to_arguments(request: type[OperationRequest], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return Python values as JSON arguments of a request.

    Accepts paths, days and enums for text, any iterable for a list, and a single value for a list of one: a string
    must never become a list of its letters.
    """
    lists = list_fields(request)
    arguments = {}
    for name, value in values.items():
        if value is UNSET:
            continue
        single = name in lists and isinstance(value, str | os.PathLike | Mapping)
        arguments[name] = [_to_json_value(value)] if single else _to_json_value(value)
    return arguments


def id_of(identity: str | Identified) -> str:
    """Return an id, or the id of a hit, chunk or reply."""
    return identity if isinstance(identity, str) else identity.id


@cache
def list_fields(request: type[OperationRequest]) -> frozenset[str]:
    """Return the fields of a request that are lists."""
    hints = get_type_hints(request)
    return frozenset(
        name
        for name, hint in hints.items()
        if {list, Sequence} & {get_origin(part) for part in (hint, *get_args(hint))}
    )


def _to_json_value(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # of an enum, its value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _to_json_value(part) for name, part in value.items()}
    return [_to_json_value(part) for part in value] if isinstance(value, Iterable) else value


@cache
def _json_conversions() -> dict[type, Any]:
    """Return the conversions of values whose JSON has other fields, by type."""
    from lorelog.core import memory, query
    from lorelog.operations.context import handlers as context_handlers
    from lorelog.operations.context import schema as context
    from lorelog.operations.memory import serialize

    return {
        query.Hit: serialize.hit_json,
        query.SearchReply: serialize.search_json,
        memory.ExpandReply: serialize.expand_json,
        memory.GetReply: serialize.get_json,
        memory.ListReply: serialize.list_json,
        memory.IndexReport: serialize.index_json,
        memory.SupersedeReply: serialize.supersede_json,
        memory.DuplicatesReply: serialize.duplicates_json,
        memory.HealthReply: serialize.health_json,
        context.HotContext: context_handlers.hot_context_json,
        context.RelevantContext: context_handlers.relevant_context_json,
    }
