"""What the server knows of an open file: its lines in the editor, those that it had when it was opened, and what is remembered about it.

Answers are about the file on disk, and a line that was not saved has none. Which line is which is found without a diff: lines before
the first difference keep their number, those after the last one their distance to the end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from lorelog.core.paths import is_below
from lorelog.light.git_location import find_worktree, walk_up

MAX_CHARS = 2 << 20
_MAX_CHANGED, _CONTEXT = 500, 3
_PROJECT_FILES = (".lorelog.toml", ".lorelog")
Memory = Mapping[str, Any]


class OpenFile(Struct):
    """A file of a project, open in an editor."""

    path: str
    root: str
    opened: Sequence[str]
    """Its lines when it was opened: what differs from them is the edit."""
    lines: Sequence[str]
    memories: Sequence[Memory] = ()
    reasons: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    """Why lines exist, by number, text and time; emptied when the file is saved."""

    def saved(self) -> Sequence[str]:
        """Return the lines on disk; none if they cannot be read."""
        try:
            with Path(self.path).open("rb") as file:
                return split_lines(file.read(MAX_CHARS).decode("utf-8", "replace"))
        except OSError:
            return ()

    def patch(self) -> str:
        """Return what changed since the file was opened as a unified diff of one hunk; empty if nothing did, or too much."""
        before, after = _common_ends(self.opened, self.lines)
        old, new = (lines[before : len(lines) - after] for lines in (self.opened, self.lines))
        if not (old or new) or max(len(old), len(new)) > _MAX_CHANGED:
            return ""
        first = max(0, before - _CONTEXT)
        lead, tail = self.lines[first:before], self.lines[len(self.lines) - after :][:_CONTEXT]
        body = [(" ", lead), ("-", old), ("+", new), (" ", tail)]
        around, name = len(lead) + len(tail), os.path.relpath(self.path, self.root)
        spans = (f"{first + (count > 0)},{count}" for count in (around + len(old), around + len(new)))
        head = f"--- a/{name}\n+++ b/{name}\n@@ -{next(spans)} +{next(spans)} @@\n"
        return head + "".join(f"{sign}{line}\n" for sign, lines in body for line in lines)


def open_file(path: str, text: str) -> OpenFile | None:
    """Return a file to answer about; None for one of no project, and for a binary or huge one."""
    root = project_root(str(Path(path).parent))
    if not root or not Path(path).is_file() or not is_below(os.path.realpath(path), os.path.realpath(root)):
        return None
    if len(text) > MAX_CHARS or "\0" in text:
        return None
    lines = split_lines(text)
    return OpenFile(path, root, lines, lines)


def project_root(directory: str) -> str:
    """Return the working tree of a directory, or the folder above it that is set up as a project; empty if there is none."""
    _, tree, is_repository = find_worktree(directory)
    if is_repository:
        return tree
    above = walk_up(os.path.realpath(directory))
    return next((each for each in above if any(Path(each, name).exists() for name in _PROJECT_FILES)), "")


def split_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def same_line(number: int, lines: Sequence[str], others: Sequence[str]) -> int | None:
    """Return the number that a line has in another state of its file, both from 0; None if it was changed."""
    before, after = _common_ends(lines, others)
    if 0 <= number < before:
        return number
    return number - len(lines) + len(others) if len(lines) - after <= number < len(lines) else None


def _common_ends(lines: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return how many lines two states of a file have in common at the start and at the end."""
    if lines == others:
        return len(lines), 0
    most = min(len(lines), len(others))
    before = next((at for at in range(most) if lines[at] != others[at]), most)
    rest = range(1, most - before + 1)
    return before, next((at - 1 for at in rest if lines[-at] != others[-at]), most - before)
