"""Judge whether a value is a secret: recognise placeholders, well-known defaults and random text.

Random text is distinguished from language by the length of its words. Identifiers consist of words of four or more
letters (`tokenCount2`); in keys a word ends at every second letter (`f3K9aQ`). Entropy alone cannot separate them at the
length of a key: a sentence without spaces has as much of it as thirty hexadecimal digits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from math import log2

from lorelog.language import lexicon

MARKER = re.compile(r"\[(?:redacted:[a-z0-9-]{1,40}|private)\]")

_PLACEHOLDER_PREFIX = re.compile(
    r"""
    \\?[$<{] | \^(?:[\[(\\.]|\w+\^$) | \*+$ | %(?:\w+%$|[sdrv]$|\() | \#\{ | your | (?:fake|sample|todo|fixme|foobar)(?:[_-]|$)
    | (?:exports|module|self|this|ctx|req|request|args|options|params|props|config|settings|window)\.[A-Za-z_]
    | (?:env|file|cmd|vault|arn|ref\+\w+|secret|secrets|op|keyring|keychain)[:.]
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
# Tested with `in`: a dozen substring searches are faster than one slow pattern.
_PLACEHOLDER_PARTS = tuple(lexicon("placeholder_parts"))
_WELL_KNOWN_VALUES = lexicon("well_known_passwords")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+(?:[.(\[]|::|->|\?\.)|[A-Za-z_$][A-Za-z_]*+[0-9]?$")
"""A reference to something in code, or an identifier."""
_UUID = re.compile(r"^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$", re.IGNORECASE)
_HASH = re.compile(
    r"^(?:(?:md5|sha(?:1|224|256|384|512))[-:=]|W/)|^(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})$",
    re.IGNORECASE,
)
_PATH = re.compile(r"^(?:[./~]|[A-Za-z]:\\|\w+://|[\w.@-]+(?:/[\w.@-]+)+\.\w{1,5}$)", re.ASCII)
_SEPARATORS = re.compile(r"[^A-Za-z0-9+=]+")
NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONG_HEX = re.compile(r"[0-9a-f]{32,}+$|[0-9A-F]{32,}+$")
_COMMON_PAIRS = lexicon("letter_pairs")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}$")
_MAX_JUDGED_CHARS = 96
"""Enough of a long value to tell random text from words."""
_CHARSET = re.compile(r"^[A-Za-z0-9+/=_~.:%-]+$", re.ASCII)


@lru_cache(maxsize=2048)
def is_placeholder(value: str) -> bool:
    """Return True if a value is a placeholder for a secret, or is a well-known default."""
    stripped = MARKER.sub("", value).strip().strip("\"'`\\").strip()
    lowered = stripped.lower()
    return (
        len(set(stripped)) < 4
        or lowered in _WELL_KNOWN_VALUES
        or bool(_PLACEHOLDER_PREFIX.match(stripped))
        or any(part in lowered for part in _PLACEHOLDER_PARTS)
        or _is_sequential(stripped)
    )


_HUMAN_PASSWORD = re.compile(r"(?=[^0-9]{0,64}[0-9])(?=[^A-Za-z]{0,64}[A-Za-z])[!-~]{6,64}\Z")
_STRONG_SIGNS = frozenset("!@#$%^&*+=~?|;")
# Without a strong sign: `Winter-2025`, `Winter2025`, `l4dd3r.957`, `W1nt3R31.c`.
_WORD_AND_NUMBER = re.compile(
    r"(?:[A-Z][a-z0-9]{2,14}[-_.](?:[A-Za-z]{3,12})?[0-9]{2,4}[A-Za-z]?|[A-Z][a-z]{3,12}[0-9]{2,4}[-_.]?"
    r"|(?=[a-z0-9]{5})[a-z]{1,9}[0-9][a-z0-9]{0,9}[a-z][a-z0-9]{0,5}[-_.][0-9]{2,4}"
    r"|[0-9][a-z][a-z0-9]{2,8}[a-z][-_.][0-9]{2,4}"
    r"|(?=[0-9]{0,1}[A-Za-z]{1,9}[0-9]{1,3}[A-Za-z])(?=[a-z0-9]{0,12}[A-Z])[A-Za-z0-9]{5,14}[0-9]{2,4}[-_.][A-Za-z0-9]?"
    r"|(?=.{8})[a-z]{4,12}(?:[-_.]?[a-z]{4,12})?[-_.]?[0-9]{1,4}[a-z]?)\Z"
)
_NAME_AND_NUMBER = re.compile(
    r"(?:sha|md|aes|utf|ucs|iso|rfc|base|pbkdf|argon|scrypt|bcrypt|hmac|rsa|des|tls|ssl|http|ipv|python|node|version|ver"
    r"|cve|rev|step|issue|bug|pr|part|chapter|section|line|page|pep|level|win|windows|oauth|totp"
    r"|user(?:name)?|file|param|arg(?:ument)?|field|value|string|name|(?:mp|h|v|x|ed)(?=[0-9]{1,4}(?:[-_.]|\Z)))"
    r"[-_.]?[0-9]{1,4}[-_.a-z0-9*]*\Z",
    re.IGNORECASE,
)
_CODE_LIKE = re.compile(
    r"[(\[{<>\\]|://|^\w+=[\w./-]*(?:$|[&;,])|=[\"']|->|::|==|^(?:[./]|--?[a-z]+(?:[-=]|$)|[~@#][\w/-]*$)|&\w+;|@[\w-]+\.[a-z]"
)


@lru_cache(maxsize=2048)
def is_human_password(value: str) -> bool:
    """Return True if a word combines letters, digits and signs as passwords of people do: `Winter-2025`, `Tr0ub4dor&3x`.

    The name before it must say password: a version, a path and a product have this form, too.
    """
    if not _HUMAN_PASSWORD.match(value) or _CODE_LIKE.search(value) or _NAME_AND_NUMBER.match(value):
        return False
    return not _STRONG_SIGNS.isdisjoint(value) or bool(_WORD_AND_NUMBER.match(value))


_SIGNED_KEY = re.compile(r"(?=[^0-9]{0,40}[0-9])(?=[\w-]{0,40}[^\w\s-])[!-~]{24,200}\Z", re.ASCII)


def is_signed_key(value: str) -> bool:
    """Return True if a long value mixes letters, digits and signs without words, as the keys of Django and WordPress do."""
    return (
        bool(_SIGNED_KEY.match(value))
        and not (_STRONG_SIGNS | {"]"}).isdisjoint(value)
        and _word_density(value) >= 0.25
        and entropy(value) >= 3.9
        and not any(part in value.lower() for part in ("xxxx", "example", "your", "...", "a-z"))
    )


@lru_cache(maxsize=2048)
def looks_random(value: str, min_chars: int = 16, *, sure: bool = False) -> bool:
    """Return True if a value is long enough and its words are as short as those of random text.

    With `sure`, the form of the value already suggests a key and the threshold is lower.
    """
    if len(value) < min_chars or not _CHARSET.match(value):
        return False
    if _PATH.match(value) and not (len(value) >= 36 and _BASE64.match(value) and _word_density(value) >= 0.36):
        return False
    if _UUID.match(value) or (_LONG_HEX.match(value) and entropy(value) >= 2.8):
        return True
    longest = max(_SEPARATORS.split(value), key=len)  # identifiers join words; keys contain separators only by chance
    if len(longest) < min(10, min_chars - 4):
        return _word_density(value) >= 0.5 and entropy(value) >= 2.8
    one_case = longest in {longest.lower(), longest.upper()}
    min_density = 0.5 if not any(map(str.isdigit, longest)) else 0.23 if one_case or sure else 0.3
    long = len(value) >= 32  # longer values are closer to the mean
    short_words = _word_density(longest) >= min_density or (
        not one_case and _word_density(value) >= (0.36 if long else 0.42)
    )
    return (short_words or _has_rare_letter_pairs(longest)) and entropy(value) >= 2.8


def _has_rare_letter_pairs(word: str) -> bool:
    """Return True if a word has hardly any letter pairs common in language; without a digit the limit is lower."""
    pairs = [
        first + second
        for first, second in pairwise(word[:_MAX_JUDGED_CHARS].lower())
        if first.isalpha() and second.isalpha()
    ]
    limit = 0.33 if any(map(str.isdigit, word)) else 0.2 if word not in {word.lower(), word.upper()} else 0.0
    return len(word) >= 16 and len(pairs) >= 5 and sum(pair in _COMMON_PAIRS for pair in pairs) <= len(pairs) * limit


PASSWORD_VOCABULARY = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|login|user|input|field|test|required|invalid", re.IGNORECASE
)


def is_no_word(value: str) -> bool:
    """Return True if letters and digits alternate, or the pairs of letters are rare in a language: `k4zw7vemzd`, `QqlxaWtcAifbQi`.

    Only for a value whose name says password: abbreviations in programs have this form, too.
    """
    if not (12 if value.isalpha() else 8) <= len(value) <= 32 or not (value.isascii() and value.isalnum()):
        return False
    steps = sum(first.isdigit() != second.isdigit() for first, second in pairwise(value))
    pairs = [first + second for first, second in pairwise(value.lower()) if (first + second).isalpha()]
    is_mixed = value[1:] not in {value[1:].lower(), value[1:].upper()} or not value.isalpha()
    share = sum(pair in _COMMON_PAIRS for pair in pairs) / len(pairs) if is_mixed and len(pairs) >= 5 else 1.0
    density = _word_density(value)
    is_random = steps >= 3 or (density >= 0.2 and share <= 0.2) or (density >= 0.28 and share <= 0.4)
    is_random = (
        is_random
        or (density >= 0.34 and value.isalpha() and is_mixed)
        or (density >= 0.2 and share <= 0.4 and not value.isalpha())
    )
    return is_random and not PASSWORD_VOCABULARY.search(value)


def is_told_password(value: str) -> bool:
    """Return True if a sentence or a call may give this value as a password."""
    is_unusual = is_human_password(value) or looks_random(value, 12) or is_no_word(value) or is_signed_key(value)
    return (
        is_unusual
        and "==" not in value
        and any(map(str.isalpha, value))
        and not is_fingerprint(value)
        and not is_placeholder(value)
    )


def _word_density(value: str) -> float:
    """Return words per letter: about 0.5 for random text, at most 0.25 for language."""
    parts = NAME_PARTS.findall(value)
    return len(parts) / (sum(map(len, parts)) or 1)


def is_name_like(value: str) -> bool:
    """Return True if a value is a code reference, an identifier, a path or a sentence."""
    return bool(_NAME.match(value) or _PATH.match(value))


def is_fingerprint(value: str) -> bool:
    """Return True if a value has the form of a UUID or a hash, which are rarely credentials."""
    return bool(_UUID.match(value) or _HASH.match(value))


def entropy(value: str) -> float:
    """Return the Shannon entropy of a value, in bits per character."""
    size = len(value)
    counts = [value.count(character) for character in set(value)]
    return -sum(count / size * log2(count / size) for count in counts)


def _is_sequential(value: str) -> bool:
    """Return True if most characters follow their predecessor, as in `0123456789abcdef`."""
    if len(value) < 12:
        return False
    value = value[:_MAX_JUDGED_CHARS]
    steps = sum(ord(after) - ord(before) in {0, 1} for before, after in pairwise(value))
    return steps > len(value) * 0.6
