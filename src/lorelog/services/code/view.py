"""Cached view of the code of one working tree, and the rules by which an import names a file of it.

Modules are matched by the question "does this import, in this file, mean that file?" instead of "which file does it
mean?": the caller always has candidate definitions, so the search paths of each compiler need not be known. Python
modules and relative paths match exactly. Elsewhere a module is compared with the end of the path.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from msgspec import Struct

from lorelog.code.names import name_parts
from lorelog.code.tables import CodeTables, StoredDefinition, StoredImport, StoredUse
from lorelog.core.code import ImportStatement, Symbol, SymbolKind
from lorelog.core.ports import group_by

FileExists = Callable[[str], bool]
"""Takes a path relative to the root."""
DefinitionKey = tuple[str, int]
"""A definition's path and its ordinal among the symbols of the file."""
ResolvedDefinitions = tuple[StoredDefinition, ...] | None
"""Definitions; empty for something defined outside of the working tree, None for unknown."""
CachedValue = TypeVar("CachedValue")

CLASSES = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.ENUM, SymbolKind.TYPE})
FUNCTIONS = frozenset({SymbolKind.FUNCTION, SymbolKind.METHOD})
VARIABLES = frozenset({SymbolKind.VARIABLE, SymbolKind.CONSTANT})
SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
IMPORT_SCOPED = frozenset({"python", "rust", *SCRIPTS})
"""Languages in which a file sees only its own names and those it imports by name."""
_SCRIPT_ENDING = re.compile(r"(?:\.d)?\.(?:[cm]?[jt]sx?|vue|svelte|json)$")
_FOLDER_LANGUAGES = frozenset({"go"})
"""Languages in which a module is a folder."""
_HEADER_LANGUAGES = frozenset({"c", "cpp"})
_FOLDER_MODULES = frozenset({"__init__", "index", "mod", "lib", "main"})
_ANY_MODULE = "*"
"""Key for imports of languages in which the last part of a module does not identify the file."""
_MAX_EXPORT_SITES = 5_000
"""Generated packages may re-export a definition without end."""


def is_module_file(importer: str, module: str, file: str, language: str, exists: FileExists) -> bool:
    """Return True if `module`, imported by `importer`, is `file`. Paths are relative to the root, with slashes."""
    if language == "python":
        return _is_python_module(importer, module, file, exists)
    if language in SCRIPTS:
        return _is_script_module(importer, module, file)
    if language in _HEADER_LANGUAGES:
        included = posixpath.normpath(module).split("/")
        return posixpath.normpath(file).split("/")[-len(included) :] == included
    if language in _FOLDER_LANGUAGES:
        return _is_folder_module(module, posixpath.dirname(file))
    return _matches_path_end(importer, module, file)


@cache
def _python_parts(path: str) -> tuple[str, ...]:
    parts = re.sub(r"\.(?:pyi?|pyx|pyw)$", "", path).split("/")
    return tuple(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_python_module(importer: str, module: str, file: str, exists: FileExists) -> bool:
    parts = _python_parts(file)
    rest = module.lstrip(".")
    module_parts = tuple(rest.split(".")) if rest else ()
    up = len(module) - len(rest)
    if up:
        folder = posixpath.dirname(importer)
        for _ in range(up - 1):
            if not folder:
                return False
            folder = posixpath.dirname(folder)
        return parts == (*filter(None, folder.split("/")), *module_parts)
    if parts[-len(module_parts) :] != module_parts:
        return False
    above = parts[: -len(module_parts)]
    # Module names start at a folder that is not a package; a script also imports from its own folder.
    return not above or "/".join(above) == posixpath.dirname(importer) or not exists("/".join([*above, "__init__.py"]))


def _is_script_module(importer: str, module: str, file: str) -> bool:
    bare = _SCRIPT_ENDING.sub("", file)
    names = {bare, bare.removesuffix("/index")} if bare.endswith("/index") else {bare}
    if bare == "index":
        names.add("")
    if module.startswith("."):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))
        target = "" if target == "." else target
        return target in names or _SCRIPT_ENDING.sub("", target) in names
    target = _SCRIPT_ENDING.sub("", re.sub(r"^[@~]/", "", module)).strip("/")
    if any(name == target or name.endswith(f"/{target}") for name in names):
        return "/" in target or any(name == target for name in names) or bare.endswith("/index")
    return any(name.endswith((f"{target}/src/index", f"{target}/src")) for name in names)


