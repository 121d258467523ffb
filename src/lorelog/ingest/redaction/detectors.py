"""Detect secrets by their form and by the text around them: keys of vendors, key blocks, URLs, headers, commands.

Each detector yields spans (start, end, kind) of the secret alone, so that the rest stays readable: the user name in a
URL, the scheme in a header, the names of cookies. Most detectors are rows of `rules.toml`, read and compiled at first use.

Keys of vendors are recognised by a literal. It comes first in the pattern and the characters before it are checked by a
lookbehind, because a search that begins with a literal skips ordinary text at the speed of `str.find`. No pattern can fail
after an unbounded run unless it can only begin where such a run begins, so every text is read once, even an adversarial
one. Patterns are wider than the keys vendors issue today; lengths change, and a slightly longer key is still a key. Public
values (key ids, client ids, publishable keys, account numbers) are not secrets and have no rule, except AWS access key ids,
which are usually pasted together with their secret half.

Secrets that are words or codes are found by the phrase before them: passphrases (at least four words, none of which a
sentence about passphrases needs), seed phrases of twelve words or more, recovery codes, passwords with a foreign name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct, toml

from lorelog.ingest.redaction import values
from lorelog.language import lexicon

SecretSpan = tuple[int, int, str]


class VendorRule(Struct, frozen=True, cache_hash=True):
    """A kind of key, with the literals that it begins with."""

    kind: str
    literals: str
    after: str
    before: int = 0
    random: bool = False
    alone: str = "[A-Za-z0-9]"

    @property
    def is_infix(self) -> bool:
        """True if a literal may be inside a word."""
        return bool(self.before) or not self.alone


class ContextRule(Struct, frozen=True, cache_hash=True):
    """Secrets of one kind in texts that contain one of some words."""

    kind: str
    pattern: str | tuple[str, ...]
    accepts: str
    needs: tuple[str, ...]
    starts: tuple[str, ...] = ()
    strip: str = ""
    before: int = 0
    within: int = 0


class CommandRule(Struct, frozen=True, cache_hash=True):
    """An option of some programs whose value is a secret."""

    programs: tuple[str, ...]
    option: str
    needs: str = ""
    accepts: str = "plausible"


class RedactionRules(Struct, frozen=True):
    vendor: tuple[VendorRule, ...]
    context: tuple[ContextRule, ...]
    command: tuple[CommandRule, ...]


@cache
def _rules() -> RedactionRules:
    return toml.decode(Path(__file__).with_name("rules.toml").read_bytes(), type=RedactionRules)


# A key is a long run of these characters; text without such a run is skipped.
_KEY_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:@%-"
_KEY_CHARACTER_TABLE = bytes(ord("a") if code in _KEY_CHARACTERS else ord(" ") for code in range(256))
_MIN_WORD = b"a" * 20


def candidate_words(text: str) -> list[str]:
    """Return the words of a text that are long enough for a key.

    A search for a run of one byte in a copy of the text is six times faster than a regular expression.
    """
    mask = text.encode("ascii", "replace").translate(_KEY_CHARACTER_TABLE)
    words = []
    at = mask.find(_MIN_WORD)
    while at >= 0:
        end = mask.find(b" ", at)
        end = end if end >= 0 else len(text)
        words.append(text[at:end])
        at = mask.find(_MIN_WORD, end)
    return words


_LETTERS = bytes(code if chr(code) in "abcdefghijklmnopqrstuvwxyz0123456789" else ord(" ") for code in range(256))


def distinct_words(lowered: str) -> str:
    """Return the different words of a text, a fifth of it: what many rules need is looked up there first."""
    return b"\n".join(set(lowered.encode("ascii", "replace").translate(_LETTERS).split())).decode()


def present_words(lowered: str, words: str) -> set[str]:
    """Return the words of rules that a text contains."""
    present = (word for run, group in _needed_words() if run in words for word in group)
    return {word for word in present if word in lowered}


@cache
def _longest_run(word: str) -> str:
    return max(sorted(distinct_words(word).split()), key=len, default="")


@cache
def _needed_words() -> list[tuple[str, set[str]]]:
    """Return the words that contexts and commands need, by their longest run of letters and digits."""
    groups: dict[str, set[str]] = {}
    words = [word for rule in _rules().context for word in rule.needs]
    for word in [*words, *(program for rule in _rules().command for program in rule.programs)]:
        groups.setdefault(_longest_run(word), set()).add(word)
    return list(groups.items())


def _trie_pattern(words: Iterable[str]) -> str:
    """Return a pattern for the longest of these words that reads each letter once; a plain alternation tries all."""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[:1], []).append(word[1:])
    ends = branches.pop("", None) is not None
    tails = "|".join(re.escape(first) + _trie_pattern(rest) for first, rest in sorted(branches.items()))
    return f"(?:{tails})" + ("?" if ends else "") if tails else ""


@cache
def _vendor_pattern(rule: VendorRule, literal: str) -> re.Pattern[str]:
    """Return the pattern of a literal and the key after it; the letter of an escaped line end may precede it."""
    start = re.escape(literal)
    edge = "" if rule.is_infix else rf"(?:(?<!{rule.alone}{start})|(?<=\\[nrt]{start}))"
    return re.compile(f"{start}{edge}{rule.after}", re.ASCII)


@cache
def _rules_by_literal() -> tuple[dict[str, list[tuple[int, VendorRule]]], list[str], re.Pattern[str]]:
    """Return the rules of each literal with their ranks, the literals that may be inside a word, and a pattern of the others."""
    found: dict[str, list[tuple[int, VendorRule]]] = {}
    for rank, rule in enumerate(_rules().vendor):
        for literal in rule.literals.split():
            found.setdefault(literal, []).append((rank, rule))
    others = {literal for literal, rules in found.items() if any(not rule.is_infix for _, rule in rules)}
    start = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\n[nrt]))" + _trie_pattern(sorted(others)))
    return found, [literal for literal, rules in found.items() if rules[0][1].is_infix], start


def vendor_spans(text: str) -> Iterator[SecretSpan]:
    """Find the keys of vendors, in the order of their rules."""
    words = candidate_words(text)
    if not words:
        return
    candidates = "\n".join(["", *words])
    rules, infixes, start_pattern = _rules_by_literal()
    starts = set(start_pattern.findall(candidates))
    literals = {start[:size] for start in starts for size in range(1, len(start) + 1)} & rules.keys()
    literals.update(literal for literal in infixes if literal in candidates)
    found = [(rank, name, rule) for name in literals for rank, rule in rules[name]]
    for _, literal, rule in sorted(found, key=lambda each: each[:2]):
        pattern = _vendor_pattern(rule, literal)
        for match in pattern.finditer(text):
            start, end = match.span("secret" if pattern.groups else 0)
            value = text[start - rule.before : end]
            if not values.is_placeholder(value) and (not rule.random or values.looks_random(value, sure=True)):
                yield start - rule.before, end, rule.kind


_KEY_MARK = re.compile(r"-----(BEGIN|END) (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_MAX_KEY_BLOCK_CHARS = 32_768
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/=]{16}")
# The body of a block without an end marker: whole lines of base64, headers, and a last short line.
_TRUNCATED_KEY_BODY = re.compile(
    r"(?:(?:\s|\\[nr]|[\"',+>|#*-]){0,40}+(?:[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{0,200}))++"
    r"(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{1,15}+(?=\s*\Z|\s*\n|\\|[\"']))?"
)


def private_key_spans(text: str) -> Iterator[SecretSpan]:
    """Find PEM, OpenSSH and PGP private keys, whole or truncated, also on one line with escaped line ends."""
    marks = list(_KEY_MARK.finditer(text)) if "PRIVATE KEY" in text and "-----BEGIN" in text else []
    for begin, following in zip(marks, (*marks[1:], None), strict=False):
        if begin[1] == "END":
            continue
        near = following and following.start() < begin.end() + _MAX_KEY_BLOCK_CHARS
        if following and near and following[1] == "END":
            if _BASE64_RUN.search(text, begin.end(), following.start()):
                yield begin.start(), following.end(), "private-key"
        elif body := _TRUNCATED_KEY_BODY.match(text, begin.end()):
            yield begin.start(), body.end(), "private-key"


_AUTHORIZATION = re.compile(
    r"authorization\\*[\"'`]?[\])]?[ \t]{0,8}(?:[:=,]|=>)[ \t]{0,8}(?:f|b|rb)?\\*[\"'`]?"
    r"(?:(bearer|basic|token|digest|negotiate|apikey|api-key|ssws|key|bot|aws4-hmac-sha256)[ \t:=]{1,4})?"
    r"([^\s\"'`\\<>]{6,4096}+)",
    re.IGNORECASE,
)
_TOKEN68 = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9._~+/=:|-]+$", re.ASCII)
_AUTH_PARAMETER = re.compile(r"(?:signature|response|nonce)=\"?([^\s\",]{8,512}+)", re.IGNORECASE)


def header_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find credentials in Authorization headers, in any notation."""
    for match in _AUTHORIZATION.finditer(text) if "authorization" in lowered else ():
        scheme, start, value = (match[1] or "").lower(), match.start(2), match[2].rstrip(",;)}]")
        if scheme in {"digest", "aws4-hmac-sha256"}:
            for part in _AUTH_PARAMETER.finditer(text[start : start + 1024].split("\n", 1)[0]):
                yield start + part.start(1), start + part.end(1), "authorization"
        elif _is_credential(value, scheme):
            yield start, start + len(value), "authorization"


