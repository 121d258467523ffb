"""Base classes of the values that operations return, how a value becomes JSON, and how a moment becomes text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, get_args, get_type_hints, overload

ItemT = TypeVar("ItemT")
ConvertT = TypeVar("ConvertT", bound=Callable[..., object])
_FORMS: dict[type, tuple[type, Callable[[Any], object]]] = {}
"""How values become JSON that has other fields: declared where the operations that return them are."""
_CONTAINERS = frozenset({dict, list, tuple})


class Serializable:
    """A value that can be written as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain dictionaries and lists: the JSON that docs/json.md describes."""
        fields: dict[str, Any] = to_json(json_form(self))
        return fields


class ReplyItems(Serializable, Generic[ItemT]):
    """A reply that is also the sequence of what it lists: it can be iterated, counted and indexed."""

    __slots__ = ()
    items_field = ""  # not annotated: it is not a field of the reply
    """Name of the field that holds the items: the one that is a tuple of them, unless the class says otherwise."""

    def __init_subclass__(cls) -> None:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if getattr(base, "__origin__", None) is ReplyItems and not cls.items_field:
                item = getattr(base.__args__[0], "__name__", "")
                kinds = {kind: name for name, kind in cls.__annotations__.items()}
                cls.items_field = kinds.get(f"tuple[{item}, ...]", "")

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    @overload
    def __getitem__(self, index: int) -> ItemT: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ItemT, ...]: ...

    def __getitem__(self, index: int | slice) -> ItemT | tuple[ItemT, ...]:
        return self._items()[index]

    def _items(self) -> tuple[ItemT, ...]:
        items: tuple[ItemT, ...] = getattr(self, self.items_field)
        return items


def shows_as_json(kind: type, form: type) -> Callable[[ConvertT], ConvertT]:
    """Declare the function that returns values of a class as another class, whose fields are those of the JSON."""

    def add(convert: ConvertT) -> ConvertT:
        _FORMS[kind] = form, convert
        return convert

    return add


def json_form(value: Any) -> object:
    """Return the value whose fields are those of the JSON: the value itself, unless it or its items have another shape."""
    found = _FORMS.get(type(value))
    if found is not None:
        return found[1](value)
    if isinstance(value, ReplyItems) and len(value) and type(value[0]) in _FORMS:
        fields = {name: getattr(value, name) for name in type(value).__struct_fields__}  # type: ignore[attr-defined]
        return fields | {value.items_field: [json_form(item) for item in value]}
    return value


def json_type(kind: Any) -> Any:
    """Return the type of the JSON form of a class of values."""
    found = _FORMS.get(kind)
    if found is not None or not issubclass(kind, ReplyItems):
        return kind if found is None else found[0]
    hints = {name: get_type_hints(kind, include_extras=True)[name] for name in kind.__struct_fields__}
    item = get_args(hints[kind.items_field])[0]
    if item not in _FORMS:
        return kind
    from types import GenericAlias

    from msgspec import defstruct

    fields = [*(hints | {kind.items_field: GenericAlias(tuple, (_FORMS[item][0], ...))}).items()]
    return defstruct(kind.__name__, fields, namespace={"__doc__": kind.__doc__}, kw_only=True)


def to_json(value: Any) -> Any:
    """Return a value as builtins, field by field: objects as dictionaries, sequences as lists."""
    from msgspec import to_builtins

    return _with_lists(to_builtins(value, enc_hook=_builtin))


def _builtin(value: object) -> object:
    """Return a builtin for a type that msgspec does not encode: subclasses such as numpy's float, other mappings."""
    for kind in (str, float, int):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value))


def _with_lists(value: Any) -> Any:
    """Return builtins with tuples as lists. Dictionaries are changed in place: msgspec has just made them."""
    if type(value) is dict:
        for name, part in value.items():
            if type(part) in _CONTAINERS:
                value[name] = _with_lists(part)
        return value
    return [_with_lists(part) for part in value] if type(value) in _CONTAINERS else value


def format_time(seconds: float) -> str:
    """Return a moment as an ISO time in UTC; empty for zero."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else ""


def utc_now() -> str:
    """Return the present moment as an ISO time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def parse_iso_time(value: object) -> datetime | None:
    """Parse an ISO time; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def local_time(value: object) -> datetime | None:
    """Return an ISO time in the local zone: what was said yesterday evening belongs to yesterday. None for anything else."""
    try:
        when = parse_iso_time(value)
        return when and when.astimezone()
    except (OverflowError, ValueError, OSError):
        return None
