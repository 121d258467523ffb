"""Answer questions about code: definitions, references, callers, imports, outlines and name search.

Results are sorted nearest first. Questions are answered from the current working tree; if that is not indexed, from
another worktree of the same project, with a note.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import Struct

from lorelog.code.names import name_parts
from lorelog.code.tables import CodeRoot, CodeTables, StoredDefinition, StoredImport, StoredUse
from lorelog.core.code import Certainty, CodeVerb, Symbol, SymbolKind, UseKind
from lorelog.core.code_reply import (
    CallerInfo,
    CodeReply,
    DefinitionInfo,
    FileOutlineInfo,
    ImportInfo,
    ReferenceInfo,
    SymbolInfo,
)
from lorelog.core.errors import NotFound
from lorelog.core.paths import is_below
from lorelog.services.code import CodeScope
from lorelog.services.code.receiver_types import TypeResolver, split_hint
from lorelog.services.code.references import ReferenceResolver
from lorelog.services.code.view import (
    CLASSES,
    FUNCTIONS,
    CodeView,
    DefinitionKey,
    NameScope,
    ResolvedDefinitions,
    definition_key,
)

_FILE_SUFFIX = re.compile(r"\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|rb|php|kt|swift|scala|cs|lua|sh)$")
_FOLDER_FILES = ("__init__", "index", "mod")
_KIND_ORDER = {kind: number for number, kind in enumerate(SymbolKind)}
"""Functions before methods, methods before classes."""
_TEST_PATH = re.compile(r"(?:^|/)(?:tests?|__tests__|spec|testing)/|(?:^|/)test_[^/]*$|[._]test\.[^/]*$|_spec\.[^/]*$")


def find_importers(tables: CodeTables, root: str, module: str) -> list[StoredImport]:
    """Return the imports of a module, or of a name from a module, best matches first.

    `module` is a module name or the path of its file.
    """
    query = _module_parts(module)
    if "/" in module and query and query[-1] in _FOLDER_FILES:
        query.pop()
    if not query:
        return []
    stem = _FILE_SUFFIX.sub("", module.strip("/")) if "/" in module else module
    asked = dict.fromkeys((module, stem, query[-1]))
    candidates = [stored for name in asked for stored in tables.importers(name, [root])]
    candidates += tables.importers_of_name(query[-1], [root])
    ranked = [
        (rank, stored) for stored in dict.fromkeys(candidates) if (rank := _import_rank(stored, module, query)) >= 0
    ]
    ranked.sort(key=lambda pair: (pair[0], pair[1].path, pair[1].what.line, pair[1].what.column))
    return [stored for _, stored in ranked]


def _module_parts(module: str) -> list[str]:
    """Split a module's name or a file's path into its parts, without the file suffix."""
    text = _FILE_SUFFIX.sub("", module.strip("/ ")) if "/" in module else module.strip()
    return [part for part in name_parts(text) if part != "@"]


def _import_rank(stored: StoredImport, module: str, query: list[str]) -> int:
    """Return 0 for the module itself, 1 for its submodules and names, 2 if the names end alike, -1 for no match."""
    imported, name = stored.what.module, stored.what.name
    if imported == module:
        return 0
    folder = posixpath.dirname(stored.path)
    if stored.language == "python" and imported.startswith("."):  # relative: resolved from the root
        rest = imported.lstrip(".")
        for _ in range(len(imported) - len(rest) - 1):
            folder = posixpath.dirname(folder)
        parts = [part for part in [*folder.split("/"), *rest.split(".")] if part]
    elif imported.startswith(("./", "../")) or imported in {".", ".."}:
        parts = _module_parts(posixpath.normpath(posixpath.join(folder, imported)).removeprefix(".") + "/")
    else:
        parts = _module_parts(imported)
    if parts[: len(query)] == query:
        return 1
    names = [parts, [*parts, name]] if name and name != "*" else [parts]
    # Either name may start higher up: `src/app/core.py` is imported as `app.core`.
    ends = any(named[-len(query) :] == query or (len(named) > 1 and query[-len(named) :] == named) for named in names)
    return 2 if ends else -1


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
        return f"{self.container}.{self.name}" if self.container else self.name


def parse_name(text: str, container: str = "") -> tuple[str, str]:
    """Split `Engine.search`, `std::vector`, `Array#map` or `parse()` into the name and its container."""
    parts = name_parts(text.strip().strip("`'\"").removesuffix("()"))
    name = parts.pop() if parts else text.strip()
    return name, ".".join([*name_parts(container), *parts])


def find_targets(code: CodeView, query: SymbolQuery) -> list[StoredDefinition]:
    """Return the definitions that a query means; for a member of a class also an inherited one."""
    around = query.container.split(".") if query.container else []

    def matches(definition: StoredDefinition) -> bool:
        if query.kind not in (None, definition.symbol.kind) or query.language not in ("", definition.language):
            return False
        if not _is_at_or_below(definition.absolute, query.path):
            return False
        file = os.path.splitext(definition.path)[0].removesuffix("/__init__")
        containers = [*file.split("/"), *filter(None, definition.symbol.container.split("."))]
        return not around or containers[-len(around) :] == around

    targets = list(filter(matches, code.definitions(query.name)))
    if not targets and around:
        targets = _inherited_members(code, query, around)
    if query.line:
        spans = [target.symbol.span for target in targets]
        innermost = max(
            (span.start_line for span in spans if span.start_line <= query.line <= span.end_line), default=0
        )
        targets = [target for target in targets if target.symbol.span.start_line == innermost]
    return targets


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
    folder = os.path.dirname(path)
    if path == near or folder in (near, os.path.dirname(near)):
        return int(path != near)
    common = os.path.commonpath([folder, near]) if near else "/"
    return 2 if common == near else 2 + len(near.split("/")) - len(common.split("/"))


def find_external_uses(code: CodeView, name: str, container: str) -> Iterator[tuple[StoredUse, Certainty]]:
    """Yield the uses of a name that no file defines, such as `json.loads`: exact if it comes from the given module."""
    types = TypeResolver(code)
    query = name_parts(container)
    for used in code.uses(name):
        use = used.use
        if use.local:
            continue
        modules = [statement.module for statement in code.imported_as(used.path, use.name)]
        if use.kind is UseKind.IMPORT:
            modules = [use.receiver]
        elif use.receiver:
            receiver = split_hint(use.receiver)[0]
            modules = types.modules(receiver, NameScope(used.path, used.language, used.enclosing)) or [receiver]
        if not query:
            yield used, Certainty.NAME
        elif any(name_parts(module)[-len(query) :] == query for module in modules):
            yield used, Certainty.EXACT


_MAX_FILE_BYTES = 4 << 20
_MAX_LINE_CHARS = 200
_CERTAINTY_RANK = {Certainty.EXACT: 0, Certainty.LIKELY: 1, Certainty.NAME: 2}
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "constructor", "initialize", "init")
_MAX_FOLLOWED = 300
"""Callers whose own callers are looked for, at each depth."""
_MAX_OUTLINE_DEPTH = 40
_NOT_INDEXED = "no code is indexed here; run 'lorelog code index' in the working tree"

_RankedUse = tuple[StoredUse, Certainty]
_Call = tuple[StoredUse, Certainty, str, list[StoredDefinition]]
"""A call, the name of the callee, and for a question about callees the callee."""


class CodeQueryOptions(Struct, frozen=True):
    """Limits and filters of a query."""

    limit: int = 100
    certainty: Certainty = Certainty.LIKELY
    uses: frozenset[UseKind] = frozenset()
    """Kinds of uses to return; all if empty."""
    below: str = ""
    """Absolute path that a use must be at or below."""


class LineReader:
    """Reads the lines that results point at, each file once.

    The index may be older than its files: if the name is no longer in the line, the text is left out and the file is
    noted.
    """

    def __init__(self) -> None:
        self._lines_by_path: dict[str, list[str]] = {}
        self._changed: set[str] = set()

    def at(self, place: StoredUse | StoredImport, line: int, name: str = "") -> str:
        """Return a stripped line; empty if the file is missing, too large, or no longer has the name there."""
        if place.absolute not in self._lines_by_path:
            content = b""
            with suppress(OSError), open(place.absolute, "rb") as file:
                content = file.read(_MAX_FILE_BYTES + 1)
            lines = content.decode("utf-8", "replace").split("\n") if len(content) <= _MAX_FILE_BYTES else []
            self._lines_by_path[place.absolute] = lines
        text = "".join(self._lines_by_path[place.absolute][line - 1 : line])
        if name and name not in text:
            self._changed.add(place.path)
            return ""
        text = text.strip()
        return text if len(text) <= _MAX_LINE_CHARS else text[: _MAX_LINE_CHARS - 1] + "…"

    def notes(self) -> list[str]:
        """Return a note if files changed since they were indexed."""
        if not self._changed:
            return []
        others = len(self._changed) - 1
        more = f" and {others} more" if others else ""
        return [f"{min(self._changed)}{more} changed since the last index run; run 'lorelog code index'"]


class CodeNavigator:
    """Answers from one working tree. Results are sorted by their distance from `near`, an absolute path."""

    def __init__(self, scope: CodeScope, near: str = "") -> None:
        self._tables: CodeTables = scope.tables
        self._near = near or scope.root
        self._roots, self._notes = _searched_roots(scope)
        self._resolvers: dict[str, tuple[CodeView, ReferenceResolver]] = {}

    def find_definition(self, query: SymbolQuery, limit: int = 100, *, implementors: bool = False) -> CodeReply:
        """Find the definitions of a symbol, or the subclasses, implementations and overriding members of it."""
        targets = self._targets(query)
        notes = [] if targets or not self._roots else self._similar_name_notes(query)
        if implementors:
            below = (
                found for each in targets for found in TypeResolver(self._resolver(each.root)[0]).implementors(each)
            )
            targets = list({(found.root, *definition_key(found)): found for found in below}.values())
        return CodeReply(
            verb=CodeVerb.DEFINITION,
            about=query.qualified_name,
            definitions=_definitions(targets[:limit]),
            total=len(targets),
            notes=(*self._notes, *notes),
        )

    def find_references(self, query: SymbolQuery, options: CodeQueryOptions) -> CodeReply:
        targets = self._targets(query)
        uses = [
            (used, certainty)
            for used, certainty in self._uses(query, targets)
            if (not options.uses or used.use.kind in options.uses) and _is_at_or_below(used.absolute, options.below)
        ]
        kept, doubtful = _filter_by_certainty(uses, options, is_defined=bool(targets))
        kept.sort(key=lambda ranked: _sort_key(ranked, targets))
        lines = LineReader()
        references = tuple(_reference(used, certainty, lines) for used, certainty in kept[: options.limit])
        notes = self._undefined_notes(query, has_uses=bool(kept)) if not targets else []
        return CodeReply(
            verb=CodeVerb.REFERENCES,
            about=query.qualified_name,
            definitions=_definitions(targets),
            references=references,
            total=len(kept),
            doubtful=doubtful,
            notes=(*self._notes, *notes, *lines.notes()),
        )

    def find_callers(
        self, query: SymbolQuery, options: CodeQueryOptions, depth: int = 1, *, callees: bool = False
    ) -> CodeReply:
        """Find the callers of a symbol, and with a greater depth the callers of those; or what it calls, in its order."""
        targets = self._targets(query)
        seen = {(target.root, *definition_key(target)): target for target in targets}
        calls: list[tuple[StoredUse, Certainty, str, int]] = []
        doubtful = 0
        level: list[list[StoredDefinition]] = [targets]
        for step in range(1, depth + 1):
            following: list[list[StoredDefinition]] = []
            for group in level[:_MAX_FOLLOWED]:
                found = self._calls_in(group) if callees else self._calls_of(query, group)
                kept, left_out = _filter_by_certainty(list(found), options, is_defined=bool(targets))
                doubtful += left_out if step == 1 else 0
                if not callees:
                    kept.sort(key=lambda call: _sort_key(call[:2], group))
                for used, certainty, callee, called in kept:
                    if _is_at_or_below(used.absolute, options.below):
                        calls.append((used, certainty, callee, step))
                    for other in called or self._enclosing_function(used):
                        key = (other.root, *definition_key(other))
                        if key not in seen:
                            seen[key] = other
                            following.append([other])
            level = following
        lines = LineReader()
        notes = self._undefined_notes(query, has_uses=bool(calls)) if not targets else []
        definitions = list(seen.values())[len(targets) :] if callees else targets
        return CodeReply(
            verb=CodeVerb.CALLEES if callees else CodeVerb.CALLERS,
            about=query.qualified_name,
            definitions=_definitions(definitions[: options.limit] if callees else definitions),
            callers=tuple(_caller(*found, lines) for found in calls[: options.limit]),
            total=len(definitions) if callees else len(calls),
            doubtful=doubtful,
            notes=(*self._notes, *notes, *lines.notes()),
        )

    def _calls_of(self, query: SymbolQuery, definitions: list[StoredDefinition]) -> list[_Call]:
        """Return the calls of definitions."""
        names = {definition.symbol.qualified_name for definition in definitions}
        callee = names.pop() if len(names) == 1 else query.qualified_name
        uses = self._uses(query, [*definitions, *self._constructed_classes(definitions)])
        return [(used, certainty, callee, []) for used, certainty in uses if used.use.kind is UseKind.CALL]

    def _calls_in(self, callers: list[StoredDefinition]) -> Iterator[_Call]:
        """Yield the uses of functions, methods and created classes inside definitions."""
        for caller in callers if callers and callers[0].symbol.kind in FUNCTIONS | CLASSES else ():
            code, resolver = self._resolver(caller.root)
            for used in code.uses_in(caller.path):
                kinds = FUNCTIONS | CLASSES if used.use.kind is UseKind.CALL else FUNCTIONS
                # A function that is read is passed on, or a property.
                is_call = used.use.kind in (UseKind.CALL, UseKind.READ) and _is_inside(used, caller)
                for callee, certainty in resolver.definitions_of(used) if is_call else ():
                    if callee.symbol.kind in kinds:
                        yield used, certainty, callee.symbol.qualified_name, [callee]

    def find_imports(self, module: str, options: CodeQueryOptions) -> CodeReply:
        importers = [
            importer
            for root in self._roots
            for importer in find_importers(self._tables, root.path, module)
            if _is_at_or_below(importer.absolute, options.below)
        ]
        lines = LineReader()
        imports = tuple(_import(importer, lines) for importer in importers[: options.limit])
        notes = (*self._notes, *lines.notes())
        return CodeReply(verb=CodeVerb.IMPORTS, about=module, imports=imports, total=len(importers), notes=notes)

    def outline(self, path: str, depth: int | None, limit: int = 100, *, unused: bool = False) -> CodeReply:
        """List the symbols of a file, or of the files of a folder. Raise NotFound if no code is indexed there.

        `path` is absolute. Without `depth`, a file is listed in full, and a folder with its top-level symbols. `unused` leaves only
        symbols that nothing may mean, and only files that have some.
        """
        for root in self._roots:
            relative = path[len(root.path.rstrip("/")) + 1 :]
            files = self._tables.files(root.path, relative) if is_below(path, root.path) else []
            if not files:
                continue
            is_file = len(files) == 1 and files[0].path == relative
            levels = depth or (_MAX_OUTLINE_DEPTH if is_file else 1)
            outlines = tuple(
                FileOutlineInfo(
                    file_path=file.absolute,
                    path=file.path,
                    language=file.language,
                    lines=file.lines,
                    symbols=tuple(
                        SymbolInfo(**_symbol_fields(stored.symbol))
                        for stored in self._resolver(file.root)[0].symbols(file.path)
                        if len(list(filter(None, stored.symbol.container.split(".")))) < levels
                        and not (unused and self._is_used(stored))
                    ),
                    broken=file.broken,
                    problem=file.problem,
                )
                for file in files[:limit]
            )
            if unused:
                outlines = tuple(outline for outline in outlines if outline.symbols)
            return CodeReply(verb=CodeVerb.OUTLINE, about=path, files=outlines, total=len(files), notes=self._notes)
        if not self._roots or os.path.isdir(path):
            return CodeReply(verb=CodeVerb.OUTLINE, about=path, total=0, notes=self._notes)
        raise NotFound(
            f"no code is indexed at {path}",
            hint="index it with 'lorelog code index', or find names with 'lorelog code search'",
        )

    def _is_used(self, definition: StoredDefinition) -> bool:
        """Return True if a use other than an import may mean a definition, or if the language itself uses it."""
        symbol = definition.symbol
        if symbol.kind is SymbolKind.MODULE or symbol.name in _CONSTRUCTORS or symbol.name.startswith("__"):
            return True
        return any(
            used.use.kind is not UseKind.IMPORT and not (used.path == definition.path and _is_inside(used, definition))
            for used, _ in self._resolver(definition.root)[1].references([definition])
        )

    def search(self, text: str, query: SymbolQuery, options: CodeQueryOptions) -> CodeReply:
        """Find symbols by a part of their name, or by a misspelling."""
        is_filtered = bool(query.kind or query.language or options.below)
        roots = [root.path for root in self._roots]
        matches = [
            match
            for match in self._tables.search_names(text, roots, options.limit * (20 if is_filtered else 1))
            if (not query.kind or match.symbol.kind == query.kind)
            and (not query.language or match.language == query.language)
            and _is_at_or_below(match.absolute, options.below)
        ]
        definitions = _definitions(matches[: options.limit])
        return CodeReply(
            verb=CodeVerb.SEARCH, about=text, definitions=definitions, total=len(matches), notes=self._notes
        )

    def _resolver(self, root: str) -> tuple[CodeView, ReferenceResolver]:
        if root not in self._resolvers:
            code = CodeView(self._tables, root)
            self._resolvers[root] = code, ReferenceResolver(code)
        return self._resolvers[root]

    def _targets(self, query: SymbolQuery) -> list[StoredDefinition]:
        targets = [target for root in self._roots for target in find_targets(self._resolver(root.path)[0], query)]
        return sort_by_distance(targets, self._near)

    def _uses(self, query: SymbolQuery, targets: Sequence[StoredDefinition]) -> Iterator[_RankedUse]:
        if not targets:
            for root in self._roots:
                yield from find_external_uses(self._resolver(root.path)[0], query.name, query.container)
            return
        for tree in dict.fromkeys(target.root for target in targets):
            _, resolver = self._resolver(tree)
            seen: set[tuple[str, int, int]] = set()
            for used, certainty in resolver.references([target for target in targets if target.root == tree]):
                position = (used.path, used.use.line, used.use.column)
                if position not in seen:
                    seen.add(position)
                    yield used, certainty

    def _enclosing_function(self, used: StoredUse) -> list[StoredDefinition]:
        around = used.enclosing
        if around is None or around.kind not in FUNCTIONS:
            return []
        code, _ = self._resolver(used.root)
        return [
            definition
            for definition in code.defined_at(around.name, used.path)
            if definition.symbol.span == around.span and definition.symbol.qualified_name == around.qualified_name
        ]

    def _constructed_classes(self, targets: Sequence[StoredDefinition]) -> list[StoredDefinition]:
        """Return the classes whose constructors are among some definitions: calling the class calls those."""
        return [
            cls
            for target in targets
            if target.symbol.container
            and target.symbol.name in {*_CONSTRUCTORS, target.symbol.container.rpartition(".")[2]}
            for cls in self._resolver(target.root)[0].defined_at(
                target.symbol.container.rpartition(".")[2], target.path
            )
            if cls.symbol.qualified_name == target.symbol.container and cls.symbol.kind in CLASSES
        ]

    def _undefined_notes(self, query: SymbolQuery, *, has_uses: bool) -> list[str]:
        if not self._roots:
            return []
        if has_uses:
            return [f"{query.qualified_name} is not defined in this code; these are uses of the name"]
        return self._similar_name_notes(query)

    def _similar_name_notes(self, query: SymbolQuery) -> list[str]:
        similar = self._tables.similar_names(query.name, [root.path for root in self._roots], 3)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        return [f"{query.qualified_name} is not defined in this code{hint}"]


def _searched_roots(scope: CodeScope) -> tuple[list[CodeRoot], tuple[str, ...]]:
    """Return the working trees to search, and notes about them."""
    if scope.all_projects:
        roots = scope.tables.roots()
        return roots, () if roots else (_NOT_INDEXED,)
    own = scope.tables.root(scope.root)
    if own is not None:
        return [own], () if own.indexed_at else ("the code is still being indexed; results are incomplete",)
    roots = scope.tables.roots()
    project = scope.workspace.project
    around = [root for root in roots if is_below(scope.root, root.path) or is_below(root.path, scope.root)]
    if around and not project.git:
        return around, ()
    others = [root for root in roots if root.project == project.id]
    if others:
        note = (
            f"this working tree is not indexed; results are from {others[0].path} (to index it: 'lorelog code index')"
        )
        return others[:1], (note,)
    return [], (_NOT_INDEXED,)


_Ranked = TypeVar("_Ranked", _RankedUse, _Call)


def _filter_by_certainty(
    uses: list[_Ranked], options: CodeQueryOptions, *, is_defined: bool
) -> tuple[list[_Ranked], int]:
    """Return the uses that are certain enough, and the number of the others.

    If the symbol is not defined here and no use is certain enough, all are returned.
    """
    max_rank = _CERTAINTY_RANK[options.certainty]
    kept = [ranked for ranked in uses if _CERTAINTY_RANK[ranked[1]] <= max_rank]
    return (kept, len(uses) - len(kept)) if kept or is_defined else (uses, 0)


def _is_inside(used: StoredUse, definition: StoredDefinition) -> bool:
    return definition.symbol.span[:2] <= (used.use.line, used.use.column) < definition.symbol.span[2:]


def _is_at_or_below(path: str, below: str) -> bool:
    return not below or is_below(path, below)


def _sort_key(ranked: _RankedUse, targets: Sequence[StoredDefinition]) -> tuple[int, int, str, str, int, int]:
    """Sort by certainty, then by distance: the file of a definition, its folder, its top-level folder, elsewhere."""
    used, certainty = ranked
    distance = 3
    for target in targets[:50]:
        if used.path == target.path:
            distance = 0
        elif posixpath.dirname(used.path) == posixpath.dirname(target.path):
            distance = min(distance, 1)
        elif used.path.partition("/")[0] == target.path.partition("/")[0]:
            distance = min(distance, 2)
    return _CERTAINTY_RANK[certainty], distance, used.root, used.path, used.use.line, used.use.column


def _symbol_fields(symbol: Symbol) -> dict[str, Any]:
    return {
        "name": symbol.name,
        "kind": symbol.kind.value,
        "container": symbol.container,
        "line_start": symbol.span.start_line,
        "line_end": symbol.span.end_line,
        "col_start": symbol.span.start_column,
        "col_end": symbol.span.end_column,
        "name_line": symbol.name_line,
        "name_col": symbol.name_column,
        "signature": symbol.signature,
        "docstring": symbol.docstring,
        "visibility": symbol.visibility,
    }


def _definitions(stored: Sequence[StoredDefinition]) -> tuple[DefinitionInfo, ...]:
    return tuple(
        DefinitionInfo(
            file_path=definition.absolute,
            path=definition.path,
            language=definition.language,
            **_symbol_fields(definition.symbol),
        )
        for definition in stored
    )


def _reference(used: StoredUse, certainty: Certainty, lines: LineReader) -> ReferenceInfo:
    use = used.use
    return ReferenceInfo(
        file_path=used.absolute,
        path=used.path,
        line=use.line,
        col=use.column,
        use=use.kind.value,
        name=use.name,
        container=used.enclosing.qualified_name if used.enclosing else "",
        certainty=certainty.value,
        text=lines.at(used, use.line, use.name),
    )


def _caller(used: StoredUse, certainty: Certainty, callee: str, depth: int, lines: LineReader) -> CallerInfo:
    around = used.enclosing
    return CallerInfo(
        caller_name=around.name if around else used.path.rpartition("/")[2],
        caller_file=used.absolute,
        caller_kind=(around.kind if around else SymbolKind.MODULE).value,
        caller_container=around.container if around else "",
        caller_line=around.span.start_line if around else 1,
        path=used.path,
        call_line=used.use.line,
        call_col=used.use.column,
        callee=callee,
        depth=depth,
        certainty=certainty.value,
        text=lines.at(used, used.use.line),
    )


def _import(stored: StoredImport, lines: LineReader) -> ImportInfo:
    statement = stored.what
    return ImportInfo(
        importing_file=stored.absolute,
        path=stored.path,
        import_line=statement.line,
        import_col=statement.column,
        module=statement.module,
        name=statement.name,
        alias=statement.alias,
        text=lines.at(stored, statement.line),
    )
