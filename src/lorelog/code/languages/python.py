"""Extract the symbols, uses and imports of a Python file from its tree.

Symbols are functions, classes and methods wherever they are, with every overload and branch; variables of modules and
classes at their first assignment, in each alternative branch; and attributes that methods assign to their instance, if
the class does not define them otherwise. Later assignments are writes. Variables of functions are not symbols; their
uses are marked local.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.python_scopes import PythonScope, ScopeKind
from lorelog.code.languages.python_visitor import (
    BIND,
    READ,
    STATEMENT_HANDLERS,
    TYPE,
    AttributeAssignment,
    NodeHandler,
    PythonDefinition,
    PythonVisitor,
    definition_head,
    docstring_text,
    find_docstring,
    name_visibility,
)
from lorelog.code.names import Tokens, read_tokens
from lorelog.code.source import SourceText
from lorelog.code.symbols import MAX_NAME, MAX_NESTING, strip_type_arguments
from lorelog.core.code import ImportStatement, NameUse, SourceSpan, Symbol, SymbolKind, UseKind

if TYPE_CHECKING:
    from tree_sitter import Node


_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_MAX_BASES = 50
_COMMENTS = frozenset({"comment"})
_BLOCKS = frozenset({"block"})

_StackEntry = tuple["Node", int, PythonScope, "Node | None"]


def visit_decorated(walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
    """Visit a definition together with its decorators, which are part of its span."""
    definition = node.child_by_field_name("definition")
    if definition is None:
        walk.push(node.named_children, READ, scope)
    elif definition.type == "class_definition":
        visit_class(walk, definition, mode, scope, node)
    else:
        visit_function(walk, definition, mode, scope, node)


def visit_function(walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
    """Visit the head of a function in the outer scope, and its body in its own."""
    whole = statement if statement is not None and statement.type == "decorated_definition" else node
    binder = scope.binder()
    is_method = binder.kind is ScopeKind.CLASS
    head = _add_definition(walk, node, whole, scope, SymbolKind.METHOD if is_method else SymbolKind.FUNCTION)
    inner = PythonScope(ScopeKind.FUNCTION, head, head.symbol, head.container)
    decorators = whole.named_children[:-1] if whole is not node else []
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if is_method:
        _bind_self(walk, inner, binder, parameters, decorators)
    todo: list[_StackEntry] = [(decorator, READ, head, None) for decorator in decorators]
    generic = node.child_by_field_name("type_parameters")
    if generic is not None:
        todo += _queue_type_parameters(generic, head)
    if parameters is not None:
        todo += _queue_parameters(walk, parameters, head, inner)
    returned = node.child_by_field_name("return_type")
    if returned is not None:
        todo.append((returned, TYPE, head, None))
    if body is not None:
        todo.append((body, READ, inner, None))
    todo.reverse()
    walk.stack += todo


def visit_lambda(walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
    """Visit a lambda: a function without a name."""
    inner = PythonScope(ScopeKind.FUNCTION, scope, scope.symbol, scope.container)
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if body is not None:
        walk.stack.append((body, READ, inner, None))
    if parameters is not None:
        walk.stack += reversed(_queue_parameters(walk, parameters, scope, inner))


def visit_class(walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
    """Visit the bases of a class in the outer scope, and its body in its own."""
    whole = statement if statement is not None and statement.type == "decorated_definition" else node
    superclasses, body = node.child_by_field_name("superclasses"), node.child_by_field_name("body")
    arguments = superclasses.named_children if superclasses is not None else []
    positional = [argument for argument in arguments if argument.type not in ("keyword_argument", "comment")]
    bases = tuple(strip_type_arguments(walk.text(base))[:MAX_NAME] for base in positional[:_MAX_BASES])
    last = {base.rsplit(".", 1)[-1] for base in bases}
    kind = SymbolKind.ENUM if last & _ENUMS else SymbolKind.INTERFACE if "Protocol" in last else SymbolKind.CLASS
    head = _add_definition(walk, node, whole, scope, kind, bases)
    inner = PythonScope(ScopeKind.CLASS, head, head.symbol, head.container)
    if kind is SymbolKind.ENUM:
        inner.self_name = "enum"
    decorators = whole.named_children[:-1] if whole is not node else []
    todo: list[_StackEntry] = [(decorator, READ, head, None) for decorator in decorators]
    generic = node.child_by_field_name("type_parameters")
    if generic is not None:
        todo += _queue_type_parameters(generic, head)
    todo += [(argument, READ if argument.type == "keyword_argument" else TYPE, head, None) for argument in arguments]
    if body is not None:
        todo.append((body, READ, inner, None))
    todo.reverse()
    walk.stack += todo


def visit_import(walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
    """Visit `import a.b as c, d`."""
    for child in node.children_by_field_name("name"):
        module, alias = _import_names(walk, child)
        if module is None:
            continue
        name = walk.text(module)
        scope.binder().shared.add(alias or name.split(".", 1)[0])
        walk.imports.append(ImportStatement(name, "", alias, *walk.source.position(*module.start_point)))


def visit_from_import(walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
    """Visit `from ..a import b as c, d`, or `*`."""
    from_ = node.child_by_field_name("module_name")
    module = "".join(walk.text(from_).split()) if from_ is not None else "__future__"
    binder = scope.binder()
    for child in node.children_by_field_name("name"):
        named, alias = _import_names(walk, child)
        if named is None:
            continue
        name = walk.text(named)
        binder.shared.add(alias or name)
        walk.imports.append(
            ImportStatement(module, name, "" if alias == name else alias, *walk.source.position(*named.start_point))
        )
        walk.uses.append((name, UseKind.IMPORT, named.start_point, scope, module, False))
    for child in node.named_children:
        if child.type == "wildcard_import":
            walk.imports.append(ImportStatement(module, "*", "", *walk.source.position(*child.start_point)))


def visit_constrained_type(
    walk: PythonVisitor, node: Node, mode: int, scope: PythonScope, statement: Node | None
) -> None:
    """Visit `T: Bound` among type parameters."""
    children = node.named_children
    walk.push(children[1:], TYPE, scope)
    walk.push(children[:1], mode, scope)


def _import_names(walk: PythonVisitor, node: Node) -> tuple[Node | None, str]:
    """Return the node of the imported name, and the alias."""
    if node.type != "aliased_import":
        return node, ""
    alias = node.child_by_field_name("alias")
    return node.child_by_field_name("name"), walk.text(alias) if alias is not None else ""


def _add_definition(
    walk: PythonVisitor, node: Node, whole: Node, scope: PythonScope, kind: SymbolKind, bases: tuple[str, ...] = ()
) -> PythonScope:
    """Add a definition; return the scope of its head, the parent of its body's scope."""
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    head = PythonScope(ScopeKind.HEAD, scope, scope.symbol, scope.container)
    name = walk.text(name_node) if name_node is not None else ""
    head.depth += 1
    if name_node is None or not name or len(name) > MAX_NAME:
        return head
    scope.binder().shared.add(name)
    if head.depth > MAX_NESTING:
        return head
    docstring = find_docstring(body)
    if docstring is not None:
        walk.docstrings.add(docstring.start_byte)
    walk.definitions.append(
        PythonDefinition(
            name=name,
            kind=kind,
            node=whole,
            name_node=name_node,
            scope=scope,
            container=scope.container,
            signature=definition_head(walk.source, node.start_byte, node.end_byte if body is None else body.start_byte),
            docstring=docstring_text(docstring, walk.source),
            bases=bases,
        )
    )
    head.symbol = len(walk.definitions) - 1
    head.container = f"{scope.container}.{name}" if scope.container else name
    return head


