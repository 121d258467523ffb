"""Get more symbols out of files that a grammar cannot parse.

A repaired tree is used only if it has fewer errors. First, constructs that a grammar is known to fail on (macros, newer
syntax) are blanked out by `LanguageHooks.repair`. Then, if next to nothing could be parsed, the file is split at the
starts of its top-level definitions, and parts that cannot be parsed alone are replaced by stubs, so that one bad
definition does not cost a thousand others. Byte offsets never change.

Python needs its own way: inside brackets lines do not end, so a parser that meets `def f(` without its closing bracket
reads the following definitions as arguments, and files are in this state whenever someone types. Definitions start at
the margin of their block, though. So a broken file is cut at definitions, assignments and imports; each piece is parsed
alone, and pieces that fail are parsed apart from the others. The same is done once more inside of classes that fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks

if TYPE_CHECKING:
    from tree_sitter import Node


_MAX_PARTS = 5_000
_MIN_PARTS = 3
_MAX_PIECES = 3000
_MAX_BROKEN_PIECES = 50
_STATEMENT_START = re.compile(
    rb"^([ \t]*)(@|(?:async[ \t]+def|def|class|if|import)\b|from[ \t]+[\w.]+[ \t]+import\b|[^\W\d]\w*[ \t]*(?::[^=\n]+)?=(?!=))",
    re.MULTILINE,
)
"""The start of a statement. Other words could as well be lines of a docstring."""
_FIRST_MEMBER = re.compile(rb"\n([ \t]+)(?=[^\s#])")

ByteRange = tuple[int, int]
RangeParser = Callable[[list[ByteRange]], "Node"]
"""Parses some ranges of the file as if they were the whole file."""


def repair_tree(
    root: Node, source: bytes, hooks: LanguageHooks, parse: Callable[[bytes], Node | None]
) -> tuple[Node, int]:
    """Return the best tree of a file whose first tree has errors, and the first line that was left out for it, or 0.

    `parse` returns None when the time limit is exceeded.
    """
    best, data = root, source
    repaired = hooks.repair(source)
    if repaired != source and len(repaired) == len(source):
        tree = parse(repaired)
        if tree is not None and _error_bytes(tree) < _error_bytes(root):
            best, data = tree, repaired
    if hooks.part_starts is None or not best.is_error:
        return best, 0
    stubbed, lost, line = _stub_broken_parts(data, hooks.part_starts, hooks, parse)
    tree = parse(stubbed) if lost else None
    if tree is None or _error_bytes(tree) + lost >= _error_bytes(best):
        return best, 0
    return tree, line


def _stub_broken_parts(
    data: bytes, part_starts: re.Pattern[bytes], hooks: LanguageHooks, parse: Callable[[bytes], Node | None]
) -> tuple[bytes, int, int]:
    """Replace parts that cannot be parsed alone by stubs; return also the bytes this costs, and the first such line."""
    starts = [match.start() for match in part_starts.finditer(data)]
    if not _MIN_PARTS <= len(starts) <= _MAX_PARTS:
        return data, 0, 0
    parts, lost, first = [data[: starts[0]]], 0, 0
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        part = data[start:end]
        tree = parse(part)
        damage = _error_bytes(tree) if tree is not None else 0
        parts.append(hooks.stub(part) if damage else part)
        lost += damage
        first = first or (damage and data.count(b"\n", 0, start) + 1)
    return b"".join(parts), lost, first


def blank_bytes(data: bytes) -> bytes:
    """Return as many bytes of white space, with the same line breaks."""
    return bytes(byte if byte in b"\r\n" else 32 for byte in data)


def _error_bytes(root: Node) -> int:
    """Return the number of bytes in error nodes; a missing node counts as ten."""
    damage, stack = 0, [root]
    while stack:
        node = stack.pop()
        if node.is_missing:
            damage += 10
        elif node.is_error:
            damage += max(1, _node_size(node) - sum(_node_size(child) for child in node.named_children))
        if node.has_error:
            stack += node.children
    return damage


def _node_size(node: Node) -> int:
    return node.end_byte - node.start_byte


def repair_python(data: bytes, parse: RangeParser) -> list[Node]:
    """Return trees that together cover more of a broken file than a single one; none if there are no such trees."""
    pieces = _split_pieces(data, 0, len(data), b"")
    if len(pieces) > _MAX_PIECES:
        return []
    bad = [piece for piece in pieces if parse([piece]).has_error]
    if not bad or len(bad) > _MAX_BROKEN_PIECES or len(bad) == len(pieces) == 1:
        return []
    good = [piece for piece in pieces if piece not in bad]
    groups = [good] if good else []
    for piece in bad:
        groups += _split_class(data, piece, parse) or [[piece]]
    return [parse(group) for group in groups]


def _split_class(data: bytes, piece: ByteRange, parse: RangeParser) -> list[list[ByteRange]]:
    """Return a class without its broken members, and each of those with the class head; nothing for other pieces."""
    start, end = piece
    head = _STATEMENT_START.search(data, start, end)
    while head is not None and head[2] == b"@":
        head = _STATEMENT_START.search(data, head.end(), end)
    if head is None or head[2] != b"class":
        return []
    margin = _FIRST_MEMBER.search(data, head.end(), end)
    if margin is None:
        return []
    first, *members = _split_pieces(data, start, end, margin[1])
    opening = (start, data.find(b"\n", head.end()) + 1)
    if not members or len(members) > _MAX_PIECES:
        return []
    bad = [member for member in members if parse([opening, member]).has_error][:_MAX_BROKEN_PIECES]
    whole = [first, *(member for member in members if member not in bad)]
    return [whole, *([opening, member] for member in bad)]


def _split_pieces(data: bytes, start: int, end: int, margin: bytes) -> list[ByteRange]:
    """Cut at every statement that starts at a margin; decorators belong to their definition."""
    cuts = [start, *_find_cuts(data, start, end, margin), end]
    return [(first, last) for first, last in pairwise(cuts) if last > first]


def _find_cuts(data: bytes, start: int, end: int, margin: bytes) -> Iterator[int]:
    is_decorated = False
    for match in _STATEMENT_START.finditer(data, start, end):
        if match[1] != margin:
            continue
        if not is_decorated and match.start() > start:
            yield match.start()
        is_decorated = match[2] == b"@"
