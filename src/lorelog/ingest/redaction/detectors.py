"""Detect secrets by context: key blocks, URLs, headers, cookies, commands, password files, assignments and tables.

Each detector yields spans (start, end, kind) of the secret alone, so that the rest stays readable: the user name in a
URL, the scheme in a header, the names of cookies.

The name of an assignment (`DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `?sig=…`, `<secret>…</secret>`) determines how
strict the check of its value is. A literal `password` value is a secret; a `token`, `secret` or API key must look random
or mixed; a plain `key` must look random and not like a hash or a UUID, because most keys in programs are not
credentials. Names about a secret (`token_count`, `password_hash`, `secretName`) are excluded. Names are located by
`str.find` on a few stems, so a text costs only as much as the stems it contains.

A command-line option depends on its program, so it is matched only after the program's name on the same line. A name and
its value may also be on two lines, in two fields of an object or in two cells of a table; the same checks apply there,
but a value that is not written as an assignment is never redacted because of its name alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lorelog.ingest.redaction.values import is_fingerprint, is_name_like, is_placeholder, looks_random

SecretSpan = tuple[int, int, str]

_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_MAX_KEY_BLOCK_CHARS = 32_768
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/=]{16}")
# The body of a block without an end marker: whole lines of base64, headers, and a last short line.
_TRUNCATED_KEY_BODY = re.compile(
    r"(?:(?:\s|\\[nr]|[\"',+>|#*-]){0,40}+(?:[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{0,200}))++"
    r"(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{1,15}+(?=\s*\Z|\s*\n|\\|[\"']))?"
)
_PUTTY = re.compile(r"Private-Lines: ?[0-9]{1,4}(?:\s|\\[nr])++((?:[A-Za-z0-9+/=]{8,}+(?:\s|\\[nr])*+)++)")


def private_key_spans(text: str) -> Iterator[SecretSpan]:
    """Find PEM, OpenSSH, PGP and PuTTY private keys, whole or truncated, also on one line with escaped line ends."""
    if "PRIVATE KEY" in text and "-----BEGIN" in text:
        ends = [(match.start(), match.end()) for match in _KEY_END.finditer(text)]
        begins = list(_KEY_BEGIN.finditer(text))
        following = [*(match.start() for match in begins[1:]), len(text)]
        for begin, limit in zip(begins, following, strict=False):
            index = bisect_left(ends, (begin.end(), 0))
            whole = index < len(ends) and ends[index][0] < min(limit, begin.end() + _MAX_KEY_BLOCK_CHARS)
            if whole and _BASE64_RUN.search(text, begin.end(), ends[index][0]):
                yield begin.start(), ends[index][1], "private-key"
            elif not whole and (body := _TRUNCATED_KEY_BODY.match(text, begin.end())):
                yield begin.start(), body.end(), "private-key"
    if "Private-Lines:" in text:
        for match in _PUTTY.finditer(text):
            yield match.start(1), match.end(1), "private-key"


_URL_PASSWORD = re.compile(r"://([^\s/:@\"'<>\\`?#\[\]]{0,128}+):([^\s/@\"'<>`?#]{1,256}+)@(?=[\w\[.$%{-])", re.ASCII)
_URL_TOKEN = re.compile(r"https?://([A-Za-z0-9_.~%-]{16,256}+)@", re.ASCII)


def url_credential_spans(text: str) -> Iterator[SecretSpan]:
    """Find `scheme://user:PASSWORD@host`, and tokens in place of the user name."""
    if "://" not in text or "@" not in text:
        return
    for match in _URL_PASSWORD.finditer(text):
        if not is_placeholder(match[2]) and match[2] != match[1]:
            yield match.start(2), match.end(2), "url-password"
    for match in _URL_TOKEN.finditer(text):
        if looks_random(match[1]) and not is_placeholder(match[1]):
            yield match.start(1), match.end(1), "url-token"


_AUTHORIZATION = re.compile(
    r"authorization\\*[\"'`]?[\])]?[ \t]{0,8}(?:[:=,]|=>)[ \t]{0,8}(?:f|b|rb)?\\*[\"'`]?"
    r"(?:(bearer|basic|token|digest|negotiate|apikey|api-key|ssws|key|bot|aws4-hmac-sha256)[ \t:=]{1,4})?"
    r"([^\s\"'`\\<>]{6,4096}+)",
    re.IGNORECASE,
)
_TOKEN68 = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9._~+/=:|-]+$", re.ASCII)
_BEARER = re.compile(r"bearer[ \t]{1,4}([A-Za-z0-9_.~+/=-]{16,4096}+)", re.IGNORECASE)
_AUTH_PARAMETER = re.compile(r"(?:signature|response|nonce)=\"?([^\s\",]{8,512}+)", re.IGNORECASE)


def header_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find credentials in Authorization headers, in any notation, and after the word Bearer."""
    if "authorization" in lowered:
        for match in _AUTHORIZATION.finditer(text):
            if match[1] and match[1].lower() in {"digest", "aws4-hmac-sha256"}:
                line = text[match.start(2) : match.start(2) + 1024].split("\n", 1)[0]
                for part in _AUTH_PARAMETER.finditer(line):
                    yield match.start(2) + part.start(1), match.start(2) + part.end(1), "authorization"
            elif _is_credential(match[2].rstrip(",;)}]"), known_scheme=bool(match[1])):
                yield match.start(2), match.start(2) + len(match[2].rstrip(",;)}]")), "authorization"
    if "bearer" in lowered:
        for match in _BEARER.finditer(text):
            value = match[1].rstrip(".")
            if looks_random(value) and not is_placeholder(value):
                yield match.start(1), match.start(1) + len(value), "authorization"


