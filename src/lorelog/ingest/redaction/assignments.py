"""Detect secrets by the name of their value: assignments, fields, table cells, and a value below its name.

The name of an assignment (`DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `?sig=…`, `<secret>…</secret>`) determines how
strict the check of its value is. A literal `password` value is a secret; a `token`, `secret` or API key must look random
or mixed; a plain `key` must look random and not like a hash or a UUID, because most keys in programs are not
credentials. Names about a secret (`token_count`, `password_hash`, `secretName`) are excluded. Names are located by
`str.find` on a few stems, so a text costs only as much as the stems it contains.

A name and its value may also be on two lines, in two fields of an object or in two cells of a table; the same checks
apply there, but a value that is not written as an assignment is never redacted because of its name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lorelog.ingest.redaction import values
from lorelog.ingest.redaction.detectors import SecretSpan, word_matches
from lorelog.language import lexicon

_ID_STEMS = ("appid", "app_id", "seed")
_NAME_STEMS = ("pass", "pw", "psk", "secret", "token", "key", "credential", "auth", "sig", "jwt", "bearer", *_ID_STEMS)
_LEVEL_PASSWORD, _LEVEL_SECRET, _LEVEL_KEY, _LEVEL_SIGNATURE = 4, 3, 2, 1
_LEVEL_NONE = (0, "")
_MAX_NAME_CHARS = 64
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$")

_SEPARATOR = re.compile(
    r"([A-Za-z0-9_-]{0,40}+)\\*[\"'`]?(?:[\])]|\[\w{0,6}\])?"
    r"(?:([ \t]{0,20}(?:=>|:[=-]|[+?]?={1,3}|[!]==?|<-|:(?![:/])(?:\*\*)?|：|,|\?[?:]|\|\||or(?= [\"'])|\.(?=\w{2,24}\()|\{(?= ?[\"'|]))[ \t]{0,20})|([ \t]\w+=[^<>\n]{1,80}>|>)|([ \t]{1,4}(?:(?:is|was|to|ist)[ \t]{1,4})?))",
    re.ASCII,
)
# The text after one of these is another item, or is only compared with the name.
_NON_ASSIGNMENT_SEPARATORS = frozenset({",", "==", "===", "!=", "!==", "??", "?:", "||", "or", ".", "{"})
_TYPE_ANNOTATION = re.compile(
    r"[A-Za-z_&][\w.\[\]|?&]{0,30}+(?:[ \t]{1,4}[\w.\[\]|?&]{1,30}+){0,2}(?:[ \t]{1,4}=[ \t]{0,4}(?![=>])|=(?=[\"']))",
    re.ASCII,
)
_QUOTED_VALUE = re.compile(r"([fFrRbBuUN@]{0,2})(\\*[\"'`])((?:(?!\2)(?:\\.|[^\\\n]))++)(?:\2)?")
_MAX_EXPRESSION_CHARS = 200
_MAX_BARE_CHARS = 160  # enough to judge a value; the redacted span extends to the value's end
_BARE_VALUES = {
    ends: re.compile(rf"(?![\[({{])[^\s\"'`<>\\{re.escape(ends)}]{{1,{_MAX_BARE_CHARS}}}+")
    for ends in ("", "<", ";", "&#;", ",;)}]")
}
"""By the characters that end a value in its place."""
_TOLD_VALUE = re.compile(r"[A-Za-z]{0,2}\\*[\"'`]|[^\s\"'`<>\\]{6}|(?:\w{1,20}[ \t]{1,4}){1,2}=")
_BARE_VALUE_REST = re.compile(r"[^\s\"'`<>\\]*+")

_AMBIGUOUS_PASSWORD_NAMES = frozenset({"pass", "pwd", "pw"})  # also a test result, a directory, a unit
_SECRET_WORDS = frozenset({"secret", "secrets", "token", "apikey", "credential", "credentials", "jwt", "bearer"})
_SECRET_SUFFIXES = ("secret", "token", "apikey", "secretkey", "accesskey", "privatekey")
_DEFAULT_NAMES = frozenset({"default", "defaultvalue", "default_value", "value", "fallback", "type"})


_MARKER_START = "[redacted:"
_MAX_QUALIFIER_CHARS = 12


class _ValueSpan(NamedTuple):
    """The position of a value and how it is written."""

    start: int
    end: int
    value: str
    literal: bool  # quoted, or where only a value is possible: an environment file, an element, a connection string
    in_query_string: bool
    in_prose: bool = False  # after a space or a verb: `ENV API_TOKEN …`, "the token is …"


def assignment_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find values assigned to names that denote a secret."""
    seen: set[int] = set()
    for stem in _NAME_STEMS:
        at = lowered.find(stem)
        while at >= 0:
            after = _SEPARATOR.match(text, at + len(stem))
            end = at + len(stem)
            if after and after.end() not in seen:
                seen.add(after.end())
                is_absent = text.startswith("\n", after.end()) or (
                    after[4] is not None and not _TOLD_VALUE.match(text, after.end())
                )
                if not is_absent and (span := _secret_span_at(text, at, after)):
                    yield span
                    end = span[1]
            at = lowered.find(stem, end)


