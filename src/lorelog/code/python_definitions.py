"""Functions, classes, lambdas and imports of a Python tree: what opens scopes, and what is bound from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.code import python_text as texts
from lorelog.code.matching import MOST_NAME, without_arguments
from lorelog.code.nesting import MOST_DEPTH
from lorelog.code.python_scopes import Kind, Scope
from lorelog.code.python_walk import BIND, READ, TYPE, Defined, Handler, Walk
from lorelog.core.code import Import, SymbolKind, UseKind

if TYPE_CHECKING:
    from tree_sitter import Node

_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_MOST_BASES = 50


def decorated(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """Hand a definition its decorators: they are part of its span."""
    definition = node.child_by_field_name("definition")
    if definition is None:
        walk.push(node.named_children, READ, scope)
    elif definition.type == "class_definition":
        class_(walk, definition, mode, scope, node)
    else:
        function(walk, definition, mode, scope, node)


def function(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """Read the head of a function outside of it, and its body inside."""
    whole = statement if statement is not None and statement.type == "decorated_definition" else node
    binder = scope.binder()
    is_method = binder.kind is Kind.CLASS
    head = _define(walk, node, whole, scope, SymbolKind.METHOD if is_method else SymbolKind.FUNCTION)
    inner = Scope(Kind.FUNCTION, head, head.symbol, head.container)
    decorators = whole.named_children[:-1] if whole is not node else []
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if is_method:
        _know_itself(walk, inner, binder, parameters, decorators)
    todo: list[tuple[Node, int, Scope, Node | None]] = [(one, READ, head, None) for one in decorators]
    generic = node.child_by_field_name("type_parameters")
    if generic is not None:
        todo += _type_parameters(generic, head)
    if parameters is not None:
        todo += _parameters(walk, parameters, head, inner)
    returned = node.child_by_field_name("return_type")
    if returned is not None:
        todo.append((returned, TYPE, head, None))
    if body is not None:
        todo.append((body, READ, inner, None))
    todo.reverse()
    walk.stack += todo


def lambda_(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """A function without a name."""
    inner = Scope(Kind.FUNCTION, scope, scope.symbol, scope.container)
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if body is not None:
        walk.stack.append((body, READ, inner, None))
    if parameters is not None:
        walk.stack += reversed(_parameters(walk, parameters, scope, inner))


def class_(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """Read the bases of a class outside of it, and its body inside."""
    whole = statement if statement is not None and statement.type == "decorated_definition" else node
    above, body = node.child_by_field_name("superclasses"), node.child_by_field_name("body")
    positional = (
        [one for one in above.named_children if one.type not in ("keyword_argument", "comment")] if above else []
    )
    bases = tuple(without_arguments(walk.text(one))[:MOST_NAME] for one in positional[:_MOST_BASES])
    last = {base.rsplit(".", 1)[-1] for base in bases}
    kind = SymbolKind.ENUM if last & _ENUMS else SymbolKind.INTERFACE if "Protocol" in last else SymbolKind.CLASS
    head = _define(walk, node, whole, scope, kind, bases)
    inner = Scope(Kind.CLASS, head, head.symbol, head.container)
    if kind is SymbolKind.ENUM:
        inner.this = "enum"
    decorators = whole.named_children[:-1] if whole is not node else []
    todo: list[tuple[Node, int, Scope, Node | None]] = [(one, READ, head, None) for one in decorators]
    generic = node.child_by_field_name("type_parameters")
    if generic is not None:
        todo += _type_parameters(generic, head)
    if above is not None:
        todo += [(one, READ if one.type == "keyword_argument" else TYPE, head, None) for one in above.named_children]
    if body is not None:
        todo.append((body, READ, inner, None))
    todo.reverse()
    walk.stack += todo


def import_(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """`import a.b as c, d`."""
    for child in node.children_by_field_name("name"):
        module, alias = _names(walk, child)
        if module is None:
            continue
        name = walk.text(module)
        scope.binder().shared.add(alias or name.split(".", 1)[0])
        walk.imports.append(Import(name, "", alias, *walk.source.place(*module.start_point)))


def from_import(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """`from ..a import b as c, d`, or `*`."""
    from_ = node.child_by_field_name("module_name")
    module = "".join(walk.text(from_).split()) if from_ is not None else "__future__"
    binder = scope.binder()
    for child in node.children_by_field_name("name"):
        named, alias = _names(walk, child)
        if named is None:
            continue
        name = walk.text(named)
        binder.shared.add(alias or name)
        walk.imports.append(
            Import(module, name, "" if alias == name else alias, *walk.source.place(*named.start_point))
        )
        walk.uses.append((name, UseKind.IMPORT, named.start_point, scope, module, False))
    for child in node.named_children:
        if child.type == "wildcard_import":
            walk.imports.append(Import(module, "*", "", *walk.source.place(*child.start_point)))


def constrained(walk: Walk, node: Node, mode: int, scope: Scope, statement: Node | None) -> None:
    """`T: Bound` among type parameters."""
    children = node.named_children
    walk.push(children[1:], TYPE, scope)
    walk.push(children[:1], mode, scope)


def _names(walk: Walk, node: Node) -> tuple[Node | None, str]:
    """Return what is imported, and what it is called here where that is said."""
    if node.type != "aliased_import":
        return node, ""
    alias = node.child_by_field_name("alias")
    return node.child_by_field_name("name"), walk.text(alias) if alias is not None else ""


def _define(walk: Walk, node: Node, whole: Node, scope: Scope, kind: SymbolKind, bases: tuple[str, ...] = ()) -> Scope:
    """Add a definition; return the scope of its head, which is also what its body's scope is below."""
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    head = Scope(Kind.HEAD, scope, scope.symbol, scope.container)
    name = walk.text(name_node) if name_node is not None else ""
    head.depth += 1
    if name_node is None or not name or len(name) > MOST_NAME:
        return head
    scope.binder().shared.add(name)
    if head.depth > MOST_DEPTH:
        return head
    said = texts.docstring_node(body)
    if said is not None:
        walk.docstrings.add(said.start_byte)
    signature = texts.head(walk.source, node.start_byte, node.end_byte if body is None else body.start_byte)
    made = Defined(name, kind, whole, name_node, scope, scope.container, signature, bases=bases)
    made.docstring = texts.docstring(said, walk.source)
    walk.defined.append(made)
    head.symbol = len(walk.defined) - 1
    head.container = f"{scope.container}.{name}" if scope.container else name
    return head


