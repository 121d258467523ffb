"""What the captures of a language's queries say: definitions, scopes, uses, imports, before they are put together.

A name counts once however many patterns capture it: a definition before an import, an import before a call, a call
before a write, a type, a read. So a query may end with "every identifier is read" and be right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorelog.code.hooks import CONTAINER, Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node, Query

MOST_NAME = 200
_MOST_STATES, _DEEPEST = 4000, 2000
"""Half-matched patterns at a time, and depth in the tree: more arise only in files that are no code, and cost squares."""
_WIDE = 5000
"""Tokens side by side with hardly a name among them: no code either, and the query would take their square."""
_RANK = {"use.call": 0, "use.write": 1, "use.type": 2, "use.read": 3}
_KINDS = {key: key.removeprefix("use.") for key in _RANK}
_PATH = re.compile(r"[\w$@]+(?:\.[\w$@]+)*\Z")
_JOINTS = re.compile(r"\s*(?:::|->|\?\.|!!?\.|\\)\s*")
_ARGUMENTS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")


@dataclass(slots=True)
class Matches:
    """What was captured."""

    definitions: dict[int, Found] = field(default_factory=dict)
    """By the byte its name begins at."""
    containers: list[Found] = field(default_factory=list)
    scopes: set[tuple[int, int]] = field(default_factory=set)
    bound: dict[int, Node] = field(default_factory=dict)
    """Names that a scope binds, by the byte they begin at."""
    uses: dict[int, tuple[int, str, Node, Node | None]] = field(default_factory=dict)
    """Rank, kind, name and receiver by the byte a name begins at."""
    imports: list[Import] = field(default_factory=list)
    taken: list[tuple[int, int]] = field(default_factory=list)
    """Stretches in which no name is used: parts of imports, and what a query skips."""


def read_matches(query: Query, root: Node, source: Source, hooks: Hooks) -> Matches:
    """Return what a language's query finds in a tree."""
    from tree_sitter import QueryCursor

    found = Matches()
    for start, end in _stretches(root):
        cursor = QueryCursor(query, match_limit=_MOST_STATES)
        cursor.set_max_start_depth(_DEEPEST)
        cursor.set_byte_range(start, end)
        for pattern, captures in cursor.matches(root):
            for key, nodes in captures.items():
                if key in _RANK:
                    _use(found, key, nodes[0], captures.get("receiver"))
                elif key == "import":
                    _import(found, captures, source, hooks)
                elif key == CONTAINER or key.startswith("def."):
                    _definition(found, key, captures, source, pattern)
                else:
                    _take(found, key, nodes)
    return found


def _take(found: Matches, key: str, nodes: list[Node]) -> None:
    if key == "local":
        for node in nodes:
            found.bound[node.start_byte] = node
    elif key == "scope":
        found.scopes.add((nodes[0].start_byte, nodes[0].end_byte))
    elif key == "skip":
        found.taken += [(node.start_byte, node.end_byte) for node in nodes]


def _stretches(root: Node) -> list[tuple[int, int]]:
    """Return what of a file is queried: all of it, but for heaps of tokens that nobody wrote as code."""
    heaps: list[tuple[int, int]] = []
    stack = [root] if root.descendant_count > _WIDE else []
    while stack:
        node = stack.pop()
        named = node.named_child_count
        if node.child_count - named > max(_WIDE, named * 4):
            heaps.append((node.start_byte, node.end_byte))
        else:
            stack += [child for child in node.children if child.descendant_count > _WIDE]
    stretches, last = [], 0
    for start, end in sorted(heaps):
        if start > last:
            stretches.append((last, start))
        last = end
    if root.end_byte > last or not heaps:
        stretches.append((last, root.end_byte))
    return stretches


def dotted(text: str) -> str:
    """Return what stands before a name as names joined by dots; `?` where it is something else."""
    if text.isidentifier():
        return text
    path = _JOINTS.sub(".", text.strip()).strip(".")
    if _PATH.match(path):
        return path
    bare = without_arguments(path)
    return bare if _PATH.match(bare) else "?"


def without_arguments(text: str) -> str:
    """Return a type's name without the arguments in angle or square brackets."""
    for _depth in range(8):
        shorter = _ARGUMENTS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text.strip()


def _use(found: Matches, key: str, node: Node, receivers: list[Node] | None) -> None:
    start, rank = node.start_byte, _RANK[key]
    known = found.uses.get(start)
    if known is None or rank < known[0] or (rank == known[0] and known[3] is None):
        receiver = receivers[0] if receivers else None
        if receiver is None and known is not None:
            receiver = known[3]
        found.uses[start] = (rank, _KINDS[key], node, receiver)
    elif known[3] is None and receivers:
        found.uses[start] = (*known[:3], receivers[0])


def _import(found: Matches, captures: dict[str, list[Node]], source: Source, hooks: Hooks) -> None:
    taken = list(hooks.imported(captures, source))
    if not taken:
        return
    found.imports += taken
    for key in ("import.module", "import.name", "import.alias"):
        found.taken += [(node.start_byte, node.end_byte) for node in captures.get(key, ())]


def _definition(found: Matches, key: str, captures: dict[str, list[Node]], source: Source, pattern: int) -> None:
    names, nodes = captures.get("name"), captures[key]
    if not names:
        return
    name_node = names[0]
    if name_node.end_byte - name_node.start_byte > MOST_NAME * 4:
        return
    bases = tuple(without_arguments(source.text(node)) for node in captures.get("bases", ()))
    of = captures.get("of", ())
    made = Found(
        key.removeprefix("def."),
        source.text(name_node),
        nodes[0],
        name_node,
        body=next(iter(captures.get("body", ())), None),
        doc=next(iter(captures.get("doc", ())), None),
        bases=bases,
        of=".".join(filter(None, (dotted(without_arguments(source.text(node))).strip("?") for node in of))),
        pattern=pattern,
        captures=captures,
    )
    if key == CONTAINER:
        made.name = without_arguments(made.name).rsplit("::", 1)[-1]
        found.containers.append(made)
        return
    known = found.definitions.get(name_node.start_byte)
    found.definitions[name_node.start_byte] = made if known is None else _united(known, made, source)


def _united(one: Found, other: Found, source: Source) -> Found:
    """Return a definition that two patterns found. Matches come when they are complete, not in the patterns' order."""
    first, second = (one, other) if one.pattern <= other.pattern else (other, one)
    bases = [*one.captures.get("bases", ()), *other.captures.get("bases", ())]
    first.body = first.body or second.body
    first.captures = {**second.captures, **first.captures}
    if bases:
        first.captures["bases"] = bases = sorted(bases, key=lambda node: node.start_byte)
        first.bases = tuple(dict.fromkeys(without_arguments(source.text(node)) for node in bases))
    return first
