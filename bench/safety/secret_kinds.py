"""Kinds of secrets that developers leak, and the contexts they leak in.

Nothing here is a key: each value is made of random letters when it is needed. A kind belongs to one of six groups:

- `review`: misses that a security review reported;
- `tuned`: kinds that were known while the rules were written;
- `development`: half of the kinds of `unseen_kinds.txt`, whose misses were read while rules were written;
- `kept-apart`: the other half, by the hash of the name. Their misses were not read before the last rule was written, so
  their figure says how well the rules generalise; docs/redaction.md has it;
- `blind`: a fifth of the kinds of `blind_kinds.txt`, which were written without a look at the rules. Their misses were never read;
  those of the others (`blind-read`) were, after all had been measured once.

In a context, § stands for the secret.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from zlib import crc32

LETTERS = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL_SAFE = LETTERS + "_-"
BASE64 = LETTERS + "+/"
BASE32 = string.ascii_uppercase + "234567"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
DJANGO = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)"
WORDPRESS = LETTERS + "!@#$%^&*()-_ []{}<>~+=,.;:/?|"
WORDS = [
    "orbit",
    "velvet",
    "canyon",
    "maple",
    "harbor",
    "pencil",
    "winter",
    "copper",
    "meadow",
    "rocket",
    "saddle",
    "timber",
    "violet",
    "walnut",
    "zebra",
    "anchor",
    "basket",
    "candle",
    "dragon",
    "ember",
    "falcon",
    "garden",
    "hammer",
    "island",
    "jungle",
    "kettle",
    "ladder",
    "magnet",
    "needle",
    "oyster",
    "pepper",
    "quartz",
    "ribbon",
    "silver",
    "tunnel",
    "umbrella",
    "valley",
    "window",
    "yellow",
    "abandon",
    "ability",
    "absent",
    "absorb",
    "cactus",
    "cattle",
    "daring",
    "dinner",
    "elbow",
    "fabric",
    "gadget",
    "happy",
    "idle",
    "jacket",
    "kitchen",
    "lemon",
    "mango",
    "noble",
    "ocean",
    "panda",
]

Maker = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class SecretKind:
    """A kind of secret: how it is made, and the texts that contain it."""

    name: str
    group: str
    make: Maker
    contexts: tuple[str, ...]


def chars(alphabet: str, size: int, prefix: str = "", suffix: str = "") -> Maker:
    """Return a maker of random characters with at least one digit where the alphabet has digits."""
    digits = [letter for letter in alphabet if letter.isdigit()]

    def make(random: Random) -> str:
        body = random.choices(alphabet, k=size)
        if digits and not any(letter.isdigit() for letter in body):
            body[size // 2] = random.choice(digits)
        return prefix + "".join(body) + suffix

    return make


def words(count: int, joint: str = " ") -> Maker:
    """Return a maker of passphrases."""
    return lambda random: joint.join(random.sample(WORDS, count))


def human_password(random: Random) -> str:
    """Return a password as people choose them: a word, a sign, a number; or a word with replaced letters."""
    word = random.choice(WORDS)
    number = str(random.choice((random.randint(1950, 2030), random.randint(10, 99), random.randint(100, 999))))
    sign = random.choice("!@#$%&*-_.+?")
    swapped = word.replace("a", "4").replace("e", "3").replace("o", "0")
    return random.choice(
        (
            f"{word.title()}{sign}{number}",
            f"{word.title()}{number}{sign}",
            f"{swapped}{sign}{number}",
            f"{word.title()}{sign}{random.choice(WORDS)}{number}",
            f"{swapped.title()}{number}{sign}{random.choice(LETTERS)}",
        )
    )


def strong_password(random: Random) -> str:
    """Return a password of a password manager."""
    size = random.randint(12, 24)
    body = random.choices(LETTERS + "!@#%^*-_=+.?", k=size - 3)
    return "".join([random.choice(string.ascii_letters), *body, random.choice(string.digits), random.choice("!@#%*")])


def any_password(random: Random) -> str:
    """Return a password of one of three styles."""
    return random.choice((human_password, strong_password, chars(LETTERS, 14)))(random)


def uuid(random: Random) -> str:
    """Return a UUID."""
    return "-".join("".join(random.choices(HEX, k=size)) for size in (8, 4, 4, 4, 12))


def encode(text: str) -> str:
    """Return the base64 of a text."""
    return base64.b64encode(text.encode()).decode()


def jwt(random: Random) -> str:
    """Return a JSON Web Token."""
    parts = [{"alg": "RS256", "kid": chars(LETTERS, 8)(random)}, {"sub": chars(LETTERS, 12)(random), "iat": 17}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, chars(URL_SAFE, 86)(random)])


def pem(label: str) -> Maker:
    """Return a maker of PEM blocks."""

    def make(random: Random) -> str:
        lines = [chars(BASE64, 64)(random) for _ in range(5)]
        return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])

    return make


def recovery_codes(random: Random) -> str:
    """Return a list of one-time recovery codes."""
    halves = [(chars(LOWER, 5)(random), chars(LOWER, 5)(random)) for _ in range(6)]
    return "\n".join("-".join(pair) for pair in halves)


def shadow_hash(random: Random) -> str:
    """Return a hash of crypt(3): SHA-256, SHA-512 or yescrypt."""
    prefix, size = random.choice((("$5$", 43), ("$6$", 86), ("$6$rounds=5000$", 86), ("$y$j9T$", 43)))
    return f"{prefix}{chars(LETTERS + './', 16)(random)}${chars(LETTERS + './', size)(random)}"


def with_zero_width_space(random: Random) -> str:
    """Return a GitHub token with an invisible character inside, as a chat client inserts it."""
    key = chars(LETTERS, 36, "ghp_")(random)
    at = random.randint(8, 32)
    return key[:at] + random.choice("\u200b\u200c\u200d\u2060\ufeff\u00ad") + key[at:]


PASSWORD_NAMES = (
    *("Passwort", "Kennwort", "mot de passe", "Mot de passe", "contraseña", "clave", "密码", "口令"),
    *("parola d'ordine", "senha", "パスワード", "пароль", "비밀번호", "wachtwoord", "hasło", "lösenord"),
)


def _review_kinds() -> list[SecretKind]:
    rows: list[tuple[str, Maker, tuple[str, ...]]] = [
        (
            "django-insecure",
            chars(DJANGO, 50, "django-insecure-"),
            ("SECRET_KEY = '§'", 'SECRET_KEY = "§"', "settings.py: SECRET_KEY = '§'", '    SECRET_KEY="§"'),
        ),
        (
            "django-key",
            chars(DJANGO, 50),
            ("SECRET_KEY = '§'", 'SECRET_KEY="§"', "DJANGO_SECRET_KEY='§'", 'SECRET_KEY: "§"', "SECRET_KEY=§"),
        ),
        ("secret-key-signs", strong_password, ('SECRET_KEY="§"', "SECRET_KEY='§'", 'secret_key: "§"')),
        (
            "passphrase",
            words(4),
            (
                "passphrase: §",
                "SSH_PASSPHRASE=§",
                'passphrase = "§"',
                "BORG_PASSPHRASE='§'",
                '{"passphrase": "§"}',
                "Passphrase: §",
                "the passphrase is §",
            ),
        ),
        (
            "password-sentence",
            human_password,
            (
                "the password is §",
                "The password is §.",
                "by the way, my password was § until today",
                "admin password is §, change it",
                "use the password § for the staging box",
            ),
        ),
        (
            "pgpass",
            any_password,
            (
                "db.host.test:5432:app:mara:§",
                "cat ~/.pgpass -> db.host.test:5432:app:mara:§",
                "2026-01-01 INFO line 1: localhost:5432:*:postgres_admin:§",
                "*:*:*:mara:§",
            ),
        ),
        (
            "next-line",
            chars(LETTERS, 32),
            (
                "api_key:\n§\n",
                "api_key:\n  § # production\n",
                "Your API key:\n\n§ (keep it)\n",
                "api_key:\n§ is what they sent me",
            ),
        ),
        (
            "short-names",
            any_password,
            ("pw: §", "pwd=§", "pw=§", "pass: §", "user: mara pw: §", "pwd: §", "DB_PW=§", "db_pass: §", "login mara / pw §"),
        ),
        (
            "terraform-default",
            any_password,
            (
                'variable "db_password" {\n  type    = string\n  default = "§"\n}',
                'variable "db_password" { default = "§" }',
                'variable "admin_secret" {\n  description = "the secret"\n  default     = "§"\n}',
            ),
        ),
        ("spring", any_password, ("spring.datasource.password=§", "spring.mail.password: §", "app.db.password = §")),
        (
            "aws-secret",
            chars(BASE64, 40),
            ("aws_secret_access_key = §", "AWS_SECRET_ACCESS_KEY=§", "the secret access key is §", "Secret access key: §"),
        ),
        ("foreign-names", any_password, (*(f"{name}: §" for name in PASSWORD_NAMES), "密码：§", "Das Passwort lautet §", "le mot de passe est §", "la contraseña es §", "密码是§")),
        (
            "hex-key",
            chars(HEX, 64),
            ('const hmacKey = "§"', 'encryptionKey: "§"', "AES_KEY = '§'", 'let masterKey = "§";', "hmac_key=§", "cipher_key: §"),
        ),
        ("recovery-codes", recovery_codes, ("Recovery codes:\n§\n", "backup codes for GitHub:\n\n§\n")),
        (
            "shadow-hash",
            shadow_hash,
            ("root:§:19000:0:99999:7:::", "mara:§:19876:0:99999:7:::"),
        ),
        (
            "htpasswd-hash",
            lambda r: r.choice((f"$apr1${chars(LETTERS, 8)(r)}${chars(LETTERS + './', 22)(r)}", f"$2y$05${chars(LETTERS + './', 53)(r)}")),
            ("mara:§", "deploy:§\n"),
        ),
        (
            "seed-phrase",
            words(12),
            ("seed phrase: §", "mnemonic: §", 'MNEMONIC="§"', "recovery phrase:\n§", "my seed words are §"),
        ),
        ("seed-phrase-24", words(24), ("seed phrase: §", "mnemonic = '§'", "wallet mnemonic: §")),
        ("zero-width", with_zero_width_space, ("use § please", "GITHUB_TOKEN=§")),
    ]  # fmt: skip
    return [SecretKind(name, "review", make, contexts) for name, make, contexts in rows]


def _tuned_kinds() -> list[SecretKind]:
    key = chars(LETTERS, 32)
    rows: list[tuple[str, Maker, tuple[str, ...]]] = [
        ("database-url", any_password, ("postgresql://app:§@db.host.test/app", "mysql://root:§@10.0.0.3:3306/shop", "mongodb+srv://svc:§@c0.host.test/x?w=majority", "rediss://default:§@cache.host.test:6380", "amqps://mq:§@mq.host.test/vhost")),
        ("ado-string", any_password, ('"Server=tcp:db,1433;Database=app;User ID=sa;Password=§;Encrypt=True"', "Data Source=db;User Id=app;Password=§;", "Driver={ODBC};Server=db;Uid=app;Pwd=§;")),
        ("jwt", jwt, ("Authorization: Bearer §", "token § expired", '{"id_token": "§"}')),
        ("pem", pem("RSA PRIVATE KEY"), ("§", "key: |\n§", "cat id_rsa\n§\n$")),
        ("kubeconfig", lambda r: encode("-----BEGIN RSA PRIVATE KEY-----\n" + chars(BASE64, 300)(r)), ("    client-key-data: §", "client-key-data: §\n    client-certificate-data: x")),
        ("docker-auth", lambda r: encode(f"mara:{chars(LETTERS, 20)(r)}"), ('{"auths": {"ghcr.io": {"auth": "§"}}}', '"https://index.docker.io/v1/": {\n  "auth": "§"\n}', '"auth":"§"')),
        ("netrc", any_password, ("machine api.host.test login mara password §", "machine h.test\n  login mara\n  password §\n", "default login a password §")),
        ("npmrc", chars(BASE64, 40), ("//registry.host.test/:_authToken=§", "_auth=§", "//npm.host.test/:_password=§")),
        ("pypirc", any_password, ("[pypi]\nusername = mara\npassword = §\n", "[distutils]\nindex-servers = x\n[x]\nusername: mara\npassword: §\n")),
        ("cookie", key, ("Cookie: theme=dark; sessionid=§", "Set-Cookie: sid=§; Path=/; Secure", "-b 'session=§'", 'curl --cookie "JSESSIONID=§" https://h.test')),
        ("basic-header", lambda r: encode(f"mara:{chars(LETTERS, 16)(r)}"), ("Authorization: Basic §", "-H 'authorization: Basic §'", '"Authorization": "Basic §"', "http.extraheader=AUTHORIZATION: basic §")),
        ("sas-url", lambda r: chars(LETTERS, 43)(r) + "%3D", ("https://acc.blob.core.windows.net/c?sv=2024-01-01&se=2026&sig=§", "SharedAccessSignature sr=x&sig=§&se=1&skn=k")),
        ("s3-signed", chars(HEX, 64), ("https://b.s3.amazonaws.com/o?X-Amz-Credential=AK%2F1&X-Amz-Signature=§", "curl 'https://b.s3.host.test/o?X-Amz-Expires=60&X-Amz-Signature=§'")),
        ("slack-webhook", lambda r: f"T{chars(UPPER, 9)(r)}/B{chars(UPPER, 9)(r)}/{chars(LETTERS, 24)(r)}", ("https://hooks.slack.com/services/§", "SLACK_URL=https://hooks.slack.com/services/§")),
        ("discord-webhook", chars(URL_SAFE, 68), ("https://discord.com/api/webhooks/1122334455667788/§", "url: https://discordapp.com/api/webhooks/9988776655443322/§")),
        ("client-secret", key, ('{"client_id": "app", "client_secret": "§"}', "client_secret: §", 'client_secret = "§"', "OAUTH_CLIENT_SECRET=§", "export CLIENT_SECRET='§'", '$env:CLIENT_SECRET = "§"', "oauth.client.secret=§", "<clientSecret>§</clientSecret>", 'ClientSecret: "§",', 'let client_secret = "§";', "const clientSecret = '§';", '"client_secret\\": \\"§\\"')),
        ("cli-flag", any_password, ("tool --password § run", "tool --password=§", "tool --db-password '§'", 'tool --pass "§"', "docker login -u mara -p §")),
        ("mysql-p", any_password, ("mysql -uroot -p§ shop", "mysqldump -u root -p'§' shop > a.sql")),
        ("sshpass", any_password, ("sshpass -p § ssh root@h", "sshpass -p '§' scp a h:", "SSHPASS=§ sshpass -e ssh h")),
        ("gpg-passphrase", any_password, ("gpg --batch --passphrase § -d a.gpg", "gpg --passphrase '§' a", "GPG_PASSPHRASE=§")),
        ("wifi-psk", any_password, ('network={\n  ssid="home"\n  psk="§"\n}', "nmcli dev wifi connect home password §", "wpa_passphrase=§", "WIFI:T:WPA;S:home;P:§;;", "psk=§")),
        ("otpauth", chars(BASE32, 32), ("otpauth://totp/Host:mara?secret=§&issuer=Host", "TOTP secret: §", "oathtool --totp -b §", "otp_secret=§")),
        ("age-key", chars(UPPER, 58, "AGE-SECRET-KEY-1"), ("§", "key: §", "# public key: age1x\n§\n")),
        ("wireguard", chars(BASE64, 43, "", "="), ("[Interface]\nPrivateKey = §\nAddress = 10.0.0.2/24", "PresharedKey = §", "wg set wg0 private-key §")),
        ("telegram", chars(URL_SAFE, 33, "1234567890:AA"), ("BOT_TOKEN=§", "https://api.telegram.org/bot§/getMe", "bot token §")),
        ("ethereum-key", chars(HEX, 64, "0x"), ("PRIVATE_KEY=§", 'privateKey: "§"', "accounts: ['§']  // private key", "cast send --private-key § x")),
        ("sql-password", any_password, ("CREATE USER mara WITH PASSWORD '§';", "ALTER USER 'root'@'%' IDENTIFIED BY '§';", 'CREATE USER app IDENTIFIED BY "§";', "ALTER ROLE app PASSWORD '§'")),
        ("curl-user", any_password, ("curl -u mara:§ https://h.test", "curl --user 'mara:§' https://h.test", "wget --user=mara --password=§ https://h.test", "http -a mara:§ https://h.test")),
        ("auth-header", key, ("X-Auth-Token: §", "X-Vault-Token: §", "PRIVATE-TOKEN: §", "curl -H 'X-Api-Key: §' h.test", "X-Shopify-Access-Token: §", '"x-functions-key": "§"')),
        ("k8s-secret", lambda r: encode(strong_password(r)), ("apiVersion: v1\nkind: Secret\ndata:\n  password: §\n", "kind: Secret\ndata:\n  db-password: §", '{"kind":"Secret","data":{"token":"§"}}')),
        ("ansible", any_password, ("ansible_become_pass: §", "ansible_ssh_pass=§", "ansible_password: '§'", 'vault_db_password: "§"')),
        ("laravel-key", chars(BASE64, 43, "base64:", "="), ("APP_KEY=§", "'key' => '§'", "APP_KEY='§'")),
        ("powershell", any_password, ("ConvertTo-SecureString '§' -AsPlainText -Force", 'ConvertTo-SecureString -String "§" -AsPlainText', "$password = '§'", '$Password = "§"')),
        ("markdown-table", key, ("| name | value |\n|---|---|\n| API key | § |", "| token | `§` |", "| DB password | § |")),
        ("log-line", key, ('2026-03-01T10:00:00Z DEBUG http headers={"Authorization": "Bearer §"}', "level=debug msg=login token=§ user=mara", "[debug] apiKey=§, retry=3")),
    ]  # fmt: skip
    return [SecretKind(name, "tuned", make, contexts) for name, make, contexts in rows]


def _earlier_kinds() -> list[SecretKind]:
    key = chars(LETTERS, 32)
    rows: list[tuple[str, Maker, tuple[str, ...]]] = [
        ("jdbc-url", any_password, ("jdbc:mysql://db:3306/app?user=mara&password=§&useSSL=true", "jdbc:sqlserver://db:1433;databaseName=app;user=sa;password=§;", "jdbc:postgresql://db/app?password=§")),
        ("other-database-url", chars(LETTERS, 18), ("clickhouse://default:§@ch.host.test:9440/x", "neo4j+s://neo4j:§@x.host.test", "https://elastic:§@es.host.test:9243", "couchdb://admin:§@couch:5984", "snowflake://mara:§@acc/db", "cassandra://cass:§@c1,c2/ks", "oracle+cx_oracle://scott:§@orcl/x", "influxdb://admin:§@i:8086")),
        ("sqlplus", any_password, ("sqlplus scott/§@//db:1521/orcl", "sqlplus system/§@orcl as sysdba", "sqlldr userid=scott/§ control=a.ctl")),
        ("cloudinary", chars(URL_SAFE, 27), ("CLOUDINARY_URL=cloudinary://123456789012345:§@cloud", "cloudinary://987654321098765:§@demo-cloud")),
        ("hubspot", lambda r: f"pat-na1-{uuid(r)}", ("HUBSPOT=§", "use § for the CRM", 'accessToken: "§"')),
        ("launchdarkly", lambda r: f"{r.choice(('sdk', 'api'))}-{uuid(r)}", ("LD_SDK_KEY=§", 'const client = init("§")', "launchdarkly key §")),
        ("posthog", chars(LETTERS, 43, "phx_"), ("POSTHOG=§", "personal key § of posthog")),
        ("elevenlabs", chars(HEX, 48, "sk_"), ("xi-api-key: §", "client = ElevenLabs(api_key='§')", "my key § works")),
        ("flutterwave", chars(LOWER, 32, "FLWSECK-", "-X"), ("FLW=§", "the key § is live")),
        ("frameio", chars(URL_SAFE, 64, "fio-u-"), ("FRAMEIO=§", "token § here")),
        ("meta-token", chars(LETTERS, 170, "EAAG"), ("https://graph.facebook.com/me?access_token=§", "FB=§", "page token § expires")),
        ("twitter-bearer", chars(LETTERS, 80, "AAAAAAAAAAAAAAAAAAAAA"), ("Bearer §", "TWITTER_BEARER=§", "bearer_token='§'")),
        ("trello", chars(HEX, 60, "ATTA"), ("TRELLO=§", "https://api.trello.com/1/boards?key=x&token=§")),
        ("asana", lambda r: f"1/{r.randint(10**15, 10**16 - 1)}:{chars(HEX, 32)(r)}", ("ASANA_TOKEN=§", "Authorization: Bearer §", 'asana.token = "§"')),
        ("twitch", chars(LOWER, 30, "oauth:"), ("PASS §", 'oauth = "§"', "twitch chat password § for the bot")),
        ("ngrok", lambda r: f"2{chars(LETTERS, 26)(r)}_{chars(LETTERS, 21)(r)}", ("ngrok config add-authtoken §", "authtoken: §", "NGROK_AUTHTOKEN=§")),
        ("ably", lambda r: f"{chars(LETTERS, 6)(r)}.{chars(LETTERS, 6)(r)}:{chars(URL_SAFE, 43)(r)}", ("ABLY_API_KEY=§", "new Ably.Realtime('§')  // api key", "ably key: §")),
        ("zapier-hook", lambda r: f"{r.randint(10**6, 10**7)}/{chars(LOWER, 7)(r)}", ("https://hooks.zapier.com/hooks/catch/§/", "POST https://hooks.zapier.com/hooks/catch/§")),
        ("chat-webhook", uuid, ("https://open.feishu.cn/open-apis/bot/v2/hook/§", "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=§")),
        ("dingtalk", chars(HEX, 64), ("https://oapi.dingtalk.com/robot/send?access_token=§",)),
        ("google-chat", lambda r: chars(URL_SAFE, 42)(r) + "%3D", ("https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token=§",)),
        ("wif-key", chars(BASE58, 51, "K"), ("bitcoin-cli importprivkey §", "wif: §", "private key (WIF): §")),
        ("xprv", chars(BASE58, 107, "xprv"), ("master: §", "§")),
        ("nsec", chars(BECH32, 58, "nsec1"), ("nostr key §", "NSEC=§")),
        ("stellar-seed", chars(BASE32, 55, "S"), ("stellar secret seed: §", 'Keypair.fromSecret("§")')),
        ("wordpress-salt", chars(WORDPRESS, 64), ("define('AUTH_KEY',         '§');", "define( 'SECURE_AUTH_SALT', '§' );", "define('LOGGED_IN_KEY', '§');", "define('NONCE_SALT', '§');")),
        ("php-password", any_password, ("$db_pass = '§';", "define('DB_PASSWORD', '§');", "'password' => '§',", '$dbPasswd = "§";')),
        ("flask-secret", lambda r: "".join(f"\\x{r.randint(0, 255):02x}" for _ in range(16)), ("app.secret_key = b'§'", 'SECRET_KEY = b"§"')),
        ("session-secret", any_password, ("session({ secret: '§', resave: false })", 'jwt.sign(data, "§")  // secret', "jwt_secret: §", "COOKIE_SECRET=§")),
        ("cisco", any_password, ("enable password §", "username admin privilege 15 password 0 §", "snmp-server community § RO", "enable secret 0 §")),
        ("net-user", any_password, ("net user mara § /add", "net use Z: \\\\srv\\share /user:mara §", "runas /savecred; psexec \\\\srv -u mara -p § cmd")),
        ("ldap", any_password, ("ldapsearch -x -D cn=admin,dc=h -w § -b dc=h", "bindpw §", "ldap_bind_password: §", "olcRootPW: §")),
        ("smb", any_password, ("smbclient //srv/share -U mara%§", "mount -t cifs //srv/s /m -o username=mara,password=§", "xfreerdp /v:srv /u:mara /p:§")),
        ("keytool", any_password, ("keytool -genkey -storepass § -alias a", "jarsigner -keypass § a.jar b", "storePassword '§'", 'keyPassword = "§"', "keystore.password=§")),
        ("maven-settings", any_password, ("<server><id>x</id><username>mara</username><password>§</password></server>", "<passphrase>§</passphrase>", "<privateKey>k</privateKey><password>§</password>")),
        ("poetry-config", any_password, ("poetry config http-basic.repo mara §", "poetry publish -u mara -p §", "twine upload -u mara -p § dist/*")),
        ("cargo-login", key, ("cargo login §", "cargo publish --token §", "gem push --key §", "vercel --token § deploy")),
        ("aws-configure", chars(BASE64, 40), ("aws configure set aws_secret_access_key §", "AWS Secret Access Key [None]: §", '"SecretAccessKey": "§",', "secretAccessKey: '§'", "-Daws.secretKey=§")),
        ("aws-session", chars(BASE64, 300, "FwoGZXIvYXdz"), ("aws_session_token = §", 'export AWS_SESSION_TOKEN="§"', '"SessionToken": "§"')),
        ("helm-set", any_password, ("helm install db x/postgresql --set auth.password=§", "helm upgrade a b --set-string global.secret=x,db.password=§", "--set adminPassword='§'")),
        ("tfstate", any_password, ('"attributes": {\n  "master_password": "§",', '"outputs": {"db_password": {"value": "§", "type": "string"}}', 'admin_password = "§"')),
        ("actions-env", key, ("env:\n  DEPLOY_TOKEN: §\n  MODE: x", "      NPM_TOKEN: '§'", "::set-output name=token::§")),
        ("har-cookie", key, ('{"name": "session_token", "value": "§", "path": "/"}', '{"name":"PHPSESSID","value":"§"}', '"cookies": [{"name": "sid", "value": "§"}]')),
        ("yaml-list", any_password, ("users:\n  - name: mara\n    password: §\n", "auth:\n  basic: {username: mara, password: §}", 'credentials:\n    password: "§"')),
        ("toml-section", any_password, ('[database]\npassword = "§"\n', "[auth]\nsecret = '§'\n", '[connections.dev]\nuser = "m"\npassword = "§"')),
        ("go-struct", any_password, ('Config{User: "mara", Password: "§"}', 'os.Setenv("DB_PASSWORD", "§")', 'db.Password = "§"', "const adminPassword = `§`")),
        ("java-call", any_password, ('DriverManager.getConnection(url, "mara", "§"); // password', 'ds.setPassword("§");', 'props.put("password", "§");', 'System.setProperty("javax.net.ssl.keyStorePassword", "§");')),
        ("rust-code", any_password, ('let password = "§";', 'env::set_var("API_SECRET", "§");', '.password("§")', 'const DB_PASS: &str = "§";')),
        ("python-call", any_password, ('connect(host="h", user="m", password="§")', "auth=('mara', '§')", 'client.login("mara@host.test", "§")', "HTTPBasicAuth('mara', '§')", "login(username='m', passwd='§')")),
        ("chat-message", human_password, ("login: mara / §", "user mara password §", "creds are mara:§", "here is the pw -> §", "pwd for the vpn is §", "username: mara, password: §")),
        ("diff-line", any_password, ("-  password: §\n+  password: ${DB_PASSWORD}", "-DB_PASS=§\n+DB_PASS=$X", '-    "secret": "§",')),
        ("rails", chars(HEX, 128), ("secret_key_base: §", "SECRET_KEY_BASE=§", "config.secret_key_base = '§'")),
        ("rails-master", chars(HEX, 32), ("RAILS_MASTER_KEY=§", "config/master.key:\n§\n", "master key: §")),
        ("luks", words(5), ("LUKS passphrase: §", 'echo -n "§" | cryptsetup luksOpen /dev/sda2 root -', "disk encryption passphrase is §")),
        ("restic", any_password, ("export RESTIC_PASSWORD=§", "RESTIC_PASSWORD='§' restic backup /", "rclone obscure §", "BORG_PASSPHRASE=§ borg create")),
        ("url-credential-token", chars(LETTERS, 40), ("git clone https://oauth2:§@git.host.test/a.git", "pip install --index-url https://__token__:§@py.host.test/simple x", "https://x-access-token:§@github.com/a/b")),
        ("oauth-code", key, ("https://h.test/callback#access_token=§&token_type=bearer", '{"refresh_token":"§","expires_in":3600}', "grant_type=refresh_token&refresh_token=§")),
        ("mailgun-smtp", any_password, ("smtp://postmaster:§@smtp.host.test:587", "EMAIL_HOST_PASSWORD = '§'", "SMTP_PASS=§", "MAIL_PASSWORD=§", 'auth: { user: "m@h.test", pass: "§" }')),
        ("kafka-jaas", any_password, ('org.apache.kafka.common.security.plain.PlainLoginModule required username="m" password="§";', "sasl.password=§", "ssl.keystore.password=§")),
        ("htdigest-mongo", any_password, ('db.createUser({user: "m", pwd: "§", roles: []})', "mongosh --password § db", 'db.auth("m", "§")', "requirepass §", "masterauth §")),
    ]  # fmt: skip
    return [SecretKind(name, "tuned", make, contexts) for name, make, contexts in rows]


def _lower_word(random: Random) -> str:
    """Return a password of lower-case words and a number: `walnut-orbit57`, `harbor_2041`, `velvetcanyon8`."""
    first, second = random.sample(WORDS, 2)
    number = str(random.choice((random.randint(2, 99), random.randint(100, 2030))))
    return random.choice((f"{first}-{second}{number}", f"{first}_{second}_{number}", f"{first}{second}{number}"))


def _title_word(random: Random) -> str:
    """Return a password of a capitalised word, a sign, a number and a letter: `Sommer-2025x`."""
    number = random.randint(1950, 2030)
    return f"{random.choice(WORDS).title()}{random.choice('-_.!')}{number}{random.choice(string.ascii_lowercase)}"


def _sign_first(random: Random) -> str:
    return random.choice("^!@#%*+=-_~") + strong_password(random)


def _letters_and_signs(random: Random) -> str:
    """Return a key of letters, digits and a few signs, as a tool prints it: 24 characters."""
    return chars(LETTERS, 18)(random) + random.choice("]_!#%") + chars(LETTERS + "_-!", 5)(random)


def _unseen_human(random: Random) -> str:
    return random.choice((human_password, _lower_word, _title_word, strong_password))(random)


def _unseen_password(random: Random) -> str:
    letters = chars(string.ascii_letters, 14)
    makers = (
        human_password,
        strong_password,
        chars(LETTERS, 14),
        letters,
        _lower_word,
        _title_word,
        _sign_first,
        chars(LOWER, 10),
    )
    return random.choice(makers)(random)  # fmt: skip


_MAKERS: dict[str, Maker] = {
    "password": _unseen_password,
    "human": _unseen_human,
    "words-number": _lower_word,
    "letters14": chars(string.ascii_letters, 14),
    "lower-digits": chars(LOWER, 12),
    "sign-first": _sign_first,
    "letters-signs": _letters_and_signs,
    "django": chars(DJANGO, 50),
    "key32": chars(LETTERS, 32),
    "key26": chars(LETTERS, 26),
    "b64-40": chars(BASE64, 40),
    "b64-44": chars(BASE64, 43, "", "="),
    "hex32": chars(HEX, 32),
    "hex-40": chars(HEX, 40),
    "base32": chars(BASE32, 32),
    "uuid": uuid,
    "pin6": lambda random: str(random.randint(100_000, 999_999)),
    "license": lambda random: "-".join(chars(UPPER, 5)(random) for _ in range(5)),
    "backup": lambda random: " ".join(f"{chars(LOWER, 5)(random)}-{chars(LOWER, 5)(random)}" for _ in range(2)),
    "words4": words(4),
}


def _unseen_group(name: str) -> str:
    """Return the group of a kind by the hash of its name: one in eight is kept apart."""
    return "kept-apart" if crc32(name.encode()) % 8 == 7 else "development"


def _listed_kinds(file: str, group_of: Callable[[str], str]) -> list[SecretKind]:
    rows: list[tuple[str, str, list[str]]] = []
    for line in Path(__file__).with_name(file).read_text("utf-8").splitlines():
        if line.startswith("= "):
            rows.append((*line.split()[1:3], []))  # type: ignore[arg-type]
        elif line and not line.startswith("# "):
            rows[-1][2].append(line.replace("⏎", "\n"))
    return [SecretKind(name, group_of(name), _MAKERS[make], tuple(contexts)) for name, make, contexts in rows]


def secret_kinds() -> tuple[SecretKind, ...]:
    """Return all kinds."""
    unseen = _listed_kinds("unseen_kinds.txt", _unseen_group)
    blind = _listed_kinds("blind_kinds.txt", lambda name: "blind" if crc32(name.encode()) % 4 == 3 else "blind-read")
    return (*_review_kinds(), *_tuned_kinds(), *_earlier_kinds(), *unseen, *blind)
