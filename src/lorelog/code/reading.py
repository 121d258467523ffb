"""A file's bytes as UTF-8 for the parsers, or the reason why it is not read.

Unlike notes, source code in a foreign encoding is not refused: names are ASCII nearly everywhere, and a comment in
Latin-1 is no reason to lose a file's symbols. What was assumed is told. Columns count characters of the text, so it does
not matter to anybody in what bytes it was written.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

MOST_BYTES = 4_000_000
"""A larger file is generated, or data. A parser and what is made of its tree take a hundred times a file's size."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD = 8000
"""As Git does: a NUL byte in here says binary. Later ones are a parser's business."""
_COOKIE = re.compile(rb"\A(?:[ \t\f]*(?:#.*)?(?:\r\n|\r|\n))?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_NOT_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"})
"""Python has them among its encodings; as a source file's encoding they are a trap."""
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\v\b\x1b")
_LONG_LINES, _SMALL, _LONGEST = 400, 4000, 20_000


@dataclass(frozen=True, slots=True)
class Reading:
    """A source file as its parser takes it."""

    source: bytes
    """UTF-8 without byte order mark; empty where it is refused."""
    encoding: str = "utf-8"
    """What it is written in. `latin-1` is what is assumed of bytes that are nothing else."""
    refusal: str = ""
    """Why it is not read: `binary`, `minified` or `too large`; empty where it is."""


def read_source(data: bytes, language: str = "", most: int = MOST_BYTES) -> Reading:
    """Return a file's text in UTF-8, or why there is none. Never raises."""
    if len(data) > most:
        return Reading(b"", refusal="too large")
    source, encoding = _decoded(data, language)
    if source is None:
        return Reading(b"", encoding, "binary")
    if b"\r" in source and b"\n" not in source:  # as old Macs ended lines; parsers know only the other one
        source = source.replace(b"\r", b"\n")
    if _is_minified(source):
        return Reading(b"", encoding, "minified")
    return Reading(source, encoding)


def _decoded(data: bytes, language: str) -> tuple[bytes | None, str]:
    """Return the text in UTF-8, None for what is no text; and what it was written in."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _recoded(data[len(mark) :], encoding), encoding
    head = data[:_HEAD]
    if b"\0" in head:
        encoding = _wide(head)
        return (_recoded(data, encoding), encoding) if encoding else (None, "")
    cookie = _COOKIE.match(data) if language == "python" else None
    if cookie is not None:
        named = _charset(cookie[1].decode("ascii", "replace"))
        recoded = _recoded(data, named) if named else None
        if recoded is not None:
            return recoded, named
    recoded = _recoded(data, "utf-8")
    if recoded is not None:
        return recoded, "utf-8"
    if len(head.translate(None, _CONTROL)) < len(head) * 0.95:
        return None, ""
    return data.decode("latin-1").encode(), "latin-1"


def _recoded(data: bytes, encoding: str) -> bytes | None:
    try:
        text = data.decode(encoding)
        return data if encoding == "utf-8" else text.encode()
    except (LookupError, ValueError, UnicodeError):
        return None


def _wide(head: bytes) -> str:
    """Return which UTF-16 bytes without a mark are: every other byte of source code is NUL then."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > half * 0.7 and even < half * 0.05:
        return "utf-16-le"
    if even > half * 0.7 and odd < half * 0.05:
        return "utf-16-be"
    return ""


def _charset(name: str) -> str:
    """Return the encoding that a cookie names; empty for none that text is written in."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    return "" if found.name in _NOT_CHARSETS else found.name


def _is_minified(source: bytes) -> bool:
    """Return whether lines are so long that nobody wrote them: the parts of such a file have no line to be shown at."""
    if len(source) < _SMALL:
        return False
    lines = source.count(b"\n") + 1
    if len(source) / lines > _LONG_LINES:
        return True
    longest = max(map(len, source.split(b"\n")))
    return longest > _LONGEST and longest * 2 > len(source)
