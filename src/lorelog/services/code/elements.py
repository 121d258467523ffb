"""What is in something that a loop goes over, by what is said of it: `for x in self.things`, where `things: list[Thing]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lorelog.code.tables import Defined
from lorelog.core.code import Symbol
from lorelog.services.code.said import element, held, made_by, parameters, returned
from lorelog.services.code.sources import FUNCTIONS, Meant, Modules, Spot, levels

_VIEWS = ("values", "keys")


class Lookups(Protocol):
    """What names are looked up with: `classes.Classes`."""

    def at(self, qualified: str, path: str) -> list[Defined]:
        """Return the definitions with a full name in a file."""

    def named(self, name: str, spot: Spot) -> Meant:
        """Return what a plain name stands for at a place."""

    def receiver(self, said: str, spot: Spot, depth: int) -> Meant | Modules:
        """Return what stands before a dot."""

    def of_module(self, receiver: str, name: str, spot: Spot) -> tuple[Defined, ...]:
        """Return what a module has under a name."""

    def members(self, one: Defined, name: str) -> tuple[Defined, ...]:
        """Return what a name means as a member of a class."""

    def method_at(self, one: Defined) -> Symbol | None:
        """Return the innermost function or class around a variable."""


def element_of(classes: Lookups, value: str, spot: Spot, depth: int) -> tuple[str, Spot] | None:
    """Return the type of what is in a name, or in what a call gives (`=f`), as it is written, and where."""
    name, is_call = value.removeprefix("="), value.startswith("=")
    before, _, last = name.rpartition(".")
    is_key = is_call and last == "keys"
    if is_call and before and last in _VIEWS:
        name = before
    said = _said(classes, name, spot, depth)
    inner = element(said[0], key=is_key) if said else ""
    return (inner, said[1]) if said and inner else None


def _said(classes: Lookups, name: str, spot: Spot, depth: int) -> tuple[str, Spot] | None:
    """Return the type that is said of a name with dots, and where that is said."""
    if depth <= 0:
        return None
    before, _, last = name.rpartition(".")
    if not before:
        return _given(classes, last, spot) or _first(classes, classes.named(last, spot) or (), depth)
    meant = classes.receiver(before, spot, depth - 1)
    if isinstance(meant, Modules):
        return _first(classes, classes.of_module(before, last, spot), depth)
    return _first(classes, [member for one in meant or () for member in classes.members(one, last)], depth)


def _given(classes: Lookups, name: str, spot: Spot) -> tuple[str, Spot] | None:
    """Return the type that is said of a parameter."""
    for level in levels(spot.around):
        for one in classes.at(level, spot.path) if level else ():
            given = parameters(one.symbol.signature, one.language) if one.symbol.kind in FUNCTIONS else {}
            if name in given:
                return (given[name], Spot(spot.path, spot.language, one.symbol)) if given[name] else None
    return None


def _first(classes: Lookups, meant: Sequence[Defined], depth: int) -> tuple[str, Spot] | None:
    """Return the type that the first of some definitions says of itself."""
    for one in meant[:1]:
        spot = Spot(one.path, one.language, classes.method_at(one))
        if one.symbol.kind in FUNCTIONS:
            said = returned(one.symbol.signature, one.language)
            return (said, Spot(one.path, one.language, one.symbol)) if said else None
        said, value = held(one.symbol.signature)
        if said:
            return said, spot
        how, name = made_by(value)
        return _said(classes, name, spot, depth - 1) if how else None
    return None