def _bind_self(
    walk: PythonVisitor, inner: PythonScope, owner: PythonScope, parameters: Node | None, decorators: list[Node]
) -> None:
    """Record the name of the instance or class in a method."""
    if parameters is None or any(
        walk.text(decorator).lstrip("@ ").startswith("staticmethod") for decorator in decorators
    ):
        return
    first = next(iter(parameters.named_children), None)
    if first is not None and first.type in ("typed_parameter", "default_parameter", "typed_default_parameter"):
        first = next(iter(first.named_children), None)
    if first is not None and first.type == "identifier":
        inner.self_name, inner.owner = walk.text(first), owner


def _queue_parameters(walk: PythonVisitor, node: Node, head: PythonScope, inner: PythonScope) -> list[_StackEntry]:
    """Return the nodes of parameters to visit: names are bound inside, the rest is evaluated outside."""
    todo: list[_StackEntry] = []
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


def _queue_type_parameters(node: Node, head: PythonScope) -> list[_StackEntry]:
    return [(child, BIND, head, None) for child in node.named_children]


DEFINITION_HANDLERS: dict[str, NodeHandler] = {
    "decorated_definition": visit_decorated,
    "function_definition": visit_function,
    "class_definition": visit_class,
    "lambda": visit_lambda,
    "import_statement": visit_import,
    "import_from_statement": visit_from_import,
    "future_import_statement": visit_from_import,
    "constrained_type": visit_constrained_type,
}


_HANDLERS = {**STATEMENT_HANDLERS, **DEFINITION_HANDLERS}