def _is_credential(value: str, scheme: str) -> bool:
    if values.is_placeholder(value):
        return False
    if scheme == "basic":  # base64 of `user:password`
        with suppress(ValueError):
            if ":" in base64.b64decode(value, validate=True).decode("ascii")[:-1]:
                return True
    return not values.is_name_like(value) and (bool(_TOKEN68.match(value)) if scheme else values.looks_random(value))


_COOKIE_HEADER = re.compile(
    r"cookie\\*[\"'`]?(?:[ \t]{0,8}[:=][ \t]{0,8}|[ \t]{1,4}(?=\\?[\"']))\\*[\"'`]?([^\n\"'`\\]{4,8192}+)",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"(?:^|;|,)\s{0,4}([\w.%-]{1,128}+)=([^;,\s]{8,4096}+)", re.ASCII)
_COOKIE_ATTRIBUTES = frozenset({"path", "domain", "expires", "max-age", "samesite", "priority"})


def cookie_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find the values of cookies in Cookie and Set-Cookie headers; names and attributes stay."""
    for header in _COOKIE_HEADER.finditer(text) if "cookie" in lowered else ():
        for cookie in _COOKIE.finditer(header[1]):
            name, value = cookie[1].lower(), cookie[2]
            may_be_secret = any(letter.isdigit() for letter in value) and not values.is_name_like(value)
            if name not in _COOKIE_ATTRIBUTES and may_be_secret and not values.is_placeholder(value):
                yield header.start(1) + cookie.start(2), header.start(1) + cookie.end(2), "cookie"


def word_matches(text: str, lowered: str, words: Iterable[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Match a pattern where one of these words begins: much faster than a search for a pattern without a literal."""
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            match = pattern.match(text, at)
            if match:
                yield match
            at = lowered.find(word, match.end() if match else at + len(word))


