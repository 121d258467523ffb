"""Conversion between Python values and the JSON of operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from importlib import import_module
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET
from msgspec.structs import fields

from lorelog.core.errors import UsageError
from lorelog.core.query import Filters
from lorelog.operations.catalogue import find_operation
from lorelog.operations.operation import Operation
from lorelog.operations.replies import OperationReply, to_json

PathArgument = str | os.PathLike[str]
PathArguments = PathArgument | Iterable[PathArgument]
Names = str | Iterable[str]
"""One name or several."""
Day = str | date
FilterArgument = Filters | Mapping[str, Any]
DaemonMode = Literal["auto", "off", "required"]

_DAY_FIELDS = frozenset({"since", "until", "expires", "review_after"})
_FILTER_FIELDS = {
    "project": "projects",
    "projects": "projects",
    "source": "source",
    "source_prefix": "source",
    "since": "since",
    "until": "until",
    "types": "types",
    "tags": "tags",
}
"""Field of a request for each name of a filter."""
_VALUE_TYPES = {
    "memory.search": "core.query:SearchReply",
    "memory.expand": "core.memory:ExpandReply",
    "memory.get": "core.memory:GetReply",
    "memory.list": "core.memory:ListReply",
    "memory.index": "core.memory:IndexReport",
    "roots.add": "core.memory:IndexReport",
    "memory.health": "core.memory:HealthReply",
    "memory.supersede": "core.memory:SupersedeReply",
    "memory.find_near_duplicates": "core.memory:DuplicatesReply",
    "memory.evaluate": "services.evaluation.search_quality:EvaluateReply",
    "memory.check_store": "core.ports:StoreComparison",
    "memory.forget": "services.forget.forgetter:ForgetReply",
    "context.find_relevant_context": "operations.context.schema:RelevantContext",
    "context.get_hot_context": "operations.context.schema:HotContext",
}
"""Type of the handler's value, for operations whose JSON has other fields than the value."""
_ITEM_TYPES = {
    "memory.add_batch": "core.memory:AddReply",
    "roots.list": "services.places.roots:RootStatus",
    "memory.forget_receipts": "services.forget.forget_plan:Receipt",
    "session.recall": "services.sessions.recall:RecalledMemory",
}
"""Type of the items, for operations whose value is a list."""


class Identified(Protocol):
    """A hit, chunk or reply that has an id."""

    @property
    def id(self) -> str:
        """Return the id."""


Identity = str | Identified | Mapping[str, Any]
"""An id, something that has one, or the JSON of such a thing."""


