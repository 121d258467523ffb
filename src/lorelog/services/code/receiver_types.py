"""Resolve the names and receivers of one working tree to classes, members and modules.

Results distinguish three cases: definitions of this working tree; an empty tuple for something defined elsewhere (a
`str`, a third-party module), so that no definition of ours can be meant; and None for unknown.

Scopes, imports and inheritance are resolved for every language. Types of values (annotations, constructors, attributes,
return types) are inferred for Python only.

Annotations are parsed out of the signatures that the index stores for display, so no type information is stored
separately. One that is not understood gives an empty result. Base classes of all languages go through `type_names`,
which therefore also accepts `::`, `&` and `*`.
"""

from __future__ import annotations

import ast
import builtins
import posixpath
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache

from lorelog.code.tables import StoredDefinition
from lorelog.core.code import ImportStatement, Symbol, SymbolKind
from lorelog.services.code.view import (
    CLASSES,
    FUNCTIONS,
    IMPORT_SCOPED,
    VARIABLES,
    CodeView,
    ModuleReceiver,
    NameScope,
    ResolvedDefinitions,
    definition_key,
    scope_chain,
)

_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::)[^\W\d][\w$]*)*")
_TRANSPARENT_WRAPPERS = frozenset(
    "Optional Annotated Final ClassVar Type type Required NotRequired ReadOnly Awaitable".split()
)
"""Generic types whose members are those of their first argument."""
_MAX_CUTS = 8
"""Parameters of a truncated signature that are left out before it counts as unreadable."""


@lru_cache(maxsize=20_000)
def parameter_types(signature: str) -> dict[str, str]:
    """Return the parameters of a function with their annotations; an empty annotation where there is none."""
    function = _parse_function(signature)
    if function is None:
        return {}
    given = function.args
    named = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    types = {argument.arg: ast.unparse(argument.annotation) if argument.annotation else "" for argument in named}
    return types | {star.arg: kind for star, kind in ((given.vararg, "tuple"), (given.kwarg, "dict")) if star}


@lru_cache(maxsize=20_000)
def return_type(signature: str) -> str:
    """Return the return annotation of a function, or an empty string."""
    function = _parse_function(signature)
    return ast.unparse(function.returns) if function is not None and function.returns else ""


@lru_cache(maxsize=20_000)
def variable_annotation(signature: str, name: str) -> tuple[str, str]:
    """Return the annotation and the assigned value of a variable; either may be empty."""
    statement = next(iter(_parse(signature)), None)
    if isinstance(statement, ast.AnnAssign):
        return ast.unparse(statement.annotation), ast.unparse(statement.value) if statement.value else ""
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=False)
            value = next((part for to, part in pairs if ast.unparse(to).rpartition(".")[2] == name), value)
        return "", ast.unparse(value)
    return "", signature.partition(" = ")[2]  # truncated


@lru_cache(maxsize=20_000)
def type_names(annotation: str) -> tuple[str, ...]:
    """Return the type names: `Optional["Foo"]` gives Foo, `A | None` gives A, `list[Foo]` gives list."""
    text = annotation.strip().lstrip("&*").strip()
    expression = _expression(text)
    if expression is None:  # of another language
        match = _NAME.match(text.strip("\"'"))
        return (match[0].replace("::", "."),) if match else ()
    names: list[str] = []
    for part in _union_members(expression):
        generic, arguments = _generic(part)
        last = generic.rpartition(".")[2]
        if arguments and (last in {"Union", "Coroutine"} or last in _TRANSPARENT_WRAPPERS):
            inner = arguments if last == "Union" else arguments[-1:] if last == "Coroutine" else arguments[:1]
            names += [name for argument in inner for name in type_names(ast.unparse(argument))]
        else:
            names.append(generic)
    return tuple(dict.fromkeys(filter(None, names)))


