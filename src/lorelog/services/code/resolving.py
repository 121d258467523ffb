"""Which uses of a name mean a definition, and how sure that is.

A name in a file is a word; what it means is decided by scopes first, then by imports (followed from file to file, under
other names too), then, behind a dot, by what stands before it: a module, a class, `self`, or something whose type is said
somewhere. Where nothing says what it is, a method may be meant whose name no other class has: likely, and told as such.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from lorelog.code.tables import Defined, Used
from lorelog.core.code import Symbol, UseKind
from lorelog.core.code_answers import Certainty
from lorelog.services.code.classes import Classes
from lorelog.services.code.common_names import COMMON
from lorelog.services.code.sources import (
    BY_IMPORT,
    CLASSES,
    FUNCTIONS,
    SCRIPTS,
    Key,
    Modules,
    Sources,
    Spot,
    key_of,
    levels,
)

_BY_FOLDER = frozenset({"go", "java", "kotlin", "scala", "swift", "csharp"})
"""Languages in which files of one folder see each other's names."""
_THIS_UNSAID = frozenset({"java", "kotlin", "scala", "swift", "csharp", "cpp", "ruby"})
"""Languages in which a method names its neighbours without a receiver."""
_FEW = 3
"""Definitions that override one another, up to which any of them is likely to be meant; of more, only the first."""


