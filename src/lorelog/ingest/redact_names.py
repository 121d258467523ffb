"""Secrets known by the name they are given to: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `?sig=…`, `<secret>…</secret>`.

A name says how much its value must prove. What is called a password is one when it is written out; what is called a
token, secret or API key must look random or mixed; what is only called a key must look random and not like a hash or a
UUID, because most keys in programs open nothing. Names that speak about a secret (`token_count`, `password_hash`,
`secretName`) are not the secret's own.

Names are found by `str.find` on their telling syllables and read from there, so a text pays for the syllables it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lorelog.ingest.redact_places import Span
from lorelog.ingest.redact_values import is_fingerprint, is_name_like, is_placeholder, looks_random

_SYLLABLES = ("pass", "pwd", "secret", "token", "key", "credential", "auth", "sig", "jwt")
_PASSWORD, _SECRET, _KEY, _SIGNATURE = 4, 3, 2, 1
_NOTHING = (0, "")
_NAME_MOST = 64
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$")

_AFTER = re.compile(
    r"([A-Za-z0-9_-]{0,40}+)\\*[\"'`]?[\])]?"
    r"(?:([ \t]{0,20}(?:=>|:=|\+?={1,3}|[!]==?|:(?![:/])|：|,)[ \t]{0,20})|([ \t]{1,4}(?:(?:is|was|to|ist)[ \t]{1,4})?)|(>))",
    re.ASCII,
)
_LOOSE = frozenset({",", "==", "===", "!=", "!=="})  # what follows is another thing, or is only compared with
_TYPED = re.compile(r"[A-Za-z_][\w.\[\]|?&]{0,30}+[ \t]{0,4}=[ \t]{0,4}(?![=>])", re.ASCII)
_QUOTED = re.compile(r"([fFrRbBuU]{0,2})([\"'`])((?:\\.|(?!\2)[^\\\n])++)")
_ESCAPED = re.compile(r"(\\+[\"'])((?:(?!\1)[^\n])++)")
_BARE_MOST = 160  # enough to judge by; what is taken out goes on to the value's end
_BARE = re.compile(rf"(?![\[({{])[^\s\"'`<>\\]{{1,{_BARE_MOST}}}+")
_BARE_REST = re.compile(r"[^\s\"'`<>\\]*+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SHOUTED = re.compile(r"^[A-Z][A-Z0-9_]*$")

_PASSWORDS = frozenset({"password", "passwd", "pwd", "passphrase", "passcode", "pass"})
_SECRETS = frozenset({"secret", "secrets", "token", "apikey", "credential", "credentials", "jwt"})
_ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "secretkey", "accesskey", "privatekey")
_KEY_OWNERS = frozenset(
    """
    api access secret private signing encryption master account service auth storage session deploy ssh webhook client
    shared admin app license subscription ingest write bot rest personal
    """.split()  # noqa: SIM905
)
# The last word of a name that is about a secret and does not hold it.
_ABOUT = frozenset(
    """
    count counts limit limits name names id ids type types length len size url uri path paths file files filename dir
    field fields label labels hint hints error errors expires expiry expiration expired ttl policy format prefix suffix
    header headers param params parameter version index usage used budget cost regex pattern patterns class element ref
    refs status valid required min max rule rules arn var vars env provider endpoint placeholder title message
    description text icon input output hash hashed digest fingerprint salt store storage manager service factory
    validator helper handler middleware method methods mode strategy scope scopes enabled disabled set present changed
    at date time timestamp seconds minutes days config configuration settings option options reader writer kind source
    location algorithm alg bits ring board press down up code codes word words map list array per generator parser
    tokenizer stream iterator cache test tests spec schema model view page form dialog screen route reset strength
    confirmation
    """.split()  # noqa: SIM905
)
_OWNERS = frozenset(
    """
    aws azure gcp google twilio heroku cloudflare vercel netlify datadog algolia okta auth0 fastly mistral cohere railway
    upstash wandb openai anthropic github gitlab stripe slack discord telegram sentry mailgun sendgrid firebase jira
    snowflake databricks elastic kafka rabbitmq postgres mysql redis mongo
    """.split()  # noqa: SIM905
)


class _Place(NamedTuple):
    """Where a value stands: how it is written, and what that says about it."""

    start: int
    end: int
    value: str
    literal: (
        bool  # quoted, or written where only a value can stand: an environment file, an element, a connection string
    )
    query: bool
    spoken: bool = False  # behind a space or a verb: `ENV API_TOKEN …`, "the token is …"


def assigned_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Values that are given to names which say that they are secret."""
    seen: set[int] = set()
    for syllable in _SYLLABLES:
        at = lowered.find(syllable)
        while at >= 0:
            after = _AFTER.match(text, at + len(syllable))
            read = at + len(syllable)
            if after and after.end() not in seen:
                seen.add(after.end())
                if span := _examine(text, at, after):
                    yield span
                    read = span[1]
            at = lowered.find(syllable, read)


