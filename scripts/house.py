"""Figures of the code base that have a limit: size, import circles, settings, operations, suppressions, patterns.

`house.py` prints the figures of this tree beside their limits; `house.py --against COMMIT` also those of an earlier
commit; `house.py --lower` writes lower limits where a figure fell. Limits are never raised here: that is an edit of
`tests/house/limits.toml` in a commit of its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMITS = ROOT / "tests" / "house" / "limits.toml"
MIN_WORDS = 12
_WORD = re.compile(r"[a-zà-öø-ÿß]+(?:['’-][a-zà-öø-ÿß]+)*")
_ALTERNATIVES = re.compile(rf"(?:[a-z]+\|){{{MIN_WORDS - 1}}}[a-z]+")
_PATTERN_CALL = re.compile(r"\b(?:re\.compile|lazy_pattern)\(")
_DOTTED = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")

Files = Mapping[str, str]
"""Python sources by path, as `src/lorelog/engine.py`."""


def read_tree(commit: str | None = None) -> Files:
    """Return the Python sources of src and tests: of the working tree, or of a commit."""
    if commit is None:
        paths = (path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))
        return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    archive = subprocess.run(["git", "archive", commit, "src", "tests"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        members = [member for member in tar.getmembers() if member.isfile() and member.name.endswith(".py")]
        return {member.name: content.read().decode() for member in members if (content := tar.extractfile(member))}


def measure(files: Files) -> dict[str, int]:
    """Return the figures of a tree by the name of their limit."""
    source = {path: text for path, text in files.items() if path.startswith("src/")}
    trees = {path: ast.parse(text) for path, text in source.items()}
    return {
        "modules": len(source),
        "src_lines": sum(text.count("\n") for text in source.values()),
        "test_lines": sum(text.count("\n") for path, text in files.items() if path.startswith("tests/")),
        "circles": len(find_circles(trees)),
        "settings": _count_declared(trees, "src/lorelog/config/", ("setting",)),
        "operations": _count_declared(trees, "src/lorelog/operations/", ("operation", "declare")),
        "noqa": sum("noqa" in line for text in source.values() for line in text.splitlines()),
        "type_ignores": sum("type: ignore" in line for text in source.values() for line in text.splitlines()),
        "patterns": sum(len(_PATTERN_CALL.findall(text)) for text in source.values()),
        "word_lists": sum(_is_word_list(node) for tree in trees.values() for node in ast.walk(tree)),
    }


def find_circles(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Return groups of modules that import each other, directly or not; imports inside functions count, too.

    Imports for type checkers only do not count.
    """
    modules = {_module_name(path): path for path in trees}
    imports = {name: set(_imported(trees[path], modules)) - {name} for name, path in modules.items()}
    return [sorted(group) for group in _strong_groups(imports) if len(group) > 1]


def _module_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.Module, modules: Mapping[str, str]) -> Iterator[str]:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            pending += node.orelse
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield from (name,) if name in modules else (node.module,) if node.module in modules else ()
        else:
            pending += ast.iter_child_nodes(node)


def _strong_groups(edges: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """Yield the strongly connected components (Kosaraju)."""
    backward: dict[str, set[str]] = {name: set() for name in edges}
    for name, targets in edges.items():
        for target in targets:
            backward[target].add(name)
    order = [name for component in _reach(edges, edges) for name in component]
    yield from (set(component) for component in _reach(backward, reversed(order)))


def _reach(edges: Mapping[str, set[str]], starts: Iterator[str] | Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield what each start reaches that no earlier one did, in the order in which the search leaves it."""
    seen: set[str] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        left, path = [], [(start, iter(sorted(edges[start])))]
        while path:
            name, targets = path[-1]
            target = next((target for target in targets if target not in seen), None)
            if target is None:
                left.append(name)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(sorted(edges[target]))))
        yield left


def _count_declared(trees: Mapping[str, ast.Module], folder: str, kinds: tuple[str, ...]) -> int:
    """Count the dotted names that a call named like one of `kinds` declares: `Setting("search.k", …)`, `OPERATIONS.declare(…)`."""
    names = {
        node.args[0].value
        for path, tree in trees.items()
        if path.startswith(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and any(kind in (node.func.id if isinstance(node.func, ast.Name) else node.func.attr).lower() for kind in kinds)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
    return len({name for name in names if _DOTTED.fullmatch(name)})


def _is_word_list(node: ast.AST) -> bool:
    """Return True for a collection of at least a dozen lower-case words, and for a text that is split into them."""
    words: list[object] = []
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        words = [element.value for element in node.elts if isinstance(element, ast.Constant)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _ALTERNATIVES.search(node.value) is not None
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and isinstance(node.func.value, ast.Constant)
        and isinstance(node.func.value.value, str)
    ):
        words = [*node.func.value.value.split()]
    return sum(isinstance(word, str) and _WORD.fullmatch(word) is not None for word in words) >= MIN_WORDS


def read_limits() -> dict[str, int]:
    """Return the limits that follow the tree down."""
    limits: dict[str, int] = tomllib.loads(LIMITS.read_text("utf-8"))["figures"]
    return limits


def lower_limits(figures: Mapping[str, int]) -> list[str]:
    """Write a lower limit for each figure that fell; return the names of the figures that are above their limit."""
    text, limits = LIMITS.read_text("utf-8"), read_limits()
    for name, limit in limits.items():
        text = re.sub(rf"(?m)^{name} = \d+", f"{name} = {min(limit, figures[name])}", text)
    LIMITS.write_text(text, "utf-8")
    return [name for name, limit in limits.items() if figures[name] > limit]


def _print_table(figures: Mapping[str, int], earlier: Mapping[str, int] | None, commit: str) -> None:
    columns = ["limit", "now", *([commit[:12], "change"] if earlier else [])]
    print(f"{'':14}" + "".join(f"{column:>14}" for column in columns))
    for name, limit in read_limits().items():
        row = [f"{limit:,}", f"{figures[name]:,}" + (" !" if figures[name] > limit else "")]
        if earlier:
            row += [f"{earlier[name]:,}", f"{figures[name] - earlier[name]:+,}"]
        print(f"{name:14}" + "".join(f"{cell:>14}" for cell in row))


def main() -> int:
    """Print the table, or lower the limits; return 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="print the figures of an earlier commit, too")
    parser.add_argument("--lower", action="store_true", help="write lower limits where a figure fell")
    parser.add_argument("--circles", action="store_true", help="list the modules of each import circle")
    arguments = parser.parse_args()
    files = read_tree()
    figures = measure(files)
    if arguments.circles:
        for circle in find_circles({p: ast.parse(text) for p, text in files.items() if p.startswith("src/")}):
            print(" <-> ".join(circle))
        return 0
    above = lower_limits(figures) if arguments.lower else [n for n, top in read_limits().items() if figures[n] > top]
    earlier = measure(read_tree(arguments.against)) if arguments.against else None
    _print_table(figures, earlier, arguments.against or "")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
