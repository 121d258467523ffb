"""A use resolves to the definition that its language means: by scope, by import, by class, and in Python by type."""

from __future__ import annotations

from pathlib import Path

from tests.services.code.trees import Tree

from lorelog.core.code import Certainty
from lorelog.services.code.navigation import CodeQueryOptions


def test_uses_have_a_kind(tmp_path: Path) -> None:
    """Calls, reads, writes, types and imports of a symbol are found with their kind."""
    tree = Tree(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "class Box:\n    pass\n\nlimit = 1\nlimit = 2\n",
            "pkg/b.py": "from pkg.a import Box, limit\n\ndef f(x: Box) -> None:\n    Box()\n    print(limit)\n    y = Box\n",
        },
    )

    assert tree.uses("Box") == {
        "pkg/b.py:1": "import",
        "pkg/b.py:3": "type",
        "pkg/b.py:4": "call",
        "pkg/b.py:6": "read",
    }
    assert tree.uses("limit") == {"pkg/a.py:5": "write", "pkg/b.py:1": "import", "pkg/b.py:5": "read"}


def test_a_local_name_hides_the_name_of_the_file(tmp_path: Path) -> None:
    """Parameters, local variables and imports inside a function hide a top-level name."""
    tree = Tree(
        tmp_path,
        {
            "a.py": (
                "def load():\n    pass\n\n"
                "def f(load):\n    load()\n\n"
                "def g():\n    load = 1\n    return load\n\n"
                "def h():\n    from b import load\n    return load()\n\n"
                "def i():\n    return load()\n"
            ),
            "b.py": "def load():\n    pass\n",
        },
    )

    assert tree.uses("load", path="a.py") == {"a.py:16": "call"}
    assert tree.uses("load", path="b.py") == {"a.py:12": "import", "a.py:13": "call"}


def test_nested_functions_belong_to_their_enclosing_function(tmp_path: Path) -> None:
    """Nested functions with one name in two functions are two symbols."""
    source = (
        "def f():\n    def inner():\n        pass\n    return inner()\n\n"
        "def g():\n    def inner():\n        pass\n    inner()\n"
    )
    tree = Tree(tmp_path, {"a.py": source})

    assert tree.uses("f.inner") == {"a.py:4": "call"}
    assert tree.uses("g.inner") == {"a.py:9": "call"}


def test_names_of_a_class_are_not_seen_from_its_methods(tmp_path: Path) -> None:
    """An unqualified name means the file's inside a method, and the class's in the class body and in decorators."""
    source = (
        "def size():\n    pass\n\n"
        "class Box:\n    @property\n    def size(self):\n        return 1\n\n    @size.setter\n    def size(self, new):\n"
        "        size()\n\n    twice = size\n"
    )
    tree = Tree(tmp_path, {"a.py": source})

    assert tree.uses("size", path="a.py")  # uses of both definitions
    assert tree.uses("Box.size") == {"a.py:9": "read", "a.py:13": "read"}
    assert {
        reference.line
        for reference in tree.navigator.find_references(tree.query("a.size"), CodeQueryOptions()).references
    } == {11}


def test_imports_are_followed_through_aliases(tmp_path: Path) -> None:
    """A name that is re-exported from file to file, by alias or by star, resolves to its original definition."""
    tree = Tree(
        tmp_path,
        {
            "pkg/__init__.py": "from .deep.core import make as build\nfrom .deep.core import *\n",
            "pkg/deep/__init__.py": "",
            "pkg/deep/core.py": "def make():\n    pass\n",
            "use.py": "from pkg import build as b, make\nimport pkg\n\nb()\nmake()\npkg.build()\npkg.other()\n",
            "other.py": "def make():\n    pass\n\nmake()\n",
        },
    )

    assert tree.uses("make", path="pkg") == {
        "pkg/__init__.py:1": "import",
        "use.py:1": "import",
        "use.py:4": "call",
        "use.py:5": "call",
        "use.py:6": "call",
    }


