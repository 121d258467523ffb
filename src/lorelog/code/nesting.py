"""What is inside what: containers of definitions, the symbol around a use, and names that belong to a function alone.

Everything is a stretch of bytes, and stretches of a tree nest; so one pass over them in order with a stack answers
all three questions, whatever the depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorelog.code.hooks import CALLABLES, CLASSES, CONTAINER, VARIABLES, Found, Hooks
from lorelog.code.matching import MOST_NAME, Matches, dotted
from lorelog.code.source import Source
from lorelog.code.tokens import Comments, Tokens
from lorelog.core.code import Import, Span, Symbol, SymbolKind, Use, UseKind

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_DEPTH = 40
"""Definitions around a definition. More is generated, and would make names and digests quadratic."""
_MOST_SCOPES = 64
_KINDS = frozenset(SymbolKind)
_USES = {str(kind): kind for kind in UseKind}
_TAG = "struct "
"""Before the names of types, in languages where a variable may be called as a type is."""


@dataclass(slots=True)
class _Region:
    """A stretch of the file that is a definition, a scope, or both."""

    start: int
    end: int
    found: Found | None
    is_scope: bool
    parent: _Region | None = None
    depth: int = 0
    """How many definitions are around it."""
    symbol: int = -1
    """Index of the symbol that uses in here are inside of."""
    bound: set[str] = field(default_factory=set)


def put_together(
    matches: Matches, source: Source, hooks: Hooks, tokens: Tokens, comments: Comments
) -> tuple[tuple[Symbol, ...], tuple[Use, ...]]:
    """Return the symbols of a file, in its order, and the uses in it."""
    regions = list(_nested(_regions(matches, source, hooks)))
    symbols: list[Symbol] = []
    members = _declared(regions)
    first_of_row: dict[int, int] = {}
    for region in regions:
        if region.parent is not None:
            region.symbol = region.parent.symbol
        found = region.found
        if found is None or found.kind == CONTAINER or region.depth >= MOST_DEPTH:
            continue
        around = _home(region, found, matches, members)
        if around is None or hooks.placed(found, around, source) is None or found.kind not in _KINDS:
            continue
        row, start = found.node.start_point[0], found.node.start_byte
        if first_of_row.setdefault(row, start) == start:
            found.above = comments.above(row)
        symbols.append(_symbol(found, around, source, hooks, tokens))
        if found.kind not in VARIABLES:
            region.symbol = len(symbols) - 1
    return tuple(symbols), tuple(_uses(matches, regions, source, hooks))


def _declared(regions: Iterable[_Region]) -> set[tuple[int, str]]:
    """Return the members that classes declare themselves, by where the class begins."""
    declared: set[tuple[int, str]] = set()
    for region in regions:
        if region.found is not None and not region.found.is_member:
            owner = _owner(region)
            if owner is not None and owner.found is not None:
                declared.add((owner.found.node.start_byte, region.found.name))
    return declared


def _home(region: _Region, found: Found, matches: Matches, members: set[tuple[int, str]]) -> list[Found] | None:
    """Return what is around a symbol; None for what is none: a function's variable, a member that is known already."""
    name = found.name_node.start_byte
    if found.is_global:
        return []
    if found.is_member:
        around = _members_owner(found, _around(region), members)
        if not around:
            matches.definitions.pop(name, None)
        return around or None
    owner = _owner(region)
    if found.kind in VARIABLES and owner is not None and owner.is_scope:
        matches.bound.setdefault(name, found.name_node)
        matches.uses[name] = (1, "write", found.name_node, None)
        matches.definitions.pop(name, None)
        return None
    if found.kind == "function" and _is_class(owner):
        found.kind = "method"
    return _around(region)


def _regions(matches: Matches, source: Source, hooks: Hooks) -> list[_Region]:
    """Return definitions, containers and scopes; what is around comes before what is inside."""
    regions: list[_Region] = []
    spans: set[tuple[int, int]] = set()
    for start, made in list(matches.definitions.items()):
        found = hooks.defined(made, source)
        if found is None or not found.name or len(found.name) > MOST_NAME:
            if found is None:
                del matches.definitions[start]
            continue
        is_scope = found.kind in CALLABLES
        span = (found.node.start_byte, found.node.end_byte)
        if is_scope:
            spans.add(span)
        regions.append(_Region(*span, found, is_scope))
    regions += [_Region(made.node.start_byte, made.node.end_byte, made, False) for made in matches.containers]
    regions += [_Region(start, end, None, True) for start, end in matches.scopes - spans]
    regions.sort(key=lambda region: (region.start, -region.end, region.found is None, _name_start(region)))
    return regions


def _name_start(region: _Region) -> int:
    return region.found.name_node.start_byte if region.found is not None else 0


def _nested(regions: Iterable[_Region]) -> Iterable[_Region]:
    """Yield regions that know what is around them. Two definitions on the same stretch (`int a, b`) are neighbours."""
    stack: list[_Region] = []
    for region in regions:
        while stack and (
            stack[-1].end <= region.start
            or (region.found is not None and (stack[-1].start, stack[-1].end) == (region.start, region.end))
        ):
            stack.pop()
        if stack:
            region.parent = stack[-1]
            region.depth = stack[-1].depth + (stack[-1].found is not None)
        stack.append(region)
        yield region


def _around(region: _Region) -> list[Found]:
    around: list[Found] = []
    parent = region.parent
    while parent is not None:
        if parent.found is not None:
            around.append(parent.found)
        parent = parent.parent
    around.reverse()
    return around


