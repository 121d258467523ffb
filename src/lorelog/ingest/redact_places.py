"""Secrets known by where they stand: private key blocks, URLs, headers, cookies, commands, password files.

Each finder yields spans (start, end, kind) of the secret alone, so that what is left still reads: the user's name in a
URL, the scheme in a header, the names of cookies.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from lorelog.ingest.redact_values import is_name_like, is_placeholder, looks_random

Span = tuple[int, int, str]

_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_ENDING = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_MOST = 32_768
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/=]{16}")
# Lines of a block that lost its end: whole lines of base64, headers, and a last short line.
_CUT_BODY = re.compile(
    r"(?:(?:\s|\\[nr]|[\"',+>|#*-]){0,40}+(?:[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{0,200}))++"
    r"(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{1,15}+(?=\s*\Z|\s*\n|\\|[\"']))?"
)
_PUTTY = re.compile(r"Private-Lines: ?[0-9]{1,4}(?:\s|\\[nr])++((?:[A-Za-z0-9+/=]{8,}+(?:\s|\\[nr])*+)++)")


def private_keys(text: str) -> Iterator[Span]:
    """PEM, OpenSSH, PGP and PuTTY private keys, whole or cut off, on many lines or on one with escaped line ends."""
    if "PRIVATE KEY" in text and "-----BEGIN" in text:
        ends = [(found.start(), found.end()) for found in _ENDING.finditer(text)]
        begins = list(_BEGIN.finditer(text))
        following = [*(found.start() for found in begins[1:]), len(text)]
        for begin, limit in zip(begins, following, strict=False):
            index = bisect_left(ends, (begin.end(), 0))
            whole = index < len(ends) and ends[index][0] < min(limit, begin.end() + _BLOCK_MOST)
            if whole and _BASE64_RUN.search(text, begin.end(), ends[index][0]):
                yield begin.start(), ends[index][1], "private-key"
            elif not whole and (body := _CUT_BODY.match(text, begin.end())):
                yield begin.start(), body.end(), "private-key"
    if "Private-Lines:" in text:
        for found in _PUTTY.finditer(text):
            yield found.start(1), found.end(1), "private-key"


_USER = re.compile(r"://([^\s/:@\"'<>\\`?#\[\]]{0,128}+):([^\s/@\"'<>`?#]{1,256}+)@(?=[\w\[.$%{-])", re.ASCII)
_BARE = re.compile(r"https?://([A-Za-z0-9_.~%-]{16,256}+)@", re.ASCII)


def url_credentials(text: str) -> Iterator[Span]:
    """`scheme://user:PASSWORD@host`, and a token in the place of the user."""
    if "://" not in text or "@" not in text:
        return
    for found in _USER.finditer(text):
        if not is_placeholder(found[2]) and found[2] != found[1]:
            yield found.start(2), found.end(2), "url-password"
    for found in _BARE.finditer(text):
        if looks_random(found[1]) and not is_placeholder(found[1]):
            yield found.start(1), found.end(1), "url-token"


_AUTHORIZATION = re.compile(
    r"authorization\\*[\"'`]?[\])]?[ \t]{0,8}(?:[:=,]|=>)[ \t]{0,8}(?:f|b|rb)?\\*[\"'`]?"
    r"(?:(bearer|basic|token|digest|negotiate|apikey|api-key|ssws|key|bot|aws4-hmac-sha256)[ \t:=]{1,4})?"
    r"([^\s\"'`\\<>]{6,4096}+)",
    re.IGNORECASE,
)
_TOKEN68 = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9._~+/=:|-]+$", re.ASCII)
_BEARER = re.compile(r"bearer[ \t]{1,4}([A-Za-z0-9_.~+/=-]{16,4096}+)", re.IGNORECASE)
_SIGNATURE = re.compile(r"(?:signature|response|nonce)=\"?([^\s\",]{8,512}+)", re.IGNORECASE)


def headers(text: str, lowered: str) -> Iterator[Span]:
    """What stands in Authorization headers, in any notation, and behind the word Bearer."""
    if "authorization" in lowered:
        for found in _AUTHORIZATION.finditer(text):
            if found[1] and found[1].lower() in {"digest", "aws4-hmac-sha256"}:
                line = text[found.start(2) : found.start(2) + 1024].split("\n", 1)[0]
                for part in _SIGNATURE.finditer(line):
                    yield found.start(2) + part.start(1), found.start(2) + part.end(1), "authorization"
            elif _is_credential(found[2].rstrip(",;)}]"), known_scheme=bool(found[1])):
                yield found.start(2), found.start(2) + len(found[2].rstrip(",;)}]")), "authorization"
    if "bearer" in lowered:
        for found in _BEARER.finditer(text):
            value = found[1].rstrip(".")
            if looks_random(value) and not is_placeholder(value):
                yield found.start(1), found.start(1) + len(value), "authorization"


def _is_credential(value: str, *, known_scheme: bool) -> bool:
    if is_placeholder(value) or is_name_like(value):
        return False
    return bool(_TOKEN68.match(value)) if known_scheme else looks_random(value)


_COOKIES = re.compile(r"cookie\\*[\"'`]?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"'`]?([^\n\"'`\\]{4,8192}+)", re.IGNORECASE)
_COOKIE = re.compile(r"(?:^|;|,)\s{0,4}([\w.%-]{1,128}+)=([^;,\s]{8,4096}+)", re.ASCII)
_ATTRIBUTES = frozenset({"path", "domain", "expires", "max-age", "samesite", "priority"})


def cookies(text: str, lowered: str) -> Iterator[Span]:
    """The values of cookies in Cookie and Set-Cookie headers; their names and attributes stay."""
    if "cookie" not in lowered:
        return
    for header in _COOKIES.finditer(text):
        for one in _COOKIE.finditer(header[1]):
            value = one[2]
            telling = any(letter.isdigit() for letter in value) and not is_name_like(value)
            if one[1].lower() not in _ATTRIBUTES and telling and not is_placeholder(value):
                yield header.start(1) + one.start(2), header.start(1) + one.end(2), "cookie"


COMMAND_VALUE = r"(?:\"([^\"\s]{1,256}+)\"|'([^'\s]{1,256}+)'|([^\s\"'`|;&<>\\]{1,256}+))"
"""What stands behind an option: in quotes or not."""
_USER_FLAG = re.compile(rf"[ \t](?:-u|--user|--proxy-user|-U)(?:[ \t=]{{1,4}}|(?=[\"'\w])){COMMAND_VALUE}", re.ASCII)
_PASSWORD_FLAG = re.compile(rf"[ \t]-p([ \t]{{0,4}}){COMMAND_VALUE}")
_LOGINS = ("curl", "wget")
_BEFORE = 600


def commands(text: str) -> Iterator[Span]:
    """`curl -u user:PASSWORD`, `sshpass -p PASSWORD`, `mysql -pPASSWORD`, `docker login -p PASSWORD`."""
    if ("-u" in text or "-U" in text or "-user" in text) and any(name in text for name in _LOGINS):
        for found in _USER_FLAG.finditer(text):
            yield from _after_colon(text, found)
    if " -p" in text and any(name in text for name in ("sshpass", "mysql", "mariadb", " login ")):
        for found in _PASSWORD_FLAG.finditer(text):
            index = found.lastindex or 0
            line = line_before(text, found.start())
            joined = ("mysql" in line or "mariadb" in line) and not found[1]
            fits = joined or "sshpass" in line or (" login" in line and found[1])
            if fits and len(found[index]) >= 4 and not is_placeholder(found[index]):
                yield found.start(index), found.end(index), "command-password"


def _after_colon(text: str, found: re.Match[str]) -> Iterator[Span]:
    index = found.lastindex or 0
    user, colon, password = found[index].partition(":")
    line = line_before(text, found.start())
    if not colon or len(password) < 3 or password.isdigit() or not any(name in line for name in _LOGINS):
        return
    if not is_placeholder(password):
        yield found.start(index) + len(user) + 1, found.end(index), "command-password"


def line_before(text: str, position: int) -> str:
    """The command that a position is in, as far as it is written before it."""
    return text[max(0, position - _BEFORE) : position].replace("\\\n", " ").rpartition("\n")[2]


_NETRC = re.compile(
    r"\b(?:login|user)[ \t\n]{1,8}[^\s\"'`]{1,128}[ \t\n]{1,8}password[ \t\n]{1,8}([^\s\"'`\\]{3,256}+)", re.ASCII
)
_PGPASS = re.compile(
    r"^[ \t]{0,8}[\w.*-]{1,128}+:(?:5432|5433|6432|6543|\*):[\w.*-]{1,64}+:[\w.*@-]{1,64}+:(\S{3,256}+)$",
    re.MULTILINE | re.ASCII,
)


def password_files(text: str, lowered: str) -> Iterator[Span]:
    """Lines of .netrc and .pgpass."""
    if "password" in lowered and ("login" in lowered or "machine" in lowered):
        listed = "machine" in lowered
        for found in _NETRC.finditer(text):
            if not is_placeholder(found[1]) and (listed or not found[1].isalpha()):
                yield found.start(1), found.end(1), "netrc-password"
    if any(port in text for port in (":5432:", ":5433:", ":6432:", ":6543:", ":*:")):
        for found in _PGPASS.finditer(text):
            if not is_placeholder(found[1]):
                yield found.start(1), found.end(1), "pgpass-password"
