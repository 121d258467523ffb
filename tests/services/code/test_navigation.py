"""Definitions, references, callers, imports and outlines are found, and questions in words are answered; imports are matched with files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.services.code.trees import Tree

from lorelog.core.code import SymbolKind
from lorelog.core.errors import NotFound
from lorelog.services.code import CodeScope
from lorelog.services.code.navigation import CodeNavigator, CodeQueryOptions, SymbolQuery, parse_name
from lorelog.services.code.receiver_types import (
    parameter_types,
    return_type,
    type_names,
    value_origin,
    variable_annotation,
)
from lorelog.services.code.view import is_module_file
from lorelog.services.places.workspace import Project, Workspace

CHAIN = {
    "app/__init__.py": "",
    "app/core.py": (
        'def parse(text):\n    """Read a text.\n\n    All of it."""\n    return text\n\n\n'
        "def load(path):\n    return parse(path)\n"
    ),
    "app/main.py": (
        "from app.core import load\n\n\n"
        "class App:\n    def start(self):\n        return load('x')\n\n\n"
        "def main():\n    App().start()\n    loop()\n\n\n"
        "def loop():\n    main()\n\n\n"
        "load('at the top')\n"
    ),
    "tests/test_core.py": "from app.core import parse\n\n\ndef test_parse():\n    assert parse('a') == 'a'\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, CHAIN)


def test_the_nearest_definition_comes_first(tmp_path: Path) -> None:
    """All definitions of a name are returned: same file first, then the folder, then the rest, tests last."""
    same = "def run():\n    pass\n"
    paths = ["tests/test_run.py", "z/deep/run.py", "a/b.py", "a/c.py", "b/d.py"]
    tree = Tree(tmp_path, dict.fromkeys(paths, same))
    scope = CodeScope(
        tree.tables, Workspace(Project(str(tree.root), str(tree.root), "w", git=True), tree.root, "default")
    )

    def order(near: str) -> list[str]:
        reply = CodeNavigator(scope, str(tree.root / near) if near else str(tree.root)).find_definition(
            SymbolQuery("run")
        )
        return [definition.path for definition in reply.definitions]

    assert order("a/c.py")[:2] == ["a/c.py", "a/b.py"]
    assert order("z/deep")[0] == "z/deep/run.py"
    assert order("")[-1] == "tests/test_run.py"


def test_one_of_several_definitions_is_selected(tmp_path: Path) -> None:
    """A definition is selected by its container or module, by file, by line and by kind."""
    source = "class A:\n    def go(self):\n        pass\n\nclass B:\n    def go(self):\n        pass\n\ngo = 1\n"
    tree = Tree(tmp_path, {"pkg/one.py": source, "pkg/two.py": "def go():\n    pass\n"})

    assert tree.defined("A.go") == ["pkg/one.py:2"]
    assert tree.defined("pkg.one.B.go") == ["pkg/one.py:6"]
    assert tree.defined("two.go") == ["pkg/two.py:1"]
    assert tree.defined("go", "pkg/one.py", 7) == ["pkg/one.py:6"]
    assert len(tree.defined("go", "pkg")) == 4
    assert [
        definition.name_line
        for definition in tree.navigator.find_definition(SymbolQuery("go", kind=SymbolKind.VARIABLE)).definitions
    ] == [9]


def test_an_inherited_member_is_found_where_it_is_defined(tmp_path: Path) -> None:
    """`Sub.go` is `Base.go` if only the base defines it."""
    tree = Tree(tmp_path, {"a.py": "class Base:\n    def go(self): ...\n\nclass Sub(Base):\n    pass\n"})

    assert tree.defined("Sub.go") == ["a.py:2"]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("parse", ("parse", "")),
        ("Engine.search", ("search", "Engine")),
        ("std::vector::size", ("size", "std.vector")),
        ("Array#map", ("map", "Array")),
        ("p->next", ("next", "p")),
        ("`parse()`", ("parse()", "")),
        ("parse()", ("parse", "")),
    ],
)
def test_qualified_names_are_split(text: str, parsed: tuple[str, str]) -> None:
    """Dots, colons, arrows and hashes separate a name from its container."""
    assert parse_name(text) == parsed or parse_name(text) == (parsed[0].removesuffix("()"), parsed[1])


def test_an_unknown_name_suggests_similar_names(tree: Tree) -> None:
    """An unknown name is not an error; a note suggests similar names."""
    reply = tree.navigator.find_definition(SymbolQuery("prse"))

    assert reply.definitions == ()
    assert "prse is not defined in this code; did you mean parse?" in reply.notes[0]


def test_the_caller_encloses_the_call(tree: Tree) -> None:
    """The function, method or file around a call is its caller."""
    assert tree.callers("load") == ["App.start app/main.py:6 1", "main.py app/main.py:18 1"]
    assert tree.callers("parse") == ["load app/core.py:9 1", "test_parse tests/test_core.py:5 1"]


def test_callers_of_callers_are_found_and_cycles_end(tree: Tree) -> None:
    """Each caller is followed once, up to the given depth."""
    assert tree.callers("parse", 2) == [
        "load app/core.py:9 1",
        "test_parse tests/test_core.py:5 1",
        "App.start app/main.py:6 2",
        "main.py app/main.py:18 2",
    ]
    assert "main app/main.py:10 3" in tree.callers("parse", 3)
    assert tree.callers("main", 3) == ["loop app/main.py:15 1", "main app/main.py:11 2"]
    reply = tree.navigator.find_callers(SymbolQuery("parse"), CodeQueryOptions(), 3)
    assert {caller.depth: caller.callee for caller in reply.callers} == {1: "parse", 2: "load", 3: "App.start"}


def test_creating_an_object_calls_its_constructor(tmp_path: Path) -> None:
    """The callers of `__init__` are the callers of the class."""
    source = "class Box:\n    def __init__(self):\n        fill()\n\ndef fill(): ...\n\ndef pack():\n    return Box()\n"
    tree = Tree(tmp_path, {"a.py": source})

    assert tree.callers("Box.__init__") == ["pack a.py:8 1"]
    assert tree.callers("fill", 2) == ["Box.__init__ a.py:3 1", "pack a.py:8 2"]


def test_a_limit_keeps_the_total(tree: Tree) -> None:
    """A limit shortens the list of results; the total counts all."""
    reply = tree.navigator.find_callers(SymbolQuery("parse"), CodeQueryOptions(limit=1), 2)

    assert (len(reply.callers), reply.total) == (1, 4)


def test_uses_are_filtered_by_folder(tree: Tree) -> None:
    """Uses outside of the folder are left out."""
    reply = tree.navigator.find_references(SymbolQuery("parse"), CodeQueryOptions(below=str(tree.root / "tests")))

    assert {reference.path for reference in reply.references} == {"tests/test_core.py"}


def test_a_file_that_changed_is_noted(tree: Tree) -> None:
    """A line that no longer has the name is not shown, and a note says what to do."""
    (tree.root / "app/main.py").write_text("# all gone\n", "utf-8")

    reply = tree.references("load")

    assert {reference.text for reference in reply.references if reference.path == "app/main.py"} == {""}
    assert any("app/main.py changed since the last index run" in note for note in reply.notes)


def test_importers_are_found_by_any_name_of_a_module(tmp_path: Path) -> None:
    """Packages, submodules, relative imports, file paths and imported names all find their importers."""
    tree = Tree(
        tmp_path,
        {
            "src/app/__init__.py": "",
            "src/app/core.py": "import requests.adapters\n\nclass Engine: ...\n",
            "src/app/a.py": "from .core import Engine\nimport requests as rq\n",
            "src/app/b.py": "from app import core\n",
            "src/app/c.py": "from . import core as k\n",
            "src/app/d.py": "from app.core import *\nimport other.core_of\n",
        },
    )

    def importers(module: str) -> list[str]:
        reply = tree.navigator.find_imports(module, CodeQueryOptions())
        return [f"{site.path.removeprefix('src/app/')}:{site.import_line}" for site in reply.imports]

    assert importers("requests") == ["a.py:2", "core.py:1"]
    assert sorted(importers("app.core")) == ["a.py:1", "b.py:1", "c.py:1", "d.py:1"]
    assert sorted(importers("src/app/core.py")) == ["a.py:1", "b.py:1", "c.py:1", "d.py:1"]
    assert importers("Engine") == ["a.py:1"]
    assert importers("nothing") == []
    (renamed,) = [site for site in tree.navigator.find_imports("requests", CodeQueryOptions()).imports if site.alias]
    assert (renamed.module, renamed.alias, renamed.text) == ("requests", "rq", "import requests as rq")


def test_an_outline_lists_a_file_or_a_folder(tree: Tree) -> None:
    """An outline lists all symbols of a file, and the top-level symbols of each file in a folder."""
    (file,) = tree.navigator.outline(str(tree.root / "app/main.py"), None).files
    assert [f"{symbol.container}.{symbol.name}".lstrip(".") for symbol in file.symbols] == [
        "App",
        "App.start",
        "main",
        "loop",
    ]

    folder = tree.navigator.outline(str(tree.root / "app"), None)
    assert [(outline.path, len(outline.symbols)) for outline in folder.files] == [
        ("app/__init__.py", 0),
        ("app/core.py", 2),
        ("app/main.py", 3),
    ]
    with pytest.raises(NotFound):
        tree.navigator.outline(str(tree.root / "nowhere"), None)


def test_a_tree_that_is_not_indexed_is_noted(tree: Tree, tmp_path: Path) -> None:
    """Without an index a note says how to make one; another worktree of the same project answers instead."""
    other = tmp_path / "other"
    stranger = Workspace(Project(str(other), str(other), "o", git=True), other, "default")
    reply = CodeNavigator(CodeScope(tree.tables, stranger)).find_definition(SymbolQuery("parse"))
    assert (reply.definitions, reply.total) == ((), 0)
    assert "lorelog code index" in reply.notes[0]

    linked = replace(stranger, project=Project(str(tree.root), str(other), "o", git=True))
    reply = CodeNavigator(CodeScope(tree.tables, linked)).find_definition(SymbolQuery("parse"))
    assert len(reply.definitions) == 1
    assert "this working tree is not indexed" in reply.notes[0]

    everywhere = CodeNavigator(CodeScope(tree.tables, stranger, all_projects=True)).find_definition(
        SymbolQuery("parse")
    )
    assert len(everywhere.definitions) == 1


FILES = {
    "src/app/__init__.py",
    "src/app/core.py",
    "src/app/sub/__init__.py",
    "src/app/sub/core.py",
    "tools/run.py",
    "tools/core.py",
}


@pytest.mark.parametrize(
    ("language", "importer", "module", "file", "matches"),
    [
        ("python", "src/app/main.py", "app.core", "src/app/core.py", True),
        ("python", "src/app/main.py", "app", "src/app/__init__.py", True),
        ("python", "src/app/main.py", ".core", "src/app/core.py", True),
        ("python", "src/app/__init__.py", ".core", "src/app/core.py", True),
        ("python", "src/app/__init__.py", ".", "src/app/__init__.py", True),
        ("python", "src/app/sub/a.py", "..core", "src/app/core.py", True),
        ("python", "src/app/sub/a.py", ".core", "src/app/sub/core.py", True),
        ("python", "tests/test_a.py", "app.sub.core", "src/app/sub/core.py", True),
        ("python", "tools/run.py", "core", "tools/core.py", True),
        ("python", "src/app/main.py", "core", "src/app/sub/core.py", False),
        ("python", "tests/test_a.py", "core", "src/app/core.py", False),
        ("python", "src/app/sub/a.py", ".core", "src/app/core.py", False),
        ("python", "src/app/main.py", "app.cor", "src/app/core.py", False),
        ("python", "a.py", "...core", "src/app/core.py", False),
        ("typescript", "src/a.ts", "./b", "src/b.ts", True),
        ("typescript", "src/a.ts", "./b.js", "src/b.ts", True),
        ("typescript", "src/a.ts", "./lib", "src/lib/index.tsx", True),
        ("typescript", "src/x/a.ts", "../b", "src/b.ts", True),
        ("typescript", "src/x/a.ts", "./b", "src/b.ts", False),
        ("typescript", "src/a.ts", "@/lib/b", "src/lib/b.ts", True),
        ("javascript", "a.js", "react", "src/react.js", False),
        ("go", "cmd/main.go", "example.com/x/pkg/tool", "pkg/tool/a.go", True),
        ("go", "cmd/main.go", "example.com/x/pkg/tool", "pkg/other/a.go", False),
        ("java", "A.java", "com.foo.Bar", "src/main/java/com/foo/Bar.java", True),
        ("java", "A.java", "com.foo", "src/main/java/com/foo/Bar.java", True),
        ("rust", "src/main.rs", "crate::net::tcp", "src/net/tcp.rs", True),
        ("rust", "src/main.rs", "crate::net", "src/net/mod.rs", True),
        ("c", "src/a.c", "net/util.h", "include/net/util.h", True),
        ("c", "src/a.c", "util.h", "include/net/tool.h", False),
        ("ruby", "a.rb", "lib/net", "lib/net.rb", True),
    ],
)
def test_imports_are_matched_with_files(language: str, importer: str, module: str, file: str, *, matches: bool) -> None:
    """A Python module is found from a folder that is not a package, relative to its importer, or beside a script.

    In other languages relative paths are resolved, folders match their index file, and the end of a path decides.
    """
    assert is_module_file(importer, module, file, language, FILES.__contains__) is matches


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        ("Foo", ("Foo",)),
        ("'Foo'", ("Foo",)),
        ("Optional['pkg.Foo']", ("pkg.Foo",)),
        ("Foo | Bar | None", ("Foo", "Bar")),
        ("Union[Foo, str]", ("Foo", "str")),
        ("list[Foo]", ("list",)),
        ("Annotated[Foo, 3]", ("Foo",)),
        ("type[Foo]", ("Foo",)),
        ("ns::Foo<int>", ("ns.Foo",)),
        ("*Foo", ("Foo",)),
        ("None", ()),
        ("", ()),
        ("[1]", ()),
    ],
)
def test_types_are_split_into_names(annotation: str, names: tuple[str, ...]) -> None:
    """Wrappers that do not change the members are removed: Optional, None in a union, references."""
    assert type_names(annotation) == names


def test_variables_have_an_annotation_and_an_origin() -> None:
    """A variable has an annotation, a value, or both; a value is a call, a name, or neither."""
    assert variable_annotation("x: Foo = make()", "x") == ("Foo", "make()")
    assert variable_annotation("self.x = Foo(a, b=1)", "x") == ("", "Foo(a, b=1)")
    assert variable_annotation("x: dict[str, int]", "x") == ("dict[str, int]", "")
    assert variable_annotation("x = a == b", "x") == ("", "a == b")
    assert variable_annotation("self.w, self.x = one, two", "x") == ("", "two")
    assert value_origin("Foo(a, b=(1, 2))") == ("call", "Foo")
    assert value_origin("await pkg.make(") == ("call", "pkg.make")  # truncated
    assert value_origin("self.x") == ("name", "self.x")
    assert value_origin("Foo().bar()") == ("", "")
    assert value_origin("a + b") == ("", "")
    assert value_origin("[1, 2]") == ("", "")


@given(st.text(alphabet="abFoo[](){}<>,:=|&*'\"-. ", max_size=80))
def test_any_text_is_accepted(text: str) -> None:
    """Signatures may be truncated anywhere."""
    parameter_types(text)
    return_type(text)
    type_names(text)
    value_origin(text)
    assert len(variable_annotation(text, "Foo")) == 2


def test_callees_are_what_a_symbol_calls_and_what_these_call(tree: Tree) -> None:
    """Callees are found by the rules that find callers; a property and a function passed on are called too."""
    reply = tree.navigator.find_callers(tree.query("main"), CodeQueryOptions(), depth=2, callees=True)
    assert [found.name for found in reply.definitions] == ["App", "start", "loop", "load"]
    assert [(call.callee, call.call_line, call.depth) for call in reply.callers][:2] == [
        ("App", 10, 1),
        ("App.start", 10, 1),
    ]


def test_implementors_of_a_class_or_a_member_are_found_below_it(tmp_path: Path) -> None:
    """Subclasses are found through re-exports, Go types by their methods, Rust items by their trait wherever their type is."""
    tree = Tree(
        tmp_path,
        {
            "pkg/__init__.py": "from pkg.base import Base\n",
            "pkg/base.py": "class Base:\n    def run(self): ...\n",
            "use.py": "from pkg import Base as Root\n\nclass Mid(Root):\n    pass\n\nclass Low(Mid):\n    def run(self): ...\n\nclass Other:\n    def run(self): ...\n",
            "go/a.go": "package a\ntype Writer interface {\n\tWrite() error\n\tClose()\n}\ntype Half struct{}\nfunc (h Half) Write() error { return nil }\n",
            "go/b.go": "package a\ntype Whole struct{ Half }\nfunc (w *Whole) Close() {}\n",
            "src/shape.rs": "pub trait Shape { fn area(&self) -> f64; }\nimpl Shape for u16 { fn area(&self) -> f64 { 0.0 } }\n",
        },
    )

    def below(name: str) -> list[str]:
        reply = tree.navigator.find_definition(tree.query(name), implementors=True)
        return [".".join(filter(None, (found.container, found.name))) for found in reply.definitions]

    assert below("Base") == ["Mid", "Low"]
    assert below("Base.run") == ["Low.run"]
    assert below("Writer") == ["Whole"]
    assert below("Writer.Close") == ["Whole.Close"]
    assert below("Shape.area") == ["u16.area"]


def test_an_outline_of_unused_symbols_leaves_out_what_any_use_may_mean(tmp_path: Path) -> None:
    """A symbol that is only imported is unused; one that a use of its name may mean is not."""
    tree = Tree(
        tmp_path,
        {
            **CHAIN,
            "app/dead.py": "from app.core import load\n\n\ndef gone():\n    gone()\n\n\nclass App:\n    def start(self): ...\n",
        },
    )
    outline = tree.navigator.outline(str(tree.root), depth=2, unused=True)
    assert {file.path: [symbol.name for symbol in file.symbols] for file in outline.files} == {
        "app/dead.py": ["gone", "App", "start"],
        "tests/test_core.py": ["test_parse"],
    }
