"""Python scopes: which names are local to a function, and hints about the values of local variables.

A name that is bound anywhere in a function is local to it; functions do not see the names of an enclosing class;
comprehensions and lambdas have their own scopes; `global` and `nonlocal` override this. Functions, classes and imports
inside a function are bound there too, but they are symbols or names of other files, and are not local.

The type of `x` in `x.close()` decides which method is meant. Annotations of parameters, attributes and module variables
are in signatures, which the index stores. Those of local variables are only in the body, so hints are recorded during
the walk and appended to the receiver of a use: `x=Foo` for a variable assigned from a call of `Foo`, `x:Foo` for one
that is annotated, and `?=Foo` for a call itself. The last hint above the use counts. Loops, `with`, `isinstance` and
assignments of other names have none: on 185 uses of methods they changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct, field
from tree_sitter import Node

from lorelog.code.source import SourceText
from lorelog.code.symbols import MAX_NAME

_MAX_SCOPES = 200
_MAX_HINTS = 50
_WRAPPERS = frozenset({"parenthesized_expression", "await"})


class ScopeKind(Enum):
    """The construct that opens a scope."""

    MODULE = 0
    CLASS = 1
    FUNCTION = 2
    COMPREHENSION = 3
    HEAD = 4
    """Decorators, defaults and annotations of a definition, which are evaluated outside of it; and type parameters."""


class PythonScope(Struct, eq=False):
    kind: ScopeKind
    parent: PythonScope | None = None
    symbol: int = -1
    """Index of the symbol that encloses uses in this scope."""
    container: str = ""
    """Qualified name of the enclosing definition."""
    depth: int = 0
    """Number of enclosing definitions."""
    bound: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    """Names of definitions and imports, which are not local."""
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    owner: PythonScope | None = None
    """The class of a method."""
    self_name: str = ""
    """Name of the instance or class in a method."""
    is_enum: bool = False
    blocks: dict[str, list[int]] = field(default_factory=dict)
    """Branches in which a variable of a module or class was defined."""
    hints: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Hints about local variables, each with the byte from which it holds."""
    local_names: dict[str, bool] = field(default_factory=dict)
    """Names that `is_local` was asked for."""

    def inside(self, kind: ScopeKind) -> PythonScope:
        return PythonScope(kind, self, self.symbol, self.container, self.depth)

    def is_local(self, name: str) -> bool:
        """Return True if a name is a local variable of a function."""
        if name not in self.local_names:
            self.local_names[name] = False
            for scope in self.chain():
                if scope.kind is ScopeKind.MODULE or name in scope.globals:
                    break
                is_bound = name in scope.bound or name in scope.shared
                if scope.kind is ScopeKind.CLASS:
                    if scope is self and is_bound:
                        break
                elif is_bound and name not in scope.nonlocals:
                    self.local_names[name] = name not in scope.shared
                    break
        return self.local_names[name]

    def chain(self) -> Iterator[PythonScope]:
        """Yield this scope and the scopes around it."""
        scope: PythonScope | None = self
        for _ in range(_MAX_SCOPES):
            if scope is None:
                return
            yield scope
            scope = scope.parent

    def binder(self, *skipped: ScopeKind) -> PythonScope:
        """Return the scope in which an assignment binds a name: heads and some other kinds of scopes are skipped."""
        scope = self
        while (scope.kind is ScopeKind.HEAD or scope.kind in skipped) and scope.parent is not None:
            scope = scope.parent
        return scope

    def class_of(self, name: str) -> PythonScope | None:
        """Return the class of `name` if it is the instance parameter of an enclosing method."""
        around = (scope for scope in self.chain() if scope.self_name == name or name in scope.bound)
        scope = next(around, None)
        return scope.owner if scope is not None and scope.self_name == name else None


def assignment_hint(statement: Node | None, target: Node, source: SourceText) -> str:
    """Return the hint for the only target of an assignment, or an empty string."""
    if statement is None or statement.child_by_field_name("left") != target:
        return ""
    typed = statement.child_by_field_name("type")
    if typed is not None:
        text = source.text(typed)
        return f":{text}" if len(text) <= MAX_NAME and "\n" not in text else ""
    return expression_hint(statement.child_by_field_name("right"), source)


def expression_hint(node: Node | None, source: SourceText) -> str:
    """Return the hint for a call of a dotted name."""
    for _ in range(3):
        if node is not None and node.type in _WRAPPERS and node.named_child_count == 1:
            node = node.named_child(0)
    called = node.child_by_field_name("function") if node is not None and node.type == "call" else None
    name = plain_name(called, source)
    return f"={name}" if name else ""


def plain_name(node: Node | None, source: SourceText) -> str:
    """Return a name with or without dots; empty for any other expression."""
    if node is None or node.type not in ("identifier", "attribute") or node.end_byte - node.start_byte > MAX_NAME:
        return ""
    text = source.text(node)
    return text if all(part.isidentifier() for part in text.split(".")) else ""


def add_hint(scope: PythonScope, name: str, end: int, hint: str) -> None:
    """Record a hint about a local variable from a byte on."""
    if scope.hints or hint:
        scope.hints.setdefault(name, []).append((end, hint))


def hint_at(scope: PythonScope, receiver: str, start: int) -> str:
    """Return the hint at a byte for the variable that a receiver starts with."""
    name = receiver.partition(".")[0]
    for around in scope.chain():
        if around.kind is ScopeKind.MODULE:
            break
        if name in around.hints:
            known = [(end, hint) for end, hint in around.hints[name][-_MAX_HINTS:] if end <= start]
            return max(known, default=(0, ""))[1]
        if name in around.bound and around.kind is not ScopeKind.CLASS:
            break
    return ""
