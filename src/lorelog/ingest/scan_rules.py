"""Which paths below a root are left out: `exclude` patterns and ignore files, with gitignore's semantics.

The rules of a directory are those of its parent plus its own ignore files; the last pattern that matches decides, and
`exclude` has the last word over all files. As in git, nothing below an excluded directory can be brought back.

pathspec takes 57 ms to import, more than a small scan; so it is imported when there is a pattern to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorelog.core.errors import UsageError

Match = Callable[[str], bool | None]
"""Whether a pattern decides to leave a path out (True), to keep it (False), or says nothing of it (None)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in force in one directory."""

    layers: tuple[tuple[str, Match], ...] = ()
    """Base directory and patterns of each source of rules; the later decides."""
    override: tuple[tuple[str, Match], ...] = ()

    def below(self, directory: str, lines: Sequence[str]) -> Rules:
        """Return the rules of a directory that holds an ignore file of these lines."""
        return Rules((*self.layers, (directory, _compile(lines))), self.override)

    def exclude(self, path: str, *, is_directory: bool) -> bool:
        """Tell whether an absolute path is left out."""
        for base, match in reversed((*self.layers, *self.override)):
            relative = path[len(base.rstrip("/")) + 1 :]
            decision = match(relative + "/" if is_directory else relative)
            if decision is not None:
                return decision
        return False


def root_rules(root: str, exclude: Sequence[str]) -> Rules:
    """Return the rules at a root. Raise UsageError when a pattern is malformed"""
    patterns = [pattern for pattern in exclude if pattern.strip()]
    for pattern in patterns:
        try:
            _compile([pattern])
        except ValueError as error:
            raise UsageError(
                f"The exclude pattern {pattern!r} is malformed", hint="write it as in a .gitignore file"
            ) from error
    return Rules(override=((root, _compile(patterns)),)) if patterns else Rules()


def read_ignore_file(path: Path) -> list[str]:
    """Return an ignore file's lines; those that are no patterns are passed over, as git does. May raise OSError."""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except FileNotFoundError:
        return []  # it went after its directory was listed
    try:
        _compile(lines)
    except ValueError:
        return [line for line in lines if _is_pattern(line)]
    return lines


def _is_pattern(line: str) -> bool:
    try:
        _compile([line])
    except ValueError:
        return False
    return True


def _compile(lines: Sequence[str]) -> Match:
    from pathspec import GitIgnoreSpec

    spec: Any = GitIgnoreSpec.from_lines(lines)

    def match(relative: str) -> bool | None:
        decision: bool | None = spec.check_file(relative).include
        return decision

    return match


def real_paths(paths: Sequence[str]) -> frozenset[str]:
    return frozenset(os.path.realpath(path) for path in paths)
