"""Bytes of a source file, and places in them as people count them.

Parsers count columns in bytes. Files are nearly always ASCII, where that is the same; else the table of a line is made
when the first name on it is asked for, so that a line of a million characters costs once and not once per name.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


class Source:
    """What is parsed, and where things are in it."""

    __slots__ = ("_columns", "_is_ascii", "_starts", "data", "lines")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        self._is_ascii = data.isascii()
        self._starts: list[int] | None = None
        self._columns: dict[int, list[int] | None] = {}

    def text(self, node: Node) -> str:
        """Return what a node covers."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def slice(self, start: int, end: int) -> str:
        """Return what is between two byte offsets."""
        return self.data[start:end].decode("utf-8", "replace")

    def place(self, row: int, column: int) -> tuple[int, int]:
        """Return line and column, in characters from 1, of a parser's row and byte column."""
        if self._is_ascii:
            return row + 1, column + 1
        if row not in self._columns:
            self._columns[row] = self._table(row)
        table = self._columns[row]
        if table is None:
            return row + 1, column + 1
        return row + 1, (table[column] if column < len(table) else table[-1]) + 1

    def _table(self, row: int) -> list[int] | None:
        """Return how many characters are before each byte of a line; None where bytes are characters."""
        if self._starts is None:
            self._starts = [0]
            for line in self.data.split(b"\n"):
                self._starts.append(self._starts[-1] + len(line) + 1)
        if row + 1 >= len(self._starts):
            return None
        line = self.data[self._starts[row] : self._starts[row + 1]]
        if line.isascii():
            return None
        return [0, *accumulate(byte & 0xC0 != 0x80 for byte in line)]
