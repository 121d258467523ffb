"""Splits text into tokens, and compound tokens into their parts.

A token is a word, an identifier, a path, a version, or a run of a script without spaces. Tokens are found in the raw
text and normalised one by one afterwards, so that indexed words and the positions that a snippet marks come from the
same split and cannot disagree. The patterns are possessive and bounded: no input makes them backtrack.

`src/HTTPServer_v2.py` is found by its whole, by its file name, by `HTTPServer_v2` and by `http`, `server`, `py`:
every level a person might remember is kept unchanged, and only the smallest parts are stemmed. Numbers with points or
hyphens are split into prefixes instead (`1.2.3` gives `1.2`, `2026-03-05` gives `2026-03`), because a lone `2` says
nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # Han iteration marks and zero
    (0x3041, 0x309A),  # Hiragana
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),  # Katakana
    (0x30FC, 0x318F),  # its length mark, Bopomofo, Hangul letters
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),  # Hangul syllables
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),  # half-width kana and Hangul
    (0x20000, 0x3FFFF),
)
"""Scripts that are matched by pairs of characters because no space separates words (Hangul has spaces, but its
particles are attached to the words).
"""

_MARKS = (
    "\u00ad\u200c\u200d"  # soft hyphen and joiners: invisible, inside words
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u0900-\u0963\u0966-\u096f\u0971-\u0dff\u0f71-\u0f84\u0f90-\u0fbc"
    "\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"
)
"""Characters inside words that are not letters, which `\\w` does not match."""

_MAX_JOINTS = 30
_SUFFIX = r"(?:\+\+|#(?!\w))?+"  # C++, C#
_ASCII_TOKEN = re.compile(rf"\w++(?:[-./:@']{{1,4}}\w++){{0,{_MAX_JOINTS}}}+{_SUFFIX}", re.ASCII)

_NAME_RUN = re.compile(r"[^\W_]+")
_DIACRITICS = re.compile("[\u0300-\u036f]+")
_INVISIBLE = re.compile("[\u00ad\u200c\u200d]+")
_ODD_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Latin letters that Unicode does not decompose into a letter and a mark."""


def find_tokens(text: str) -> list[str]:
    """Return the raw tokens of a text in order."""
    return _pattern_for(text).findall(text)


def find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each token of `find_tokens`."""
    return (match.span() for match in _pattern_for(text).finditer(text))


def find_matches(text: str) -> Iterator[re.Match[str]]:
    """Yield the match object of each token of `find_tokens`."""
    return _pattern_for(text).finditer(text)


def find_names(token: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the runs of letters and digits inside a token."""
    return (match.span() for match in _NAME_RUN.finditer(token))


def is_unspaced(token: str) -> bool:
    """Return True for a run of a script without spaces."""
    code = ord(token[0])
    return code >= _UNSPACED[0][0] and any(first <= code <= last for first, last in _UNSPACED)


def compose(token: str) -> str:
    """Return a token in one Unicode form with its case: full width becomes narrow, ligatures become letters."""
    if token.isascii():
        return token
    token = unicodedata.normalize("NFKC", _INVISIBLE.sub("", token))
    return token.replace("’", "'").replace("ʼ", "'")


def fold(text: str) -> str:
    """Return a composed token without case and without accents.

    Only general combining marks are removed (accents of Latin, Greek and Cyrillic); kana, Hangul and the vowel signs
    of other scripts are kept.
    """
    if text.isascii():
        return text.lower()
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFD", text.casefold()))
    return unicodedata.normalize("NFC", bare).translate(_ODD_LETTERS)


def _pattern_for(text: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if text.isascii() else _wide_pattern()


@cache
def _wide_pattern() -> re.Pattern[str]:
    """Return the pattern for all scripts; compiled on first use, which takes ten milliseconds."""
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)
    letters = rf"[^\W{unspaced}]++"
    joint = rf"[{_MARKS}./:@'’-]{{1,4}}"
    return re.compile(rf"[{unspaced}]++|{letters}(?:{joint}{letters}){{0,{_MAX_JOINTS}}}+[{_MARKS}]*+{_SUFFIX}")


MAX_TOKEN_CHARS = 64
"""Maximum length of a word: a SHA-256 in hex. Longer compounds are found by their parts, longer parts are cut."""

Piece = tuple[str, bool]
"""A text, and whether it is a part (to be stemmed) rather than a compound (kept unchanged)."""

_SPLIT_LEVELS = (re.compile(r"[/:@]+|-\.|\.-"), re.compile(r"\."), re.compile(r"[-_]+"))
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
LETTERS_AND_NUMBER = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,})")
_SYMBOL_SUFFIX = re.compile(r"(?:\+\+|#)$")
_CONTRACTION_ENDINGS = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_NEGATION_STEMS = {"ca": "can", "wo": "will", "sha": "shall"}