def _is_credential(value: str, *, known_scheme: bool) -> bool:
    if is_placeholder(value) or is_name_like(value):
        return False
    return bool(_TOKEN68.match(value)) if known_scheme else looks_random(value)


_COOKIE_HEADER = re.compile(r"cookie\\*[\"'`]?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"'`]?([^\n\"'`\\]{4,8192}+)", re.IGNORECASE)
_COOKIE = re.compile(r"(?:^|;|,)\s{0,4}([\w.%-]{1,128}+)=([^;,\s]{8,4096}+)", re.ASCII)
_COOKIE_ATTRIBUTES = frozenset({"path", "domain", "expires", "max-age", "samesite", "priority"})


def cookie_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find the values of cookies in Cookie and Set-Cookie headers; names and attributes stay."""
    if "cookie" not in lowered:
        return
    for header in _COOKIE_HEADER.finditer(text):
        for cookie in _COOKIE.finditer(header[1]):
            name, value = cookie[1].lower(), cookie[2]
            may_be_secret = any(letter.isdigit() for letter in value) and not is_name_like(value)
            if name not in _COOKIE_ATTRIBUTES and may_be_secret and not is_placeholder(value):
                yield header.start(1) + cookie.start(2), header.start(1) + cookie.end(2), "cookie"


COMMAND_VALUE = r"(?:\"([^\"\s]{1,256}+)\"|'([^'\s]{1,256}+)'|([^\s\"'`|;&<>\\]{1,256}+))"
"""The value of a command-line option, quoted or not."""
_USER_FLAG = re.compile(rf"[ \t](?:-u|--user|--proxy-user|-U)(?:[ \t=]{{1,4}}|(?=[\"'\w])){COMMAND_VALUE}", re.ASCII)
_PASSWORD_FLAG = re.compile(rf"[ \t]-p([ \t]{{0,4}}){COMMAND_VALUE}")
_LOGIN_PROGRAMS = ("curl", "wget")
_MAX_LOOKBACK_CHARS = 600