def extract_python(
    roots: Sequence[Node], source: SourceText
) -> tuple[tuple[Symbol, ...], tuple[NameUse, ...], tuple[ImportStatement, ...]]:
    """Extract a Python file: one tree, or several that share the file if it is broken."""
    walk = PythonVisitor(source, _HANDLERS)
    for root in roots:
        docstring = find_docstring(root)
        if docstring is not None:
            walk.docstrings.add(docstring.start_byte)
        walk.walk(root)
    _resolve_attributes(walk)
    _resolve_globals(walk)
    tokens = Tokens.merge(
        read_tokens(root, source, _COMMENTS, blocks=_BLOCKS, silent=walk.docstrings)[0] for root in roots
    )
    order = sorted(
        range(len(walk.definitions)),
        key=lambda index: (walk.definitions[index].node.start_byte, -walk.definitions[index].node.end_byte, index),
    )
    kept, symbol_indexes = _unique_definitions(order, walk)
    symbols = tuple(_build_symbol(walk.definitions[index], walk, tokens) for index in kept)
    uses = _build_uses(walk, symbol_indexes)
    if len(roots) > 1:
        return symbols, tuple(dict.fromkeys(uses)), tuple(dict.fromkeys(walk.imports))
    return symbols, uses, tuple(walk.imports)


def _unique_definitions(order: list[int], walk: PythonVisitor) -> tuple[list[int], dict[int, int]]:
    """Return the definitions to keep, and the index of the symbol for each definition.

    A class that was parsed in parts is defined several times; the first one is kept.
    """
    first: dict[int, int] = {}
    for index, definition in enumerate(walk.definitions):
        first.setdefault(definition.name_node.start_byte, index)
    kept = [index for index in order if first[walk.definitions[index].name_node.start_byte] == index]
    by_definition = {definition: symbol for symbol, definition in enumerate(kept)}
    symbol_indexes = {
        index: by_definition[first[definition.name_node.start_byte]]
        for index, definition in enumerate(walk.definitions)
    }
    return kept, {-1: -1, **symbol_indexes}


def _resolve_attributes(walk: PythonVisitor) -> None:
    """Define an instance attribute at its first assignment, unless the class defines it; others are writes."""
    defined: set[tuple[int, str]] = set()
    for attribute in walk.attributes:
        key = (id(attribute.owner), attribute.name)
        if key in defined or attribute.name in attribute.owner.bound or attribute.name in attribute.owner.shared:
            point = attribute.target.start_point
            walk.uses.append((attribute.name, UseKind.WRITE, point, attribute.scope, attribute.receiver, False))
            continue
        defined.add(key)
        _define_attribute(attribute, walk)


def _define_attribute(attribute: AttributeAssignment, walk: PythonVisitor) -> None:
    signature, docstring = walk.assignment_text(attribute.node)
    walk.definitions.append(
        PythonDefinition(
            name=attribute.name,
            kind=SymbolKind.VARIABLE,
            node=attribute.node,
            name_node=attribute.target,
            scope=attribute.owner,
            container=attribute.owner.container,
            signature=signature,
            docstring=docstring,
        )
    )


def _resolve_globals(walk: PythonVisitor) -> None:
    """Define a global variable that only functions assign at its first assignment."""
    module = walk.module
    for name, node, statement, scope in walk.globals:
        if name in module.bound or name in module.shared:
            walk.uses.append((name, UseKind.WRITE, node.start_point, scope, "", False))
        else:
            walk.variable(name, node, module, statement)


def _build_symbol(definition: PythonDefinition, walk: PythonVisitor, tokens: Tokens) -> Symbol:
    source, node, name = walk.source, definition.node, definition.name
    line, column = source.position(*definition.name_node.start_point)
    is_exported = not definition.container and name in walk.exported
    in_class = definition.scope.binder().kind is ScopeKind.CLASS
    return Symbol(
        name=name,
        kind=definition.kind,
        span=SourceSpan(*source.position(*node.start_point), *source.position(*node.end_point)),
        name_line=line,
        name_column=column,
        signature=definition.signature,
        docstring=definition.docstring,
        visibility="public" if is_exported else name_visibility(name, in_class=in_class),
        container=definition.container,
        bases=definition.bases,
        digest=tokens.digest(node.start_byte, node.end_byte, name),
    )


def _build_uses(walk: PythonVisitor, symbol_indexes: dict[int, int]) -> tuple[NameUse, ...]:
    position = walk.source.position
    uses = [
        NameUse(
            name,
            kind,
            *position(*point),
            symbol_indexes[scope.symbol],
            receiver,
            may_be_local and scope.is_local(name),
        )
        for name, kind, point, scope, receiver, may_be_local in walk.uses
        if name
    ]
    uses.sort(key=_position_key)
    return tuple(uses)


def _position_key(use: NameUse) -> tuple[int, int]:
    return use.line, use.column