def _secret_span_at(text: str, at: int, after: re.Match[str]) -> SecretSpan | None:
    start = _name_start(text, at)
    if text.startswith(_MARKER_START, max(0, start - len(_MARKER_START))):
        return None
    name = text[start : after.end(1)]
    if name.lower() in {"key", "keys"} and (earlier := _qualifier_before(text, start)):
        name = f"{earlier}_{name}"  # "the secret access key is"
    level, kind = _name_level(name)
    if not level:
        return None
    span = _read_value(text, start, name, after)
    if not span or not _is_secret(name, level, span):
        later = _later_values(text, after, is_key=level == _LEVEL_KEY)
        span = next((value for value in later if _is_secret(name, level, value)), None)
    if not span:
        return None
    rest = _BARE_VALUE_REST.match(text, span.end) if span.end - span.start == _MAX_BARE_CHARS else None
    return span.start, rest.end() if rest else span.end, kind


def _later_values(text: str, after: re.Match[str], *, is_key: bool) -> Iterator[_ValueSpan]:
    """Yield the strings in the expression after a name: a default, an alternative, the argument of a constructor.

    The expression ends where another name gets a value, unless that name says default or value.
    """
    position, name = after.end(), ""
    stretch = text[position : position + _MAX_EXPRESSION_CHARS].partition("\n")[0].partition("\\n")[0]
    for quoted in _QUOTED_VALUE.finditer(text, position, position + len(stretch)):
        between = text[position : quoted.start()].rstrip()
        if ";" in between or (position == after.end() and not after[2] and not between.endswith("=")):
            return
        if between.endswith((":", "=")) and position > after.end():
            last = _LAST_NAME.search(between)
            name = last[1] if last else name
            if name.lower() not in _DEFAULT_NAMES:
                return
        computed = "f" in quoted[1].lower() and "{" in quoted[3]
        if not computed and (not is_key or between.endswith("(")):
            yield _ValueSpan(*quoted.span(3), quoted[3], literal=True, in_query_string=False, in_prose=True)
        position, name = quoted.end(), quoted[3]


def secret_kind(name: str, value: str, *, literal: bool) -> str:
    """Return the kind of secret that a named value is; empty if it is not one.

    `literal`: the position allows only a value, not code.
    """
    level, kind = _name_level(name)
    span = _ValueSpan(0, len(value), value, literal, in_query_string=False)
    return kind if level and _is_secret(name, level, span) else ""


def _qualifier_before(text: str, start: int) -> str:
    """Return the word before a name if it says what kind of key the name denotes."""
    before = text[max(0, start - _MAX_QUALIFIER_CHARS - 2) : start]
    word = (before.replace("_", " ").split() or [""])[-1] if before.endswith(" ") else ""
    return word if word.lower() in lexicon("key_qualifiers") else ""


def _name_start(text: str, at: int) -> int:
    start, lowest = at, max(0, at - _MAX_NAME_CHARS)
    while start > lowest and text[start - 1] in _NAME_LETTERS:
        start -= 1
    if start and text[start - 1] == "\\" and text[start] in "nrt" and start < at:
        start += 1
    return start


