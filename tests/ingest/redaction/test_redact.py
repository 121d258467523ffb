"""Redaction removes secrets of every kind, keeps text that only looks secret, and always terminates."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.redaction.secrets import KINDS, LETTERS, LOOKALIKES, PLACEHOLDERS, Kind, jwt, pem, some

from lorelog.core.errors import ConfigError
from lorelog.ingest.redaction import detectors
from lorelog.ingest.redaction.redact import known_value_redactor, redact, removed_values

ROUNDS = 12
ASSIGNMENTS = (
    "API_KEY={}",
    'password = "{}"',
    "token: {}",
    '{{"client_secret": "{}"}}',
    "--token {}",
    "Authorization: Bearer {}",
    "https://h.test/?access_token={}",
    "https://mara:{}@h.test/",
    "curl -u mara:{} https://h.test",
)

prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<&\\"), max_size=60)


def by_name(kind: Kind) -> str:
    return kind.name


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=by_name)
def test_secrets_are_redacted_in_every_context(kind: Kind) -> None:
    """A secret of each kind is replaced in each of its contexts, and the text around it stays."""
    for seed in range(ROUNDS):
        secret = kind.make(Random(seed))
        for place in kind.places:
            before, after = place.format("\0").split("\0")
            result = redact(before + secret + after)

            assert result.text == f"{before}[redacted:{kind.kind}]{after}"
            assert result.kinds == {kind.kind: 1}


def test_every_rule_is_well_formed() -> None:
    """Each row of the rules compiles, names a check, and needs words in lower case: they are read at first use only."""
    rules = detectors._rules()
    for vendor in rules.vendor:
        assert all(detectors._vendor_pattern(vendor, literal) for literal in vendor.literals.split())
    for context in rules.context:
        assert detectors._context_pattern(context)
        assert [word.lower() for word in context.needs] == list(context.needs)
    assert all(detectors._option_pattern(command) for command in rules.command)
    checks = [rule.accepts for rule in rules.context] + [rule.accepts for rule in rules.command]
    assert set(checks) == set(detectors._CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=by_name)
@settings(max_examples=15, deadline=None, derandomize=True)  # one random key in ten thousand looks like words
@given(before=prose, after=prose, seed=st.integers(0, 2**32))
def test_secrets_in_any_prose_are_gone(kind: Kind, before: str, after: str, seed: int) -> None:
    """A secret of any kind is removed whatever the lines around it are."""
    secret = kind.make(Random(seed))
    place = kind.places[seed % len(kind.places)]

    assert secret not in redact(f"{before}\n{place.format(secret)}\n{after}").text


@pytest.mark.parametrize("text", LOOKALIKES)
def test_lookalikes_stay(text: str) -> None:
    """Hashes, ids, paths, identifiers, public keys, images and ordinary code stay unchanged."""
    assert redact(text).text == text
    assert redact(f"Before it.\n  {text}\nAfter it.").kinds == {}


@pytest.mark.parametrize("place", ASSIGNMENTS)
@pytest.mark.parametrize("value", PLACEHOLDERS)
def test_placeholders_stay(value: str, place: str) -> None:
    """A placeholder for a secret stays unchanged."""
    text = place.format(value)

    assert redact(text).text == text


fragments = st.sampled_from(
    [
        *(kind.places[0].format(kind.make(Random(5))) for kind in KINDS),
        *LOOKALIKES,
        *PLACEHOLDERS,
        *("password=", "token: ", '"', "'", "\\", "\\n", "\n", " ", "=", ":", "@", "://", "<private>", "</private>"),
        *(
            "Bearer ",
            "Authorization: ",
            "Cookie: a=",
            "-----BEGIN PRIVATE KEY-----",
            "?sig=",
            "curl -u a:",
            ";",
            "&",
            "[",
        ),
    ]
)


@settings(deadline=None)
@given(st.text() | st.lists(fragments, max_size=12).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    """Any text is accepted; secrets, halves of secrets and their contexts in any order are complete after one pass."""
    once = redact(text).text

    assert redact(once) == type(redact(once))(once, {})


@settings(deadline=None)
@given(st.lists(st.text(string.ascii_lowercase + "äé漢 ", max_size=15), max_size=40).map(" ".join))
def test_plain_words_stay(text: str) -> None:
    """Text without names, symbols and long words stays unchanged."""
    assert redact(text).text == text
    assert redact(text).kinds == {}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", "a [private] c"),
        ("a <PRIVATE>b</Private> c", "a [private] c"),
        ("a <private reason='x'>b</private > c", "a [private] c"),
        ("a <private>b <private>c</private> d</private> e", "a [private] e"),
        ("a <private>b</private> c <private>d</private> e", "a [private] c [private] e"),
        ("a <private>b\n\nc", "a [private]"),
        ("a <private>b <private>c</private> d", "a [private]"),
        ("a </private> b", "a </private> b"),
        ("a &lt;private&gt;b&lt;/private&gt; c", "a [private] c"),
        ("a \\u003cprivate\\u003eb\\u003c/private\\u003e c", "a [private] c"),
        ("a <privateer>b</privateer> c", "a <privateer>b</privateer> c"),
        ("a <private>ä漢𝄞</private>é", "a [private]é"),
        ("private static final int a;", "private static final int a;"),
        ("", ""),
    ],
)
def test_private_text_is_removed(text: str, left: str) -> None:
    """Text between private tags is removed: any case, nested, with attributes, and to the end if unclosed."""
    assert redact(text).text == left


@settings(deadline=None)
@given(st.lists(st.sampled_from(["<private>", "</private>", "x", "<", ">", " "]), max_size=30).map("".join))
def test_nothing_opened_as_private_survives(text: str) -> None:
    """After redaction no private tag is left open."""
    assert "<private>" not in redact(text).text


def test_text_around_a_secret_stays() -> None:
    """Names, users, schemes and everything else on the line stay."""
    random = Random(1)
    key, other = some(random, LETTERS, 32), some(random, LETTERS, 32)
    text = f'curl -u mara:{key} -H "Cookie: theme=dark; sid={other}; lang=en" "https://bob:{key}@h.test/?page=2&token={other}"'

    assert redact(text).text == (
        'curl -u mara:[redacted:command-password] -H "Cookie: theme=dark; sid=[redacted:cookie]; lang=en" '
        '"https://bob:[redacted:url-password]@h.test/?page=2&token=[redacted:token]"'
    )


def test_kinds_are_counted() -> None:
    """The result has the number of replacements by kind."""
    random = Random(2)
    text = f"<private>x</private> {jwt(random)} {jwt(random)} {pem('PRIVATE KEY')(random)}"

    assert redact(text).kinds == {"private": 1, "jwt": 2, "private-key": 1}


def test_the_rest_of_a_half_redacted_value_goes() -> None:
    """A marker next to a secret does not protect the secret."""
    key = some(Random(3), LETTERS, 32)

    assert key not in redact(f"Cookie: a=[redacted:cookie]; sid={key}").text
    assert key not in redact(f'password="[redacted:jwt]{key}"').text


def test_own_patterns_are_applied() -> None:
    """A custom pattern removes its matches, or only its group named secret."""
    text = "Ticket ACME-4711 of Mara Jensen, badge: 0815."

    result = redact(text, [r"ACME-\d+", r"badge: (?P<secret>\d+)"])

    assert result.text == "Ticket [redacted:custom] of Mara Jensen, badge: [redacted:custom]."
    assert result.kinds == {"custom": 2}


@pytest.mark.parametrize("pattern", [r"\w+", r".*", r"a", r"", r"(?=a)", r"\[", r"[a-z]+:custom"])
def test_own_patterns_leave_markers_alone(pattern: str) -> None:
    """A custom pattern that matches everything terminates, and empty matches change nothing."""
    once = redact("a banana, a bat and A CAT [private]", [pattern]).text

    assert redact(once, [pattern]).text == once


def test_a_malformed_pattern_is_named() -> None:
    """A malformed custom pattern is a ConfigError that shows it."""
    with pytest.raises(ConfigError, match=r"redact\.patterns contains '\(open'") as caught:
        redact("x", [r"\d+", "(open"])

    assert caught.value.hint


HOSTILE = (
    *"a-_.:/=\"'\\<>&?@漢İ0+\n ",
    "eyJ",
    "-eyJ",
    "eyJaaaaaaaaaa.",
    "eyJaaaaaaaaaa.eyJaaaa.",
    "sk-",
    "_sk-a",
    "ghp_",
    "xoxb-",
    "key",
    "key=",
    "key='",
    'key="',
    'key=\\"',
    "password:",
    "password: ",
    "--password ",
    "token=a&",
    "secret=>",
    "a.key=b;",
    "://",
    "://a:b",
    "://a:a@",
    "authorization:",
    "Authorization: Bearer ",
    "bearer ",
    "cookie: ",
    "cookie: a=b;",
    "<private",
    "<private ",
    "<private>",
    "</private>",
    "&lt;private ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n",
    "-----BEGIN RSA ",
    "-----END PRIVATE KEY-----",
    "Private-Lines: 1\nAAAAAAAA\n",
    "curl -u a:b ",
    "mysql -p",
    "sshpass -p ",
    "login a password ",
    "login\n",
    "a:5432:b:c:",
    ":AA",
    ";base64,",
    ";base64,AKIA",
    "[redacted:a]",
    "[redacted:",
    "hooks.slack.com/services/",
    "MTE.",
    "SG.aaaaaaaaaaaaaaaa.",
    "pass pwd secret token key credential auth sig jwt ",
    "AKIAABCDEFGHIJKLMNOP ",
    "| ",
    "|   a",
    "|aaaaaaaaaaaa|bbbbbbbbbbbb1",
    ":\n\n",
    "password: |\n",
    "token_token_token_token:\nbbbbbbbb\n",
    "echo a|",
    "echo a1b2c3|sudo -S ",
    "printf '%s' ",
    "mongo -p a1b2c3 ",
    "htpasswd -b a b ",
    "--password-stdin<<<",
    "secrets set a=b ",
    "value key: token\n  value: a",
    "password is '",
    "curl -u a:bcd1 ",
    "sshpass -p a1b2c3 ",
    "the password is ",
    "passphrase: a ",
    "pw ",
    ":*:",
    "api_key:\n",
    "variable ",
    'variable "password" {',
    "define('KEY', '",
    "seed phrase ",
    "recovery codes:\n",
    "$6$",
    "a:$2y$05$",
    "\u200b",
    "a\u200b",
    "Passwort ",
    "密码",
    "IDENTIFIED BY '",
    "| key | a ",
    "key: a value: ",
    "0x",
    "priv",
    "secret access key ",
    "a.b: ",
    "login: a / ",
    "jwt.sign(a, ",
    "ably aaaaaa.aaaaaa:",
    "&lt;private &",
    "\\u003cprivate ",
)


@pytest.mark.slow
def test_hostile_texts_end() -> None:
    """Adversarial texts take time linear in their length; quadratic time would be minutes."""
    script = (
        "import json, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))\n"  # not by the clock: other programs may run meanwhile
        "from lorelog.ingest.redaction.redact import redact\n"
        "for piece in json.load(sys.stdin):\n"
        "    redact(piece * (130_000 // len(piece)))\n"
        "redact('key=password: eyJ-' * 20_000)\n"
        "redact('key=' * 250_000)\n"  # one line: the end of an expression is not searched in all of the rest
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(HOSTILE),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )

    assert done.stdout == "done\n"


def test_what_a_rule_needs_is_found_in_any_text() -> None:
    """The search among the different words of a text misses no word of a rule, inside a longer word or beside signs."""
    needed = {word for _, group in detectors._needed_words() for word in group}
    for before, after in (("", ""), ("ab9", "z"), ("ü", "密"), ("--", '("')):
        for word in needed:
            lowered = f"{before}{word}{after}"
            assert word in detectors.present_words(lowered, detectors.distinct_words(lowered))


def test_a_long_secret_goes_whole() -> None:
    """A value longer than usual secrets is removed completely."""
    key = some(Random(4), LETTERS, 9000)

    for place in ('api_key = "{}"', "API_KEY={}", "token: {}", "{}"):
        text = place.format(f"sk-ant-{key}")
        assert key[-40:] not in redact(text).text


def redact_text(text: str) -> str:
    return redact(text).text


def test_a_value_is_known_from_another_text() -> None:
    """A password that one text names is removed from a text that does not."""
    clean = known_value_redactor(["db password: Zebra-88-lamp"], redact_text)

    assert clean("psql said: Zebra-88-lamp is wrong") == "psql said: [redacted:password] is wrong"
    assert clean("Zebra-88-lamps, aZebra-88-lamp") == "Zebra-88-lamps, aZebra-88-lamp"


@pytest.mark.parametrize(
    "text",
    ["password: changeme", "password=1234", "password: hunter", "<private>the plan of the pier</private>", "no secret"],
)
def test_ordinary_words_stay(text: str) -> None:
    """Placeholders, short words, numbers and private passages are not looked for elsewhere."""
    other = "changeme 1234 hunter: the plan of the pier; no secret"

    assert known_value_redactor([text], redact_text)(other) == other


@given(
    parts=st.lists(st.text("ab: =\n", max_size=8), min_size=1, max_size=5),
    value=st.text("abx79:", min_size=1, max_size=12),
)
def test_removed_values_are_exact(parts: list[str], value: str) -> None:
    """Every value that is reported stood in the text, between the passages that were kept."""
    text, redacted = value.join(parts), "[redacted:custom]".join(parts)

    assert {found for found, _ in removed_values(text, redacted)} <= {value.strip("\"'`")}


@given(text=st.text(max_size=80), redacted=st.text("ab[redacted:x]", max_size=60))
def test_any_result_can_be_compared(text: str, redacted: str) -> None:
    """A function that does not redact as ours does gives no values or parts of the text, and never an error."""
    assert all(value in text for value, _ in removed_values(text, redacted))
