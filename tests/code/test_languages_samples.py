"""What each language's file says: one sample per language, beside it everything that is found in it.

The lists beside the samples were read by a person against the samples. Whoever changes a query reads the difference:
a line that is wrong is a bug, however convenient.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.code.rendering import rendered

from lorelog.code.extract import extract
from lorelog.code.languages import LANGUAGES, language_of

SAMPLES = sorted(path for path in (Path(__file__).parent / "samples").iterdir() if path.suffix != ".txt")


def spoken(path: Path) -> str:
    """Return the language of a sample."""
    language = language_of(path.name, path.read_bytes()[:4096])
    assert language is not None
    return language


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_a_sample_says_what_is_written_beside_it(path: Path) -> None:
    """Symbols with places, signatures, docstrings and visibility, imports and uses are exactly those of the list."""
    assert rendered(extract(path.read_bytes(), spoken(path))) == path.with_name(path.name + ".txt").read_text("utf-8")


def test_every_language_with_a_query_has_a_sample() -> None:
    """No language is read that nobody looked at."""
    assert {language.name for language in LANGUAGES if language.queries} == {spoken(path) for path in SAMPLES}


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_half_a_sample_says_what_was_complete_in_it(path: Path) -> None:
    """A file that breaks off in the middle keeps what was complete before."""
    source, language = path.read_bytes(), spoken(path)
    half = source[: len(source) // 2]
    complete = [one for one in extract(source, language).symbols if one.span.end_line <= half.count(b"\n")]
    first = next(one for one in complete if one.kind != "module")
    assert first.name in {symbol.name for symbol in extract(half, language).symbols}


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_places_hold_the_names(path: Path) -> None:
    """Where a symbol or a use is said to be, there its name stands."""
    said = extract(path.read_bytes(), spoken(path))
    lines = path.read_text("utf-8").split("\n")
    places = [(symbol.name.removeprefix("operator"), symbol.name_line, symbol.name_column) for symbol in said.symbols]
    places += [(use.name, use.line, use.column) for use in said.uses if use.kind != "import"]
    for name, line, column in places:
        assert lines[line - 1][column - 1 :].removeprefix("operator").lstrip("\"':$ ").startswith(name.lstrip("$"))
