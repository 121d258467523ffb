"""Reads a change: the lines that it adds and removes, and its files before and after.

Two commits, what is staged, or a file with a patch: all are read as one unified diff without context that is needed, and the new text
of a file is made from the old one by its hunks. So nothing of the working tree is read, and no filter of the repository runs. Contents
of binary, minified and very large files are left out, and said so; their names still count. Paths are the diff's words:
they are compared, and looked up in Git's objects, never opened.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from lorelog.code.git import Git, GitHistory
from lorelog.core.atomic_file import open_regular
from lorelog.core.errors import UsageError, plural

MAX_PATCH_BYTES = 16 << 20
_MAX_LINES, _MAX_FILES, _MAX_LINE_CHARS, _DIFF_S = 20_000, 2_000, 2_000, 20.0
_OPTIONS = ("--no-color", "--full-index", "-U0", "-M", "--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/")
_MARKS = ("@generated", "DO NOT EDIT", "do not edit")
"""What generators write at the top of their files."""

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Line(NamedTuple):
    """A line that a change adds or removes."""

    number: int
    text: str


class _Hunk(NamedTuple):
    start: int
    """First line, counted from 0."""
    old: list[str]
    new: list[str]


class ChangedFile:
    """A file of a change."""

    def __init__(self) -> None:
        self.old_path = self.new_path = self.blob = self.left_out = ""
        """Paths are empty before the file exists, and after it is gone; `left_out` says why its content is not known."""
        self.added: list[Line] = []
        self.removed: list[Line] = []
        self.hunks: list[_Hunk] = []
        self.old_text: str | None = None

    @property
    def path(self) -> str:
        return self.new_path or self.old_path

    @property
    def paths(self) -> list[str]:
        return list(dict.fromkeys(filter(None, (self.old_path, self.new_path))))

    @property
    def line(self) -> int:
        """The first changed line."""
        return (self.added or self.removed or [Line(1, "")])[0].number

    @cached_property
    def new_text(self) -> str | None:
        """The text after the change; None if it is not known, or the patch does not fit."""
        if self.old_text is None:
            return None
        lines = self.old_text.split("\n")
        for start, old, new in reversed(self.hunks):
            if lines[start : start + len(old)] != old:
                return None
            lines[start : start + len(old)] = new
        return "\n".join(lines)


class Change(NamedTuple):
    """A change, and what of it could not be read."""

    files: list[ChangedFile]
    notes: list[str]
    base: str
    """The commit that it changes; empty if there is none."""
    head: str
    """The commit after it; empty if it is not committed."""


def read_patch(path: str) -> str:
    """Return the text of a patch, cut if it is too large. Raise UsageError."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(MAX_PATCH_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="name a file with a unified diff") from error


def read_change(git: Git, diff: str, patch: str | None) -> Change:
    """Return the change between two commits (`A..B`, `A...B`), of a patch, or else what is staged. Raise UsageError."""
    base, head = git.head(), ""
    if not base and patch is None and git.run_text("rev-parse", "--git-dir") is None:
        raise UsageError("this is not the working tree of a Git repository", hint="run it in the repository")
    if diff:
        first, dots, last = diff.partition("..")
        base, head = _commit(git, first or "HEAD"), _commit(git, last.removeprefix(".") or "HEAD")
        if dots and last.startswith("."):
            base = git.run_text("merge-base", base, head) or _missing(git, f"common commit of {diff}")
    words = (base, head) if head else ("--cached", *filter(None, (base,)))
    if patch is None:
        output = git.run("diff", *_OPTIONS, *words, "--", timeout_s=_DIFF_S, max_bytes=MAX_PATCH_BYTES)
        if output is None:  # too large, or too slow
            names = git.run("diff", "--name-only", "-z", "--no-renames", *words, "--", timeout_s=_DIFF_S) or b""
            files = [_named(name) for name in names.decode("utf-8", "replace").split("\0") if name]
            problem = "the diff cannot be read, it is too large or objects are missing"
            note = f"{problem}: only the names of {plural(len(files), 'file')} are checked"
            return Change(files, [note], base, head)
        patch = output.decode("utf-8", "replace")
    files, notes = _bounded(parse_diff(patch))
    _read_old_texts(GitHistory(git), files, base)
    return Change(files, notes, base, head)


def _commit(git: Git, name: str) -> str:
    found = "" if name.startswith("-") else git.run_text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return found or _missing(git, f"commit {name!r}")


def _missing(git: Git, what: str) -> str:
    shallow = "the clone is shallow: fetch more of it (actions/checkout: fetch-depth: 0)" if git.is_shallow() else ""
    raise UsageError(f"there is no {what} here", hint=shallow or "name two commits: --diff main..HEAD")


def _named(name: str) -> ChangedFile:
    file = ChangedFile()
    file.old_path = file.new_path = name
    return file


