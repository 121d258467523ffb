"""What a Python file defines, uses and imports, by Python's own rules."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

import lorelog
from lorelog.code.extract import extract
from lorelog.core.code import Extract, Import, Symbol, Use


def read(source: str) -> Extract:
    return extract(textwrap.dedent(source).encode(), "python")


def named(said: Extract, qualified: str) -> Symbol:
    found = [symbol for symbol in said.symbols if symbol.qualified == qualified]
    assert len(found) == 1, [symbol.qualified for symbol in said.symbols]
    return found[0]


def kinds(said: Extract) -> dict[str, str]:
    return {symbol.qualified: symbol.kind.value for symbol in said.symbols}


def uses(said: Extract, name: str) -> list[Use]:
    return [use for use in said.uses if use.name == name]


def test_definitions_know_their_kind_and_container() -> None:
    """Functions, methods, classes, enums, protocols, types, constants, variables and attributes are told apart."""
    said = read("""
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
    assert kinds(said) == {
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


def test_a_definition_is_told_exactly() -> None:
    """Span with decorators, place of the name, head on one line, docstring, bases."""
    said = read('''
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
    load, store = said.symbols
    assert load.span == (2, 1, 13, 15)
    assert (load.name_line, load.name_column) == (4, 11)
    assert load.signature == "async def load(path: str, *, size: int = 3) -> bytes"
    assert load.docstring == "Read it.\n\nAt once.\n    Indented."
    assert store.signature == "class Store(Base[int], mod.Other, metaclass=Meta)"
    assert store.docstring == "Keeps."
    assert store.bases == ("Base", "mod.Other")


def test_a_string_below_an_assignment_documents_it() -> None:
    """Fields are documented as in this house."""
    said = read('''
        class A:
            size: int = 0
            """How large."""
            def __init__(self):
                self.depth = 1
                """How deep."""
    ''')
    assert named(said, "A.size").docstring == "How large."
    assert named(said, "A.depth").docstring == "How deep."


def test_every_overload_and_branch_is_a_definition() -> None:
    """Overloads, property setters, and alternatives of if and try are all there; later assignments are writes."""
    said = read("""
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
    names = [symbol.name for symbol in said.symbols]
    assert names == ["f", "f", "f", "SEP", "g", "SEP", "g", "json", "count"]
    assert [(use.line, use.kind) for use in uses(said, "count")] == [
        (18, "write"),
        (19, "read"),
        (20, "write"),
        (21, "write"),
    ]


def test_attributes_of_an_instance_belong_to_its_class() -> None:
    """The first assignment to self.x defines it, unless the class body does; in nested functions too, not in static ones."""
    said = read("""
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
    assert [name for name, kind in kinds(said).items() if kind == "variable"] == [
        "A.x",
        "A.y",
        "A.z",
        "A.deep",
        "A.shared",
    ]
    assert [(use.line, use.receiver) for use in uses(said, "x")] == [(5, "this")]
    assert [(use.line, use.receiver, use.kind) for use in uses(said, "y") if use.receiver] == [(9, "this", "write")]
    assert [use.receiver for use in uses(said, "no")] == ["self"]


def test_names_of_a_function_are_local() -> None:
    """Parameters, variables, comprehensions, lambdas, with, except, for and patterns bind; a later binding counts too."""
    said = read("""
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
    local = {use.name for use in said.uses if use.local}
    assert local == set("abcdhijeknopqstuvw") | {"early", "g", "m"}
    foreign = {use.name for use in said.uses if not use.local and not use.receiver}
    assert foreign == {"total", "print", "open", "E", "r", "x", "Point", "Colour", "m"}


def test_definitions_and_imports_inside_functions_are_not_local() -> None:
    """A nested function is a symbol, and an import is another file's: both are looked for."""
    said = read("""
        def outer():
            from other import taken
            import os.path
            def inner(): ...
            inner(taken, os)
    """)
    assert [use.local for name in ("inner", "taken", "os") for use in uses(said, name)] == [False] * 4


def test_global_and_nonlocal_say_whose_a_name_is() -> None:
    """A global's write is a module's; one that only functions assign is defined there."""
    said = read("""
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
    assert kinds(said) == {"known": "variable", "f": "function", "fresh": "variable", "f.g": "function"}
    assert [use.local for use in uses(said, "known")] == [False, False]
    assert [use.local for use in uses(said, "state")] == [True, True]


def test_a_class_does_not_lend_its_names_to_methods() -> None:
    """A method sees what is around the class, not in it."""
    said = read("""
        def f():
            a = 1
            class C:
                a = 2
                b = a
                def m(self): return a
    """)
    assert [(use.line, use.local) for use in uses(said, "a")] == [(3, True), (6, False), (7, True)]


def test_what_is_done_with_a_name_is_told() -> None:
    """Calls, reads, writes and types differ; what stands before the dot is told; keyword arguments are no uses."""
    said = read("""
        class A(Base):
            field: "Optional[other.Thing]" = None
            def m(self, p: List[Literal["no"]]) -> Annotated[R, meta("x")]:
                self.a.b(key=value).c = f"{shown!r:>{width}}"
                super().m(os.path)[i].d()
                del gone.e
    """)
    seen = [(use.name, use.kind.value, use.receiver) for use in said.uses]
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


def test_what_a_grammar_reads_wrongly_is_read_rightly() -> None:
    """`*f()` in a set calls f, and a line that begins with type(x) assigns to what it gives."""
    said = read("""
        made = {*f(a)}
        type(made).size = g()
    """)
    seen = [(use.name, use.kind.value) for use in said.uses]
    assert seen == [("f", "call"), ("a", "read"), ("type", "call"), ("made", "read"), ("size", "write"), ("g", "call")]


def test_a_use_knows_the_definition_around_it() -> None:
    """Decorators and defaults count to what they are part of, a lambda to the function around it."""
    said = read("""
        top()
        @decorate
        def f(a=default()):
            (lambda: inner())()
            class C:
                x = made()
    """)
    around = {use.name: said.symbols[use.enclosing].qualified if use.enclosing >= 0 else "" for use in said.uses}
    assert around == {"top": "", "decorate": "f", "default": "f", "inner": "f", "made": "f.C"}


def test_imports_are_as_they_are_written() -> None:
    """Modules, names, aliases, dots and stars; a name that is imported is a use of it, too."""
    said = read("""
        import os.path as p, sys
        from ..core.code import (Symbol as S, Use)
        from . import here
        from all import *
        from __future__ import annotations
    """)
    assert said.imports == (
        Import("os.path", "", "p", 2, 8),
        Import("sys", "", "", 2, 22),
        Import("..core.code", "Symbol", "S", 3, 26),
        Import("..core.code", "Use", "", 3, 39),
        Import(".", "here", "", 4, 15),
        Import("all", "*", "", 5, 17),
        Import("__future__", "annotations", "", 6, 24),
    )
    assert [(use.name, use.receiver) for use in said.uses if use.kind == "import"] == [
        ("Symbol", "..core.code"),
        ("Use", "..core.code"),
        ("here", "."),
        ("annotations", "__future__"),
    ]


def test_visibility_follows_underscores_and_all() -> None:
    """One underscore hides from other modules, in a class from all but subclasses; `__all__` says otherwise."""
    said = read("""
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
    assert {symbol.name: symbol.visibility for symbol in said.symbols} == {
        "__all__": "public",
        "_shown": "public",
        "_too": "public",
        "_hidden": "private",
        "A": "public",
        "_protected": "protected",
        "__private": "private",
        "__init__": "public",
    }


def test_type_parameters_belong_to_what_declares_them() -> None:
    """The type parameters of Python 3.12 are nobody else's names."""
    said = read("""
        type Pair[A] = tuple[A, A]
        def first[B: Base](a: list[B]) -> B: ...
        class Box[C]:
            value: C
    """)
    assert kinds(said) == {"Pair": "type", "first": "function", "Box": "class", "Box.value": "variable"}
    assert {use.name for use in said.uses if use.local} == {"A", "B", "C"}
    assert [use.kind for use in uses(said, "Base")] == ["type"]


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
def test_a_digest_is_what_a_definition_does(after: str, is_same: bool) -> None:  # noqa: FBT001 - a column of the table
    """Its own name, comments, documentation and layout do not count; statements, indentation and parameters do."""
    before, changed = (extract(source.encode(), "python").symbols[0].digest for source in (BEFORE, after))
    assert (before == changed) is is_same


def test_an_open_bracket_costs_one_definition() -> None:
    """While somebody types, everything but what is being typed stays known, inside a class too."""
    said = read("""
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
    assert said.broken == 6
    assert {"A", "A.x", "A.after", "LIMIT", "last"} <= set(kinds(said))
    assert kinds(said)["A.after"] == "method"
    assert [said.symbols[use.enclosing].qualified for use in uses(said, "A")] == ["last"]
    assert [(one.module, one.line) for one in said.imports] == [("os", 2)]


def test_a_statement_that_is_wrong_costs_itself() -> None:
    """What stands around it is read as if it were right."""
    said = read("""
        def f():
            x = = 3
            return g()
        def g(): ...
    """)
    assert [symbol.name for symbol in said.symbols] == ["f", "g"]
    assert [(use.name, use.enclosing) for use in said.uses if use.kind == "call"] == [("g", 0)]


def definitions(tree: ast.AST, container: str = "") -> list[tuple[str, str, int]]:
    """Return what Python itself says that a file defines."""
    found = []
    for node in ast.iter_child_nodes(tree):
        inner = container
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append((container, node.name, node.lineno))
            inner = f"{container}.{node.name}" if container else node.name
        found += definitions(node, inner)
    return found


def calls(tree: ast.AST) -> list[tuple[int, int, str]]:
    """Return what Python itself says that a file calls by name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.append((node.func.lineno, node.func.col_offset + 1, node.func.id))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            end = (node.func.end_col_offset or 0) - len(node.func.attr)
            found.append((node.func.end_lineno or 0, end + 1, node.func.attr))
    return sorted(found)


def test_our_own_code_is_read_as_python_reads_it() -> None:
    """Every function, class and call of this package is found where Python finds it, and nothing else is."""
    for path in sorted(Path(lorelog.__file__).parent.rglob("*.py")):
        data = path.read_bytes()
        if not data.isascii():
            continue  # Python counts bytes, we count characters
        tree, said = ast.parse(data), extract(data, "python")
        mine = [
            (symbol.container, symbol.name, symbol.name_line)
            for symbol in said.symbols
            if symbol.kind in ("function", "method", "class", "interface", "enum")
        ]
        assert sorted(mine) == sorted(definitions(tree)), path
        assert [(use.line, use.column, use.name) for use in said.uses if use.kind == "call"] == calls(tree), path
        assert said.broken == 0, path
