"""Extract the symbols, uses and imports of a Python file from its tree.

Symbols are functions, classes and methods wherever they are, with every overload and branch; variables of modules and
classes at their first assignment, in each alternative branch; and attributes that methods assign to their instance, if
the class does not define them otherwise. Later assignments are writes. Variables of functions are not symbols; their
uses are marked local.

Python is walked by hand and not with queries, because the meaning of a name depends on its context: a target, an
annotation, a default that is evaluated outside. The walk is a loop over a stack and not recursive, so that any depth
works, and goes in file order. A stack entry is a node, the mode for names in it, the scope, and the assignment that it
is a target of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from tree_sitter import Node

from lorelog.code.languages.hooks import MAX_DOCSTRING, MAX_SIGNATURE, LanguageHooks, SymbolCandidate, format_head
from lorelog.code.languages.python_scopes import (
    PythonScope,
    ScopeKind,
    add_hint,
    assignment_hint,
    expression_hint,
    hint_at,
    plain_name,
)
from lorelog.code.names import Tokens, read_tokens
from lorelog.code.source import SourceText
from lorelog.code.symbols import MAX_NAME, MAX_NESTING, build_symbol, strip_type_arguments
from lorelog.core.code import ImportStatement, NameUse, Symbol, SymbolKind, UseKind

_STRING = re.compile(r"""([A-Za-z]*)(\"{3}|'{3}|"|')(.*)\2\Z""", re.DOTALL)
_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|#[^\n]*""")
_DOTTED_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_EXPORTED_NAME = re.compile(rb"""["'](\w+)["']""")
_MAX_EXPORT_LIST = 200_000
_KEYWORDS = frozenset({"None", "True", "False", "and", "or", "not", "if", "else", "for", "in", "is", "lambda"})
READ, CALL, WRITE, TYPE, BIND, PATTERN = range(6)
_SAME, _SKIP = -1, -2
_CHILD_MODES = {
    "interpolation": (READ, READ),
    "as_pattern_target": (WRITE, WRITE),
    "delete_statement": (WRITE, WRITE),
    "keyword_argument": (_SKIP, _SAME),
    "constrained_type": (_SAME, TYPE),
    "case_pattern": (PATTERN, PATTERN),
    "class_pattern": (READ, PATTERN),
    "keyword_pattern": (_SKIP, PATTERN),
}
"""Modes for names in the first child of a node, and in the others."""
_USE_KINDS = (UseKind.READ, UseKind.CALL, UseKind.WRITE, UseKind.TYPE)
_TYPE_FACTORIES = frozenset({"TypeVar", "NewType", "ParamSpec", "TypeVarTuple", "TypeAliasType"})
_PARAMETERS_WITH_PARTS = frozenset({"typed_parameter", "default_parameter", "typed_default_parameter"})
_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
_MAX_BASES = 50

_Visit = tuple["Node | None", int, PythonScope]


def extract_python(
    roots: Sequence[Node], source: SourceText
) -> tuple[tuple[Symbol, ...], tuple[NameUse, ...], tuple[ImportStatement, ...]]:
    """Extract a Python file: one tree, or several that share the file if it is broken."""
    walk = PythonVisitor(source)
    for root in roots:
        walk.walk(root)
    walk.resolve_assignments()
    comments, blocks = frozenset({"comment"}), frozenset({"block"})
    read = [read_tokens(root, source, comments, blocks=blocks, silent=walk.docstrings)[0] for root in roots]
    tokens = Tokens.merge(read) if len(read) > 1 else read[0]
    # A class that was parsed in parts is defined several times; the first one is kept.
    first: dict[int, int] = {}
    for index, definition in enumerate(walk.definitions):
        first.setdefault(definition.name_node.start_byte, index)
    nodes = {index: walk.definitions[index].node for index in first.values()}
    kept = sorted(nodes, key=lambda index: (nodes[index].start_byte, -nodes[index].end_byte, index))
    symbol_of = {definition: symbol for symbol, definition in enumerate(kept)}
    symbol_indexes = [symbol_of[first[definition.name_node.start_byte]] for definition in walk.definitions]
    symbol_indexes.append(-1)  # of a use outside of definitions
    for index in kept:
        if not walk.definitions[index].of and walk.definitions[index].name in walk.exported:
            walk.definitions[index].visibility = "public"
    hooks = LanguageHooks()
    symbols = tuple(build_symbol(walk.definitions[index], (), source, hooks, tokens) for index in kept)
    uses = [
        NameUse(
            name,
            kind,
            *source.position(*point),
            symbol_indexes[scope.symbol],
            receiver,
            may_be_local and scope.is_local(name),
        )
        for name, kind, point, scope, receiver, may_be_local in walk.uses
        if name
    ]
    uses.sort(key=lambda use: (use.line, use.column))
    if len(roots) > 1:
        return symbols, tuple(dict.fromkeys(uses)), tuple(dict.fromkeys(walk.imports))
    return symbols, tuple(uses), tuple(walk.imports)


def _definition_head(source: SourceText, start: int, end: int) -> str:
    """Return the head of a definition on one line, without comments and the colon."""
    text = source.slice(start, min(end, start + MAX_SIGNATURE * 8))
    if "#" in text:
        text = _COMMENT.sub(lambda match: match[1] or "", text)
    line = format_head(text.rstrip().removesuffix(":"))
    return line.replace("( ", "(").replace(", )", ")").replace(",)", ")") if "\n" in text else line


def _find_docstring(body: Node | None) -> Node | None:
    """Return the string that a body starts with."""
    statements = body.named_children[:8] if body is not None else []
    return next((_string_statement(statement) for statement in statements if statement.type != "comment"), None)


def _string_statement(statement: Node) -> Node | None:
    is_single = statement.type == "expression_statement" and statement.named_child_count == 1
    inner = statement.named_child(0) if is_single else None
    return inner if inner is not None and inner.type in ("string", "concatenated_string") else None


def _docstring_text(node: Node | None, source: SourceText) -> str:
    """Return the text of a docstring without indentation; escapes stay as written."""
    if node is None:
        return ""
    match = _STRING.match(source.slice(node.start_byte, min(node.end_byte, node.start_byte + 100_000)))
    if match is None or not set(match[1].lower()) <= {"r", "u"}:
        return ""
    first, *rest = match[3].expandtabs().splitlines() or [""]
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    text = "\n".join([first.strip(), *(line[margin:].rstrip() for line in rest)]).strip()
    return text if len(text) <= MAX_DOCSTRING else f"{text[: MAX_DOCSTRING - 1]}…"


def _visibility(name: str, *, in_class: bool) -> str:
    if not name.startswith("_") or (name.startswith("__") and name.endswith("__") and len(name) > 4):
        return "public"
    return "protected" if in_class and not name.startswith("__") else "private"


def _first_child(node: Node) -> Node | None:
    return next(iter(node.named_children), None)


def _parameter_visits(parameters: Node | None, head: PythonScope, inner: PythonScope) -> Iterable[_Visit]:
    """Yield the parts of parameters: names are bound inside, the rest is evaluated outside."""
    for child in parameters.named_children if parameters is not None else ():
        if child.type in _PARAMETERS_WITH_PARTS:
            yield _first_child(child), BIND, inner
            yield child.child_by_field_name("type"), TYPE, head
            yield child.child_by_field_name("value"), READ, head
        else:
            yield child, BIND, inner


class PythonVisitor:
    """Collects the content of a file before names are resolved."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.definitions: list[SymbolCandidate] = []
        self.uses: list[tuple[str, UseKind, tuple[int, int], PythonScope, str, bool]] = []
        """Name, kind, row and byte column, scope, receiver, and whether the name may be local."""
        self.imports: list[ImportStatement] = []
        self.exported: set[str] = set()
        self.docstrings: set[int] = set()
        """Start bytes of strings that are documentation."""
        self._module = PythonScope(ScopeKind.MODULE)
        self._assignments: list[tuple[str, Node, Node, PythonScope, PythonScope, str]] = []
        """Name, target, statement, owner, scope and receiver of assignments in functions to attributes of the instance
        and to global variables: definitions, if the class or the module has no other."""
        self._stack: list[tuple[Node, int, PythonScope, Node | None]] = []
        self._blocks: list[tuple[int, int]] = []
        self._attribute_docs: dict[int, Node] = {}
        """Strings below assignments, by the start byte of the assignment."""

    def walk(self, root: Node) -> None:
        """Visit a whole tree."""
        self._add_docstring(_find_docstring(root))
        stack = self._stack
        stack.append((root, READ, self._module, None))
        self._blocks.clear()
        while stack:
            node, mode, scope, statement = stack.pop()
            handler = _HANDLERS.get(node.type)
            if handler is not None:
                handler(self, node, mode, scope, statement)
            else:
                self._push(node.named_children, mode, scope, statement)

    def resolve_assignments(self) -> None:
        """Define attributes and global variables that only functions assign, each at its first assignment."""
        defined: set[tuple[int, str]] = set()
        for name, target, statement, owner, scope, receiver in self._assignments:
            key = (id(owner), name)
            if key in defined or name in owner.bound or name in owner.shared:
                self.uses.append((name, UseKind.WRITE, target.start_point, scope, receiver, False))
                continue
            defined.add(key)
            kind = SymbolKind.VARIABLE if receiver else self._kind(name, owner, statement)
            self._add_variable(name, target, owner, statement, kind)

    def _push(self, children: list[Node], mode: int, scope: PythonScope, statement: Node | None = None) -> None:
        """Visit nodes next, in this order; what was pushed before comes after them."""
        children.reverse()
        self._stack += [(child, mode, scope, statement) for child in children]

    def _queue(self, visits: Iterable[_Visit], statement: Node | None = None) -> None:
        """Visit nodes next, in this order, without those that are None."""
        entries = [(node, mode, scope, statement) for node, mode, scope in visits if node is not None]
        entries.reverse()
        self._stack += entries

    def _text(self, node: Node) -> str:
        return self.source.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # names

    def visit_identifier(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        name = self._text(node)
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
            scope.bound.add(name)
            if statement is not None and self._is_new(name, node, scope):
                if name == "__all__" and scope is self._module:
                    self._export(statement)
                self._add_variable(name, node, scope, statement, self._kind(name, scope, statement))
                return
        elif name in scope.globals:
            if statement is not None:
                self._assignments.append((name, node, statement, self._module, scope, ""))
                return
        elif name not in scope.nonlocals:
            scope.bound.add(name)
            end = node.end_byte if statement is None else statement.end_byte
            add_hint(scope, name, end, assignment_hint(statement, node, self.source))
        self.uses.append((name, UseKind.WRITE, node.start_point, scope, "", True))

    def _is_new(self, name: str, node: Node, scope: PythonScope) -> bool:
        """Return True if an assignment defines a variable: the first one, or the first in another branch."""
        self._leave_blocks(node.start_byte)
        before = scope.blocks.get(name, ())
        if before and (0 in before or any(block in before for block, _end in self._blocks)):
            return False
        scope.blocks.setdefault(name, []).append(self._blocks[-1][0] if self._blocks else 0)
        return True

    def _leave_blocks(self, start: int) -> None:
        while self._blocks and self._blocks[-1][1] <= start:
            self._blocks.pop()

    def _export(self, statement: Node) -> None:
        """Add the names in an assignment to `__all__`."""
        start, end = statement.start_byte, min(statement.end_byte, statement.start_byte + _MAX_EXPORT_LIST)
        self.exported |= {name.decode() for name in _EXPORTED_NAME.findall(self.source.data[start:end])}

    def _add_docstring(self, docstring: Node | None) -> str:
        """Mark a string as documentation; return its text."""
        if docstring is not None:
            self.docstrings.add(docstring.start_byte)
        return _docstring_text(docstring, self.source)

    def _add_variable(self, name: str, node: Node, scope: PythonScope, statement: Node, kind: SymbolKind) -> None:
        self.definitions.append(
            SymbolCandidate(
                kind,
                name,
                statement,
                node,
                of=scope.container,
                visibility=_visibility(name, in_class=scope.kind is ScopeKind.CLASS),
                signature=_definition_head(self.source, statement.start_byte, statement.end_byte),
                docstring=_docstring_text(self._attribute_docs.get(statement.start_byte), self.source),
            )
        )

    def _kind(self, name: str, scope: PythonScope, statement: Node) -> SymbolKind:
        typed, value = statement.child_by_field_name("type"), statement.child_by_field_name("right")
        annotation = self._text(typed) if typed is not None else ""
        if statement.type == "type_alias_statement" or annotation.endswith("TypeAlias"):
            return SymbolKind.TYPE
        function = value.child_by_field_name("function") if value is not None and value.type == "call" else None
        if function is not None and self._text(function).rsplit(".", 1)[-1] in _TYPE_FACTORIES:
            return SymbolKind.TYPE
        is_final = annotation.removeprefix("typing.").startswith("Final")
        bare = name.strip("_")
        if is_final or (scope.is_enum and typed is None) or (bare.isupper() and len(bare) > 1):
            return SymbolKind.CONSTANT
        return SymbolKind.VARIABLE

    def visit_attribute(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if len(children) < 2:
            self._push(children, READ, scope)
            return
        object_, target = children[0], children[-1]
        self._stack.append((object_, READ, scope, None))
        name = self._text(target)
        if not name or len(name) > MAX_NAME or target.type != "identifier":
            return
        receiver = plain_name(object_, self.source)
        if not receiver and object_.type == "call" and self.source.data.startswith(b"super(", object_.start_byte):
            receiver = "super"
        elif not receiver:  # an expression
            receiver = f"?{expression_hint(object_, self.source)}"
        if mode == WRITE and statement is not None and object_.type == "identifier":
            owner = scope.class_of(receiver)
            if owner is not None:
                self._assignments.append((name, target, statement, owner, scope, receiver))
                return
        kind = UseKind.WRITE if mode == PATTERN else _USE_KINDS[READ if mode == BIND else mode]
        receiver += hint_at(scope, receiver, node.start_byte)
        self.uses.append((name, kind, target.start_point, scope, receiver, False))

    # expressions

    def visit_call(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if children:
            function = children.pop(0)
            # The grammar reads `*f()` as `(*f)()`.
            if function.type == "list_splat" and function.named_child_count == 1:
                function = function.named_children[0]
            self._push(children, READ, scope)
            self._stack.append((function, CALL if function.type in ("identifier", "attribute") else READ, scope, None))

    def visit_subscript(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """In an annotation the arguments are types, except those of Literal, and all but the first of Annotated."""
        children = node.named_children
        is_generic = node.type == "generic_type"  # the grammar knows it to be a type
        if not children or not (is_generic or mode == TYPE):
            self._push(children, READ, scope)
            return
        value, *arguments = children
        if is_generic and len(arguments) == 1:
            arguments = arguments[0].named_children
        name = self._text(value).rsplit(".", 1)[-1] if arguments else ""
        types = {"Literal": 0, "Annotated": 1}.get(name, len(arguments))
        self._push(arguments[types:], READ, scope)
        self._push(arguments[:types], TYPE, scope)
        self._push([value], mode, scope)

    visit_generic_type = visit_subscript

    def visit_string(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit the expressions in an f-string; in an annotation, the names in a string."""
        children = node.named_children
        if mode != TYPE:
            self._push([child for child in children if child.type == "interpolation"], READ, scope)
            return
        content = next((child for child in children if child.type == "string_content"), None)
        if content is None or content.child_count or content.end_byte - content.start_byte > MAX_NAME * 4:
            return
        text = self._text(content)
        row, column = content.start_point
        for match in _DOTTED_NAME.finditer(text if "\n" not in text else ""):
            offset, receiver = match.start(), ""
            for name in match[0].split("."):
                end = offset + len(name)
                kind = UseKind.READ if text.startswith(".", end) else UseKind.TYPE
                point = (row, column + len(text[:offset].encode()))
                if name not in _KEYWORDS:
                    self.uses.append((name, kind, point, scope, receiver, not receiver))
                offset, receiver = end + 1, f"{receiver}.{name}" if receiver else name

    def visit_named_expression(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        self._push(children[1:], READ, scope)
        self._push(children[:1], WRITE, scope.binder(ScopeKind.COMPREHENSION))

    def visit_list_comprehension(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit a comprehension: the first iterable is evaluated outside, everything else inside."""
        inner = scope.inside(ScopeKind.COMPREHENSION)
        outside = scope
        visits: list[_Visit] = []
        for child in node.named_children:
            if child.type != "for_in_clause" or not child.named_child_count:
                visits.append((child, READ, inner))
                continue
            target, *values = child.named_children
            visits += [(target, BIND, inner), *((value, READ, outside) for value in values)]
            outside = inner
        self._queue(visits)

    visit_set_comprehension = visit_dictionary_comprehension = visit_generator_expression = visit_list_comprehension

    # statements

    def visit_block(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        children = node.named_children
        if node.type == "block":
            self._leave_blocks(node.start_byte)
            self._blocks.append((node.start_byte, node.end_byte))
        for before, after in pairwise(children):
            docstring = _string_statement(after) if before.type == "expression_statement" else None
            assignment = before.named_child(0) if docstring is not None else None
            if docstring is not None and assignment is not None and assignment.type == "assignment":
                self._attribute_docs[assignment.start_byte] = docstring
                self.docstrings.add(docstring.start_byte)
        self._push(children, READ, scope)

    visit_module = visit_block

    def visit_assignment(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        parts = (("left", WRITE), ("type", TYPE), ("right", READ))
        visits = ((node.child_by_field_name(part), part_mode, scope) for part, part_mode in parts)
        self._queue(visits, statement or node)

    def visit_augmented_assignment(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        self._queue([(left, WRITE, scope), (right, READ, scope)])
        if left is not None and scope is self._module and self._text(left) == "__all__":
            self._export(node)

    def visit_type_alias_statement(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit `type X[T] = …`."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        while left is not None and left.type in ("type", "generic_type") and left.named_child_count:
            left, *parameters = left.named_children
            if parameters:
                scope = scope.inside(ScopeKind.HEAD)
                self._stack += [(parameter, BIND, scope, None) for parameter in parameters]
        is_alias = left is None or left.type == "identifier"
        if not is_alias:  # the grammar reads `type(x).a = 1` as an alias
            self.uses.append(("type", UseKind.CALL, node.start_point, scope, "", True))
        self._queue([(right, TYPE if is_alias else READ, scope)])
        self._queue([(left, WRITE, scope)], node if is_alias else None)

    def visit_for_statement(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        left = node.child_by_field_name("left")
        self._push([child for child in node.named_children if child != left], READ, scope)
        if left is not None:
            self._stack.append((left, WRITE, scope, None))

    def visit_global_statement(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        names = {self._text(child) for child in node.named_children}
        (scope.globals if node.type == "global_statement" else scope.nonlocals).update(names)

    visit_nonlocal_statement = visit_global_statement

    def visit_dotted_name(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit a name in a pattern of `match`, or a constant there."""
        parts = node.named_children
        if mode == PATTERN and len(parts) == 1:
            self._stack.append((parts[0], WRITE, scope, None))
            return
        receiver = ""
        for part in parts[:20]:
            name = self._text(part)
            self.uses.append((name, UseKind.READ, part.start_point, scope, receiver[:MAX_NAME], not receiver))
            receiver = f"{receiver}.{name}" if receiver else name

    # definitions and imports

    def visit_decorated_definition(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit a definition together with its decorators, which are part of its span."""
        definition = node.child_by_field_name("definition")
        if definition is None:
            self._push(node.named_children, READ, scope)
        else:
            self._stack.append((definition, mode, scope, node))

    def visit_function_definition(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit the head of a function in the outer scope, and its body in its own."""
        owner = scope.binder()
        is_method = owner.kind is ScopeKind.CLASS
        head, visits = self._define(node, statement, scope, SymbolKind.METHOD if is_method else SymbolKind.FUNCTION)
        inner = head.inside(ScopeKind.FUNCTION)
        parameters = node.child_by_field_name("parameters")
        decorators = (self._text(decorator) for decorator, *_ in visits if decorator.type == "decorator")
        first = _first_child(parameters) if is_method and parameters is not None else None
        if first is not None and not any(text.lstrip("@ ").startswith("staticmethod") for text in decorators):
            first = _first_child(first) if first.type in _PARAMETERS_WITH_PARTS else first
            if first is not None and first.type == "identifier":
                inner.self_name, inner.owner = self._text(first), owner
        returned, body = node.child_by_field_name("return_type"), node.child_by_field_name("body")
        parts = (*_parameter_visits(parameters, head, inner), (returned, TYPE, head), (body, READ, inner))
        self._queue([*visits, *parts])

    def visit_lambda(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit a lambda: a function without a name."""
        inner = scope.inside(ScopeKind.FUNCTION)
        parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
        self._queue([*_parameter_visits(parameters, scope, inner), (body, READ, inner)])

    def visit_class_definition(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit the bases of a class in the outer scope, and its body in its own."""
        superclasses = node.child_by_field_name("superclasses")
        arguments = superclasses.named_children if superclasses is not None else []
        positional = [argument for argument in arguments if argument.type not in ("keyword_argument", "comment")]
        bases = tuple(strip_type_arguments(self._text(base))[:MAX_NAME] for base in positional[:_MAX_BASES])
        last = {base.rsplit(".", 1)[-1] for base in bases}
        kind = SymbolKind.ENUM if last & _ENUMS else SymbolKind.INTERFACE if "Protocol" in last else SymbolKind.CLASS
        head, visits = self._define(node, statement, scope, kind, bases)
        inner = head.inside(ScopeKind.CLASS)
        inner.is_enum = kind is SymbolKind.ENUM
        parts = [(argument, READ if argument.type == "keyword_argument" else TYPE, head) for argument in arguments]
        self._queue([*visits, *parts, (node.child_by_field_name("body"), READ, inner)])

    def _define(
        self, node: Node, statement: Node | None, scope: PythonScope, kind: SymbolKind, bases: tuple[str, ...] = ()
    ) -> tuple[PythonScope, list[tuple[Node, int, PythonScope]]]:
        """Add a definition; return the scope of its head, the parent of its body's, and the beginning of the head."""
        whole = statement if statement is not None and statement.type == "decorated_definition" else node
        head = scope.inside(ScopeKind.HEAD)
        head.depth += 1
        generic = node.child_by_field_name("type_parameters")
        visits = [(decorator, READ, head) for decorator in (whole.named_children[:-1] if whole is not node else ())]
        visits += [(child, BIND, head) for child in (generic.named_children if generic is not None else ())]
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        name = self._text(name_node) if name_node is not None else ""
        if name_node is None or not name or len(name) > MAX_NAME:
            return head, visits
        scope.binder().shared.add(name)
        if head.depth > MAX_NESTING:
            return head, visits
        self.definitions.append(
            SymbolCandidate(
                kind,
                name,
                whole,
                name_node,
                bases=bases,
                of=scope.container,
                visibility=_visibility(name, in_class=scope.binder().kind is ScopeKind.CLASS),
                signature=_definition_head(
                    self.source, node.start_byte, node.end_byte if body is None else body.start_byte
                ),
                docstring=self._add_docstring(_find_docstring(body)),
            )
        )
        head.symbol = len(self.definitions) - 1
        head.container = f"{scope.container}.{name}" if scope.container else name
        return head, visits

    def visit_import_statement(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        """Visit `import a.b as c, d`, `from ..a import b as c, d` or `from a import *`."""
        from_ = node.child_by_field_name("module_name")
        module = "".join(self._text(from_).split()) if from_ is not None else "__future__"
        bound = scope.binder().shared
        for child in node.children_by_field_name("name"):
            is_aliased = child.type == "aliased_import"
            alias_node = child.child_by_field_name("alias") if is_aliased else None
            name_node = child.child_by_field_name("name") if is_aliased else child
            if name_node is None:
                continue
            alias = self._text(alias_node) if alias_node is not None else ""
            name, position = self._text(name_node), self.source.position(*name_node.start_point)
            if node.type == "import_statement":
                bound.add(alias or name.split(".", 1)[0])
                self.imports.append(ImportStatement(name, "", alias, *position))
                continue
            bound.add(alias or name)
            self.imports.append(ImportStatement(module, name, "" if alias == name else alias, *position))
            self.uses.append((name, UseKind.IMPORT, name_node.start_point, scope, module, False))
        for child in node.named_children:
            if child.type == "wildcard_import":
                self.imports.append(ImportStatement(module, "*", "", *self.source.position(*child.start_point)))

    visit_import_from_statement = visit_future_import_statement = visit_import_statement

    # nodes whose children differ only in their mode

    def visit_children(self, node: Node, mode: int, scope: PythonScope, statement: Node | None) -> None:
        first, others = ((mode if child_mode == _SAME else child_mode) for child_mode in _CHILD_MODES[node.type])
        children = node.named_children
        self._push(children[1:], others, scope)
        if first != _SKIP:
            self._push(children[:1], first, scope)


_HANDLERS: dict[str, Callable[[PythonVisitor, Node, int, PythonScope, Node | None], None]] = {
    name.removeprefix("visit_"): method for name, method in vars(PythonVisitor).items() if name.startswith("visit_")
} | dict.fromkeys(_CHILD_MODES, PythonVisitor.visit_children)
