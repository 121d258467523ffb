"""Definitions, uses and imports of Python files follow Python's rules."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

import lorelog
from lorelog.code.extract import extract
from lorelog.core.code import FileExtract, ImportStatement, NameUse, Symbol


def read(source: str) -> FileExtract:
    return extract(textwrap.dedent(source).encode(), "python")


def named(extracted: FileExtract, qualified: str) -> Symbol:
    matches = [symbol for symbol in extracted.symbols if symbol.qualified_name == qualified]
    assert len(matches) == 1, [symbol.qualified_name for symbol in extracted.symbols]
    return matches[0]


def kinds(extracted: FileExtract) -> dict[str, str]:
    return {symbol.qualified_name: symbol.kind.value for symbol in extracted.symbols}


def uses(extracted: FileExtract, name: str) -> list[NameUse]:
    return [use for use in extracted.uses if use.name == name]


def test_definitions_know_their_kind_and_container() -> None:
    """Functions, methods, classes, enums, protocols, types, constants, variables and attributes have their kind."""
    extracted = read("""
        from enum import Enum
        LIMIT = 3
        name = "a"
        Vector: TypeAlias = list[int]
        T = TypeVar("T")
        class Colour(Enum):
            red = 1
        class Reads(Protocol):
            def read(self) -> str: ...
        class Outer:
            field: int = 0
            class Inner:
                def method(self):
                    def helper(): ...
                    self.made = helper()
        async def run(): ...
    """)
    assert kinds(extracted) == {
        "LIMIT": "constant",
        "name": "variable",
        "Vector": "type",
        "T": "type",
        "Colour": "enum",
        "Colour.red": "constant",
        "Reads": "interface",
        "Reads.read": "method",
        "Outer": "class",
        "Outer.field": "variable",
        "Outer.Inner": "class",
        "Outer.Inner.method": "method",
        "Outer.Inner.method.helper": "function",
        "Outer.Inner.made": "variable",
        "run": "function",
    }


def test_a_definition_has_its_details() -> None:
    """A definition has its span with decorators, position, signature on one line, docstring and bases."""
    extracted = read('''
        @cached
        @route("/x")
        async def load(
            path: str,  # where
            *, size: int = 3,
        ) -> bytes:
            """Read it.

            At once.
                Indented.
            """
            return b""
        class Store(Base[int], mod.Other, metaclass=Meta):
            "Keeps."
    ''')
    load, store = extracted.symbols
    assert load.span == (2, 1, 13, 15)
    assert (load.name_line, load.name_column) == (4, 11)
    assert load.signature == "async def load(path: str, *, size: int = 3) -> bytes"
    assert load.docstring == "Read it.\n\nAt once.\n    Indented."
    assert store.signature == "class Store(Base[int], mod.Other, metaclass=Meta)"
    assert store.docstring == "Keeps."
    assert store.bases == ("Base", "mod.Other")


def test_a_string_below_an_assignment_documents_it() -> None:
    """A string below an assignment is its docstring."""
    extracted = read('''
        class A:
            size: int = 0
            """How large."""
            def __init__(self):
                self.depth = 1
                """How deep."""
    ''')
    assert named(extracted, "A.size").docstring == "How large."
    assert named(extracted, "A.depth").docstring == "How deep."


def test_every_overload_and_branch_is_a_definition() -> None:
    """Overloads, property setters, and branches of if and try are definitions; later assignments are writes."""
    extracted = read("""
        @overload
        def f(a: int) -> int: ...
        @overload
        def f(a: str) -> str: ...
        def f(a): return a
        if WINDOWS:
            SEP = "a"
            def g(): ...
        else:
            SEP = "b"
            def g(): ...
        try:
            import json
        except ImportError:
            json = None
        count = 0
        count = 1
        if count:
            count = 2
        count += 3
    """)
    names = [symbol.name for symbol in extracted.symbols]
    assert names == ["f", "f", "f", "SEP", "g", "SEP", "g", "json", "count"]
    assert [(use.line, use.kind) for use in uses(extracted, "count")] == [
        (18, "write"),
        (19, "read"),
        (20, "write"),
        (21, "write"),
    ]


def test_instance_attributes_belong_to_the_class() -> None:
    """The first assignment to self.x defines it unless the class body does, but not in static methods."""
    extracted = read("""
        class A:
            x: int
            def __init__(this, y):
                this.x = 1
                this.y, (this.z, other.w) = y
                def later():
                    this.deep = 2
                this.y = 3
            @staticmethod
            def make(self):
                self.no = 1
            @classmethod
            def build(cls):
                cls.shared = 1
    """)
    assert [name for name, kind in kinds(extracted).items() if kind == "variable"] == [
        "A.x",
        "A.y",
        "A.z",
        "A.deep",
        "A.shared",
    ]
    assert [(use.line, use.receiver) for use in uses(extracted, "x")] == [(5, "this")]
    assert [(use.line, use.receiver, use.kind) for use in uses(extracted, "y") if use.receiver] == [
        (9, "this", "write")
    ]
    assert [use.receiver for use in uses(extracted, "no")] == ["self"]


def test_names_of_a_function_are_local() -> None:
    """Parameters, variables, comprehensions, lambdas, with, except, for and patterns bind names, also later ones."""
    extracted = read("""
        total = 0
        def f(a, *b, c=total, **d):
            print(early, a, b, c, d)
            early = total
            with open(a) as h, x as (i, j): h, i, j
            try: ...
            except E as e: e
            for k in b: k
            g = [m for m in early if (n := m)]
            o = lambda p, q=r: p + q + r
            match a:
                case Point(x=s, y=[t, *u]) | {"k": v, **w}: s, t, u, v, w
                case Colour.RED: ...
            return n, m
    """)
    local = {use.name for use in extracted.uses if use.local}
    assert local == set("abcdhijeknopqstuvw") | {"early", "g", "m"}
    foreign = {use.name for use in extracted.uses if not use.local and not use.receiver}
    assert foreign == {"total", "print", "open", "E", "r", "x", "Point", "Colour", "m"}


def test_definitions_and_imports_inside_functions_are_not_local() -> None:
    """A nested function is a symbol, and an import a name of another file: neither is local."""
    extracted = read("""
        def outer():
            from other import taken
            import os.path
            def inner(): ...
            inner(taken, os)
    """)
    assert [use.local for name in ("inner", "taken", "os") for use in uses(extracted, name)] == [False] * 4


def test_global_and_nonlocal_change_the_scope() -> None:
    """A write to a global belongs to the module; a global that only functions assign is defined there."""
    extracted = read("""
        known = 1
        def f():
            global known, fresh
            known = 2
            fresh = 3
            state = 4
            def g():
                nonlocal state
                state = known
    """)
    assert kinds(extracted) == {"known": "variable", "f": "function", "fresh": "variable", "f.g": "function"}
    assert [use.local for use in uses(extracted, "known")] == [False, False]
    assert [use.local for use in uses(extracted, "state")] == [True, True]


def test_uses_have_a_kind_and_a_receiver() -> None:
    """Calls, reads, writes and types are distinguished; the receiver is stored; keyword arguments are not uses."""
    extracted = read("""
        class A(Base):
            field: "Optional[other.Thing]" = None
            def m(self, p: List[Literal["no"]]) -> Annotated[R, meta("x")]:
                self.a.b(key=value).c = f"{shown!r:>{width}}"
                super().m(os.path)[i].d()
                del gone.e
    """)
    seen = [(use.name, use.kind.value, use.receiver) for use in extracted.uses]
    assert seen == [
        ("Base", "type", ""),
        ("Optional", "type", ""),
        ("other", "read", ""),
        ("Thing", "type", "other"),
        ("List", "type", ""),
        ("Literal", "type", ""),
        ("Annotated", "type", ""),
        ("R", "type", ""),
        ("meta", "call", ""),
        ("self", "read", ""),
        ("a", "read", "self"),
        ("b", "call", "self.a"),
        ("value", "read", ""),
        ("c", "write", "?=self.a.b"),
        ("shown", "read", ""),
        ("width", "read", ""),
        ("super", "call", ""),
        ("m", "call", "super"),
        ("os", "read", ""),
        ("path", "read", "os"),
        ("i", "read", ""),
        ("d", "call", "?"),
        ("gone", "read", ""),
        ("e", "write", "gone"),
    ]


def test_errors_of_the_grammar_are_corrected() -> None:
    """`*f()` in a set calls f, and `type(x).a = 1` is an assignment."""
    extracted = read("""
        made = {*f(a)}
        type(made).size = g()
    """)
    seen = [(use.name, use.kind.value) for use in extracted.uses]
    assert seen == [("f", "call"), ("a", "read"), ("type", "call"), ("made", "read"), ("size", "write"), ("g", "call")]


def test_a_use_has_its_enclosing_definition() -> None:
    """Decorators and defaults belong to their definition, a lambda to the enclosing function."""
    extracted = read("""
        top()
        @decorate
        def f(a=default()):
            (lambda: inner())()
            class C:
                x = made()
    """)
    around = {
        use.name: extracted.symbols[use.enclosing].qualified_name if use.enclosing >= 0 else ""
        for use in extracted.uses
    }
    assert around == {"top": "", "decorate": "f", "default": "f", "inner": "f", "made": "f.C"}


def test_imports_are_as_they_are_written() -> None:
    """Modules, names, aliases, dots and stars are kept as written; an imported name is also a use."""
    extracted = read("""
        import os.path as p, sys
        from ..core.code import (Symbol as S, Use)
        from . import here
        from all import *
        from __future__ import annotations
    """)
    assert extracted.imports == (
        ImportStatement("os.path", "", "p", 2, 8),
        ImportStatement("sys", "", "", 2, 22),
        ImportStatement("..core.code", "Symbol", "S", 3, 26),
        ImportStatement("..core.code", "Use", "", 3, 39),
        ImportStatement(".", "here", "", 4, 15),
        ImportStatement("all", "*", "", 5, 17),
        ImportStatement("__future__", "annotations", "", 6, 24),
    )
    assert [(use.name, use.receiver) for use in extracted.uses if use.kind == "import"] == [
        ("Symbol", "..core.code"),
        ("Use", "..core.code"),
        ("here", "."),
        ("annotations", "__future__"),
    ]


def test_visibility_follows_underscores_and_all() -> None:
    """One underscore makes a name private, and protected in a class; `__all__` overrides it."""
    extracted = read("""
        __all__ = ["_shown"]
        __all__ += ("_too",)
        def _shown(): ...
        def _too(): ...
        def _hidden(): ...
        class A:
            def _protected(self): ...
            def __private(self): ...
            def __init__(self): ...
    """)
    assert {symbol.name: symbol.visibility for symbol in extracted.symbols} == {
        "__all__": "public",
        "_shown": "public",
        "_too": "public",
        "_hidden": "private",
        "A": "public",
        "_protected": "protected",
        "__private": "private",
        "__init__": "public",
    }


def test_type_parameters_belong_to_their_definition() -> None:
    """Type parameters of Python 3.12 are local to their definition."""
    extracted = read("""
        type Pair[A] = tuple[A, A]
        def first[B: Base](a: list[B]) -> B: ...
        class Box[C]:
            value: C
    """)
    assert kinds(extracted) == {"Pair": "type", "first": "function", "Box": "class", "Box.value": "variable"}
    assert {use.name for use in extracted.uses if use.local} == {"A", "B", "C"}
    assert [use.kind for use in uses(extracted, "Base")] == ["type"]


BEFORE = '''
def total(items, rate):
    """Add up."""
    result = 0
    for item in items:  # all
        result += item
        rate(item)
    return total(result)
'''


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        (BEFORE.replace("total", "sum_up"), True),
        (BEFORE.replace("Add up.", "Something else."), True),
        (BEFORE.replace("  # all", ""), True),
        (BEFORE.replace("    ", "  ").replace("(items, rate)", "(\n  items,\n  rate)"), True),
        (BEFORE.replace("result = 0", "result = 1"), False),
        (BEFORE.replace("        rate(item)", "    rate(item)"), False),
        (BEFORE.replace("(items, rate)", "(items, rates)"), False),
    ],
)
def test_a_digest_covers_the_tokens_of_a_definition(after: str, is_same: bool) -> None:  # noqa: FBT001 - a column of the table
    """Its own name, comments, documentation and layout do not count; statements, indentation and parameters do."""
    before, changed = (extract(source.encode(), "python").symbols[0].digest for source in (BEFORE, after))
    assert (before == changed) is is_same


def test_an_open_bracket_costs_one_definition() -> None:
    """While a definition is being typed, all others stay, also inside of a class."""
    extracted = read("""
        import os
        class A(Base):
            x = 1
            def typing(self):
                self.y = call(
            @property
            def after(self):
                return self.typing(1)
        LIMIT = 3
        def half(a, b
            pass
        def last(a):
            return A(a)
    """)
    assert extracted.broken == 6
    assert {"A", "A.x", "A.after", "LIMIT", "last"} <= set(kinds(extracted))
    assert kinds(extracted)["A.after"] == "method"
    assert [extracted.symbols[use.enclosing].qualified_name for use in uses(extracted, "A")] == ["last"]
    assert [(statement.module, statement.line) for statement in extracted.imports] == [("os", 2)]


def definitions(tree: ast.AST, container: str = "") -> list[tuple[str, str, int]]:
    """Return the definitions by Python's own parser."""
    entries = []
    for node in ast.iter_child_nodes(tree):
        inner = container
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            entries.append((container, node.name, node.lineno))
            inner = f"{container}.{node.name}" if container else node.name
        entries += definitions(node, inner)
    return entries


def calls(tree: ast.AST) -> list[tuple[int, int, str]]:
    """Return the calls of names by Python's own parser."""
    entries = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            entries.append((node.func.lineno, node.func.col_offset + 1, node.func.id))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            end = (node.func.end_col_offset or 0) - len(node.func.attr)
            entries.append((node.func.end_lineno or 0, end + 1, node.func.attr))
    return sorted(entries)


@pytest.mark.slow
def test_our_own_code_is_read_like_python_does() -> None:
    """The functions, classes and calls of this package are exactly those that Python's parser finds."""
    for path in sorted(Path(lorelog.__file__).parent.rglob("*.py")):
        data = path.read_bytes()
        if not data.isascii():
            continue  # Python counts bytes, we count characters
        tree, extracted = ast.parse(data), extract(data, "python")
        mine = [
            (symbol.container, symbol.name, symbol.name_line)
            for symbol in extracted.symbols
            if symbol.kind in ("function", "method", "class", "interface", "enum")
        ]
        assert sorted(mine) == sorted(definitions(tree)), path
        assert [(use.line, use.column, use.name) for use in extracted.uses if use.kind == "call"] == calls(tree), path
        assert extracted.broken == 0, path


def receiver(body: str) -> str:
    """Return the receiver of `.end` in the body of a function."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return next(use.receiver for use in extract(f"def f(p):\n{lines}".encode(), "python").uses if use.name == "end")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = Foo(1)\nx.end()", "x=Foo"),
        ("x = await pkg.foo()\nx.a.end()", "x.a=pkg.foo"),
        ("x: Foo = y\nx.end", "x:Foo"),
        ("x = Foo()\nwith pkg.open() as x:\n    x.end()", "x"),
        ("Foo(1).end()", "?=Foo"),
        ("(await pkg.foo()).end()", "?=pkg.foo"),
        ("super().end()", "super"),
        ("p.end()", "p"),
        ("x[0].end()", "?"),
        ("x = Foo()\nx = x.end()", "x=Foo"),
        ("x = Foo()\nfor x in range(3):\n    x.end()", "x"),
        ("x = Foo()\nx = self.y\nx.end()", "x"),
        ("x = Foo()\nx = 1\nx.end()", "x"),
        ("x = Foo()\ndef g():\n    x.end()", "x=Foo"),
        ("x = Foo()\ndef g(x):\n    x.end()", "x"),
    ],
)
def test_a_receiver_has_the_last_hint(body: str, expected: str) -> None:
    """The last assignment or annotation above a use counts; parameters have no hint."""
    assert receiver(body) == expected
