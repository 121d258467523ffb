"""Reads folders of Markdown for importers: which files, their front matter, their sections.

A folder may come from anywhere. Links that lead out of it are not followed, special files are not opened, and a file that is
too large, not text, or has a name that is not text is named and left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    SkippedItem,
    link_problem,
    modification_time,
    parse_time,
)
from lorelog.ingest.metadata import day_from_filename, front_matter_length
from lorelog.ingest.outline import read_outline, read_sections

MAX_NOTE_BYTES = 4_000_000
MAX_FILES = 100_000
_LONG_NOTE_CHARS = 6_000
"""A note up to this length is one entry; a longer one is an entry per section."""
_HIDDEN_FOLDERS = frozenset({"node_modules", "__pycache__"})
_KEY = re.compile(r"""(["']?)([\w.@-]+)\1[ \t]*:(?:[ \t]+(.*)|[ \t]*)$""")
_MAX_MATTER_LINES = 500


class MarkdownNote(Struct, frozen=True):
    """A Markdown file: its front matter and its text."""

    path: Path
    name: str
    """Path below the folder, with slashes."""
    matter: Mapping[str, Any]
    text: str
    first_line: int
    """Number of the text's first line in the file."""

    @property
    def at(self) -> datetime | None:
        """When it was written: by its front matter, its name, or its modification time."""
        for name in ("date", "created", "created_at", "updated", "modified", "timestamp"):
            if time := parse_time(self.matter.get(name)):
                return time
        return parse_time(day_from_filename(str(self.path))) or modification_time(self.path)


def walk_files(
    root: Path, suffixes: Sequence[str] = (".md",), *, hidden: bool = False, within: Path | None = None
) -> Iterator[Path | SkippedItem]:
    """Yield the regular files below a folder in a stable order, or the file itself, and what is left out and why.

    No link is followed out of the folder, nor out of `within`, if the folder or file is said to be in it.
    """
    problem = link_problem(root, within) if within else ""
    if problem or root.is_file():
        problem = problem or _file_problem(root, root)
        yield SkippedItem(root.name, problem) if problem else root
        return
    count = 0
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = sorted(
            name for name in names if (hidden or not name.startswith(".")) and name not in _HIDDEN_FOLDERS
        )
        for link in (path for name in names if (path := Path(folder, name)).is_symlink()):
            if problem := link_problem(link, root):
                yield SkippedItem(os.path.relpath(link, root), problem)
        for name in sorted(files):
            if not name.lower().endswith(tuple(suffixes)) or (name.startswith(".") and not hidden):
                continue
            path = Path(folder, name)
            shown = os.path.relpath(path, root).encode("utf-8", "replace").decode()
            problem = _file_problem(path, root)
            count += 1
            if count > MAX_FILES:
                yield SkippedItem(str(root), f"it has more than {MAX_FILES:,} files; the rest is left out")
                return
            yield SkippedItem(shown, problem) if problem else path


def _file_problem(path: Path, root: Path) -> str:
    """Return why a file is not read; empty if it is."""
    if str(path).encode("utf-8", "replace").decode() != str(path):
        return "its name is not UTF-8"
    try:
        if problem := link_problem(path, root):
            return problem
        status = path.stat()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    return f"it is larger than {MAX_NOTE_BYTES:,} bytes" if status.st_size > MAX_NOTE_BYTES else ""


def read_note(path: Path, root: Path) -> MarkdownNote | SkippedItem:
    """Read a Markdown file below a folder."""
    name = path.name if path == root else Path(os.path.relpath(path, root)).as_posix()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(MAX_NOTE_BYTES + 1)
    except OSError as error:
        return SkippedItem(name, f"it cannot be read: {error.strerror}")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return SkippedItem(name, "it is not UTF-8 text")
    if len(data) > MAX_NOTE_BYTES or "\0" in text:
        return SkippedItem(name, "it is not text of a reasonable size")
    lines = text.split("\n")
    length = front_matter_length(lines) if lines else 0
    matter = parse_matter(lines[1 : length - 1]) if length else {}
    return MarkdownNote(path, name, matter, "\n".join(lines[length:]).strip("\n"), length + 1)


def read_notes(root: Path, within: Path | None = None) -> Iterator[MarkdownNote | SkippedItem]:
    """Yield the Markdown files below a folder, and those that cannot be read; see `walk_files`."""
    for path in walk_files(root, within=within):
        yield path if isinstance(path, SkippedItem) else read_note(path, root)


def read_entries(
    notes: Iterable[MarkdownNote | SkippedItem], read: Callable[[MarkdownNote], Iterable[ImportedItem]]
) -> Iterator[ImportedItem]:
    """Yield what `read` returns for each note with text, and what is left out and why."""
    for note in notes:
        if isinstance(note, SkippedItem):
            yield note
        elif note.text.strip():
            yield from read(note)
        else:
            yield SkippedItem(note.name, "it has no text")


def make_entry(note: MarkdownNote, heading: str, text: str, *, kind: str = "note", **fields: Any) -> ImportedEntry:
    place = f"{note.name}, {heading}" if heading else note.name
    defaults = {"type": "note", "at": note.at, "key": f"{note.name}#{heading}"}
    return ImportedEntry(text=text, kind=kind, place=place, **(defaults | fields))


def split_note(note: MarkdownNote, *, always: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (heading path, text) of a note: whole if it is short, else by section. The text includes its headings."""
    if not always and len(note.text) <= _LONG_NOTE_CHARS:
        yield "", note.text
        return
    outline = read_outline("x\n\n" + note.text)  # the lines in front keep a leading `---` from being front matter
    lines = list(outline.lines)
    for section in read_sections(outline):
        first = section.first if section.level else max(section.first, 2)
        body = "\n".join(lines[(section.body if section.level else first) : section.last + 1]).strip("\n")
        if body.strip() and section.last >= 2:
            title = " > ".join(section.path)
            yield title, f"**{title}**\n\n{body}" if title else body


def parse_matter(lines: Sequence[str]) -> dict[str, Any]:
    """Parse front matter: texts, lists of texts, in block or flow style, and flat objects in block style. Anything else is left out.

    A subset of YAML without anchors, tags and types: a full parser on untrusted files is a risk for nothing.
    """
    values: dict[str, Any] = {}
    lines = [line.rstrip() for line in lines[:_MAX_MATTER_LINES] if line.strip() and not line.lstrip().startswith("#")]
    position = 0
    while position < len(lines):
        match = _KEY.match(lines[position])
        position += 1
        if match is None:
            continue
        start = position
        while position < len(lines) and (lines[position][:1] in " \t" or lines[position].startswith("- ")):
            position += 1
        if match[3] or start == position:
            values[match[2]] = parse_flow((match[3] or "").strip())
            continue
        block = list(map(str.strip, lines[start:position]))
        items = [parse_flow(line[1:].strip()) for line in block if line.startswith("- ") or line == "-"]
        values[match[2]] = items or {
            key[2]: parse_flow((key[3] or "").strip()) for key in map(_KEY.match, block) if key
        }
    return values


def parse_flow(text: str) -> Any:
    """Parse a value on one line: a text, JSON, or a list `[a, b]`."""
    if text[:1] in '[{"':
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    if text.startswith("[") and text.endswith("]"):
        return [parse_flow(part) for part in _split_flow(text[1:-1]) if part]
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    return text.split(" #", 1)[0].strip()


def _split_flow(text: str) -> list[str]:
    """Split at the commas that are not inside quotes."""
    parts = [""]
    for piece in text.split(","):
        if parts[-1][:1] in {'"', "'"} and (len(parts[-1]) == 1 or parts[-1][-1] != parts[-1][0]):
            parts[-1] += f",{piece.rstrip()}"
        else:
            parts.append(piece.strip())
    return parts


def matter_list(value: object) -> list[str]:
    """Return the texts of a front matter value: a list, or a text with commas."""
    if isinstance(value, str):
        return [word for part in value.split(",") if (word := part.strip().lstrip("#"))]
    return [text for item in (value if isinstance(value, list) else ()) if (text := str(item).strip().lstrip("#"))]
