"""Methods made from operations: parameters, their types and their descriptions are those of the request.

`method(SomeRequest, handler)` is a method with the fields of the request as parameters. Where Python has other parameters
than the operation, a function takes the place of the request: its parameters are the method's, and it returns the fields.
One declaration serves `Lorelog`, whose methods return values, and `AsyncLorelog`, whose methods return coroutines. Python
values become the JSON of operations, and replies plain dictionaries.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache, cached_property, partial, wraps
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import UNSET, Meta

from lorelog.core.errors import UsageError
from lorelog.core.paths import join_path
from lorelog.core.serializable import json_form, to_json
from lorelog.engine import Engine
from lorelog.operations.catalogue import operation_of
from lorelog.operations.dispatch import shorten_value
from lorelog.operations.operation import Operation, RequestContext
from lorelog.operations.requests import OperationRequest
from lorelog.services.places.workspace import find_project

if TYPE_CHECKING:
    from lorelog.operations.requests import Identity

P = ParamSpec("P")
RequestT = TypeVar("RequestT", bound=OperationRequest)
ValueT = TypeVar("ValueT")
Fields = Mapping[str, Any]
"""Fields of a request, as Python values. `progress` is not a field: it is called during long work."""
RunOperation = Callable[[str, Fields], Any]
"""Runs an operation by name and returns the value of its handler, or a coroutine of it."""
PROGRESS_HELP = "Called with (stage, done, total) during long work."
_DESCRIPTIONS = {
    "progress": PROGRESS_HELP,
    "relevant": "Whether the memory answers the query.",
    "texts": "Texts, or dictionaries with text, type, tags, origin, expires and cues.",
}
"""Parameters that no operation has."""
_COMMON_FIELDS = OperationRequest.__struct_fields__


class Blocking:
    """Marks methods that return values."""


class Awaited:
    """Marks methods that return coroutines."""


ModeT = TypeVar("ModeT", Blocking, Awaited)


class OperationMethods(Generic[ModeT]):
    """An object whose methods are operations."""

    returns_coroutines = False

    def __init__(self, run: RunOperation) -> None:
        self.run_operation = run


class OperationMethod(Generic[P, ValueT]):
    """A method that runs an operation. On `AsyncLorelog` it is a coroutine function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...

    @overload
    def __get__(self, instance: OperationMethods[Blocking], owner: type) -> Callable[P, ValueT]: ...

    @overload
    def __get__(self, instance: OperationMethods[Awaited], owner: type) -> Callable[P, Coroutine[Any, Any, ValueT]]: ...

    def __get__(self, instance: OperationMethods[Any] | None, owner: type[OperationMethods[Any]]) -> Callable[..., Any]:
        function = self._coroutine_function if owner.returns_coroutines else self._function
        return function if instance is None else MethodType(function, instance)

    @cached_property
    def _coroutine_function(self) -> Callable[..., Any]:
        @wraps(self._function)
        async def run(self_: OperationMethods[Any], /, *args: Any, **kwargs: Any) -> Any:
            return await self._function(self_, *args, **kwargs)

        return run


def method(
    parameters: Callable[P, OperationRequest | Fields], handler: Callable[[Engine, RequestT, RequestContext], ValueT]
) -> OperationMethod[P, ValueT]:
    """Return the method that runs the operation of a handler with these parameters: its request, or a function."""
    operation = operation_of(handler)
    read: Callable[..., Any] = parameters
    returned = str(handler.__annotations__["return"]).rpartition(".")[2]
    described = parameters if isinstance(parameters, type) else operation.request
    if isinstance(parameters, type):
        name, about, signature = operation.name.partition(".")[2], operation.description, _signature(parameters)
        read = partial(_read_arguments, operation, signature)
    else:
        name, signature = parameters.__name__, inspect.signature(parameters)
        about = inspect.cleandoc(parameters.__doc__ or operation.description)

    def run(self: OperationMethods[Any], /, *args: Any, **kwargs: Any) -> Any:
        return self.run_operation(operation.name, read(*args, **kwargs))

    run.__name__, run.__qualname__ = name, operation.name
    run.__doc__ = f"{about}\n\nArgs:\n{_describe_parameters(described, signature)}" if signature.parameters else about
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__dict__["__signature__"] = inspect.Signature(
        (itself, *signature.parameters.values()), return_annotation=returned
    )
    return OperationMethod(run)


