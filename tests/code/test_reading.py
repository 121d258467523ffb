"""Bytes of a source file become UTF-8, or there is a reason why not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.code.reading import Reading, read_source

TEXT = "# größe\nname = 'ä'\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (b"\xef\xbb\xbf" + TEXT.encode(), "utf-8"),
        (b"\xff\xfe" + TEXT.encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"), "utf-32-le"),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (TEXT.encode("utf-16-be"), "utf-16-be"),
        (TEXT.encode("latin-1"), "latin-1"),
    ],
)
def test_encodings_are_recognised(data: bytes, encoding: str) -> None:
    """Whatever it was written in, the same text comes out, without a mark, and what was assumed is told."""
    assert read_source(data) == Reading(TEXT.encode(), encoding)


def test_a_python_file_says_its_encoding() -> None:
    """The cookie of PEP 263 counts in the first two lines of a Python file, and only there."""
    text = "#!/usr/bin/python\n# -*- coding: koi8-r -*-\nимя = 1\n"
    assert read_source(text.encode("koi8-r"), "python") == Reading(text.encode(), "koi8-r")
    assert read_source(text.encode("koi8-r"), "ruby").encoding == "latin-1"
    late = f"\n\n{text}".encode("koi8-r")
    assert read_source(late, "python").encoding == "latin-1"


@pytest.mark.parametrize("cookie", ["rot13", "hex", "idna", "punycode", "unicode_escape", "nonsense", "utf-8-nonsense"])
def test_a_cookie_that_names_no_charset_is_passed_over(cookie: str) -> None:
    """Python's other codecs are no encodings of source files."""
    data = f"# coding: {cookie}\nx = 1\n".encode()
    assert read_source(data, "python") == Reading(data, "utf-8")


def test_lines_of_old_macs_are_lines() -> None:
    """Where only carriage returns end lines, they end lines; windows' line ends stay as they are."""
    assert read_source(b"a = 1\rb = 2\r").source == b"a = 1\nb = 2\n"
    assert read_source(b"a = 1\r\nb = 2\r\n").source == b"a = 1\r\nb = 2\r\n"


@pytest.mark.parametrize("data", [b"\x7fELF\0\0\0\1" * 100, bytes(range(1, 256)) * 10, b"PK\3\4" + b"\0" * 100])
def test_binaries_are_refused(data: bytes) -> None:
    """A program that is called .py is not read."""
    assert read_source(data, "python").refusal == "binary"


def test_a_late_nul_is_the_parsers_business() -> None:
    """A NUL byte far into a text, as in some tests of parsers, does not make it a binary."""
    data = b"x = 1\n" * 2000 + b"y = '\0'\n"
    assert read_source(data).source == data


def test_minified_files_are_refused() -> None:
    """Lines that nobody wrote have no place to be shown at."""
    assert read_source(b"function f(a){return a};" * 1000, "javascript").refusal == "minified"
    licence = b"// licence\n" * 100
    assert read_source(licence + b"var a=1;" * 5000, "javascript").refusal == "minified"
    assert read_source(b"var a = 1;\n" * 5000, "javascript").refusal == ""


def test_a_file_that_is_too_large_is_refused_and_not_decoded() -> None:
    """Twenty megabytes of code are data."""
    assert read_source(b"x = 1\n" * 4_000_000).refusal == "too large"
    assert read_source(b"x = 1\n", most=3).refusal == "too large"


@given(st.binary(max_size=300), st.sampled_from(["", "python", "c"]))
def test_any_bytes_are_read_or_refused(data: bytes, language: str) -> None:
    """Nothing raises, and what comes out is UTF-8."""
    reading = read_source(data, language)
    assert not (reading.refusal and reading.source)
    reading.source.decode()


@given(st.text(alphabet=st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"]), max_size=200))
def test_utf8_comes_out_as_it_went_in(text: str) -> None:
    """Text in UTF-8 is not touched."""
    assert read_source(text.encode()).source == text.encode()
