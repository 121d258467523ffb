"""Turn the matches of a language's query into symbols and uses.

A name counts once however many patterns capture it: as a definition before an import, then as a call, a write, a type,
a read. So a query may end with "every identifier is a read".

Definitions, scopes and uses are byte ranges, and ranges of a tree nest. So one pass over the sorted ranges with a stack
finds the container of each definition, the symbol around each use, and the names local to a function, at any depth.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

from msgspec import Struct, field
from tree_sitter import Node, Query, QueryCursor

from lorelog.code.languages.hooks import CALLABLES, CLASSES, CONTAINER, VARIABLES, LanguageHooks, SymbolCandidate
from lorelog.code.names import Comments, Tokens
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement, NameUse, SourceSpan, Symbol, SymbolKind, UseKind

MAX_NAME = 200
MAX_NESTING = 40
"""Limit of nested definitions. More is generated code, and would make names and digests quadratic."""
_MAX_SCOPES = 64
_MAX_QUERY_STATES, _MAX_TREE_DEPTH = 4000, 2000
"""Limits of partial matches and of tree depth: only files that are not code exceed them, at quadratic cost."""
_MAX_UNNAMED_TOKENS = 5000
"""Limit of adjacent tokens with hardly a name among them: not code either, and the query would take quadratic time."""
_SYMBOL_KINDS = frozenset(SymbolKind)
_USE_KINDS = {str(kind): kind for kind in UseKind}
_STRUCT_TAG = "struct "
"""Prefix of type names in languages where a variable and a type may have the same name."""
_IMPORT_PARTS = ("import.module", "import.name", "import.alias")
_USE_RANK = {"use.call": 0, "use.write": 1, "use.type": 2, "use.read": 3}
_DOTTED_PATH = re.compile(r"[\w$@]+(?:\.[\w$@]+)*\Z")
_PATH_SEPARATORS = re.compile(r"\s*(?:::|->|\?\.|!!?\.|\\)\s*")
_TYPE_ARGUMENTS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")


class QueryMatches(Struct):
    definitions: dict[int, SymbolCandidate] = field(default_factory=dict)
    """By the start byte of the name."""
    containers: list[SymbolCandidate] = field(default_factory=list)
    scopes: set[tuple[int, int]] = field(default_factory=set)
    bound: dict[int, Node] = field(default_factory=dict)
    """Names that a scope binds, by start byte."""
    uses: dict[int, tuple[int, str, Node, Node | None]] = field(default_factory=dict)
    """Rank, kind, name and receiver by the start byte of the name."""
    imports: list[ImportStatement] = field(default_factory=list)
    excluded: list[tuple[int, int]] = field(default_factory=list)
    """Ranges without uses: parts of imports, and ranges that a query skips."""


def run_query(query: Query, root: Node, source: SourceText, hooks: LanguageHooks) -> QueryMatches:
    matches = QueryMatches()
    for start, end in _code_ranges(root):
        cursor = QueryCursor(query, match_limit=_MAX_QUERY_STATES)
        cursor.set_max_start_depth(_MAX_TREE_DEPTH)
        cursor.set_byte_range(start, end)
        for pattern, captures in cursor.matches(root):
            for key, nodes in captures.items():
                if key in _USE_RANK:
                    _add_use(matches, key, nodes[0], captures.get("receiver"))
                elif key == "import":
                    statements = list(hooks.read_imports(captures, source))
                    matches.imports += statements
                    parts = _IMPORT_PARTS if statements else ()
                    matches.excluded += [
                        (node.start_byte, node.end_byte) for part in parts for node in captures.get(part, ())
                    ]
                elif key == CONTAINER or key.startswith("def."):
                    _add_definition(matches, key, captures, source, pattern)
                elif key == "local":
                    matches.bound.update((node.start_byte, node) for node in nodes)
                elif key == "scope":
                    matches.scopes.add((nodes[0].start_byte, nodes[0].end_byte))
                elif key == "skip":
                    matches.excluded += [(node.start_byte, node.end_byte) for node in nodes]
    return matches


def _code_ranges(root: Node) -> list[tuple[int, int]]:
    """Return the ranges of a file to query: all of it except heaps of tokens that nobody wrote as code."""
    heaps: list[tuple[int, int]] = []
    stack = [root] if root.descendant_count > _MAX_UNNAMED_TOKENS else []
    while stack:
        node = stack.pop()
        named = node.named_child_count
        if node.child_count - named > max(_MAX_UNNAMED_TOKENS, named * 4):
            heaps.append((node.start_byte, node.end_byte))
        else:
            stack += [child for child in node.children if child.descendant_count > _MAX_UNNAMED_TOKENS]
    ranges, last = [], 0
    for start, end in sorted(heaps):
        if start > last:
            ranges.append((last, start))
        last = end
    if root.end_byte > last or not heaps:
        ranges.append((last, root.end_byte))
    return ranges


def dotted_receiver(text: str) -> str:
    """Return a receiver as names joined by dots; `?` for any other expression."""
    if text.isidentifier():
        return text
    path = _PATH_SEPARATORS.sub(".", text.strip()).strip(".")
    if _DOTTED_PATH.match(path):
        return path
    bare = strip_type_arguments(path)
    return bare if _DOTTED_PATH.match(bare) else "?"


def strip_type_arguments(text: str) -> str:
    """Remove type arguments in angle or square brackets."""
    for _depth in range(8):
        shorter = _TYPE_ARGUMENTS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text.strip()


def _add_use(matches: QueryMatches, key: str, node: Node, receivers: list[Node] | None) -> None:
    rank, existing = _USE_RANK[key], matches.uses.get(node.start_byte)
    receiver = receivers[0] if receivers else None
    if existing is None or rank < existing[0] or (rank == existing[0] and existing[3] is None):
        kept = existing[3] if existing is not None else None
        matches.uses[node.start_byte] = (rank, key.removeprefix("use."), node, receiver or kept)
    elif existing[3] is None:
        matches.uses[node.start_byte] = (*existing[:3], receiver)


def _add_definition(
    matches: QueryMatches, key: str, captures: dict[str, list[Node]], source: SourceText, pattern: int
) -> None:
    names, nodes = captures.get("name"), captures[key]
    if not names:
        return
    name_node = names[0]
    if name_node.end_byte - name_node.start_byte > MAX_NAME * 4:
        return
    bases = tuple(strip_type_arguments(source.text(node)) for node in captures.get("bases", ()))
    of = captures.get("of", ())
    candidate = SymbolCandidate(
        key.removeprefix("def."),
        source.text(name_node),
        nodes[0],
        name_node,
        body=next(iter(captures.get("body", ())), None),
        doc=next(iter(captures.get("doc", ())), None),
        bases=bases,
        of=".".join(filter(None, (dotted_receiver(strip_type_arguments(source.text(node))).strip("?") for node in of))),
        pattern=pattern,
        captures=captures,
    )
    if key == CONTAINER:
        candidate.name = strip_type_arguments(candidate.name).rsplit("::", 1)[-1]
        matches.containers.append(candidate)
        return
    existing = matches.definitions.get(name_node.start_byte)
    matches.definitions[name_node.start_byte] = (
        candidate if existing is None else _merge_candidates(existing, candidate, source)
    )


def _merge_candidates(candidate: SymbolCandidate, other: SymbolCandidate, source: SourceText) -> SymbolCandidate:
    """Merge a definition that two patterns matched. Matches arrive when they are complete, not in pattern order."""
    first, second = (candidate, other) if candidate.pattern <= other.pattern else (other, candidate)
    bases = [*candidate.captures.get("bases", ()), *other.captures.get("bases", ())]
    first.body = first.body or second.body
    first.captures = {**second.captures, **first.captures}
    if bases:
        first.captures["bases"] = bases = sorted(bases, key=lambda node: node.start_byte)
        first.bases = tuple(dict.fromkeys(strip_type_arguments(source.text(node)) for node in bases))
    return first


class _Region(Struct):
    """A byte range that is a definition, a scope, or both."""

    start: int
    end: int
    candidate: SymbolCandidate | None
    is_scope: bool
    parent: _Region | None = None
    depth: int = 0
    """Number of definitions around it."""
    symbol: int = -1
    """Index of the symbol that encloses uses in this range."""
    bound: set[str] = field(default_factory=set)

    def chain(self) -> Iterator[_Region]:
        """Yield this range and those around it."""
        region: _Region | None = self
        while region is not None:
            yield region
            region = region.parent


def assemble_symbols(
    matches: QueryMatches,
    source: SourceText,
    hooks: LanguageHooks,
    tokens: Tokens,
    comments: Comments,
    *,
    only_symbols: bool,
) -> tuple[tuple[Symbol, ...], tuple[NameUse, ...]]:
    """Return the symbols and the uses of a file, both in file order."""
    regions = list(_link_parents(_build_regions(matches, source, hooks)))
    symbols: list[Symbol] = []
    members = _declared_members(regions)
    first_of_row: dict[int, int] = {}
    for region in regions:
        if region.parent is not None:
            region.symbol = region.parent.symbol
        candidate = region.candidate
        if candidate is None or candidate.kind == CONTAINER or region.depth >= MAX_NESTING:
            continue
        around = _containers_of(region, candidate, matches, members)
        if (
            around is None
            or hooks.adjust_nested(candidate, around, source) is None
            or candidate.kind not in _SYMBOL_KINDS
        ):
            continue
        row, start = candidate.node.start_point[0], candidate.node.start_byte
        if first_of_row.setdefault(row, start) == start:
            candidate.above = comments.above(row)
        symbols.append(build_symbol(candidate, around, source, hooks, tokens))
        if candidate.kind not in VARIABLES:
            region.symbol = len(symbols) - 1
    return tuple(symbols), () if only_symbols else tuple(_collect_uses(matches, regions, source, hooks))


def _declared_members(regions: Iterable[_Region]) -> set[tuple[int, str]]:
    """Return the members that classes declare themselves, with the start byte of the class."""
    declared: set[tuple[int, str]] = set()
    for region in regions:
        if region.candidate is not None and not region.candidate.is_member:
            owner = _owner_region(region)
            if owner is not None and owner.candidate is not None:
                declared.add((owner.candidate.node.start_byte, region.candidate.name))
    return declared


def _containers_of(
    region: _Region, candidate: SymbolCandidate, matches: QueryMatches, members: set[tuple[int, str]]
) -> list[SymbolCandidate] | None:
    """Return the containers of a symbol; None for a local variable, or a member that is already known."""
    name = candidate.name_node.start_byte
    if candidate.is_global:
        return []
    around = [outer.candidate for outer in region.chain() if outer is not region and outer.candidate is not None][::-1]
    if candidate.is_member:
        while around and around[-1].kind not in CLASSES:
            around.pop()
        key = (around[-1].node.start_byte, candidate.name) if around else (0, "")
        if not around or key in members:
            matches.definitions.pop(name, None)
            return None
        members.add(key)
        return around
    owner = _owner_region(region)
    if candidate.kind in VARIABLES and owner is not None and owner.is_scope:
        matches.bound.setdefault(name, candidate.name_node)
        matches.uses[name] = (1, "write", candidate.name_node, None)
        matches.definitions.pop(name, None)
        return None
    if candidate.kind == "function" and _is_class(owner):
        candidate.kind = "method"
    return around


def _build_regions(matches: QueryMatches, source: SourceText, hooks: LanguageHooks) -> list[_Region]:
    """Return definitions, containers and scopes; outer ranges before inner ones."""
    regions: list[_Region] = []
    spans: set[tuple[int, int]] = set()
    for start, match in list(matches.definitions.items()):
        candidate = hooks.adjust_definition(match, source)
        if candidate is None or not candidate.name or len(candidate.name) > MAX_NAME:
            if candidate is None:
                del matches.definitions[start]
            continue
        is_scope = candidate.kind in CALLABLES
        span = (candidate.node.start_byte, candidate.node.end_byte)
        if is_scope:
            spans.add(span)
        regions.append(_Region(*span, candidate, is_scope))
    regions += [
        _Region(container.node.start_byte, container.node.end_byte, container, False)
        for container in matches.containers
    ]
    regions += [_Region(start, end, None, True) for start, end in matches.scopes - spans]
    regions.sort(key=lambda region: (region.start, -region.end, region.candidate is None, _name_start(region)))
    return regions


def _name_start(region: _Region) -> int:
    return region.candidate.name_node.start_byte if region.candidate is not None else 0


def _link_parents(regions: Iterable[_Region]) -> Iterable[_Region]:
    """Yield regions with their parents set. Two definitions on the same range (`int a, b`) are siblings."""
    stack: list[_Region] = []
    for region in regions:
        while stack and (
            stack[-1].end <= region.start
            or (region.candidate is not None and (stack[-1].start, stack[-1].end) == (region.start, region.end))
        ):
            stack.pop()
        if stack:
            region.parent = stack[-1]
            region.depth = stack[-1].depth + (stack[-1].candidate is not None)
        stack.append(region)
        yield region


def _owner_region(region: _Region) -> _Region | None:
    """Return the scope or class that a definition belongs to: enclosing variables own nothing.

    A class that is also a scope, for its type parameters, counts as a class.
    """
    parent = region.parent
    while parent is not None and parent.candidate is not None and parent.candidate.kind in VARIABLES:
        parent = parent.parent
    if parent is None or parent.candidate is not None or not _is_class(parent.parent):
        return parent
    cls = parent.parent
    return cls if cls is not None and parent.start <= _name_start(cls) < parent.end else parent


def _is_class(region: _Region | None) -> bool:
    return region is not None and region.candidate is not None and region.candidate.kind in CLASSES


def build_symbol(
    candidate: SymbolCandidate,
    around: Sequence[SymbolCandidate],
    source: SourceText,
    hooks: LanguageHooks,
    tokens: Tokens,
) -> Symbol:
    node = candidate.node
    line, column = source.position(*candidate.name_node.start_point)
    containers = [".".join(part for part in (container.of, container.name) if part) for container in around]
    return Symbol(
        name=candidate.name,
        kind=SymbolKind(candidate.kind),
        span=SourceSpan(*source.position(*node.start_point), *_end_position(node, source)),
        name_line=line,
        name_column=column,
        signature=hooks.signature(candidate, source) if candidate.signature is None else candidate.signature,
        docstring=hooks.docstring(candidate, source) if candidate.docstring is None else candidate.docstring,
        visibility=candidate.visibility or hooks.visibility(candidate, around, source),
        container=".".join((*containers, candidate.of) if candidate.of else containers),
        bases=candidate.bases,
        digest=tokens.digest(node.start_byte, node.end_byte, candidate.name),
    )


def _end_position(node: Node, source: SourceText) -> tuple[int, int]:
    """Return the end of a node. Some grammars include the line break in a directive or a comment."""
    row, column = node.end_point
    if column == 0 and row > node.start_point[0]:
        end = node.end_byte - 1
        end -= source.data[end - 1 : end] == b"\r"
        return source.position(row - 1, end - source.data.rfind(b"\n", 0, end) - 1)
    return source.position(row, column)


def _collect_uses(
    matches: QueryMatches, regions: list[_Region], source: SourceText, hooks: LanguageHooks
) -> list[NameUse]:
    """Return the uses of a file in order, including imports."""
    excluded = sorted(matches.excluded)
    excluded_starts, excluded_ends = (
        [start for start, _ in excluded],
        list(accumulate((end for _, end in excluded), max)),
    )
    offsets = sorted({*matches.uses, *matches.bound})
    inside = dict(zip(offsets, _innermost_regions(offsets, regions), strict=True))
    for start, node in matches.bound.items():
        around = inside[start]
        scope = next((region for region in around.chain() if region.is_scope), None) if around is not None else None
        if scope is None or (start in matches.definitions and scope.candidate is None and _is_class(scope.parent)):
            continue  # the head of a class declares a member: `class A(val x: Int)`
        is_tag = hooks.has_tags and node.type == "type_identifier"
        scope.bound.add(_STRUCT_TAG + source.text(node) if is_tag else source.text(node))
    uses = [
        NameUse(statement.name, UseKind.IMPORT, statement.line, statement.column, -1, statement.module)
        for statement in matches.imports
        if statement.name and statement.name != "*"
    ]
    for start in offsets:
        before = bisect_right(excluded_starts, start)
        is_excluded = before > 0 and start < excluded_ends[before - 1]
        if start not in matches.uses or start in matches.definitions or is_excluded:
            continue
        _rank, kind, node, receiver_node = matches.uses[start]
        if start in matches.bound and kind != "write":
            continue
        receiver = ""
        if receiver_node is not None:
            is_short = receiver_node.end_byte - receiver_node.start_byte <= MAX_NAME
            receiver = dotted_receiver(source.text(receiver_node)) if is_short else "?"
        use = hooks.adjust_use((source.text(node), kind, receiver), node, source)
        if use is None or not use[0] or len(use[0]) > MAX_NAME:
            continue
        region = inside[start]
        name, kind, receiver = use
        line, column = source.position(*node.start_point)
        binding = _STRUCT_TAG + name if hooks.has_tags and kind == "type" else name
        uses.append(
            NameUse(
                name,
                _USE_KINDS[kind],
                line,
                column,
                -1 if region is None else region.symbol,
                receiver[:MAX_NAME],
                not receiver
                and region is not None
                and any(binding in outer.bound for outer in islice(region.chain(), _MAX_SCOPES)),
            )
        )
    uses.sort(key=lambda use: (use.line, use.column))
    return uses


def _innermost_regions(offsets: list[int], regions: list[_Region]) -> Iterable[_Region | None]:
    """Yield the innermost region around each offset; both lists are sorted."""
    stack: list[_Region] = []
    next_index = 0
    for offset in offsets:
        while next_index < len(regions) and regions[next_index].start <= offset:
            stack.append(regions[next_index])
            next_index += 1
        while stack and stack[-1].end <= offset:
            stack.pop()
        yield stack[-1] if stack else None
