"""The code base keeps to its limits: sizes, names, layout and the public API."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import lorelog
from lorelog.hosts import ADAPTERS, HOSTS

SOURCE = Path(lorelog.__file__).parent
ROOT = Path(__file__).parents[2]
MODULES = sorted(SOURCE.rglob("*.py"))
LIMITS = tomllib.loads(Path(__file__).with_name("limits.toml").read_text("utf-8"))["sizes"]
PUBLIC_METHODS = SOURCE / "surfaces" / "python" / "client.py"
"""Every option of an operation is a keyword parameter there, visible in help()."""
SCHEMA = SOURCE / "stores" / "embedded" / "migrations.py"
"""A migration step is one list of SQL statements."""
TEST_MODULES = sorted((ROOT / "tests").rglob("*.py"))
VAGUE_WORDS = re.compile(
    r"_(?:nobody|nobodys|whoever|whatever|whom|anew)(?:_|$)|(?<!_there)_(?:is|are)_no_(?!longer|more|and_yes)"
)
"""Words of test names that hide the subject."""
VAGUE = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]


def test_modules_and_functions_are_of_readable_size() -> None:
    """No module and no function has more lines than its limit."""
    too_long = [
        f"{path.relative_to(SOURCE)}: {lines} lines"
        for path in MODULES
        if (lines := path.read_text("utf-8").count("\n")) > LIMITS["module_lines"]
    ]
    too_long += [
        f"{path.relative_to(SOURCE)}:{function.lineno} {function.name}"
        for path in MODULES
        if path != SCHEMA
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > LIMITS["function_lines"]
    ]

    assert too_long == []


def test_a_host_is_small() -> None:
    """The adapter of a host, a module or a package, stays small; what hosts share is shared."""
    lines = {}
    for host in {ADAPTERS.get(host, host) for host in HOSTS}:
        module, package = SOURCE / "hosts" / f"{host}.py", SOURCE / "hosts" / host
        files = [module] if module.is_file() else sorted(package.rglob("*.py"))
        lines[host] = sum(file.read_text("utf-8").count("\n") for file in files)
    assert {host: count for host, count in lines.items() if not 0 < count <= LIMITS["host_lines"]} == {}


def test_functions_take_few_parameters() -> None:
    """A function takes few parameters; a long list is one value with a name."""
    many = [
        f"{path.relative_to(SOURCE)}:{function.lineno} {function.name}"
        for path in MODULES
        if path != PUBLIC_METHODS
        for function in functions(path)
        if len([*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]) > LIMITS["parameters"]
    ]

    assert many == []


def test_no_module_has_a_vague_name() -> None:
    """No module is called utils, helpers or the like."""
    assert [path for path in MODULES if path.stem in VAGUE] == []


def test_services_hold_folders_and_operations_modules() -> None:
    """`services/` holds no loose module, and a family of operations is a module, not a package."""
    assert [path.name for path in (SOURCE / "services").glob("*.py")] == ["__init__.py"]
    assert list((SOURCE / "operations").glob("*/__init__.py")) == []


@pytest.mark.parametrize("modules", [MODULES, TEST_MODULES], ids=["src", "tests"])
def test_public_class_names_are_unique(modules: list[Path]) -> None:
    """No two modules define a public class of the same name, so a search for the name leads to one place."""
    homes = defaultdict(list)
    for path in modules:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))

    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_loop_variables_and_limits_have_names() -> None:
    """No loop variable is called `one`, in tests neither, and limits are called MAX_ and MIN_."""
    loop = re.compile(r"\bfor " r"one in\b")
    limit = re.compile(r"^_?(?:MOST|LEAST)_\w+ *[:=]", re.MULTILINE)
    unclear = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for modules, patterns in ((MODULES, (loop, limit)), (TEST_MODULES, (loop,)))
        for path in modules
        for pattern in patterns
        for match in pattern.finditer(path.read_text("utf-8"))
    ]

    assert unclear == []


def test_every_module_has_a_docstring() -> None:
    """Each module begins with a docstring."""
    silent = [path for path in MODULES if not ast.get_docstring(parsed(path))]

    assert silent == []


def test_the_public_names_are_pinned() -> None:
    """The package exports a limited number of names, and each of them exists."""
    assert sorted(lorelog.__all__) == sorted(set(lorelog.__all__))
    assert len(lorelog.__all__) <= LIMITS["public_names"]
    assert all(getattr(lorelog, name) is not None for name in lorelog.__all__)
    assert {name for names in lorelog._HOMES.values() for name in names.split()} < set(lorelog.__all__)


def test_no_module_names_a_private_path() -> None:
    """No file of the package contains a path of somebody's home directory."""
    private = re.compile(r"(?:^|[\s\"'`(=])/(?:home/[a-z]+|Users|root)/")
    named = [path for path in MODULES if private.search(path.read_text("utf-8"))]

    assert named == []


def test_the_former_name_is_gone() -> None:
    """The name used before the first release stands in one line of the changelog and nowhere else."""
    former = "recoll" + "ect"
    listing = subprocess.run(
        ["git", "grep", "-il", "--untracked", former], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode > 1:  # not a Git checkout: an unpacked source distribution
        return

    assert listing.stdout.split() == ["CHANGELOG.md"]
    assert (ROOT / "CHANGELOG.md").read_text("utf-8").lower().count(former) == 1


def test_every_test_states_a_promise() -> None:
    """Each test has a docstring that states the promise, and a name in plain words."""
    tests = [
        (path, node)
        for path in TEST_MODULES
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]

    assert [f"{path.relative_to(ROOT)} {test.name}" for path, test in tests if not ast.get_docstring(test)] == []
    assert [f"{path.relative_to(ROOT)} {test.name}" for path, test in tests if VAGUE_WORDS.search(test.name)] == []
