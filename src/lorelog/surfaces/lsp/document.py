"""What the server knows of an open file: its lines in the editor, those that it had when it was opened, and what is remembered about it.

Answers are about the file on disk, and a line that was not saved has none. Which line is which is found without a diff: lines before
the first difference keep their number, those after the last one their distance to the end. Lines end where an editor and Git end them:
pygls also ends them at form feeds and other separators, and takes .3 s for a key in a minified file, so it keeps no text here.
"""

from __future__ import annotations

import json
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
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""Codec and bytes of a unit, by the encoding that counts the columns."""
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

    def change(self, edit: Any, units: Any) -> None:
        """Take over an edit of the editor, whose columns are in the units of an encoding."""
        if not hasattr(edit, "range"):
            self.lines = split_lines(edit.text)
            return
        (first, start), (last, end) = (self._place(at, units) for at in (edit.range.start, edit.range.end))
        text = self.lines[first][:start] + edit.text + self.lines[last][end:]
        self.lines = [*self.lines[:first], *split_lines(text), *self.lines[last + 1 :]]

    def word_at(self, position: Any, units: Any) -> str:
        line, column = self._place(position, units)
        text = self.lines[line]
        first = next((at for at in range(column, 0, -1) if not _is_in_word(text[at - 1])), 0)
        return text[first : next((at for at in range(column, len(text)) if not _is_in_word(text[at])), len(text))]

    def _place(self, position: Any, units: Any) -> tuple[int, int]:
        """Return line and column of a position of the editor; those of the end if it is beyond it."""
        if position.line >= len(self.lines):
            return len(self.lines) - 1, len(self.lines[-1])
        line = self.lines[position.line]
        if line.isascii():
            return position.line, min(position.character, len(line))
        codec, size = _CODECS.get(units, _CODECS["utf-16"])
        before = line.encode(codec, "surrogatepass")[: position.character * size]
        return position.line, len(before.decode(codec, "ignore"))

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
        head = "".join(
            f"{sign * 3} {json.dumps(f'{side}/{name}', ensure_ascii=False)}\n" for sign, side in ("-a", "+b")
        )
        head += f"@@ -{next(spans)} +{next(spans)} @@\n"
        return head + "".join(f"{sign}{line}\n" for sign, lines in body for line in lines)


def open_file(path: str, text: str) -> OpenFile | None:
    """Return a file to answer about, which may be new; None for one of no project, and for a binary or huge one."""
    root, place = project_root(str(Path(path).parent)), Path(path)
    is_file = place.is_file() or not place.exists()
    if not root or not is_file or not is_below(os.path.realpath(path), os.path.realpath(root)):
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


def _is_in_word(char: str) -> bool:
    return char == "_" or char.isalnum()


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
