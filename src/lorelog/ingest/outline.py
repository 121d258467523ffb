"""The structure of a Markdown text: comments, headings, fences, front matter and sections.

One pass, linear in the length of the text. Lines are numbered from 0 here; chunks count from 1. The rules are
CommonMark's except where following them would lose a memory or produce an unusable title:

- An unclosed comment is plain text: a forgotten `-->` must not hide the rest of a journal. A comment is unclosed if
  another `<!--` follows on a later line before any `-->`, if the text ends, or, for a comment inside a paragraph, if
  the paragraph ends. Each rule stops the search where the next one starts, so 10,000 unclosed comments cost one pass.
- A comment in inline code is text. Code spans are matched within a line only.
- A line longer than 500 characters, or with a bare carriage return inside, is text even after a `#`: titles are stored
  with every chunk below them, and text that is only in a title is not searched.
- A fence inside a list item (indented by four or more, or after a list marker) ends at the latest before a line that
  is not indented. Lists are not parsed, and an unclosed fence must not swallow the headings after it.
- A setext heading needs a paragraph of exactly one line above its underline.
- Plain text (`index.extensions`) is read like Markdown. Where the suffix says that it is another language, only the headings of that
  one count, and no fences.
- With a limit of headings, neighbouring sections from the first one beyond it on are merged into sections without a heading: a file
  of 100,000 headings is still found by every word in it, and costs no more than its size. What is before the limit stays as it is, so
  that a journal that grows beyond it keeps its memories.

A `Section` excludes its subsections, so each line belongs to one section and an anchor applies only to the text under
its own heading. `section_bounds` includes them, because a reader who expands a chunk wants the whole entry.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from lorelog.ingest.files import ParseTimer
from lorelog.ingest.metadata import day_from_filename, front_matter_length, is_front_matter_fence

COMMENT_OPEN = "<!--"
COMMENT_CLOSE = "-->"

_COMMENT_TOKEN = re.compile("`+|<!--")


class Comment(Struct, frozen=True):
    """An HTML comment: its first line (from 0) and the text between its delimiters."""

    line: int
    text: str


class CommentReader:
    """Collects the comments of a text line by line, and the columns they hide."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._spans: tuple[int, dict[int, int]] = (-1, {})
        self.reach = -1
        """The last line that was read to find the end of a comment."""
        self.comments: list[Comment] = []
        self.hidden: dict[int, list[tuple[int, int]]] = {}

    def read(self, number: int, *, one_line: bool = False) -> int:
        """Hide the comments that begin on a line; return the last line of the last one."""
        position = 0
        while (start := self._next_open(number, position)) >= 0:
            line = self._lines[number]
            close = line.find(COMMENT_CLOSE, start + 2)  # `<!-->` and `<!--->` close themselves
            if close >= 0:
                self.hidden.setdefault(number, []).append((start, close + 3))
                self.comments.append(Comment(number, line[start + 4 : close]))
                position = close + 3
                continue
            last = -1 if one_line else self._closing_line(number, start)
            if last < 0:
                break
            lines = self._lines
            end = lines[last].find(COMMENT_CLOSE)
            inner = [line[start + 4 :], *lines[number + 1 : last], lines[last][:end]]
            self.comments.append(Comment(number, "\n".join(inner)))
            for hidden in range(number, last + 1):
                first = start if hidden == number else 0
                self.hidden.setdefault(hidden, []).append((first, end + 3 if hidden == last else len(lines[hidden])))
            position, number = end + 3, last
        return number

    def _next_open(self, number: int, position: int) -> int:
        """Return the column of the next `<!--` that is not in inline code, or -1."""
        line = self._lines[number]
        start = line.find(COMMENT_OPEN, position)
        if start < 0:
            return -1
        if self._spans[0] != number:  # once per line: it may have 100,000 comments
            self._spans = (number, _code_spans(line) if "`" in line else {})
        spans = self._spans[1]
        if not spans:
            return start
        while token := _COMMENT_TOKEN.search(line, position):
            if token[0] == COMMENT_OPEN:
                return token.start()
            position = spans.get(token.start(), token.end())
        return -1

    def _closing_line(self, number: int, start: int) -> int:
        """Return the line on which a comment closes that is open at the end of line `number`, or -1."""
        inline = bool(self._lines[number][:start].strip())
        for later in range(number + 1, len(self._lines)):
            line = self._lines[later]
            close = line.find(COMMENT_CLOSE)
            reopened = line.find(COMMENT_OPEN)
            if close >= 0 and (reopened < 0 or close < reopened):
                self.reach = max(self.reach, later)
                return later
            if reopened >= 0 or (inline and not line.strip()):
                self.reach = max(self.reach, later)
                return -1
        self.reach = len(self._lines)
        return -1


