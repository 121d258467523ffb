"""Each language has a sample file, and beside it the expected extract.

A person has compared the expected extracts with the samples. After a change of a query, read the difference: a wrong
line is a bug, however convenient.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.code.rendering import render

from lorelog.code.extract import extract
from lorelog.code.languages.registry import LANGUAGES, detect_language

SAMPLES = sorted(path for path in (Path(__file__).parent / "samples").iterdir() if path.suffix != ".txt")


def sample_language(path: Path) -> str:
    language = detect_language(path.name, path.read_bytes()[:4096])
    assert language is not None
    return language


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_a_sample_gives_the_expected_extract(path: Path) -> None:
    """Symbols with positions, signatures, docstrings and visibility, imports and uses are as expected."""
    assert render(extract(path.read_bytes(), sample_language(path))) == path.with_name(path.name + ".txt").read_text(
        "utf-8"
    )


def test_every_language_with_a_query_has_a_sample() -> None:
    """Every language has a sample."""
    assert {language.name for language in LANGUAGES if language.queries} == {sample_language(path) for path in SAMPLES}


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_half_a_sample_keeps_its_complete_symbols(path: Path) -> None:
    """A truncated file keeps the symbols that were complete."""
    source, language = path.read_bytes(), sample_language(path)
    half = source[: len(source) // 2]
    complete = [symbol for symbol in extract(source, language).symbols if symbol.span.end_line <= half.count(b"\n")]
    first = next(symbol for symbol in complete if symbol.kind != "module")
    assert first.name in {symbol.name for symbol in extract(half, language).symbols}


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_positions_point_at_names(path: Path) -> None:
    """The name is found at the position of each symbol and use."""
    extracted = extract(path.read_bytes(), sample_language(path))
    lines = path.read_text("utf-8").split("\n")
    positions = [
        (symbol.name.removeprefix("operator"), symbol.name_line, symbol.name_column) for symbol in extracted.symbols
    ]
    positions += [(use.name, use.line, use.column) for use in extracted.uses if use.kind != "import"]
    for name, line, column in positions:
        assert lines[line - 1][column - 1 :].removeprefix("operator").lstrip("\"':$ ").startswith(name.lstrip("$"))
