"""A working tree is looked at as it is, and nothing in it costs more than it should."""

from __future__ import annotations

import pytest

from lorelog.services.freshness.tree import content_id, likeness, parse, sketch

CODE = b"def one():\n    return 1\n"


@pytest.mark.parametrize("source", [b"\0\1\2" + CODE, CODE * 50_000, b"x=1;" * 20_000 + b"\n" + CODE])
def test_what_is_not_for_people_is_not_parsed(source: bytes) -> None:
    """Binary, very large and minified files are left to the code index: a search does not parse them on the way."""
    assert [one.name for one in parse("a.py", CODE)] == ["one"]
    assert parse("a.py", source) == ()


def test_contents_are_known_as_git_knows_them() -> None:
    """The id of a content is Git's own, so that history need not be read to compare."""
    assert content_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_likeness_is_of_tokens() -> None:
    """The same text is all alike, another one is not, and layout does not matter."""
    text = "def one(a, b):\n    total = a + b\n    return total * 2\n"
    assert likeness(sketch(text), sketch(text.replace("\n    ", "\n\n        "))) == 1
    assert likeness(sketch(text), sketch("class Other:\n    pass\n")) < 0.2
    assert 0.5 < likeness(sketch(text), sketch(text.replace("* 2", "* 3"))) < 1