def _code_spans(line: str) -> dict[int, int]:
    """Map the column of each run of backticks to the end of the code span it would open."""
    following: dict[int, int] = {}
    spans: dict[int, int] = {}
    for run in reversed([token for token in _COMMENT_TOKEN.finditer(line) if token[0] != COMMENT_OPEN]):
        length = run.end() - run.start()
        if length in following:
            spans[run.start()] = following[length]
        following[length] = run.end()
    return spans


MAX_TITLE_CHARS = 500
MAX_HEADINGS = 4_000
"""Headings of a file that divide its text into chunks."""
MAX_JOURNAL_HEADINGS = 50_000
"""The same of a journal: each entry is a memory with an id of its own, and agents may add thousands a day."""
MERGED_CHARS = 1_000
"""Sections beyond the limit are merged until they have so many characters."""

_FENCE_START_CHARS = frozenset("`~-+*0123456789")
_HEADING_SIGNS = {".rst": ("", "#*=-~^\"'+"), ".adoc": ("=", ""), ".org": ("*", "")}
"""The sign before a heading, and those of lines below one in the order of their levels, by suffix; others are as in Markdown."""
_LINES_PER_CHECK = 1_024
_FENCE = re.compile(r"[ \t]*((?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*)(`{3,}|~{3,})")
_NOT_A_TITLE = re.compile(
    r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)"  # list item
    r"|[>|]"  # quote, table
    r"|<[A-Za-z/!?]"  # HTML block
    r"|\[[^\]]+\]:"  # link definition
)
_THEMATIC_BREAK = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")


class Heading(Struct, frozen=True):
    """A heading and its lines: one, or more if it is underlined. Level 0 begins merged sections, and has no line."""

    first: int
    last: int
    level: int
    title: str


class Outline(Struct, frozen=True, kw_only=True):
    """The lines of a text and their classification."""

    lines: Sequence[str]
    headings: Sequence[Heading]
    atomic_blocks: Mapping[int, int]
    """Fences and front matter, which should not be cut: first line to last line."""
    comments: Sequence[Comment]
    hidden: Mapping[int, Sequence[tuple[int, int]]]
    """Columns covered by comments, by line."""
    front_matter: int
    """Number of front matter lines at the top."""
    last_safe_heading: int = -1
    """Index of the last heading before which nothing depends on the text after its line; -1 if there is none."""

    @property
    def undivided_from(self) -> int:
        """First line of the text beyond the limit of headings; the number of lines if there is none."""
        return next((heading.first for heading in self.headings if not heading.level), len(self.lines))

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
        """Return True if these lines contain anything except blanks and comments."""
        return any(self.visible(number).strip() for number in range(first, last + 1))


def heading_limit(source: str) -> int:
    """Return how many headings of a file divide its text; a journal is a day's file in a folder named `memory`."""
    folder, _, name = source.rpartition("/")
    is_journal = folder.endswith("/memory") and name == f"{day_from_filename(name)}.md" != ".md"
    return MAX_JOURNAL_HEADINGS if is_journal else MAX_HEADINGS


def read_outline(
    text: str, *, source: str = "", max_headings: int = sys.maxsize, timer: ParseTimer | None = None
) -> Outline:
    """Classify the lines of a text; raise SourceError if `timer` runs out. The suffix of `source` tells what a heading is."""
    signs = _HEADING_SIGNS.get(PurePath(source).suffix.lower(), ("#", "=-"))
    return _OutlineParser(text.split("\n"), max_headings, *signs).parse(timer)


def is_blank(line: str) -> bool:
    return not line or line.isspace()