def _owner(region: _Region) -> _Region | None:
    """Return the scope or class that a definition belongs to: variables around it own nothing.

    A class that is a scope too, for its type parameters, is a class.
    """
    parent = region.parent
    while parent is not None and parent.found is not None and parent.found.kind in VARIABLES:
        parent = parent.parent
    if parent is None or parent.found is not None or not _is_class(parent.parent):
        return parent
    named = (
        parent.parent.found.name_node.start_byte
        if parent.parent is not None and parent.parent.found is not None
        else -1
    )
    return parent.parent if parent.start <= named < parent.end else parent


def _members_owner(found: Found, around: list[Found], members: set[tuple[int, str]]) -> list[Found]:
    """Return what is around a member that a method gives its class; nothing where it has been given before."""
    while around and around[-1].kind not in CLASSES:
        around = around[:-1]
    key = (around[-1].node.start_byte, found.name) if around else (0, "")
    if not around or key in members:
        return []
    members.add(key)
    return around


def _is_class(region: _Region | None) -> bool:
    return region is not None and region.found is not None and region.found.kind in CLASSES


def _symbol(found: Found, around: Sequence[Found], source: Source, hooks: Hooks, tokens: Tokens) -> Symbol:
    node = found.node
    line, column = source.place(*found.name_node.start_point)
    signature = hooks.signature(found, source) if found.signature is None else found.signature
    docstring = hooks.docstring(found, source) if found.docstring is None else found.docstring
    containers = [".".join(part for part in (one.of, one.name) if part) for one in around]
    return Symbol(
        found.name,
        SymbolKind(found.kind),
        Span(*source.place(*node.start_point), *_end(node, source)),
        line,
        column,
        signature,
        docstring,
        found.visibility or hooks.visibility(found, around, source),
        ".".join((*containers, found.of) if found.of else containers),
        found.bases,
        tokens.digest(node.start_byte, node.end_byte, found.name),
    )


def _end(node: Node, source: Source) -> tuple[int, int]:
    """Return where a node ends. Some grammars count the line's end into a directive or a comment."""
    row, column = node.end_point
    if column == 0 and row > node.start_point[0]:
        end = node.end_byte - 1
        end -= source.data[end - 1 : end] == b"\r"
        return source.place(row - 1, end - source.data.rfind(b"\n", 0, end) - 1)
    return source.place(row, column)


def _uses(matches: Matches, regions: list[_Region], source: Source, hooks: Hooks) -> list[Use]:
    """Return the uses of a file in its order, imports among them."""
    taken = _Taken(matches.taken)
    places = sorted({*matches.uses, *matches.bound})
    inside = dict(zip(places, _innermost(places, regions), strict=True))
    tags = hooks.has_tags
    for start, node in matches.bound.items():
        scope = inside[start]
        while scope is not None and not scope.is_scope:
            scope = scope.parent
        if scope is None or (start in matches.definitions and scope.found is None and _is_class(scope.parent)):
            continue  # a class's own head names a member: `class A(val x: Int)`
        scope.bound.add(_TAG + source.text(node) if tags and node.type == "type_identifier" else source.text(node))
    asks = type(hooks).used is not Hooks.used
    uses = [_imported(one, -1) for one in matches.imports if one.name and one.name != "*"]
    for start in places:
        if start not in matches.uses or start in matches.definitions or taken.covers(start):
            continue
        _rank, kind, node, before = matches.uses[start]
        if start in matches.bound and kind != "write":
            continue
        said: tuple[str, str, str] | None = (source.text(node), kind, _receiver(before, source))
        if asks and said is not None:
            said = hooks.used(*said, node, source)
        if said is None or not said[0] or len(said[0]) > MOST_NAME:
            continue
        region = inside[start]
        name, kind, receiver = said
        line, column = source.place(*node.start_point)
        is_local = not receiver and _is_bound(_TAG + name if tags and kind == "type" else name, region)
        uses.append(
            Use(
                name,
                _USES[kind],
                line,
                column,
                -1 if region is None else region.symbol,
                receiver[:MOST_NAME],
                is_local,
            )
        )
    uses.sort(key=lambda use: (use.line, use.column))
    return uses


def _receiver(node: Node | None, source: Source) -> str:
    if node is None:
        return ""
    return dotted(source.text(node)) if node.end_byte - node.start_byte <= MOST_NAME else "?"


def _imported(taken: Import, enclosing: int) -> Use:
    return Use(taken.name, UseKind.IMPORT, taken.line, taken.column, enclosing, taken.module)


def _innermost(places: list[int], regions: list[_Region]) -> Iterable[_Region | None]:
    """Yield the innermost region around each place; both come in order."""
    stack: list[_Region] = []
    coming = 0
    for place in places:
        while coming < len(regions) and regions[coming].start <= place:
            stack.append(regions[coming])
            coming += 1
        while stack and stack[-1].end <= place:
            stack.pop()
        yield stack[-1] if stack else None


def _is_bound(name: str, region: _Region | None) -> bool:
    looked = 0
    while region is not None and looked < _MOST_SCOPES:
        if name in region.bound:
            return True
        region = region.parent
        looked += 1
    return False


class _Taken:
    """Stretches of the file in which no name is used; asked in the order of the file."""

    def __init__(self, stretches: list[tuple[int, int]]) -> None:
        self._stretches = sorted(stretches)
        self._next, self._end = 0, -1

    def covers(self, place: int) -> bool:
        while self._next < len(self._stretches) and self._stretches[self._next][0] <= place:
            self._end = max(self._end, self._stretches[self._next][1])
            self._next += 1
        return place < self._end
