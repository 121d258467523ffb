"""The code of one working tree, as one question looks at it: each thing is asked for once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from lorelog.code.tables import CodeTables, Defined, Imported, Used
from lorelog.core.code import Import, Symbol, SymbolKind
from lorelog.services.code.modules import denotes

Key = tuple[str, int]
"""A definition: its file, and its place among the symbols there."""
Meant = tuple[Defined, ...] | None
"""Definitions; empty for something that is not ours, None for what is not known."""
Kept = TypeVar("Kept")

CLASSES = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.ENUM, SymbolKind.TYPE})
FUNCTIONS = frozenset({SymbolKind.FUNCTION, SymbolKind.METHOD})
VARIABLES = frozenset({SymbolKind.VARIABLE, SymbolKind.CONSTANT})
SCRIPTS = ("javascript", "typescript", "tsx")
BY_IMPORT = frozenset({"python", "rust", *SCRIPTS})
"""Languages in which a file's names are its own and those that it imports by name."""
_ANY = "*"
"""For modules of languages in which the end of a name does not tell."""
_MOST_PLACES = 5_000
"""Where a definition is known under some name; a generated package may hand one on without end."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a name is looked at."""

    path: str
    language: str
    around: Symbol | None
    """The innermost definition around it."""


@dataclass(frozen=True, slots=True)
class Modules:
    """A receiver that is a module, by the names that it may have: whether that is a file of ours, files tell."""

    names: tuple[str, ...]


class Sources:
    """What is in the code of one working tree, and which names stand for which definitions at the top of its files."""

    def __init__(self, tables: CodeTables, root: str) -> None:
        self._tables = tables
        self._roots = (root,)
        self.root = root
        self._kept: dict[tuple[object, ...], object] = {}

    def _keep(self, key: tuple[object, ...], make: Callable[[], Kept]) -> Kept:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]

    def definitions(self, name: str) -> list[Defined]:
        """Return all definitions of a name."""
        return self._keep(("definitions", name), lambda: self._tables.definitions(name, self._roots))

    def defined_at(self, name: str, path: str) -> list[Defined]:
        """Return the definitions of a name in a file."""
        by_path = self._keep(("by path", name), lambda: _by_path(self.definitions(name)))
        return by_path.get(path, [])

    def symbols(self, path: str) -> list[Defined]:
        """Return what a file defines."""
        return self._keep(("symbols", path), lambda: self._tables.defined_in(self.root, path))

    def uses(self, name: str) -> list[Used]:
        """Return where a name is used."""
        return self._keep(("uses", name), lambda: self._tables.uses(name, self._roots))

    def imports(self, path: str) -> list[Import]:
        """Return what a file imports."""
        return self._keep(("imports", path), lambda: self._tables.imports_of(self.root, path))

    def imported_as(self, path: str, name: str) -> list[Import]:
        """Return the imports of a file that give something the name."""
        by_name = self._keep(("bound", path), lambda: _by_bound(self.imports(path)))
        return by_name.get(name, [])

    def importers_of(self, name: str) -> list[Imported]:
        """Return imports that take a name out of a module."""
        return self._keep(("importers", name), lambda: self._tables.importers_of(name, self._roots))

    def classes_below(self, name: str) -> list[Defined]:
        """Return classes one of whose bases is called so."""
        return self._keep(("below", name), lambda: self._tables.classes_below(name, self._roots))

    def exists(self, path: str) -> bool:
        """Say whether there is a file."""
        return self._keep(("file", path), lambda: self._tables.file(self.root, path) is not None)

    def denotes(self, importer: str, module: str, file: str, language: str) -> bool:
        """Say whether a module that a file names is another file."""
        return self._keep(
            ("denotes", importer, module, file),
            lambda: denotes(importer, module, file, language, self.exists),
        )

    def is_known_in(self, definition: Defined, name: str, module: str, importer: str, language: str) -> bool:
        """Say whether a definition is known under a name at the top of a module that a file names."""
        if language != "python":
            paths = [path for path, called in self.places(definition) if called == name]
        else:
            paths = self._ends(definition).get((name, _end_of(module)), [])
        return any(self.denotes(importer, module, path, language) for path in paths)

    def _ends(self, definition: Defined) -> dict[tuple[str, str], list[str]]:
        """Return the places of a definition by name and end: few of many files can be the one that a module names."""

        def make() -> dict[tuple[str, str], list[str]]:
            found: dict[tuple[str, str], list[str]] = defaultdict(list)
            for path, called in self.places(definition):
                for end in _ends_of(path):
                    found[called, end].append(path)
            return found

        return self._keep(("ends", definition.path, definition.ordinal), make)

    def places(self, definition: Defined) -> frozenset[tuple[str, str]]:
        """Return the files at the top of which a definition is known, each with its name there: its own, and who imports it."""
        key = ("places", definition.path, definition.ordinal)
        return self._keep(key, lambda: frozenset(self._find_places(definition)))

    def _find_places(self, definition: Defined) -> set[tuple[str, str]]:
        name, language = definition.symbol.name, definition.language
        found = {(definition.path, name)}
        waiting = [(definition.path, name)]
        while waiting and len(found) < _MOST_PLACES:
            path, called = waiting.pop()
            for one in self._takers(path, called, language):
                if one not in found:
                    found.add(one)
                    waiting.append(one)
        return found

    def _takers(self, path: str, name: str, language: str) -> Iterator[tuple[str, str]]:
        """Yield who takes a name out of a file, and what they call it."""
        for taker in self._taken(name, path):
            if self.denotes(taker.path, taker.what.module, path, taker.language):
                yield taker.path, taker.what.alias or name
        if language == "python" and name.startswith("_"):
            return  # `*` leaves those out
        for taker in self._taken("*", path):
            if self.denotes(taker.path, taker.what.module, path, taker.language):
                yield taker.path, name

    def _taken(self, name: str, path: str) -> list[Imported]:
        """Return the imports of a name whose modules may be a file, by the ends of both."""

        def make() -> dict[str, list[Imported]]:
            found: dict[str, list[Imported]] = defaultdict(list)
            for one in self.importers_of(name):
                found[_end_of(one.what.module) if one.language == "python" else _ANY].append(one)
            return found

        by_end = self._keep(("taken", name), make)
        return [one for end in (*_ends_of(path), _ANY) for one in by_end.get(end, ())]


