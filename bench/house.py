"""Measure the code base itself: modules, lines, duplicated class names, import cycles, modules loaded by a cold search.

    python bench/house.py                                                  this tree
    python bench/house.py --source OTHER/src/PACKAGE --python OTHER/.venv/bin/python    another checkout, beside it

Import cycles count every import, also those inside functions and for type checkers only.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
LOADED = """
import json, sys
from {package}.surfaces.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
names = [name for name in sys.modules if name.partition(".")[0] == "{package}"]
print("LOADED" + json.dumps([len(names), len(sys.modules), sum(name.startswith("{package}.operations") for name in names)]))
"""


def imports_of(tree: ast.AST, modules: set[str]) -> set[str]:
    """Return the modules of the package that a tree imports."""
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                imported.add(full if full in modules else node.module)
    return imported & modules


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for imported in graph[module]:
            if imported not in order:
                visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], order[imported])
        if low[module] == order[module]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == module:
                    break
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(5000)
    for module in graph:
        if module not in order:
            visit(module)
    return groups


def measure(source: Path, python: str) -> dict[str, object]:
    """Return the figures of one package."""
    package = source.name
    paths = {
        ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in source.rglob("*.py")
    }
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in paths.items()}
    lines = sorted(path.read_text("utf-8").count("\n") for path in paths.values())
    classes = defaultdict(list)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
    graph = {name: imports_of(tree, set(paths)) - {name} for name, tree in trees.items()}
    ours, everything, operations = cold_search(package, python)
    return {
        "modules": len(paths),
        "lines": sum(lines),
        "median / p90 / max lines": f"{median(lines):.0f} / {lines[len(lines) * 9 // 10]} / {lines[-1]}",
        "modules under 60 lines": sum(count < 60 for count in lines),
        "loose files in services/": len(
            [path for path in (source / "services").glob("*.py") if path.stem != "__init__"]
        ),
        "public class names used twice or more": sum(len(homes) > 1 for homes in classes.values()),
        "import circles": len(cycles(graph)),
        "cold search: our modules": ours,
        "cold search: modules of operations/": operations,
        "cold search: all modules": everything,
    }


def cold_search(package: str, python: str) -> list[int]:
    """Return how many modules a cold lexical search loads: ours, all, and those of operations/."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "note.md").write_text("# Cache\n\nWe use Redis with a TTL of five minutes.\n", "utf-8")
        prefix = package.upper()
        environment = {
            **os.environ,
            "HOME": folder,
            f"{prefix}_HOME": f"{folder}/home",
            f"{prefix}_DAEMON_WARM": "off",
            f"{prefix}_EMBEDDING_PROVIDER": "none",
        }
        program = LOADED.format(package=package)
        for words in (["index", "note.md"], ["search", "redis", "--json"]):
            done = subprocess.run(
                [python, "-c", program, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
        counts: list[int] = json.loads(done.stdout.rpartition("LOADED")[2])
        return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the code base itself.")
    parser.add_argument("--source", type=Path, help="the package folder of another checkout")
    parser.add_argument("--python", help="a Python that has the other checkout installed")
    options = parser.parse_args()
    columns = {"this tree": measure(HERE / "src" / "lorelog", sys.executable)}
    if options.source:
        columns = {"other": measure(options.source.resolve(), options.python or sys.executable), **columns}
    print(f"| | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    for name in columns["this tree"]:
        print(f"| {name} | {' | '.join(str(figures[name]) for figures in columns.values())} |")


if __name__ == "__main__":
    main()
