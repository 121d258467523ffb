"""What a line claims exactly must stand in what it rests on; ordinary words need not."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.services.compact.claims import Ground

TEXT = (
    "We set the Redis TTL to 60 seconds in src/cache/store.py, because `make_key()` timed out after 1,500 ms. "
    "See https://docs.example.org/ttl?v=2 for the reasons. UserService.load calls fetch_user; run pytest -q --maxfail=2. "
    "On 2026-03-05 three of 12 builds failed with E1042 (v1.2.3, commit 3f9a2c1). Ask ops@example.org, two times. "
    'The log said "connection refused by peer". Chinese: 缓存时间是60秒。'
)


@pytest.mark.parametrize(
    "line",
    [
        "The TTL of Redis is 60 seconds.",
        "The TTL is 60 s, set in src/cache/store.py",
        "store.py and `make_key` time out after 1500 ms",
        "3 of 12 builds failed (E1042) on 2026-03-05",
        "three builds of 12 failed",
        "It was done 2 times",
        "See https://docs.example.org/ttl?v=2.",
        "UserService.load calls fetch_user()",
        "run with --maxfail=2",
        "version 1.2.3 at 3f9a2c1",
        'It was "Connection refused by peer".',
        "the redis ttl, e.g. for reads and/or writes",
        "write to ops@example.org",
        "缓存时间是60秒",
        "Nothing exact is said here, and it was rewritten freely.",
    ],
)
def test_what_the_sources_say_is_held(line: str) -> None:
    """Numbers with their units, paths or their ends, identifiers, quotations and URLs of the sources pass, whatever is around them."""
    assert Ground(TEXT).missing(line) == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("The TTL is 61 seconds", "61"),
        ("The TTL is 60 ms", "60 ms"),
        ("It took 1500 s", "1500 s"),
        ("four builds failed", "four"),
        ("in src/cache/stores.py", "src/cache/stores.py"),
        ("in src/cache/store.pyc", "src/cache/store.pyc"),
        ("in /etc/passwd", "/etc/passwd"),
        ("see https://docs.example.org/ttl", "https://docs.example.org/ttl"),
        ("see http://evil.example/x", "http://evil.example/x"),
        ("fetch_users is called", "fetch_users"),
        ("OrderService.load", "OrderService.load"),
        ("the KAFKA broker", "KAFKA"),
        ("with --force", "--force"),
        ("in v1.2", "v1.2"),
        ("on 2026-05-03", "2026-05-03"),
        ("at commit 3f9a2c2", "3f9a2c2"),
        ('it said "connection reset"', "connection reset"),
        ("call `drop_all()`", "drop_all()"),
        ("ask root@example.org", "root@example.org"),
        ("set $HOME", "$HOME"),
        ("a rise of 12%", "12%"),
        ("缓存时间是90秒", "缓存时间是90秒"),
    ],
)
def test_what_the_sources_do_not_say_is_missing(line: str, missing: str) -> None:
    """An invented number, unit, path, URL, name, flag, day or quotation is told, also where it only begins or ends like a true one."""
    assert missing in Ground(TEXT).missing(line)


WORDS = st.text(string.ascii_lowercase, min_size=2, max_size=8)
EXACT = st.one_of(
    st.integers(13, 10**9).map(str),
    st.tuples(WORDS, WORDS).map("_".join),
    st.tuples(WORDS, WORDS).map(lambda pair: f"src/{pair[0]}/{pair[1]}.py"),
    st.tuples(WORDS, WORDS).map(lambda pair: f"https://{pair[0]}.example/{pair[1]}"),
    st.tuples(WORDS, WORDS).map(lambda pair: pair[0] + pair[1].capitalize()),
)


@given(st.lists(WORDS, max_size=8), st.lists(EXACT, min_size=1, max_size=4))
def test_a_text_holds_its_own_claims(words: list[str], claims: list[str]) -> None:
    """Whatever a text says can be said again."""
    text = " ".join([*words, *claims, *words])

    assert Ground(text).missing(f"{text}.") == []


@given(st.lists(EXACT, max_size=6), EXACT)
def test_a_claim_that_stands_nowhere_is_missing(held: list[str], claim: str) -> None:
    """What no source holds, by itself or as a part, is never taken for said."""
    text = " ".join(["something else was said of", *held])
    if claim in text or (claim.isdigit() and claim in re.findall(r"\d+", text)):
        return

    assert claim in Ground(text).missing(f"it is {claim} now")


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_asked_about(text: str, line: str) -> None:
    """No text of any script breaks it, and what is missing is told once."""
    missing = Ground(text).missing(line)

    assert len(set(missing)) == len(missing)
