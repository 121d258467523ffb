"""Languages are detected, and their grammars, queries and hooks are installed."""

from __future__ import annotations

import importlib.resources

import pytest

from lorelog.code.extract import extract, load_grammar, load_hooks, load_query
from lorelog.code.languages.registry import LANGUAGES, LANGUAGES_BY_NAME, LanguageSpec, detect_language, may_be_code

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
def test_a_language_is_detected_by_name_and_beginning(path: str, head: bytes, language: str) -> None:
    """The suffix decides; the content of a header distinguishes C and C++; without a suffix the first line decides."""
    assert detect_language(path, head) == language
    assert may_be_code(path)


@pytest.mark.parametrize("path", ["a.md", "a.json", "notes", "photo.png", "x.unknown"])
def test_other_files_have_no_language(path: str) -> None:
    """Prose, data and images have no language."""
    assert detect_language(path, b"def f(): pass\n") is None


def test_a_first_line_does_not_overrule_a_suffix() -> None:
    """A text file that starts with `#!` is not a script."""
    assert detect_language("howto.txt", b"#!/bin/sh\n") is None
    assert not may_be_code("howto.txt")


def test_no_suffix_has_two_languages() -> None:
    """Each suffix belongs to one language."""
    claimed = [suffix for language in LANGUAGES for suffix in language.suffixes.split()]
    assert len(claimed) == len(set(claimed))


@pytest.mark.parametrize("language", LANGUAGES, ids=NAMES)
def test_every_grammar_query_and_hook_is_installed(language: LanguageSpec) -> None:
    """Grammars come with wheels, and queries and hooks with the package, so that all load offline."""
    assert load_grammar(language.name).node_kind_count > 10
    folder = importlib.resources.files("lorelog.code") / "queries"
    assert all((folder / f"{name}.scm").is_file() for name in language.queries.split())
    assert language.name == "python" or load_query(language.name) is not None
    assert load_hooks(language.name).comments


def test_an_unknown_language_gives_an_empty_extract() -> None:
    """An unknown language is not an error: the extract has lines and nothing else."""
    assert "cobol" not in LANGUAGES_BY_NAME
    extracted = extract(b"a\nb\n", "cobol")
    assert (extracted.symbols, extracted.uses, extracted.imports, extracted.lines) == ((), (), (), 2)
