"""Where one token ends and the next begins.

A token is what a reader would copy in one go: a word, an identifier, a path, a version, or a run of a script that is
written without spaces. Tokens are found in the raw text, and only then normalised one by one, so that the words of a
text and the places where a snippet marks them come from the same cut and cannot disagree. The patterns are possessive
and bounded: no input makes them look at a character more than a few times.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

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
"""Scripts that are matched by pairs of characters, because no space says where a word ends (Hangul has spaces, but
its particles cling to the words)."""

_MARKS = (
    "\u00ad\u200c\u200d"  # soft hyphen and joiners: invisible, inside words
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u0900-\u0963\u0966-\u096f\u0971-\u0dff\u0f71-\u0f84\u0f90-\u0fbc"
    "\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"
)
"""Characters that belong to a word without being letters, which `\\w` does not know."""

_MOST_JOINTS = 30
_SUFFIX = r"(?:\+\+|#(?!\w))?+"  # C++, C#
_ASCII = re.compile(rf"\w++(?:[-./:@']{{1,4}}\w++){{0,{_MOST_JOINTS}}}+{_SUFFIX}", re.ASCII)

_NAME = re.compile(r"[^\W_]+")
_DIACRITICS = re.compile("[\u0300-\u036f]+")
_INVISIBLE = re.compile("[\u00ad\u200c\u200d]+")
_ODD_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Latin letters that Unicode does not take apart into a letter and a mark."""


def find_tokens(text: str) -> list[str]:
    """Return the raw tokens of a text, in order."""
    return _pattern_for(text).findall(text)


def find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each token of `find_tokens` begins and ends."""
    return (match.span() for match in _pattern_for(text).finditer(text))


def find_matches(text: str) -> Iterator[re.Match[str]]:
    """Yield each token of `find_tokens` as it was matched."""
    return _pattern_for(text).finditer(text)


def find_names(token: str) -> Iterator[tuple[int, int]]:
    """Yield where the runs of letters and digits inside a token begin and end."""
    return (match.span() for match in _NAME.finditer(token))


def is_unspaced(token: str) -> bool:
    """Tell whether a token is a run of a script without spaces."""
    code = ord(token[0])
    return code >= _UNSPACED[0][0] and any(first <= code <= last for first, last in _UNSPACED)


def compose(token: str) -> str:
    """Return a token in one Unicode form, its case kept: full width is narrow, ligatures are letters."""
    if token.isascii():
        return token
    token = unicodedata.normalize("NFKC", _INVISIBLE.sub("", token))
    return token.replace("’", "'").replace("ʼ", "'")


def fold(text: str) -> str:
    """Return a composed token without case and without accents.

    Only the general combining marks go, which is what accents of Latin, Greek and Cyrillic are made of; kana, Hangul
    and the vowel signs of other scripts come through whole.
    """
    if text.isascii():
        return text.lower()
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFD", text.casefold()))
    return unicodedata.normalize("NFC", bare).translate(_ODD_LETTERS)


def _pattern_for(text: str) -> re.Pattern[str]:
    return _ASCII if text.isascii() else _wide_pattern()


@cache
def _wide_pattern() -> re.Pattern[str]:
    """The pattern for all scripts: compiled when first needed, since that takes ten milliseconds."""
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)
    letters = rf"[^\W{unspaced}]++"
    joint = rf"[{_MARKS}./:@'’-]{{1,4}}"
    return re.compile(rf"[{unspaced}]++|{letters}(?:{joint}{letters}){{0,{_MOST_JOINTS}}}+[{_MARKS}]*+{_SUFFIX}")
