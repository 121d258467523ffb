"""What a line claims exactly must stand in what it rests on; ordinary words need not."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.compact.summary_writer import SourceFacts

TEXT = (
    "We set the Redis TTL to 60 seconds in src/cache/store.py, because `make_key()` timed out after 1,500 ms. "
    "See https://docs.example.org/ttl?v=2 for the reasons. UserService.load calls fetch_user; run pytest -q --maxfail=2. "
    "On 2026-03-05 3 of 12 builds failed with E1042 (v1.2.3, commit 3f9a2c1). Ask ops@example.org, 2 times. "
    'The log said "connection refused by peer". Chinese: '
    "缓存时间是60秒，由fetchUser函数读取配置文件/etc/app.toml，端口8080。用--fast参数，重试三次。"
    "设计在docs/设计.md。见https://docs.example.org/a。"
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
        "It was 1,500 ms, twice, for a dozen of them",
        "an end-to-end, up-to-date and well-known thing",
        "Redis\u2014which is fast\u2014keeps it 60 s",
        "Decision: Redis; Reason: it timed out",
        # Scripts without gaps: numbers, names and paths are found between the letters around them.
        "缓存时间为６０秒",
        "缓存为 60 秒，端口为8080",
        "通过fetchUser读取/etc/app.toml的内容",
        "加上--fast会快一些",
        "重试三次，间隔六十秒",
        "docs/设计.md说明了原因，见https://docs.example.org/a。",
        "fetchUser가 60초마다 읽는다",
        "一个函数读取配置",
    ],
)
def test_what_the_sources_say_is_held(line: str) -> None:
    """Numbers with their units, paths or their ends, identifiers, quotations and URLs of the sources pass, whatever is around them."""
    assert SourceFacts(TEXT).unsupported(line) == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("The TTL is 61 seconds", "61 seconds"),
        ("The TTL is 60 ms", "60 ms"),
        ("It took 1500 s", "1500 s"),
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
        ("缓存时间是90秒", "90"),
        ("they moved to Kafka", "Kafka"),
        ("the X-Auth-Token header", "X-Auth-Token"),
        ("in C:\\Users\\bob\\x.cfg", "C:\\Users\\bob\\x.cfg"),
        ("in src/**/bar.py", "src/**/bar.py"),
        ("copied to user@host:/srv/other", "user@host:/srv/other"),
        ("flag 0x60", "0x60"),
        ("60 ns", "60 ns"),
        ("run it with -v", "-v"),
        ("call purge() first", "purge"),
        ("put a <script> there", "<script>"),
        ("5 builds failed", "5"),  # 05 is the day of a date, and 9 is part of a hash
        ("9 builds failed", "9"),
        ("缓存时间为90秒", "90"),
        ("使用deleteUser函数", "deleteUser"),
        ("用--force参数清除", "--force"),
        ("见https://evil.example/x。", "https://evil.example/x"),
        ("修改/etc/shadow文件", "/etc/shadow"),
        ("改用Kafka存储", "Kafka"),
        ("设计在docs/规划.md", "docs/规划"),
        ("变量user_name错误", "user_name"),
    ],
)
def test_what_the_sources_do_not_say_is_missing(line: str, missing: str) -> None:
    """An invented number, unit, path, URL, name, flag, day or quotation is told, also where it only begins or ends like a true one."""
    assert missing in SourceFacts(TEXT).unsupported(line)


def test_german_nouns_are_not_names() -> None:
    """German is not thrown away for its spelling."""
    ground = SourceFacts("Der Import ist langsam, und die Datenbank wird nicht mit dem Index abgeglichen.")

    assert ground.unsupported("Langsam ist der Import, weil kein Abgleich der Datenbank erfolgt") == []


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

    assert SourceFacts(text).unsupported(f"{text}.") == []


@given(st.lists(EXACT, max_size=6), EXACT)
def test_a_claim_that_stands_nowhere_is_missing(held: list[str], claim: str) -> None:
    """What no source holds, by itself or as a part, is never taken for said."""
    text = " ".join(["something else was said of", *held])
    if claim in text or (claim.isdigit() and claim in re.findall(r"\d+", text)):
        return

    assert claim in SourceFacts(text).unsupported(f"it is {claim} now")


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_asked_about(text: str, line: str) -> None:
    """No text of any script breaks it, and what is missing is told once."""
    missing = SourceFacts(text).unsupported(line)

    assert len(set(missing)) == len(missing)