class _OutlineParser:
    """Classifies the lines in one pass. `_barrier` is the last line that cannot belong to a paragraph."""

    def __init__(self, lines: list[str], max_headings: int, sign: str, underlines: str) -> None:
        self._lines = lines
        self._sign, self._underlines = sign, underlines
        self._is_markdown = sign == "#"
        self._block_chars = _FENCE_START_CHARS.union(sign, underlines)
        self._headings: list[Heading] = []
        self._max_headings = max_headings
        self._start_chars = self._block_chars
        self._next_merged = 0
        self._atomic_blocks: dict[int, int] = {}
        self._comments = CommentReader(lines)
        self._front = front_matter_length(lines)
        # The last line that was read to classify one before it; all of them if front matter may be closed further down.
        self._reach = len(lines) if is_front_matter_fence(lines[0]) and not self._front else self._front - 1
        self._last_safe_heading = -1
        self._barrier = self._front - 1
        if self._front:
            self._atomic_blocks[0] = self._front - 1

    def parse(self, timer: ParseTimer | None) -> Outline:
        number = self._front
        count = len(self._lines)
        next_check = _LINES_PER_CHECK if timer else count
        while number < count:
            if timer and number >= next_check:
                timer.check()
                next_check = number + _LINES_PER_CHECK
            line = self._lines[number]
            if self._next_merged and number >= self._next_merged:
                self._start_chars = self._block_chars
            bare = line.lstrip(" \t")
            if (bare and bare[0] in self._start_chars) or COMMENT_OPEN in line:
                number = self._classify(number, line, bare)
            number += 1
        return Outline(
            lines=self._lines,
            headings=self._headings,
            atomic_blocks=self._atomic_blocks,
            comments=self._comments.comments,
            hidden=self._comments.hidden,
            front_matter=self._front,
            last_safe_heading=self._last_safe_heading,
        )

    def _classify(self, number: int, line: str, bare: str) -> int:
        """Classify the block that begins on a line; return its last line."""
        may_fence = self._is_markdown and ("```" in line or "~~~" in line)
        if may_fence and (end := self._fence_end(number, line)) >= 0:
            self._atomic_blocks[number] = self._barrier = end
            return end
        shallow = self._start_chars is self._block_chars and _indent(line, bare) <= (3 if self._is_markdown else 0)
        if shallow and bare[0] == self._sign and self._parse_atx_heading(number, bare):
            return number
        if shallow and bare[0] in self._underlines and self._parse_setext_heading(number, bare):
            return number
        if COMMENT_OPEN not in line:
            return number
        last = self._comments.read(number)
        if last > number or (bare.startswith(COMMENT_OPEN) and number in self._comments.hidden):
            self._barrier = last
        return last

    def _fence_end(self, number: int, line: str) -> int:
        """Return the last line of the fence that opens on a line, or -1 if none does."""
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
                self._reach = max(self._reach, later)
                return later
            if in_list and bare and other[0] not in " \t":
                self._reach = max(self._reach, later)
                end = later - 1
                while is_blank(self._lines[end]):
                    end -= 1
                return end
        self._reach = len(self._lines)
        return len(self._lines) - 1

    def _parse_atx_heading(self, number: int, bare: str) -> bool:
        level = len(bare) - len(bare.lstrip(self._sign))
        if level > 6 or (len(bare) > level and not bare[level].isspace()) or not _may_be_title(bare):
            return False
        self._comments.read(number, one_line=True)
        title = self._title(number).lstrip(self._sign).strip()
        if not title and not self._is_markdown:  # the edge of a block
            return False
        unclosed = title.rstrip(self._sign)
        if unclosed != title and (not unclosed or unclosed[-1].isspace()):
            title = unclosed.rstrip()
        # The last line may be continued by text that is appended.
        is_divided = len(self._headings) < self._max_headings
        if is_divided and max(self._reach, self._comments.reach) <= number < len(self._lines) - 1:
            self._last_safe_heading = len(self._headings)
        self._add_heading(Heading(number, number, level, title))
        return True

    def _parse_setext_heading(self, number: int, bare: str) -> bool:
        above = number - 1
        if bare.rstrip().strip(bare[0]) or above <= self._barrier:
            return False
        title = self._lines[above].lstrip(" \t")
        if is_blank(title) or _indent(self._lines[above], title) > 3 or not _may_be_title(title):
            return False
        before = self._lines[above - 1] if above - 1 > self._barrier else ""
        opens_paragraph = is_blank(before) or _THEMATIC_BREAK.match(before) is not None
        if self._is_markdown:
            is_title = opens_paragraph and not _NOT_A_TITLE.match(title) and not _THEMATIC_BREAK.match(title)
        else:
            is_overlined = not is_blank(before) and not before.strip().strip(bare[0])
            is_title = (opens_paragraph or is_overlined) and len(title.rstrip()) <= len(bare.rstrip())
            is_title = is_title and any(map(str.isalnum, title))
            above -= is_overlined
        if not is_title:
            return False
        level = min(self._underlines.index(bare[0]) + 1, 6)
        self._add_heading(Heading(above, number, level, self._title(number - 1)))
        return True

    def _add_heading(self, heading: Heading) -> None:
        if len(self._headings) >= self._max_headings:
            heading = Heading(heading.first, heading.first - 1, 0, "")
            self._start_chars = _FENCE_START_CHARS
            self._next_merged, size = heading.first, 0
            while size < MERGED_CHARS and self._next_merged < len(self._lines):
                size += len(self._lines[self._next_merged]) + 1
                self._next_merged += 1
        self._headings.append(heading)
        self._barrier = heading.last

    def _title(self, number: int) -> str:
        line = self._lines[number]
        for first, last in reversed(self._comments.hidden.get(number, ())):
            line = line[:first] + line[last:]
        return line.strip()


