"""Questions about code are answered: what is defined where, who calls what, who imports what, what a file holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.services.code.trees import Tree

from lorelog.core.code import SymbolKind
from lorelog.core.code_answers import CodeReply, CodeVerb
from lorelog.core.errors import NotFound
from lorelog.services.code.answering import MOST, answer_question
from lorelog.services.code.asking import Bounds, CodeAsker
from lorelog.services.code.finding import Wanted, read_name
from lorelog.services.code.sight import CodeSight
from lorelog.services.place import Place
from lorelog.services.scope import Project

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


def test_a_definition_says_all_that_is_known_of_it(tree: Tree) -> None:
    """Span, name, signature, documentation, kind and language come with it."""
    reply = tree.asker.find_definition(Wanted("parse"))

    (one,) = reply.definitions
    assert (one.spot.path, one.spot.line, one.spot.column) == ("app/core.py", 1, 5)
    assert one.spot.absolute == str(tree.root / "app/core.py")
    assert (one.symbol.span.start_line, one.symbol.span.end_line) == (1, 5)
    assert one.symbol.signature == "def parse(text)"
    assert one.symbol.docstring.startswith("Read a text.")
    assert (one.symbol.kind, one.spot.language, reply.total) == (SymbolKind.FUNCTION, "python", 1)


def test_the_nearest_definition_comes_first(tmp_path: Path) -> None:
    """All definitions of a name are given: that of one's own file, then the folder, then the rest, tests last."""
    same = "def run():\n    pass\n"
    paths = ["tests/test_run.py", "z/deep/run.py", "a/b.py", "a/c.py", "b/d.py"]
    tree = Tree(tmp_path, dict.fromkeys(paths, same))
    sight = CodeSight(tree.tables, Place(Project(str(tree.root), str(tree.root), "w", git=True), tree.root, "default"))

    def order(near: str) -> list[str]:
        found = CodeAsker(sight, str(tree.root / near) if near else str(tree.root)).find_definition(Wanted("run"))
        return [one.spot.path for one in found.definitions]

    assert order("a/c.py")[:2] == ["a/c.py", "a/b.py"]
    assert order("z/deep")[0] == "z/deep/run.py"
    assert order("")[-1] == "tests/test_run.py"


def test_one_of_several_is_picked(tmp_path: Path) -> None:
    """By what is around it, the module included, by file, by line and by kind."""
    source = "class A:\n    def go(self):\n        pass\n\nclass B:\n    def go(self):\n        pass\n\ngo = 1\n"
    tree = Tree(tmp_path, {"pkg/one.py": source, "pkg/two.py": "def go():\n    pass\n"})

    assert tree.defined("A.go") == ["pkg/one.py:2"]
    assert tree.defined("pkg.one.B.go") == ["pkg/one.py:6"]
    assert tree.defined("two.go") == ["pkg/two.py:1"]
    assert tree.defined("go", "pkg/one.py", 7) == ["pkg/one.py:6"]
    assert len(tree.defined("go", "pkg")) == 4
    assert [
        one.spot.line for one in tree.asker.find_definition(Wanted("go", kind=SymbolKind.VARIABLE)).definitions
    ] == [9]


def test_an_inherited_member_is_found_where_it_is_defined(tmp_path: Path) -> None:
    """`Sub.go` is `Base.go` where only the base has it."""
    tree = Tree(tmp_path, {"a.py": "class Base:\n    def go(self): ...\n\nclass Sub(Base):\n    pass\n"})

    assert tree.defined("Sub.go") == ["a.py:2"]


