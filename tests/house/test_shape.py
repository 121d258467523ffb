"""The house keeps its measures: sizes, names and the public surface."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lorelog

SOURCE = Path(lorelog.__file__).parent
MODULE_LINES, FUNCTION_LINES, PARAMETERS = 450, 60, 7
VAGUE = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base"}


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node


def test_modules_and_functions_are_small() -> None:
    """No module and no function has outgrown what a reader can hold."""
    too_long = [
        f"{path.relative_to(SOURCE)}: {path.read_text('utf-8').count(chr(10))} lines"
        for path in SOURCE.rglob("*.py")
        if path.read_text("utf-8").count("\n") > MODULE_LINES
    ]
    too_long += [
        f"{path.relative_to(SOURCE)}:{function.lineno} {function.name}"
        for path in SOURCE.rglob("*.py")
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES
    ]

    assert too_long == []


def test_functions_take_few_parameters() -> None:
    """What takes many values takes them as one value with a name."""
    many = [
        f"{path.relative_to(SOURCE)}:{function.lineno} {function.name}"
        for path in SOURCE.rglob("*.py")
        for function in functions(path)
        if len([*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]) > PARAMETERS + 1
    ]

    assert many == []


def test_names_say_something() -> None:
    """No module is called by what it is not about."""
    assert [path for path in SOURCE.rglob("*.py") if path.stem in VAGUE] == []


def test_every_module_says_what_it_is_for() -> None:
    """Each module opens with its responsibility."""
    silent = [path for path in SOURCE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]

    assert silent == []


def test_the_public_names_are_pinned() -> None:
    """The package exports these names and no others, at most twenty, and each of them is there."""
    assert lorelog.__all__ == sorted(lorelog.__all__, key=lambda name: (name.startswith("_"), name))
    assert len(lorelog.__all__) <= 20
    assert all(getattr(lorelog, name) is not None for name in lorelog.__all__)
    assert set(lorelog._HOMES) == set(lorelog.__all__) - {"__version__"}


def test_nothing_committed_names_a_workplace() -> None:
    """No file of the package names a person's or machine's own paths."""
    private = re.compile(r"(?:^|[\s\"'`(=])/(?:home/[a-z]+|Users|root)/")
    named = [path for path in SOURCE.rglob("*.py") if private.search(path.read_text("utf-8"))]

    assert named == []


def test_every_test_states_a_promise() -> None:
    """Each test has one sentence that says what is promised."""
    tests = Path(__file__).parent.parent
    silent = [
        f"{path.relative_to(tests)}:{function.lineno} {function.name}"
        for path in tests.rglob("test_*.py")
        for function in functions(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]

    assert silent == []
