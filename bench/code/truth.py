"""Reference answers of each language's own tools, against which the code index is measured."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
Place = tuple[str, int]
"""A name and its line."""


@dataclass(frozen=True)
class Tooling:
    """Paths of the tools; None if missing."""

    jedi: Path | None
    """A Python with jedi."""
    typescript: Path | None
    """The TypeScript compiler's module."""
    go: Path | None
    """The go command."""

    @classmethod
    def found(cls, below: Path) -> Tooling:
        """Return the tools in a folder filled by `make bench-code`, or those of the system."""
        jedi = below / "jedi" / "bin" / "python"
        typescript = below / "node_modules" / "typescript" / "lib" / "typescript.js"
        go = shutil.which("go") or next((str(item) for item in below.glob("go/**/bin/go")), None)
        has_node = shutil.which("node") is not None
        return cls(
            jedi if jedi.exists() else None,
            typescript if has_node and typescript.exists() else None,
            Path(go) if go else None,
        )


def python_definitions(path: Path) -> set[Place] | None:
    """Return functions, classes and variables of modules and classes from `ast`; None if it does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    return set(_defined(tree, in_function=False))


def _defined(node: ast.AST, *, in_function: bool) -> Iterator[Place]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name, child.lineno  # of the keyword; decorators have lines of their own
            if isinstance(child, ast.ClassDef):
                yield from _attributes(child)
            yield from _defined(child, in_function=in_function or not isinstance(child, ast.ClassDef))
            continue
        if not in_function and isinstance(child, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        yield name.id, name.lineno
        if not isinstance(child, ast.Lambda):
            yield from _defined(child, in_function=in_function)


def _attributes(node: ast.ClassDef) -> Iterator[Place]:
    """Yield the attributes first assigned to `self` in methods, unless the class body defines them."""
    inside = {name for name, _ in _defined(ast.Module(node.body, []), in_function=False)}
    first: dict[str, int] = {}
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.args.args:
            own = method.args.args[0].arg
            written = (
                item for item in ast.walk(method) if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store)
            )
            for item in written:
                if isinstance(item.value, ast.Name) and item.value.id == own and item.attr not in inside:
                    first[item.attr] = min(first.get(item.attr, item.lineno), item.lineno)
    yield from first.items()


def ctags_definitions(paths: Sequence[Path], language: str, options: Sequence[str]) -> dict[str, dict[Place, str]]:
    """Return the definitions of universal-ctags by file, with their kinds."""
    words = [
        "ctags",
        "-f",
        "-",
        "--sort=no",
        "--excmd=number",
        "--fields=+Kn",
        f"--language-force={language}",
        *options,
    ]
    done = subprocess.run(
        [*words, "-L", "-"],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    found: dict[str, dict[Place, str]] = {str(path): {} for path in paths}
    for line in done.stdout.splitlines():
        name, path, number, kind, *_ = [*line.split("\t"), "", "", ""]
        if number.rstrip(';"').isdigit() and not name.lower().startswith(("__anon", "anonymous")):
            found[path][name.replace("operator ", "operator"), int(number.rstrip(';"'))] = kind
    return found


def typescript_definitions(paths: Sequence[Path], compiler: Path) -> dict[str, set[Place]]:
    """Return the definitions of the TypeScript compiler in files without syntax errors."""
    done = subprocess.run(
        ["node", str(HERE / "typescript_truth.mjs"), str(compiler)],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        check=True,
    )
    told = (json.loads(line) for line in done.stdout.splitlines())
    return {
        item["path"]: {(name, line) for name, line, _ in item["definitions"]} for item in told if not item["broken"]
    }


def go_definitions(paths: Sequence[Path], go: Path) -> dict[str, set[Place]]:
    """Return the definitions of `go/parser` in files that parse."""
    done = subprocess.run(
        [str(go), "run", str(HERE / "go_truth.go")],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        check=True,
    )
    told = (json.loads(line) for line in done.stdout.splitlines())
    return {
        item["path"]: {(name, line) for name, line in zip(item["names"], item["lines"], strict=True)} for item in told
    }


@dataclass(frozen=True)
class Asked:
    """A definition to query: position of its name (line from 1, column from 0) and kind."""

    path: str
    name: str
    line: int
    column: int
    kind: str


def sample(root: Path) -> list[Asked]:
    """Return the functions, classes, methods and module variables of a package, without dunder names."""
    found = []
    for path in sorted(root.rglob("*.py")):
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        lines = text.split("\n")
        for name, line, column, kind in _askable(tree, lines):
            if not (name.startswith("__") and name.endswith("__")):
                found.append(Asked(str(path), name, line, column, kind))
    return found


def _askable(tree: ast.Module, lines: Sequence[str]) -> Iterator[tuple[str, int, int, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            yield node.name, node.lineno, lines[node.lineno - 1].index(node.name, node.col_offset + 3), kind
        if isinstance(node, ast.ClassDef):
            for inside in node.body:
                if isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef):
                    at = lines[inside.lineno - 1].index(inside.name, inside.col_offset + 3)
                    yield inside.name, inside.lineno, at, "method"
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.lineno, node.targets[0].col_offset, "variable"


def jedi_references(root: Path, asked: Sequence[Asked], python: Path) -> list[set[tuple[str, int, int]] | None]:
    """Return jedi's references to each definition (file, line, column from 0); None on failure."""
    wanted = {"root": str(root), "asked": [[item.path, item.line, item.column] for item in asked]}
    done = subprocess.run(
        [str(python), str(HERE / "jedi_truth.py")], input=json.dumps(wanted), capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [None if places is None else {(path, line, column) for path, line, column in places} for places in told]


def calls_in(path: str) -> set[tuple[int, int]]:
    """Return the positions of called names in a file: line, and column from 0 after the last dot."""
    try:
        text = Path(path).read_text("utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                found.add((called.lineno, called.col_offset))
            elif (
                isinstance(called, ast.Attribute)
                and called.end_lineno is not None
                and called.end_col_offset is not None
            ):
                found.add((called.end_lineno, called.end_col_offset - len(called.attr.encode())))
    return found


def strings_in(path: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the ranges of strings in a file: jedi does not resolve annotations in strings."""
    try:
        tree = ast.parse(Path(path).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
