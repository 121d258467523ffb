"""Detect secrets by context: key blocks, URLs, headers, cookies, commands, password files.

Each detector yields spans (start, end, kind) of the secret alone, so that the rest stays readable: the user name in a
URL, the scheme in a header, the names of cookies. A command-line option depends on its program, so it is matched only
after the program's name on the same line.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from lorelog.ingest.redaction.values import (
    is_fingerprint,
    is_human_password,
    is_name_like,
    is_placeholder,
    looks_random,
)

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
# A password in a URL of a database is often not encoded; only a web address has a path, a query and a fragment.
_DATABASE_PASSWORD = re.compile(
    r"://(?<!http://)(?<!https://)([^\s/:@\"'<>\\`?#\[\]]{0,128}+):([^\s/\"'<>`]{1,128})@(?=[\w\[.$%{-])", re.ASCII
)
_URL_TOKEN = re.compile(r"https?://([A-Za-z0-9_.~%-]{16,256}+)@", re.ASCII)


def url_credential_spans(text: str) -> Iterator[SecretSpan]:
    """Find `scheme://user:PASSWORD@host`, and tokens in place of the user name."""
    if "://" not in text or "@" not in text:
        return
    for match in (*_URL_PASSWORD.finditer(text), *_DATABASE_PASSWORD.finditer(text)):
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
            elif _is_credential(match[2].rstrip(",;)}]"), scheme=(match[1] or "").lower()):
                yield match.start(2), match.start(2) + len(match[2].rstrip(",;)}]")), "authorization"
    if "bearer" in lowered:
        for match in _BEARER.finditer(text):
            value = match[1].rstrip(".")
            if looks_random(value) and not is_placeholder(value):
                yield match.start(1), match.start(1) + len(value), "authorization"


def _is_credential(value: str, *, scheme: str) -> bool:
    if is_placeholder(value):
        return False
    if scheme == "basic" and _is_encoded_pair(value):
        return True
    if is_name_like(value):
        return False
    return bool(_TOKEN68.match(value)) if scheme else looks_random(value)


def _is_encoded_pair(value: str) -> bool:
    """Return True if a value is the base64 of `user:password`."""
    try:
        return ":" in base64.b64decode(value, validate=True).decode("ascii")[:-1]
    except ValueError:
        return False


_COOKIE_HEADER = re.compile(
    r"cookie\\*[\"'`]?(?:[ \t]{0,8}[:=][ \t]{0,8}|[ \t]{1,4}(?=[\"']))\\*[\"'`]?([^\n\"'`\\]{4,8192}+)", re.IGNORECASE
)
_COOKIE = re.compile(r"(?:^|;|,)\s{0,4}([\w.%-]{1,128}+)=([^;,\s]{8,4096}+)", re.ASCII)
_COOKIE_OPTION = re.compile(r"-b(?<![\w-]-b)[ \t]{0,4}[\"']([\w.%-]{1,64}+)=([^;,\s\"']{16,4096}+)", re.ASCII)
_COOKIE_ATTRIBUTES = frozenset({"path", "domain", "expires", "max-age", "samesite", "priority"})


def cookie_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find the values of cookies in Cookie and Set-Cookie headers; names and attributes stay."""
    if "-b" in text:
        for match in _COOKIE_OPTION.finditer(text):
            if looks_random(match[2]) and not is_placeholder(match[2]):
                yield match.start(2), match.end(2), "cookie"
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
_MAX_COMMAND_CHARS = 600
_USER_FLAG = re.compile(rf"[ \t](?:-u|--user|--proxy-user|-U)(?:[ \t=]{{1,4}}|(?=[\"'\w])){COMMAND_VALUE}", re.ASCII)
_PASSWORD_FLAG = re.compile(rf"[ \t]-p([ \t]{{0,4}}){COMMAND_VALUE}")
_LOGIN_PROGRAMS = ("curl", "wget")