@lru_cache(maxsize=20_000)
def value_origin(value: str) -> tuple[str, str]:
    """Return `("call", "pkg.Foo")` for a call, `("name", "self.x")` for a plain name, else two empty strings."""
    text = value.strip().removeprefix("await ").strip()
    expression = _expression(text)
    if expression is None:  # truncated: an unclosed bracket counts as the whole call
        match = _NAME.match(text)
        is_call = match is not None and text.startswith("(", match.end()) and ")." not in text
        return ("call", match[0]) if match and is_call else ("", "")
    name = _dotted(expression.func if isinstance(expression, ast.Call) else expression)
    return ("call" if isinstance(expression, ast.Call) else "name", name) if name else ("", "")


def _parse(source: str) -> list[ast.stmt]:
    """Parse statements; nothing for a text that is not Python, or a truncated one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escape sequences in defaults
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _parse_function(signature: str) -> ast.FunctionDef | None:
    start = signature.find("(")
    texts = [f"def f{signature[start:]}: ..."] if start >= 0 else []
    if signature.endswith("…"):
        head = signature[start:]
        for _ in range(_MAX_CUTS):
            head = head.rpartition(",")[0]
            texts.append(f"def f{head or '('}): ...")
    parsed = (statement for text in texts for statement in _parse(text)[:1])
    return next((statement for statement in parsed if isinstance(statement, ast.FunctionDef)), None)


def _expression(text: str) -> ast.expr | None:
    statement = next(iter(_parse(text.strip())), None)
    return statement.value if isinstance(statement, ast.Expr) else None


def _union_members(node: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _union_members(_expression(node.value))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from (*_union_members(node.left), *_union_members(node.right))
    elif node is not None:
        yield node


def _generic(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return the name of a type, and its arguments."""
    if not isinstance(node, ast.Subscript):
        return _dotted(node), []
    return _dotted(node.value), node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


_SELF_NAMES = frozenset({"self", "cls", "this", "Self", "static", "$this"})
_SUPER_NAMES = frozenset({"super", "super()", "base", "parent"})
_BUILTINS = frozenset(dir(builtins))
_SELF_TYPES = frozenset({"Self", "typing.Self", "t.Self"})
_MAX_DEPTH = 8
"""Resolution steps from a name to its type before it counts as unknown."""
_SPLIT_CLASS_LANGUAGES = frozenset({"go", "rust", "cpp", "csharp", "ruby", "swift"})
"""Languages in which the members of a class may be in several files."""


