"""The current files of a working tree are read, within limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog.services.freshness.project_code import WorkingTree, parse_symbols, sketch_similarity, text_sketch

CODE = b"def one():\n    return 1\n"


@pytest.mark.parametrize("source", [b"\0\1\2" + CODE, CODE * 50_000, b"x=1;" * 20_000 + b"\n" + CODE])
def test_unsuitable_files_are_not_parsed(source: bytes) -> None:
    """Binary, very large and minified files are not parsed during a search."""
    assert [symbol.name for symbol in parse_symbols("a.py", CODE)] == ["one"]
    assert parse_symbols("a.py", source) == ()


def test_content_ids_are_those_of_git(tmp_path: Path) -> None:
    """The id of a content is Git's own, so that contents can be compared without reading history."""
    (tmp_path / "a.txt").write_bytes(b"hello\n")
    assert WorkingTree(str(tmp_path.resolve())).content("a.txt") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_similarity_compares_tokens() -> None:
    """Equal texts have similarity 1, different ones less, and layout does not matter."""
    text = "def one(a, b):\n    total = a + b\n    return total * 2\n"
    assert sketch_similarity(text_sketch(text), text_sketch(text.replace("\n    ", "\n\n        "))) == 1
    assert sketch_similarity(text_sketch(text), text_sketch("class Other:\n    pass\n")) < 0.2
    assert 0.5 < sketch_similarity(text_sketch(text), text_sketch(text.replace("* 2", "* 3"))) < 1
