"""Figures of the code base stay below their limits, and the limits follow the figures down."""

from __future__ import annotations

import ast
from functools import cache

import pytest
from scripts.house import find_circles, measure, read_limits, read_tree


@cache
def figures() -> dict[str, int]:
    return measure(read_tree())


@pytest.mark.parametrize("name", read_limits())
def test_a_figure_keeps_its_limit_and_the_limit_follows_it(name: str) -> None:
    """A figure is not above its limit, and not more than 1 % below it: `scripts/house.py --lower` lowers the limit."""
    limit = read_limits()[name]

    assert 0.99 * limit <= figures()[name] <= limit


def test_circles_are_found_at_any_depth() -> None:
    """Modules that import each other are a circle, also by an import inside a function, but not for type checkers."""
    sources = {
        "src/p/__init__.py": "",
        "src/p/a.py": "from p import b",
        "src/p/b.py": "def f():\n    import p.c",
        "src/p/c.py": "from p.a import x\nfrom p.d import y",
        "src/p/d.py": "if TYPE_CHECKING:\n    from p.a import x",
    }

    circles = find_circles({path: ast.parse(text) for path, text in sources.items()})

    assert circles == [["p.a", "p.b", "p.c"]]


def test_words_patterns_and_suppressions_are_counted() -> None:
    """Each kind of figure is counted where it occurs."""
    words = " ".join("abcdefghijkl")
    source = f'A = "{words}".split()\nB = re.compile("{words.replace(" ", "|")}")  # noqa: S\nC = {words.split()}\n'

    counted = measure({"src/lorelog/x.py": source, "tests/t.py": "\n"})

    assert (counted["modules"], counted["src_lines"], counted["test_lines"]) == (1, 3, 1)
    assert (counted["word_lists"], counted["patterns"], counted["noqa"]) == (3, 1, 1)


def test_operations_are_counted_where_they_are_declared() -> None:
    """An operation counts once, whether a value or a decorator declares it."""
    source = (
        'A = (Operation("memory.add", R), Operation("memory.add", R))\n@FAMILY.declare("memory.get", R)\ndef f(): ...\n'
    )

    assert measure({"src/lorelog/operations/x.py": source})["operations"] == 2