def command_password_spans(text: str) -> Iterator[SecretSpan]:
    """Find `curl -u user:PASSWORD`, `sshpass -p PASSWORD`, `mysql -pPASSWORD`, `docker login -p PASSWORD`."""
    if ("-u" in text or "-U" in text or "-user" in text) and any(name in text for name in _LOGIN_PROGRAMS):
        for match in _USER_FLAG.finditer(text):
            yield from _user_password_spans(text, match)
    if " -p" in text and any(name in text for name in ("sshpass", "mysql", "mariadb", " login ")):
        for match in _PASSWORD_FLAG.finditer(text):
            index = match.lastindex or 0
            line = command_before(text, match.start())
            joined = ("mysql" in line or "mariadb" in line) and not match[1]
            fits = joined or "sshpass" in line or (" login" in line and match[1])
            if fits and len(match[index]) >= 4 and not is_placeholder(match[index]):
                yield match.start(index), match.end(index), "command-password"


def _user_password_spans(text: str, match: re.Match[str]) -> Iterator[SecretSpan]:
    index = match.lastindex or 0
    user, colon, password = match[index].partition(":")
    line = command_before(text, match.start())
    if not colon or len(password) < 3 or password.isdigit() or not any(name in line for name in _LOGIN_PROGRAMS):
        return
    if not is_placeholder(password):
        yield match.start(index) + len(user) + 1, match.end(index), "command-password"


def command_before(text: str, position: int) -> str:
    """Return the part of the current command that precedes a position."""
    return text[max(0, position - _MAX_LOOKBACK_CHARS) : position].replace("\\\n", " ").rpartition("\n")[2]


_NETRC = re.compile(
    r"\b(?:login|user)[ \t\n]{1,8}[^\s\"'`]{1,128}[ \t\n]{1,8}password[ \t\n]{1,8}([^\s\"'`\\]{3,256}+)", re.ASCII
)
_PGPASS = re.compile(
    r"^[ \t]{0,8}[\w.*-]{1,128}+:(?:5432|5433|6432|6543|\*):[\w.*-]{1,64}+:[\w.*@-]{1,64}+:(\S{3,256}+)$",
    re.MULTILINE | re.ASCII,
)