@cache
def _context_pattern(rule: ContextRule) -> re.Pattern[str]:
    starts = f"(?:{'|'.join(map(re.escape, rule.starts))})"
    return re.compile("".join(rule.pattern).replace("STARTS", starts))


def _context_matches(text: str, lowered: str, words: str, rule: ContextRule) -> Iterator[re.Match[str]]:
    pattern = _context_pattern(rule)
    starts = [word for word in rule.starts if _longest_run(word) in words]
    if not rule.within:
        yield from word_matches(text, lowered, starts, pattern) if rule.starts else pattern.finditer(text)
        return
    for word in starts:
        at = lowered.find(word)
        while at >= 0:
            start = at + len(word)
            stop = _NEXT_NAME.search(text, start, at + rule.within)
            end = stop.start() if stop else min(len(text), at + rule.within)
            if word.endswith("(") or _is_whole_word(text, at, start):
                yield from pattern.finditer(text, start, end)
            at = lowered.find(word, max(start, end))


# The next line, option or name that gets a value.
_NEXT_NAME = re.compile(
    r"\n|\\n|[,;{&?|][ \t]{0,4}\\?[\"']?[\w.-]{1,40}+\\?[\"']?[ \t]{0,4}[:=]|[ \t]--?[a-z]", re.ASCII
)