@lru_cache(maxsize=4096)
def _name_level(name: str) -> tuple[int, str]:
    """Return how strongly a name indicates a secret (0: not at all), and the kind to report."""
    words = [word.lower() for word in values.NAME_PARTS.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in {"base", "value", "b64"}):
        words.pop()
    last = words[-1] if words else ""
    is_random = last in _AMBIGUOUS_PASSWORD_NAMES and name[0].isdigit()
    if not words or is_random or last in lexicon("secret_metadata") or name.strip("-.$_") == "OLDPWD":
        return _LEVEL_NONE
    if last in lexicon("password_names") or last.endswith(("password", "passwd", "passphrase")):
        return _LEVEL_PASSWORD, "password"
    if last != "secret" and ("public" in words or "publishable" in words):
        return _LEVEL_NONE
    owner = next((word for word in words if word in lexicon("vendors")), "")
    paired = last in {"key", "keys"} and any(word in lexicon("key_qualifiers") for word in words[:-1])
    if last in _SECRET_WORDS or last.endswith(_SECRET_SUFFIXES) or paired or (owner and last in {"key", "auth"}):
        return _LEVEL_SECRET, f"{owner}-secret" if owner else "api-key" if "key" in last else last.removesuffix("s")
    if last in {"sig", "signature"}:
        return _LEVEL_SIGNATURE, "signature"
    is_key = last in {"key", "auth", "appid", "seed"} or words[-2:] == ["app", "id"]
    return (_LEVEL_KEY, "key") if is_key else _LEVEL_NONE


def _read_value(text: str, start: int, name: str, after: re.Match[str]) -> _ValueSpan | None:
    separator, position = (after[2] or "").strip(), after.end()
    if ":" in separator and (typed := _TYPE_ANNOTATION.match(text, position)):
        position = typed.end()
    quoted = None
    if not text[position : position + 3].isalnum():  # quotes, perhaps after the letters of a prefix
        quoted = _QUOTED_VALUE.match(text, position)
    is_option = name.startswith("-")
    if quoted and after[4] and not is_option:
        return _ValueSpan(*quoted.span(3), quoted[3], literal=False, in_query_string=False, in_prose=True)
    literal = separator not in _NON_ASSIGNMENT_SEPARATORS
    if quoted and not after[3]:
        computed = "f" in quoted[1].lower() and "{" in quoted[3]
        # A name and its value may be the arguments of a call: `setenv("DB_PASSWORD", "…")`.
        is_argument = separator == "," and bool(_SETTER.search(text, max(0, start - 24), start))
        return (
            None if computed else _ValueSpan(*quoted.span(3), quoted[3], literal or is_argument, in_query_string=False)
        )
    # A value may begin with the sign of a comparison.
    return _read_unquoted(text, start, name, after, position=position) if literal or after[2] == "==" else None


_LAST_NAME = re.compile(r"([A-Za-z_]+)[ \t]{0,4}[:=]\Z")
_SETTER = re.compile(r"(?:\b(?:set|put)\w{0,12}|\bdefine)\([ \t]{0,4}\\?[\"']\Z", re.IGNORECASE)


def _read_unquoted(text: str, start: int, name: str, after: re.Match[str], *, position: int) -> _ValueSpan | None:
    before = text[max(0, start - 5) : start]
    equals = after[2] == "="
    line = text[max(0, start - 200) : start].rpartition("\n")[2].rstrip() if equals else ""
    if after[3]:
        opening = text.rfind("<", max(0, start - 24), start)
        is_element = opening >= 0 and (text[opening + 1 : start].rstrip(":").isalnum() or opening + 1 == start)
        return _read_bare(text, position, ends="<") if is_element and name[-1:].isalnum() else None
    if before.endswith(("?", "&", "&amp;")):
        return _read_bare(text, position, ends="&#;", query=True)
    # `Server=…;User Id=…;Password=…`
    if before[-1:] in {";", " ", "\t"} and line.endswith(";") and "=" in line:
        return _read_bare(text, position, ends=";", literal=True)
    if equals and name.isupper() and name[0].isalpha() and name.replace("_", "").isalnum():
        return _read_bare(text, position, ends="", literal=True)
    span = _read_bare(text, position, ends=",;)}]", in_prose=bool(after[4]) and not name.startswith("-"))
    if span and "&" in span.value and (parameter := _NEXT_PARAMETER.search(span.value)):
        span = span._replace(end=span.start + parameter.start(), value=span.value[: parameter.start()])
    return span


_NEXT_PARAMETER = re.compile(r"&(?=[\w.-]*[=;]|&|\Z|nbsp|#)")


