"""A use resolves to the definition that its language means: by scope, by import, by class, and in Python by type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.services.code.trees import Tree

from lorelog.core.code import Certainty
from lorelog.services.code.navigation import CodeQueryOptions

LIKELY = Certainty.LIKELY

RESOLVED: dict[str, tuple[dict[str, str], dict[tuple[Any, ...], dict[str, str]]]] = {
    "Calls, reads, writes, types and imports of a symbol are found with their kind": (
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "class Box:\n    pass\n\nlimit = 1\nlimit = 2\n",
            "pkg/b.py": "from pkg.a import Box, limit\n\ndef f(x: Box) -> None:\n    Box()\n    print(limit)\n    y = Box\n",
        },
        {
            ("Box",): {"pkg/b.py:1": "import", "pkg/b.py:3": "type", "pkg/b.py:4": "call", "pkg/b.py:6": "read"},
            ("limit",): {"pkg/a.py:5": "write", "pkg/b.py:1": "import", "pkg/b.py:5": "read"},
        },
    ),
    "Parameters, local variables and imports inside a function hide a top-level name": (
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
        {
            ("load", LIKELY, "a.py"): {"a.py:16": "call"},
            ("load", LIKELY, "b.py"): {"a.py:12": "import", "a.py:13": "call"},
        },
    ),
    "Nested functions with one name in two functions are two symbols": (
        {
            "a.py": "def f():\n    def inner():\n        pass\n    return inner()\n\n"
            "def g():\n    def inner():\n        pass\n    inner()\n"
        },
        {("f.inner",): {"a.py:4": "call"}, ("g.inner",): {"a.py:9": "call"}},
    ),
    "A name that is re-exported from file to file, by alias or by star, resolves to its original definition": (
        {
            "pkg/__init__.py": "from .deep.core import make as build\nfrom .deep.core import *\n",
            "pkg/deep/__init__.py": "",
            "pkg/deep/core.py": "def make():\n    pass\n",
            "use.py": "from pkg import build as b, make\nimport pkg\n\nb()\nmake()\npkg.build()\npkg.other()\n",
            "other.py": "def make():\n    pass\n\nmake()\n",
        },
        {
            ("make", LIKELY, "pkg"): {
                "pkg/__init__.py:1": "import",
                "use.py:1": "import",
                "use.py:4": "call",
                "use.py:5": "call",
                "use.py:6": "call",
            }
        },
    ),
    "`import a.b`, `import a.b as c`, `from a import b` and relative imports resolve to the same function": (
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
        {
            ("run_tool", LIKELY, "src/app/tool.py"): {
                "src/app/one.py:3": "call",
                "src/app/two.py:3": "call",
                "src/app/three.py:3": "call",
                "src/app/four.py:3": "call",
                "src/app/sub/five.py:1": "import",
                "src/app/sub/five.py:3": "call",
            }
        },
    ),
    "`self.m()` means the first class in lookup order that has `m`; `super().m()` starts at the bases": (
        {
            "base.py": "class Base:\n    def load(self):\n        self.read_all()\n\n    def read_all(self):\n        pass\n",
            "sub.py": (
                "from base import Base\n\n"
                "class Sub(Base):\n    def go(self):\n        self.read_all()\n        self.load()\n\n"
                "class Own(Base):\n    def read_all(self):\n        super().read_all()\n\n    def go(self):\n        self.read_all()\n"
            ),
        },
        {
            ("Base.read_all",): {"base.py:3": "call", "sub.py:5": "call", "sub.py:10": "call"},
            ("Own.read_all",): {"sub.py:13": "call"},
            ("Base.load",): {"sub.py:6": "call"},
        },
    ),
    "A function that no file defines is found where its module is imported; without the module, by name only": (
        {
            "a.py": "import json\nfrom json import loads as read\n\njson.loads('1')\n",
            "b.py": "import pickle\n\npickle.loads(b'')\n",
        },
        {
            ("json.loads",): {"a.py:2": "import", "a.py:4": "call"},
            ("loads", Certainty.NAME): {"a.py:2": "import name", "a.py:4": "call name", "b.py:3": "call name"},
        },
    ),
    "Relative imports, aliases, `this` and class names are resolved; the type of a variable is not inferred": (
        {
            "src/a.ts": "export function load(): void {}\nexport class Box {\n  static open() {}\n  twice() { this.open() }\n}\n",
            "src/b.ts": 'import { load as l } from "./a"\nl()\n',
            "src/c.ts": "function load() {}\nload()\n",
            "src/d.ts": 'import { Box } from "./a"\nfunction f(x: Box) { x.open() }\nBox.open()\n',
        },
        {
            ("load", LIKELY, "src/a.ts"): {"src/b.ts:1": "import", "src/b.ts:2": "call"},
            ("Box.open",): {"src/a.ts:4": "call", "src/d.ts:3": "call"},
            ("Box.open", Certainty.NAME): {"src/a.ts:4": "call", "src/d.ts:3": "call", "src/d.ts:2": "call name"},
        },
    ),
    "Files of one folder see each other's names; other packages qualify them": (
        {
            "pkg/tool/a.go": "package tool\n\nfunc Run() {}\n",
            "pkg/tool/b.go": "package tool\n\nfunc two() { Run() }\n",
            "cmd/main.go": 'package main\n\nimport "example.com/x/pkg/tool"\n\nfunc main() { tool.Run() }\n',
            "pkg/other/c.go": "package other\n\nfunc Run() {}\n\nfunc three() { Run() }\n",
        },
        {("Run", LIKELY, "pkg/tool"): {"pkg/tool/b.go:3": "call", "cmd/main.go:5": "call"}},
    ),
    "A method calls methods of its class without a receiver; the type of a variable is not inferred": (
        {
            "com/x/Box.java": "package com.x;\n\npublic class Box {\n  void open() {}\n  void twice() { open(); }\n}\n",
            "com/x/Use.java": "package com.x;\n\nclass Use {\n  void go(Box box) { box.open(); new Box(); }\n}\n",
            "com/y/Box.java": "package com.y;\n\npublic class Box {\n  void open() {}\n}\n",
        },
        {
            ("Box.open", LIKELY, "com/x"): {"com/x/Box.java:5": "call"},
            ("Box", LIKELY, "com/x"): {"com/x/Use.java:4": "call"},
            ("Box.open", Certainty.NAME, "com/x"): {"com/x/Box.java:5": "call", "com/x/Use.java:4": "call name"},
        },
    ),
}


@pytest.mark.parametrize(("files", "expected"), RESOLVED.values(), ids=RESOLVED)
def test_uses_are_resolved(
    tmp_path: Path, files: dict[str, str], expected: dict[tuple[Any, ...], dict[str, str]]
) -> None:
    """Each name has exactly these uses in a file or folder, and those that only have its name where they are asked for."""
    tree = Tree(tmp_path, files)

    assert {asked: tree.uses(*asked) for asked in expected} == expected


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


def test_types_of_receivers_are_inferred_in_python(tmp_path: Path) -> None:
    """Annotations, constructors, attributes and return types distinguish two classes with the same method."""
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
                "        str().area()\n"  # 23: neither
            ),
        },
    )

    discs, squares = tree.uses("Disc.area"), tree.uses("Square.area")

    assert sorted(discs) == [f"use.py:{line}" for line in (12, 16, 17, 18)]
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