@pytest.mark.parametrize(
    ("text", "read"),
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
def test_names_are_taken_apart_as_languages_write_them(text: str, read: tuple[str, str]) -> None:
    """Dots, colons, arrows and hashes stand between a name and what is around it."""
    assert read_name(text) == read or read_name(text) == (read[0].removesuffix("()"), read[1])


def test_a_name_that_is_not_there_brings_the_nearest(tree: Tree) -> None:
    """Nothing found is no failure, and says which names are like it."""
    reply = tree.asker.find_definition(Wanted("prse"))

    assert reply.definitions == ()
    assert "prse is not defined in this code; parse is" in reply.notes[0]


def test_the_true_caller_is_named(tree: Tree) -> None:
    """The function, method or file around a call is its caller."""
    assert tree.callers("load") == ["App.start app/main.py:6 1", "main.py app/main.py:18 1"]
    assert tree.callers("parse") == ["load app/core.py:9 1", "test_parse tests/test_core.py:5 1"]


def test_callers_of_callers_are_found_and_cycles_end(tree: Tree) -> None:
    """Each caller is followed once, up to the depth that is asked for."""
    assert tree.callers("parse", 2) == [
        "load app/core.py:9 1",
        "test_parse tests/test_core.py:5 1",
        "App.start app/main.py:6 2",
        "main.py app/main.py:18 2",
    ]
    assert "main app/main.py:10 3" in tree.callers("parse", 3)
    assert tree.callers("main", 3) == ["loop app/main.py:15 1", "main app/main.py:11 2"]
    reply = tree.asker.find_callers(Wanted("parse"), Bounds(), 3)
    assert {one.depth: one.callee for one in reply.callers} == {1: "parse", 2: "load", 3: "App.start"}


def test_who_makes_an_object_calls_its_constructor(tmp_path: Path) -> None:
    """The callers of `__init__` are those who call the class."""
    source = "class Box:\n    def __init__(self):\n        fill()\n\ndef fill(): ...\n\ndef pack():\n    return Box()\n"
    tree = Tree(tmp_path, {"a.py": source})

    assert tree.callers("Box.__init__") == ["pack a.py:8 1"]
    assert tree.callers("fill", 2) == ["Box.__init__ a.py:3 1", "pack a.py:8 2"]


def test_a_limit_cuts_and_the_total_tells(tree: Tree) -> None:
    """No more than so many are given, and how many there are is said."""
    reply = tree.asker.find_callers(Wanted("parse"), Bounds(limit=1), 2)

    assert (len(reply.callers), reply.total) == (1, 4)


def test_only_below_a_folder(tree: Tree) -> None:
    """Uses elsewhere are left out."""
    reply = tree.asker.find_references(Wanted("parse"), Bounds(below=str(tree.root / "tests")))

    assert {one.spot.path for one in reply.references} == {"tests/test_core.py"}


def test_references_bring_their_line_and_what_is_around_them(tree: Tree) -> None:
    """A reference can be read without opening its file."""
    found = {one.spot.path: one for one in tree.references("load").references if one.use == "call"}

    assert found["app/main.py"].text == "load('at the top')"
    (inner,) = [one for one in tree.references("load").references if one.container == "App.start"]
    assert inner.text == "return load('x')"


def test_a_file_that_changed_since_is_said(tree: Tree) -> None:
    """A line that no longer has the name is not shown as if it had, and a note says what to do."""
    (tree.root / "app/main.py").write_text("# all gone\n", "utf-8")

    reply = tree.references("load")

    assert {one.text for one in reply.references if one.spot.path == "app/main.py"} == {""}
    assert any("app/main.py changed since it was indexed" in note for note in reply.notes)


def test_importers_are_found_by_any_name_of_a_module(tmp_path: Path) -> None:
    """Packages, modules below them, relative imports, paths of files and imported names all lead to their importers."""
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
        reply = tree.asker.find_imports(module, Bounds())
        return [f"{one.spot.path.removeprefix('src/app/')}:{one.spot.line}" for one in reply.imports]

    assert importers("requests") == ["a.py:2", "core.py:1"]
    assert sorted(importers("app.core")) == ["a.py:1", "b.py:1", "c.py:1", "d.py:1"]
    assert sorted(importers("src/app/core.py")) == ["a.py:1", "b.py:1", "c.py:1", "d.py:1"]
    assert importers("Engine") == ["a.py:1"]
    assert importers("nothing") == []
    (renamed,) = [one for one in tree.asker.find_imports("requests", Bounds()).imports if one.alias]
    assert (renamed.module, renamed.alias, renamed.text) == ("requests", "rq", "import requests as rq")


def test_an_outline_lists_a_file_or_a_folder(tree: Tree) -> None:
    """All of a file, the top of each file in a folder, in the order of the files."""
    (file,) = tree.asker.outline(str(tree.root / "app/main.py"), None).files
    assert [one.qualified for one in file.symbols] == ["App", "App.start", "main", "loop"]

    folder = tree.asker.outline(str(tree.root / "app"), None)
    assert [(one.path, len(one.symbols)) for one in folder.files] == [
        ("app/__init__.py", 0),
        ("app/core.py", 2),
        ("app/main.py", 3),
    ]
    with pytest.raises(NotFound):
        tree.asker.outline(str(tree.root / "nowhere"), None)


def test_symbols_are_searched_by_half_a_name(tree: Tree) -> None:
    """Parts and misspellings find symbols, of one kind only where that is asked."""
    found = tree.asker.search("pars", Wanted("pars"), Bounds(limit=5)).definitions
    assert found[0].symbol.name == "parse"

    kinds = tree.asker.search("a", Wanted("a", kind=SymbolKind.CLASS), Bounds(limit=5)).definitions
    assert [one.symbol.name for one in kinds] == ["App"]


def test_code_that_nobody_indexed_is_said_to_be_unknown(tree: Tree, tmp_path: Path) -> None:
    """Elsewhere nothing is found and a note says how to begin; another worktree of the project answers in its place."""
    other = tmp_path / "other"
    stranger = Place(Project(str(other), str(other), "o", git=True), other, "default")
    reply = CodeAsker(CodeSight(tree.tables, stranger)).find_definition(Wanted("parse"))
    assert (reply.definitions, reply.total) == ((), 0)
    assert "lorelog code index" in reply.notes[0]

    linked = replace(stranger, project=Project(str(tree.root), str(other), "o", git=True))
    reply = CodeAsker(CodeSight(tree.tables, linked)).find_definition(Wanted("parse"))
    assert len(reply.definitions) == 1
    assert "this working tree is not indexed" in reply.notes[0]

    everywhere = CodeAsker(CodeSight(tree.tables, stranger, all_projects=True)).find_definition(Wanted("parse"))
    assert len(everywhere.definitions) == 1


def answered(tree: Tree, text: str) -> CodeReply | None:
    place = Place(Project(str(tree.root), str(tree.root), "w", git=True), tree.root, "default")
    return answer_question(text, CodeSight(tree.tables, place))


def test_questions_in_words_are_answered_where_the_code_knows(tree: Tree) -> None:
    """A question about a symbol, a module or a file that is here has an answer; any other has none."""
    calls = answered(tree, "who calls parse")
    where = answered(tree, "where is App defined?")
    imports = answered(tree, "what imports app.core")
    outline = answered(tree, "what is in app/core.py")

    assert calls is not None
    assert (calls.verb, [one.name for one in calls.callers]) == (CodeVerb.CALLERS, ["load", "test_parse"])
    assert where is not None
    assert [one.spot.path for one in where.definitions] == ["app/main.py"]
    assert imports is not None
    assert imports.total == 2
    assert outline is not None
    assert [one.name for one in outline.files[0].symbols] == ["parse", "load"]
    assert answered(tree, "who calls nobody_at_all") is None
    assert answered(tree, "why did we choose redis") is None
    assert answered(tree, "what is in nowhere/else.py") is None


def test_an_answer_above_the_hits_is_short(tmp_path: Path) -> None:
    """However many callers there are, only the first few go above the hits of a search."""
    source = "def hub_of_all():\n    pass\n" + "".join(f"\ndef f{n}():\n    hub_of_all()\n" for n in range(30))
    reply = answered(Tree(tmp_path, {"a.py": source}), "who calls hub_of_all")

    assert reply is not None
    assert (len(reply.callers), reply.total) == (MOST, 30)
