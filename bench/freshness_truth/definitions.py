"""The definitions of a source tree, read by each language's own parser."""

import ast
import json
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from bench.code.truth import Tooling

HERE = Path(__file__).parent
SHINGLE = 4
SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
MOST_BYTES = 400_000
"""Larger files are generated."""


@dataclass(frozen=True)
class Definition:
    """A function, method, class or type, at one commit."""

    path: str
    name: str
    """With its container: `Class.method`."""
    kind: str
    line: int
    end: int
    shape: str

    @property
    def last(self) -> str:
        """The name without its container."""
        return self.name.rpartition(".")[2]

    @cached_property
    def pieces(self) -> frozenset[bytes]:
        """Parts of the shape, by which two definitions are compared; the own name does not count."""
        words = [word for word in self.shape.split() if self.last not in word]
        parts = {" ".join(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}
        return frozenset(blake2b(part.encode(), digest_size=6).digest() for part in parts)


def similarity(first: frozenset[bytes], second: frozenset[bytes]) -> float:
    """Return the share of common parts."""
    return len(first & second) / max(1, len(first | second))


def definitions(root: Path, paths: Sequence[str], tools: Tooling) -> dict[str, list[Definition]]:
    """Return the definitions of each file that its language's parser accepts."""
    found: dict[str, list[Definition]] = {}
    small = [path for path in paths if (root / path).is_file() and (root / path).stat().st_size <= MOST_BYTES]
    for path in small:
        if path.endswith(".py"):
            inside = python_definitions(root / path, path)
            if inside is not None:
                found[path] = inside
    go = [path for path in small if path.endswith(".go")]
    scripts = [path for path in small if path.endswith(SCRIPTS) and ".min." not in path]
    if go and tools.go is not None:
        command = [str(tools.go), "run", str(HERE / "go_definitions.go")]
        found |= dict(_told(command, root, go))
    if scripts and tools.typescript is not None:
        command = ["node", str(HERE / "typescript_definitions.mjs"), str(tools.typescript)]
        found |= dict(_told(command, root, scripts))
    return found


def _told(command: list[str], root: Path, paths: list[str]) -> Iterator[tuple[str, list[Definition]]]:
    listed = "".join(f"{root / path}\n" for path in paths)
    done = subprocess.run(command, input=listed.encode(), capture_output=True, check=True)
    for line in done.stdout.splitlines():
        told = json.loads(line)
        path = str(Path(told["path"]).relative_to(root))
        yield path, [Definition(path, *values) for values in told["definitions"]]


def python_definitions(file: Path, path: str) -> list[Definition] | None:
    """Return top-level functions and classes, and their methods; None if the file does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return None
    _strip_documentation(tree)
    return list(_python(tree.body, path, ""))


def _python(body: list[ast.stmt], path: str, container: str) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            line = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            is_class = isinstance(node, ast.ClassDef)
            kind = "class" if is_class else "method" if container else "function"
            shape = ast.dump(node).replace("(", "( ")
            yield Definition(path, container + node.name, kind, line, node.end_lineno or line, shape)
            if isinstance(node, ast.ClassDef):
                yield from _python(node.body, path, f"{container}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                yield from _python(inner, path, container)
            for handler in getattr(node, "handlers", []):
                yield from _python(handler.body, path, container)


def _strip_documentation(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                del node.body[0]
