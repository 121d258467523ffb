"""Our dataclasses behave like the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from lorelog.core import dataclasses as lazy


def declare(module: Any) -> tuple[type[Any], type[Any], type[Any]]:
    """Declare the same three classes with the given module."""

    @module.dataclass(frozen=True, slots=True)
    class Base:
        """A value."""

        name: str
        size: int = 3
        parts: list[str] = module.field(default_factory=list)

    @module.dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        secret: str = module.field(default="s", repr=False)
        size: int = 4

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

    @module.dataclass(slots=True)
    class Mutable:
        one: int
        two: int = 2

        def __repr__(self) -> str:
            return "own"

    return Base, Derived, Mutable


class Pair(NamedTuple):
    """Two values of any kind."""

    first: Any
    second: Any


STANDARD, OURS = declare(dataclasses), declare(lazy)

CALLS: list[tuple[int, Callable[[type[Any]], Any]]] = [
    (0, lambda cls: repr(cls("a"))),
    (0, lambda cls: repr(cls("a", 1, parts=["p"]))),
    (0, lambda cls: cls("a").parts is cls("a").parts),
    (0, lambda cls: (cls("a") == cls("a"), cls("a") == cls("b"), cls("a") == 1, cls("a") != cls("a"))),
    (0, lambda cls: hash(cls("a", parts=()))),
    (0, lambda cls: cls(size=1)),
    (0, lambda cls: cls("a", unknown=1)),
    (0, lambda cls: setattr(cls("a"), "size", 1)),
    (0, lambda cls: delattr(cls("a"), "size")),
    (0, lambda cls: cls.__match_args__),
    (0, lambda cls: cls.__slots__),
    (0, lambda cls: hasattr(cls("a"), "__dict__")),
    (0, lambda cls: [(item.name, item.type, item.kw_only) for item in dataclasses.fields(cls)]),
    (0, lambda cls: dataclasses.asdict(cls("a"))),
    (0, lambda cls: msgspec.json.encode(cls("a"))),
    (0, lambda cls: repr(msgspec.convert({"name": "b", "parts": ["x"]}, cls))),
    (0, lambda cls: msgspec.convert({"name": 1}, cls)),
    (0, msgspec.json.schema),
    (0, lambda cls: repr(dataclasses.replace(cls("a", 9), name="c"))),
    (0, lambda cls: repr(copy.deepcopy(cls("a", parts=["x"])))),
    (0, lambda cls: cls.__doc__),
    (1, lambda cls: repr(cls("a", secret="t"))),
    (1, lambda cls: repr(cls("a", 5))),
    (1, lambda cls: repr(cls("a", parts=["q"], size=1))),
    (1, lambda cls: cls("")),
    (1, lambda cls: cls.__match_args__),
    (1, lambda cls: [(item.name, item.kw_only, item.repr, item.default) for item in dataclasses.fields(cls)]),
    (1, lambda cls: cls("a") == cls("a", secret="other")),
    (2, lambda cls: repr(cls(1))),
    (2, lambda cls: hash(cls(one=1))),
    (2, lambda cls: setattr(cls(1), "two", 5)),
    (2, lambda cls: setattr(cls(1), "three", 5)),
    (2, lambda cls: cls(1) == cls(1, 2)),
]


def outcome(call: Callable[[type[Any]], Any], cls: type[Any]) -> object:
    """Return what a call gives: its value, or the type of its error."""
    try:
        return call(cls)
    except Exception as error:  # noqa: BLE001 - which one is the answer
        return type(error)


@pytest.mark.parametrize(("index", "call"), CALLS)
def test_they_behave_alike(index: int, call: Callable[[type[Any]], Any]) -> None:
    """What the standard library's classes return or raise, ours return or raise, at the first call and later."""
    expected = outcome(call, STANDARD[index])

    assert [outcome(call, declare(lazy)[index]), outcome(call, OURS[index])] == [expected, expected]


@lazy.dataclass(frozen=True, slots=True)
class Kept:
    """A value that is pickled by its name."""

    number: int = 1


def test_they_are_pickled() -> None:
    """A frozen value with slots survives pickling."""
    assert pickle.loads(pickle.dumps(Kept(7))) == Kept(7)


def test_replace_checks_names() -> None:
    """Our `replace` changes what it is told, keeps the rest, and refuses a field that does not exist."""
    assert lazy.replace(Kept(7), number=8) == Kept(8)
    with pytest.raises(TypeError):
        lazy.replace(Kept(7), other=8)  # type: ignore[call-arg]


def test_a_mutable_default_is_refused() -> None:
    """A list as a default is an error when the class is declared, as in the standard library."""
    with pytest.raises(ValueError, match="mutable"):

        @lazy.dataclass
        class Wrong:
            items: list[str] = []  # noqa: RUF012


def test_nested_values_become_dictionaries_as_in_the_standard_library() -> None:
    """`asdict` follows lists, tuples, named tuples and dictionaries, and copies what it does not know."""
    inner = OURS[2](1)
    parts = [inner, (inner, "x"), Pair(inner, 2.5), {"key": inner, inner.one: None}, {3, 4}, b"raw"]
    value = OURS[0]("a", 7, parts)

    assert lazy.asdict(value) == dataclasses.asdict(value)
    assert [type(part) for part in lazy.asdict(value)["parts"]] == [dict, tuple, Pair, dict, set, bytes]
    assert lazy.asdict(value)["parts"][4] is not parts[4]
