"""Languages are detected, read as their samples expect, and their hooks handle what a query cannot express."""

from __future__ import annotations

import importlib.resources
import time
from pathlib import Path

import pytest
from tests.code.rendering import render
from tree_sitter import Query

from lorelog.code.extract import extract, load_grammar, load_hooks, load_query
from lorelog.code.languages.registry import LANGUAGES, LANGUAGES_BY_NAME, LanguageSpec, detect_language, may_be_code
from lorelog.core.code import FileExtract

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
        ("a.h", b"#import <Foo/Foo.h>\n@interface A : NSObject\n@end\n", None),
    ],
)
def test_a_language_is_detected_by_name_and_beginning(path: str, head: bytes, language: str | None) -> None:
    """The suffix decides; the content of a header distinguishes C, C++ and Objective-C, which is not read; without a suffix the first line decides."""
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


def read(language: str, source: str) -> FileExtract:
    return extract(source.encode(), language)


def names(extracted: FileExtract) -> list[str]:
    return [symbol.qualified_name for symbol in extracted.symbols]


def uses(extracted: FileExtract, name: str) -> list[tuple[str, bool]]:
    """Return the kinds of the uses of a name, and whether it is local."""
    return [(str(use.kind), use.local) for use in extracted.uses if use.name == name]


DEFINED = {
    "a computed name has no symbol": (
        *("typescript", "class A {\n  [Symbol.iterator]() {}\n  b() {}\n}\n"),
        "A:class A.b:method",
    ),
    "`typedef struct a {…} b` defines both, and fields belong to the struct": (
        *("c", "typedef struct node { int v; } node_t;\n"),
        "node:class node.v:variable node_t:type",
    ),
    "`class LIB_EXPORT A` is the class A": (
        *("cpp", "class LIB_EXPORT Engine : public Base {\n public:\n  void run();\n};\n"),
        "Engine:class Engine.run:method",
    ),
    "`const A, B` and `var x, y` define two each, the blank name none": (
        *("go", "package p\nconst A, B = 1, 2\nvar x, _ = 3, 4\nvar _ T = y\nfunc _() { var z int }\n"),
        "A:constant B:constant x:variable",
    ),
    "members of an anonymous class are in its type": (
        *("java", "class A {\n  Runnable r = new Runnable() {\n    int n = 1;\n    public void run() {}\n  };\n}\n"),
        "A:class A.r:variable A.r.Runnable.n:variable A.r.Runnable.run:method",
    ),
    "prototypes, classes and exports get all assigned members, other objects only functions": (
        "javascript",
        (
            "exports.a = function () {};\nmodule.exports.b = 1;\nA.prototype.c = function () {};\nA.d = () => 1;\nA.E = 2;\n"
            "el.style.color = 3;\nexports.f = f;\nmodule.exports = {};\n"
        ),
        "a:function b:variable A.c:method A.d:method A.E:variable",
    ),
    "a macro before a declaration does not hide it": (
        "c",
        "LIB_API size_t lib_size(const lib_t *lib);\nstatic FORCE_INLINE int twice(int x) { return x * 2; }\n",
        "lib_size:function twice:function",
    ),
    "pointers, arrays, function pointers and functions that return them have a name": (
        "c",
        (
            "int **a, b[2][3], (*c)(int);\nchar *(*d[4])(void);\nvoid (*(e(void)))(int);\n"
            "typedef unsigned char byte_t, *byte_p;\nint *f(void) { return 0; }\n"
        ),
        "a:variable b:variable c:variable d:variable e:function byte_t:type byte_p:type f:function",
    ),
    "a member defined outside belongs to its class, with or without a template": (
        "cpp",
        "int A::B::f() { return 1; }\ntemplate <class T> void Box<T>::put(T t) {}\nA::~A() {}\nint A::count = 0;\n",
        "A.B.f:method Box.put:method A.~A:method A.count:variable",
    ),
}

