"""A glance at the section around a chunk: about what `expand` would show, without parsing the file.

Every hit of every search says what expanding it would cost, so this must cost next to nothing: no parser is loaded, and
of a large file only the parts are read where the chunk should be. The chunk is found by its own text, and its section's
ends by headings that begin a line with `#` outside of fences. That misses underlined headings, and takes headings in
comments for real; `bounds` is exact. What comes of it is only ever counted, never shown.
"""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Self

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_HEAD = 1 << 16
_COUNTED = 1 << 14
_REACHES = (1 << 15, 1 << 18, 1 << 24)
"""How far from where a line is guessed to be one looks for it; a file may have grown since, to any size."""
_WINDOWS = (1 << 13, 1 << 16, 1 << 18)
"""How much is read to find the end of a section; a longer one is taken to end there."""
_LONGEST_MARK = len("\n###### ")


class Glance:
    """One open file. A file that is gone or is no file any more is as good as empty."""

    def __init__(self, source: str) -> None:
        self._file = _open(source)
        self._head = self._read(0, _HEAD)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def section(self, content: str, line: int, level: int) -> str:
        """Return the section of a heading of `level` that holds this content; empty when the file does not have it.

        `line` is where it begins, counted from 1, or was when it was indexed.
        """
        needle = content.encode("utf-8", "surrogatepass")
        at = self._locate(needle.replace(b"\n", b"\r\n") if b"\r\n" in self._head[:_COUNTED] else needle, line)
        if at < 0:
            return ""
        start = self._start(at, content, level)
        return self._until_next(start, level).decode("utf-8", "replace").rstrip()

    def _locate(self, needle: bytes, line: int) -> int:
        """Return where the needle begins, or -1."""
        at = _find_on(self._head, needle, line)
        if at >= 0 or len(self._head) < _HEAD:
            return at
        guess = line * _COUNTED // max(self._head.count(b"\n", 0, _COUNTED), 1)
        for reach in _REACHES:
            low = max(guess - reach, 0)
            at = self._read(low, guess + reach + len(needle) - low).find(needle)
            if at >= 0:
                return low + at
        return -1

    def _start(self, at: int, content: str, level: int) -> int:
        """Return where the section begins: at the chunk, unless the heading of its level stands above it."""
        if level == 0:
            return 0
        first, _, rest = content.partition("\n")
        mark = "#" * level + " "
        if first.lstrip().startswith(mark) or _underlines(rest.partition("\n")[0]):
            return at
        low = max(at - _HEAD, 0)
        above = self._read(low, at - low)
        found = above.rfind(b"\n" + mark.encode())
        return low + found + 1 if found >= 0 else low if above.startswith(mark.encode()) else at

    def _until_next(self, start: int, level: int) -> bytes:
        """Return what stands between here and the next heading of this level or a higher one."""
        text = b""
        for window in _WINDOWS:
            text = self._read(start, window)
            end = _next_heading(text, level or 6)
            if 0 <= end < window - _LONGEST_MARK or len(text) < window:
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
    """Open a file to count in it. A directory above may be a link by now; only the same content gives an answer."""
    try:
        file = os.open(source, _FLAGS)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _find_on(text: bytes, needle: bytes, line: int) -> int:
    """Return where a needle begins: of several places the first that is not above its line, or else the first; or -1."""
    first = at = text.find(needle)
    counted, above = 0, 0
    while at >= 0:
        above += text.count(b"\n", counted, at)
        if above >= line - 1:
            return at
        counted, at = at, text.find(needle, at + 1)
    return first


def _next_heading(text: bytes, level: int) -> int:
    """Return where the line break before the next heading of at most this level is, or -1."""
    at, fences = 0, 0
    while (following := text.find(b"\n#", at)) >= 0:
        fences += text.count(b"```", at, following) + text.count(b"\n~~~", at, following)
        line = text[following + 1 : following + _LONGEST_MARK]
        bare = line.lstrip(b"#")
        if fences % 2 == 0 and len(line) - len(bare) <= level and (not bare or bare[:1].isspace()):
            return following
        at = following + 1
    return -1


def _underlines(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not (bare.strip("=") and bare.strip("-"))
