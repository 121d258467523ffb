"""Forms that a security review found unredacted are redacted, and the sentences next to them stay."""

from __future__ import annotations

from random import Random

import pytest

from lorelog.ingest.redaction.redact import redact

_DJANGO = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_HEX = "0123456789abcdef"
_WORDS = "orbit velvet canyon maple harbor pencil copper meadow rocket saddle timber violet"


def made(alphabet: str, size: int, seed: int = 5) -> str:
    """Return random characters with a digit."""
    random = Random(seed)
    return "7" + "".join(random.choices(alphabet, k=size - 1))


KEY, HEX = made(_LETTERS, 32), made(_HEX, 64)
CRYPT = made(_LETTERS + "./", 86)

FOUND = [
    ("passphrase: {}", "correct horse battery staple"),
    ("SSH_PASSPHRASE={}", "orbit velvet canyon maple"),
    ("the passphrase is {}.", "orbit velvet canyon maple"),
    ("seed phrase: {}", _WORDS),
    ('MNEMONIC="{}"', _WORDS),
    ("the password is {}", "Tr0ub4dor&3x"),
    ("The password is {}", "Winter-2025"),
    ("use the password {} for staging", "l4dd3r!957"),
    ("pwd for the vpn is {}", "Oyster508@"),
    ("login: mara / {}", "Daring+canyon2030"),
    ("cat ~/.pgpass -> db.host.test:5432:app:mara:{}", "Winter2025x"),
    ("api_key:\n{} is what they sent me", KEY),
    ("api_key:\n  {} # production\n", KEY),
    ("pw: {}", "Velvet-29x"),
    ("pwd={}", "u@1y_!6qft5"),
    ("pw={}", KEY),
    ("pass: {}", KEY),
    ('variable "db_password" {{\n  type    = string\n  default = "{}"\n}}', "hunter-two"),
    ("spring.datasource.password={}", made(_LETTERS, 14)),
    ("aws_secret_access_key = {}", "/" + made(_LETTERS, 39)),
    ("the secret access key is {}", made(_LETTERS, 40)),
    ('const hmacKey = "{}"', HEX),
    ("accounts: ['{}'] // private key", f"0x{HEX}"),
    ("Recovery codes:\n{}\n", "a1b2c-d3e4f\ng5h6i-j7k8l\nm9n0o-p1q2r"),
    ("root:{}:19000:0:99999:7:::", f"$6$saltsalt${CRYPT}"),
    ("mara:{}", f"$apr1$saltsalt${CRYPT[:22]}"),
    ("mara:{}", f"$2y$05${CRYPT[:53]}"),
    ("Passwort: {}", "Winter-2025"),
    ("mot de passe : {}", "Hiver-2025!"),
    ("la contraseña es {}", "Verano_2025!"),
    ("密码：{}", "Qiu-2025x"),
    ("密码是{}", "Qiu2025!x"),
    ("senha: {}", "Outono#25"),
    ("パスワード: {}", "Aki-2025!"),
    ("пароль: {}", "Osen-2025!"),
    ("비밀번호: {}", "Gaeul-2025!"),
    ("CREATE USER mara WITH PASSWORD '{}';", "hunter22"),
    ('ds.setPassword("{}");', "Winter&2025"),
    ("auth=('mara', '{}')", "Winter&2025"),
    ("define('AUTH_KEY',  '{}');", "7d5g#9 L{m)8jwX{wDLipu|l,!j?&65Akz{1X0j"),
    ("net user mara {} /add", "Winter!2025x"),
    ("sqlplus scott/{}", "tiger!2025"),
    ("WIFI:T:WPA;S:home;P:{};;", "Winter-2025"),
    ('"db_password": {{"value": "{}"}}', "hunter-two"),
    ('SECRET_KEY = config("SECRET_KEY", default="{}")', "jp7v_kumol_z@c@pw^v-xn*2d9f8"),
    ('DB_PASSWORD = os.environ.get("DB_PASSWORD") or "{}"', "walnut-orbit57"),
    ("const password = process.env.DB_PASSWORD || '{}';", "QqlxaWtcAifbQi"),
    ("app.secret_key = b'{}'", "UJ4TcfCWNkgkOVhJBg8a3X]_"),
    ("Das Passwort für den Server lautet {}", "Sommer-2025x"),
    ("btw the admin password is {}, keep it", "walnut-orbit57"),
    ("Le mot de passe de la base de données est maintenant {}", "Hiver-2025!"),
    ("La contraseña del servidor es {}", "verano_2025"),
    ("服务器的密码是{}，请保密", "Qiu-2025x"),
    ("use {} as the password", "walnut-orbit57"),
    ("spring.datasource.password={}", "QqlxaWtcAifbQi"),
    ("ansible_become_pass: {}", "^9myUjVbsc-Fvj"),
    ("DSN=shop;UID=app;PWD={}", "velvetcanyon8"),
    ('new PasswordAuthentication("mara", "{}".toCharArray())', "Winter-2025"),
    ('sql.Open("mysql", "app:{}@tcp(db:3306)/shop")', "Winter-2025"),
    ("ipmitool -H h -U admin -P {} power on", "Winter-2025"),
    ("the PIN of the card is {}", "482913"),
    ("SMS code for the bank login: {}", "482913"),
    ("> - name: DB_PASSWORD\n>   value: {}\n> next", "Winter-2025"),
    ('+expect "assword:"\n+send "{}\\r"', "Winter-2025"),
    ("etcdctl --user root:{} get x", "fsl2r1nnz5"),
    ("vsce publish -p {}", "zTAoYQc4zlYJNauAwA9QCnc6n5K77pA4"),
    ("vault operator unseal {}", "SnIRCsqxTHq5aihP0hwjLgmcpj"),
    ("GET /v1/forecast?city=Ulm&appid={}&units=metric", "dAeBndJP0SBBfvBftJkAw99y14Jxd6bm"),
    ("MFA_SEED={}", "UH3MHPUFPT2K24Z733GDIK6HPOOMW3A6"),
    ("pulumi config set aws:secretKey {}", "Ladder.1979d"),
    ("echo '{}' > .vault_pass", "qtb8qh1xys"),
    ('new mysqli("localhost", "app", "{}", "shop")', "Anchor-2022r"),
    ("License key: {}", "80DOE-94KCP-BRXJ9-RAU6Z-JNMQ2"),
]


