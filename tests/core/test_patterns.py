"""Patterns that are compiled at first use, and digests without OpenSSL."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from lorelog.core import digests
from lorelog.core.patterns import lazy_pattern

ROOMS = ("config", "core", "ingest", "models", "operations", "records", "retrieval", "services", "stores")
SOURCE = Path(__file__).parents[2] / "src" / "lorelog"


def test_a_lazy_pattern_behaves_like_a_compiled_one() -> None:
    """Methods and attributes return what those of a compiled pattern return, at the first use and later."""
    compiled, lazy = re.compile(r"(?P<word>\w+)-(\d)", re.ASCII), lazy_pattern(r"(?P<word>\w+)-(\d)", re.ASCII)
    text = "a-1, bc-2"
    for _ in range(2):
        assert lazy.findall(text) == compiled.findall(text)
        assert lazy.sub(r"\2", text) == compiled.sub(r"\2", text)
        assert [match.span() for match in lazy.finditer(text)] == [match.span() for match in compiled.finditer(text)]
        assert (lazy.fullmatch(text), lazy.split("-")) == (None, compiled.split("-"))
        assert (lazy.pattern, lazy.flags, lazy.groups) == (compiled.pattern, compiled.flags, compiled.groups)
        assert dict(lazy.groupindex) == {"word": 1}
    assert lazy_pattern(b"x+").findall(b"xxyx") == [b"xx", b"x"]


def test_a_wrong_pattern_is_an_error_at_its_first_use() -> None:
    """A pattern that cannot be compiled raises when it is used, and each time."""
    lazy = lazy_pattern("(")
    for _ in range(2):
        with pytest.raises(re.error):
            lazy.search("x")


def test_modules_compile_no_pattern_when_they_are_imported() -> None:
    """Patterns of modules are `lazy_pattern`: what a command does not use, it does not compile."""
    eager = [
        f"{path}: {line}"
        for room in ROOMS
        for path in (SOURCE / room).rglob("*.py")
        for line in re.findall(r"^[A-Za-z_].*= re\.compile\(.*", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert eager == []


@pytest.mark.parametrize("text", [b"", b"a", b"x" * 5000])
def test_digests_are_those_of_hashlib(text: bytes) -> None:
    """Both hashes are the standard library's."""
    assert digests.sha256(text).hexdigest() == hashlib.sha256(text).hexdigest()
    assert digests.blake2b(text, digest_size=8).digest() == hashlib.blake2b(text, digest_size=8).digest()
