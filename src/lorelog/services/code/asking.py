"""Answers questions about code: where something is defined, used, called and imported, what a file holds, what is called like that.

Answers come nearest first. A working tree is asked about its own code; where it has none, that of another worktree of the
same project answers, and the answer says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lorelog.code.tables import CodeRoot, CodeTables, Defined, Used
from lorelog.core.code import SymbolKind, UseKind
from lorelog.core.code_answers import (
    Caller,
    Certainty,
    CodeReply,
    CodeVerb,
    Outlined,
    Reference,
    Spot,
)
from lorelog.core.errors import NotFound
from lorelog.core.paths import is_below
from lorelog.services.code.external import external_uses
from lorelog.services.code.finding import Wanted, find_targets, nearest_first, shown
from lorelog.services.code.importing import find_importers
from lorelog.services.code.lines import Lines
from lorelog.services.code.resolving import Resolver
from lorelog.services.code.sight import CodeSight
from lorelog.services.code.sources import CLASSES, FUNCTIONS, Sources, key_of

_RANK = {Certainty.EXACT: 0, Certainty.LIKELY: 1, Certainty.NAME: 2}
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "constructor", "initialize", "init")
_MOST_FOLLOWED = 300
"""Callers whose own callers are looked for, at each depth."""
_UNINDEXED = "no code is indexed here: 'lorelog code index' in the working tree"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is wanted of what is found."""

    limit: int = 100
    certainty: Certainty = Certainty.LIKELY
    uses: frozenset[UseKind] = frozenset()
    """Only these; all if empty."""
    below: str = ""
    """Absolute path that a use must be at or below."""


