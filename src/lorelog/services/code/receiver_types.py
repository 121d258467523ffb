"""Resolve the names and receivers of one working tree to classes, members and modules.

Results distinguish three cases: definitions of this working tree; an empty tuple for something defined elsewhere (a
`str`, a third-party module), so that no definition of ours can be meant; and None for unknown.

Scopes, imports and inheritance are resolved for every language. Types of values (annotations, constructors, attributes,
return types) are inferred for Python only.
"""

from __future__ import annotations

import builtins
import posixpath
import re
from collections.abc import Iterator, Sequence

from lorelog.code.tables import StoredDefinition
from lorelog.core.code import ImportStatement, Symbol, SymbolKind
from lorelog.services.code.annotations import (
    element_annotation,
    parameter_types,
    return_type,
    type_names,
    value_origin,
    variable_annotation,
)
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

_MAPPING_VIEWS = ("values", "keys")
_SELF_NAMES = frozenset({"self", "cls", "this", "Self", "static", "$this"})
_SUPER_NAMES = frozenset({"super", "super()", "base", "parent"})
_BUILTINS = frozenset(dir(builtins))
_SELF_TYPES = frozenset({"Self", "typing.Self", "t.Self"})
_HINT = re.compile(r"([^=:~*]*)(?:([=:~*])(.*))?", re.DOTALL)
_MAX_DEPTH = 8
"""Resolution steps from a name to its type before it counts as unknown."""
_SPLIT_CLASS_LANGUAGES = frozenset({"go", "rust", "cpp", "csharp", "ruby", "swift"})
"""Languages in which the members of a class may be in several files."""


