"""Look up what a query names: the definitions of a symbol, the imports of a module, the uses of a third-party name."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lorelog.code.tables import CodeTables, StoredDefinition, StoredImport, StoredUse
from lorelog.core.code import Certainty, ImportStatement, SymbolKind, UseKind
from lorelog.core.paths import is_below
from lorelog.services.code.receiver_types import TypeResolver
from lorelog.services.code.view import CLASSES, CodeView, DefinitionKey, NameScope, ResolvedDefinitions, definition_key

_PART_SEPARATORS = re.compile(r"/|::|\\|\.")
_NAME_SEPARATORS = re.compile(r"\.|::|->|#|/")
_FILE_SUFFIX = re.compile(r"\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|rb|php|kt|swift|scala|cs|lua|sh)$")
_FOLDER_FILES = ("__init__", "index", "mod")
_KIND_ORDER = {kind: number for number, kind in enumerate(SymbolKind)}
"""Functions before methods, methods before classes."""
_TEST_PATH = re.compile(r"(?:^|/)(?:tests?|__tests__|spec|testing)/|(?:^|/)test_[^/]*$|[._]test\.[^/]*$|_spec\.[^/]*$")


def find_importers(tables: CodeTables, root: str, module: str) -> list[StoredImport]:
    """Return the imports of a module, or of a name from a module, best matches first.

    `module` is a module name or the path of its file.
    """
    query = _query_parts(module)
    if not query:
        return []
    roots = [root]
    stem = _FILE_SUFFIX.sub("", module.strip("/")) if "/" in module else module
    candidates = dict.fromkeys(
        [
            *tables.importers(module, roots),
            *(tables.importers(stem, roots) if stem != module else ()),
            *(tables.importers(query[-1], roots) if len(query) > 1 else ()),
            *tables.importers_of_name(query[-1], roots),
        ]
    )
    ranked = [(rank, stored) for stored in candidates if (rank := _import_rank(stored, module, query)) is not None]
    ranked.sort(key=lambda pair: (pair[0], pair[1].path, pair[1].what.line, pair[1].what.column))
    return [stored for _, stored in ranked]


def _query_parts(module: str) -> list[str]:
    """Split a module name or a file's path into its parts, without the file suffix."""
    text = _FILE_SUFFIX.sub("", module.strip()) if "/" in module else module.strip()
    parts = [part for part in _PART_SEPARATORS.split(text) if part and part != "@"]
    if "/" in module and parts and parts[-1] in _FOLDER_FILES:
        parts.pop()
    return parts


def _import_rank(stored: StoredImport, module: str, query: list[str]) -> int | None:
    """Return 0 for the module itself, 1 for its submodules and names, 2 if the names end alike, None for no match."""
    statement = stored.what
    if statement.module == module:
        return 0
    parts = _absolute_parts(stored.path, statement, stored.language)
    if parts[: len(query)] == query:
        return 1
    names = [parts, [*parts, statement.name]] if statement.name and statement.name != "*" else [parts]
    # Either name may start higher up: `src/app/core.py` is imported as `app.core`.
    ends = any(name[-len(query) :] == query or (len(name) > 1 and query[-len(name) :] == name) for name in names)
    return 2 if ends else None


def _absolute_parts(importer: str, statement: ImportStatement, language: str) -> list[str]:
    """Return the parts of an imported module's name; a relative import is resolved from the root."""
    module = statement.module
    folder = posixpath.dirname(importer)
    if language == "python" and module.startswith("."):
        rest = module.lstrip(".")
        for _ in range(len(module) - len(rest) - 1):
            folder = posixpath.dirname(folder)
        return [*filter(None, folder.split("/")), *filter(None, rest.split("."))]
    if module.startswith(("./", "../")) or module in {".", ".."}:
        whole = posixpath.normpath(posixpath.join(folder, module))
        return [part for part in _FILE_SUFFIX.sub("", whole).split("/") if part not in {"", "."}]
    return [part for part in _PART_SEPARATORS.split(_FILE_SUFFIX.sub("", module) if "/" in module else module) if part]


class SymbolQuery(Struct, frozen=True):
    """A symbol to look up."""

    name: str
    container: str = ""
    """Enclosing classes and modules as far as given, joined by dots."""
    path: str = ""
    """Absolute path of the defining file, or of a folder above it."""
    line: int = 0
    """A line inside the definition; 0 if not given."""
    kind: SymbolKind | None = None
    language: str = ""

    @property
    def qualified_name(self) -> str:
        """Return the name with its container."""
        return f"{self.container}.{self.name}" if self.container else self.name