class CodeAsker:
    """Answers from one working tree, to somebody who stands at `near` (an absolute path; nearest first means near to it)."""

    def __init__(self, sight: CodeSight, near: str = "") -> None:
        self._tables: CodeTables = sight.tables
        self._near = near or sight.root
        self._roots, self._notes = _seen(sight)
        self._resolvers: dict[str, tuple[Sources, Resolver]] = {}

    @property
    def knows_code(self) -> bool:
        """Whether any code is known here."""
        return bool(self._roots)

    def find_definition(self, wanted: Wanted, limit: int = 100) -> CodeReply:
        """Find where a symbol is defined."""
        found = self._targets(wanted)
        notes = list(self._notes)
        if not found and self._roots:
            notes += self._alike(wanted)
        return CodeReply(CodeVerb.DEFINITION, wanted.said, shown(found[:limit]), total=len(found), notes=tuple(notes))

    def find_references(self, wanted: Wanted, bounds: Bounds) -> CodeReply:
        """Find where a symbol is used."""
        targets = self._targets(wanted)
        found = [
            (used, certainty)
            for used, certainty in self._uses(wanted, targets)
            if (not bounds.uses or used.use.kind in bounds.uses) and _admits(used.absolute, bounds.below)
        ]
        kept, doubtful = self._sure_enough(found, bounds, known=bool(targets))
        kept.sort(key=lambda one: (_RANK[one[1]], _distance(one[0], targets, self._near), _place(one[0])))
        lines = Lines(self._tables)
        references = tuple(_reference(used, certainty, lines) for used, certainty in kept[: bounds.limit])
        notes = [*self._notes, *self._said_of(wanted, targets, bool(kept)), *lines.notes()]
        return CodeReply(
            CodeVerb.REFERENCES,
            wanted.said,
            shown(targets),
            references,
            total=len(kept),
            doubtful=doubtful,
            notes=tuple(notes),
        )

    def find_callers(self, wanted: Wanted, bounds: Bounds, depth: int = 1) -> CodeReply:
        """Find who calls a symbol, and with a greater depth who calls those."""
        targets = self._targets(wanted)
        bounds = replace(bounds, uses=frozenset({UseKind.CALL}))
        lines = Lines(self._tables)
        seen = {(one.root, *key_of(one)) for one in targets}
        callers: list[Caller] = []
        doubtful = 0
        asked: list[tuple[str, list[Defined]]] = [(_called(wanted, targets), targets)]
        for step in range(1, depth + 1):
            following: list[tuple[str, list[Defined]]] = []
            for callee, group in asked[:_MOST_FOLLOWED]:
                whole = [*group, *self._constructed(group)]
                found = [pair for pair in self._uses(wanted, whole) if pair[0].use.kind is UseKind.CALL]
                kept, left = self._sure_enough(found, bounds, known=bool(targets))
                doubtful += left if step == 1 else 0
                kept.sort(key=lambda one: (_RANK[one[1]], _distance(one[0], group, self._near), _place(one[0])))
                for used, certainty in kept:
                    if _admits(used.absolute, bounds.below):
                        callers.append(_caller(used, certainty, callee, step, lines))
                    for one in self._defined_around(used):
                        if (one.root, *key_of(one)) not in seen:
                            seen.add((one.root, *key_of(one)))
                            following.append((one.symbol.qualified, [one]))
            asked = following
        shown_callers = tuple(replace(one, text=lines.at(one.spot, "")) for one in callers[: bounds.limit])
        notes = [*self._notes, *self._said_of(wanted, targets, bool(callers)), *lines.notes()]
        return CodeReply(
            CodeVerb.CALLERS,
            wanted.said,
            shown(targets),
            callers=shown_callers,
            total=len(callers),
            doubtful=doubtful,
            notes=tuple(notes),
        )

    def find_imports(self, module: str, bounds: Bounds) -> CodeReply:
        """Find who imports a module, or a name out of one."""
        found = [
            one
            for root in self._roots
            for one in find_importers(self._tables, root.path, module)
            if _admits(one.absolute, bounds.below)
        ]
        lines = Lines(self._tables)
        imports = tuple(lines.importing(one) for one in found[: bounds.limit])
        notes = [*self._notes, *lines.notes()]
        return CodeReply(CodeVerb.IMPORTS, module, imports=imports, total=len(found), notes=tuple(notes))

    def outline(self, path: str, depth: int | None, limit: int = 100) -> CodeReply:
        """List what a file defines, or the files of a folder. `path` is absolute. Raise NotFound where no code is known there."""
        for root in self._roots:
            if not is_below(path, root.path):
                continue
            inside = os.path.relpath(path, root.path)
            inside = "" if inside == "." else inside
            files = self._tables.files(root.path, inside)
            if not files:
                continue
            levels = depth or (40 if len(files) == 1 and files[0].path == inside else 1)
            outlined = tuple(
                Outlined(
                    one.root,
                    one.path,
                    one.language,
                    one.lines,
                    tuple(
                        symbol
                        for symbol in self._tables.symbols_of(root.path, one.path)
                        if _level(symbol.container) < levels
                    ),
                    one.broken,
                    one.problem,
                )
                for one in files[:limit]
            )
            return CodeReply(CodeVerb.OUTLINE, path, files=outlined, total=len(files), notes=tuple(self._notes))
        if not self._roots or os.path.isdir(path):  # noqa: PTH112
            return CodeReply(CodeVerb.OUTLINE, path, notes=tuple(self._notes))
        raise NotFound(
            f"no code is known at {path}", hint="'lorelog code index' reads it; 'lorelog code search' finds names"
        )

    def search(self, query: str, wanted: Wanted, bounds: Bounds) -> CodeReply:
        """Find symbols by a part of their name, its initials or a misspelling."""
        narrow = bool(wanted.kind or wanted.language or bounds.below)
        roots = [one.path for one in self._roots]
        found = [
            one
            for one, _ in self._tables.like(query, roots, bounds.limit * (20 if narrow else 1))
            if (not wanted.kind or one.symbol.kind == wanted.kind)
            and (not wanted.language or one.language == wanted.language)
            and _admits(one.absolute, bounds.below)
        ]
        return CodeReply(
            CodeVerb.SEARCH, query, shown(found[: bounds.limit]), total=len(found), notes=tuple(self._notes)
        )

    # -- inside -----------------------------------------------------------------------------------------------------

    def _resolver(self, root: str) -> tuple[Sources, Resolver]:
        if root not in self._resolvers:
            sources = Sources(self._tables, root)
            self._resolvers[root] = sources, Resolver(sources)
        return self._resolvers[root]

    def _targets(self, wanted: Wanted) -> list[Defined]:
        found = [one for root in self._roots for one in find_targets(self._resolver(root.path)[0], wanted)]
        return nearest_first(found, self._near)

    def _uses(self, wanted: Wanted, targets: Sequence[Defined]) -> Iterator[tuple[Used, Certainty]]:
        if not targets:
            for root in self._roots:
                yield from external_uses(self._resolver(root.path)[0], wanted.name, wanted.container)
            return
        for tree in dict.fromkeys(one.root for one in targets):
            _, resolver = self._resolver(tree)
            here = [one for one in targets if one.root == tree]
            seen: set[tuple[str, int, int]] = set()
            for used, certainty in resolver.references(here):
                place = (used.path, used.use.line, used.use.column)
                if place not in seen:
                    seen.add(place)
                    yield used, certainty

    @staticmethod
    def _sure_enough(
        found: Iterable[tuple[Used, Certainty]], bounds: Bounds, *, known: bool
    ) -> tuple[list[tuple[Used, Certainty]], int]:
        """Return the uses that are sure enough, and how many are not. Of something from elsewhere the name must do."""
        found = list(found)
        least = _RANK[bounds.certainty]
        if not known and not any(_RANK[certainty] <= least for _, certainty in found):
            return found, 0
        kept = [pair for pair in found if _RANK[pair[1]] <= least]
        return kept, len(found) - len(kept)

    def _defined_around(self, used: Used) -> list[Defined]:
        """Return the function around a use, as a definition."""
        if used.enclosing is None or used.enclosing.kind not in FUNCTIONS:
            return []
        sources, _ = self._resolver(used.root)
        return [
            one
            for one in sources.defined_at(used.enclosing.name, used.path)
            if one.symbol.span == used.enclosing.span and one.symbol.qualified == used.enclosing.qualified
        ]

    def _constructed(self, targets: Sequence[Defined]) -> list[Defined]:
        """Return the classes whose constructors are among some definitions: who calls the class calls those."""
        return [
            holder
            for one in targets
            if one.symbol.container and one.symbol.name in {*_CONSTRUCTORS, one.symbol.container.rpartition(".")[2]}
            for holder in self._resolver(one.root)[0].defined_at(one.symbol.container.rpartition(".")[2], one.path)
            if holder.symbol.qualified == one.symbol.container and holder.symbol.kind in CLASSES
        ]

    def _said_of(self, wanted: Wanted, targets: Sequence[Defined], found: bool) -> list[str]:  # noqa: FBT001
        if targets or not self._roots:
            return []
        if found:
            return [f"{wanted.said} is not defined in this code; these are uses of the name"]
        return self._alike(wanted)

    def _alike(self, wanted: Wanted) -> list[str]:
        """Say which names are like one that is not defined."""
        found = self._tables.like(wanted.name, [one.path for one in self._roots], 20)
        near = list(dict.fromkeys(one.symbol.name for one, value in found if value >= 0.6))[:3]
        return [f"{wanted.said} is not defined in this code" + (f"; {' or '.join(near)} is" if near else "")]