def test_modules_are_found_by_every_kind_of_import(tmp_path: Path) -> None:
    """`import a.b`, `import a.b as c`, `from a import b` and relative imports resolve to the same function."""
    tree = Tree(
        tmp_path,
        {
            "src/app/__init__.py": "",
            "src/app/tool.py": "def run_tool():\n    pass\n",
            "src/app/one.py": "import app.tool\n\napp.tool.run_tool()\n",
            "src/app/two.py": "import app.tool as t\n\nt.run_tool()\n",
            "src/app/three.py": "from app import tool\n\ntool.run_tool()\n",
            "src/app/four.py": "from . import tool\n\ntool.run_tool()\n",
            "src/app/sub/__init__.py": "",
            "src/app/sub/five.py": "from ..tool import run_tool\n\nrun_tool()\n",
            "src/app/sub/tool.py": "def run_tool():\n    pass\n",
            "src/app/sub/six.py": "from .tool import run_tool\n\nrun_tool()\n",
        },
    )

    assert sorted(tree.uses("run_tool", path="src/app/tool.py")) == [
        "src/app/four.py:3",
        "src/app/one.py:3",
        "src/app/sub/five.py:1",
        "src/app/sub/five.py:3",
        "src/app/three.py:3",
        "src/app/two.py:3",
    ]


def test_a_method_is_found_through_self_and_its_bases(tmp_path: Path) -> None:
    """`self.m()` means the first class in lookup order that has `m`; `super().m()` starts at the bases."""
    tree = Tree(
        tmp_path,
        {
            "base.py": "class Base:\n    def load(self):\n        self.read_all()\n\n    def read_all(self):\n        pass\n",
            "sub.py": (
                "from base import Base\n\n"
                "class Sub(Base):\n    def go(self):\n        self.read_all()\n        self.load()\n\n"
                "class Own(Base):\n    def read_all(self):\n        super().read_all()\n\n    def go(self):\n        self.read_all()\n"
            ),
        },
    )

    assert tree.uses("Base.read_all") == {"base.py:3": "call", "sub.py:5": "call", "sub.py:10": "call"}
    assert tree.uses("Own.read_all") == {"sub.py:13": "call"}
    assert tree.uses("Base.load") == {"sub.py:6": "call"}


def test_types_of_receivers_are_inferred_in_python(tmp_path: Path) -> None:
    """Annotations, constructors, attributes, return types and `with` distinguish two classes with the same method."""
    tree = Tree(
        tmp_path,
        {
            "shapes.py": (
                "class Disc:\n    def area(self) -> float: ...\n\n    def twin(self) -> 'Disc': ...\n\n"
                "class Square:\n    def area(self) -> float: ...\n\n"
                "def make_disc() -> Disc: ...\n\n"
                "unit = Disc()\n"
            ),
            "use.py": (
                "from __future__ import annotations\n"
                "import shapes\n"
                "from shapes import Disc, Square, make_disc, unit\n\n"
                "class Holder:\n    def __init__(self, given: Disc | None, other):\n"
                "        self.disc = given\n        self.made = shapes.Square()\n        self.other = other\n\n"
                "    def go(self, one: Square):\n"
                "        self.disc.area()\n"  # 12: Disc
                "        self.made.area()\n"  # 13: Square
                "        one.area()\n"  # 14: Square
                "        two = Disc()\n"
                "        two.area()\n"  # 16: Disc
                "        make_disc().area()\n"  # 17: Disc
                "        unit.area()\n"  # 18: Disc
                "        two.twin().area()\n"  # 19: unknown: a call of a method of a local variable
                "        self.other.area()\n"  # 20: unknown
                "        three: Square = x()\n"
                "        three.area()\n"  # 22: Square
                "        with Disc() as four:\n"
                "            four.area()\n"  # 24: Disc
                "        str().area()\n"  # 25: neither
            ),
        },
    )

    discs, squares = tree.uses("Disc.area"), tree.uses("Square.area")

    assert sorted(discs) == [f"use.py:{line}" for line in (12, 16, 17, 18, 24)]
    assert sorted(squares) == [f"use.py:{line}" for line in (13, 14, 22)]
    uncertain = set(tree.uses("Disc.area", Certainty.NAME)) - set(discs)
    assert uncertain == {"use.py:19", "use.py:20"}


