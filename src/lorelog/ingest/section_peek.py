"""Read the section around a chunk approximately and cheaply, to estimate the cost of `expand`.

Every hit of every search reports that cost, so this loads no parser and reads only the parts of a large file where the
chunk should be. It finds the chunk by its text, and the section's ends by lines that begin with `#` outside fences.
That misses underlined headings and accepts headings inside comments; `outline.section_bounds` is exact. The result is
only ever measured, never shown.
"""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Self

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_HEAD_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 14
_SEARCH_RADII = (1 << 15, 1 << 18, 1 << 24)
"""How far around the estimated position to search; the file may have grown since it was indexed."""
_READ_WINDOWS = (1 << 13, 1 << 16, 1 << 18)
"""How much to read to find the end of a section; a longer section is taken to end there."""
_MAX_HEADING_MARK = len("\n###### ")


class SectionPeek:
    """An open file. A file that is missing or is not a regular file reads as empty."""

    def __init__(self, source: str) -> None:
        self._file = _open(source)
        self._head = self._read(0, _HEAD_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def section(self, content: str, line: int, level: int) -> str:
        """Return the section with a heading of `level` around this content; empty if the file does not contain it.

        `line` is the content's first line (from 1) at the time of indexing.
        """
        needle = content.encode("utf-8", "surrogatepass")
        at = self._locate(needle.replace(b"\n", b"\r\n") if b"\r\n" in self._head[:_SAMPLE_BYTES] else needle, line)
        if at < 0:
            return ""
        start = self._section_start(at, content, level)
        return self._read_until_heading(start, level).decode("utf-8", "replace").rstrip()

    def _locate(self, needle: bytes, line: int) -> int:
        """Return the offset of the needle, or -1."""
        at = _find_from_line(self._head, needle, line)
        if at >= 0 or len(self._head) < _HEAD_BYTES:
            return at
        guess = line * _SAMPLE_BYTES // max(self._head.count(b"\n", 0, _SAMPLE_BYTES), 1)
        for radius in _SEARCH_RADII:
            low = max(guess - radius, 0)
            at = self._read(low, guess + radius + len(needle) - low).find(needle)
            if at >= 0:
                return low + at
        return -1

    def _section_start(self, at: int, content: str, level: int) -> int:
        """Return the offset of the section: the chunk's own, or that of the heading of its level above it."""
        if level == 0:
            return 0
        first, _, rest = content.partition("\n")
        mark = "#" * level + " "
        if first.lstrip().startswith(mark) or _is_underline(rest.partition("\n")[0]):
            return at
        low = max(at - _HEAD_BYTES, 0)
        above = self._read(low, at - low)
        heading = above.rfind(b"\n" + mark.encode())
        return low + heading + 1 if heading >= 0 else low if above.startswith(mark.encode()) else at

    def _read_until_heading(self, start: int, level: int) -> bytes:
        """Return the text from `start` to the next heading of this level or a higher one."""
        text = b""
        for window in _READ_WINDOWS:
            text = self._read(start, window)
            end = _next_heading(text, level or 6)
            if 0 <= end < window - _MAX_HEADING_MARK or len(text) < window:
                return text[:end] if end >= 0 else text
        return text

    def _read(self, start: int, length: int) -> bytes:
        if self._file is None:
            return b""
        try:
            return os.pread(self._file, length, start)
        except OSError:
            return b""


def _open(source: str) -> int | None:
    """Open a regular file, else return None. Links in parent directories are harmless: the content must match."""
    try:
        file = os.open(source, _FLAGS)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _find_from_line(text: bytes, needle: bytes, line: int) -> int:
    """Return the offset of the first match at or below a line, else of the first match, else -1."""
    first = at = text.find(needle)
    counted, above = 0, 0
    while at >= 0:
        above += text.count(b"\n", counted, at)
        if above >= line - 1:
            return at
        counted, at = at, text.find(needle, at + 1)
    return first


def _next_heading(text: bytes, level: int) -> int:
    """Return the offset of the line break before the next heading of at most this level, or -1."""
    at, fences = 0, 0
    while (following := text.find(b"\n#", at)) >= 0:
        fences += text.count(b"```", at, following) + text.count(b"\n~~~", at, following)
        line = text[following + 1 : following + _MAX_HEADING_MARK]
        bare = line.lstrip(b"#")
        if fences % 2 == 0 and len(line) - len(bare) <= level and (not bare or bare[:1].isspace()):
            return following
        at = following + 1
    return -1


def _is_underline(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not (bare.strip("=") and bare.strip("-"))
