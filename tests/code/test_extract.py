"""Any input gives an extract with valid positions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from lorelog.code.extract import extract
from lorelog.code.languages.registry import LANGUAGES, detect_language
from lorelog.core.code import FileExtract

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


def check(extracted: FileExtract) -> None:
    for index, symbol in enumerate(extracted.symbols):
        assert symbol.name
        assert symbol.span[:2] <= symbol.span[2:]
        assert symbol.span[:2] <= (symbol.name_line, symbol.name_column) <= symbol.span[2:]
        assert index == 0 or extracted.symbols[index - 1].span[:2] <= symbol.span[:2]
    for use in extracted.uses:
        assert use.name
        assert -1 <= use.enclosing < len(extracted.symbols)
    assert list(extracted.uses) == sorted(extracted.uses, key=lambda use: (use.line, use.column))


@pytest.mark.parametrize("language", NAMES)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(PIECES), max_size=80).map(b" ".join)))
def test_any_bytes_give_an_extract(language: str, data: bytes) -> None:
    """No bytes raise an error in any language, and positions are sorted and inside of the file."""
    check(extract(data, language))


@pytest.mark.slow
@pytest.mark.parametrize("language", NAMES)
def test_deep_nesting_ends(language: str) -> None:
    """A hundred thousand nested brackets do not crash or recurse in any language."""
    for piece, count in ((b"(", 100_000), (b"{", 10_000), (b"[f(", 10_000), (b"A<", 50_000)):
        extracted = extract(piece * count, language)
        check(extracted)
        assert extracted.lines == 1


@pytest.mark.slow
@pytest.mark.parametrize("piece", DEEP, ids=repr)
def test_deep_python_ends(piece: bytes) -> None:
    """Python constructs may be nested to any depth."""
    check(extract(piece * 20_000, "python"))


def test_deep_definitions_are_bounded() -> None:
    """Deeply nested definitions are cut off, so that names stay short."""
    nested = b"".join(b" " * depth + b"def f():\n" for depth in range(300)) + b" " * 300 + b"pass\n"
    extracted = extract(nested, "python")
    check(extracted)
    assert 30 < len(extracted.symbols) <= 40


SAMPLES = sorted(path for path in (Path(__file__).parent / "samples").iterdir() if path.suffix != ".txt")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_file_gives_an_extract(path: Path, data: st.DataObject) -> None:
    """Real code with a part replaced by other bytes gives an extract."""
    source = path.read_bytes()
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 200)))
    extracted = extract(
        source[:start] + data.draw(st.sampled_from(PIECES)) + source[end:], detect_language(path.name, source) or ""
    )
    check(extracted)


@pytest.mark.slow
def test_a_large_file_is_read_to_its_end() -> None:
    """A large file is extracted completely."""
    extracted = extract(b"".join(b"def f%d(a):\n    return a + g%d(a)\n\n\n" % (n, n) for n in range(5_000)), "python")
    assert len(extracted.symbols) == 5_000
    assert extracted.symbols[-1].name_line == 4_999 * 4 + 1
    assert extracted.broken == 0


def test_columns_count_characters() -> None:
    """Columns count characters, as in an editor."""
    extracted = extract("größe = 'ä€😀'; other = große(größe)\n".encode(), "python")
    assert [(symbol.name, symbol.name_column) for symbol in extracted.symbols] == [("größe", 1), ("other", 16)]
    assert [(use.name, use.column) for use in extracted.uses] == [("große", 24), ("größe", 30)]


def test_a_broken_file_is_extracted_in_part() -> None:
    """A syntax error costs its surroundings and not the file; its first line is reported."""
    extracted = extract(
        b"def before():\n    pass\n\ndef broken(:\n    x = = 3\n\ndef after():\n    return before()\n", "python"
    )
    assert {"before", "after"} <= {symbol.name for symbol in extracted.symbols}
    assert extracted.broken == 4
    assert [use.name for use in extracted.uses if use.kind == "call"] == ["before"]