def test_an_unknown_receiver_is_likely_if_one_class_has_the_name(tmp_path: Path) -> None:
    """With an unknown receiver, a name of one class is likely; a common name such as `get` is left out."""
    tree = Tree(
        tmp_path,
        {
            "a.py": "class Engine:\n    def ignite(self): ...\n    def get(self): ...\n",
            "b.py": "def f(x):\n    x.ignite()\n    x.get()\n",
        },
    )

    assert tree.uses("Engine.ignite") == {"b.py:2": "call likely"}
    assert tree.uses("Engine.get") == {}
    assert tree.references("Engine.get").doubtful == 1
    assert tree.uses("Engine.get", Certainty.NAME) == {"b.py:3": "call name"}


def test_instance_attributes_are_found(tmp_path: Path) -> None:
    """An instance attribute is defined once; later assignments are writes, and reads are found by type."""
    source = (
        "class Box:\n    def __init__(self):\n        self.width = 1\n\n    def grow(self):\n        self.width = self.width + 1\n\n"
        "def f(box: Box):\n    return box.width\n"
    )
    tree = Tree(tmp_path, {"a.py": source})

    assert tree.defined("Box.width") == ["a.py:3"]
    assert sorted((reference.line, str(reference.use)) for reference in tree.references("Box.width").references) == [
        (6, "read"),
        (6, "write"),
        (9, "read"),
    ]


def test_third_party_names_are_found_by_their_module(tmp_path: Path) -> None:
    """A function that no file defines is found where its module is imported; without the module, by name only."""
    tree = Tree(
        tmp_path,
        {
            "a.py": "import json\nfrom json import loads as read\n\njson.loads('1')\n",
            "b.py": "import pickle\n\npickle.loads(b'')\n",
        },
    )

    assert tree.uses("json.loads") == {"a.py:2": "import", "a.py:4": "call"}
    assert tree.uses("loads", Certainty.NAME) == {
        "a.py:2": "import name",
        "a.py:4": "call name",
        "b.py:3": "call name",
    }


def test_typescript_is_resolved_by_its_imports(tmp_path: Path) -> None:
    """Relative imports, aliases, `this` and class names are resolved; the type of a variable is not inferred."""
    tree = Tree(
        tmp_path,
        {
            "src/a.ts": "export function load(): void {}\nexport class Box {\n  static open() {}\n  twice() { this.open() }\n}\n",
            "src/b.ts": 'import { load as l } from "./a"\nl()\n',
            "src/c.ts": "function load() {}\nload()\n",
            "src/d.ts": 'import { Box } from "./a"\nfunction f(x: Box) { x.open() }\nBox.open()\n',
        },
    )

    assert tree.uses("load", path="src/a.ts") == {"src/b.ts:1": "import", "src/b.ts:2": "call"}
    assert tree.uses("Box.open") == {"src/a.ts:4": "call", "src/d.ts:3": "call"}
    assert tree.uses("Box.open", Certainty.NAME)["src/d.ts:2"] == "call name"


def test_go_is_resolved_by_package(tmp_path: Path) -> None:
    """Files of one folder see each other's names; other packages qualify them."""
    tree = Tree(
        tmp_path,
        {
            "pkg/tool/a.go": "package tool\n\nfunc Run() {}\n",
            "pkg/tool/b.go": "package tool\n\nfunc two() { Run() }\n",
            "cmd/main.go": 'package main\n\nimport "example.com/x/pkg/tool"\n\nfunc main() { tool.Run() }\n',
            "pkg/other/c.go": "package other\n\nfunc Run() {}\n\nfunc three() { Run() }\n",
        },
    )

    assert tree.uses("Run", path="pkg/tool") == {"pkg/tool/b.go:3": "call", "cmd/main.go:5": "call"}


def test_java_sees_its_package_and_its_own_class(tmp_path: Path) -> None:
    """A method calls methods of its class without a receiver; the type of a variable is not inferred."""
    tree = Tree(
        tmp_path,
        {
            "com/x/Box.java": "package com.x;\n\npublic class Box {\n  void open() {}\n  void twice() { open(); }\n}\n",
            "com/x/Use.java": "package com.x;\n\nclass Use {\n  void go(Box box) { box.open(); new Box(); }\n}\n",
            "com/y/Box.java": "package com.y;\n\npublic class Box {\n  void open() {}\n}\n",
        },
    )

    assert tree.uses("Box.open", path="com/x") == {"com/x/Box.java:5": "call"}
    assert tree.uses("Box", path="com/x")["com/x/Use.java:4"]
    assert tree.uses("Box.open", Certainty.NAME, path="com/x")["com/x/Use.java:4"] == "call name"