def key_of(definition: Defined) -> Key:
    """Return what tells a definition from all others of its working tree."""
    return definition.path, definition.ordinal


def bound_name(one: Import, language: str = "") -> str:
    """Return the name that an import gives to what it brings: `import a.b` gives `a`, `import a.b as c` gives `c`."""
    if one.alias:
        return one.alias
    if one.name:
        return one.name
    module = one.module.rstrip("/")
    if "/" in module:
        return module.rpartition("/")[2]
    return module.partition("::")[0].partition(".")[0]


def levels(symbol: Symbol | None) -> list[str]:
    """Return the scopes around a place, innermost first: full names of the definitions around it, and the file's top, empty."""
    if symbol is None:
        return [""]
    parts = symbol.qualified.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), -1, -1)]


def _end_of(module: str) -> str:
    """Return the last part of a Python module's name; empty for `.` and `..`, which are packages."""
    return module.rpartition(".")[2]


def _ends_of(path: str) -> tuple[str, ...]:
    """Return the ends that modules have which are a Python file: its name, or its folder's and none for a package."""
    folder, _, file = path.rpartition("/")
    stem = file.partition(".")[0]
    return (folder.rpartition("/")[2], "") if stem == "__init__" else (stem,)


def _by_path(found: list[Defined]) -> dict[str, list[Defined]]:
    by_path: dict[str, list[Defined]] = defaultdict(list)
    for one in found:
        by_path[one.path].append(one)
    return by_path


def _by_bound(found: list[Import]) -> dict[str, list[Import]]:
    by_name: dict[str, list[Import]] = defaultdict(list)
    for one in found:
        by_name[bound_name(one)].append(one)
    return by_name