def _is_folder_module(module: str, folder: str) -> bool:
    target, parts = module.split("/"), folder.split("/") if folder else []
    if not parts:
        return False
    common = min(len(target), len(parts))
    return target[-common:] == parts[-common:] and (common == len(parts) or common >= 2)


def _matches_path_end(importer: str, module: str, file: str) -> bool:
    """Match a module with the end of a path: `crate::a::b` is `src/a/b.rs`, `com.foo` is in `com/foo/Bar.java`."""
    if module.startswith(("./", "../")):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))
        return file == target or posixpath.splitext(file)[0] == posixpath.splitext(target)[0]
    parts = posixpath.splitext(file)[0].split("/")
    module_parts = [part for part in name_parts(module) if part not in {"crate", "self", "super"}]
    if not module_parts:  # the enclosing module, or the crate itself
        return module.startswith(("self", "super")) or parts[-1] in _FOLDER_MODULES
    count = len(module_parts)
    if parts[-1] in _FOLDER_MODULES and parts[-1 - count : -1] == module_parts:
        return True
    return parts[-count:] == module_parts or parts[-1 - count : -1] == module_parts or parts[-1] == module_parts[-1]


class NameScope(Struct, frozen=True):
    """The place in which a name is resolved."""

    path: str
    language: str
    around: Symbol | None
    """The innermost enclosing definition."""


class ModuleReceiver(Struct, frozen=True):
    """A receiver that is a module, with its possible names; it may be a third-party module."""

    names: tuple[str, ...]


