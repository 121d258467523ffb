"""Wildcards for paths and texts: `*`, `**` and `?`. They are not regular expressions.

A pattern may come from a repository, so matching never backtracks. A path is read once, with the set of possible pattern
positions kept in one integer; a text is searched for the pieces between the stars, from left to right. Both take time
proportional to the text. A hook loads this module: it imports nothing.
"""

from __future__ import annotations

MAX_PATTERN_CHARS = 300
MAX_PATH_CHARS = 4_096


def matches_path(pattern: str, path: str) -> bool:
    """Return True if a path below the project's root, with slashes, matches a pattern.

    `*` and `?` stay within one part, `**` crosses parts, and `**/` also stands for no directory. A pattern without a
    slash, or without wildcards, may begin in any directory; a leading slash makes it begin at the root. A pattern
    whose last part has no wildcard matches a file, or a directory with everything in it.
    """
    if not pattern or len(pattern) > MAX_PATTERN_CHARS or len(path) > MAX_PATH_CHARS:
        return False
    compiled = _COMPILED.get(pattern)
    if compiled is None:
        compiled = _COMPILED[pattern] = _PathPattern(pattern)
    return compiled.matches(path)


def matches_text(pattern: str, text: str) -> bool:
    """Return True if a whole text matches a pattern: `*` is any text, `?` any character."""
    pieces = pattern.split("*")
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(first) == len(text) and _starts_at(first, text, 0)
    if len(first) + len(last) > len(text):
        return False
    end = len(text) - len(last)
    if not _starts_at(first, text, 0) or not _starts_at(last, text, end):
        return False
    position = len(first)
    for piece in pieces[1:-1]:
        if piece:
            position = _find_piece(piece, text, position, end)
            if position < 0:
                return False
    return True


def has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def count_literals(pattern: str) -> int:
    """Return the number of characters that a pattern requires, not counting slashes, dots and spaces."""
    return sum(1 for char in pattern if char not in "*?/. ")


class _PathPattern:
    """A path pattern as bit masks: bit i of a mask is set if pattern position i has that property."""

    __slots__ = ("_across", "_dirs", "_end", "_literals", "_one", "_prefix_matches", "_skippable", "_within")

    def __init__(self, pattern: str) -> None:
        signs = _tokenize(_anchor_pattern(pattern))
        self._literals: dict[str, int] = {}
        self._one = self._within = self._across = self._dirs = 0
        for number, sign in enumerate(signs):
            bit = 1 << number
            if sign == "?":
                self._one |= bit
            elif sign == "*":
                self._within |= bit
            elif sign == "**":
                self._across |= bit
            elif sign == "**/":
                self._dirs |= bit
            else:
                self._literals[sign] = self._literals.get(sign, 0) | bit
        self._skippable = self._within | self._across | self._dirs
        self._end = 1 << len(signs)
        self._prefix_matches = not has_wildcard(pattern.rstrip("/").rpartition("/")[2])

    def matches(self, path: str) -> bool:
        states = self._skip(1)
        for char in path:
            if char == "/":
                if self._prefix_matches and states & self._end:
                    return True
                moved = (states & (self._literals.get(char, 0) | self._dirs)) << 1
                stay = states & self._across
            else:
                moved = (states & (self._literals.get(char, 0) | self._one)) << 1
                stay = states & (self._across | self._within)
            # A `**/` that has consumed part of a name may only be left after the next slash.
            states = self._skip(moved | stay) | (states & self._dirs)
            if not states:
                return False
        return bool(states & self._end)

    def _skip(self, states: int) -> int:
        """Return the states together with those reached by wildcards that stand for nothing."""
        while True:
            more = states | (states & self._skippable) << 1
            if more == states:
                return states
            states = more


_COMPILED: dict[str, _PathPattern] = {}


def _anchor_pattern(pattern: str) -> str:
    """Return the pattern with `**/` in front if it may begin in any directory, and `**` behind a trailing slash."""
    while pattern.startswith("./"):
        pattern = pattern[2:]
    is_directory = pattern.endswith("/")
    bare = pattern.strip("/")
    if not pattern.startswith("/") and ("/" not in bare or not has_wildcard(bare)):
        bare = f"**/{bare}"
    return f"{bare}/**" if is_directory else bare


def _tokenize(pattern: str) -> list[str]:
    signs: list[str] = []
    position, size = 0, len(pattern)
    while position < size:
        char = pattern[position]
        if char != "*":
            signs.append(char)
            position += 1
            continue
        end = position
        while end < size and pattern[end] == "*":
            end += 1
        if end - position == 1:
            sign = "*"
        elif end < size and pattern[end] == "/" and (position == 0 or pattern[position - 1] == "/"):
            sign, end = "**/", end + 1
        else:
            sign = "**"
        if not signs or sign == "*" or signs[-1] != sign:
            signs.append(sign)
        position = end
    return signs


def _starts_at(piece: str, text: str, position: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, position)
    if position + len(piece) > len(text):
        return False
    return all(char in ("?", text[position + number]) for number, char in enumerate(piece))


def _find_piece(piece: str, text: str, start: int, end: int) -> int:
    """Return the position behind the first occurrence of a piece in text[start:end], or -1."""
    if "?" not in piece:
        found = text.find(piece, start, end)
        return found + len(piece) if found >= 0 else -1
    wild = 0
    masks: dict[str, int] = {}
    for number, char in enumerate(piece):
        if char == "?":
            wild |= 1 << number
        else:
            masks[char] = masks.get(char, 0) | 1 << number
    states, last = 0, 1 << (len(piece) - 1)
    for position in range(start, end):
        states = ((states << 1) | 1) & (masks.get(text[position], 0) | wild)
        if states & last:
            return position + 1
    return -1