def _examine(text: str, at: int, after: re.Match[str]) -> Span | None:
    start = _name_start(text, at)
    name = text[start : after.end(1)]
    level, kind = _level(name)
    place = _place(text, start, name, after) if level else None
    if not place or not _is_secret(name, level, place):
        return None
    rest = _BARE_REST.match(text, place.end) if place.end - place.start == _BARE_MOST else None
    return place.start, rest.end() if rest else place.end, kind


def is_secret_of(name: str, value: str, *, literal: bool) -> str:
    """Return the kind of secret that a value is by its name, which may stand anywhere; nothing where it is none.

    `literal`: only a value can stand where it does.
    """
    level, kind = _level(name)
    place = _Place(0, len(value), value, literal, query=False)
    return kind if level and _is_secret(name, level, place) else ""


def _name_start(text: str, at: int) -> int:
    start, least = at, max(0, at - _NAME_MOST)
    while start > least and text[start - 1] in _NAME_LETTERS:
        start -= 1
    if start and text[start - 1] == "\\" and text[start] in "nrt" and start < at:
        start += 1
    return start


@lru_cache(maxsize=4096)
def _level(name: str) -> tuple[int, str]:
    """How much a name says about its value (0: nothing), and the kind to call it by."""
    words = [word.lower() for word in _WORDS.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in {"base", "value", "b64"}):
        words.pop()
    if not words or words[-1] in _ABOUT or name.strip("-.$_") in {"PWD", "OLDPWD", "pwd"}:
        return _NOTHING
    last = words[-1]
    if last in _PASSWORDS or last.endswith(("password", "passwd", "passphrase")):
        return _PASSWORD, "password"
    return _NOTHING if "public" in words or "publishable" in words else _level_of_key(words, last)


def _level_of_key(words: list[str], last: str) -> tuple[int, str]:
    owner = next((word for word in words if word in _OWNERS), "")
    paired = last in {"key", "keys"} and any(word in _KEY_OWNERS for word in words[:-1])
    if last in _SECRETS or last.endswith(_ENDINGS) or paired or (owner and last in {"key", "auth"}):
        return _SECRET, f"{owner}-secret" if owner else "api-key" if "key" in last else last.removesuffix("s")
    if last in {"sig", "signature"}:
        return _SIGNATURE, "signature"
    if last in {"key", "auth"}:
        return _KEY, "key"
    return _NOTHING


def _place(text: str, start: int, name: str, after: re.Match[str]) -> _Place | None:
    """Read the value behind a name, if there is one."""
    separator, position = (after[2] or "").strip(), after.end()
    if ":" in separator and (typed := _TYPED.match(text, position)):
        position = typed.end()
    quoted, escaped = _QUOTED.match(text, position), _ESCAPED.match(text, position)
    if quoted and (after[3] or "").strip():
        return _Place(quoted.start(3), quoted.end(3), quoted[3], literal=False, query=False, spoken=True)
    if quoted and not after[4] and not (after[3] and not name.startswith("--")):
        computed = "f" in quoted[1].lower() and "{" in quoted[3]
        literal = separator not in _LOOSE
        return None if computed else _Place(quoted.start(3), quoted.end(3), quoted[3], literal, query=False)
    if escaped and not after[3] and not after[4]:
        return _Place(escaped.start(2), escaped.end(2), escaped[2], separator not in _LOOSE, query=False)
    return None if separator in _LOOSE else _unquoted(text, start, name, after, position)


