"""Which names belong to a function alone, by Python's own rules.

A name that is bound anywhere in a function is that function's throughout; a class's names are not seen by the functions
inside it; comprehensions and lambdas have names of their own; `global` and `nonlocal` say otherwise. Functions, classes
and imports inside a function are bound there too, but they are symbols or other files' names, and are looked for.
"""

from __future__ import annotations

from enum import Enum

_MOST_SCOPES = 200


class Kind(Enum):
    """What opened a scope."""

    MODULE = 0
    CLASS = 1
    FUNCTION = 2
    COMPREHENSION = 3
    HEAD = 4
    """Decorators, defaults, annotations of a definition: evaluated outside of it, shown as its own. Type parameters."""


class Scope:
    """Where names are bound."""

    __slots__ = (
        "_known",
        "blocks",
        "bound",
        "container",
        "depth",
        "globals",
        "held",
        "kind",
        "nonlocals",
        "owner",
        "parent",
        "shared",
        "symbol",
        "this",
    )

    def __init__(self, kind: Kind, parent: Scope | None, symbol: int = -1, container: str = "") -> None:
        self.kind = kind
        self.parent = parent
        self.symbol = symbol
        """Index of the symbol that uses in here are inside of."""
        self.container = container
        """Names of the definitions around, joined by dots."""
        self.depth: int = 0 if parent is None else parent.depth
        """How many definitions are around."""
        self.bound: set[str] = set()
        self.shared: set[str] = set()
        """Names bound to what is looked for elsewhere: definitions and imports."""
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.owner: Scope | None = None
        """A method's class."""
        self.this = ""
        """What a method calls its instance, or class."""
        self.blocks: dict[str, list[int]] = {}
        """In which branches a variable of a module or class was defined."""
        self.held: dict[str, list[tuple[int, str]]] = {}
        """What a function's variables were given, and from where on (`python_held`)."""
        self._known: dict[str, bool] = {}

    def is_local(self, name: str) -> bool:
        """Return whether a name here is a function's own."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._find(name)
        return known

    def _find(self, name: str) -> bool:
        scope: Scope | None = self
        for _looked in range(_MOST_SCOPES):
            if scope is None or scope.kind is Kind.MODULE or name in scope.globals:
                return False
            if scope.kind is Kind.CLASS:
                if scope is self and (name in scope.bound or name in scope.shared):
                    return False
            elif name not in scope.nonlocals and (name in scope.bound or name in scope.shared):
                return name not in scope.shared
            scope = scope.parent
        return False

    def binder(self) -> Scope:
        """Return the scope in which an assignment here binds a name."""
        scope = self
        while scope.kind is Kind.HEAD and scope.parent is not None:
            scope = scope.parent
        return scope

    def outer(self) -> Scope:
        """Return the scope in which `:=` binds a name: comprehensions are passed over."""
        scope = self
        while scope.kind in (Kind.COMPREHENSION, Kind.HEAD) and scope.parent is not None:
            scope = scope.parent
        return scope

    def class_of(self, name: str) -> Scope | None:
        """Return the class that `name` is an instance of, where it is the first parameter of a method around."""
        scope: Scope | None = self
        for _looked in range(_MOST_SCOPES):
            if scope is None:
                return None
            if scope.this == name:
                return scope.owner
            if name in scope.bound:
                return None
            scope = scope.parent
        return None
