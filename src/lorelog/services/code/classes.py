"""What stands before a dot: which class or module a receiver is, as far as scopes, imports and annotations tell.

Three answers, told apart everywhere here: classes and modules of this working tree; nothing of ours (`()`: a `str`, a
module from elsewhere), so that no method of ours can be meant; and not known (None).
"""

from __future__ import annotations

import builtins
import posixpath
import re
from collections.abc import Iterator

from lorelog.code.tables import Defined
from lorelog.core.code import Import, Symbol, SymbolKind
from lorelog.services.code.elements import element_of
from lorelog.services.code.said import held, made_by, parameters, returned, types_in
from lorelog.services.code.sources import (
    BY_IMPORT,
    CLASSES,
    FUNCTIONS,
    VARIABLES,
    Key,
    Meant,
    Modules,
    Sources,
    Spot,
    key_of,
    levels,
)

_SELVES = frozenset({"self", "cls", "this", "Self", "static", "$this"})
_PARENTS = frozenset({"super", "super()", "base", "parent"})
_BUILTINS = frozenset(dir(builtins))
_OWN = frozenset({"Self", "typing.Self", "t.Self"})
_HINT = re.compile(r"([^=:~*]*)(?:([=:~*])(.*))?", re.DOTALL)
_DEPTH = 8
"""Steps from one name to what it stands for, before it is given up."""