def to_dict(value: object) -> Any:
    """Return a reply, or a part of one, as plain dictionaries and lists: the JSON that docs/json.md describes."""
    kind: Any = type(value)
    convert = _json_conversion(kind)
    if convert is not None:
        return to_json(convert(value))
    if isinstance(value, msgspec.Struct) and not isinstance(value, OperationReply):
        return {name: to_dict(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(name): to_dict(part) for name, part in value.items()}
    return [to_dict(part) for part in value] if isinstance(value, list | tuple) else to_json(value)


def from_json(operation: Operation[Any, Any], value: object) -> Any:
    """Return the value of an operation's handler from the JSON of it."""
    return msgspec.convert(value, value_type(operation))


def value_type(operation: Operation[Any, Any]) -> Any:
    """Return the type of the value that an operation's handler returns."""
    if operation.name in _VALUE_TYPES:
        return _find_type(_VALUE_TYPES[operation.name])
    if operation.name in _ITEM_TYPES:
        return list[_find_type(_ITEM_TYPES[operation.name])]  # type: ignore[misc]
    if operation.name == "memory.forget_verify":
        from lorelog.services.forget.forget_plan import Receipt
        from lorelog.services.forget.residues import ResidueReport

        return tuple[Receipt, ResidueReport]
    return operation.reply


def to_arguments(request: type[msgspec.Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return Python values as JSON arguments of a request.

    Accepts paths, days and enums for text, any iterable for a list, and a single value for a list of one: a string
    must never become a list of its letters.
    """
    lists = list_fields(request)
    arguments = {}
    for name, value in values.items():
        if value is UNSET:
            continue
        if isinstance(value, datetime) and name in _DAY_FIELDS:
            value = (value if value.tzinfo is None else value.astimezone()).date()  # noqa: PLW2901
        single = name in lists and isinstance(value, str | os.PathLike | Mapping)
        arguments[name] = [_to_json_value(name, value)] if single else _to_json_value(name, value)
    return arguments


def filter_arguments(filters: FilterArgument | None, **keywords: Any) -> dict[str, Any]:
    """Return filters under the names of the operations, from `filters` and from keywords of their own."""
    if filters is None:
        given: dict[str, Any] = {}
    elif isinstance(filters, Filters):
        given = {field.name: getattr(filters, field.name) for field in fields(Filters)}
    elif isinstance(filters, Mapping):
        given = dict(filters)
    else:
        raise UsageError(
            f"filters must be Filters or a dictionary (got {_shorten(filters)})", hint="Filters(types=('decision',))"
        )
    arguments: dict[str, Any] = {}
    for name, value in (*given.items(), *keywords.items()):
        if name not in _FILTER_FIELDS:
            known = ", ".join(name for name in _FILTER_FIELDS if name not in {"projects", "source_prefix"})
            raise UsageError(f"filters has an unknown field {str(name)[:100]!r}", hint=f"the fields are {known}")
        if value is None or (value in ("", ()) and name not in {"project", "projects"}):
            continue  # an empty field matches everything; the empty project is the global one
        field = _FILTER_FIELDS[name]
        if field in arguments:
            raise UsageError(f"{name} is given twice", hint="give it either in filters or as a keyword")
        arguments[field] = _project_ids(value) if name == "project" else value
    return arguments


def id_of(identity: Identity, name: str = "identity") -> str:
    """Return an id, or the id of a hit, chunk or reply. `name` is the parameter that an error names."""
    if isinstance(identity, Mapping):
        found = identity.get("id")
    else:
        found = identity if isinstance(identity, str) else getattr(identity, "id", None)
    if not isinstance(found, str):
        raise UsageError(
            f"{name} must be an id or something that has one (got {_shorten(identity)})",
            hint="pass a hit, a reply of add, or its id as text",
        )
    return found


@cache
def list_fields(request: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a request that are lists."""
    hints = get_type_hints(request)
    return frozenset(
        name
        for name, hint in hints.items()
        if {list, Sequence} & {get_origin(part) for part in (hint, *get_args(hint))}
    )


def _project_ids(directories: Any) -> list[str]:
    """Return the projects of directories; the empty text is the global project."""
    from lorelog.services.places.project import find_project

    if isinstance(directories, str | os.PathLike):
        directories = [directories]
    elif not isinstance(directories, Iterable) or isinstance(directories, bytes):
        raise UsageError(f"project must be a directory or several (got {_shorten(directories)})")
    paths = [_to_json_value("project", directory) for directory in directories]
    return [find_project(os.path.expanduser(path)).id if path else "" for path in paths]  # noqa: PTH111


def _to_json_value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # of an enum, its value
    if isinstance(value, bytes | bytearray | memoryview):
        raise UsageError(f"{name} must be text, not bytes", hint="decode it first")
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        return path if isinstance(path, str) else os.fsdecode(path)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _to_json_value(name, part) for key, part in value.items()}
    if isinstance(value, msgspec.Struct):
        return value  # also those that can be iterated: refused by their field, not taken apart
    return [_to_json_value(name, part) for part in value] if isinstance(value, Iterable) else value


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


_POSTPONED_NAMES = {"core.query": ("core.code:CodeReply",)}
"""By module: names in its annotations that it does not import, because its values are made without them."""


def _find_type(place: str) -> Any:
    """Return a type, with the postponed names of its module imported: msgspec evaluates the annotations."""
    path, _, name = place.partition(":")
    module = import_module(f"lorelog.{path}")
    for postponed in _POSTPONED_NAMES.get(path, ()):
        setattr(module, postponed.partition(":")[2], _find_type(postponed))
    return getattr(module, name)


@cache
def _json_conversion(kind: Any) -> Callable[[Any], object] | None:
    """Return the conversion of values whose JSON has other fields; None for all others."""
    place = f"{kind.__module__.removeprefix('lorelog.')}:{kind.__name__}"
    for name, value_place in _VALUE_TYPES.items():
        if value_place == place:
            convert: Any = find_operation(name).to_reply
            return lambda value: convert(value, None)
    from lorelog.operations.memory import serialize
    from lorelog.operations.search.handlers import hit_json

    if place == "services.places.roots:RootStatus":
        return lambda status: serialize.roots_json([status]).roots[0]
    if place == "services.sessions.recall:RecalledMemory":
        from lorelog.operations.session.handlers import recall_json

        return lambda memory: recall_json([memory]).hits[0]
    if place == "services.forget.forget_plan:Receipt":
        from lorelog.operations.forget.handlers import receipts_json

        return lambda receipt: receipts_json([receipt]).receipts[0]
    conversions: dict[str, Callable[[Any], object]] = {
        "core.query:Hit": hit_json,
        "core.document:StoredChunk": serialize.chunk_json,
        "core.document:Document": serialize.document_json,
    }
    return conversions.get(place)
