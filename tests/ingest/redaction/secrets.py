"""Secrets of every kind that redaction knows, made when they are asked for, and what only looks like one.

Nothing here is a key: each is put together from a prefix and random letters, so that whoever scans this repository for
secrets finds none, and every run tries others. `make` gives the part that must be gone.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

FOLDER = Path(__file__).parent
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URL_SAFE = LETTERS + "_-"
BASE64 = LETTERS + "+/"
SMALL = string.ascii_lowercase + string.digits
LARGE = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"

PLACES = (
    "{}",
    "Please use {} for the deployment, it is new.",
    "Schlüssel: «{}» — läuft morgen ab.",
    "VALUE={}",
    'export THING="{}"',
    '{{"value": "{}", "other": 1}}',
    '{{\\"value\\": \\"{}\\"}}',
    "first line\\n{}\\nthird line",
    "thing: {}  # from the vault",
    "curl https://api.host.test/v1/items?x={}&page=2",
    'curl -H "X-Thing: {}" https://api.host.test/',
    "tool --value={} --verbose",
    "`{}`",
    "['{}', 'b']",
    "<value>{}</value>",
    "| name | {} |",
)


@dataclass(frozen=True)
class Kind:
    """A kind of secret: its reported name, how it is generated, and the contexts in which it is tested."""

    kind: str
    make: Callable[[Random], str]
    places: tuple[str, ...] = PLACES
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}{':' if self.note else ''}{self.note}"


def some(random: Random, letters: str, size: int) -> str:
    """Return random letters with at least one digit, as all but one key in a thousand have."""
    key = "".join(random.choices(letters, k=size - 2))
    digits = "".join(letter for letter in letters if letter.isdigit())
    middle = size // 2
    return key[:middle] + random.choice(digits or letters) + random.choice(letters) + key[middle:]


def begun(prefix: str, letters: str, size: int) -> Callable[[Random], str]:
    return lambda random: prefix + some(random, letters, size)


def uuid(random: Random) -> str:
    return "-".join(some(random, HEX, size) for size in (8, 4, 4, 4, 12))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def jwt(random: Random) -> str:
    head, body = encoded({"alg": "HS256", "typ": "JWT"}), encoded({"sub": some(random, LETTERS, 12), "iat": 1})
    return f"{head}.{body}.{some(random, URL_SAFE, 43)}"


def pem(label: str, *, end: bool = True, newline: str = "\n") -> Callable[[Random], str]:
    def make(random: Random) -> str:
        lines = [some(random, BASE64, 64) for _ in range(6)] + [some(random, BASE64, 30) + "=="]
        marks = [f"-----{word} {label}-----" for word in ("BEGIN", "END")]
        return newline.join([marks[0], *lines, *(marks[1:] if end else [])])

    return make


def _prefixed() -> Iterator[Kind]:
    """Yield what `prefixes.txt` has: kind, prefix, letters and how many of them."""
    for line in (FOLDER / "prefixes.txt").read_text("utf-8").splitlines():
        kind, prefix, letters, size = line.split()
        yield Kind(kind, begun(prefix, globals()[letters], int(size)), note=prefix)
    prefix = base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()[:34]
    yield Kind("private-key", begun(prefix, LETTERS, 300), note=prefix)


def _shaped() -> list[Kind]:
    return [
        Kind("jwt", jwt),
        Kind("sendgrid-key", lambda r: f"SG.{some(r, URL_SAFE, 22)}.{some(r, URL_SAFE, 43)}"),
        Kind("telegram-token", lambda r: f"{r.randint(10**8, 10**10 - 1)}:AA{some(r, URL_SAFE, 33)}"),
        Kind("discord-token", lambda r: f"M{some(r, LETTERS, 23)}.{some(r, LETTERS, 6)}.{some(r, LETTERS, 38)}"),
        Kind("terraform-token", lambda r: f"{some(r, LETTERS, 14)}.atlasv1.{some(r, LETTERS, 67)}"),
        Kind("airtable-token", lambda r: f"pat{some(r, LETTERS, 14)}.{some(r, HEX, 64)}"),
        Kind("mailchimp-key", lambda r: f"{some(r, HEX, 32)}-us12"),
        Kind("azure-client-secret", lambda r: f"{some(r, LETTERS, 3)}8Q~{some(r, LETTERS, 34)}"),
        Kind("azure-devops-token", lambda r: f"{some(r, LETTERS, 76)}AZDO{some(r, LETTERS, 4)}"),
        Kind(
            "slack-webhook",
            lambda r: f"T{some(r, LARGE, 8)}/B{some(r, LARGE, 8)}/{some(r, LETTERS, 24)}",
            ("curl -d '{{}}' https://hooks.slack.com/services/{}", "hook: https://hooks.slack.com/services/{}"),
        ),
        Kind(
            "discord-webhook",
            begun("", URL_SAFE, 68),
            (
                "https://discord.com/api/webhooks/112233445566778899/{}",
                "see discordapp.com/api/webhooks/1122334455667788/{}.",
            ),
        ),
        *(
            Kind("private-key", pem(label), note=label)
            for label in (
                "PRIVATE KEY",
                "RSA PRIVATE KEY",
                "EC PRIVATE KEY",
                "DSA PRIVATE KEY",
                "ENCRYPTED PRIVATE KEY",
                "OPENSSH PRIVATE KEY",
                "PGP PRIVATE KEY BLOCK",
            )
        ),
        Kind("private-key", pem("PRIVATE KEY", newline="\\n"), note="one line"),
        Kind("private-key", pem("RSA PRIVATE KEY", end=False), ("{}", "cat key\n{}\n", '"{}"'), note="cut"),
        Kind(
            "private-key",
            pem("PRIVATE KEY", newline="\\n"),
            ('{{"type": "service_account", "private_key": "{}\\n", "client_email": "a@b.test"}}',),
            note="service account",
        ),
    ]


def password(random: Random) -> str:
    return some(random, LETTERS, 9) + random.choice("!%#*+~") + random.choice(LETTERS)


def word(random: Random) -> str:
    return "".join(random.choices("bcdfghjklmnpqrstvwz", k=9))


MAKERS = {
    "letters12": begun("", LETTERS, 12),
    "key32": begun("", LETTERS, 32),
    "key40": begun("", LETTERS, 40),
    "hex32": begun("", HEX, 32),
    "hex64": begun("", HEX, 64),
    "url40": begun("", URL_SAFE, 40),
    "base44": begun("", BASE64.replace("/", ""), 44),
    "hunter": lambda random: f"hunter{random.randint(10, 99)}!{some(random, SMALL, 4)}",
    "password": password,
    "word": word,
    "uuid": uuid,
}


def _placed() -> Iterator[Kind]:
    """Yield what `places.txt` has: a line `= kind maker note`, then the contexts of that kind, as JSON."""
    for part in (FOLDER / "places.txt").read_text("utf-8").removeprefix("= ").split("\n= "):
        head, *places = part.splitlines()
        kind, maker, *note = head.split()
        yield Kind(kind, MAKERS[maker], tuple(map(json.loads, places)), note=" ".join(note))


KINDS: tuple[Kind, ...] = (*_prefixed(), *_shaped(), *_placed())

LOOKALIKES = (
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "git checkout 3f78685 && git cherry-pick 89e6c98d92887913cadf06b2adb97f26cde4849b",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "session 0198c1f2-7c3a-7d31-9a55-6c0e9f0b1a2b resumed",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="',
    "requests==2.31.0 --hash=sha256:58cd2187c01e70e6e26505bca751777aa9f2ee0b7f4300988b709f44e013003f",
    'checksum = "8b1a9953c4611296a827abf8c47804d7e5e7e2d9b1f8e8c7a6d5b4c3a2918070"',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    'ETag: W/"5d8c72a5edda8d6a2a1b8a4e0d7e7a2c"',
    "cache_key = '3f786850e387550fdab836ed7e6dc881de23001b'",
    'key="550e8400-e29b-41d4-a716-446655440000"',
    "https://github.com/owner/name/blob/3f786850e387550fdab836ed7e6dc881de23001b/src/a.py#L10-L20",
    "/usr/lib/python3.11/site-packages/some_package-1.2.3.dist-info/RECORD",
    "C:\\Users\\mara\\AppData\\Local\\Temp\\a1b2c3d4",
    "TestE2E_MultipleAgentSessions --- PASS: TestE2E_AgentCommitsDuringTurn (24.07s)",
    "max_tokens=4096, token_count: 128934, tokens: 88123",
    "token_type: bearer, token_url: https://h.test/oauth2/v1/token",
    "tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased-v2')",
    "primary_key=True, foreign_key='users.id', sort_key: name, key: value",
    "password_hash = hasher.hash(password)",
    "password = getpass.getpass('Password: ')",
    "password=self.password, token=request.headers['X-Token']",
    "def login(user: str, password: str) -> Token:",
    "const { password, token } = props;",
    "if (!password) throw new Error('password required')",
    'label: "Password", placeholder: "Enter your password"',
    '"password": "Your password must have 8 characters or more."',
    "secretName: my-app-tls-v2, secretKeyRef: {name: db, key: password}",
    'publicKeyToken="b03f5f7f11d50a3a"',
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ0c2hvdWxkc3RheXB1YmxpY2tleXM0YWxs mara@host",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "grep -r 'BEGIN RSA PRIVATE KEY' . # looks for -----BEGIN RSA PRIVATE KEY----- in files",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "docker run -u 1000:1000 -p 8080:80 image; sort -u names; curl -s https://h.test -o a:b",
    "http://localhost:8080/a@b and user@host.test:22 and git@github.com:owner/name.git",
    "postgres://postgres:postgres@localhost:5432/app",
    "Authorization header is missing; Authorization: Bearer token; use Bearer authentication",
    "Cookie: theme=dark; consent=yes. Cookies: we use cookies=necessary",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-circle-fade-dot-spinner sk-learn-contrib-project scikit-learn-sk-models",
    "class KeyboardShortcutHandlerV2Factory2 { keyDownHandler2: KeyHandler2 }",
    "private_key: ed25519.Ed25519PrivateKey, key_types: PKCS7PrivateKeyTypes",
    "https://example.test/?token_type=x&page=2&keyword=spring2024&sort=key",
    "export PWD=/home2/mara/project1 OLDPWD=/tmp/x1",
    "monkey=banana2025monkey, turkey: 12345678901234567890",
    "2026-03-05T14:02:11.123456+01:00 [INFO] pid=4711 trace=4bf92f3577b34da6a3ce929d0e0e4736",
    "the word password, the word secret: both are only words; token, key and credential too",
    "Passwort: siehe Tresor; 密码：见保险库; mot de passe : demander à Anna",
    "xoxo, love - sk_test - ghp_ - npm_config_registry npm_package_version npm_lifecycle_event_name",
    "hf_hub_download(repo_id='a/b', filename='model.safetensors')",
    "re_compiled_pattern_cache_size re_match_group_names_2",
    "docker run -d --name mongo -p 27017:27017 mongo:7",
    'gh secret set DEPLOY_KEY -b "$DEPLOY_KEY" && gh secret set OTHER < key.txt',
    "echo $TOKEN | docker login -u mara --password-stdin; echo finished | tee log1.txt",
    "echo '**/node_modules2' | tee .dockerignore; docker login --password-stdin < token1.txt",
    "password:\n  required: true\n  min_length: 12\ntoken:\n  expires_at: 2026-03-05",
    "secret:\n  secretName: db-credentials-v2\nkey: >-\n  some-config-entry-2",
    "set a password:\n\n![User-Password](/images/2020-05-21/wsl2-user-password.png)\n",
    "Password:\n\nchoose-a-new-one\n\nAPI key:\nsee-the-vault-entry-2\n",
    "- name: LOG_LEVEL\n  value: debug2\n- name: TOKEN_URL\n  value: https://h.test/oauth2/token\n",
    "| key | value |\n|---|---|\n| token | the_name_of_the_token |\n| api key | see section 4.2 |",
    "the password is required; the password was wrong1, the password is mara1@host.test's, my token is expired",
    "vault kv put kv/app mode=production-eu2 commit=3f786850e387550fdab836ed7e6dc881de23001b",
    "heroku config:set NODE_ENV=production WEB_CONCURRENCY=4 LOG_FORMAT=json_lines_v2",
    "unzip -P; zip -r a.zip b; 7z x -pattern a.7z; openssl req -k; redis-cli -a; ssh-keygen -N ''",
)

PLACEHOLDERS = (
    "$TOKEN",
    "${TOKEN}",
    "$(cat token.txt)",
    "${{ secrets.DEPLOY_TOKEN }}",
    "{{ token }}",
    "{token}",
    "%TOKEN%",
    "<your-key>",
    "<TOKEN>",
    "your-api-key-here",
    "YOUR_API_KEY",
    "xxx",
    "xxxxxxxxxxxxxxxxxxxxxxxx",
    "XXXX-XXXX-XXXX-1234",
    "****",
    "••••••••",
    "...",
    "sk-...",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "process.env.TOKEN",
    'os.environ["TOKEN"]',
    "env:TOKEN",
    "example",
    "example-key-123456",
    "changeme",
    "change-me-please-1",
    "placeholder",
    "null",
    "None",
    "true",
    "undefined",
    "REDACTED",
    "0123456789abcdef0123456789abcdef",
    "[redacted:token]",
    "[private]",
    "op://vault/item/field",
    "",
)