VISIBLE = {
    "export statements, lists and defaults make names of a module public": (
        "javascript",
        "export const a = 1;\nconst b = 2, c = 3;\nfunction d() {}\nexport { b };\nexport default d;\n",
        "a:public b:public c:private d:public",
    ),
    "everything in a script is public": ("javascript", "const a = 1;\n", "a:public"),
    "a class starts private and a struct public, and access specifiers apply until the next": (
        "cpp",
        "class A {\n  int a;\npublic:\n  int b;\nprotected:\n  int c;\n};\nstruct S { int d; };\n",
        "A:public A.a:private A.b:public A.c:protected S:public S.d:public",
    ),
    "`private` works alone, before a method, and with a name": (
        "ruby",
        (
            "class A\n  def a; end\n  private\n  def b; end\n  public\n  def c; end\n  private def d; end\n  def e; end\n"
            "  private :e\nend\n"
        ),
        "A:public A.a:public A.b:private A.c:public A.d:private A.e:private",
    ),
}

IMPORTS = {
    "`const x = require('y')` is one import, whatever is on the left": (
        "javascript",
        'const a = require("a");\nconst {b, c: d} = require("m");\nx = require("z");\nrequire("s");\n',
        [("a", "", "a"), ("m", "b", ""), ("m", "c", "d"), ("z", "", ""), ("s", "", "")],
    ),
    "every name of a use tree is an import, in source order": (
        "rust",
        "use a::{b, c::{self, d as e}, f::*};\nuse g;\nuse ::h::i as j;\n",
        [("a", "b", ""), ("a::c", "", ""), ("a::c", "d", "e"), ("a::f", "*", ""), ("g", "", ""), ("::h", "i", "j")],
    ),
}


@pytest.mark.parametrize(("language", "source", "expected"), DEFINED.values(), ids=DEFINED)
def test_definitions(language: str, source: str, expected: str) -> None:
    """Each construct defines symbols of these kinds."""
    assert [f"{symbol.qualified_name}:{symbol.kind}" for symbol in read(language, source).symbols] == expected.split()


@pytest.mark.parametrize(("language", "source", "expected"), VISIBLE.values(), ids=VISIBLE)
def test_visibility(language: str, source: str, expected: str) -> None:
    """Visibility follows the language's rules."""
    symbols = read(language, source).symbols
    assert [f"{symbol.qualified_name}:{symbol.visibility}" for symbol in symbols] == expected.split()


@pytest.mark.parametrize(("language", "source", "expected"), IMPORTS.values(), ids=IMPORTS)
def test_imports(language: str, source: str, expected: list[tuple[str, str, str]]) -> None:
    """An import has its module, name and alias, and defines nothing."""
    extracted = read(language, source)
    assert [(statement.module, statement.name, statement.alias) for statement in extracted.imports] == expected
    assert names(extracted) == []


USES: dict[str, tuple[str, str, str, dict[str, list[tuple[str, bool]]]]] = {
    "the first `this.x = …` defines a field, unless the class declares it or has a method of that name": (
        "javascript",
        "class A {\n  y = 1;\n  constructor() {\n    this.x = 1;\n    this.x = 2;\n    this.y = 3;\n    this.go = this.go.bind(this);\n  }\n  go() {}\n}\n",
        *("A A.y A.constructor A.x A.go", {"x": [("write", False)]}),
    ),
    "a type parameter is local to its class, and fields stay fields": (
        *("typescript", "export class Box<T> {\n  value: T;\n  get(): T { return this.value; }\n}\n"),
        *("Box Box.value Box.get", {"T": [("type", True), ("type", True)]}),
    ),
    "`struct queue *queue` uses the type, and binds the name": (
        *("c", "int push(struct queue *queue) { return queue->size; }\n"),
        *("push", {"queue": [("type", False), ("read", True)]}),
    ),
    "`Lock lock(mutex);` in a function is a local variable, not a prototype": (
        *("cpp", "void f() { Lock lock(mutex); lock.release(); }\n"),
        *("f", {"lock": [("write", True), ("read", True)]}),
    ),
    "in `class A(val x: Int, y: Int)` x is a member, and y is local to the head": (
        *("kotlin", "class A(val x: Int, y: Int) {\n    val z = y\n    fun f() = x\n}\n"),
        *("A A.x A.z A.f", {"x": [("read", False)], "y": [("read", True)]}),
    ),
    "`$this->total`, `self::$total` and the declaration have one name; a variable keeps its `$`": (
        "php",
        "<?php\nclass A { private static $total = 0; function f($total) { self::$total = $total; return $this->total; } }\n",
        *("A A.total A.f", {"total": [("write", False), ("read", False)], "$total": [("read", True)]}),
    ),
    "the first assignment of a shell variable is a definition, the others are writes": (
        *("bash", "a=1\na=2\nf() { local b=3; a=$b; }\n"),
        *("a f", {"a": [("write", False), ("write", False)]}),
    ),
}


