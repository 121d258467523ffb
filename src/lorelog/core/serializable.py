"""Base classes of the values that operations return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, overload

ItemT = TypeVar("ItemT")


class Serializable:
    """A value that can be written as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain dictionaries and lists: the JSON that docs/json.md describes."""
        from importlib import import_module

        # By name: how a value becomes JSON is defined far above this package.
        fields: dict[str, Any] = import_module("lorelog").to_dict(self)
        return fields


class ReplyItems(Serializable, Generic[ItemT]):
    """A reply that is also the sequence of what it lists: it can be iterated, counted and indexed."""

    __slots__ = ()
    items_field = ""  # not annotated: it is no field of the reply
    """Name of the field that holds the items."""

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
