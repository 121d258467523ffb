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

import builtins
import posixpath
import re
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
    DefinitionKey,
    ModuleReceiver,
    NameScope,
    ResolvedDefinitions,
    definition_key,
    scope_chain,
)

_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::)[^\W\d][\w$]*)*")
_OPEN, _CLOSE = "([{<", ")]}>"
_TRANSPARENT_WRAPPERS = frozenset(
    "Optional Annotated Final ClassVar Type type Required NotRequired ReadOnly Awaitable Coroutine".split()
)
"""Generic types whose members are those of their argument."""
_MAPPINGS = frozenset("dict Dict Mapping MutableMapping defaultdict DefaultDict OrderedDict".split())
_COLLECTIONS = frozenset(
    "list List tuple Tuple set Set frozenset FrozenSet deque Deque Sequence MutableSequence Iterable Iterator Collection"
    " Container AbstractSet Generator AsyncIterable AsyncIterator AsyncGenerator".split()
)


@lru_cache(maxsize=20_000)
def parameter_types(signature: str) -> dict[str, str]:
    """Return the parameters of a function with their annotations; an empty annotation where there is none."""
    start = signature.find("(")
    if start < 0:
        return {}
    inside = signature[start + 1 : _closing_bracket(signature, start)]
    return {name: annotation for name, annotation in map(_parse_parameter, _split_top_level(inside, ",")) if name}


@lru_cache(maxsize=20_000)
def return_type(signature: str) -> str:
    """Return the return annotation of a function, or an empty string."""
    start = signature.find("(")
    if start < 0:
        return ""
    rest = signature[_closing_bracket(signature, start) + 1 :].strip()
    return rest[2:].strip().rstrip("{:;=").strip() if rest.startswith("->") else ""


@lru_cache(maxsize=20_000)
def variable_annotation(signature: str) -> tuple[str, str]:
    """Return the annotation and the assigned value of a variable as written; either may be empty."""
    equals = _find_top_level(signature, "=")
    head, value = (signature[:equals], signature[equals + 1 :].strip()) if equals >= 0 else (signature, "")
    colon = _find_top_level(head, ":")
    return (head[colon + 1 :].strip() if colon >= 0 else ""), value


@lru_cache(maxsize=20_000)
def type_names(annotation: str) -> tuple[str, ...]:
    """Return the type names: `Optional["Foo"]` gives Foo, `A | None` gives A, `list[Foo]` gives list."""
    text = annotation.strip().strip("\"'").strip().lstrip("&*").strip()
    parts = _split_top_level(text, "|")
    if len(parts) > 1:
        return tuple(dict.fromkeys(name for part in parts for name in type_names(part)))
    match = _NAME.match(text)
    if match is None or text == "None":
        return ()
    name, rest = match[0].replace("::", "."), text[match.end() :].strip()
    last = name.rpartition(".")[2]
    if rest.startswith("[") and (last == "Union" or last in _TRANSPARENT_WRAPPERS):
        inner = _split_top_level(rest[1 : _closing_bracket(rest, 0)], ",")
        if last == "Coroutine":
            inner = inner[-1:]
        elif last != "Union":
            inner = inner[:1]
        return tuple(dict.fromkeys(type_name for part in inner for type_name in type_names(part)))
    return (name,)


@lru_cache(maxsize=20_000)
def element_annotation(annotation: str, *, key: bool = False) -> str:
    """Return the element type of a collection (`Foo` for `list[Foo]`), or the type of a mapping's values or keys."""
    for part in _split_top_level(annotation.strip().strip("\"'"), "|"):
        match = _NAME.match(part.strip())
        rest = part.strip()[match.end() :].strip() if match else ""
        if match is None or not rest.startswith("["):
            continue
        inner = [argument.strip() for argument in _split_top_level(rest[1 : _closing_bracket(rest, 0)], ",")]
        last = match[0].rpartition(".")[2]
        if last == "Optional":
            return element_annotation(inner[0], key=key)
        if last in _MAPPINGS:
            return inner[0] if key else inner[-1]
        return inner[0] if last in _COLLECTIONS else ""
    return ""