class TypeResolver:
    """Resolves names in one working tree."""

    def __init__(self, code: CodeView) -> None:
        self._code = code

    def resolve_name(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        """Resolve an unqualified name: the innermost scope that defines it, else the imports."""
        key = ("name", name, scope.path, scope.around.qualified_name if scope.around else "")
        # A name that refers to itself is unknown.
        return self._code.cached(key, lambda: self._resolve_name(name, scope), None)

    def _resolve_name(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        own = self._code.defined_at(name, scope.path)
        for index, level in enumerate(scope_chain(scope.around) if own else ()):
            if (
                index
                and level
                and any(match.symbol.kind in CLASSES for match in self.definitions_at(level, scope.path))
            ):
                continue  # methods do not see the names of their class
            matches = tuple(definition for definition in own if definition.symbol.container == level)
            if matches and not level and all(match.symbol.kind in VARIABLES for match in matches):
                return self.resolve_import(name, scope) or matches  # `x = None` after a failed import
            if matches:
                return matches
        return self.resolve_import(name, scope)

    def resolve_import(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        """Resolve a name that a file uses at its top level and does not define.

        Where names are visible without an import, it is the definition in the same folder, else the only one.
        """
        imports = self._code.imported_as(scope.path, name)
        original_names = {statement.name for statement in imports if statement.name} or {name}
        matches = [
            definition
            for original in original_names
            for definition in self._code.definitions(original)
            if not definition.symbol.container and (scope.path, name) in self._code.export_sites(definition)
        ]
        if matches:
            return tuple(matches)
        if imports or (scope.language == "python" and name in _BUILTINS):
            return ()
        if scope.language in IMPORT_SCOPED:
            return None
        candidates = [
            definition
            for definition in self._code.definitions(name)
            if definition.language == scope.language and not is_member(definition)
        ]
        folder = posixpath.dirname(scope.path)
        near = [candidate for candidate in candidates if posixpath.dirname(candidate.path) == folder]
        return tuple(near) or (tuple(candidates) if len(candidates) == 1 else None)

    def definitions_at(self, qualified: str, path: str) -> list[StoredDefinition]:
        container, _, name = qualified.rpartition(".")
        return [
            definition for definition in self._code.defined_at(name, path) if definition.symbol.container == container
        ]

    def enclosing_class(self, scope: NameScope) -> ResolvedDefinitions:
        around = scope.around
        if around is None:
            return None
        for level in scope_chain(around)[0 if around.kind in CLASSES else 1 : -1]:
            matches = tuple(match for match in self.definitions_at(level, scope.path) if match.symbol.kind in CLASSES)
            if matches:
                return matches
        # The class of a method may be in another file: Go, Rust, C++.
        name = around.container.rpartition(".")[2]
        return tuple(match for match in self._code.definitions(name) if match.symbol.kind in CLASSES) or None

    def linearized_bases(self, cls: StoredDefinition) -> tuple[StoredDefinition, ...]:
        """Return a class and its ancestors in member lookup order."""

        def order() -> tuple[StoredDefinition, ...]:
            ancestors = [cls, *(ancestor for base in self.bases(cls) for ancestor in self.linearized_bases(base))]
            return tuple({definition_key(ancestor): ancestor for ancestor in reversed(ancestors)}.values())[::-1]

        # Circular inheritance ends with the class itself.
        return self._code.cached(("bases", definition_key(cls)), order, (cls,))

    def bases(self, cls: StoredDefinition) -> list[StoredDefinition]:
        """Return the direct base classes that are defined in this working tree."""
        containers = self.definitions_at(cls.symbol.container, cls.path) if cls.symbol.container else []
        scope = NameScope(cls.path, cls.language, containers[0].symbol if containers else None)
        return [
            match
            for base in cls.symbol.bases
            for name in type_names(base)
            for match in self.resolve_dotted(name, scope) or ()
            if match.symbol.kind in CLASSES and match is not cls
        ]

    def members(self, cls: StoredDefinition, name: str) -> tuple[StoredDefinition, ...]:
        """Return the definitions of a member: those of the first class in lookup order that has it."""

        def find() -> tuple[StoredDefinition, ...]:
            by_ancestor = (self._own_members(ancestor, name) for ancestor in self.linearized_bases(cls))
            return next(filter(None, by_ancestor), ())

        return self._code.cached(("members", definition_key(cls), name), find)

    def _own_members(self, cls: StoredDefinition, name: str) -> tuple[StoredDefinition, ...]:
        return tuple(
            candidate
            for candidate in self._code.definitions(name)
            if candidate.symbol.container == cls.symbol.qualified_name
            and (candidate.path == cls.path or candidate.language == cls.language in _SPLIT_CLASS_LANGUAGES)
        )

    def implementors(self, target: StoredDefinition) -> list[StoredDefinition]:
        """Return the classes below a class, or the members below that override a member; the nearest first."""
        if target.symbol.kind in CLASSES:
            return self._descendants(target)
        holders = self.definitions_at(target.symbol.container, target.path) if target.symbol.container else []
        classes = [holder for holder in holders if holder.symbol.kind in CLASSES]
        name = target.symbol.name
        members = [
            member for cls in classes for below in self._descendants(cls) for member in self._own_members(below, name)
        ]
        members += [item for cls in classes for item in self._derived(cls) if item.symbol.name == name]
        return list({definition_key(member): member for member in members}.values())

    def _descendants(self, cls: StoredDefinition) -> list[StoredDefinition]:
        descendants = {definition_key(cls): cls}
        pending = [cls]
        for above in pending:
            for candidate in (*self._derived(above), *self._types_with_methods_of(above)):
                if candidate.symbol.kind in CLASSES and definition_key(candidate) not in descendants:
                    descendants[definition_key(candidate)] = candidate
                    pending.append(candidate)
        return pending[1:]

    def _derived(self, cls: StoredDefinition) -> list[StoredDefinition]:
        """Return the definitions that have a class among their bases."""
        names = {cls.symbol.name} | {name for _, name in self._code.export_sites(cls)}
        derived = (candidate for name in sorted(names) for candidate in self._code.derived_from(name))
        return [
            candidate
            for candidate in derived
            if any(definition_key(cls) == definition_key(base) for base in self.bases(candidate))
        ]

    def _types_with_methods_of(self, interface: StoredDefinition) -> list[StoredDefinition]:
        """Return the types that have all methods of an interface, where that alone makes them implement it: in Go."""
        if interface.language != "go" or interface.symbol.kind is not SymbolKind.INTERFACE:
            return []
        names = {
            member.symbol.name
            for above in self.linearized_bases(interface)
            for member in self._code.symbols(above.path)
            if member.symbol.container == above.symbol.qualified_name and member.symbol.kind is SymbolKind.METHOD
        }
        rarest = min(names, key=lambda name: (len(self._code.definitions(name)), name), default="")
        holders = {
            definition_key(cls): cls
            for method in self._code.definitions(rarest)
            for cls in self._code.definitions(method.symbol.container)
            if cls.symbol.kind in CLASSES - {SymbolKind.INTERFACE}
            and posixpath.dirname(cls.path) == posixpath.dirname(method.path)
        }
        return [cls for cls in holders.values() if all(self.members(cls, name) for name in names)]

    def member_definitions(self, classes: ResolvedDefinitions, name: str) -> tuple[StoredDefinition, ...]:
        return tuple(member for cls in classes or () for member in self.members(cls, name))

    def resolve_type(self, annotation: str, scope: NameScope, depth: int = _MAX_DEPTH) -> ResolvedDefinitions:
        names = type_names(annotation)
        if not names or depth <= 0:
            return None if depth <= 0 or not annotation.strip() else ()
        classes: list[StoredDefinition] = []
        has_unknown = False
        for name in names:
            matches = self.enclosing_class(scope) if name in _SELF_TYPES else self.resolve_dotted(name, scope)
            if matches is None:
                has_unknown = True
                continue
            for match in matches:
                if match.symbol.kind in CLASSES:
                    classes.append(match)
                elif match.symbol.kind in VARIABLES:
                    _, value = variable_annotation(match.symbol.signature, match.symbol.name)
                    is_alias = value and value_origin(value)[0] != "call"  # a type variable is unknown
                    around = NameScope(match.path, match.language, None)
                    targets = self.resolve_type(value, around, depth - 1) if is_alias else None
                    has_unknown = has_unknown or targets is None
                    classes += targets or ()
        return tuple(classes) if classes or not has_unknown else None

    def resolve_dotted(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        """Resolve a dotted name through modules and classes."""
        parts = name.split(".")
        matches = self.resolve_name(parts[0], scope)
        for count in range(1, len(parts)):
            if matches:
                classes = tuple(match for match in matches if match.symbol.kind in CLASSES)
                matches = self.member_definitions(classes, parts[count])
            else:
                matches = self.module_members(".".join(parts[:count]), parts[count], scope) or matches
        return matches

    def modules(self, receiver: str, scope: NameScope) -> list[str]:
        """Return the modules that a receiver may be, as `is_module_file` takes them."""
        first, _, rest = receiver.partition(".")
        return [_imported_module(statement, receiver, rest) for statement in self._code.imported_as(scope.path, first)]

    def module_members(self, receiver: str, name: str, scope: NameScope) -> tuple[StoredDefinition, ...]:
        """Return the definitions that a module exports under a name, where the receiver is a module."""
        modules = self.modules(receiver, scope)
        return tuple(
            definition
            for definition in (self._code.definitions(name) if modules else ())
            if not definition.symbol.container
            and any(
                self._code.is_exported_by(definition, name, module, scope.path, scope.language) for module in modules
            )
        )

    def resolve_receiver(
        self, receiver: str, scope: NameScope, depth: int = _MAX_DEPTH
    ) -> ResolvedDefinitions | ModuleReceiver:
        """Resolve the expression before a dot in Python, inferring the types of values."""
        name, mark, hint = split_hint(receiver)
        parts = name.split(".")
        resolved = self._first_part(parts[0], mark, hint, scope=scope, depth=depth) if depth > 0 else None
        for count in range(1, len(parts)):
            if isinstance(resolved, ModuleReceiver):
                matches = self.module_members(".".join(parts[:count]), parts[count], scope)
                modules = tuple(self.modules(".".join(parts[: count + 1]), scope))
                resolved = self._types_of(matches, depth) if matches else ModuleReceiver(modules)
            elif resolved:
                members = self.member_definitions(resolved, parts[count])
                resolved = self._types_of(members, depth) if members else None
        return resolved

    def resolve_named_receiver(self, receiver: str, scope: NameScope) -> ResolvedDefinitions | ModuleReceiver:
        """Resolve `this`, `super`, a class name or a module before a dot; the type of a value is not inferred."""
        if receiver in _SELF_NAMES or receiver in _SUPER_NAMES:
            return self._self_or_super(receiver, scope)
        matches = self.resolve_dotted(receiver, scope)
        if matches:
            return matches if all(match.symbol.kind in CLASSES for match in matches) else None
        modules = self.modules(receiver, scope)
        return ModuleReceiver(tuple(modules)) if modules else None

    def _first_part(
        self, name: str, mark: str, value: str, *, scope: NameScope, depth: int
    ) -> ResolvedDefinitions | ModuleReceiver:
        """Resolve the first name of a receiver, and a hint of `code.languages.python_scopes` about it."""
        if name in _SELF_NAMES or name in _SUPER_NAMES:
            return self._self_or_super(name, scope)
        if mark == "=":
            return self.call_result(value, scope, depth - 1)
        annotated = (value, scope) if mark else self._parameter(name, scope)
        if annotated is not None or name == "?":
            return self.resolve_type(*annotated, depth - 1) if annotated and annotated[0] else None
        matches = self.resolve_name(name, scope)
        modules = self.modules(name, scope) if not matches else []
        return ModuleReceiver(tuple(modules)) if modules else matches and self._types_of(matches, depth)

    def _self_or_super(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        classes = self.enclosing_class(scope)
        if classes is None or name in _SELF_NAMES:
            return classes
        return tuple(base for cls in classes for base in self.bases(cls))

    def _parameter(self, name: str, scope: NameScope) -> tuple[str, NameScope] | None:
        """Return the annotation of a parameter of an enclosing function, and the scope it is written in."""
        functions = [scope.around] if scope.around is not None and scope.around.kind in FUNCTIONS else []
        for level in scope_chain(scope.around)[1:-1]:
            if not level.rpartition(".")[2][:1].isupper():  # nearly always a class
                functions += [
                    match.symbol for match in self.definitions_at(level, scope.path) if match.symbol.kind in FUNCTIONS
                ]
        for function in functions:
            parameters = parameter_types(function.signature)
            if name in parameters:
                return parameters[name], NameScope(scope.path, scope.language, function)
        return None

    def call_result(self, name: str, scope: NameScope, depth: int) -> ResolvedDefinitions:
        """Return the classes that calling a dotted name gives: the class itself, or a function's return type."""
        if depth <= 0:
            return None
        before, _, last = name.rpartition(".")
        callees: ResolvedDefinitions = None
        if before:
            receiver = self.resolve_receiver(before, scope, depth - 1)
            if isinstance(receiver, ModuleReceiver):
                callees = self.module_members(before, last, scope) or (() if last[:1].isupper() else None)
            elif receiver:
                callees = self.member_definitions(receiver, last) or None
        else:
            callees = self.resolve_name(last, scope)
            if callees == () and not (last[:1].isupper() or last in _BUILTINS):
                return None  # a third-party function may return anything
        return None if callees is None else self._types_of(callees, depth, called=True)

    def _types_of(
        self, definitions: Sequence[StoredDefinition], depth: int, *, called: bool = False
    ) -> ResolvedDefinitions:
        """Return the types of definitions, or of the results of calling them; a method without a call is a property."""
        classes: list[StoredDefinition] = []
        for definition in definitions:
            kind = definition.symbol.kind
            has_value = kind is SymbolKind.METHOD or (kind is SymbolKind.FUNCTION if called else kind in VARIABLES)
            types: ResolvedDefinitions = None
            if kind in CLASSES:
                types = (definition,)
            elif has_value and depth > 1:
                types = self._value_type(definition, depth - 1)
            if types is None:
                return None
            classes += types
        return tuple(classes)

    def _value_type(self, definition: StoredDefinition, depth: int) -> ResolvedDefinitions:
        """Return the type of a result or a variable by its annotation; of a variable also by its first value."""
        annotation, value, scope = self._annotation(definition)
        if annotation:
            return self.resolve_type(annotation, scope, depth - 1)
        origin, name = value_origin(value)
        if origin == "call":
            return self.call_result(name, scope, depth - 1)
        if origin == "name":
            resolved = self.resolve_receiver(name, scope, depth - 1)
            return None if isinstance(resolved, ModuleReceiver) else resolved
        return () if value and value[0] in "\"'[{(0123456789" else None

    def _annotation(self, definition: StoredDefinition) -> tuple[str, str, NameScope]:
        """Return the annotation of a function's result or of a variable, the variable's value, and their scope."""
        symbol = definition.symbol
        if symbol.kind in FUNCTIONS:
            return return_type(symbol.signature), "", NameScope(definition.path, definition.language, symbol)

        def find_enclosing() -> Symbol | None:
            """Return the innermost function or class around the line: attributes are assigned in methods."""
            around = (
                other.symbol
                for other in reversed(self._code.symbols(definition.path))
                if other.symbol.kind not in VARIABLES
                and other.symbol.span.start_line <= symbol.name_line <= other.symbol.span.end_line
            )
            return max(around, key=lambda symbol: symbol.span.start_line, default=None)

        around = self._code.cached(("around", definition_key(definition)), find_enclosing)
        return *variable_annotation(symbol.signature, symbol.name), NameScope(
            definition.path, definition.language, around
        )


def split_hint(receiver: str) -> tuple[str, str, str]:
    """Split a receiver into its name, the mark of a hint, and the hint; both are empty if there is none."""
    end = next((position for position, char in enumerate(receiver) if char in "=:"), len(receiver))
    return receiver[:end], receiver[end : end + 1], receiver[end + 1 :]


def is_member(definition: StoredDefinition) -> bool:
    """Return True if a definition needs a receiver: a method, or a field."""
    symbol = definition.symbol
    return symbol.kind is SymbolKind.METHOD or (bool(symbol.container) and symbol.kind in VARIABLES)


def _imported_module(statement: ImportStatement, receiver: str, rest: str) -> str:
    """Return the module that a receiver names, by the import that binds its first part."""
    if statement.name and statement.name != "*":
        separator = "" if statement.module.endswith((".", "/")) or not statement.module else "."
        module = f"{statement.module}{separator}{statement.name}"
    elif statement.alias or "/" in statement.module:
        module = statement.module
    else:
        return receiver  # `import a.b` binds `a`; the receiver is the full module name
    return f"{module}.{rest}" if rest else module