def parse_name(text: str, container: str = "") -> tuple[str, str]:
    """Split `Engine.search`, `std::vector`, `Array#map` or `parse()` into the name and its container."""
    parts = [part for part in _NAME_SEPARATORS.split(text.strip().strip("`'\"").removesuffix("()")) if part]
    name = parts.pop() if parts else text.strip()
    around = [part for part in _NAME_SEPARATORS.split(container) if part]
    return name, ".".join([*around, *parts])


def find_targets(code: CodeView, query: SymbolQuery) -> list[StoredDefinition]:
    """Return the definitions that a query means; for a member of a class also an inherited one."""
    around = query.container.split(".") if query.container else []
    targets = [definition for definition in code.definitions(query.name) if _matches_query(definition, query, around)]
    if not targets and around:
        targets = _inherited_members(code, query, around)
    if query.line:
        inner = [
            target for target in targets if target.symbol.span.start_line <= query.line <= target.symbol.span.end_line
        ]
        innermost = max((target.symbol.span.start_line for target in inner), default=0)
        targets = [target for target in inner if target.symbol.span.start_line == innermost]
    return targets


def _matches_query(definition: StoredDefinition, query: SymbolQuery, around: Sequence[str]) -> bool:
    if query.kind is not None and definition.symbol.kind is not query.kind:
        return False
    if query.language and definition.language != query.language:
        return False
    if query.path and not is_below(definition.absolute, query.path):
        return False
    return not around or _containers(definition)[-len(around) :] == list(around)


def _containers(definition: StoredDefinition) -> list[str]:
    """Return the names around a definition: folders, file, classes."""
    file = os.path.splitext(definition.path)[0].removesuffix("/__init__")
    container = definition.symbol.container
    return [*file.split("/"), *(container.split(".") if container else [])]


def _inherited_members(code: CodeView, query: SymbolQuery, around: Sequence[str]) -> list[StoredDefinition]:
    types = TypeResolver(code)
    container_query = SymbolQuery(around[-1], ".".join(around[:-1]), query.path, language=query.language)
    members: dict[DefinitionKey, StoredDefinition] = {}
    for target in find_targets(code, container_query):
        classes: ResolvedDefinitions = None
        if target.symbol.kind in CLASSES:
            classes = (target,)
        elif not target.symbol.container:
            classes = types.resolve_type(target.symbol.name, NameScope(target.path, target.language, None))
        members |= {definition_key(member): member for member in types.member_definitions(classes, query.name)}
    return list(members.values())


def sort_by_distance(definitions: Sequence[StoredDefinition], near: str) -> list[StoredDefinition]:
    """Sort definitions by their distance from a path: same file, same folder, same package, the rest; tests last."""
    return sorted(
        definitions,
        key=lambda definition: (
            _path_distance(definition.absolute, near),
            _TEST_PATH.search(definition.path) is not None,
            _KIND_ORDER[definition.symbol.kind],
            definition.root,
            definition.path,
            definition.symbol.name_line,
        ),
    )


def _path_distance(path: str, near: str) -> int:
    if path == near:
        return 0
    folder = os.path.dirname(path)
    if folder in (near, os.path.dirname(near)):
        return 1
    common = os.path.commonpath([folder, near]) if near else "/"
    return 2 if common == near else 2 + len(near.split("/")) - len(common.split("/"))


def find_external_uses(code: CodeView, name: str, container: str) -> Iterator[tuple[StoredUse, Certainty]]:
    """Yield the uses of a name that no file defines, such as `json.loads`: exact if it comes from the given module."""
    types = TypeResolver(code)
    query = [part for part in _PART_SEPARATORS.split(container) if part]
    for used in code.uses(name):
        if used.use.local:
            continue
        if not query:
            yield used, Certainty.NAME
        elif any(_module_ends_with(module, query) for module in _used_modules(types, code, used)):
            yield used, Certainty.EXACT


def _used_modules(types: TypeResolver, code: CodeView, used: StoredUse) -> list[str]:
    """Return the modules that a used name may come from."""
    use = used.use
    if use.kind is UseKind.IMPORT:
        return [use.receiver]
    if use.receiver:
        receiver = re.split("[=:~*]", use.receiver, maxsplit=1)[0]
        return types.modules(receiver, NameScope(used.path, used.language, used.enclosing)) or [receiver]
    return [statement.module for statement in code.imported_as(used.path, use.name)]


def _module_ends_with(module: str, query: list[str]) -> bool:
    return [part for part in _PART_SEPARATORS.split(module) if part][-len(query) :] == query
