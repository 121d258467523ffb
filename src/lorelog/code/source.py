"""Decode source files to UTF-8 for the parsers, and convert parser positions to lines and columns.

Unlike notes, source code in another encoding is accepted: names are nearly always ASCII, and a comment in Latin-1 is
not a reason to lose the symbols of a file.

Parsers count columns in bytes. In ASCII files that is the same as characters; otherwise a table for each line is made
on first use, so that a line of a million characters costs once and not once per name.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node


MAX_SOURCE_BYTES = 4_000_000
"""A larger file is generated, or data. A parser and its tree take a hundred times the size of the file."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY_CHECK_BYTES = 8000
"""A NUL byte in these bytes means binary, as in Git. Later ones are left to the parser."""
_ENCODING_COOKIE = re.compile(rb"\A(?:[ \t\f]*(?:#.*)?(?:\r\n|\r|\n))?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_NOT_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"})
"""Encodings of Python that are not encodings of source files."""
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\v\b\x1b")
_MINIFIED_MEAN_LINE, _MIN_MINIFIED_BYTES, _MINIFIED_LONGEST_LINE = 400, 4000, 20_000


class DecodedSource(Struct, frozen=True):
    """The UTF-8 text of a source file."""

    source: bytes
    """UTF-8 without byte order mark; empty if the file is refused."""
    refusal: str = ""
    """Why the file is refused: `binary`, `minified` or `too large`; empty if it is not."""


def decode_source(data: bytes, language: str = "") -> DecodedSource:
    """Decode a file to UTF-8, or refuse it. Never raises."""
    if len(data) > MAX_SOURCE_BYTES:
        return DecodedSource(b"", "too large")
    source = _decode(data, language)
    if source is None:
        return DecodedSource(b"", "binary")
    if b"\r" in source and b"\n" not in source:  # classic Mac OS line endings, which parsers do not know
        source = source.replace(b"\r", b"\n")
    if _is_minified(source):
        return DecodedSource(b"", "minified")
    return DecodedSource(source)


def _decode(data: bytes, language: str) -> bytes | None:
    """Return the text in UTF-8, read as Latin-1 if no other encoding fits; None for binary data."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _to_utf8(data[len(mark) :], encoding)
    head = data[:_BINARY_CHECK_BYTES]
    if b"\0" in head:
        encoding = _guess_utf16(head)
        return _to_utf8(data, encoding) if encoding else None
    cookie = _ENCODING_COOKIE.match(data) if language == "python" else None
    if cookie is not None:
        with suppress(LookupError, ValueError):
            charset = codecs.lookup(cookie[1].decode("ascii", "replace")).name
            recoded = _to_utf8(data, charset) if charset not in _NOT_CHARSETS else None
            if recoded is not None:
                return recoded
    recoded = _to_utf8(data, "utf-8")
    if recoded is not None:
        return recoded
    if len(head.translate(None, _CONTROL)) < len(head) * 0.95:
        return None
    return data.decode("latin-1").encode()


def _to_utf8(data: bytes, encoding: str) -> bytes | None:
    try:
        text = data.decode(encoding)
        return data if encoding == "utf-8" else text.encode()
    except (LookupError, ValueError, UnicodeError):
        return None


def _guess_utf16(head: bytes) -> str:
    """Guess the byte order of UTF-16 without a mark: in source code every other byte is then NUL."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > half * 0.7 and even < half * 0.05:
        return "utf-16-le"
    if even > half * 0.7 and odd < half * 0.05:
        return "utf-16-be"
    return ""


def _is_minified(source: bytes) -> bool:
    """Return True if lines are too long to be written by hand: symbols of such a file have no useful line."""
    if len(source) < _MIN_MINIFIED_BYTES:
        return False
    lines = source.count(b"\n") + 1
    if len(source) / lines > _MINIFIED_MEAN_LINE:
        return True
    longest = max(map(len, source.split(b"\n")))
    return longest > _MINIFIED_LONGEST_LINE and longest * 2 > len(source)


class SourceText:
    """A source file and its positions."""

    __slots__ = ("_columns", "_is_ascii", "_starts", "data", "lines")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        self._is_ascii = data.isascii()
        self._starts: list[int] | None = None
        self._columns: dict[int, list[int] | None] = {}

    def text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def slice(self, start: int, end: int) -> str:
        """Return the text between two byte offsets."""
        return self.data[start:end].decode("utf-8", "replace")

    def position(self, row: int, column: int) -> tuple[int, int]:
        """Convert a parser's row and byte column to a line and a column in characters, both from 1."""
        if self._is_ascii:
            return row + 1, column + 1
        if row not in self._columns:
            self._columns[row] = self._column_table(row)
        table = self._columns[row]
        if table is None:
            return row + 1, column + 1
        return row + 1, (table[column] if column < len(table) else table[-1]) + 1

    def _column_table(self, row: int) -> list[int] | None:
        """Return the number of characters before each byte of a line; None if the line is ASCII."""
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
