"""Names in code: split and compare them; and read the tokens and comments of a file.

Definitions get a digest from the tokens, without comments and layout. Bytes that no node covers (many grammars leave
the content of a string bare) are tokens too, unless they are white space. The own name of a definition is left out, so
that a renamed function keeps its digest.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from lorelog.code.source import SourceText


_FILE_SUFFIX = re.compile(r"\.(?:h|hh|hpp|hxx|inc|[cm]?[jt]sx?|php|rb|css|json|vue|svelte)$")

_SIGNS = re.compile(r"[\W_]+")


def module_tail(module: str) -> str:
    """Return the last part of a module's name, without a file suffix."""
    last = re.split(r"/|::|\\", module.rstrip("/"))[-1]
    if "/" in module or "\\" in module or _FILE_SUFFIX.search(last):
        return last.split(".", 1)[0] or last
    return last.rpartition(".")[2] or last


def module_ends_with(module: str, ending: str) -> bool:
    """Return True if the last parts of a module's name are those of `ending`; file suffixes do not count."""
    parts, ending_parts = _module_parts(module), _module_parts(ending)
    return bool(ending_parts) and parts[-len(ending_parts) :] == ending_parts


def _module_parts(module: str) -> list[str]:
    tail = module_tail(module)
    head = module[: module.rfind(tail)] if tail and tail in module else ""
    return [*name_parts(head), tail]


def name_parts(text: str) -> list[str]:
    """Split a qualified name, a module or a path at its separators."""
    return [part for part in re.split(r"/|::|->|\\|\.|#", text) if part]


def plain_name(name: str) -> str:
    """Return a name for a comparison in which case, underscores and signs do not matter."""
    return _SIGNS.sub("", name.casefold())


class Tokens:
    """The tokens of a file in order, by start byte."""

    __slots__ = ("starts", "texts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.texts: list[bytes] = []

    @classmethod
    def merge(cls, parts: Iterable[Tokens]) -> Tokens:
        """Merge the tokens of several trees of one file."""
        merged = cls()
        by_start = {start: text for part in parts for start, text in zip(part.starts, part.texts, strict=True)}
        merged.starts = sorted(by_start)
        merged.texts = [by_start[start] for start in merged.starts]
        return merged

    def digest(self, start: int, end: int, name: str) -> str:
        """Return a digest of 16 hexadecimal digits of the tokens between two byte offsets, without `name`."""
        own = name.encode()
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        tokens = [b"" if text == own else text for text in self.texts[first:last]]
        return hashlib.blake2b(b"\0".join(tokens), digest_size=8).hexdigest()


class Comments:
    """Comments that are alone on their lines, by the row they end on."""

    __slots__ = ("_between", "_by_end")

    def __init__(self) -> None:
        self._by_end: dict[int, Node] = {}
        self._between: dict[int, int] = {}

    def add(self, node: Node, source: SourceText) -> None:
        """Add a comment that may document the definition below it."""
        start, row = node.start_byte, node.start_point[0]
        line = source.data.rfind(b"\n", max(0, start - 1000), start) + 1
        if not source.data[line:start].strip():
            self._by_end.setdefault(_last_row(node, row), node)

    def skip(self, node: Node) -> None:
        """Add a node that may be between a comment and its definition."""
        row = node.start_point[0]
        self._between.setdefault(_last_row(node, row), row)

    def above(self, row: int) -> tuple[Node, ...]:
        """Return the comments directly above a row, topmost first."""
        comments: list[Node] = []
        while len(comments) < 200:
            row -= 1
            node = self._by_end.get(row)
            if node is not None:
                comments.append(node)
                row = node.start_point[0]
            elif row in self._between and not comments:
                row = self._between[row]
            else:
                break
        return tuple(reversed(comments))


def read_tokens(
    root: Node,
    source: SourceText,
    comments: frozenset[str],
    *,
    between: frozenset[str] = frozenset(),
    blocks: frozenset[str] = frozenset(),
    silent: Container[int] = (),
) -> tuple[Tokens, Comments]:
    """Return the tokens and the comments of a tree. Not recursive, so that any depth works.

    `blocks` are node types whose start and end are tokens, for languages that mark blocks by layout alone. Strings that
    start at one of the bytes `silent` are documentation, and are not tokens.
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
                seen.skip(node)
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
    """Return the row a node ends on. Some grammars include the line break in a comment."""
    row, column = node.end_point
    return row - 1 if column == 0 and row > first else row
