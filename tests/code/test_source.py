"""Source files are decoded to UTF-8, or refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.code.source import DecodedSource, decode_source

TEXT = "# größe\nname = 'ä'\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.encode("latin-1"),
    ],
)
def test_encodings_are_recognised(data: bytes) -> None:
    """Any encoding gives the same text without a byte order mark."""
    assert decode_source(data) == DecodedSource(TEXT.encode())


def test_a_python_file_says_its_encoding() -> None:
    """A PEP 263 cookie counts in the first two lines of a Python file only."""
    text = "#!/usr/bin/python\n# -*- coding: koi8-r -*-\nимя = 1\n"
    assert decode_source(text.encode("koi8-r"), "python") == DecodedSource(text.encode())
    late = f"\n\n{text}".encode("koi8-r")
    for data, language in ((text.encode("koi8-r"), "ruby"), (late, "python")):
        assert decode_source(data, language).source == data.decode("latin-1").encode()


@pytest.mark.parametrize("cookie", ["rot13", "hex", "idna", "punycode", "unicode_escape", "nonsense", "utf-8-nonsense"])
def test_a_cookie_that_names_no_charset_is_passed_over(cookie: str) -> None:
    """Other codecs of Python are not encodings of source files."""
    data = f"# coding: {cookie}\nx = 1\n".encode()
    assert decode_source(data, "python") == DecodedSource(data)


def test_carriage_returns_end_lines() -> None:
    """Carriage returns alone become line feeds; Windows line endings stay."""
    assert decode_source(b"a = 1\rb = 2\r").source == b"a = 1\nb = 2\n"
    assert decode_source(b"a = 1\r\nb = 2\r\n").source == b"a = 1\r\nb = 2\r\n"


@pytest.mark.parametrize("data", [b"\x7fELF\0\0\0\1" * 100, bytes(range(1, 256)) * 10, b"PK\3\4" + b"\0" * 100])
def test_binaries_are_refused(data: bytes) -> None:
    """Binary data with the suffix .py is refused."""
    assert decode_source(data, "python").refusal == "binary"


def test_a_late_nul_is_accepted() -> None:
    """A NUL byte far into a text, as in some tests of parsers, does not make it binary."""
    data = b"x = 1\n" * 2000 + b"y = '\0'\n"
    assert decode_source(data).source == data


def test_minified_files_are_refused() -> None:
    """Files with very long lines are refused."""
    assert decode_source(b"function f(a){return a};" * 1000, "javascript").refusal == "minified"
    licence = b"// licence\n" * 100
    assert decode_source(licence + b"var a=1;" * 5000, "javascript").refusal == "minified"
    assert decode_source(b"var a = 1;\n" * 5000, "javascript").refusal == ""


def test_a_file_that_is_too_large_is_refused() -> None:
    """A file above the limit is refused."""
    assert decode_source(b"x = 1\n" * 4_000_000).refusal == "too large"


@given(st.binary(max_size=300), st.sampled_from(["", "python", "c"]))
def test_any_bytes_are_read_or_refused(data: bytes, language: str) -> None:
    """No bytes raise an error, and the result is UTF-8."""
    reading = decode_source(data, language)
    assert not (reading.refusal and reading.source)
    reading.source.decode()


@given(st.text(alphabet=st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"]), max_size=200))
def test_utf8_is_unchanged(text: str) -> None:
    """Text in UTF-8 is returned unchanged."""
    assert decode_source(text.encode()).source == text.encode()