@lru_cache(maxsize=20_000)
def value_origin(value: str) -> tuple[str, str]:
    """Return `("call", "pkg.Foo")` for a call, `("name", "self.x")` for a plain name, else two empty strings."""
    text = value.strip().removeprefix("await ").strip()
    match = _NAME.match(text)
    if match is None:
        return "", ""
    rest = text[match.end() :].strip()
    if not rest or rest[0] in ",;":
        return "name", match[0]
    # Signatures may be truncated, so an unclosed bracket counts as the whole call.
    is_call = rest[0] == "(" and _closing_bracket(rest, 0) >= len(rest.rstrip(";")) - 1
    return ("call", match[0]) if is_call else ("", "")


def _parse_parameter(text: str) -> tuple[str, str]:
    parameter = text.strip()
    equals = _find_top_level(parameter, "=")
    head = parameter[:equals] if equals >= 0 else parameter
    colon = _find_top_level(head, ":")
    name, annotation = (head[:colon], head[colon + 1 :]) if colon >= 0 else (head, "")
    if parameter.startswith("*"):
        annotation = "dict" if parameter.startswith("**") else "tuple"
    return name.strip().lstrip("*").strip(), annotation.strip()


def _outside_quotes(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """Yield the letters outside of quotes, each with its position and the number of brackets that are open after it."""
    depth, quote = 0, ""
    for position, letter in enumerate(text[start:], start):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            if letter in _OPEN:
                depth += 1
            elif letter in _CLOSE and text[position - 1 : position + 1] != "->":
                depth -= 1
            yield position, letter, depth


def _closing_bracket(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at `start`, or the length of the text."""
    closed = (position for position, letter, depth in _outside_quotes(text, start) if letter in _CLOSE and depth == 0)
    return next(closed, len(text))


def _split_top_level(text: str, separator: str) -> list[str]:
    """Split a text at separators outside of brackets and quotes."""
    parts, start = [], 0
    for position in _top_level_positions(text, separator):
        parts.append(text[start:position])
        start = position + 1
    return [*parts, text[start:]]


def _find_top_level(text: str, mark: str) -> int:
    """Return the first position of `=` or `:` outside of brackets and operators, or -1."""
    for position in _top_level_positions(text, mark):
        around = text[max(0, position - 1) : position + 2]
        if mark == "=" and (around[:1] in "!<>=+-*/%&|^~" or around.endswith("==")):
            continue
        if mark == ":" and ":=" in around:
            return -1
        return position
    return -1


def _top_level_positions(text: str, mark: str) -> list[int]:
    return [position for position, letter, depth in _outside_quotes(text) if letter == mark and depth <= 0]


_MAPPING_VIEWS = ("values", "keys")
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
        self._orders: dict[DefinitionKey, tuple[StoredDefinition, ...]] = {}
        self._resolved_names: dict[tuple[str, str, str], ResolvedDefinitions] = {}

    # -- names ------------------------------------------------------------------------------------------------------

    def resolve_name(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        """Resolve an unqualified name: the innermost scope that defines it, else the imports."""
        key = (name, scope.path, scope.around.qualified_name if scope.around else "")
        if key not in self._resolved_names:
            self._resolved_names[key] = None  # a name that refers to itself is unknown
            self._resolved_names[key] = self._resolve_name(name, scope)
        return self._resolved_names[key]

    def _resolve_name(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        own = self._code.defined_at(name, scope.path)
        if own:
            for index, level in enumerate(scope_chain(scope.around)):
                if index and level and self._is_class(level, scope.path):
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

    def _is_class(self, qualified: str, path: str) -> bool:
        return any(definition.symbol.kind in CLASSES for definition in self.definitions_at(qualified, path))

    def definitions_at(self, qualified: str, path: str) -> list[StoredDefinition]:
        """Return the definitions of a file with this qualified name."""
        container, _, name = qualified.rpartition(".")
        return [
            definition for definition in self._code.defined_at(name, path) if definition.symbol.container == container
        ]

    # -- classes ----------------------------------------------------------------------------------------------------

    def enclosing_class(self, scope: NameScope) -> ResolvedDefinitions:
        """Return the innermost class around a scope."""
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
        key = definition_key(cls)
        if key not in self._orders:
            self._orders[key] = (cls,)  # ends circular inheritance
            order: dict[DefinitionKey, StoredDefinition] = {key: cls}
            for base in self.bases(cls):
                for ancestor in self.linearized_bases(base):
                    order.setdefault(definition_key(ancestor), ancestor)
            self._orders[key] = tuple(order.values())
        return self._orders[key]

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
            by_ancestor = (
                tuple(
                    candidate
                    for candidate in self._code.definitions(name)
                    if candidate.symbol.container == ancestor.symbol.qualified_name and _belongs(candidate, ancestor)
                )
                for ancestor in self.linearized_bases(cls)
            )
            return next(filter(None, by_ancestor), ())

        return self._code.cached(("members", definition_key(cls), name), find)

    def member_definitions(self, classes: ResolvedDefinitions, name: str) -> tuple[StoredDefinition, ...]:
        """Return the definitions of a member in all of some classes."""
        return tuple(member for cls in classes or () for member in self.members(cls, name))

    # -- types ------------------------------------------------------------------------------------------------------

    def resolve_type(self, annotation: str, scope: NameScope, depth: int = _MAX_DEPTH) -> ResolvedDefinitions:
        """Resolve an annotation to classes."""
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
                    _, value = variable_annotation(match.symbol.signature)
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

    # -- modules ----------------------------------------------------------------------------------------------------

    def modules(self, receiver: str, scope: NameScope) -> list[str]:
        """Return the modules that a receiver may be, as `is_module_file` takes them."""
        first, _, rest = receiver.partition(".")
        return [_imported_module(statement, receiver, rest) for statement in self._code.imported_as(scope.path, first)]

    def module_members(self, receiver: str, name: str, scope: NameScope) -> tuple[StoredDefinition, ...]:
        """Return the definitions that a module exports under a name, where the receiver is a module."""
        modules = self.modules(receiver, scope)
        if not modules:
            return ()
        return tuple(
            definition
            for definition in self._code.definitions(name)
            if not definition.symbol.container
            and any(
                self._code.is_exported_by(definition, name, module, scope.path, scope.language) for module in modules
            )
        )

    # -- receivers --------------------------------------------------------------------------------------------------

    def resolve_receiver(
        self, receiver: str, scope: NameScope, depth: int = _MAX_DEPTH
    ) -> ResolvedDefinitions | ModuleReceiver:
        """Resolve the expression before a dot in Python, inferring the types of values."""
        name, mark, hint = split_hint(receiver)
        parts = name.split(".")
        if depth <= 0:
            return None
        resolved = self._first_part(parts[0], mark, hint, scope=scope, depth=depth)
        for count in range(1, len(parts)):
            if resolved is None or resolved == ():
                return resolved
            if isinstance(resolved, ModuleReceiver):
                matches = self.module_members(".".join(parts[:count]), parts[count], scope)
                resolved = (
                    self._types_of(matches, depth)
                    if matches
                    else ModuleReceiver(tuple(self.modules(".".join(parts[: count + 1]), scope)))
                )
            else:
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
        annotated: tuple[str, NameScope] | None
        if mark == ":":
            annotated = (value, scope)
        elif mark == "*":
            annotated = self._element_type(value, scope, depth - 1)
        elif mark == "=":
            return self.call_result(value, scope, depth - 1)
        elif mark == "~":
            return self.resolve_receiver(value, scope, depth - 1)
        else:
            annotated = self._parameter(name, scope)
            if annotated is None and name != "?":
                matches = self.resolve_name(name, scope)
                modules = self.modules(name, scope) if not matches else []
                return ModuleReceiver(tuple(modules)) if modules else matches and self._types_of(matches, depth)
        return self.resolve_type(*annotated, depth - 1) if annotated and annotated[0] else None

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
            symbol = definition.symbol
            types: ResolvedDefinitions = None
            if symbol.kind in CLASSES:
                types = (definition,)
            elif symbol.kind is SymbolKind.METHOD or (called and symbol.kind is SymbolKind.FUNCTION):
                annotation, scope = (
                    return_type(symbol.signature),
                    NameScope(definition.path, definition.language, symbol),
                )
                types = self.resolve_type(annotation, scope, depth - 1) if annotation else None
            elif symbol.kind in VARIABLES and not called:
                types = self._variable_type(definition, depth - 1)
            if types is None:
                return None
            classes += types
        return tuple(classes)

    def _variable_type(self, variable: StoredDefinition, depth: int) -> ResolvedDefinitions:
        """Return the type of a variable by its annotation, else by its first value."""
        if depth <= 0:
            return None
        annotation, value = variable_annotation(variable.symbol.signature)
        scope = NameScope(variable.path, variable.language, self._enclosing_symbol(variable))
        if annotation:
            return self.resolve_type(annotation, scope, depth - 1)
        origin, name = value_origin(value)
        if origin == "call":
            return self.call_result(name, scope, depth - 1)
        if origin == "name" and name:
            resolved = self.resolve_receiver(name, scope, depth - 1)
            return None if isinstance(resolved, ModuleReceiver) else resolved
        return () if value and value[0] in "\"'[{(0123456789" else None

    def _enclosing_symbol(self, variable: StoredDefinition) -> Symbol | None:
        """Return the innermost function or class around a variable's line: attributes are assigned in methods."""

        def find() -> Symbol | None:
            around = (
                definition.symbol
                for definition in reversed(self._code.symbols(variable.path))
                if definition.symbol.kind not in VARIABLES
                and definition.symbol.span.start_line <= variable.symbol.name_line <= definition.symbol.span.end_line
            )
            return max(around, key=lambda symbol: symbol.span.start_line, default=None)

        return self._code.cached(("around", definition_key(variable)), find)

    # -- elements ---------------------------------------------------------------------------------------------------

    def _element_type(self, value: str, scope: NameScope, depth: int) -> tuple[str, NameScope] | None:
        """Return the element annotation of a collection, and its scope. `=f` stands for the result of a call of `f`."""
        name, is_call = value.removeprefix("="), value.startswith("=")
        before, _, last = name.rpartition(".")
        if is_call and before and last in _MAPPING_VIEWS:
            name = before
        annotated = self._annotation_of(name, scope, depth)
        inner = element_annotation(annotated[0], key=is_call and last == "keys") if annotated else ""
        return (inner, annotated[1]) if annotated and inner else None

    def _annotation_of(self, name: str, scope: NameScope, depth: int) -> tuple[str, NameScope] | None:
        """Return the annotation of a dotted name, and the scope it is written in."""
        if depth <= 0:
            return None
        before, _, last = name.rpartition(".")
        if not before:
            parameter = self._parameter(last, scope)
            return parameter or self._first_annotation(self.resolve_name(last, scope) or (), depth)
        receiver = self.resolve_receiver(before, scope, depth - 1)
        if isinstance(receiver, ModuleReceiver):
            return self._first_annotation(self.module_members(before, last, scope), depth)
        return self._first_annotation(self.member_definitions(receiver, last), depth)

    def _first_annotation(self, definitions: Sequence[StoredDefinition], depth: int) -> tuple[str, NameScope] | None:
        if not definitions:
            return None
        first = definitions[0]
        if first.symbol.kind in FUNCTIONS:
            annotation = return_type(first.symbol.signature)
            return (annotation, NameScope(first.path, first.language, first.symbol)) if annotation else None
        annotation, value = variable_annotation(first.symbol.signature)
        scope = NameScope(first.path, first.language, self._enclosing_symbol(first))
        if annotation:
            return annotation, scope
        origin, name = value_origin(value)
        return self._annotation_of(name, scope, depth - 1) if origin else None


def split_hint(receiver: str) -> tuple[str, str, str]:
    """Split a receiver into its name, the mark of a hint, and the hint; both are empty if there is none."""
    end = next((position for position, char in enumerate(receiver) if char in "=:~*"), len(receiver))
    return receiver[:end], receiver[end : end + 1], receiver[end + 1 :]


def is_member(definition: StoredDefinition) -> bool:
    """Return True if a definition needs a receiver: a method, or a field."""
    symbol = definition.symbol
    return symbol.kind is SymbolKind.METHOD or (bool(symbol.container) and symbol.kind in VARIABLES)


def _belongs(member: StoredDefinition, cls: StoredDefinition) -> bool:
    if member.path == cls.path:
        return True
    return cls.language == member.language and cls.language in _SPLIT_CLASS_LANGUAGES


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