@pytest.mark.parametrize(("language", "source", "defined", "used"), USES.values(), ids=USES)
def test_uses(language: str, source: str, defined: str, used: dict[str, list[tuple[str, bool]]]) -> None:
    """Each construct defines these names, and uses them so: local or not."""
    extracted = read(language, source)
    assert names(extracted) == defined.split()
    assert {name: uses(extracted, name) for name in used} == used


def test_variance_and_bare_call_signatures_do_not_break_a_file() -> None:
    """Syntax that the grammar does not know is blanked out, and positions stay the same."""
    extracted = read(
        "typescript",
        "export interface Box<in out T> {\n  value: T\n}\nexport const make: {\n  <A>(a: A): Box<A>\n  <A, B>(a: A, b: B): Box<A>\n} = dual()\nexport const after = 1\n",
    )
    assert extracted.broken == 0
    assert [(symbol.qualified_name, symbol.name_line) for symbol in extracted.symbols] == [
        ("Box", 1),
        ("Box.value", 2),
        ("make", 4),
        ("after", 8),
    ]


BROKEN = "def before(\n\ndef after():\n    pass\n"


def test_loading_a_language_takes_no_time_of_its_first_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file is repaired although compiling the query of its language took longer than a file may take."""
    real, late = time.thread_time, 0.0

    def load_slowly(name: str) -> Query | None:
        nonlocal late
        late += 60.0
        return load_query(name)

    monkeypatch.setattr(time, "thread_time", lambda: real() + late)
    monkeypatch.setattr("lorelog.code.extract.load_query", load_slowly)

    assert ("after" in names(read("python", BROKEN)), late) == (True, 60.0)


def test_rust_traits_are_bases() -> None:
    """`impl Trait for Type` makes the trait a base of the type."""
    extracted = read(
        "rust",
        "struct A<T>(T);\nimpl<T: X> fmt::Display for A<T> where T: Y { fn f(&self) {} }\nimpl A<u8> {}\nimpl Drop for A<u8> {}\n",
    )
    assert extracted.symbols[0].bases == ("fmt::Display", "Drop")
    assert names(extracted) == ["A", "A.f"]


def test_rust_calls_inside_macros_are_calls() -> None:
    """Calls in the arguments of a macro, which are only tokens, are found."""
    extracted = read("rust", "fn f() { assert_eq!(a.len(), B::make(c)); }\n")
    assert {(use.name, str(use.kind), use.receiver) for use in extracted.uses} >= {
        ("assert_eq", "call", ""),
        ("len", "call", "a"),
        ("make", "call", "B"),
        ("c", "read", ""),
    }


def test_comments_document_the_definition_below() -> None:
    """A comment above a blank line does not count, and only the first definition gets it."""
    extracted = read("go", "package p\n\n// Apart.\n\n// A is first.\n// It has two lines.\nvar A = 1\nvar B = 2\n")
    assert [symbol.docstring for symbol in extracted.symbols] == ["A is first.\nIt has two lines.", ""]