def _signature(request: type[OperationRequest]) -> inspect.Signature:
    """Return the fields of a request as parameters: the required ones or the first by position, common fields last."""
    hints = get_type_hints(request)
    own = inspect.signature(request).parameters
    parameters: list[inspect.Parameter] = []
    for field in sorted(msgspec.structs.fields(request), key=lambda field: field.name in _COMMON_FIELDS):
        by_position = field.required or not parameters
        kind = own[field.name].kind if by_position else inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if field.required else field.default
        if default is msgspec.NODEFAULT:
            default = field.default_factory()
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name]))
    return inspect.Signature(parameters)


def _read_arguments(
    operation: Operation[Any, Any], signature: inspect.Signature, /, *args: Any, **kwargs: Any
) -> Fields:
    """Return arguments by field. A field that is missing or unknown is an error of the request, with a hint."""
    positional = [
        name for name, parameter in signature.parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    if len(args) > len(positional):
        raise TypeError(f"{operation.name} takes at most {len(positional)} positional argument(s)")
    values = {**dict(zip(positional, args, strict=False)), **kwargs}
    if operation.name in _LOOKING and values.get("project") is not None:
        if values.get("projects") is not None:
            raise UsageError("project and projects are both given", hint="give one of them")
        values["projects"] = _project_ids(values.pop("project"))
    return values


def _describe_parameters(request: type[OperationRequest], signature: inspect.Signature) -> str:
    hints = get_type_hints(request, include_extras=True)
    lines = []
    for name in signature.parameters:
        metas = getattr(hints.get(name), "__metadata__", ())
        described = [meta.description for meta in metas if isinstance(meta, Meta) and meta.description]
        lines.append(f"    {name}: {' '.join(described) or _DESCRIPTIONS[name]}")
    return "\n".join(lines)


PathArgument = str | os.PathLike[str]
PathArguments = PathArgument | Iterable[PathArgument]
Names = str | Iterable[str]
"""One name or several."""
Day = str | date
DaemonMode = Literal["auto", "off", "required"]

_ID_FIELDS = frozenset({"id", "place"})
_DAY_FIELDS = frozenset({"since", "until", "expires", "review_after"})
_LOOKING = frozenset({"memory.search", "memory.list"})
"""Operations whose method takes the projects to look into as `project`."""


def to_dict(value: object) -> Any:
    """Return a reply, or a part of one, as plain dictionaries and lists: the JSON that docs/json.md describes."""
    if isinstance(value, Mapping):
        return {str(name): to_dict(part) for name, part in value.items()}
    return list(map(to_dict, value)) if isinstance(value, list | tuple) else to_json(json_form(value))


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
        given = value
        if name in _ID_FIELDS:
            given = id_of(value, name)
        elif name == "ids":
            given = [id_of(identity, name) for identity in value]
        elif isinstance(value, datetime) and name in _DAY_FIELDS:  # the local day
            given = (value if value.tzinfo is None else value.astimezone()).date()
        is_single = name in lists and isinstance(given, str | os.PathLike | Mapping)
        arguments[name] = [_to_json_value(name, given)] if is_single else _to_json_value(name, given)
    return arguments


def id_of(identity: Identity, name: str) -> str:
    """Return an id, or the id of a hit, chunk or reply. `name` is the parameter that an error names."""
    if isinstance(identity, Mapping):
        found = identity.get("id")
    else:
        found = identity if isinstance(identity, str) else getattr(identity, "id", None)
    if not isinstance(found, str):
        raise UsageError(
            f"{name} must be an id or something that has one (got {shorten_value(identity)})",
            hint="pass a hit, a reply of add, or its id as text",
        )
    return found


@cache
def list_fields(request: type[msgspec.Struct]) -> frozenset[str]:
    hints = get_type_hints(request)
    return frozenset(
        name
        for name, hint in hints.items()
        if {list, Sequence} & {get_origin(part) for part in (hint, *get_args(hint))}
    )


def _project_ids(directories: Any) -> list[str]:
    """Return the projects of directories; the empty text is the global project."""
    if isinstance(directories, str | os.PathLike):
        directories = [directories]
    elif not isinstance(directories, Iterable) or isinstance(directories, bytes):
        raise UsageError(f"project must be a directory or several (got {shorten_value(directories)})")
    paths = [_to_json_value("project", directory) for directory in directories]
    return [find_project(join_path("", path)).id if path else "" for path in paths]


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
