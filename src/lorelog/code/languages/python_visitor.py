"""Walk a Python tree once and collect definitions, uses and imports with their scopes.

Python is walked by hand and not with queries, because the meaning of a name depends on its context: a target, an
annotation, a default that is evaluated outside. The walk is a loop over a stack and not recursive, so that any depth
works, and goes in file order. A stack entry is a node, the mode for names in it, the scope, and the assignment that it
is a target of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.code.languages.hooks import MAX_DOCSTRING, MAX_SIGNATURE, format_head
from lorelog.code.languages.python_scopes import (
    PythonScope,
    ScopeKind,
    add_hint,
    as_target_hint,
    assignment_hint,
    expression_hint,
    hint_at,
    loop_hints,
    narrow_types,
)
from lorelog.code.source import SourceText
from lorelog.code.symbols import MAX_NAME
from lorelog.core.code import ImportStatement, SymbolKind, UseKind

if TYPE_CHECKING:
    from tree_sitter import Node

_STRING = re.compile(r"""([A-Za-z]*)(\"{3}|'{3}|"|')(.*)\2\Z""", re.DOTALL)
_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|#[^\n]*""")
_DOTTED_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_EXPORTED_NAME = re.compile(rb"""["'](\w+)["']""")
_MAX_EXPORT_LIST = 200_000
_KEYWORDS = frozenset({"None", "True", "False", "and", "or", "not", "if", "else", "for", "in", "is", "lambda"})
READ, CALL, WRITE, TYPE, BIND, PATTERN = range(6)
_USE_KINDS = (UseKind.READ, UseKind.CALL, UseKind.WRITE, UseKind.TYPE)
_TYPE_FACTORIES = frozenset({"TypeVar", "NewType", "ParamSpec", "TypeVarTuple", "TypeAliasType"})


def definition_head(source: SourceText, start: int, end: int) -> str:
    """Return the head of a definition on one line, without comments and the colon."""
    text = source.slice(start, min(end, start + MAX_SIGNATURE * 8))
    if "#" in text:
        text = _COMMENT.sub(lambda match: match[1] or "", text)
    line = format_head(text.rstrip().removesuffix(":"))
    return line.replace("( ", "(").replace(", )", ")").replace(",)", ")") if "\n" in text else line


def find_docstring(body: Node | None) -> Node | None:
    """Return the string that a body starts with."""
    if body is None:
        return None
    for index in range(min(body.named_child_count, 8)):
        statement = body.named_child(index)
        if statement is not None and statement.type != "comment":
            return string_statement(statement)
    return None


def string_statement(statement: Node) -> Node | None:
    """Return the string that a statement consists of, or None."""
    if statement.type != "expression_statement" or statement.named_child_count != 1:
        return None
    inner = statement.named_child(0)
    return inner if inner is not None and inner.type in ("string", "concatenated_string") else None


def docstring_text(node: Node | None, source: SourceText) -> str:
    """Return the text of a docstring without indentation; escapes stay as written."""
    if node is None:
        return ""
    match = _STRING.match(source.slice(node.start_byte, min(node.end_byte, node.start_byte + 100_000)))
    if match is None or not set(match[1].lower()) <= {"r", "u"}:
        return ""
    text = _dedent(match[3])
    return text if len(text) <= MAX_DOCSTRING else f"{text[: MAX_DOCSTRING - 1]}…"


def names_in_annotation(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the names in a string annotation with their offsets and receivers."""
    for match in _DOTTED_NAME.finditer(text):
        offset, receiver = match.start(), ""
        for name in match[0].split("."):
            if name not in _KEYWORDS:
                yield offset, name, receiver
            offset += len(name) + 1
            receiver = f"{receiver}.{name}" if receiver else name


def exported_names(source: SourceText, node: Node) -> set[str]:
    """Return the names in an assignment to `__all__`."""
    text = source.data[node.start_byte : min(node.end_byte, node.start_byte + _MAX_EXPORT_LIST)]
    return {name.decode() for name in _EXPORTED_NAME.findall(text)}


def name_visibility(name: str, *, in_class: bool) -> str:
    """Return the visibility of a name by its underscores."""
    if not name.startswith("_") or (name.startswith("__") and name.endswith("__") and len(name) > 4):
        return "public"
    if in_class and not name.startswith("__"):
        return "protected"
    return "private"


def _dedent(text: str) -> str:
    lines = text.expandtabs().splitlines()
    rest = [line for line in lines[1:] if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in rest), default=0)
    return "\n".join([*(line.strip() for line in lines[:1]), *(line[margin:].rstrip() for line in lines[1:])]).strip()


class PythonDefinition(Struct, kw_only=True):
    """A definition that becomes a symbol."""

    name: str
    kind: SymbolKind
    node: Node
    name_node: Node
    scope: PythonScope
    container: str
    signature: str = ""
    docstring: str = ""
    bases: tuple[str, ...] = ()


class AttributeAssignment(Struct):
    """An assignment to an attribute of the instance: a definition, if the class has no other."""

    name: str
    owner: PythonScope
    node: Node
    target: Node
    scope: PythonScope
    receiver: str


RawUse = tuple[str, UseKind, "tuple[int, int]", PythonScope, str, bool]
"""Name, kind, row and byte column, scope, receiver, and whether the name may be local."""

NodeHandler = Callable[["PythonVisitor", "Node", int, PythonScope, "Node | None"], None]


class PythonVisitor:
    """Collects the content of a file before names are resolved."""

    def __init__(self, source: SourceText, handlers: dict[str, NodeHandler]) -> None:
        self.source = source
        self._handlers = handlers
        self.definitions: list[PythonDefinition] = []
        self.uses: list[RawUse] = []
        self.imports: list[ImportStatement] = []
        self.attributes: list[AttributeAssignment] = []
        self.globals: list[tuple[str, Node, Node, PythonScope]] = []
        """Assignments in functions to global variables."""
        self.exported: set[str] = set()
        self.docstrings: set[int] = set()
        """Start bytes of strings that are documentation."""
        self.module = PythonScope(ScopeKind.MODULE, None)
        self.stack: list[tuple[Node, int, PythonScope, Node | None]] = []
        self._blocks: list[tuple[int, int]] = []
        self._attribute_docs: dict[int, Node] = {}
        """Strings below assignments, by the start byte of the assignment."""

    def walk(self, root: Node) -> None:
        """Visit a whole tree."""
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

    def push(self, children: list[Node], mode: int, scope: PythonScope, statement: Node | None = None) -> None:
        children.reverse()
        self.stack += [(child, mode, scope, statement) for child in children]

    def text(self, node: Node) -> str:
        return self.source.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # names

    def identifier(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        name = self.source.data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        if not name or len(name) > MAX_NAME:
            return
        if mode == BIND:
            scope.bound.add(name)
        elif mode in (WRITE, PATTERN):
            self._write(name, node, scope.binder(), statement)
        else:
            self.uses.append((name, _USE_KINDS[mode], node.start_point, scope, "", True))

    def _write(self, name: str, node: Node, scope: PythonScope, statement: Node | None) -> None:
        if scope.kind in (ScopeKind.MODULE, ScopeKind.CLASS):
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
            add_hint(scope, name, end, assignment_hint(statement, node, self.source))
        self.uses.append((name, UseKind.WRITE, node.start_point, scope, "", True))

    def _is_new(self, name: str, node: Node, scope: PythonScope) -> bool:
        """Return True if an assignment defines a variable: the first one, or the first in another branch."""
        start = node.start_byte
        while self._blocks and self._blocks[-1][1] <= start:
            self._blocks.pop()
        before = scope.blocks.get(name, ())
        if before and (0 in before or any(block in before for block, _end in self._blocks)):
            return False
        scope.blocks.setdefault(name, []).append(self._blocks[-1][0] if self._blocks else 0)
        return True

    def variable(self, name: str, node: Node, scope: PythonScope, statement: Node) -> None:
        scope.bound.add(name)
        if name == "__all__" and scope is self.module:
            self.exported |= exported_names(self.source, statement)
        signature, docstring = self.assignment_text(statement)
        self.definitions.append(
            PythonDefinition(
                name=name,
                kind=self._kind(name, scope, statement),
                node=statement,
                name_node=node,
                scope=scope,
                container=scope.container,
                signature=signature,
                docstring=docstring,
            )
        )

    def assignment_text(self, statement: Node) -> tuple[str, str]:
        """Return the text of an assignment on one line, and the docstring below it."""
        signature = definition_head(self.source, statement.start_byte, statement.end_byte)
        return signature, docstring_text(self._attribute_docs.get(statement.start_byte), self.source)

    def _kind(self, name: str, scope: PythonScope, statement: Node) -> SymbolKind:
        typed, value = statement.child_by_field_name("type"), statement.child_by_field_name("right")
        if statement.type == "type_alias_statement" or (typed is not None and self.text(typed).endswith("TypeAlias")):
            return SymbolKind.TYPE
        if value is not None and value.type == "call":
            function = value.child_by_field_name("function")
            if function is not None and self.text(function).rsplit(".", 1)[-1] in _TYPE_FACTORIES:
                return SymbolKind.TYPE
        is_final = typed is not None and self.text(typed).removeprefix("typing.").startswith("Final")
        is_member = scope.kind is ScopeKind.CLASS and scope.self_name == "enum" and typed is None
        bare = name.strip("_")
        if is_final or is_member or (bare.isupper() and len(bare) > 1):
            return SymbolKind.CONSTANT
        return SymbolKind.VARIABLE

    def attribute(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if len(children) < 2:
            self.push(children, READ, scope)
            return
        object_, target = children[0], children[-1]
        self.stack.append((object_, READ, scope, None))
        name, receiver = self.text(target), self._receiver(object_)
        if not name or len(name) > MAX_NAME or target.type != "identifier":
            return
        if mode == WRITE and statement is not None and object_.type == "identifier":
            owner = scope.class_of(receiver)
            if owner is not None:
                self.attributes.append(AttributeAssignment(name, owner, statement, target, scope, receiver))
                return
        kind = UseKind.WRITE if mode == PATTERN else _USE_KINDS[READ if mode == BIND else mode]
        receiver += hint_at(scope, receiver, node.start_byte)
        self.uses.append((name, kind, target.start_point, scope, receiver, False))

    def _receiver(self, node: Node) -> str:
        """Return the receiver; `super` for a call of it, `?` for an expression that is not a dotted name."""
        if node.type in ("identifier", "attribute") and node.end_byte - node.start_byte <= MAX_NAME:
            text = self.text(node)
            if all(part.isidentifier() for part in text.split(".")):
                return text
        if node.type == "call" and self.source.data.startswith(b"super(", node.start_byte):
            return "super"
        value = expression_hint(node, self.source)
        return f"?{value}" if value.startswith("=") else "?"

    # expressions

    def call(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if children:
            function = children.pop(0)
            # The grammar reads `*f()` as `(*f)()`.
            if function.type == "list_splat" and function.named_child_count == 1:
                function = function.named_children[0]
            self.push(children, READ, scope)
            self.stack.append((function, CALL if function.type in ("identifier", "attribute") else READ, scope, None))

    def keyword(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        value = node.child_by_field_name("value")
        if value is not None:
            self.stack.append((value, READ if mode != TYPE else TYPE, scope, None))

    def subscript(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """In an annotation the arguments are types, except those of Literal, and all but the first of Annotated."""
        children = node.named_children
        if mode != TYPE or not children:
            self.push(children, READ, scope)
            return
        value = self.text(children[0]).rsplit(".", 1)[-1] if len(children) > 1 else ""
        kept = 1 if value == "Literal" else 2 if value == "Annotated" else len(children)
        self.push(children[kept:], READ, scope)
        self.push(children[:kept], TYPE, scope)

    def generic(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit `X[…]` that the grammar knows to be a type."""
        children = node.named_children
        inner = children[-1].named_children if len(children) == 2 else []
        value = self.text(children[0]).rsplit(".", 1)[-1] if inner else ""
        kept = 0 if value == "Literal" else 1 if value == "Annotated" else len(inner)
        self.push(inner[kept:], READ, scope)
        self.push(inner[:kept], TYPE, scope)
        self.push(children if not inner else children[:1], mode, scope)

    def string(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if mode != TYPE:
            self.push([child for child in children if child.type == "interpolation"], READ, scope)
            return
        content = next((child for child in children if child.type == "string_content"), None)
        if content is None or content.child_count or content.end_byte - content.start_byte > MAX_NAME * 4:
            return
        text = self.text(content)
        row, column = content.start_point
        if "\n" in text:
            return
        for offset, name, receiver in names_in_annotation(text):
            kind = UseKind.TYPE if not text.startswith(".", offset + len(name)) else UseKind.READ
            point = (row, column + len(text[:offset].encode()))
            self.uses.append((name, kind, point, scope, receiver, not receiver))

    def interpolation(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        self.push(node.named_children, READ, scope)

    def named_expression(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        self.push(children[1:], READ, scope)
        if children:
            self.stack.append((children[0], WRITE, scope.walrus_scope(), None))

    def comprehension(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit a comprehension: the first iterable is evaluated outside, everything else inside."""
        inner = PythonScope(ScopeKind.COMPREHENSION, scope, scope.symbol, scope.container)
        is_first = True
        todo: list[tuple[Node, int, PythonScope, Node | None]] = []
        for child in node.named_children:
            if child.type != "for_in_clause":
                todo.append((child, READ, inner, None))
                continue
            parts = child.named_children
            todo += [(parts[0], BIND, inner, None)] if parts else []
            hints = loop_hints(parts[0], parts[1], self.source) if len(parts) > 1 else {}
            for name, hint in hints.items():
                add_hint(inner, name, node.start_byte, hint)
            todo += [(part, READ, scope if is_first else inner, None) for part in parts[1:]]
            is_first = False
        todo.reverse()
        self.stack += todo

    # statements

    def block(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if node.type == "block":
            start = node.start_byte
            while self._blocks and self._blocks[-1][1] <= start:
                self._blocks.pop()
            self._blocks.append((start, node.end_byte))
        for before, after in pairwise(children):
            if after.type == "expression_statement" and before.type == "expression_statement":
                docstring = string_statement(after)
                assignment = before.named_child(0) if docstring is not None else None
                if docstring is not None and assignment is not None and assignment.type == "assignment":
                    self._attribute_docs[assignment.start_byte] = docstring
                    self.docstrings.add(docstring.start_byte)
        self.push(children, READ, scope)

    def assignment(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        typed = node.child_by_field_name("type")
        for part in (right, typed):
            if part is not None:
                self.stack.append((part, READ if part is right else TYPE, scope, statement or node))
        if left is not None:
            self.stack.append((left, WRITE, scope, statement or node))

    def augmented(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if right is not None:
            self.stack.append((right, READ, scope, None))
        if left is not None:
            self.stack.append((left, WRITE, scope, None))
            if scope is self.module and self.source.text(left) == "__all__":
                self.exported |= exported_names(self.source, node)

    def alias(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit `type X[T] = …`."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        while left is not None and left.type in ("type", "generic_type") and left.named_child_count:
            left, *parameters = left.named_children
            if parameters:
                scope = PythonScope(ScopeKind.HEAD, scope, scope.symbol, scope.container)
                self.stack += [(parameter, BIND, scope, None) for parameter in parameters]
        is_alias = left is None or left.type == "identifier"
        if not is_alias:  # the grammar reads `type(x).a = 1` as an alias
            self.uses.append(("type", UseKind.CALL, node.start_point, scope, "", True))
        if right is not None:
            self.stack.append((right, TYPE if is_alias else READ, scope, None))
        if left is not None:
            self.stack.append((left, WRITE, scope, node if is_alias else None))

    def loop(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        left = node.child_by_field_name("left")
        self.push([child for child in node.named_children if child != left], READ, scope)
        if left is not None:
            self.stack.append((left, WRITE, scope, None))
            if scope.kind is ScopeKind.FUNCTION:
                for name, hint in loop_hints(left, node.child_by_field_name("right"), self.source).items():
                    add_hint(scope, name, left.end_byte + 1, hint)

    def condition(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit `if`, `elif`, `while`, `assert` or `and`: a type check in front holds for the rest."""
        children = node.named_children
        if children and node.type != "boolean_operator":
            body = node.child_by_field_name("consequence") or node.child_by_field_name("body")
            end = body.end_byte if body is not None else len(self.source.data)
            narrow_types(scope.binder(), children[0], end, self.source)
        elif children:
            narrow_types(scope.binder(), node, node.end_byte, self.source)
        self.push(children, mode, scope, statement)

    def as_pattern(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit `with f() as x`, `except E as x` or `case p as x`."""
        children = node.named_children
        binder = scope.binder()
        if binder.kind is ScopeKind.FUNCTION and children and children[-1].type == "as_pattern_target":
            target = children[-1].named_child(0)
            if target is not None and target.type == "identifier":
                add_hint(binder, self.text(target), node.end_byte + 1, as_target_hint(children[0], self.source))
        self.push(children, mode, scope)

    def target(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        self.push(node.named_children, WRITE, scope)

    def scope_declaration(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        names = {self.text(child) for child in node.named_children}
        (scope.globals if node.type == "global_statement" else scope.nonlocals).update(names)

    # patterns of match statements

    def pattern(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        self.push(node.named_children, PATTERN, scope)

    def dotted(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        parts = node.named_children
        if mode == PATTERN and len(parts) == 1:
            self.stack.append((parts[0], WRITE, scope, None))
            return
        receiver = ""
        for part in parts[:20]:
            name = self.text(part)
            self.uses.append((name, UseKind.READ, part.start_point, scope, receiver[:MAX_NAME], not receiver))
            receiver = f"{receiver}.{name}" if receiver else name

    def class_pattern(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        self.push(children[1:], PATTERN, scope)
        if children:
            self.stack.append((children[0], READ, scope, None))

    def keyword_pattern(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        self.push(node.named_children[1:], PATTERN, scope)


STATEMENT_HANDLERS: dict[str, NodeHandler] = {
    "identifier": PythonVisitor.identifier,
    "attribute": PythonVisitor.attribute,
    "call": PythonVisitor.call,
    "keyword_argument": PythonVisitor.keyword,
    "subscript": PythonVisitor.subscript,
    "generic_type": PythonVisitor.generic,
    "string": PythonVisitor.string,
    "interpolation": PythonVisitor.interpolation,
    "named_expression": PythonVisitor.named_expression,
    "list_comprehension": PythonVisitor.comprehension,
    "set_comprehension": PythonVisitor.comprehension,
    "dictionary_comprehension": PythonVisitor.comprehension,
    "generator_expression": PythonVisitor.comprehension,
    "module": PythonVisitor.block,
    "block": PythonVisitor.block,
    "assignment": PythonVisitor.assignment,
    "augmented_assignment": PythonVisitor.augmented,
    "type_alias_statement": PythonVisitor.alias,
    "for_statement": PythonVisitor.loop,
    "if_statement": PythonVisitor.condition,
    "elif_clause": PythonVisitor.condition,
    "while_statement": PythonVisitor.condition,
    "assert_statement": PythonVisitor.condition,
    "boolean_operator": PythonVisitor.condition,
    "as_pattern": PythonVisitor.as_pattern,
    "as_pattern_target": PythonVisitor.target,
    "delete_statement": PythonVisitor.target,
    "global_statement": PythonVisitor.scope_declaration,
    "nonlocal_statement": PythonVisitor.scope_declaration,
    "case_pattern": PythonVisitor.pattern,
    "dotted_name": PythonVisitor.dotted,
    "class_pattern": PythonVisitor.class_pattern,
    "keyword_pattern": PythonVisitor.keyword_pattern,
    "comment": lambda walk, node, mode, scope, statement: None,
}
