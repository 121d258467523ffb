"""Which language a file is written in, and that everything a row names is there."""

from __future__ import annotations

import importlib.resources
import importlib.util

import pytest

from lorelog.code.extract import extract, grammar, query_of
from lorelog.code.languages import BY_NAME, LANGUAGES, Language, language_of, may_be_code

NAMES = [language.name for language in LANGUAGES]


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("src/a.py", b"", "python"),
        ("stubs/a.pyi", b"", "python"),
        ("A.PY", b"", "python"),
        ("web/app.tsx", b"", "tsx"),
        ("web/app.mts", b"", "typescript"),
        ("a.h", b"int add(int a, int b);\n", "c"),
        ("a.h", b"namespace x {\nclass A : public B {\n};\n}\n", "cpp"),
        ("a.h", b'#ifdef __cplusplus\nextern "C" {\n#endif\nint x;\n', "c"),
        ("Rakefile", b"", "ruby"),
        ("bin/tool", b"#!/usr/bin/env python3.11\n", "python"),
        ("bin/tool", b"#!/usr/bin/env -S node --no-warnings\n", "javascript"),
        ("bin/tool", b"#!/bin/sh\n", "bash"),
        (".bashrc", b"", "bash"),
    ],
)
def test_a_language_is_told_by_name_and_beginning(path: str, head: bytes, language: str) -> None:
    """A suffix decides; a header's content tells C from C++; a file without a suffix is told by its first line."""
    assert language_of(path, head) == language
    assert may_be_code(path)


@pytest.mark.parametrize("path", ["a.md", "a.json", "notes", "photo.png", "x.unknown"])
def test_what_no_grammar_reads_has_no_language(path: str) -> None:
    """Prose, data and pictures are not parsed, whatever is in them."""
    assert language_of(path, b"def f(): pass\n") is None


def test_a_first_line_does_not_overrule_a_suffix() -> None:
    """A text file about scripts is no script."""
    assert language_of("howto.txt", b"#!/bin/sh\n") is None
    assert not may_be_code("howto.txt")


def test_no_suffix_has_two_languages() -> None:
    """Two rows that claimed one suffix would make the order of the table decide."""
    claimed = [suffix for language in LANGUAGES for suffix in language.suffixes]
    assert len(claimed) == len(set(claimed))


@pytest.mark.parametrize("language", LANGUAGES, ids=NAMES)
def test_every_grammar_and_hook_of_the_table_is_installed(language: Language) -> None:
    """What a row names is there, offline: grammars come inside wheels, queries inside the package."""
    assert grammar(language.name).node_kind_count > 10
    folder = importlib.resources.files("lorelog.code") / "queries"
    assert all((folder / f"{name}.scm").is_file() for name in language.queries)
    assert language.name == "python" or query_of(language.name) is not None
    assert not language.hooks or importlib.util.find_spec(language.hooks) is not None


def test_a_language_nobody_knows_says_nothing() -> None:
    """An unknown language is no error: the file has lines and nothing else."""
    assert "cobol" not in BY_NAME
    said = extract(b"a\nb\n", "cobol")
    assert (said.symbols, said.uses, said.imports, said.lines) == ((), (), (), 2)