def _read_bare(
    text: str, position: int, *, ends: str, literal: bool = False, query: bool = False, in_prose: bool = False
) -> _ValueSpan | None:
    match = _BARE_VALUES[ends].match(text, position)
    value = match[0] if match else ""
    value = value.rstrip(",;" if literal else ".,;)}]")
    if ends == "<":
        literal = text.startswith("</", position + len(value))
        value = value if literal else ""
    return _ValueSpan(position, position + len(value), value, literal, query, in_prose) if value else None


def _is_secret(name: str, level: int, span: _ValueSpan) -> bool:
    value = span.value
    if span.literal and level >= _LEVEL_KEY and values.is_signed_key(value):
        return True  # before the check for placeholders: some of these keys begin with a dollar sign
    if span.in_prose:  # "the password is …"
        is_told = values.looks_random(value, 12 if level == _LEVEL_PASSWORD else 16)
        # `setx API_SECRET …`, `auth-token …`, `config set secretKey …`
        is_directive = span.literal or "_" in name or "-" in name or not (name.islower() or name.istitle())
        if not is_told and (level == _LEVEL_PASSWORD or (is_directive and level == _LEVEL_SECRET)):
            is_ambiguous = name.strip("-.$_").lower() in _AMBIGUOUS_PASSWORD_NAMES
            is_told = values.is_human_password(value) or (
                not is_ambiguous
                and (_is_mixed(value) or (values.is_no_word(value) and not (span.literal and value.isalpha())))
            )
            is_told = is_told and not _EMAIL.search(value) and not value.startswith("--")
        is_told = is_told and not values.is_fingerprint(value) and any(map(str.isalpha, value))
        is_secret = is_told and level > _LEVEL_SIGNATURE and (level > _LEVEL_KEY or len(value) >= 24)
    elif level == _LEVEL_SIGNATURE:
        is_secret = span.in_query_string and values.looks_random(value.replace("%", ""), 16)
    elif level == _LEVEL_PASSWORD:
        is_secret = len(value) >= 4 and _is_password(value, name, literal=span.literal)
    elif level == _LEVEL_SECRET:
        is_certain = (
            span.literal or name.startswith("-") or name.lower().endswith(("secret", "credential", "credentials"))
        )
        is_secret = (
            values.looks_random(value, 8 if span.in_query_string else 12)
            or _is_mixed_secret(value, literal=span.literal)
            or (is_certain and (values.is_human_password(value) or values.is_no_word(value)))
        )
    else:
        is_secret = values.looks_random(value, 24) and not values.is_fingerprint(value)
    return is_secret and value.lower() != name.lower() and not values.is_placeholder(value)


def _is_mixed_secret(value: str, *, literal: bool) -> bool:
    if literal and (_is_mixed(value) or value.count("\\x") >= 6):
        return True
    name, _, number = value.partition("$")  # a bundler's name for a type: `OAuthCredential$1`
    has_both_cases = value not in {value.lower(), value.upper()} and not (name.isalpha() and number.isdigit())
    return len(value) >= 12 and has_both_cases and values.is_human_password(value) and _is_mixed(value)


_EMAIL = re.compile(r"@[\w-]+\.\w")
_DIGITS_AND_SYMBOLS = frozenset("0123456789!@#$%^&+=~?")
_REFERENCE_VALUE = re.compile(
    r"^(?:[./]|~(?:/|$)|[A-Za-z]:\\|\w+://)|^[A-Za-z_]\w*(?:\.\w+)*[(\[]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$", re.ASCII
)


def _is_password(value: str, name: str, *, literal: bool) -> bool:
    """Return True unless the value is a sentence, a path, a reference or a word about passwords."""
    if " " in value:
        return literal and "phrase" in name.lower() and value[0].islower() and value[-1] not in ".:!?"
    if values.is_human_password(value) or values.looks_random(value, 12) or values.is_no_word(value):
        return True
    is_number = value[:2] in {"0x", "0X"} and len(value) <= 10 and not value[2:].lower().strip("0123456789abcdef")
    if is_number and not literal:
        return False
    is_ambiguous = name.strip("-.$_").lower() in _AMBIGUOUS_PASSWORD_NAMES
    if _REFERENCE_VALUE.match(value) or (is_ambiguous and (value.isalpha() or not literal)):
        return False
    plain = value.replace("-", "").replace("_", "").isalpha()
    if literal:
        about_passwords = plain and (values.PASSWORD_VOCABULARY.search(value) or not value.isascii())
        return not about_passwords and value[:1] + value[-1:] not in {"[]", "()"}
    is_mixed = not _DIGITS_AND_SYMBOLS.isdisjoint(value) and not value.isdigit()
    return len(value) >= 6 and is_mixed and not values.is_name_like(value)