def _seen(sight: CodeSight) -> tuple[list[CodeRoot], tuple[str, ...]]:
    """Return the working trees that are asked, and what is to be said about them."""
    if sight.all_projects:
        roots = sight.tables.roots()
        return roots, () if roots else (_UNINDEXED,)
    own = sight.tables.root(sight.root)
    if own is not None:
        return [own], () if own.indexed_at else ("the code is still being indexed: what is known is only a part",)
    known = sight.tables.roots()
    around = [one for one in known if is_below(sight.root, one.path) or is_below(one.path, sight.root)]
    if around and not sight.place.project.git:
        return around, ()
    others = [one for one in known if one.project == sight.place.project.id]
    if others:
        return others[:1], (
            f"this working tree is not indexed: {others[0].path} answers ('lorelog code index' reads this one)",
        )
    return [], (_UNINDEXED,)


def _admits(path: str, below: str) -> bool:
    return not below or is_below(path, below)


def _place(used: Used) -> tuple[str, str, int, int]:
    return used.root, used.path, used.use.line, used.use.column


def _distance(used: Used, targets: Sequence[Defined], near: str) -> int:
    """Return how far a use is from the definition: 0 in its file, 1 in its folder, 2 in the same package, 3 elsewhere."""
    best = 3
    for one in targets[:50]:
        if used.path == one.path:
            return 0
        if os.path.dirname(used.path) == os.path.dirname(one.path):  # noqa: PTH120
            best = min(best, 1)
        elif used.path.partition("/")[0] == one.path.partition("/")[0]:
            best = min(best, 2)
    return best


def _level(container: str) -> int:
    return container.count(".") + 1 if container else 0


def _called(wanted: Wanted, targets: Sequence[Defined]) -> str:
    names = {one.symbol.qualified for one in targets}
    return names.pop() if len(names) == 1 else wanted.said


def _spot(used: Used) -> Spot:
    return Spot(used.root, used.path, used.language, used.use.line, used.use.column)


def _reference(used: Used, certainty: Certainty, lines: Lines) -> Reference:
    spot = _spot(used)
    around = used.enclosing.qualified if used.enclosing else ""
    return Reference(spot, used.use.name, used.use.kind, certainty, around, lines.at(spot, used.use.name))


def _caller(used: Used, certainty: Certainty, callee: str, depth: int, lines: Lines) -> Caller:
    around = used.enclosing
    if around is None:
        stem = used.path.rpartition("/")[2]
        return Caller(_spot(used), stem, SymbolKind.MODULE, "", 1, callee, depth, certainty)
    return Caller(
        _spot(used), around.name, around.kind, around.container, around.span.start_line, callee, depth, certainty
    )