def _know_itself(walk: Walk, inner: Scope, owner: Scope, parameters: Node | None, decorators: list[Node]) -> None:
    """Let a method know what it calls its instance or class."""
    if parameters is None or any(walk.text(one).lstrip("@ ").startswith("staticmethod") for one in decorators):
        return
    first = next(iter(parameters.named_children), None)
    if first is not None and first.type in ("typed_parameter", "default_parameter", "typed_default_parameter"):
        first = next(iter(first.named_children), None)
    if first is not None and first.type == "identifier":
        inner.this, inner.owner = walk.text(first), owner


def _parameters(walk: Walk, node: Node, head: Scope, inner: Scope) -> list[tuple[Node, int, Scope, Node | None]]:
    """Return what is to be read of parameters: their names are bound inside, the rest is evaluated outside."""
    todo: list[tuple[Node, int, Scope, Node | None]] = []
    for child in node.named_children:
        if child.type in ("typed_parameter", "default_parameter", "typed_default_parameter"):
            typed, value = child.child_by_field_name("type"), child.child_by_field_name("value")
            name = next(iter(child.named_children), None)
            if name is not None:
                todo.append((name, BIND, inner, None))
            if typed is not None:
                todo.append((typed, TYPE, head, None))
            if value is not None:
                todo.append((value, READ, head, None))
        else:
            todo.append((child, BIND, inner, None))
    return todo


def _type_parameters(node: Node, head: Scope) -> list[tuple[Node, int, Scope, Node | None]]:
    return [(child, BIND, head, None) for child in node.named_children]


DEFINITIONS: dict[str, Handler] = {
    "decorated_definition": decorated,
    "function_definition": function,
    "class_definition": class_,
    "lambda": lambda_,
    "import_statement": import_,
    "import_from_statement": from_import,
    "future_import_statement": from_import,
    "constrained_type": constrained,
}
