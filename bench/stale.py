"""Tells whether a stored result is older than the code that it measured.

A result is stale if, between its commit and now, the code of a module that its run loaded is different, or data that it read. Prose is
not code: modules are compared as syntax trees without docstrings, so comments, layout and docstrings make nothing stale, nor does a
change that was taken back. What is not Python is compared byte by byte.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.result import REPOSITORY, Result, git

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_CHANGED = re.compile(r"^:\d+ \d+ (?P<before>\w+) (?P<after>\w+) \w+\t(?P<path>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """The first commit that made a result stale."""

    commit: str
    date: str

    def __str__(self) -> str:
        return f"**stale**: the code it measures has changed since, first in `{self.commit}` ({self.date})"


def find_change(result: Result, repository: Path = REPOSITORY) -> Change | None:
    """Return the first commit after a result that changed what it measures. Without a Git history nothing is stale.

    A result without a commit, or with one that is not in this history, is compared by its day.
    """
    paths = [path for path in result.measures if path]
    if result.modules:
        data = (f":(glob){path}/**/*.{suffix}" for path in paths for suffix in ("scm", "toml", "txt"))
        paths = [*result.modules, *(path for path in paths if not path.startswith("src/")), *data]
    base = _base(result, repository)
    if not paths or base is None:
        return None
    net = git("diff", "--raw", "--no-abbrev", "--no-renames", base, "HEAD", "--", *paths, repository=repository) or ""
    if not any(_is_code(changed, repository) for changed in _CHANGED.finditer(net)):
        return None
    stale = (
        heading
        for heading, changes in _commits(_since(result, base), paths, repository)
        if not changes or any(_is_code(changed, repository) for changed in _CHANGED.finditer(changes))
    )
    commit, _, date = next(stale).partition(" ")
    return Change(commit[:7], date)


def _base(result: Result, repository: Path) -> str | None:
    """The commit that a result is compared with, or None without a history."""
    if git("rev-parse", "HEAD", repository=repository) is None:
        return None
    if result.commit and git("merge-base", "--is-ancestor", result.commit, "HEAD", repository=repository) is not None:
        return result.commit
    day = git("rev-list", "-1", f"--before={result.date}T23:59:59Z", "HEAD", repository=repository)
    return day or _EMPTY_TREE


def _since(result: Result, base: str) -> list[str]:
    """Words of `git log` for the commits after a result. Those of its day do not count, though a branch brought them later."""
    return [f"{base}..HEAD"] if base == result.commit else [f"--since={result.date}T23:59:59Z", "HEAD"]


def _commits(since: list[str], paths: list[str], repository: Path) -> Iterator[tuple[str, str]]:
    """The commits that touched these paths, the oldest first, each with its changes; at last HEAD without any, for what a merge changed."""
    words = ["log", "--reverse", "--no-merges", "--raw", "--no-abbrev", "--no-renames", "--format=%x00%h %cs", *since]
    for entry in (git(*words, "--", *paths, repository=repository) or "").split("\0")[1:]:
        heading, _, changes = entry.partition("\n")
        yield heading, changes
    yield git("show", "-s", "--format=%h %cs", "HEAD", repository=repository) or "", ""


def _is_code(changed: re.Match[str], repository: Path) -> bool:
    """Whether a change of a file is more than prose."""
    before, after = (_code(changed[side], changed["path"], repository) for side in ("before", "after"))
    return before != after


@cache
def _code(blob: str, path: str, repository: Path) -> str:
    """What counts of a file: the tree of a module without docstrings, of other files all. Nothing if there is no such file."""
    if not blob.strip("0"):
        return ""
    text = git("cat-file", "blob", blob, repository=repository) or ""
    if not path.endswith(".py"):
        return f"{blob} {text}"
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return f"{blob} {text}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # A string that is a statement does nothing: a docstring, or one below a field that describes it.
            node.body = [part for part in node.body if not _is_prose(part)]
    return ast.dump(tree)


def _is_prose(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