def _indent(line: str, bare: str) -> int:
    """Return the width of the text before `bare`, with tab stops every four columns."""
    before = line[: len(line) - len(bare)]
    return len(before.expandtabs(4)) if before else 0


def _may_be_title(bare: str) -> bool:
    return len(bare) <= MAX_TITLE_CHARS and "\r" not in bare.rstrip()


class Section(Struct, frozen=True, kw_only=True):
    """A run of lines without blank lines at either end. Lines count from 0, both ends inclusive."""

    first: int
    last: int
    body: int
    """The first line after the heading; equal to `first` if there is no heading."""
    level: int
    title: str
    path: tuple[str, ...]
    """Titles from the outermost enclosing heading to the section's own, without empty titles."""
    parent: int
    """Index of the section whose heading encloses this one, or -1."""


def read_sections(outline: Outline, outer: Sequence[Section] = ()) -> list[Section]:
    """Return all sections in file order; text before the first heading, or beyond their limit, is a section of level 0.

    `outer` are the sections around the first heading, outermost first, if the lines are only the end of a text. They are returned too.
    """
    headings = outline.headings
    count = len(outline.lines)
    sections: list[Section] = list(outer)
    end = _last_nonblank_line(outline, 0, headings[0].first if headings else count)
    first = next((number for number in range(end + 1) if not is_blank(outline.lines[number])), end + 1)
    if first <= end:
        sections.append(Section(first=first, last=end, body=first, level=0, title="", path=(), parent=-1))
    enclosing: list[int] = list(range(len(outer)))
    for index, heading in enumerate(headings):
        following = headings[index + 1].first if index + 1 < len(headings) else count
        while enclosing and sections[enclosing[-1]].level >= heading.level:
            enclosing.pop()
        parent = enclosing[-1] if enclosing else -1
        enclosing.append(len(sections))
        above = sections[parent].path if parent >= 0 else ()
        sections.append(
            Section(
                first=heading.first,
                last=_last_nonblank_line(outline, max(heading.first, heading.last), following),
                body=heading.last + 1,
                level=heading.level,
                title=heading.title,
                path=(*above, heading.title) if heading.title else above,
                parent=parent,
            )
        )
    return sections


def _last_nonblank_line(outline: Outline, first: int, following: int) -> int:
    """Return the last line before `following` that is not blank, or `first` if all are blank."""
    last = following - 1
    while last > first and is_blank(outline.lines[last]):
        last -= 1
    return last


def section_bounds(text: str, source: str, line: int, level: int) -> tuple[int, int]:
    """Return the first and last line (1-based, inclusive) of the section of `level` around `line`, with subsections.

    Level 0 is the text before the first heading or beyond the limit of headings.
    """
    return outline_section_bounds(read_outline(text, source=source, max_headings=heading_limit(source)), line, level)


def outline_section_bounds(outline: Outline, line: int, level: int) -> tuple[int, int]:
    lines, headings = outline.lines, outline.headings
    at = min(max(line - 1, 0), len(lines) - 1)
    first = max((heading.first for heading in headings if heading.first <= at and heading.level <= level), default=0)
    bounding = (
        heading.first
        for heading in headings
        if heading.first > max(at, first) and (heading.level <= level or not level)
    )
    return first + 1, _last_nonblank_line(outline, first, min(bounding, default=len(lines))) + 1