def _unquoted(text: str, start: int, name: str, after: re.Match[str], position: int) -> _Place | None:
    before = text[max(0, start - 5) : start]
    if after[4]:
        return _bare(text, position, ends="<") if before.endswith("<") and name[-1:].isalnum() else None
    if before.endswith(("?", "&", "&amp;")):
        return _bare(text, position, ends="&#;", query=True)
    if after[2] == "=" and _is_connection(text, start):
        return _bare(text, position, ends=";", literal=True)
    if after[2] == "=" and _SHOUTED.match(name):
        return _bare(text, position, ends="", literal=True)
    place = _bare(text, position, ends=",;&)}]")
    return place._replace(spoken=bool(after[3]) and not name.startswith("--")) if place else None


def _bare(text: str, position: int, *, ends: str, literal: bool = False, query: bool = False) -> _Place | None:
    found = _BARE.match(text, position)
    value = found[0] if found else ""
    for end in ends:
        value = value.partition(end)[0]
    value = value.rstrip(",;" if literal else ".,;)}]")
    if ends == "<":
        literal = text.startswith("</", position + len(value))
        value = value if literal else ""
    return _Place(position, position + len(value), value, literal, query) if value else None


def _is_connection(text: str, start: int) -> bool:
    """Whether a name stands in a connection string: `Server=…;User Id=…;Password=…`."""
    before = text[max(0, start - 200) : start].rpartition("\n")[2].rstrip()
    return before.endswith(";") and "=" in before


def _is_secret(name: str, level: int, place: _Place) -> bool:
    value = place.value
    if place.spoken:
        said = looks_random(value) or (level == _PASSWORD and _is_mixed(value) and not _MAIL.search(value))
        found = level in {_SECRET, _PASSWORD} and said and not is_fingerprint(value)
    elif level == _SIGNATURE:
        found = place.query and looks_random(value.replace("%", ""), 16)
    elif level == _PASSWORD:
        found = len(value) >= 4 and _is_password(value, name, literal=place.literal)
    elif level == _SECRET:
        found = looks_random(value, 8 if place.query else 12) or (place.literal and _is_mixed(value))
    else:
        found = looks_random(value, 24) and not is_fingerprint(value)
    return found and value.lower() != name.lower() and not is_placeholder(value)


_MAIL = re.compile(r"@[\w-]+\.\w")
_TALKING = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|login|user|input|field|test|required|invalid", re.IGNORECASE
)
_TELLING = re.compile(r"[0-9!@#$%^&+=~?]")
_BRACKETED = re.compile(r"\[[^\]]*\]$|\([^)]*\)$")
_REFERS = re.compile(
    r"^(?:[./~]|[A-Za-z]:\\|\w+://)|^[A-Za-z_]\w*(?:\.\w+)*[(\[]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$", re.ASCII
)


def _is_password(value: str, name: str, *, literal: bool) -> bool:
    """A password is what is written out; sentences, paths, references and words about passwords are not."""
    if " " in value:
        return literal and "phrase" in name.lower() and value[0].islower() and value[-1] not in ".:!?"
    if _REFERS.match(value) or (name.strip("-.$_").lower() == "pass" and (value.isalpha() or not literal)):
        return False  # what passes in reports and code is called so, too
    plain = value.replace("-", "").replace("_", "").isalpha()
    if literal:
        return not (plain and (_TALKING.search(value) or not value.isascii())) and not _BRACKETED.match(value)
    return len(value) >= 6 and bool(_TELLING.search(value)) and not value.isdigit() and not is_name_like(value)


def _is_mixed(value: str) -> bool:
    """Letters, digits and signs in one word."""
    if len(value) < 8 or any(one.isspace() for one in value) or _REFERS.match(value):
        return False
    kinds = (str.isalpha, str.isdigit, lambda one: one in "!@#$%^&*+=~?|;")
    return not any(one in value for one in "[](){}\\") and all(any(map(kind, value)) for kind in kinds)