@lru_cache(maxsize=2048)
def _is_mixed(value: str) -> bool:
    """Return True if one word combines letters, digits and symbols."""
    if len(value) < 8 or any(letter.isspace() for letter in value) or _REFERENCE_VALUE.match(value):
        return False
    kinds = (str.isalpha, str.isdigit, lambda letter: letter in "!@#$%^&*+=~?|;")
    return not any(bracket in value for bracket in "[](){}\\") and all(any(map(kind, value)) for kind in kinds)


_LINE_END = r"(?:\r?\n|\\n)"
_VALUE_BELOW_NAME = re.compile(
    rf":(?<=[A-Za-z0-9_.$\"'`*-]:)\*{{0,2}}[ \t]{{0,4}}([|>][+-]?[0-9]?[ \t]{{0,8}})?{_LINE_END}(?:[>+-]?[ \t]{{0,8}}{_LINE_END})?[>+-]?[ \t]{{0,40}}"
    r"([^\s\"'`<>\\]{6,4096}+)(?=([ \t]{0,8}(?:[\r\n\\]|\Z))?)"
)
_NAME_VALUE_FIELDS = re.compile(
    r"(?:name|key)\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?([\w.-]{2,64}+)\\?[\"']?[ \t]{0,4}(?:,\s{0,40}|(?:\s|\\n){1,40})"
    r"\\?[\"']?\w{0,12}value\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}"
    r"(?:\"([^\"\n]{4,4096}+)\"|'([^'\n]{4,4096}+)'|\\\"([^\"\\\n]{4,4096}+)\\\"|([^\s\"'`<>\\,}]{4,4096}+))",
    re.IGNORECASE | re.ASCII,
)
_TABLE_CELLS = re.compile(r"\|[ \t]{0,40}+([\w.`*-][\w.`* -]{1,63}+)\|[ \t]{0,40}+`?([^\s|`]{6,4096}+)`?[ \t]{0,40}+\|")
_TRAILING_NAME = re.compile(r"(?:[A-Za-z]{1,20} )?[\w.$-]{2,64}[\"'`*]{0,2}\Z", re.ASCII)


def separated_value_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find a value below its name (long YAML values), in a `value` field next to `name`, or in the next table cell."""
    if ":" in text:
        yield from _below_name_spans(text, lowered)
    if "value" in text or "Value" in text:
        yield from _value_field_spans(text, lowered)
    if text.count("|") > 2:
        for match in _TABLE_CELLS.finditer(text):
            kind = secret_kind(_normalize_name(match[1]), match[2], literal=False)
            if values.looks_random(match[2]) or values.is_told_password(match[2]):
                yield from [(match.start(2), match.end(2), kind)] if kind else ()


def _value_field_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    for match in word_matches(text, lowered, ("name", "key"), _NAME_VALUE_FIELDS):
        index = match.lastindex or 0
        kind = secret_kind(match[1], match[index], literal=False)
        name = match[1].lower()
        if not kind and ("sess" in name or f".{name}".endswith(".sid")) and values.looks_random(match[index]):
            kind = "cookie"
        if kind:
            yield match.start(index), match.end(index), kind


def _below_name_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    for match in _VALUE_BELOW_NAME.finditer(text):
        before = text[max(0, match.start() - 90) : match.start()].rpartition("\n")[2]
        line = lowered[match.start() - len(before) : match.start()]
        if not any(map(line.__contains__, _NAME_STEMS)):
            continue  # in programs, nearly every colon at the end of a line
        name = _TRAILING_NAME.search(before)
        is_certain = match[3] is not None or (  # alone on its line, or a key even where other text follows it
            values.looks_random(match[2], 20)
            and any(map(str.isdigit, match[2]))
            and not values.is_fingerprint(match[2])
        )
        if (
            name
            and "](" not in match[2]
            and is_certain
            and (kind := secret_kind(_normalize_name(name[0]), match[2], literal=bool(match[1])))
        ):
            yield match.start(2), match.end(2), kind


def _normalize_name(name: str) -> str:
    return name.strip("\"'`* ").replace(" ", "_")
