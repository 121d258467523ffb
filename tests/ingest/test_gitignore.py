"""Ignore patterns mean what they mean to Git, and are matched in bounded time."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.code.repositories import git

from lorelog.core.errors import UsageError
from lorelog.core.options import ScanOptions
from lorelog.ingest.files import scan
from lorelog.ingest.gitignore import MAX_IGNORE_FILE_BYTES, MAX_PATTERN_CHARS, IgnorePatterns

_TOKENS = (
    *("a", "b", "*", "**", "?", "/", "/", "[ab]", "[!a]", "[a-c]", "\\*", "\\a", "**/", "/**", "*.", "[[:alpha:]]"),
    *("!", " ", "-", "[]a]", "[^]-]", "\\", "[", "[a/]", "[c-a]", "[[:digit:]x]", "[[:nope:]]", "#", "\\!"),
)
_NAMES = ("a", "b", "ab", "ba", "aab", "a.b", "*", "!a", "a ", "-", "]", "abc", "c", "#a", "7")
_GIT_TAKES_FOR_DIRECTORIES = re.compile(r"^!?/?[^*?\[\\]*[^*?\[\\/]\*\*")
"""Git reads `a**/b` as `a` followed by `**/b`, against its own manual."""


def decide(patterns: IgnorePatterns, path: str) -> bool:
    """Return whether a path is excluded, as a walk from the top finds it."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return any(patterns.decide(folder, is_directory=True) for folder in above) or bool(
        patterns.decide(path, is_directory=False)
    )


def test_patterns_are_decided_as_git_decides(tmp_path: Path) -> None:
    """Thousands of generated patterns and paths are decided as `git check-ignore` decides them."""
    rng = random.Random(17)
    git(tmp_path, "init", "-q")
    files: dict[str, IgnorePatterns] = {}
    paths: list[tuple[str, str]] = []
    for number in range(400):
        lines = ["".join(rng.choices(_TOKENS, k=rng.randint(1, 6))) for _ in range(rng.randint(1, 3))]
        lines = [line for line in lines if line.strip() and not _GIT_TAKES_FOR_DIRECTORIES.match(line)]
        folder = f"d{number}"
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ".gitignore").write_text("\n".join(lines) + "\n")
        files[folder] = IgnorePatterns(lines)
        paths += [(folder, "/".join(rng.choices(_NAMES, k=rng.randint(1, 4)))) for _ in range(20)]
    asked = "\0".join(f"{folder}/{path}" for folder, path in paths).encode()
    command = ["git", "-C", str(tmp_path), "check-ignore", "-z", "--no-index", "--stdin"]
    answer = subprocess.run(command, input=asked, capture_output=True, check=True).stdout.decode().split("\0")
    ignored = set(answer)
    differences = [
        ((tmp_path / folder / ".gitignore").read_text(), path)
        for folder, path in paths
        if decide(files[folder], path) != (f"{folder}/{path}" in ignored)
    ]
    assert len(ignored) > 800
    assert differences == []


_HOSTILE_PATTERNS = (
    "*a" * 16 + "b",
    "a*" * 10 + "?b",
    "[a-z]*" * 10 + "!",
    "*" * 30 + "b",
    "*a" * 490 + "b",
    "**/a/" * 150 + "b",
    "**/*a*a*a/" * 90 + "b",
    "/" + "*a*" * 300 + "/b",
    "*" + "[a-z]" * 190 + "!",
    "**/" + "?" * 900 + "*!",
)


def test_hostile_patterns_are_matched_within_seconds_of_processor_time() -> None:
    """No pattern needs more than a moment, for the longest name and for a deep path."""
    code = """if True:
        import resource, sys
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        from lorelog.ingest.gitignore import IgnorePatterns
        for line in sys.argv[1:]:
            patterns = IgnorePatterns([line])
            for path in ("a" * 255, "/".join(["a" * 100] * 40), "/".join("a" * 2000), "a/" + "a" * 255):
                assert patterns.decide(path, is_directory=False) is None
    """
    subprocess.run([sys.executable, "-c", code, *_HOSTILE_PATTERNS], check=True)


def test_a_pattern_that_is_too_long_is_reported_with_its_line(tmp_path: Path) -> None:
    """A long pattern is not used; the file and line are named, and the other lines count."""
    (tmp_path / ".gitignore").write_text("b.md\n" + "*a" * MAX_PATTERN_CHARS + "\nc.md\n")
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text("x")
    result = scan([str(tmp_path)], ScanOptions())
    assert [Path(file.path).name for file in result.files] == ["a.md"]
    (problem,) = result.problems
    assert problem.message.startswith(f"line 2 of {tmp_path}/.gitignore is not used")
    with pytest.raises(UsageError, match="longer than 1,000 characters"):
        scan([str(tmp_path)], ScanOptions(exclude=("*a" * MAX_PATTERN_CHARS,)))


def test_an_ignore_file_that_is_too_large_closes_its_directory(tmp_path: Path) -> None:
    """Rules that are not read may protect secrets, so nothing beside them is indexed."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("secret.md\n" * MAX_IGNORE_FILE_BYTES)
    for name in ("a.md", "sub/b.md"):
        (tmp_path / name).write_text("x")
    result = scan([str(tmp_path)], ScanOptions())
    assert [Path(file.path).name for file in result.files] == ["a.md"]
    assert result.unreadable_directories == (str(tmp_path / "sub"),)
    assert "sub/.gitignore" in result.problems[0].message
