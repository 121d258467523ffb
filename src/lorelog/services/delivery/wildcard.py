"""Wildcard patterns: `*`, `**` and `?`. Matching takes linear time, so that no pattern can stall a hook.

A pattern is cut at its stars into pieces that must occur one after the other. The first place where a piece fits is
also the best one, so nothing is ever tried again.
"""

from __future__ import annotations


def matches_text(pattern: str, text: str) -> bool:
    """Return True if the whole text matches: `*` is any run of characters, `?` is any single one."""
    pieces = pattern.split("*")
    if len(pieces) == 1:
        return len(text) == len(pattern) and _fits_at(pattern, text, 0)
    first, last = pieces[0], pieces[-1]
    end = len(text) - len(last)
    if end < len(first) or not _fits_at(first, text, 0) or not _fits_at(last, text, end):
        return False
    position = len(first)
    for piece in pieces[1:-1]:
        position = _find_piece(piece, text, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True


def matches_path(pattern: str, path: str) -> bool:
    """Return True if the whole path matches. `*` and `?` stay within one folder; `**` is any number of folders."""
    return _match_parts([part for part in pattern.split("/") if part != "."], path.split("/"))


def _match_parts(patterns: list[str], parts: list[str]) -> bool:
    position, index = 0, 0
    star, resume = -1, 0
    while position < len(parts):
        if index < len(patterns) and patterns[index] == "**":
            star, resume = index, position
            index += 1
        elif index < len(patterns) and matches_text(patterns[index], parts[position]):
            index += 1
            position += 1
        elif star >= 0:
            resume += 1
            index, position = star + 1, resume
        else:
            return False
    return all(pattern == "**" for pattern in patterns[index:])


def _fits_at(piece: str, text: str, start: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, start)
    return all(letter in ("?", other) for letter, other in zip(piece, text[start : start + len(piece)], strict=True))


def _find_piece(piece: str, text: str, start: int, end: int) -> int:
    if "?" not in piece:
        return text.find(piece, start, end)
    return next((at for at in range(start, end - len(piece) + 1) if _fits_at(piece, text, at)), -1)
