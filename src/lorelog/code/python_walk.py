"""One pass over a Python tree: what is defined, what is used, in which scope.

Python is walked by hand and not by queries, because what a name is depends on what is around it: a target, an
annotation, a default that is evaluated outside. The walk is a loop over a stack and not recursion, so that depth does
not matter, and it goes in the order of the file. Each entry of the stack is a node, what is done with names in it, the scope, and
the assignment that it is a target of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lorelog.code import python_held as held
from lorelog.code import python_text as texts
from lorelog.code.matching import MOST_NAME
from lorelog.code.python_scopes import Kind, Scope
from lorelog.code.source import Source
from lorelog.core.code import Import, SymbolKind, UseKind

if TYPE_CHECKING:
    from tree_sitter import Node

READ, CALL, WRITE, TYPE, BIND, PATTERN = range(6)
_KINDS = (UseKind.READ, UseKind.CALL, UseKind.WRITE, UseKind.TYPE)
_ALIASES = frozenset({"TypeVar", "NewType", "ParamSpec", "TypeVarTuple", "TypeAliasType"})


@dataclass(slots=True)
class Defined:
    """A symbol in the making."""

    name: str
    kind: SymbolKind
    node: Node
    name_node: Node
    scope: Scope
    container: str
    signature: str = ""
    docstring: str = ""
    bases: tuple[str, ...] = ()


@dataclass(slots=True)
class Attribute:
    """An assignment to an attribute of a method's instance: a definition, if the class has no other."""

    name: str
    owner: Scope
    node: Node
    target: Node
    scope: Scope
    receiver: str


RawUse = tuple[str, UseKind, "tuple[int, int]", Scope, str, bool]
"""Name, kind, row and byte column, scope, receiver; and whether the name may be a function's own."""

Handler = Callable[["Walk", "Node", int, Scope, "Node | None"], None]