class TypeResolver:
    """Resolves names in one working tree."""

    def __init__(self, code: CodeView) -> None:
        self._code = code
        self._members: dict[tuple[DefinitionKey, str], tuple[StoredDefinition, ...]] = {}
        self._orders: dict[DefinitionKey, tuple[StoredDefinition, ...]] = {}
        self._resolved_names: dict[tuple[str, str, str], ResolvedDefinitions] = {}
        self._enclosing_symbols: dict[DefinitionKey, Symbol | None] = {}

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
        """Resolve a name that a file uses at its top level and does not define."""
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
        return None if scope.language in IMPORT_SCOPED else self._visible_without_import(name, scope)

    def _visible_without_import(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        """Return the definitions in the same folder, else the only definition of the name."""
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
        key = (definition_key(cls), name)
        if key not in self._members:
            self._members[key] = ()
            for ancestor in self.linearized_bases(cls):
                matches = tuple(
                    candidate
                    for candidate in self._code.definitions(name)
                    if candidate.symbol.container == ancestor.symbol.qualified_name and _belongs(candidate, ancestor)
                )
                if matches:
                    self._members[key] = matches
                    break
        return self._members[key]

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
                    targets = self._alias_target(match, depth)
                    has_unknown = has_unknown or targets is None
                    classes += targets or ()
        return tuple(classes) if classes or not has_unknown else None

    def _alias_target(self, alias: StoredDefinition, depth: int) -> ResolvedDefinitions:
        """Resolve a type alias; a type variable is unknown."""
        _, value = variable_annotation(alias.symbol.signature)
        if not value or value_origin(value)[0] == "call":
            return None
        return self.resolve_type(value, NameScope(alias.path, alias.language, None), depth - 1)

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
        parsed = _HINT.fullmatch(receiver)
        name, mark, hint = (parsed[1], parsed[2] or "", parsed[3] or "") if parsed else (receiver, "", "")
        parts = name.split(".")
        if depth <= 0:
            return None
        resolved = self._first_part(parts[0], (mark, hint), scope, depth)
        for count in range(1, len(parts)):
            if isinstance(resolved, ModuleReceiver):
                matches = self.module_members(".".join(parts[:count]), parts[count], scope)
                resolved = (
                    self._instance_types(matches, depth)
                    if matches
                    else ModuleReceiver(tuple(self.modules(".".join(parts[: count + 1]), scope)))
                )
            else:
                resolved = self._member_type(resolved, parts[count], depth)
            if resolved is None or resolved == ():
                return resolved
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
        self, name: str, hint: tuple[str, str], scope: NameScope, depth: int
    ) -> ResolvedDefinitions | ModuleReceiver:
        if name in _SELF_NAMES or name in _SUPER_NAMES:
            return self._self_or_super(name, scope)
        mark, value = hint
        if mark:
            return self._hinted_type(mark, value, scope, depth)
        return None if name == "?" else self._plain_receiver(name, scope, depth)

    def _self_or_super(self, name: str, scope: NameScope) -> ResolvedDefinitions:
        classes = self.enclosing_class(scope)
        if classes is None or name in _SELF_NAMES:
            return classes
        return tuple(base for cls in classes for base in self.bases(cls))

    def _hinted_type(self, mark: str, value: str, scope: NameScope, depth: int) -> ResolvedDefinitions | ModuleReceiver:
        """Resolve a hint of `code.languages.python_scopes` about a local variable: call, name, annotation, element."""
        if mark == ":":
            return self.resolve_type(value, scope, depth)
        if mark == "*":
            element = self._element_type(value, scope, depth - 1)
            return self.resolve_type(*element, depth - 1) if element else None
        if mark == "=":
            return self.call_result(value, scope, depth - 1)
        return self.resolve_receiver(value, scope, depth - 1)

    def _plain_receiver(self, name: str, scope: NameScope, depth: int) -> ResolvedDefinitions | ModuleReceiver:
        """Resolve an unqualified receiver: a parameter, a name of the file, or a module."""
        for function in self._functions(scope):
            parameters = parameter_types(function.signature)
            if name in parameters:
                annotation = parameters[name]
                around = NameScope(scope.path, scope.language, function)
                return self.resolve_type(annotation, around, depth - 1) if annotation else None
        matches = self.resolve_name(name, scope)
        if matches:
            return self._instance_types(matches, depth)
        modules = self.modules(name, scope)
        return ModuleReceiver(tuple(modules)) if modules else matches

    def _functions(self, scope: NameScope) -> Iterator[Symbol]:
        """Yield the functions around a scope, innermost first; a capitalized name is nearly always a class."""
        if scope.around is None:
            return
        if scope.around.kind in FUNCTIONS:
            yield scope.around
        for level in scope_chain(scope.around)[1:-1]:
            if not level.rpartition(".")[2][:1].isupper():
                yield from (
                    match.symbol for match in self.definitions_at(level, scope.path) if match.symbol.kind in FUNCTIONS
                )

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
        return None if callees is None else self._return_types(callees, depth)

    def _return_types(self, callees: tuple[StoredDefinition, ...], depth: int) -> ResolvedDefinitions:
        classes: list[StoredDefinition] = []
        for callee in callees:
            if callee.symbol.kind in CLASSES:
                classes.append(callee)
                continue
            annotation = return_type(callee.symbol.signature) if callee.symbol.kind in FUNCTIONS else ""
            scope = NameScope(callee.path, callee.language, callee.symbol)
            result = self.resolve_type(annotation, scope, depth - 1) if annotation else None
            if result is None:
                return None
            classes += result
        return tuple(classes)

    def _instance_types(self, definitions: tuple[StoredDefinition, ...], depth: int) -> ResolvedDefinitions:
        """Return the classes among some definitions, and the types of the variables among them."""
        classes: list[StoredDefinition] = []
        for definition in definitions:
            if definition.symbol.kind in CLASSES:
                classes.append(definition)
                continue
            types = self._variable_type(definition, depth - 1) if definition.symbol.kind in VARIABLES else None
            if types is None:
                return None
            classes += types
        return tuple(classes)

    def _member_type(self, receivers: ResolvedDefinitions, name: str, depth: int) -> ResolvedDefinitions:
        """Return the type of a member of some classes."""
        if not receivers:
            return receivers
        members = self.member_definitions(receivers, name)
        if not members:
            return None
        classes: list[StoredDefinition] = []
        for member in members:
            if member.symbol.kind in CLASSES:
                classes.append(member)
                continue
            if member.symbol.kind in FUNCTIONS:  # not called: a property
                types = self._return_types((member,), depth)
            else:
                types = self._variable_type(member, depth - 1)
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
        key = definition_key(variable)
        if key in self._enclosing_symbols:
            return self._enclosing_symbols[key]
        innermost: Symbol | None = None
        line = variable.symbol.name_line
        for definition in self._code.symbols(variable.path):
            span = definition.symbol.span
            if definition.symbol.kind in VARIABLES or not span.start_line <= line <= span.end_line:
                continue
            if innermost is None or span.start_line >= innermost.span.start_line:
                innermost = definition.symbol
        self._enclosing_symbols[key] = innermost
        return innermost

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
            return self._parameter_annotation(last, scope) or self._first_annotation(
                self.resolve_name(last, scope) or (), depth
            )
        receiver = self.resolve_receiver(before, scope, depth - 1)
        if isinstance(receiver, ModuleReceiver):
            return self._first_annotation(self.module_members(before, last, scope), depth)
        return self._first_annotation(self.member_definitions(receiver, last), depth)

    def _parameter_annotation(self, name: str, scope: NameScope) -> tuple[str, NameScope] | None:
        for level in scope_chain(scope.around)[:-1]:
            for definition in self.definitions_at(level, scope.path):
                symbol = definition.symbol
                parameters = parameter_types(symbol.signature) if symbol.kind in FUNCTIONS else {}
                if name in parameters:
                    annotation = parameters[name]
                    return (annotation, NameScope(scope.path, scope.language, symbol)) if annotation else None
        return None

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