def password_file_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find passwords in lines of .netrc and .pgpass."""
    if "password" in lowered and ("login" in lowered or "machine" in lowered):
        is_netrc = "machine" in lowered
        for match in _NETRC.finditer(text):
            if not is_placeholder(match[1]) and (is_netrc or not match[1].isalpha()):
                yield match.start(1), match.end(1), "netrc-password"
    if any(port in text for port in (":5432:", ":5433:", ":6432:", ":6543:", ":*:")):
        for match in _PGPASS.finditer(text):
            if not is_placeholder(match[1]):
                yield match.start(1), match.end(1), "pgpass-password"


_NAME_STEMS = ("pass", "pwd", "secret", "token", "key", "credential", "auth", "sig", "jwt")
_LEVEL_PASSWORD, _LEVEL_SECRET, _LEVEL_KEY, _LEVEL_SIGNATURE = 4, 3, 2, 1
_LEVEL_NONE = (0, "")
_MAX_NAME_CHARS = 64
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$")

_SEPARATOR = re.compile(
    r"([A-Za-z0-9_-]{0,40}+)\\*[\"'`]?[\])]?"
    r"(?:([ \t]{0,20}(?:=>|:=|\+?={1,3}|[!]==?|:(?![:/])|：|,)[ \t]{0,20})|([ \t]{1,4}(?:(?:is|was|to|ist)[ \t]{1,4})?)|(>))",
    re.ASCII,
)
# The text after one of these is another item, or is only compared with the name.
_NON_ASSIGNMENT_SEPARATORS = frozenset({",", "==", "===", "!=", "!=="})
_TYPE_ANNOTATION = re.compile(r"[A-Za-z_][\w.\[\]|?&]{0,30}+[ \t]{0,4}=[ \t]{0,4}(?![=>])", re.ASCII)
_QUOTED_VALUE = re.compile(r"([fFrRbBuU]{0,2})([\"'`])((?:\\.|(?!\2)[^\\\n])++)")
_ESCAPED_VALUE = re.compile(r"(\\+[\"'])((?:(?!\1)[^\n])++)")
_MAX_BARE_CHARS = 160  # enough to judge a value; the redacted span extends to the value's end
_BARE_VALUE = re.compile(rf"(?![\[({{])[^\s\"'`<>\\]{{1,{_MAX_BARE_CHARS}}}+")
_BARE_VALUE_REST = re.compile(r"[^\s\"'`<>\\]*+")
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UPPER_CASE_NAME = re.compile(r"^[A-Z][A-Z0-9_]*$")

_PASSWORD_WORDS = frozenset({"password", "passwd", "pwd", "passphrase", "passcode", "pass"})
_SECRET_WORDS = frozenset({"secret", "secrets", "token", "apikey", "credential", "credentials", "jwt"})
_SECRET_SUFFIXES = (
    *("password", "passwd", "passphrase", "secret", "token", "apikey", "secretkey", "accesskey", "privatekey"),
)
_KEY_QUALIFIERS = frozenset(
    """
    api access secret private signing encryption master account service auth storage session deploy ssh webhook client
    shared admin app license subscription ingest write bot rest personal
    """.split()  # noqa: SIM905
)
# Last words of names that describe a secret but do not hold it.
_METADATA_WORDS = frozenset(
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
_VENDOR_NAMES = frozenset(
    """
    aws azure gcp google twilio heroku cloudflare vercel netlify datadog algolia okta auth0 fastly mistral cohere railway
    upstash wandb openai anthropic github gitlab stripe slack discord telegram sentry mailgun sendgrid firebase jira
    snowflake databricks elastic kafka rabbitmq postgres mysql redis mongo
    """.split()  # noqa: SIM905
)


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
                if span := _secret_span_at(text, at, after):
                    yield span
                    end = span[1]
            at = lowered.find(stem, end)


def _secret_span_at(text: str, at: int, after: re.Match[str]) -> SecretSpan | None:
    start = _name_start(text, at)
    name = text[start : after.end(1)]
    level, kind = _name_level(name)
    span = _read_value(text, start, name, after) if level else None
    if not span or not _is_secret(name, level, span):
        return None
    rest = _BARE_VALUE_REST.match(text, span.end) if span.end - span.start == _MAX_BARE_CHARS else None
    return span.start, rest.end() if rest else span.end, kind


def secret_kind(name: str, value: str, *, literal: bool) -> str:
    """Return the kind of secret that a named value is; empty if it is not one.

    `literal`: the position allows only a value, not code.
    """
    level, kind = _name_level(name)
    span = _ValueSpan(0, len(value), value, literal, in_query_string=False)
    return kind if level and _is_secret(name, level, span) else ""


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
    words = [word.lower() for word in _NAME_WORDS.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in {"base", "value", "b64"}):
        words.pop()
    if not words or words[-1] in _METADATA_WORDS or name.strip("-.$_") in {"PWD", "OLDPWD", "pwd"}:
        return _LEVEL_NONE
    last = words[-1]
    if last in _PASSWORD_WORDS or last.endswith(("password", "passwd", "passphrase")):
        return _LEVEL_PASSWORD, "password"
    return _LEVEL_NONE if "public" in words or "publishable" in words else _key_name_level(words, last)


def _key_name_level(words: list[str], last: str) -> tuple[int, str]:
    owner = next((word for word in words if word in _VENDOR_NAMES), "")
    paired = last in {"key", "keys"} and any(word in _KEY_QUALIFIERS for word in words[:-1])
    if last in _SECRET_WORDS or last.endswith(_SECRET_SUFFIXES) or paired or (owner and last in {"key", "auth"}):
        return _LEVEL_SECRET, f"{owner}-secret" if owner else "api-key" if "key" in last else last.removesuffix("s")
    if last in {"sig", "signature"}:
        return _LEVEL_SIGNATURE, "signature"
    if last in {"key", "auth"}:
        return _LEVEL_KEY, "key"
    return _LEVEL_NONE


def _read_value(text: str, start: int, name: str, after: re.Match[str]) -> _ValueSpan | None:
    """Read the value after a name, if there is one."""
    separator, position = (after[2] or "").strip(), after.end()
    if ":" in separator and (typed := _TYPE_ANNOTATION.match(text, position)):
        position = typed.end()
    quoted, escaped = _QUOTED_VALUE.match(text, position), _ESCAPED_VALUE.match(text, position)
    if quoted and (after[3] or "").strip():
        return _ValueSpan(
            quoted.start(3), quoted.end(3), quoted[3], literal=False, in_query_string=False, in_prose=True
        )
    if quoted and not after[4] and not (after[3] and not name.startswith("--")):
        computed = "f" in quoted[1].lower() and "{" in quoted[3]
        literal = separator not in _NON_ASSIGNMENT_SEPARATORS
        return (
            None if computed else _ValueSpan(quoted.start(3), quoted.end(3), quoted[3], literal, in_query_string=False)
        )
    if escaped and not after[3] and not after[4]:
        return _ValueSpan(
            escaped.start(2),
            escaped.end(2),
            escaped[2],
            separator not in _NON_ASSIGNMENT_SEPARATORS,
            in_query_string=False,
        )
    return (
        None if separator in _NON_ASSIGNMENT_SEPARATORS else _read_unquoted(text, start, name, after, position=position)
    )


def _read_unquoted(text: str, start: int, name: str, after: re.Match[str], *, position: int) -> _ValueSpan | None:
    before = text[max(0, start - 5) : start]
    if after[4]:
        return _read_bare(text, position, ends="<") if before.endswith("<") and name[-1:].isalnum() else None
    if before.endswith(("?", "&", "&amp;")):
        return _read_bare(text, position, ends="&#;", query=True)
    if after[2] == "=" and _in_connection_string(text, start):
        return _read_bare(text, position, ends=";", literal=True)
    if after[2] == "=" and _UPPER_CASE_NAME.match(name):
        return _read_bare(text, position, ends="", literal=True)
    span = _read_bare(text, position, ends=",;&)}]")
    return span._replace(in_prose=bool(after[3]) and not name.startswith("--")) if span else None


def _read_bare(text: str, position: int, *, ends: str, literal: bool = False, query: bool = False) -> _ValueSpan | None:
    match = _BARE_VALUE.match(text, position)
    value = match[0] if match else ""
    for end in ends:
        value = value.partition(end)[0]
    value = value.rstrip(",;" if literal else ".,;)}]")
    if ends == "<":
        literal = text.startswith("</", position + len(value))
        value = value if literal else ""
    return _ValueSpan(position, position + len(value), value, literal, query) if value else None


def _in_connection_string(text: str, start: int) -> bool:
    """Return True if a name is part of a connection string: `Server=…;User Id=…;Password=…`."""
    before = text[max(0, start - 200) : start].rpartition("\n")[2].rstrip()
    return before.endswith(";") and "=" in before


def _is_secret(name: str, level: int, span: _ValueSpan) -> bool:
    value = span.value
    if span.in_prose:
        plausible = looks_random(value) or (level == _LEVEL_PASSWORD and _is_mixed(value) and not _EMAIL.search(value))
        is_secret = level in {_LEVEL_SECRET, _LEVEL_PASSWORD} and plausible and not is_fingerprint(value)
    elif level == _LEVEL_SIGNATURE:
        is_secret = span.in_query_string and looks_random(value.replace("%", ""), 16)
    elif level == _LEVEL_PASSWORD:
        is_secret = len(value) >= 4 and _is_password(value, name, literal=span.literal)
    elif level == _LEVEL_SECRET:
        is_secret = looks_random(value, 8 if span.in_query_string else 12) or (span.literal and _is_mixed(value))
    else:
        is_secret = looks_random(value, 24) and not is_fingerprint(value)
    return is_secret and value.lower() != name.lower() and not is_placeholder(value)


_EMAIL = re.compile(r"@[\w-]+\.\w")
_PASSWORD_VOCABULARY = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|login|user|input|field|test|required|invalid", re.IGNORECASE
)
_DIGIT_OR_SYMBOL = re.compile(r"[0-9!@#$%^&+=~?]")
_BRACKETED = re.compile(r"\[[^\]]*\]$|\([^)]*\)$")
_REFERENCE_VALUE = re.compile(
    r"^(?:[./~]|[A-Za-z]:\\|\w+://)|^[A-Za-z_]\w*(?:\.\w+)*[(\[]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$", re.ASCII
)


def _is_password(value: str, name: str, *, literal: bool) -> bool:
    """Return True unless the value is a sentence, a path, a reference or a word about passwords."""
    if " " in value:
        return literal and "phrase" in name.lower() and value[0].islower() and value[-1] not in ".:!?"
    if _REFERENCE_VALUE.match(value) or (name.strip("-.$_").lower() == "pass" and (value.isalpha() or not literal)):
        return False  # test reports and code use `pass` for other things
    plain = value.replace("-", "").replace("_", "").isalpha()
    if literal:
        return not (plain and (_PASSWORD_VOCABULARY.search(value) or not value.isascii())) and not _BRACKETED.match(
            value
        )
    return len(value) >= 6 and bool(_DIGIT_OR_SYMBOL.search(value)) and not value.isdigit() and not is_name_like(value)


def _is_mixed(value: str) -> bool:
    """Return True if one word combines letters, digits and symbols."""
    if len(value) < 8 or any(letter.isspace() for letter in value) or _REFERENCE_VALUE.match(value):
        return False
    kinds = (str.isalpha, str.isdigit, lambda letter: letter in "!@#$%^&*+=~?|;")
    return not any(bracket in value for bracket in "[](){}\\") and all(any(map(kind, value)) for kind in kinds)


_PROGRAM_OPTIONS = tuple(
    (program, re.compile(option + COMMAND_VALUE, re.ASCII))
    for program, option in (
        ("gh secret set", r"[ \t](?:-b|--body)[ \t=]{0,4}"),
        ("redis-cli", r"[ \t]-a[ \t]{1,4}"),
        ("mongo", r"[ \t]-p[ \t]{1,4}"),
        ("zip", r"[ \t]-P[ \t]{0,4}"),
        ("7z ", r"[ \t]-p"),
        ("openssl", r"[ \t](?:-k[ \t]{1,4}|-pass(?:in|out)?[ \t]{1,4}pass:)"),
        ("ssh-keygen", r"[ \t]-[NP][ \t]{1,4}"),
        ("doctl", r"[ \t](?:-t|--access-token)[ \t=]{1,4}"),
        ("htpasswd", r"[ \t]-[A-Za-z]{0,4}b[A-Za-z]{0,4}[ \t]{1,4}[^\s]{1,200}+[ \t]{1,4}[^\s]{1,64}+[ \t]{1,4}"),
        ("--password-stdin", r"[ \t]{0,4}<<<[ \t]{0,4}"),
    )
)
_PIPED_SECRET = re.compile(
    rf"\b(?:echo|printf)[ \t]{{1,4}}(?:-[neE]{{1,3}}[ \t]{{1,4}})?(?:[\"']?%s(?:\\n)?[\"']?[ \t]{{1,4}})?{COMMAND_VALUE}"
    r"[ \t]{0,4}\|([^\n;&]{0,300}+)",
    re.ASCII,
)
_STDIN_CONSUMERS = (
    "--password-stdin",
    "--with-token",
    "sudo -S",
    "chpasswd",
    "passwd --stdin",
    "secret put",
    "secret set",
)
_SECRET_STORES = ("vault kv put", "vault write", "secrets set", "config:set", "--from-literal", "secrets:set")
_STORE_ASSIGNMENT = re.compile(rf"[ \t=\"'][A-Za-z_][\w.-]{{0,63}}+={COMMAND_VALUE}", re.ASCII)
_MAX_LINE_CHARS = 1000


def command_argument_spans(text: str) -> Iterator[SecretSpan]:
    """Find `gh secret set X -b VALUE`, `echo VALUE | docker login --password-stdin`, `vault kv put path x=VALUE`."""
    for program, option in _PROGRAM_OPTIONS:
        if program in text:
            for match in option.finditer(text):
                index = match.lastindex or 0
                if program in command_before(text, match.start() + 1) and _is_plausible_password(match[index]):
                    yield match.start(index), match.end(index), "command-password"
    if any(consumer in text for consumer in _STDIN_CONSUMERS):
        yield from _piped_spans(text)
    for store in _SECRET_STORES:
        yield from _store_spans(text, store)


def _piped_spans(text: str) -> Iterator[SecretSpan]:
    for match in _PIPED_SECRET.finditer(text):
        command = match[4]
        index = next(number for number in (1, 2, 3) if match[number])
        if any(consumer in command for consumer in _STDIN_CONSUMERS) and _is_plausible_password(match[index]):
            user, colon, _ = match[index].partition(":")
            start = match.start(index) + (len(user) + 1 if colon and "chpasswd" in command else 0)
            yield start, match.end(index), "command-password"


def _store_spans(text: str, store: str) -> Iterator[SecretSpan]:
    at = text.find(store)
    while at >= 0:
        end = text.find("\n", at, at + _MAX_LINE_CHARS)
        end = end if end >= 0 else min(len(text), at + _MAX_LINE_CHARS)
        for match in _STORE_ASSIGNMENT.finditer(text, at + len(store), end):
            index = match.lastindex or 0
            value = match[index]
            if looks_random(value, 12) and not is_fingerprint(value) and not is_placeholder(value):
                yield match.start(index), match.end(index), "secret"
        at = text.find(store, end)


def _is_plausible_password(value: str) -> bool:
    """Return True unless the value is short, a number, a plain word or a placeholder."""
    is_word_or_number = value.isalpha() or value.replace(":", "").isdigit()
    return len(value) >= 6 and not is_word_or_number and not is_placeholder(value)


_VALUE_BELOW_NAME = re.compile(
    r":\*{0,2}[ \t]{0,4}([|>][+-]?[0-9]?[ \t]{0,8})?\r?\n(?:[ \t]{0,8}\r?\n)?[ \t]{0,40}([^\s\"'`<>\\]{6,4096}+)(?=[ \t]{0,8}(?:[\r\n]|\Z))"
)
_NAME_VALUE_FIELDS = re.compile(
    r"\b(?:name|key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([\w.-]{2,64}+)[\"']?[ \t]{0,4},?\s{1,40}[\"']?value[\"']?[ \t]{0,4}[:=]"
    r"[ \t]{0,4}(?:\"([^\"\n]{4,4096}+)\"|'([^'\n]{4,4096}+)'|([^\s\"'`<>\\,}]{4,4096}+))",
    re.IGNORECASE | re.ASCII,
)
_TABLE_CELLS = re.compile(
    r"\|[ \t]{0,40}+([\w.`*-][\w.`* -]{1,63}+)\|[ \t]{0,40}+`?([^\s|`]{12,4096}+)`?[ \t]{0,40}+\|"
)
_TRAILING_NAME = re.compile(r"(?:[A-Za-z]{1,20} )?[\w.$-]{2,64}[\"'`*]{0,2}\Z", re.ASCII)


def separated_value_spans(text: str) -> Iterator[SecretSpan]:
    """Find a value below its name (long YAML values), in a `value` field next to `name`, or in the next table cell."""
    if ":" in text:
        for match in _VALUE_BELOW_NAME.finditer(text):
            name = _TRAILING_NAME.search(text, max(0, match.start() - 90), match.start())
            is_link = "](" in match[2]
            if (
                name
                and not is_link
                and (kind := secret_kind(_normalize_name(name[0]), match[2], literal=bool(match[1])))
            ):
                yield match.start(2), match.end(2), kind
    if "value" in text or "Value" in text:
        for match in _NAME_VALUE_FIELDS.finditer(text):
            index = match.lastindex or 0
            if kind := secret_kind(match[1], match[index], literal=False):
                yield match.start(index), match.end(index), kind
    if text.count("|") > 2:
        for match in _TABLE_CELLS.finditer(text):
            if looks_random(match[2]) and (kind := secret_kind(_normalize_name(match[1]), match[2], literal=False)):
                yield match.start(2), match.end(2), kind


def _normalize_name(name: str) -> str:
    return name.strip("\"'`* ").replace(" ", "_")