def _bounded(parsed: Iterable[ChangedFile]) -> tuple[list[ChangedFile], list[str]]:
    """Return files without the contents that are left out, and what is left out."""
    files: list[ChangedFile] = []
    lines, left_out = 0, Counter[str]()
    stream = iter(parsed)
    for file in islice(stream, _MAX_FILES):
        texts = [line.text for line in (*file.added, *file.removed)]
        if any(len(text) > _MAX_LINE_CHARS for text in texts):
            file.left_out = "minified"
        elif any(mark in text for text in texts[:5] for mark in _MARKS) and file.line < 5:
            file.left_out = "generated"
        elif lines + len(texts) > _MAX_LINES:
            file.left_out = f"beyond the first {_MAX_LINES:,} lines"
        lines += 0 if file.left_out else len(texts)
        if file.left_out:
            left_out[file.left_out] += 1
            file.added, file.removed, file.hunks = [], [], []
        files.append(file)
    left_out[f"beyond the first {_MAX_FILES:,}"] = sum(1 for _ in stream)
    return files, [f"left out: {plural(count, 'file')}, {why}" for why, count in left_out.items() if count]


def _read_old_texts(history: GitHistory, files: list[ChangedFile], base: str) -> None:
    whole = [file for file in files if not file.left_out]
    if any(len(file.blob) < 40 for file in whole if file.old_path):  # a patch has the beginnings of ids, or none
        names = [file.old_path for file in whole if file.old_path]
        of_base = (history.files(base, names) if base and names else None) or {}
        for file in whole:
            file.blob = of_base.get(file.old_path, "")
    texts = history.contents(file.blob for file in whole if file.old_path and file.blob) or {}
    for file in whole:
        data = texts.get(file.blob) if file.old_path else b""
        file.old_text = None if data is None else data.decode("utf-8", "replace")


def parse_diff(text: str) -> Iterator[ChangedFile]:
    """Yield the files of a unified diff, of Git or not. Hunks are read by their counts; what is no diff is passed over."""
    lines = text.split("\n")
    at, file, is_git = 0, ChangedFile(), False
    while at < len(lines):
        line, at = lines[at], at + 1
        if line.startswith("diff --git ") or (line.startswith("--- ") and (file.hunks or not is_git)):
            if _is_inside(file):
                yield file
            file, is_git = ChangedFile(), line.startswith("diff")
        if line.startswith("@@ "):
            at = _read_hunk(lines, at, line[3:], file)
        else:
            _read_header(line, file)
    if _is_inside(file):
        yield file


def _read_header(line: str, file: ChangedFile) -> None:
    word, _, rest = line.partition(" ")
    if word == "diff":
        quote = '"' if rest.endswith('"') else ""
        last = quote + rest.rpartition(f" {quote}b/")[2]
        file.old_path, file.new_path = _unquote(f"a/{last}"), _unquote(f"b/{last}")
    elif word == "---" or line.startswith("rename from "):
        file.old_path = _unquote(rest if word == "---" else f"a/{line[12:]}")
    elif word == "+++" or line.startswith("rename to "):
        file.new_path = _unquote(rest if word == "+++" else f"b/{line[10:]}")
    elif line.startswith("new file"):
        file.old_path = ""
    elif line.startswith("deleted file"):
        file.new_path = ""
    elif word == "index":
        file.blob = rest.partition("..")[0]
    elif line.startswith(("Binary files", "GIT binary")):
        file.left_out = "binary"


def _is_inside(file: ChangedFile) -> bool:
    return bool(file.paths) and not any(path.startswith("/") or ".." in path.split("/") for path in file.paths)


def _unquote(name: str) -> str:
    """Return a path without its prefix. Git quotes names with control characters, and writes bytes as octal numbers."""
    name = name.partition("\t")[0]
    before, quote, quoted = name.partition('"')
    if quote and before in ("", "a/", "b/"):
        data, letters = bytearray(), iter(quoted.removesuffix('"'))
        for letter in letters:
            escaped = next(letters, "") if letter == "\\" else ""
            octal = escaped + next(letters, "") + next(letters, "") if escaped.isdigit() else ""
            is_octal = len(octal) == 3 and set(octal) <= set("01234567")
            text = _ESCAPES.get(escaped, escaped) if escaped else letter
            data += bytes([int(octal, 8) & 255]) if is_octal else (octal or text).encode("utf-8", "replace")
        name = before + data.decode("utf-8", "replace")
    return "" if name == "/dev/null" else name[2:] if name[:2] in ("a/", "b/") else name.removeprefix("./")


def _read_hunk(lines: list[str], at: int, head: str, file: ChangedFile) -> int:
    """Add a hunk to a file; return the number of the line after it."""
    counts = [part[1:].partition(",") for part in head.split(" ")[:2]]
    if len(counts) < 2 or not all(first.isdigit() and (not comma or size.isdigit()) for first, comma, size in counts):
        return at
    (old_at, old_left), (new_at, new_left) = [(int(first), int(size) if comma else 1) for first, comma, size in counts]
    hunk = _Hunk(old_at - (old_left > 0), [], [])
    while (old_left > 0 or new_left > 0) and at < len(lines) and lines[at][:1] in (*" -+\\", ""):
        sign, text = lines[at][:1] or " ", lines[at][1:]
        at += 1
        if sign in " -":
            hunk.old.append(text)
            old_left -= 1
        if sign in " +":
            hunk.new.append(text)
            new_left -= 1
        if sign == "+":
            file.added.append(Line(new_at, text))
        elif sign == "-":
            file.removed.append(Line(old_at, text))
        old_at, new_at = old_at + (sign in " -"), new_at + (sign in " +")
    file.hunks.append(hunk)
    return at
