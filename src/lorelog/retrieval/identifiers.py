"""What a compound token is made of.

`src/HTTPServer_v2.py` is found by its whole, by its file name, by `HTTPServer_v2` and by `http`, `server`, `py`: every
level a person might remember is kept as it stands, and only the smallest parts are words to be stemmed. Numbers with
points or hyphens are cut by prefix instead (`1.2.3` gives `1.2`, `2026-03-05` gives `2026-03`), because a lone `2`
says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

LONGEST = 64
"""The longest word, in characters: a SHA-256 in hex. Longer wholes are left to their parts, longer parts are cut."""

Piece = tuple[str, bool]
"""A text, and whether it is a part (to be stemmed) rather than a compound (kept as it stands)."""

_LEVELS = (re.compile(r"[/:@]+|-\.|\.-"), re.compile(r"\."), re.compile(r"[-_]+"))
_DASHES = re.compile(r"--+|\.\.+")  # between words, not inside one
_EDGES = "-_./:@'"
_VERSION = re.compile(r"(?:^|(?<=[-_]))[vV]?(\d+(?:\.\d+)+)")
_NUMBERS = re.compile(r"\d+(?:-\d+)+")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d.*)")
_HUMPS = re.compile(
    r"[A-Z]{2,}s(?![a-z])"  # IDs, APIs
    r"|[A-Z0-9]+(?=[A-Z][a-z])"  # HTTP of HTTPServer
    r"|[A-Z0-9]++(?![a-z])"
    r"|[A-Z]?[a-z0-9]+"
    r"|[A-Z0-9]+"
)
_LETTERS_AND_NUMBER = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,})")
_SUFFIX = re.compile(r"(?:\+\+|#)$")
_CONTRACTED = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_NEGATED = {"ca": "can", "wo": "will", "sha": "shall"}


def split_token(token: str) -> Iterator[Piece]:
    """Yield what a composed token is to be found by: itself first when it is a compound, then its parts."""
    for text in chain.from_iterable(map(_DASHES.split, _without_contractions(token))):
        suffix = _SUFFIX.search(text)
        if suffix is None:
            yield from _split(text, 0)
            continue
        name = text[: suffix.start()]
        if len(name) == 1 or suffix.group() == "++":  # C#, C++, notepad++
            yield from _whole(name.strip(_EDGES) + suffix.group())
        yield from _split(name, 0)


def find_humps(name: str) -> list[tuple[int, int]]:
    """Return where the parts of a camelCase name begin and end; one span when it has no humps."""
    if name.islower() or name.isupper() or not name:
        return [(0, len(name))]
    shape = name if name.isascii() else "".join(map(_shape, name))
    spans = [match.span() for match in _HUMPS.finditer(shape)]
    return [(0, len(name))] if _is_blob(name, len(spans)) else spans


def _is_blob(name: str, humps: int) -> bool:
    """Tell base64 and random ids from somebody's naming: long, and changing case all the time."""
    usual = 4 if any(map(str.isdigit, name)) else 3
    return len(name) >= 20 and humps * usual > len(name)


def _without_contractions(token: str) -> list[str]:
    if "'" not in token:
        return [token]
    first, *others = token.split("'")
    if len(others) == 1 and others[0].lower() == "t" and first.lower().endswith("n"):
        verb = first[:-1].lower()
        return [_NEGATED.get(verb, verb), "not"]
    return [first, *(text for text in others if text.lower() not in _CONTRACTED)]


def _split(text: str, level: int) -> Iterator[Piece]:
    text = text.strip(_EDGES)
    if not text:
        return
    if level == len(_LEVELS):
        yield from _split_name(text)
        return
    if level == 1 and any(map(str.isdigit, text)):
        numbers = list(_split_numbers(text))
        if numbers:
            yield from numbers
            return
    parts = [part for part in _LEVELS[level].split(text) if part]
    if len(parts) > 1:
        yield from _whole(text)
    for part in parts:
        yield from _split(part, level + 1)


def _split_numbers(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text built around a version, a date or a time stamp; nothing when it is none of these."""
    if (stamp := _TIMESTAMP.fullmatch(text)) is not None:
        yield from _whole(text)
        yield from _prefixes(stamp[1], "-")
        yield from _split(stamp[2], 1)
    elif _NUMBERS.fullmatch(text):
        yield from _prefixes(text, "-")
    elif (version := _VERSION.search(text)) is not None:
        yield from _whole(text)
        yield from _split(text[: version.start()], 1)
        yield from _whole(version.group())
        yield from _prefixes(version[1], ".")
        yield from _split(text[version.end() :], 1)


def _prefixes(text: str, separator: str) -> Iterator[Piece]:
    yield from _whole(text)
    numbers = text.split(separator)
    for count in range(min(len(numbers) - 1, 3), 0, -1):
        prefix = separator.join(numbers[:count])
        if len(prefix) > 1:
            yield from _whole(prefix)


def _split_name(name: str) -> Iterator[Piece]:
    if len(name) > LONGEST:
        yield name[:LONGEST], False
        return
    spans = find_humps(name)
    if len(spans) > 1:
        yield name, True  # stemmed as its lower-case spelling is: getUserName is found by getusername
    for start, end in spans:
        part = name[start:end].casefold()  # before it is measured: ß is two letters
        mixed = _LETTERS_AND_NUMBER.fullmatch(part)
        if mixed is not None:
            yield part, False
            yield from ((text, True) for text in mixed.groups() if text)
        else:
            yield part, True


def _whole(text: str) -> Iterator[Piece]:
    if len(text) <= LONGEST:
        yield text, False


def _shape(character: str) -> str:
    if character.isupper():
        return "A"
    return "0" if character.isdigit() else "a"