def _is_whole_word(text: str, start: int, end: int) -> bool:
    """Return True unless a short word is part of a longer one, or letters follow; Chinese and Japanese have no spaces."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    is_joined = end - start <= 3 and "-" in {before, after}
    is_part = end - start <= 5 and before.isascii() and before.isalnum()
    is_continued = text[end - 1].isascii() and after.isascii() and after.isalnum()
    return not is_continued and not is_part and not is_joined


def context_spans(
    text: str, lowered: str, words: str, present: set[str], *, wide: bool = False
) -> Iterator[SecretSpan]:
    """Find what the rules of context describe; `wide`: those that search a stretch of text after a word."""
    for rule in _rules().context:
        if bool(rule.within) is not wide or present.isdisjoint(rule.needs):
            continue
        accepts = _CHECKS[rule.accepts]
        for match in _context_matches(text, lowered, words, rule):
            index = match.lastindex or 0
            start = match.start(index) - rule.before
            value = text[start : match.end(index)]
            value = value.rstrip(rule.strip) if rule.strip else value
            if accepts(value, match):
                yield start, start + len(value), rule.kind


def _is_plausible(value: str) -> bool:
    """Return True unless the value is short, a number, a plain word or a placeholder."""
    is_word_or_number = (value.isalpha() and not values.is_no_word(value)) or value.replace(":", "").isdigit()
    return len(value) >= 6 and not is_word_or_number and not values.is_placeholder(value)


def _is_phrase(value: str, least: int) -> bool:
    """Return True if enough different words have nothing of a sentence about passphrases."""
    words = set(value.lower().replace("-", " ").split())
    return len(words) >= least and words.isdisjoint(lexicon("passphrase_sentences"))


def _has_codes(value: str, match: re.Match[str]) -> bool:
    codes = re.findall(r"[a-zA-Z0-9]{4,10}+(?:-[a-zA-Z0-9]{4,10}+){0,3}+", value)
    return 2 * len(re.findall(r"(?=[a-zA-Z-]{0,20}[0-9])[a-zA-Z0-9-]{6,}", value)) >= len(codes)


def _is_mixed_key(value: str) -> bool:
    """Return True for a key with digits, capitals and small letters that is no hash, public key or name."""
    is_public = values.is_fingerprint(value) or value.startswith(("MII", "MFk"))
    is_mixed = all(any(map(test, value)) for test in (str.isdigit, str.isupper, str.islower))
    return (
        is_mixed and not is_public and not values.is_placeholder(value) and not values.PASSWORD_VOCABULARY.search(value)
    )


_CHECKS: dict[str, Callable[[str, re.Match[str]], bool]] = {
    "any": lambda value, match: True,
    "real": lambda value, match: not values.is_placeholder(value),
    "random": lambda value, match: values.looks_random(value) and not values.is_placeholder(value),
    "told": lambda value, match: values.is_told_password(value),
    "mixed-key": lambda value, match: values.looks_random(value, 20) and _is_mixed_key(value),
    "token": lambda value, match: (
        values.looks_random(value, 12) and not values.is_fingerprint(value) and not values.is_placeholder(value)
    ),
    "phrase": lambda value, match: _is_phrase(value, 4),
    "seed": lambda value, match: _is_phrase(value, 9),
    "codes": _has_codes,
    "url": lambda value, match: value != match[1] and not values.is_placeholder(value),
    "netrc": lambda value, match: (
        ("machine" in match.string.lower() or not value.isalpha()) and not values.is_placeholder(value)
    ),
    "salt": lambda value, match: "unique phrase" not in value,
    "django": lambda value, match: not any(part in value for part in ("...", "xxxx", "${", "{{", "example")),
    "login": lambda value, match: len(value) >= 3 and not value.isdigit() and not values.is_placeholder(value),
    "short": lambda value, match: len(value) >= 4 and not values.is_placeholder(value),
    "plausible": lambda value, match: _is_plausible(value),
}

_COMMAND_VALUE = r"(?:\\?\"([^\"\s\\]{1,256}+)\\?\"|'([^'\s]{1,256}+)'|([^\s\"'`|;&<>\\]{1,256}+))"
"""The value of a command-line option, quoted or not."""
_MAX_COMMAND_CHARS = 600


@cache
def _option_pattern(rule: CommandRule) -> re.Pattern[str]:
    return re.compile(rule.option + _COMMAND_VALUE, re.ASCII)


def command_spans(text: str, lowered: str, present: set[str]) -> Iterator[SecretSpan]:
    """Find `curl -u user:VALUE`, `gh secret set X -b VALUE`."""
    for rule in _rules().command:
        programs = present.intersection(rule.programs)
        for match in _option_matches(text, lowered, programs, rule) if programs and rule.needs in lowered else ():
            index = match.lastindex or 0
            value, start = match[index], match.start(index)
            if rule.accepts == "login":
                user, _, value = value.partition(":")
                start += len(user) + 1
            if _CHECKS[rule.accepts](value, match):
                yield start, match.end(index), "command-password"


def _option_matches(text: str, lowered: str, programs: set[str], rule: CommandRule) -> Iterator[re.Match[str]]:
    """Find an option after one of its programs, in the same command; every character is read once."""
    for program in programs:
        at = lowered.find(program)
        while at >= 0:
            limit = min(len(text), at + _MAX_COMMAND_CHARS)
            end = text.find("\n", at, limit)
            while end > at and text[end - 1] == "\\":
                end = text.find("\n", end + 1, limit)
            end = end if end >= 0 else limit
            yield from _option_pattern(rule).finditer(text, at, end)
            at = lowered.find(program, max(end, at + len(program)))