class CodeView:
    """The definitions, uses and imports of one working tree; each query runs once."""

    def __init__(self, tables: CodeTables, root: str) -> None:
        self._tables = tables
        self._roots = (root,)
        self.root = root
        self._cache: dict[tuple[object, ...], object] = {}

    def cached(
        self, key: tuple[object, ...], make: Callable[[], CachedValue], meanwhile: CachedValue | None = None
    ) -> CachedValue:
        """Return the value that `make` returned for a key at first; while it runs, the value is `meanwhile`."""
        if key not in self._cache:
            self._cache[key] = meanwhile
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[return-value]

    def definitions(self, name: str) -> list[StoredDefinition]:
        return self.cached(("definitions", name), lambda: self._tables.definitions(name, self._roots))

    def defined_at(self, name: str, path: str) -> list[StoredDefinition]:
        by_path = self.cached(
            ("by path", name), lambda: group_by(self.definitions(name), lambda definition: definition.path)
        )
        return by_path.get(path, [])

    def symbols(self, path: str) -> list[StoredDefinition]:
        return self.cached(("symbols", path), lambda: self._tables.definitions_in(self.root, path))

    def uses(self, name: str) -> list[StoredUse]:
        return self.cached(("uses", name), lambda: self._tables.uses(name, self._roots))

    def uses_in(self, path: str) -> list[StoredUse]:
        return self.cached(("used in", path), lambda: self._tables.uses_in(self.root, path))

    def derived_from(self, name: str) -> list[StoredDefinition]:
        return self.cached(("derived", name), lambda: self._tables.derived_from(name, self._roots))

    def imports(self, path: str) -> list[ImportStatement]:
        return self.cached(("imports", path), lambda: self._tables.imports_of(self.root, path))

    def imported_as(self, path: str, name: str) -> list[ImportStatement]:
        by_name = self.cached(("bound", path), lambda: group_by(self.imports(path), bound_name))
        return by_name.get(name, [])

    def exists(self, path: str) -> bool:
        """Return True if a file is indexed."""
        return self.cached(("file", path), lambda: self._tables.file(self.root, path) is not None)

    def is_module_file(self, importer: str, module: str, file: str, language: str) -> bool:
        """Return True if a module, imported by a file, is another file."""
        return self.cached(
            ("denotes", importer, module, file), lambda: is_module_file(importer, module, file, language, self.exists)
        )

    def is_exported_by(
        self, definition: StoredDefinition, name: str, module: str, importer: str, language: str
    ) -> bool:
        """Return True if a module, imported by a file, exports a definition under a name."""
        if language != "python":
            paths = [path for path, called in self.export_sites(definition) if called == name]
        else:
            paths = self._sites_by_ending(definition).get((name, _last_module_part(module)), [])
        return any(self.is_module_file(importer, module, path, language) for path in paths)

    def _sites_by_ending(self, definition: StoredDefinition) -> dict[tuple[str, str], list[str]]:
        """Group export sites by name and last module part: of many files, few can be the one that a module names."""

        def make() -> dict[tuple[str, str], list[str]]:
            sites: dict[tuple[str, str], list[str]] = defaultdict(list)
            for path, name in self.export_sites(definition):
                for ending in _module_endings(path):
                    sites[name, ending].append(path)
            return sites

        return self.cached(("ends", definition.path, definition.ordinal), make)

    def export_sites(self, definition: StoredDefinition) -> frozenset[tuple[str, str]]:
        """Return the files with a definition at their top level, and its name there: its own file, and importers."""
        key = ("places", definition.path, definition.ordinal)
        return self.cached(key, lambda: frozenset(self._find_export_sites(definition)))

    def _find_export_sites(self, definition: StoredDefinition) -> set[tuple[str, str]]:
        first = (definition.path, definition.symbol.name)
        sites, pending = {first}, [first]
        while pending and len(sites) < _MAX_EXPORT_SITES:
            path, name = pending.pop()
            is_private = definition.language == "python" and name.startswith("_")  # `*` does not import it
            for imported in (name,) if is_private else (name, "*"):
                for importer in self._imports_of_name(imported, path):
                    site = (importer.path, importer.what.alias or name)
                    if site not in sites and self.is_module_file(
                        importer.path, importer.what.module, path, importer.language
                    ):
                        sites.add(site)
                        pending.append(site)
        return sites

    def _imports_of_name(self, name: str, path: str) -> list[StoredImport]:
        """Return the imports of a name that may mean a file, by the last part of the module."""

        def ending_of(stored: StoredImport) -> str:
            return _last_module_part(stored.what.module) if stored.language == "python" else _ANY_MODULE

        by_ending = self.cached(
            ("taken", name), lambda: group_by(self._tables.importers_of_name(name, self._roots), ending_of)
        )
        return [stored for ending in (*_module_endings(path), _ANY_MODULE) for stored in by_ending.get(ending, ())]


def definition_key(definition: StoredDefinition) -> DefinitionKey:
    """Return the key that identifies a definition in its working tree."""
    return definition.path, definition.ordinal


def bound_name(statement: ImportStatement) -> str:
    """Return the name that an import binds: `import a.b` binds `a`, `import a.b as c` binds `c`."""
    if statement.alias or statement.name:
        return statement.alias or statement.name
    module = statement.module.rstrip("/")
    if "/" in module:
        return module.rpartition("/")[2]
    return module.partition("::")[0].partition(".")[0]


def scope_chain(symbol: Symbol | None) -> list[str]:
    """Return the qualified names of the enclosing scopes, innermost first; the last is the file's top level, empty."""
    if symbol is None:
        return [""]
    parts = symbol.qualified_name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), -1, -1)]


def _last_module_part(module: str) -> str:
    """Return the last part of a Python module's name; empty for `.` and `..`."""
    return module.rpartition(".")[2]


def _module_endings(path: str) -> tuple[str, ...]:
    """Return the possible last parts of a Python file's module: its stem, or for a package its folder and none."""
    folder, _, file = path.rpartition("/")
    stem = file.partition(".")[0]
    return (folder.rpartition("/")[2], "") if stem == "__init__" else (stem,)
