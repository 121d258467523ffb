"""What each line of a Markdown text is: heading, fence, front matter, comment, or just text.

One pass, linear in the text whatever it holds. It follows CommonMark where a heading is at stake and departs from it
where a memory would be lost or a title would not be one:

- A line longer than 500 characters, or with a bare carriage return inside, is text even behind a `#`: titles are kept
  with every chunk below them, and what is only in a title is not searched.
- A fence inside a list item (indented by four or more, or behind a list marker) ends at the latest before a line that
  is not indented. We do not parse lists, and an unclosed one must not swallow the headings that follow.
- A setext heading needs a paragraph of exactly one line above its underline.

Lines are numbered from 0 here; chunks count from 1.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lorelog.ingest.frontmatter import front_matter_length
from lorelog.ingest.lines_comments import OPEN, Comment, CommentReader

MAX_TITLE = 500

_MARKS = frozenset("#`~=-+*0123456789")
_FENCE = re.compile(r"[ \t]*((?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*)(`{3,}|~{3,})")
_NOT_A_TITLE = re.compile(
    r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)"  # list item
    r"|[>|]"  # quote, table
    r"|<[A-Za-z/!?]"  # HTML block
    r"|\[[^\]]+\]:"  # link definition
)
_BREAK = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and the lines it stands on: one, or two when it is underlined."""

    first: int
    last: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Outline:
    """A text as lines, and what is known of them."""

    lines: Sequence[str]
    headings: Sequence[Heading]
    whole: Mapping[int, int]
    """Fences and front matter, which are best not cut: first line to last line."""
    comments: Sequence[Comment]
    hidden: Mapping[int, Sequence[tuple[int, int]]]
    """The columns of a line that belong to comments."""
    front_matter: int
    """How many lines at the top are front matter."""

    def visible(self, number: int, start: int = 0, end: int | None = None) -> str:
        """Return a line, or a part of it, without comments."""
        line = self.lines[number]
        stop = len(line) if end is None else end
        spans = self.hidden.get(number)
        if not spans:
            return line[start:stop]
        kept: list[str] = []
        position = start
        for index in range(max(0, bisect_left(spans, (start, 0)) - 1), len(spans)):
            first, last = spans[index]
            if first >= stop:
                break
            if last > position:
                kept.append(line[position:first])
                position = last
        kept.append(line[position:stop])
        return "".join(kept)

    def has_text(self, first: int, last: int) -> bool:
        """Tell whether anything but blanks and comments stands on these lines."""
        return any(self.visible(number).strip() for number in range(first, last + 1))


def read_outline(text: str) -> Outline:
    """Classify the lines of a text."""
    return _Walk(text.split("\n")).outline()


def is_blank(line: str) -> bool:
    return not line or line.isspace()


class _Walk:
    """The pass over the lines. `_barrier` is the last line that cannot belong to a paragraph."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._headings: list[Heading] = []
        self._whole: dict[int, int] = {}
        self._comments = CommentReader(lines)
        self._front = front_matter_length(lines)
        self._barrier = self._front - 1
        if self._front:
            self._whole[0] = self._front - 1

    def outline(self) -> Outline:
        number = self._front
        count = len(self._lines)
        while number < count:
            line = self._lines[number]
            bare = line.lstrip(" \t")
            if (bare and bare[0] in _MARKS) or OPEN in line:
                number = self._take(number, line, bare)
            number += 1
        return Outline(
            lines=self._lines,
            headings=self._headings,
            whole=self._whole,
            comments=self._comments.comments,
            hidden=self._comments.hidden,
            front_matter=self._front,
        )

    def _take(self, number: int, line: str, bare: str) -> int:
        """Classify what begins on a line; return its last line."""
        if ("```" in line or "~~~" in line) and (end := self._fence_end(number, line)) >= 0:
            self._whole[number] = self._barrier = end
            return end
        shallow = _indent(line, bare) <= 3
        if shallow and bare[0] == "#" and self._take_hashes(number, bare):
            return number
        if shallow and bare[0] in "=-" and self._take_underline(number, bare):
            return number
        if OPEN not in line:
            return number
        last = self._comments.read(number)
        if last > number or (bare.startswith(OPEN) and number in self._comments.hidden):
            self._barrier = last
        return last

    def _fence_end(self, number: int, line: str) -> int:
        """Return the last line of the fence that opens here, or -1 when none does."""
        opening = _FENCE.match(line)
        if not opening or (opening[2][0] == "`" and "`" in line[opening.end() :]):
            return -1
        indent = _indent(line, line[opening.start(2) :])
        in_list = bool(opening[1]) or indent >= 4
        mark = opening[2]
        for later in range(number + 1, len(self._lines)):
            other = self._lines[later]
            bare = other.strip()
            if bare.startswith(mark) and not bare.strip(mark[0]) and _indent(other, other.lstrip(" \t")) <= indent + 3:
                return later
            if in_list and bare and other[0] not in " \t":
                return self._last_filled(later - 1)
        return len(self._lines) - 1

    def _last_filled(self, number: int) -> int:
        while is_blank(self._lines[number]):
            number -= 1
        return number

    def _take_hashes(self, number: int, bare: str) -> bool:
        level = len(bare) - len(bare.lstrip("#"))
        if level > 6 or (len(bare) > level and not bare[level].isspace()) or not _may_be_title(bare):
            return False
        self._comments.read(number, one_line=True)
        title = self._title(number).lstrip("#").strip()
        unclosed = title.rstrip("#")
        if unclosed != title and (not unclosed or unclosed[-1].isspace()):
            title = unclosed.rstrip()
        self._headings.append(Heading(number, number, level, title))
        self._barrier = number
        return True

    def _take_underline(self, number: int, bare: str) -> bool:
        above = number - 1
        if bare.rstrip().strip(bare[0]) or above <= self._barrier:
            return False
        title = self._lines[above].lstrip(" \t")
        if is_blank(title) or _indent(self._lines[above], title) > 3 or not _may_be_title(title):
            return False
        if _NOT_A_TITLE.match(title) or _BREAK.match(title) or not self._opens_paragraph(above):
            return False
        self._headings.append(Heading(above, number, 1 if bare[0] == "=" else 2, self._title(above)))
        self._barrier = number
        return True

    def _opens_paragraph(self, number: int) -> bool:
        before = number - 1
        if before <= self._barrier:
            return True
        line = self._lines[before]
        return is_blank(line) or _BREAK.match(line) is not None

    def _title(self, number: int) -> str:
        line = self._lines[number]
        for first, last in reversed(self._comments.hidden.get(number, ())):
            line = line[:first] + line[last:]
        return line.strip()


def _indent(line: str, bare: str) -> int:
    """Return the width of what stands before `bare`, tabs reaching to the next multiple of four."""
    before = line[: len(line) - len(bare)]
    return len(before.expandtabs(4)) if before else 0


def _may_be_title(bare: str) -> bool:
    return len(bare) <= MAX_TITLE and "\r" not in bare.rstrip()
