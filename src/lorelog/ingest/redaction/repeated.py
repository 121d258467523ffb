"""Redact a value everywhere once one occurrence of it was recognised as a secret.

A key is recognised by its form or by the words around it (`password: …`). Where it is repeated without them, as in a
command line or an error message, no rule applies. So the values that redaction removed from the texts that belong
together are collected, and removed from all of these texts.

A redaction function returns text only, so its result is compared with the original. The unchanged passages between
markers are located from the left and from the right; a value counts only if both give the same place, which is then
the only possible one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from lorelog.ingest.redaction.values import MARKER, is_placeholder

RedactText = Callable[[str], str]

_MIN_CHARS = 6
_MIN_WORD_CHARS = 8
"""A shorter value of letters only or digits only is a word or a number that may stand anywhere."""
_MIN_PART_CHARS = 16
"""A value of this length is removed from the middle of longer words too."""
_WORD_CHARACTER = re.compile(r"\w")


def known_value_redactor(texts: Iterable[str], redact: RedactText) -> RedactText:
    """Return a function that redacts as `redact` does, and also every secret that `redact` finds in the texts."""
    values: dict[str, str] = {}
    for text in texts:
        redacted = redact(text)
        if redacted != text:
            values.update(removed_values(text, redacted))
    if not values:
        return redact
    pattern = re.compile("|".join(_value_pattern(value) for value in sorted(values, key=lambda value: -len(value))))

    def redact_known(text: str) -> str:
        return redact(pattern.sub(lambda match: values[match[0]], text))

    return redact_known


def removed_values(text: str, redacted: str) -> Iterator[tuple[str, str]]:
    """Yield the secrets that redaction removed from a text, each with its marker."""
    markers = list(MARKER.finditer(redacted))
    ends = [0, *(marker.end() for marker in markers)]
    starts = [*(marker.start() for marker in markers), len(redacted)]
    passages = [redacted[end:start] for end, start in zip(ends, starts, strict=True)]
    left, right = _locate_from_left(text, passages), _locate_from_right(text, passages)
    if left is None or right is None:
        return
    for index, marker in enumerate(markers):
        start, end = left[index] + len(passages[index]), left[index + 1]
        if left[index : index + 2] == right[index : index + 2] and marker[0] != "[private]":
            value = text[start:end].strip("\"'`")
            if _is_distinctive(value):
                yield value, marker[0]


def _locate_from_left(text: str, passages: list[str]) -> list[int] | None:
    """Return the first possible position of each passage, the last one at the end; None if they do not fit."""
    positions: list[int] = []
    position = 0
    for passage in passages[:-1]:
        found = text.find(passage, position) if positions else (0 if text.startswith(passage) else -1)
        if found < 0:
            return None
        positions.append(found)
        position = found + len(passage)
    last = len(text) - len(passages[-1])
    return [*positions, last] if last >= position and text.endswith(passages[-1]) else None


def _locate_from_right(text: str, passages: list[str]) -> list[int] | None:
    """Return the last possible position of each passage, the first one at the start; None if they do not fit."""
    mirrored = _locate_from_left(text[::-1], [passage[::-1] for passage in reversed(passages)])
    if mirrored is None:
        return None
    return [len(text) - position - len(passage) for position, passage in zip(reversed(mirrored), passages, strict=True)]


def _is_distinctive(value: str) -> bool:
    """Return True if a value is too unusual to stand in a text with another meaning."""
    if len(value) < _MIN_CHARS or any(character.isspace() for character in value) or MARKER.search(value):
        return False
    if (value.isdigit() or not any(character.isdigit() for character in value)) and len(value) < _MIN_WORD_CHARS:
        return False
    return not is_placeholder(value)


def _value_pattern(value: str) -> str:
    before = r"(?<!\w)" if _WORD_CHARACTER.match(value) else ""
    after = r"(?!\w)" if _WORD_CHARACTER.match(value[-1]) else ""
    return re.escape(value) if len(value) >= _MIN_PART_CHARS else f"{before}{re.escape(value)}{after}"
