"""Cutting one line that is too long: after a sentence, else after a word, else anywhere but inside a character.

A sentence or word end counts only in the last three quarters of the room, because a piece that says just `Yes.` is
worse than a cut between two words.
"""

from __future__ import annotations

import re
import unicodedata

_CJK = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_SENTENCE_END = re.compile(rf"[。！？；…][”’」』）\s]{{0,8}}|[.!?;][\"'”’)\]]{{0,3}}(?:\s{{1,8}}|(?=[{_CJK}]))")
_ZERO_WIDTH_JOINER = "\u200d"


def split_line(line: str, room: int, limit: int) -> list[tuple[int, int]]:
    """Return the columns of a line's parts, blank ends left out: the first fits `room`, all others `limit`."""
    parts: list[tuple[int, int]] = []
    position = 0
    while position < len(line):
        end = len(line) if len(line) - position <= room else _cut(line, position, position + room)
        part = line[position:end]
        start = position + len(part) - len(part.lstrip())
        stop = position + len(part.rstrip())
        if start < stop:
            parts.append((start, stop))
        position, room = end, limit
    return parts


def _cut(line: str, start: int, end: int) -> int:
    """Return the best column to cut at: after `start`, at most `end`."""
    least = start + (end - start) // 4
    sentence = 0
    for found in _SENTENCE_END.finditer(line, start, end + 1):  # one further: what follows a stop decides
        if found.start() < end:
            sentence = min(found.end(), end)
    if sentence > least:
        return sentence
    word = max(line.rfind(" ", start, end + 1), line.rfind("\t", start, end + 1))
    if word > least:
        return word
    for column in range(end, max(start, end - 16), -1):
        if not _is_joined(line, column):
            return column
    return end


def _is_joined(line: str, column: int) -> bool:
    """Tell whether the character at a column belongs to the one before it."""
    character = line[column]
    return (
        unicodedata.combining(character) != 0
        or character == _ZERO_WIDTH_JOINER
        or line[column - 1] == _ZERO_WIDTH_JOINER
        or "\ufe00" <= character <= "\ufe0f"  # variation selectors
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
    )
