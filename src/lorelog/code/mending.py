"""Trees of files that a grammar cannot read as they are.

Two ways, each only where the tree has errors and the outcome has fewer. First, what a grammar is known to stumble over
is blanked out (macros, newer syntax): `Hooks.mended`. Then, where next to nothing could be parsed, the file is taken
apart at what stands at the beginning of its lines; parts that cannot be parsed alone are replaced by their name, so
that one strange definition does not take a thousand others with it. Bytes stay where they are all the while.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lorelog.code.hooks import Hooks

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_PARTS = 5_000
_LEAST_PARTS = 3


def mended(root: Node, source: bytes, hooks: Hooks, parse: Callable[[bytes], Node | None]) -> tuple[Node, int]:
    """Return the best tree of a file whose first tree has errors, and the first line that was left out for it, or 0.

    `parse` gives nothing when there is no time left.
    """
    best, data = root, source
    again = hooks.mended(source)
    if again != source and len(again) == len(source):
        tree = parse(again)
        if tree is not None and _damage(tree) < _damage(root):
            best, data = tree, again
    if hooks.tops is None or not best.is_error:
        return best, 0
    apart, lost, line = _without_broken_parts(data, hooks.tops, hooks, parse)
    tree = parse(apart) if lost else None
    if tree is None or _damage(tree) + lost >= _damage(best):
        return best, 0
    return tree, line


def _without_broken_parts(
    data: bytes, tops: re.Pattern[bytes], hooks: Hooks, parse: Callable[[bytes], Node | None]
) -> tuple[bytes, int, int]:
    """Return a file in which each part that cannot be parsed alone is no more than its name, what that cost, and where."""
    starts = [found.start() for found in tops.finditer(data)]
    if not _LEAST_PARTS <= len(starts) <= _MOST_PARTS:
        return data, 0, 0
    parts, lost, first = [data[: starts[0]]], 0, 0
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        part = data[start:end]
        tree = parse(part)
        damage = _damage(tree) if tree is not None else 0
        parts.append(hooks.stub(part) if damage else part)
        lost += damage
        first = first or (damage and data.count(b"\n", 0, start) + 1)
    return b"".join(parts), lost, first


def blank(data: bytes) -> bytes:
    """Return as many bytes of white space; lines stay lines."""
    return bytes(byte if byte in b"\r\n" else 32 for byte in data)


def _damage(root: Node) -> int:
    """Return how many bytes could not be made sense of; a thing that is missing counts as a few."""
    damage, stack = 0, [root]
    while stack:
        node = stack.pop()
        if node.is_missing:
            damage += 10
        elif node.is_error:
            damage += max(1, _size(node) - sum(_size(child) for child in node.named_children))
        if node.has_error:
            stack += node.children
    return damage


def _size(node: Node) -> int:
    return node.end_byte - node.start_byte