@pytest.mark.parametrize(("context", "secret"), FOUND)
def test_a_reviewed_form_is_redacted(context: str, secret: str) -> None:
    """The secret is replaced, and the text around it stays."""
    before, after = context.format("\0").split("\0")
    result = redact(before + secret + after).text

    assert result.startswith(before)
    assert result.endswith(after)
    assert result[len(before) : len(result) - len(after)].startswith("[redacted:")
    assert not any(word in result.removeprefix(before) for word in secret.split() if len(word) > 4)


@pytest.mark.parametrize("context", ["SECRET_KEY = '{}'", 'SECRET_KEY = "{}"', "SECRET_KEY={}", 'SECRET_KEY: "{}"'])
@pytest.mark.parametrize("prefix", ["", "django-insecure-"])
def test_keys_of_django_are_redacted(context: str, prefix: str) -> None:
    """A key of Django's alphabet is redacted whichever signs it has."""
    kept = [key for seed in range(200) if (key := prefix + made(_DJANGO, 50, seed)) in redact(context.format(key)).text]

    assert len(kept) <= 2


@pytest.mark.parametrize("invisible", "\u200b\u200c\u200d\u2060\ufeff\u00ad")
def test_an_invisible_character_hides_no_key(invisible: str) -> None:
    """A key with a zero-width character inside is replaced whole; such characters stay elsewhere."""
    key = "ghp_" + made(_LETTERS, 36)

    result = redact(f"a{invisible}b {key[:12]}{invisible}{key[12:]} c{invisible}d").text

    assert result == f"a{invisible}b [redacted:github-token] c{invisible}d"


@pytest.mark.parametrize(
    "text",
    [
        "passphrase: the words that unlock your private key",
        "The passphrase is not stored, enter it again each time.",
        "the password is hashed with sha-256, see RFC-2898",
        "the password is bcrypt-12, then base64",
        "seed phrase: write the twelve words on paper and keep them away from your computer",
        "Recovery codes: print them and store them in a safe place",
        "Passwort: siehe Tresor-Eintrag; mot de passe : demander à Anna; 密码：见保险库",
        "pwd=/home/mara/src2 pw: kilowatts pass: tests/test_a1.py",
        "--storage-driver-password string&nbsp;&nbsp;Default: root",
        'variable "region" { default = "eu-central-1" }',
        "a.token=Object.assign({},u),i=(0,ze.fromJS)(a);",
        "tx 0x" + HEX,
        "enable password authentication; net user accounts; ldapsearch -w",
        "127.0.0.1:5432:5432 and arn:aws:iam:*:role:*:read",
        "pass `verbosity=1` to the call; the password for the cluster named east is asked for",
        'pip install flask-login==0.6.2 flask-wtf==1.0.1 jinja2==3.1.2; {"event": "pass", "at": "2026-03-05T14:02"}',
        "______ key: a; passwd: HTTPPasswordMgr; LED_PIN = 13; password = getpass('Password: '); token = parser.next(\"utf-8\")",
        "ab\u200dcd \u200b नमस्\u200dते",
    ],
)
def test_sentences_about_secrets_stay(text: str) -> None:
    """Text about passwords, phrases and codes stays unchanged."""
    assert redact(text).text == text
