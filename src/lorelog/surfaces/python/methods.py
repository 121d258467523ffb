"""Methods made from operations: parameters, their types and their descriptions are those of the request.

`method(SomeRequest, handler)` is a method with the fields of the request as parameters. Where Python has other parameters
than the operation, a function takes the place of the request: its parameters are the method's, and it returns the fields.
One declaration serves `Lorelog`, whose methods return values, and `AsyncLorelog`, whose methods return coroutines.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, partial, wraps
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec
from msgspec import Meta

from lorelog.engine import Engine
from lorelog.operations.catalogue import operation_of
from lorelog.operations.operation import Operation, RequestContext
from lorelog.operations.requests import OperationRequest
from lorelog.surfaces.python.values import FILTER_PARAMETERS, filter_arguments

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
    if "filters" not in signature.parameters:
        return values
    filters = {name: values.pop(name) for name in FILTER_PARAMETERS if name in values}
    filters = filter_arguments(values.pop("filters", None), **filters)
    return {**values, **filters}


def _describe_parameters(request: type[OperationRequest], signature: inspect.Signature) -> str:
    hints = get_type_hints(request, include_extras=True)
    lines = []
    for name in signature.parameters:
        metas = getattr(hints.get(name), "__metadata__", ())
        described = [meta.description for meta in metas if isinstance(meta, Meta) and meta.description]
        lines.append(f"    {name}: {' '.join(described) or _DESCRIPTIONS[name]}")
    return "\n".join(lines)