def split_token(token: str) -> Iterator[Piece]:
    """Yield the pieces of a composed token: itself first if it is a compound, then its parts."""
    if token.isalnum():  # the usual case: nothing to split at
        yield from _split_name(token)
        return
    for text in chain.from_iterable(map(_DASHES.split, _without_contractions(token))):
        suffix = _SYMBOL_SUFFIX.search(text)
        if suffix is None:
            yield from _split_at_level(text, 0)
            continue
        name = text[: suffix.start()]
        if len(name) == 1 or suffix.group() == "++":  # C#, C++, notepad++
            yield from _whole_piece(name.strip(_EDGES) + suffix.group())
        yield from _split_at_level(name, 0)


def find_humps(name: str) -> list[tuple[int, int]]:
    """Return the spans of the parts of a camelCase name; one span if it has no humps."""
    if name.islower() or name.isupper() or not name:
        return [(0, len(name))]
    shape = name if name.isascii() else "".join(map(_character_class, name))
    spans = [match.span() for match in _HUMPS.finditer(shape)]
    return [(0, len(name))] if _is_blob(name, len(spans)) else spans


def _is_blob(name: str, humps: int) -> bool:
    """Return True for base64 and random ids: long, and changing case constantly."""
    usual = 4 if any(map(str.isdigit, name)) else 3
    return len(name) >= 20 and humps * usual > len(name)


def _without_contractions(token: str) -> list[str]:
    if "'" not in token:
        return [token]
    first, *others = token.split("'")
    if len(others) == 1 and others[0].lower() == "t" and first.lower().endswith("n"):
        verb = first[:-1].lower()
        return [_NEGATION_STEMS.get(verb, verb), "not"]
    return [first, *(text for text in others if text.lower() not in _CONTRACTION_ENDINGS)]


def _split_at_level(text: str, level: int) -> Iterator[Piece]:
    text = text.strip(_EDGES)
    while level < len(_SPLIT_LEVELS) and not text.isalnum():  # letters and digits have nothing to split at
        if level == 1 and any(map(str.isdigit, text)):
            numbers = list(_split_numbers(text))
            if numbers:
                yield from numbers
                return
        parts = [part for part in _SPLIT_LEVELS[level].split(text) if part]
        level += 1
        if len(parts) != 1:
            if parts:
                yield from _whole_piece(text)
            for part in parts:
                yield from _split_at_level(part, level)
            return
        text = parts[0].strip(_EDGES)
    if text:
        yield from _split_name(text)


def _split_numbers(text: str) -> Iterator[Piece]:
    """Yield the pieces of a version, a date or a time stamp; nothing for other texts."""
    if (stamp := _TIMESTAMP.fullmatch(text)) is not None:
        yield from _whole_piece(text)
        yield from _prefixes(stamp[1], "-")
        yield from _split_at_level(stamp[2], 1)
    elif _NUMBERS.fullmatch(text):
        yield from _prefixes(text, "-")
    elif (version := _VERSION.search(text)) is not None:
        yield from _whole_piece(text)
        yield from _split_at_level(text[: version.start()], 1)
        yield from _whole_piece(version.group())
        yield from _prefixes(version[1], ".")
        yield from _split_at_level(text[version.end() :], 1)


def _prefixes(text: str, separator: str) -> Iterator[Piece]:
    yield from _whole_piece(text)
    numbers = text.split(separator)
    for count in range(min(len(numbers) - 1, 3), 0, -1):
        prefix = separator.join(numbers[:count])
        if len(prefix) > 1:
            yield from _whole_piece(prefix)


def _split_name(name: str) -> Iterator[Piece]:
    if len(name) > MAX_TOKEN_CHARS:
        yield name[:MAX_TOKEN_CHARS], False
        return
    if name.isascii() and name.isalpha() and name.islower():  # the usual case: a plain word
        yield name, True
        return
    spans = find_humps(name)
    if len(spans) > 1:
        yield name, True  # stemmed like its lower-case spelling: getUserName is found by getusername
    for start, end in spans:
        part = name[start:end].casefold()  # before its length is measured: ß becomes two letters
        mixed = LETTERS_AND_NUMBER.fullmatch(part)
        if mixed is not None:
            yield part, False
            yield from ((text, True) for text in mixed.groups() if text)
        else:
            yield part, True


def _whole_piece(text: str) -> Iterator[Piece]:
    if len(text) <= MAX_TOKEN_CHARS:
        yield text, False


def _character_class(character: str) -> str:
    if character.isupper():
        return "A"
    return "0" if character.isdigit() else "a"