def command_matches(text: str, program: str, option: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Find an option after its program, in the same command; every character is read once."""
    at = text.find(program)
    while at >= 0:
        end = _command_end(text, at)
        yield from option.finditer(text, at, end)
        at = text.find(program, max(end, at + len(program)))


def _command_end(text: str, at: int) -> int:
    limit = min(len(text), at + _MAX_COMMAND_CHARS)
    end = text.find("\n", at, limit)
    while end > at and text[end - 1] == "\\":
        end = text.find("\n", end + 1, limit)
    return end if end >= 0 else limit


def command_password_spans(text: str) -> Iterator[SecretSpan]:
    """Find `curl -u user:PASSWORD`, `sshpass -p PASSWORD`, `mysql -pPASSWORD`, `docker login -p PASSWORD`."""
    letters = option_letters(text)
    for program in _LOGIN_PROGRAMS if letters & {"u", "U", "-"} else ():
        for match in command_matches(text, program, _USER_FLAG):
            yield from _user_password_spans(match)
    for program in ("sshpass", "mysql", "mariadb", " login ") if "p" in letters else ():
        for match in command_matches(text, program, _PASSWORD_FLAG):
            index = match.lastindex or 0
            fits = program == "sshpass" or bool(match[1]) == (program == " login ")
            if fits and len(match[index]) >= 4 and not is_placeholder(match[index]):
                yield match.start(index), match.end(index), "command-password"


def _user_password_spans(match: re.Match[str]) -> Iterator[SecretSpan]:
    index = match.lastindex or 0
    user, colon, password = match[index].partition(":")
    if colon and len(password) >= 3 and not password.isdigit() and not is_placeholder(password):
        yield match.start(index) + len(user) + 1, match.end(index), "command-password"


def _line_before(text: str, position: int) -> str:
    return text[max(0, position - 80) : position].rpartition("\n")[2]


def word_matches(text: str, lowered: str, words: Iterable[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Match a pattern where one of these words begins: much faster than a search for a pattern without a literal."""
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            match = pattern.match(text, at)
            if match:
                yield match
            at = lowered.find(word, match.end() if match else at + len(word))


def present_words(lowered: str, words_by_stem: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the words whose stem occurs in a text: one search for several words."""
    return [word for stem, words in words_by_stem.items() if stem in lowered for word in words]


def option_letters(text: str) -> frozenset[str]:
    """Return the first letters of the command-line options in a text, a hyphen for long ones."""
    return frozenset(part[:1] for blank in (" -", "\t-") for part in text.split(blank)[1:])


_NETRC = re.compile(
    r"\b(?:login|user)[ \t\n]{1,8}[^\s\"'`]{1,128}[ \t\n]{1,8}password[ \t\n]{1,8}([^\s\"'`\\]{3,256}+)", re.ASCII
)
_PGPASS = re.compile(
    r"(?<![\w.*:/@-])[\w.*-]{1,128}+:(?:5432|5433|6432|6543|\*):[\w.*-]{1,64}+:[\w.*@-]{1,64}+:([^\s\"'`\\]{3,}+)",
    re.ASCII,
)
_CRYPT = "[./A-Za-z0-9]"
_PASSWORD_HASH = re.compile(
    rf"\$(?:(?:1|apr1)\${_CRYPT}{{1,8}}\${_CRYPT}{{22}}|2[abxy]?\$[0-9]{{2}}\${_CRYPT}{{53}}"
    rf"|5\$(?:rounds=[0-9]{{1,9}}\$)?{_CRYPT}{{1,16}}\${_CRYPT}{{43}}|6\$(?:rounds=[0-9]{{1,9}}\$)?{_CRYPT}{{1,16}}\${_CRYPT}{{86}}"
    rf"|(?:y|gy|7)\$(?:rounds=[0-9]{{1,9}}\$)?[./A-Za-z0-9]{{1,40}}\$(?:{_CRYPT}{{1,86}}\$)?{_CRYPT}{{43,86}}"
    rf"|argon2(?:id|i|d)\$v=[0-9]{{1,3}}\$m=[0-9,tp=]{{5,40}}\$[A-Za-z0-9+/]{{8,64}}\$[A-Za-z0-9+/]{{16,128}})(?!{_CRYPT})",
    re.ASCII,
)
_WALLET_KEY = re.compile(r"0x(?<![0-9A-Za-z]0x)[0-9a-fA-F]{64}(?![0-9A-Za-z])")
_WALLET_KEY_NAME = re.compile(r"priv(?:ate)?[ _-]?key", re.IGNORECASE)
_DJANGO_KEY = re.compile(r"django-insecure-[^\s\"'`\\]{30,80}+")
_WIFI_CODE = re.compile(r"WIFI:(?:[TSH]:[^;\n]{0,64};){0,3}P:((?:[^;\n\\]|\\.){4,64}+);")


def password_file_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find passwords in lines of .netrc and .pgpass."""
    if "password" in lowered and ("login" in lowered or "machine" in lowered):
        is_netrc = "machine" in lowered
        for match in word_matches(text, text, ("login", "user"), _NETRC):
            if not is_placeholder(match[1]) and (is_netrc or not match[1].isalpha()):
                yield match.start(1), match.end(1), "netrc-password"
    if any(port in text for port in (":5432:", ":5433:", ":6432:", ":6543:", ":*:")):
        for match in _PGPASS.finditer(text):
            if not is_placeholder(match[1]):
                yield match.start(1), match.end(1), "pgpass-password"


def known_form_spans(text: str) -> Iterator[SecretSpan]:
    """Find hashes of passwords, keys of Django and of wallets, and Wi-Fi codes by their form."""
    if text.count("$") > 2:
        for match in _PASSWORD_HASH.finditer(text):
            yield match.start(), match.end(), "password-hash"
    if "django-insecure-" in text:
        for match in _DJANGO_KEY.finditer(text):
            if not any(part in match[0] for part in ("...", "xxxx", "${", "{{", "example")):
                yield match.start(), match.end(), "django-key"
    if "WIFI:" in text:
        for match in _WIFI_CODE.finditer(text):
            yield match.start(1), match.end(1), "password"
    if "0x" in text:
        for match in _WALLET_KEY.finditer(text):  # hashes of transactions have the same form
            line = _line_before(text, match.start()) + text[match.end() : match.end() + 60].partition("\n")[0]
            if _WALLET_KEY_NAME.search(line) and not is_placeholder(match[0]):
                yield match.start(), match.end(), "private-key"


_PROGRAM_OPTIONS = tuple(
    (program, frozenset(letters), re.compile(option + COMMAND_VALUE, re.ASCII))
    for program, letters, option in (  # letters: first letters of the option, as in `option_letters`; empty: no option
        ("gh secret set", "b-", r"[ \t](?:-b|--body)[ \t=]{0,4}"),
        ("redis-cli", "a", r"[ \t]-a[ \t]{1,4}"),
        ("mongo", "p", r"[ \t]-p[ \t]{1,4}"),
        ("zip", "P", r"[ \t]-P[ \t]{0,4}"),
        ("7z ", "p", r"[ \t]-p"),
        ("openssl", "kp", r"[ \t](?:-k[ \t]{1,4}|-pass(?:in|out)?[ \t]{1,4}pass:)"),
        ("ssh-keygen", "NP", r"[ \t]-[NP][ \t]{1,4}"),
        ("doctl", "t-", r"[ \t](?:-t|--access-token)[ \t=]{1,4}"),
        ("htpasswd", "", r"[ \t]-[A-Za-z]{0,4}b[A-Za-z]{0,4}[ \t]{1,4}[^\s]{1,200}+[ \t]{1,4}[^\s]{1,64}+[ \t]{1,4}"),
        ("sqlplus", "", r"[ \t][A-Za-z_][\w$#]{0,29}/"),
        ("sqlldr", "", r"[ \t](?:userid=)?[A-Za-z_][\w$#]{0,29}/"),
        ("snmp-server", "", r"[ \t]community[ \t]{1,4}"),
        ("username ", "", r"[ \t](?:password|secret)[ \t]{1,4}[0-9][ \t]{1,4}"),
        ("enable ", "", r"\benable[ \t]{1,4}(?:password|secret)[ \t]{1,4}(?:[0-9][ \t]{1,4})?"),
        ("net user", "", r"\bnet user[ \t]{1,4}[\w.-]{1,64}+[ \t]{1,4}"),
        ("net use", "", r"[ \t]/user:[^\s]{1,64}+[ \t]{1,4}"),
        ("psexec", "p", r"[ \t]-p[ \t]{1,4}"),
        ("ldap", "w", r"[ \t]-w[ \t]{1,4}"),
        ("smbclient", "U", r"[ \t]-U[ \t]{0,4}[\w.\\-]{1,64}+%"),
        ("freerdp", "", r"[ \t]/p:"),
        ("poetry config", "", r"[ \t]http-basic\.[\w.-]{1,64}+[ \t]{1,4}[^\s]{1,64}+[ \t]{1,4}"),
        ("poetry publish", "p", r"[ \t]-p[ \t]{1,4}"),
        ("twine", "p", r"[ \t]-p[ \t]{1,4}"),
        ("cargo login", "", r"\bcargo login[ \t]{1,4}"),
        ("rclone obscure", "", r"\brclone obscure[ \t]{1,4}"),
        ("masterauth", "", r"\bmasterauth[ \t]{1,4}"),
        ("nmcli", "", r"[ \t]password[ \t]{1,4}"),
        ("oathtool", "b-", r"[ \t](?:-b|--base32)[ \t]{1,4}"),
        ("http ", "a-", r"[ \t](?:-a|--auth)[ \t=]{1,4}[\"']?[\w.@-]{1,64}+:"),
        ("ConvertTo-SecureString", "", r"[ \t](?:-String[ \t]{1,4})?(?=[\"'])"),
        ("--password-stdin", "", r"[ \t]{0,4}<<<[ \t]{0,4}"),
    )
)
_PIPED_PHRASE = re.compile(
    r"\b(?:echo|printf)[^|\n\"'\\]{0,12}\\?[\"']([^\"'\\\n]{6,128}+)\\?[\"'][ \t]{0,4}\|[ \t]{0,4}(?:sudo )?cryptsetup"
)
_STRING = r"\\?(?:\"([^\"\\\s]{4,256}+)\\?\"|'([^'\\\s]{4,256}+)')"
_SETTER_NAMES = {
    **{name: (name,) for name in ("password(", "passwd(", "secret(", "token(")},
    "key(": ("api_key(", "apikey(", "access_key(", "accesskey(", "secretkey("),
}
_SETTER_CALL = re.compile(rf"[a-z_]{{5,10}}+\([ \t]{{0,4}}{_STRING}[ \t]{{0,4}}[,)]", re.IGNORECASE | re.ASCII)
_LOGIN_NAMES = {
    "auth": ("basicauth(", "basic_auth(", "auth=(", "auth = (", ".auth("),
    "login(": ("login(",),
    "getconnection(": ("getconnection(",),
    "jwt.": ("jwt.sign(", "jwt.verify(", "jwt.encode(", "jwt.decode("),
}
_LOGIN_CALL = re.compile(
    rf"[\w.= ]{{4,15}}\([^()\n]{{1,160}}?,[ \t]{{0,4}}{_STRING}[ \t]{{0,4}}(?:\)|,[ \t]{{0,4}}[{{\w])", re.ASCII
)
_SALT_DEFINITION = re.compile(
    r"define\([ \t]{0,4}\\?['\"](?:AUTH|SECURE_AUTH|LOGGED_IN|NONCE)_(?:KEY|SALT)\\?['\"],[ \t]{0,20}'([^'\n]{32,128}+)'"
)
_WORKFLOW_VALUE = re.compile(
    r"::(?:add-mask|set-output name=[\w-]{0,40}(?:token|secret|password|key))::([^\s\"'\\]{6,4096}+)", re.IGNORECASE
)
_PROMPTED_KEY = re.compile(r"Secret Access Key \[[^\]\n]{0,30}\]:[ \t]{0,4}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])")
_WIF_KEY = re.compile(
    r"(?:\bwif|priv(?:ate)?[ _-]?key)\)?(?:[ \t]{0,4}\(wif\))?[\"']{0,2}[ \t]{0,4}[:= ][ \t]{0,4}[\"']?([5KLc9][1-9A-HJ-NP-Za-km-z]{50,51})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_STELLAR_SEED = re.compile(r"S(?<![A-Z0-9]S)[A-Z2-7]{55}(?![A-Z0-9=])")
_ABLY_KEY = re.compile(r":(?<=(?<![\w.-])[\w-]{6}\.[\w-]{6}:)[\w-]{43}(?![\w-])", re.ASCII)
_ABLY_NAME_CHARS = 13  # the key's name, before its colon
_SQL_PASSWORD = re.compile(
    r"\b(?:identified[ \t]{1,4}(?:with[ \t]{1,4}[\w'\"]{1,40}[ \t]{1,4})?by|password)[ \t]{1,4}(?:=[ \t]{1,4})?"
    r"\\?(?:'([^'\n]{4,128}+)'|\"([^\"\\\n]{4,128}+)\\?\")",
    re.IGNORECASE | re.ASCII,
)
_SQL_ACCOUNT = re.compile(r"\b(?:create|alter|grant|set)\b", re.IGNORECASE)
_PIPED_SECRET = re.compile(
    rf"\b(?:echo|printf)[ \t]{{1,4}}(?:-[neE]{{1,3}}[ \t]{{1,4}})?(?:[\"']?%s(?:\\n)?[\"']?[ \t]{{1,4}})?{COMMAND_VALUE}"
    r"[ \t]{0,4}\|([^\n;&]{0,300}+)",
    re.ASCII,
)
_STDIN_CONSUMERS = (
    "cryptsetup",
    "--password-stdin",
    "--with-token",
    "sudo -S",
    "chpasswd",
    "passwd --stdin",
    "secret put",
    "secret set",
)
# A text without the stem is not searched for the program.
_PROGRAM_STEMS = {
    "sql": ("sqlplus", "sqlldr"),
    "net use": ("net user", "net use"),
    "password": ("nmcli", "--password-stdin"),
}
_STEM_OF_PROGRAM = {program: stem for stem, programs in _PROGRAM_STEMS.items() for program in programs}
_SECRET_STORES = {
    "vault ": ("vault kv put", "vault write"),
    "secrets": ("secrets set", "secrets:set"),
    "config:set": ("config:set",),
    "--from-literal": ("--from-literal",),
}
_STORE_ASSIGNMENT = re.compile(rf"[ \t=\"'][A-Za-z_][\w.-]{{0,63}}+={COMMAND_VALUE}", re.ASCII)
_MAX_LINE_CHARS = 1000


def sql_password_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find `CREATE USER … PASSWORD '…'` and `IDENTIFIED BY '…'`."""
    if "password '" not in lowered and "identified" not in lowered and 'password \\"' not in lowered:
        return
    for match in _SQL_PASSWORD.finditer(text):
        index = match.lastindex or 0
        if _SQL_ACCOUNT.search(text, max(0, match.start() - 200), match.start()) and not is_placeholder(match[index]):
            yield match.start(index), match.end(index), "password"


def call_argument_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find passwords in calls: `setPassword("…")`, `auth=("user", "…")`, `define('AUTH_KEY', '…')`."""
    setters = (
        match
        for match in word_matches(text, lowered, present_words(lowered, _SETTER_NAMES), _SETTER_CALL)
        if lowered[max(0, match.start() - 1) : match.start()] in {".", ">", ":", "_"}
        or lowered.endswith(("set", "with"), 0, match.start())
    )
    logins = word_matches(text, lowered, present_words(lowered, _LOGIN_NAMES), _LOGIN_CALL)
    for match in (*setters, *logins):
        index = match.lastindex or 0
        value = match[index]
        if (is_human_password(value) or looks_random(value, 12)) and not is_placeholder(value):
            yield match.start(index), match.end(index), "password"
    if "define(" in text:
        for match in _SALT_DEFINITION.finditer(text):
            if "unique phrase" not in match[1]:
                yield match.start(1), match.end(1), "secret"
    if "::" in text and ("::set-output" in text or "::add-mask" in text):
        for match in _WORKFLOW_VALUE.finditer(text):
            if not is_placeholder(match[1]):
                yield match.start(1), match.end(1), "secret"
    if "cryptsetup" in lowered:
        for match in _PIPED_PHRASE.finditer(text):
            if not is_placeholder(match[1]):
                yield match.start(1), match.end(1), "passphrase"


def bare_key_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find keys that have a form but no prefix, where the text names their vendor or purpose."""
    if "secret access key [" in lowered:
        for match in _PROMPTED_KEY.finditer(text):
            yield match.start(1), match.end(1), "aws-secret"
    for match in word_matches(text, lowered, ("wif", "priv"), _WIF_KEY):
        if looks_random(match[1]):
            yield match.start(1), match.end(1), "wallet-key"
    if "stellar" in lowered or "keypair" in lowered:
        for match in _STELLAR_SEED.finditer(text):
            yield match.start(), match.end(), "wallet-key"
    if "ably" in lowered:
        for match in _ABLY_KEY.finditer(text):
            start = match.start() - _ABLY_NAME_CHARS
            if looks_random(text[start : match.end()]):
                yield start, match.end(), "ably-key"


def command_argument_spans(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Find `gh secret set X -b VALUE`, `echo VALUE | docker login --password-stdin`, `vault kv put path x=VALUE`."""
    letters = option_letters(text)
    absent = {stem for stem in _PROGRAM_STEMS if stem not in lowered}
    for program, options, option in _PROGRAM_OPTIONS:
        if (options and not options & letters) or _STEM_OF_PROGRAM.get(program) in absent:
            continue
        for match in command_matches(text, program, option):
            index = match.lastindex or 0
            if _is_plausible_password(match[index]):
                yield match.start(index), match.end(index), "command-password"
    if "|" in text and ("echo" in text or "printf" in text) and any(word in text for word in _STDIN_CONSUMERS):
        yield from _piped_spans(text)
    for store in present_words(text, _SECRET_STORES):
        yield from _store_spans(text, store)


def _piped_spans(text: str) -> Iterator[SecretSpan]:
    for match in word_matches(text, text, ("echo", "printf"), _PIPED_SECRET):
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
