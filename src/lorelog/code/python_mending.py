"""What of a broken Python file can be read: an open bracket must not cost what comes after it.

Inside brackets Python's lines do not end, so a parser that meets `def f(` without its other half takes the following
definitions for arguments; and a file is in this state whenever somebody types. Definitions begin at the margin of what they
are in, though. So a file with errors is cut there, each piece is tried alone, and pieces that fail are read apart from
those that do not. The same is done once more inside of classes that fail. Assignments and imports are cut at, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_PIECES = 3000
_MOST_BAD = 50
_HEAD = re.compile(
    rb"^([ \t]*)(@|(?:async[ \t]+def|def|class|if|import)\b|from[ \t]+[\w.]+[ \t]+import\b|[^\W\d]\w*[ \t]*(?::[^=\n]+)?=(?!=))",
    re.MULTILINE,
)
"""What begins a statement, and is no line of a docstring: not every word does."""
_MEMBER = re.compile(rb"\n([ \t]+)(?=[^\s#])")

Stretch = tuple[int, int]
Parse = Callable[[list[Stretch]], "Node"]
"""Parses some stretches of the file as if they were all of it."""


def mended(data: bytes, parse: Parse) -> list[Node]:
    """Return trees that together say more of a broken file than one; none where they would not."""
    pieces = _pieces(data, 0, len(data), b"")
    if len(pieces) > _MOST_PIECES:
        return []
    bad = [piece for piece in pieces if parse([piece]).has_error]
    if not bad or len(bad) > _MOST_BAD or len(bad) == len(pieces) == 1:
        return []
    good = [piece for piece in pieces if piece not in bad]
    views = [good] if good else []
    for piece in bad:
        views += _class_views(data, piece, parse) or [[piece]]
    return [parse(view) for view in views]


def _class_views(data: bytes, piece: Stretch, parse: Parse) -> list[list[Stretch]]:
    """Return a class without its broken members, and each of those below the class's head; nothing for other pieces."""
    start, end = piece
    head = _HEAD.search(data, start, end)
    while head is not None and head[2] == b"@":
        head = _HEAD.search(data, head.end(), end)
    if head is None or head[2] != b"class":
        return []
    member = _MEMBER.search(data, head.end(), end)
    if member is None:
        return []
    first, *members = _pieces(data, start, end, member[1])
    opening = (start, data.find(b"\n", head.end()) + 1)
    if not members or len(members) > _MOST_PIECES:
        return []
    bad = [one for one in members if parse([opening, one]).has_error][:_MOST_BAD]
    whole = [first, *(one for one in members if one not in bad)]
    return [whole, *([opening, one] for one in bad)]


def _pieces(data: bytes, start: int, end: int, margin: bytes) -> list[Stretch]:
    """Cut at every definition that begins at a margin; decorators belong to what they decorate."""
    cuts = [start, *_cuts(data, start, end, margin), end]
    return [(one, other) for one, other in pairwise(cuts) if other > one]


def _cuts(data: bytes, start: int, end: int, margin: bytes) -> Iterator[int]:
    is_decorated = False
    for found in _HEAD.finditer(data, start, end):
        if found[1] != margin:
            continue
        if not is_decorated and found.start() > start:
            yield found.start()
        is_decorated = found[2] == b"@"