class Walk:
    """What a file says, before names are resolved."""

    def __init__(self, source: Source, handlers: dict[str, Handler]) -> None:
        self.source = source
        self._handlers = handlers
        self.defined: list[Defined] = []
        self.uses: list[RawUse] = []
        self.imports: list[Import] = []
        self.attributes: list[Attribute] = []
        self.globals: list[tuple[str, Node, Node, Scope]] = []
        """Assignments in functions to names that are declared global."""
        self.exported: set[str] = set()
        self.docstrings: set[int] = set()
        """Where strings begin that are documentation."""
        self.module = Scope(Kind.MODULE, None)
        self.stack: list[tuple[Node, int, Scope, Node | None]] = []
        self._blocks: list[tuple[int, int]] = []
        self._notes: dict[int, Node] = {}
        """Strings below assignments, by where the assignment begins."""

    def walk(self, root: Node) -> None:
        """Read a whole tree."""
        stack, handlers = self.stack, self._handlers
        stack.append((root, READ, self.module, None))
        self._blocks.clear()
        while stack:
            node, mode, scope, statement = stack.pop()
            handler = handlers.get(node.type)
            if handler is not None:
                handler(self, node, mode, scope, statement)
            else:
                children = node.named_children
                if children:
                    children.reverse()
                    stack += [(child, mode, scope, statement) for child in children]

    def push(self, children: list[Node], mode: int, scope: Scope, statement: Node | None = None) -> None:
        children.reverse()
        self.stack += [(child, mode, scope, statement) for child in children]

    def text(self, node: Node) -> str:
        return self.source.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # names

    def identifier(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        name = self.source.data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        if not name or len(name) > MOST_NAME:
            return
        if mode == BIND:
            scope.bound.add(name)
        elif mode in (WRITE, PATTERN):
            self._write(name, node, scope.binder(), statement)
        else:
            self.uses.append((name, _KINDS[mode], node.start_point, scope, "", True))

    def _write(self, name: str, node: Node, scope: Scope, statement: Node | None) -> None:
        if scope.kind in (Kind.MODULE, Kind.CLASS):
            if statement is not None and self._is_new(name, node, scope):
                self.variable(name, node, scope, statement)
                return
            scope.bound.add(name)
        elif name in scope.globals:
            if statement is not None:
                self.globals.append((name, node, statement, scope))
                return
        elif name not in scope.nonlocals:
            scope.bound.add(name)
            end = node.end_byte if statement is None else statement.end_byte
            held.note(scope, name, end, held.hint_of(statement, node, self.source))
        self.uses.append((name, UseKind.WRITE, node.start_point, scope, "", True))

    def _is_new(self, name: str, node: Node, scope: Scope) -> bool:
        """Return whether an assignment defines a variable: none did before it, but in another branch."""
        start = node.start_byte
        while self._blocks and self._blocks[-1][1] <= start:
            self._blocks.pop()
        before = scope.blocks.get(name, ())
        if before and (0 in before or any(block in before for block, _end in self._blocks)):
            return False
        scope.blocks.setdefault(name, []).append(self._blocks[-1][0] if self._blocks else 0)
        return True

    def variable(self, name: str, node: Node, scope: Scope, statement: Node) -> None:
        scope.bound.add(name)
        if name == "__all__" and scope is self.module:
            self.exported |= texts.exported_names(self.source, statement)
        self.defined.append(
            Defined(
                name, self._kind(name, scope, statement), statement, node, scope, scope.container, *self.said(statement)
            )
        )

    def said(self, statement: Node) -> tuple[str, str]:
        """Return the text of an assignment on one line, and the string below it."""
        signature = texts.head(self.source, statement.start_byte, statement.end_byte)
        return signature, texts.docstring(self._notes.get(statement.start_byte), self.source)

    def _kind(self, name: str, scope: Scope, statement: Node) -> SymbolKind:
        typed, value = statement.child_by_field_name("type"), statement.child_by_field_name("right")
        if statement.type == "type_alias_statement" or (typed is not None and self.text(typed).endswith("TypeAlias")):
            return SymbolKind.TYPE
        if value is not None and value.type == "call":
            called = value.child_by_field_name("function")
            if called is not None and self.text(called).rsplit(".", 1)[-1] in _ALIASES:
                return SymbolKind.TYPE
        is_final = typed is not None and self.text(typed).removeprefix("typing.").startswith("Final")
        is_member = scope.kind is Kind.CLASS and scope.this == "enum" and typed is None
        bare = name.strip("_")
        if is_final or is_member or (bare.isupper() and len(bare) > 1):
            return SymbolKind.CONSTANT
        return SymbolKind.VARIABLE

    def attribute(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        children = node.named_children
        if len(children) < 2:
            self.push(children, READ, scope)
            return
        object_, target = children[0], children[-1]
        self.stack.append((object_, READ, scope, None))
        name, receiver = self.text(target), self._receiver(object_)
        if not name or len(name) > MOST_NAME or target.type != "identifier":
            return
        if mode == WRITE and statement is not None and object_.type == "identifier":
            owner = scope.class_of(receiver)
            if owner is not None:
                self.attributes.append(Attribute(name, owner, statement, target, scope, receiver))
                return
        kind = UseKind.WRITE if mode == PATTERN else _KINDS[READ if mode == BIND else mode]
        receiver += held.known(scope, receiver, node.start_byte)
        self.uses.append((name, kind, target.start_point, scope, receiver, False))

    def _receiver(self, node: Node) -> str:
        """Return what stands before a dot; `super` for a call of it, `?` for what is no plain name."""
        if node.type in ("identifier", "attribute") and node.end_byte - node.start_byte <= MOST_NAME:
            text = self.text(node)
            if all(part.isidentifier() for part in text.split(".")):
                return text
        if node.type == "call" and self.source.data.startswith(b"super(", node.start_byte):
            return "super"
        value = held.value_of(node, self.source)
        return f"?{value}" if value.startswith("=") else "?"

    # expressions

    def call(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        children = node.named_children
        if children:
            function = children.pop(0)
            if (
                function.type == "list_splat" and function.named_child_count == 1
            ):  # the grammar reads `*f()` as `(*f)()`
                function = function.named_children[0]
            self.push(children, READ, scope)
            self.stack.append((function, CALL if function.type in ("identifier", "attribute") else READ, scope, None))

    def keyword(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        value = node.child_by_field_name("value")
        if value is not None:
            self.stack.append((value, READ if mode != TYPE else TYPE, scope, None))

    def subscript(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        """In an annotation the arguments are types, but for those of Literal, and all but the first of Annotated."""
        children = node.named_children
        if mode != TYPE or not children:
            self.push(children, READ, scope)
            return
        value = self.text(children[0]).rsplit(".", 1)[-1] if len(children) > 1 else ""
        kept = 1 if value == "Literal" else 2 if value == "Annotated" else len(children)
        self.push(children[kept:], READ, scope)
        self.push(children[:kept], TYPE, scope)

    def generic(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        """`X[…]` where the grammar knows that it is a type."""
        children = node.named_children
        inner = children[-1].named_children if len(children) == 2 else []
        value = self.text(children[0]).rsplit(".", 1)[-1] if inner else ""
        kept = 0 if value == "Literal" else 1 if value == "Annotated" else len(inner)
        self.push(inner[kept:], READ, scope)
        self.push(inner[:kept], TYPE, scope)
        self.push(children if not inner else children[:1], mode, scope)

    def string(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        children = node.named_children
        if mode != TYPE:
            self.push([child for child in children if child.type == "interpolation"], READ, scope)
            return
        content = next((child for child in children if child.type == "string_content"), None)
        if content is None or content.child_count or content.end_byte - content.start_byte > MOST_NAME * 4:
            return
        text = self.text(content)
        row, column = content.start_point
        if "\n" in text:
            return
        for offset, name, before in texts.annotated_names(text):
            kind = UseKind.TYPE if not text.startswith(".", offset + len(name)) else UseKind.READ
            place = (row, column + len(text[:offset].encode()))
            self.uses.append((name, kind, place, scope, before, not before))

    def interpolation(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        self.push(node.named_children, READ, scope)

    def named(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        children = node.named_children
        self.push(children[1:], READ, scope)
        if children:
            self.stack.append((children[0], WRITE, scope.outer(), None))

    def comprehension(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        """What the first `for` goes over is evaluated outside; everything else is in here."""
        inner = Scope(Kind.COMPREHENSION, scope, scope.symbol, scope.container)
        is_first = True
        todo: list[tuple[Node, int, Scope, Node | None]] = []
        for child in node.named_children:
            if child.type != "for_in_clause":
                todo.append((child, READ, inner, None))
                continue
            parts = child.named_children
            todo += [(parts[0], BIND, inner, None)] if parts else []
            said = held.go_over(parts[0], parts[1], self.source) if len(parts) > 1 else {}
            for name, hint in said.items():
                held.note(inner, name, node.start_byte, hint)
            todo += [(part, READ, scope if is_first else inner, None) for part in parts[1:]]
            is_first = False
        todo.reverse()
        self.stack += todo

    # statements

    def block(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        children = node.named_children
        if node.type == "block":
            start = node.start_byte
            while self._blocks and self._blocks[-1][1] <= start:
                self._blocks.pop()
            self._blocks.append((start, node.end_byte))
        for before, after in pairwise(children):
            if after.type == "expression_statement" and before.type == "expression_statement":
                note = texts.string_of(after)
                assignment = before.named_child(0) if note is not None else None
                if note is not None and assignment is not None and assignment.type == "assignment":
                    self._notes[assignment.start_byte] = note
                    self.docstrings.add(note.start_byte)
        self.push(children, READ, scope)

    def assignment(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        typed = node.child_by_field_name("type")
        for part in (right, typed):
            if part is not None:
                self.stack.append((part, READ if part is right else TYPE, scope, statement or node))
        if left is not None:
            self.stack.append((left, WRITE, scope, statement or node))

    def augmented(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if right is not None:
            self.stack.append((right, READ, scope, None))
        if left is not None:
            self.stack.append((left, WRITE, scope, None))
            if scope is self.module and self.source.text(left) == "__all__":
                self.exported |= texts.exported_names(self.source, node)

    def alias(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        """`type X[T] = …`."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        while left is not None and left.type in ("type", "generic_type") and left.named_child_count:
            left, *parameters = left.named_children
            if parameters:
                scope = Scope(Kind.HEAD, scope, scope.symbol, scope.container)
                self.stack += [(one, BIND, scope, None) for one in parameters]
        is_alias = left is None or left.type == "identifier"
        if not is_alias:  # the grammar takes `type(x).a = 1` for one
            self.uses.append(("type", UseKind.CALL, node.start_point, scope, "", True))
        if right is not None:
            self.stack.append((right, TYPE if is_alias else READ, scope, None))
        if left is not None:
            self.stack.append((left, WRITE, scope, node if is_alias else None))

    def loop(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        left = node.child_by_field_name("left")
        self.push([child for child in node.named_children if child != left], READ, scope)
        if left is not None:
            self.stack.append((left, WRITE, scope, None))
            if scope.kind is Kind.FUNCTION:
                for name, hint in held.go_over(left, node.child_by_field_name("right"), self.source).items():
                    held.note(scope, name, left.end_byte + 1, hint)

    def condition(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        """`if`, `elif`, `while`, `assert`, `and`: what is asked in front holds behind."""
        children = node.named_children
        if children and node.type != "boolean_operator":
            body = node.child_by_field_name("consequence") or node.child_by_field_name("body")
            end = body.end_byte if body is not None else len(self.source.data)
            held.narrow(scope.binder(), children[0], end, self.source)
        elif children:
            held.narrow(scope.binder(), node, node.end_byte, self.source)
        self.push(children, mode, scope, statement)

    def as_(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        """`with f() as x`, `except E as x`, `case p as x`."""
        children = node.named_children
        binder = scope.binder()
        if binder.kind is Kind.FUNCTION and children and children[-1].type == "as_pattern_target":
            target = children[-1].named_child(0)
            if target is not None and target.type == "identifier":
                held.note(binder, self.text(target), node.end_byte + 1, held.caught(children[0], self.source))
        self.push(children, mode, scope)

    def target(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        self.push(node.named_children, WRITE, scope)

    def declared(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        names = {self.text(child) for child in node.named_children}
        (scope.globals if node.type == "global_statement" else scope.nonlocals).update(names)

    # patterns of match statements

    def pattern(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        self.push(node.named_children, PATTERN, scope)

    def dotted(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        parts = node.named_children
        if mode == PATTERN and len(parts) == 1:
            self.stack.append((parts[0], WRITE, scope, None))
            return
        before = ""
        for part in parts[:20]:
            name = self.text(part)
            self.uses.append((name, UseKind.READ, part.start_point, scope, before[:MOST_NAME], not before))
            before = f"{before}.{name}" if before else name

    def class_pattern(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        children = node.named_children
        self.push(children[1:], PATTERN, scope)
        if children:
            self.stack.append((children[0], READ, scope, None))

    def keyword_pattern(self, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
        self.push(node.named_children[1:], PATTERN, scope)


STATEMENTS: dict[str, Handler] = {
    "identifier": Walk.identifier,
    "attribute": Walk.attribute,
    "call": Walk.call,
    "keyword_argument": Walk.keyword,
    "subscript": Walk.subscript,
    "generic_type": Walk.generic,
    "string": Walk.string,
    "interpolation": Walk.interpolation,
    "named_expression": Walk.named,
    "list_comprehension": Walk.comprehension,
    "set_comprehension": Walk.comprehension,
    "dictionary_comprehension": Walk.comprehension,
    "generator_expression": Walk.comprehension,
    "module": Walk.block,
    "block": Walk.block,
    "assignment": Walk.assignment,
    "augmented_assignment": Walk.augmented,
    "type_alias_statement": Walk.alias,
    "for_statement": Walk.loop,
    "if_statement": Walk.condition,
    "elif_clause": Walk.condition,
    "while_statement": Walk.condition,
    "assert_statement": Walk.condition,
    "boolean_operator": Walk.condition,
    "as_pattern": Walk.as_,
    "as_pattern_target": Walk.target,
    "delete_statement": Walk.target,
    "global_statement": Walk.declared,
    "nonlocal_statement": Walk.declared,
    "case_pattern": Walk.pattern,
    "dotted_name": Walk.dotted,
    "class_pattern": Walk.class_pattern,
    "keyword_pattern": Walk.keyword_pattern,
    "comment": lambda walk, node, mode, scope, statement: None,
}