class Classes:
    """Answers for one working tree."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._members: dict[tuple[Key, str], tuple[Defined, ...]] = {}
        self._orders: dict[Key, tuple[Defined, ...]] = {}
        self._named: dict[tuple[str, str, str], Meant] = {}
        self._methods: dict[Key, Symbol | None] = {}

    # -- names ------------------------------------------------------------------------------------------------------

    def named(self, name: str, spot: Spot) -> Meant:
        """Return what a plain name stands for at a place: the innermost scope that has it, else what is imported."""
        key = (name, spot.path, spot.around.qualified if spot.around else "")
        if key not in self._named:
            self._named[key] = None  # a name that leads to itself is not known
            self._named[key] = self._find_named(name, spot)
        return self._named[key]

    def _find_named(self, name: str, spot: Spot) -> Meant:
        own = self._sources.defined_at(name, spot.path)
        if own:
            for number, level in enumerate(levels(spot.around)):
                if number and level and self._is_class(level, spot.path):
                    continue  # names of a class are not seen from inside its methods
                found = tuple(one for one in own if one.symbol.container == level)
                if found and not level and all(one.symbol.kind in VARIABLES for one in found):
                    return self.imported(name, spot) or found  # `x = None` where an import failed
                if found:
                    return found
        return self.imported(name, spot)

    def imported(self, name: str, spot: Spot) -> Meant:
        """Return what a name is at the top of a file that does not define it."""
        brought = self._sources.imported_as(spot.path, name)
        wanted = {one.name for one in brought if one.name} or {name}
        found = [
            one
            for origin in wanted
            for one in self._sources.definitions(origin)
            if not one.symbol.container and (spot.path, name) in self._sources.places(one)
        ]
        if found:
            return tuple(found)
        if brought or (spot.language == "python" and name in _BUILTINS):
            return ()
        return None if spot.language in BY_IMPORT else self._seen(name, spot)

    def _seen(self, name: str, spot: Spot) -> Meant:
        """Return what a file sees of others without importing it: of its folder, or the only thing that is called so."""
        free = [one for one in self._sources.definitions(name) if one.language == spot.language and not is_member(one)]
        folder = posixpath.dirname(spot.path)
        near = [one for one in free if posixpath.dirname(one.path) == folder]
        return tuple(near) or (tuple(free) if len(free) == 1 else None)

    def _is_class(self, qualified: str, path: str) -> bool:
        return any(one.symbol.kind in CLASSES for one in self.at(qualified, path))

    def at(self, qualified: str, path: str) -> list[Defined]:
        """Return the definitions with a full name in a file."""
        container, _, name = qualified.rpartition(".")
        return [one for one in self._sources.defined_at(name, path) if one.symbol.container == container]

    # -- classes ----------------------------------------------------------------------------------------------------

    def around(self, spot: Spot) -> Meant:
        """Return the class that a place is inside of."""
        is_class = spot.around is not None and spot.around.kind in CLASSES
        for level in levels(spot.around)[0 if is_class else 1 :]:
            found = tuple(one for one in self.at(level, spot.path) if one.symbol.kind in CLASSES) if level else ()
            if found:
                return found
        if spot.around is None or not spot.around.container:
            return None
        name = spot.around.container.rpartition(".")[2]  # a method whose class is in another file: Go, Rust, C++
        found = tuple(one for one in self._sources.definitions(name) if one.symbol.kind in CLASSES)
        return found or None

    def order(self, one: Defined) -> tuple[Defined, ...]:
        """Return a class and those it inherits from, in the order in which members are looked for."""
        key = key_of(one)
        if key not in self._orders:
            self._orders[key] = (one,)
            found: dict[Key, Defined] = {key: one}
            for base in self.bases(one):
                for above in self.order(base):
                    found.setdefault(key_of(above), above)
            self._orders[key] = tuple(found.values())
        return self._orders[key]

    def bases(self, one: Defined) -> list[Defined]:
        """Return the classes of ours that a class names as its bases."""
        spot = Spot(one.path, one.language, self._holder(one))
        found: list[Defined] = []
        for base in one.symbol.bases:
            for name in types_in(base):
                meant = self.dotted(name, spot)
                found += [other for other in meant or () if other.symbol.kind in CLASSES and other is not one]
        return found

    def _holder(self, one: Defined) -> Symbol | None:
        found = self.at(one.symbol.container, one.path) if one.symbol.container else []
        return found[0].symbol if found else None

    def members(self, one: Defined, name: str) -> tuple[Defined, ...]:
        """Return what a name means as a member of a class: the first class in its order that has it."""
        key = (key_of(one), name)
        if key not in self._members:
            self._members[key] = ()
            for above in self.order(one):
                found = tuple(
                    other
                    for other in self._sources.definitions(name)
                    if other.symbol.container == above.symbol.qualified and self._belongs(other, above)
                )
                if found:
                    self._members[key] = found
                    break
        return self._members[key]

    @staticmethod
    def _belongs(member: Defined, one: Defined) -> bool:
        if member.path == one.path:
            return True
        return one.language == member.language and one.language in {"go", "rust", "cpp", "csharp", "ruby", "swift"}

    # -- types ------------------------------------------------------------------------------------------------------

    def typed(self, said: str, spot: Spot, depth: int = _DEPTH) -> Meant:
        """Return the classes that a type names."""
        names = types_in(said)
        if not names or depth <= 0:
            return None if depth <= 0 or not said.strip() else ()
        found: list[Defined] = []
        unsure = False
        for name in names:
            meant = self.around(spot) if name in _OWN else self.dotted(name, spot)
            if meant is None:
                unsure = True
                continue
            for one in meant:
                if one.symbol.kind in CLASSES:
                    found.append(one)
                elif one.symbol.kind in VARIABLES:
                    more = self._alias(one, depth)
                    unsure = unsure or more is None
                    found += more or ()
        return tuple(found) if found or not unsure else None

    def _alias(self, one: Defined, depth: int) -> Meant:
        """Return what a name stands for that was given to a type; a type variable is not known."""
        _, value = held(one.symbol.signature)
        if not value or made_by(value)[0] == "call":
            return None
        return self.typed(value, Spot(one.path, one.language, None), depth - 1)

    def dotted(self, name: str, spot: Spot) -> Meant:
        """Return what a name with dots stands for: through modules, and through classes."""
        parts = name.split(".")
        meant = self.named(parts[0], spot)
        for count in range(1, len(parts)):
            if meant:
                inside = [
                    other for one in meant if one.symbol.kind in CLASSES for other in self.members(one, parts[count])
                ]
                meant = tuple(inside)
            else:
                rest = parts[count:]
                found = self.of_module(".".join(parts[:count]), rest[0], spot)
                if found:
                    meant = found
        return meant

    # -- modules ----------------------------------------------------------------------------------------------------

    def modules(self, receiver: str, spot: Spot) -> list[str]:
        """Return the modules that a receiver may be, as `denotes` takes them."""
        first, _, rest = receiver.partition(".")
        found: list[str] = []
        for one in self._sources.imported_as(spot.path, first):
            found += _modules_of(one, receiver, rest)
        return found

    def of_module(self, receiver: str, name: str, spot: Spot) -> tuple[Defined, ...]:
        """Return the definitions that are known under a name at the top of a module that a receiver stands for."""
        names = self.modules(receiver, spot)
        if not names:
            return ()
        return tuple(
            one
            for one in self._candidates(name)
            if any(self._sources.is_known_in(one, name, module, spot.path, spot.language) for module in names)
        )

    def _candidates(self, name: str) -> list[Defined]:
        """Return the definitions that some file may know under a name at its top."""
        found = [one for one in self._sources.definitions(name) if not one.symbol.container]
        return found or []

    # -- receivers --------------------------------------------------------------------------------------------------

    def receiver(self, said: str, spot: Spot, depth: int = _DEPTH) -> Meant | Modules:
        """Return what stands before a dot."""
        parsed = _HINT.fullmatch(said)
        name, mark, hint = (parsed[1], parsed[2] or "", parsed[3] or "") if parsed else (said, "", "")
        parts = name.split(".")
        if depth <= 0:
            return None
        first = self._first(parts[0], (mark, hint), spot, depth)
        meant: Meant | Modules = first
        for count in range(1, len(parts)):
            if isinstance(meant, Modules):
                found = self.of_module(".".join(parts[:count]), parts[count], spot)
                meant = (
                    self._worth(found, depth)
                    if found
                    else Modules(tuple(self.modules(".".join(parts[: count + 1]), spot)))
                )
            else:
                meant = self._step(meant, parts[count], depth)
            if meant is None or meant == ():
                return meant
        return meant

    def _first(self, name: str, hint: tuple[str, str], spot: Spot, depth: int) -> Meant | Modules:
        mark, value = hint
        if name in _SELVES:
            return self.around(spot)
        if name in _PARENTS:
            around = self.around(spot)
            return None if around is None else tuple(base for one in around for base in self.bases(one))
        if mark:
            return self._hinted(mark, value, spot, depth)
        return None if name == "?" else self._plain(name, spot, depth)

    def _hinted(self, mark: str, value: str, spot: Spot, depth: int) -> Meant | Modules:
        """Return what a variable of a function holds, as `code.python_held` notes it: a call, another name, an annotation."""
        if mark == ":":
            return self.typed(value, spot, depth)
        if mark == "*":
            said = element_of(self, value, spot, depth - 1)
            return self.typed(*said, depth - 1) if said else None
        return self.called(value, spot, depth - 1) if mark == "=" else self.receiver(value, spot, depth - 1)

    def _plain(self, name: str, spot: Spot, depth: int) -> Meant | Modules:
        """Return what a plain name before a dot is: a parameter, something of the file, or a module."""
        for around in self._functions(spot):
            given = parameters(around.signature, spot.language)
            if name in given:
                said = given[name]
                return self.typed(said, Spot(spot.path, spot.language, around), depth - 1) if said else None
        meant = self.named(name, spot)
        if meant:
            return self._worth(meant, depth)
        names = self.modules(name, spot)
        return Modules(tuple(names)) if names else meant

    def _functions(self, spot: Spot) -> Iterator[Symbol]:
        """Yield the functions around a place, innermost first. What begins with a capital is a class, nearly always."""
        if spot.around is None:
            return
        if spot.around.kind in FUNCTIONS:
            yield spot.around
        for level in levels(spot.around)[1:-1]:
            if not level.rpartition(".")[2][:1].isupper():
                yield from (one.symbol for one in self.at(level, spot.path) if one.symbol.kind in FUNCTIONS)

    def called(self, name: str, spot: Spot, depth: int) -> Meant:
        """Return what a call of a name with dots gives: an instance of a class, or what a function says it returns."""
        if depth <= 0:
            return None
        before, _, last = name.rpartition(".")
        if before:
            meant: Meant | Modules = self.receiver(before, spot, depth - 1)
            if isinstance(meant, Modules):
                found: Meant = self.of_module(before, last, spot) or (() if last[:1].isupper() else None)
            elif meant:
                found = tuple(other for one in meant for other in self.members(one, last)) or None
            else:
                found = None
        else:
            found = self.named(last, spot)
            if found == () and not (last[:1].isupper() or last in _BUILTINS):
                return None  # a function from elsewhere may give anything
        return None if found is None else self._result(found, depth)

    def _result(self, meant: tuple[Defined, ...], depth: int) -> Meant:
        """Return the classes of what calls of definitions give."""
        found: list[Defined] = []
        for one in meant:
            if one.symbol.kind in CLASSES:
                found.append(one)
            elif one.symbol.kind in FUNCTIONS:
                said = returned(one.symbol.signature, one.language)
                more = self.typed(said, Spot(one.path, one.language, one.symbol), depth - 1) if said else None
                if more is None:
                    return None
                found += more
            else:
                return None
        return tuple(found)

    def _worth(self, meant: tuple[Defined, ...], depth: int) -> Meant:
        """Return the classes that definitions are, or are instances of."""
        found: list[Defined] = []
        for one in meant:
            if one.symbol.kind in CLASSES:
                found.append(one)
                continue
            more = self._held(one, depth - 1) if one.symbol.kind in VARIABLES else None
            if more is None:
                return None
            found += more
        return tuple(found)

    def _step(self, meant: Meant, name: str, depth: int) -> Meant:
        """Return what a member of classes holds."""
        if not meant:
            return meant
        found: list[Defined] = []
        known = False
        for one in meant:
            for member in self.members(one, name):
                known = True
                if member.symbol.kind in CLASSES:
                    found.append(member)
                    continue
                if member.symbol.kind in FUNCTIONS:  # not called: a property
                    more = self._result((member,), depth)
                else:
                    more = self._held(member, depth - 1)
                if more is None:
                    return None
                found += more
        return tuple(found) if known else None

    def _held(self, one: Defined, depth: int) -> Meant:
        """Return the classes of what a variable holds, by its annotation or by what it is given first."""
        if depth <= 0:
            return None
        said, value = held(one.symbol.signature)
        spot = Spot(one.path, one.language, self.method_at(one))
        if said:
            return self.typed(said, spot, depth - 1)
        how, name = made_by(value)
        if how == "call":
            return self.called(name, spot, depth - 1)
        if how == "name" and name:
            meant = self.receiver(name, spot, depth - 1)
            return None if isinstance(meant, Modules) else meant
        return () if value and value[0] in "\"'[{(0123456789" else None

    def method_at(self, one: Defined) -> Symbol | None:
        """Return the innermost function or class around the line of a variable: attributes are given values in methods."""
        key = key_of(one)
        if key in self._methods:
            return self._methods[key]
        best: Symbol | None = None
        line = one.symbol.name_line
        for other in self._sources.symbols(one.path):
            span = other.symbol.span
            if other.symbol.kind in VARIABLES or not span.start_line <= line <= span.end_line:
                continue
            if best is None or span.start_line >= best.span.start_line:
                best = other.symbol
        self._methods[key] = best
        return best


def _modules_of(one: Import, receiver: str, rest: str) -> list[str]:
    """Return the modules that a receiver may be by an import that its first name comes from."""
    if one.name and one.name != "*":
        joint = "" if one.module.endswith((".", "/")) or not one.module else "."
        inner = f"{one.module}{joint}{one.name}"
        return [f"{inner}.{rest}" if rest else inner]
    if one.alias or "/" in one.module:
        return [f"{one.module}.{rest}" if rest else one.module]
    return [receiver]  # `import a.b` gives `a`, and what lies below it


def is_member(one: Defined) -> bool:
    """Say whether something needs a receiver: a method or a field, as far as its kind tells."""
    return one.symbol.kind is SymbolKind.METHOD or (bool(one.symbol.container) and one.symbol.kind in VARIABLES)
