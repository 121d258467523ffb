"""Which definitions a name means, and which of them are near."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lorelog.code.tables import Defined
from lorelog.core.code import SymbolKind
from lorelog.core.code_answers import Definition, Spot
from lorelog.core.paths import is_below
from lorelog.services.code.classes import Classes
from lorelog.services.code.sources import CLASSES, Sources, key_of
from lorelog.services.code.sources import Spot as Place

_JOINTS = re.compile(r"\.|::|->|#|/")
_KINDS = {kind: number for number, kind in enumerate(SymbolKind)}
"""Functions before methods, methods before classes: as memd has it."""
_TESTS = re.compile(r"(?:^|/)(?:tests?|__tests__|spec|testing)/|(?:^|/)test_[^/]*$|[._]test\.[^/]*$|_spec\.[^/]*$")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A symbol that is asked about."""

    name: str
    container: str = ""
    """What is around it, the module included, as far as it is said; joined by dots."""
    path: str = ""
    """Absolute path of the file it is defined in, or of a folder above that."""
    line: int = 0
    """A line of its definition; 0 where none is said."""
    kind: SymbolKind | None = None
    language: str = ""

    @property
    def said(self) -> str:
        """Return it as it was asked for."""
        return f"{self.container}.{self.name}" if self.container else self.name


def read_name(text: str, container: str = "") -> tuple[str, str]:
    """Return a name and what is around it: `Engine.search`, `std::vector`, `Array#map` and `parse()` are taken apart."""
    parts = [part for part in _JOINTS.split(text.strip().strip("`'\"").removesuffix("()")) if part]
    name = parts.pop() if parts else text.strip()
    around = [part for part in _JOINTS.split(container) if part]
    return name, ".".join([*around, *parts])


def find_targets(sources: Sources, wanted: Wanted) -> list[Defined]:
    """Return the definitions that are asked for; a member of a class also where it inherits it."""
    around = wanted.container.split(".") if wanted.container else []
    found = [one for one in sources.definitions(wanted.name) if _fits(one, wanted, around)]
    if not found and around:
        found = _inherited(sources, wanted, around)
    if wanted.line:
        inner = [one for one in found if one.symbol.span.start_line <= wanted.line <= one.symbol.span.end_line]
        best = max((one.symbol.span.start_line for one in inner), default=0)
        found = [one for one in inner if one.symbol.span.start_line == best]
    return found


def _fits(one: Defined, wanted: Wanted, around: Sequence[str]) -> bool:
    if wanted.kind is not None and one.symbol.kind is not wanted.kind:
        return False
    if wanted.language and one.language != wanted.language:
        return False
    if wanted.path and not is_below(one.absolute, wanted.path):
        return False
    return not around or _full(one)[-len(around) :] == list(around)


def _full(one: Defined) -> list[str]:
    """Return all names around a definition: folders, the file, classes."""
    file = os.path.splitext(one.path)[0].removesuffix("/__init__")  # noqa: PTH122
    return [*file.split("/"), *(one.symbol.container.split(".") if one.symbol.container else [])]


def _inherited(sources: Sources, wanted: Wanted, around: Sequence[str]) -> list[Defined]:
    classes = Classes(sources)
    outer = Wanted(around[-1], ".".join(around[:-1]), wanted.path, language=wanted.language)
    found = {}
    for one in find_targets(sources, outer):
        if one.symbol.kind in CLASSES:
            for member in classes.members(one, wanted.name):
                found[key_of(member)] = member
        elif one.symbol.container == "":
            spot = Place(one.path, one.language, None)
            for meant in classes.typed(one.symbol.name, spot) or ():
                found |= {key_of(member): member for member in classes.members(meant, wanted.name)}
    return list(found.values())


def nearest_first(found: Sequence[Defined], near: str) -> list[Defined]:
    """Return definitions in the order of how near they are to a place: same file, same folder, same package, rest."""
    return sorted(
        found,
        key=lambda one: (
            _far(one.absolute, near),
            _TESTS.search(one.path) is not None,
            _KINDS[one.symbol.kind],
            one.root,
            one.path,
            one.symbol.name_line,
        ),
    )


def _far(path: str, near: str) -> int:
    if path == near:
        return 0
    folder = os.path.dirname(path)  # noqa: PTH120
    if folder in (near, os.path.dirname(near)):  # noqa: PTH120
        return 1
    common = os.path.commonpath([folder, near]) if near else "/"
    return 2 if common == near else 2 + len(near.split("/")) - len(common.split("/"))


def shown(found: Sequence[Defined]) -> tuple[Definition, ...]:
    """Return definitions as an answer has them."""
    return tuple(
        Definition(Spot(one.root, one.path, one.language, one.symbol.name_line, one.symbol.name_column), one.symbol)
        for one in found
    )
