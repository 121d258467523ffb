"""The tokens of a file: what a definition does, without comments and layout, as one number; and the comments.

Bytes that no node covers (many grammars leave a string's content bare) are tokens too: what is not white space counts.
A definition's own name does not, so that a renamed function is the same function.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from lorelog.code.source import Source


class Tokens:
    """What a file consists of, in order."""

    __slots__ = ("starts", "texts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.texts: list[bytes] = []

    @classmethod
    def joined(cls, parts: Iterable[Tokens]) -> Tokens:
        """Return the tokens of several trees of one file, each once, in the file's order."""
        first, *others = parts
        if others:
            once = {
                place: text for part in (first, *others) for place, text in zip(part.starts, part.texts, strict=True)
            }
            first.starts, first.texts = [list(one) for one in zip(*sorted(once.items()), strict=True)] or ([], [])
        return first

    def digest(self, start: int, end: int, name: str) -> str:
        """Return what is between two byte offsets as 16 hexadecimal digits, `name` left out."""
        own = name.encode()
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        tokens = [b"" if text == own else text for text in self.texts[first:last]]
        return hashlib.blake2b(b"\0".join(tokens), digest_size=8).hexdigest()


class Comments:
    """Where comments are that stand alone on their lines, by the row they end on."""

    __slots__ = ("_between", "_by_end")

    def __init__(self) -> None:
        self._by_end: dict[int, Node] = {}
        self._between: dict[int, int] = {}

    def add(self, node: Node, source: Source) -> None:
        """Keep a comment that something below it may be about."""
        start, row = node.start_byte, node.start_point[0]
        line = source.data.rfind(b"\n", max(0, start - 1000), start) + 1
        if not source.data[line:start].strip():
            self._by_end.setdefault(_last_row(node, row), node)

    def pass_over(self, node: Node) -> None:
        """Note what may stand between a comment and what it is about."""
        row = node.start_point[0]
        self._between.setdefault(_last_row(node, row), row)

    def above(self, row: int) -> tuple[Node, ...]:
        """Return the comments directly above a row, topmost first."""
        found: list[Node] = []
        while len(found) < 200:
            row -= 1
            node = self._by_end.get(row)
            if node is not None:
                found.append(node)
                row = node.start_point[0]
            elif row in self._between and not found:
                row = self._between[row]
            else:
                break
        return tuple(reversed(found))


def read_tokens(
    root: Node,
    source: Source,
    comments: frozenset[str],
    between: frozenset[str] = frozenset(),
    blocks: frozenset[str] = frozenset(),
    silent: Container[int] = (),
) -> tuple[Tokens, Comments]:
    """Return the tokens and the comments of a tree. A loop over a stack, so that depth does not matter.

    `blocks` are kinds of nodes whose beginning and end count where the language marks them by layout alone; strings
    that begin at one of `silent` are documentation, and do not count.
    """
    tokens, seen, data = Tokens(), Comments(), source.data
    add_start, add_text = tokens.starts.append, tokens.texts.append
    special = comments | between | blocks | ({"string", "concatenated_string"} if silent else set())
    last = 0
    stack: list[Node | None] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            add_start(last)
            add_text(b"}")
            continue
        kind = node.type
        if kind in special:
            if kind in comments or (kind not in blocks and node.start_byte in silent):
                seen.add(node, source)
                last = node.end_byte
                continue
            if kind in between:
                seen.pass_over(node)
            elif kind in blocks:
                add_start(last)
                add_text(b"{")
                stack.append(None)
        children = node.children
        if children:
            children.reverse()
            stack += children
            continue
        start, end = node.start_byte, node.end_byte
        if start > last:
            gap = data[last:start].strip()
            if gap:
                add_start(last)
                add_text(gap)
        if end > start:
            add_start(start)
            add_text(data[start:end])
        last = end
    return tokens, seen


def _last_row(node: Node, first: int) -> int:
    """Return the row a node ends on. Some grammars count the line's end into a comment."""
    row, column = node.end_point
    return row - 1 if column == 0 and row > first else row