class Resolver:
    """Judges uses in one working tree."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._classes = Classes(sources)
        self._above: dict[Key, set[Key]] = {}
        self._families: dict[tuple[str, str], list[Defined]] = {}

    def references(self, targets: Sequence[Defined]) -> Iterator[tuple[Used, Certainty]]:
        """Yield the uses that mean one of some definitions of one name, or may."""
        by_key = {key_of(one): one for one in targets}
        names = dict.fromkeys(one.symbol.name for one in targets)
        for one in targets:
            if _is_top(one):
                names |= dict.fromkeys(name for _, name in sorted(self._sources.places(one)))
        for name in names:
            for used in self._sources.uses(name):
                certainty = self.judge(used, by_key)
                if certainty is not None:
                    yield used, certainty

    def judge(self, used: Used, targets: dict[Key, Defined]) -> Certainty | None:
        """Return how sure it is that a use means one of some definitions; None where it does not."""
        use = used.use
        if not _akin(used.language, next(iter(targets.values())).language):
            return None
        if use.kind is UseKind.IMPORT:
            return self._imported(used, targets)
        if use.receiver:
            return self._behind_dot(used, targets)
        return self._bare(used, targets)

    def _imported(self, used: Used, targets: dict[Key, Defined]) -> Certainty | None:
        module, name = used.use.receiver, used.use.name
        return Certainty.EXACT if self._in_module(used, [module], name, targets) else None

    def _in_module(self, used: Used, modules: Sequence[str], name: str, targets: dict[Key, Defined]) -> bool:
        return any(
            self._sources.is_known_in(one, name, module, used.path, used.language)
            for one in targets.values()
            if _is_top(one)
            for module in modules
        )

    def _bare(self, used: Used, targets: dict[Key, Defined]) -> Certainty | None:
        use = used.use
        inner = [one for one in self._sources.imported_as(used.path, use.name) if _is_inside(one.line, used.enclosing)]
        if inner:  # imported by the function itself: whatever the file calls so is not meant
            is_meant = any(self._in_module(used, [one.module], one.name, targets) for one in inner)
            return Certainty.EXACT if is_meant else None
        found = self._in_scope(used)
        if found is None or any(key_of(one) in targets for one in found):
            return None if found is None else Certainty.EXACT
        if found and not self._is_also_imported(used):
            return None
        if any(_is_top(one) and (used.path, use.name) in self._sources.places(one) for one in targets.values()):
            return Certainty.EXACT
        is_bound = used.language in BY_IMPORT or self._sources.imported_as(used.path, use.name)
        return None if is_bound else self._unsaid(used, targets)

    def _in_scope(self, used: Used) -> list[Defined] | None:
        """Return what the innermost scope around a use that has its name calls so; None for a variable of a function."""
        use = used.use
        own = self._sources.defined_at(use.name, used.path)
        if not own:
            return None if use.local else []
        for number, level in enumerate(levels(used.enclosing)):
            if use.local and not level:
                return None
            if number and level and self._is_class(level, used) and not (number == 1 and _is_head(used)):
                continue
            found = [one for one in own if one.symbol.container == level]
            if found:
                return found
        return []

    def _is_also_imported(self, used: Used) -> bool:
        """Say whether a name that a file gives a value to is imported at its top, too: `x = None` where that fails."""
        brought = self._sources.imported_as(used.path, used.use.name)
        if not brought:
            return False
        functions = [one.symbol for one in self._sources.symbols(used.path) if one.symbol.kind in FUNCTIONS]
        return any(not any(_is_inside(one.line, around) for around in functions) for one in brought)

    def _is_class(self, level: str, used: Used) -> bool:
        return used.language == "python" and any(
            one.symbol.kind in CLASSES for one in self._classes.at(level, used.path)
        )

    def _unsaid(self, used: Used, targets: dict[Key, Defined]) -> Certainty | None:
        """Judge a name alone where other files' names are seen without being imported."""
        spot = Spot(used.path, used.language, used.enclosing)
        if used.language in _THIS_UNSAID:
            members = [
                other for one in self._classes.around(spot) or () for other in self._classes.members(one, used.use.name)
            ]
            if members:
                return Certainty.EXACT if any(key_of(one) in targets for one in members) else None
        free = [one for one in targets.values() if _is_free(one)]
        if not free:
            return None
        folder = posixpath.dirname(used.path)
        if used.language in _BY_FOLDER:
            near = [
                one
                for one in self._sources.definitions(used.use.name)
                if posixpath.dirname(one.path) == folder and _is_free(one)
            ]
            if near:
                return Certainty.EXACT if any(key_of(one) in targets for one in near) else None
        seen = [one.module for one in self._sources.imports(used.path)]
        for one in free:
            if any(self._sources.denotes(used.path, module, one.path, used.language) for module in seen):
                return Certainty.EXACT
        others = {key_of(one) for one in self._sources.definitions(used.use.name) if _is_free(one)} - set(targets)
        return Certainty.NAME if others else Certainty.LIKELY

    def _behind_dot(self, used: Used, targets: dict[Key, Defined]) -> Certainty | None:
        spot = Spot(used.path, used.language, used.enclosing)
        meant = self._classes.receiver(used.use.receiver, spot)
        name = used.use.name
        if isinstance(meant, Modules):
            return Certainty.EXACT if self._in_module(used, meant.names, name, targets) else None
        if meant is None:
            return self._unknown(used, targets)
        found = {key_of(other) for one in meant for other in self._classes.members(one, name)}
        if found & targets.keys():
            return Certainty.EXACT
        if any(self._overrides(target, one) for target in targets.values() for one in meant):
            return Certainty.NAME
        return None

    def _overrides(self, target: Defined, one: Defined) -> bool:
        """Say whether a definition belongs to a class below another: then a call may reach it."""
        key = key_of(target)
        if key not in self._above:
            holders = self._classes.at(target.symbol.container, target.path) if target.symbol.container else []
            self._above[key] = {key_of(above) for holder in holders for above in self._classes.order(holder)}
        return key_of(one) in self._above[key]

    def _unknown(self, used: Used, targets: dict[Key, Defined]) -> Certainty | None:
        """Judge a name behind a dot when nothing says what stands before it."""
        if not any(self._is_member(one) for one in targets.values()):
            return None
        name = used.use.name
        if name in COMMON or (name.startswith("__") and name.endswith("__")):
            return Certainty.NAME
        family = self._family(name, used.language)
        near = len(family) <= _FEW or any(key_of(one) in targets and self._is_first(one, family) for one in family)
        return Certainty.LIKELY if family and near else Certainty.NAME

    def _is_first(self, one: Defined, family: Sequence[Defined]) -> bool:
        """Say whether all others of a family override this definition."""
        keys = {key_of(other) for other in self._classes.at(one.symbol.container, one.path)}
        return all(
            keys & {key_of(above) for above in self._classes.order(holder)}
            for other in family
            for holder in self._classes.at(other.symbol.container, other.path)
        )

    def _is_member(self, one: Defined) -> bool:
        container = one.symbol.container
        if not container:
            return False
        holders = self._classes.at(container, one.path)
        return any(holder.symbol.kind in CLASSES for holder in holders) or not holders

    def _family(self, name: str, language: str) -> list[Defined]:
        """Return all members of a name, where they belong to classes that inherit from one another; else nothing."""
        key = (name, language)
        if key not in self._families:
            common: set[Key] | None = None
            found = [
                one for one in self._sources.definitions(name) if _akin(one.language, language) and self._is_member(one)
            ]
            for one in found:
                holders = self._classes.at(one.symbol.container, one.path)
                above = {key_of(other) for holder in holders for other in self._classes.order(holder)}
                common = above if common is None else common & above
                if not common:
                    break
            self._families[key] = found if common else []
        return self._families[key]


def _is_inside(line: int, around: Symbol | None) -> bool:
    """Say whether a line belongs to a function."""
    return around is not None and around.kind in FUNCTIONS and around.span.start_line < line <= around.span.end_line


def _is_head(used: Used) -> bool:
    """Say whether a use stands in the decorators or the first line of the function around it, which are evaluated outside."""
    around = used.enclosing
    return around is not None and around.kind in FUNCTIONS and used.use.line <= around.name_line


def _is_top(one: Defined) -> bool:
    return not one.symbol.container


def _is_free(one: Defined) -> bool:
    """Say whether a definition can be named from elsewhere without a receiver; namespaces do not hide it."""
    return not one.symbol.container or one.language in {"cpp", "csharp", "php", "ruby", "rust", "scala", "kotlin"}


def _akin(one: str, other: str) -> bool:
    """Say whether two languages share names."""
    return one == other or (one in SCRIPTS and other in SCRIPTS) or {one, other} == {"c", "cpp"}
