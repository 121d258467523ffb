"""Whatever a file contains, something comes back, and places in it are right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorelog.code.extract import extract
from lorelog.code.languages import LANGUAGES, language_of
from lorelog.core.code import Extract

NAMES = [language.name for language in LANGUAGES]
PIECES = [
    *(b"( ) { } [ ] < > ; : , . = => -> :: ? ! & * + - / \\ @ # $ % ^ | ~ ` \" '".split()),
    *(b"a b self this class def fn func function struct impl enum interface import from use package".split()),
    *(b"let var const if else for while return lambda async match case new try catch end do type as".split()),
    *(b"public static void int string namespace template extends trait object val begin create table".split()),
    *(
        b'"""',
        b"'''",
        b"/*",
        b"*/",
        b"//",
        b"\n",
        b"\n    ",
        b"\t",
        b"\0",
        b"\xff",
        "ä€😀".encode(),
        b"<?php",
        b"0",
        b"_",
    ),
]
DEEP = [b"(", b"{", b"[", b"f(", b"a.", b"-", b"class A { ", b"x = [(", b"if a: ", b"def f(): ", b"<", b"/*", b"'\""]


def check(said: Extract) -> None:
    """Assert what holds of every extract."""
    for place, symbol in enumerate(said.symbols):
        assert symbol.name
        assert symbol.span[:2] <= symbol.span[2:]
        assert symbol.span[:2] <= (symbol.name_line, symbol.name_column) <= symbol.span[2:]
        assert place == 0 or said.symbols[place - 1].span[:2] <= symbol.span[:2]
    for use in said.uses:
        assert use.name
        assert -1 <= use.enclosing < len(said.symbols)
    assert list(said.uses) == sorted(said.uses, key=lambda use: (use.line, use.column))


@pytest.mark.parametrize("language", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(PIECES), max_size=80).map(b" ".join)))
def test_any_bytes_give_an_extract(language: str, data: bytes) -> None:
    """No language raises, whatever the bytes; what comes back is in order and inside the file."""
    check(extract(data, language))


@pytest.mark.parametrize("language", NAMES)
def test_deep_nesting_ends(language: str) -> None:
    """A hundred thousand brackets neither crash nor recurse in any language, and the end of the file is reported."""
    for piece, count in ((b"(", 100_000), (b"{", 10_000), (b"[f(", 10_000), (b"A<", 50_000)):
        said = extract(piece * count, language)
        check(said)
        assert said.lines == 1


@pytest.mark.parametrize("piece", DEEP, ids=repr)
def test_deep_python_ends(piece: bytes) -> None:
    """Whatever nests in Python nests as deep as it likes."""
    check(extract(piece * 20_000, "python"))


def test_deep_definitions_are_bounded() -> None:
    """Definitions inside definitions inside definitions do not make names as long as the file."""
    nested = b"".join(b" " * depth + b"def f():\n" for depth in range(300)) + b" " * 300 + b"pass\n"
    said = extract(nested, "python")
    check(said)
    assert 30 < len(said.symbols) <= 40


SAMPLES = sorted(path for path in (Path(__file__).parent / "samples").iterdir() if path.suffix != ".txt")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_file_gives_an_extract(path: Path, data: st.DataObject) -> None:
    """Real code with a stretch cut out, and something put there that does not belong, harms nobody."""
    source = path.read_bytes()
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 200)))
    said = extract(
        source[:start] + data.draw(st.sampled_from(PIECES)) + source[end:], language_of(path.name, source) or ""
    )
    check(said)


def test_a_large_file_is_read_to_its_end() -> None:
    """Megabytes of ordinary code are ordinary."""
    said = extract(b"".join(b"def f%d(a):\n    return a + g%d(a)\n\n\n" % (n, n) for n in range(5_000)), "python")
    assert len(said.symbols) == 5_000
    assert said.symbols[-1].name_line == 4_999 * 4 + 1
    assert said.broken == 0


def test_columns_count_characters() -> None:
    """A column is where an editor says it is, whatever bytes stand before it."""
    said = extract("größe = 'ä€😀'; other = große(größe)\n".encode(), "python")
    assert [(one.name, one.name_column) for one in said.symbols] == [("größe", 1), ("other", 16)]
    assert [(use.name, use.column) for use in said.uses] == [("große", 24), ("größe", 30)]


def test_a_broken_file_gives_what_could_be_parsed() -> None:
    """A syntax error costs its surroundings and not the file; the first line that is wrong is told."""
    said = extract(
        b"def before():\n    pass\n\ndef broken(:\n    x = = 3\n\ndef after():\n    return before()\n", "python"
    )
    assert {"before", "after"} <= {symbol.name for symbol in said.symbols}
    assert said.broken == 4
    assert [use.name for use in said.uses if use.kind == "call"] == ["before"]


def test_nul_bytes_inside_code_do_no_harm() -> None:
    """What stands around a NUL byte is read."""
    said = extract(b"def a():\n    pass\n\0\ndef b():\n    pass\n", "python")
    assert "a" in {symbol.name for symbol in said.symbols}


def test_an_empty_file_says_nothing() -> None:
    """No bytes, no lines."""
    assert extract(b"", "python") == Extract("python", (), (), (), 0)
