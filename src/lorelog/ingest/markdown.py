r"""Split a Markdown text into chunks.

The text is in the form `files.read_text` returns: no byte order mark, lines end in `\n` only. A section that is too
large is split where it does the least damage: whole paragraphs and fences are packed greedily, an oversize block is cut
at line ends, an oversize line at sentence ends, else between words, else between characters. A sentence or word end
counts only in the last three quarters of the available room: a piece that says just `Yes.` is worse than a cut between
two words.

A piece repeats the last lines of the previous one, so that a sentence next to a cut is found with its neighbours. It
never repeats the whole previous piece, which would make that one redundant, and never starts inside a fence, where half
a program would look like prose. A heading is never a piece of its own: it leads the next piece if it fits there, and is
otherwise in `Chunk.context` only. So the embedded text contains the heading exactly once.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import accumulate
from pathlib import PurePath
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import DATE_IN_TEXT, DATE_OF_FILE, HEADING_SEPARATOR, Anchor, Chunk
from lorelog.core.options import ChunkOptions
from lorelog.ingest import metadata
from lorelog.ingest.files import ParseTimer
from lorelog.ingest.outline import Outline, Section, heading_limit, is_blank, read_outline, read_sections

_CJK = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_LINK_DEFINITION = re.compile(r"""\[(?!\^)(?:\\.|[^\\\[\]])+\]:[ \t]*\S+(?:[ \t]+(?:"[^"]*"|'[^']*'|\([^()]*\)))?""")
"""`[label]: address "title"`; a footnote (`[^1]: text`) is text."""
_ZERO_WIDTH_JOINER = "\u200d"


@cache
def _sentence_end() -> re.Pattern[str]:
    """Return the end of a sentence in a line; compiled when a line is first cut, which takes five milliseconds."""
    return re.compile(rf"[。！？；…][”’」』）\s]{{0,8}}|[.!?;][\"'”’)\]]{{0,3}}(?:\s{{1,8}}|(?=[{_CJK}]))")


def split_line(line: str, room: int, limit: int) -> list[tuple[int, int]]:
    """Return the columns of a line's parts without surrounding blanks; the first fits `room`, the others `limit`."""
    parts: list[tuple[int, int]] = []
    position = 0
    while position < len(line):
        end = len(line) if len(line) - position <= room else _find_cut(line, position, position + room)
        part = line[position:end]
        start = position + len(part) - len(part.lstrip())
        stop = position + len(part.rstrip())
        if start < stop:
            parts.append((start, stop))
        position, room = end, limit
    return parts


def _find_cut(line: str, start: int, end: int) -> int:
    """Return the best column to cut at: after `start`, at most `end`."""
    earliest = start + (end - start) // 4
    sentence = 0
    for match in _sentence_end().finditer(line, start, end + 1):  # one further: the character after a full stop decides
        if match.start() < end:
            sentence = min(match.end(), end)
    if sentence > earliest:
        return sentence
    word = max(line.rfind(" ", start, end + 1), line.rfind("\t", start, end + 1))
    if word > earliest:
        return word
    for column in range(end, max(start, end - 16), -1):
        character = line[column]
        belongs_to_previous = (
            unicodedata.combining(character) != 0
            or _ZERO_WIDTH_JOINER in line[column - 1 : column + 1]
            or "\ufe00" <= character <= "\ufe0f"  # variation selectors
            or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        )
        if not belongs_to_previous:
            return column
    return end


class SectionPiece(Struct, frozen=True):
    """Whole lines `first..last`; with `cut`, only these columns of the last line."""

    first: int
    last: int
    cut: tuple[int, int] | None = None


def split_section(outline: Outline, section: Section, options: ChunkOptions) -> list[SectionPiece]:
    """Return the pieces of a section in file order; none is longer than `max_chunk_size` characters."""
    limit = max(1, options.max_chunk_size)
    if sum(len(outline.lines[number]) + 1 for number in range(section.first, section.last + 1)) - 1 <= limit:
        return [SectionPiece(section.first, section.last)]
    blocks = list(_section_blocks(outline, section))
    fence_lines = {number for first, last, is_whole in blocks if is_whole for number in range(first + 1, last + 1)}
    packer = _PiecePacker(outline, section, options, fence_lines)
    for first, last, is_whole in blocks:
        packer.add_block(first, last, is_whole=is_whole)
    packer.flush()
    # Lists of link targets, as at the end of manuals, are not rendered; they would be found by any word of an address.
    with_prose = []
    for piece in packer.pieces:
        lines = (outline.visible(number).strip() for number in range(max(piece.first, section.body), piece.last + 1))
        if piece.cut or any(line and not _LINK_DEFINITION.fullmatch(line) for line in lines):
            with_prose.append(piece)
    return with_prose or packer.pieces


def _section_blocks(outline: Outline, section: Section) -> Iterator[tuple[int, int, bool]]:
    """Yield (first, last, is_whole) of the heading, paragraphs and fences, without the blank lines between them."""
    number = section.first
    if section.body > number:
        yield number, section.body - 1, True
        number = section.body
    while number <= section.last:
        if number in outline.atomic_blocks:
            last = min(outline.atomic_blocks[number], section.last)
            yield number, last, True
            number = last + 1
            continue
        start = number
        while number <= section.last and number not in outline.atomic_blocks and not is_blank(outline.lines[number]):
            number += 1
        if number > start:
            yield start, number - 1, False
        else:
            number += 1


class _PiecePacker:
    """Collects the current piece (`_first.._last`, new from `_first_new_line` on) and the finished ones."""

    def __init__(
        self, outline: Outline, section: Section, options: ChunkOptions, fence_lines: AbstractSet[int]
    ) -> None:
        self._outline = outline
        self._section = section
        self._limit = max(1, options.max_chunk_size)
        self._overlap = max(0, options.overlap_lines)
        self._fence_lines = fence_lines
        lengths = (len(outline.lines[number]) + 1 for number in range(section.first, section.last + 1))
        self._offsets = [0, *accumulate(lengths)]
        self._first = self._last = self._first_new_line = -1
        self._previous: SectionPiece | None = None
        self.pieces: list[SectionPiece] = []

    def add_block(self, first: int, last: int, *, is_whole: bool) -> None:
        fits_alone = self._length(first, last) <= self._limit
        # Also cut a paragraph if that is the only way to keep the heading with its first lines.
        keeps_heading = is_whole or first == last or self._fits(last) or not self._has_no_text()
        if fits_alone and keeps_heading:
            self._add(first, last)
            return
        number = first
        while number <= last:
            line = self._outline.lines[number]
            if len(line) > self._limit:
                self._add_long_line(number)
            elif not is_blank(line):
                self._add(number, number)
                number = self._extend(last)
            number += 1

    def flush(self) -> None:
        """Finish the current piece, or drop it if it adds no new text."""
        if self._first < 0:
            return
        self._previous = None
        if not self._has_no_text():
            self._previous = SectionPiece(self._first, self._last)
            self.pieces.append(self._previous)
        self._first = -1

    def _add(self, first: int, last: int) -> None:
        if self._first >= 0 and self._fits(last):
            self._last = last
            return
        self.flush()
        self._first = self._overlapping_start(first, last)
        self._first_new_line = first
        self._last = last

    def _extend(self, last: int) -> int:
        """Extend the current piece by the lines up to `last` that fit; return its last line."""
        base = self._section.first
        farthest = bisect_right(self._offsets, self._offsets[self._first - base] + 1 + self._limit) - 2 + base
        farthest = max(self._last, min(last, farthest))
        while is_blank(self._outline.lines[farthest]):
            farthest -= 1
        self._last = farthest
        return farthest

    def _add_long_line(self, number: int) -> None:
        """Cut a line. Its first part includes the pending heading and anchor if there is room."""
        room, lead = self._limit, -1
        if self._first >= 0 and self._has_no_text():
            left = self._limit - self._length(self._first, number - 1) - 1
            if left >= max(1, self._limit // 4):
                room, lead = left, self._first
        else:
            self.flush()
        for start, end in split_line(self._outline.lines[number], room, self._limit):
            if number >= self._section.body and self._outline.visible(number, start, end).strip():
                self.pieces.append(SectionPiece(lead if lead >= 0 else number, number, (start, end)))
            lead = -1
        self._first = -1
        self._previous = None

    def _overlapping_start(self, first: int, last: int) -> int:
        """Return the first line of a piece of these new lines: the earliest one that overlap and size allow."""
        if self._previous is None:
            return first
        lowest = max(self._previous.first + 1, self._section.body, self._previous.last - self._overlap + 1)
        for start in range(lowest, self._previous.last + 1):
            is_start = start not in self._fence_lines and not is_blank(self._outline.lines[start])
            if is_start and self._length(start, last) <= self._limit:
                return start
        return first

    def _has_no_text(self) -> bool:
        """Return True if the current piece has no new text yet: only a heading, comments or repeated lines."""
        return self._first >= 0 and not self._outline.has_text(
            max(self._first_new_line, self._section.body), self._last
        )

    def _fits(self, last: int) -> bool:
        return self._first >= 0 and self._length(self._first, last) <= self._limit

    def _length(self, first: int, last: int) -> int:
        base = self._section.first
        return self._offsets[last - base + 1] - self._offsets[first - base] - 1


_BLANK_RUN = re.compile(r"\n(?:[ \t]*\n){2,}")


class ParsedDocument(Struct, frozen=True):
    """A Markdown file's title, date and chunks."""

    title: str
    date: str
    """ISO day from the file name, the front matter or the title, else the fallback."""
    chunks: tuple[Chunk, ...]
    dropped_tags: int = 0
    """Tags of the front matter beyond the limits."""
    date_source: str = DATE_IN_TEXT
    undivided_from: int = 0
    """First line (from 1) of the text beyond the limit of headings; 0 if there is none."""
    resume: ResumePoint | None = None
    """Where to continue when text is appended; None if all of it must be parsed again."""


class EnclosingHeading(NamedTuple):
    """A heading that encloses the sections after a point of a text."""

    level: int
    title: str
    day: str
    time: str


class ResumePoint(NamedTuple):
    """A heading of a text before which nothing depends on what follows, and what the text after it inherits.

    A text that only grew is parsed from there on. Whoever keeps the point makes sure that the text before it is the same.
    """

    offset: int
    """Characters before its line."""
    line: int
    """Lines before it."""
    headings: int
    """Headings before it, which count towards their limit."""
    front_matter: int
    """Lines of front matter at the top."""
    title: str
    """The document's title as far as the text before it tells; empty if it does not."""
    fallback_date: str
    """The date of the chunks before it that have none in the text; empty if all have."""
    outer: tuple[EnclosingHeading, ...]
    """Outermost first."""
    latest: tuple[str, str]
    """The latest day of the chunks before it and its source; empty if there are none."""
    has_title: bool = False
    """True if the title does not depend on what follows; without a heading of level 1 it does."""


def chunk_markdown(
    text: str,
    source: str,
    options: ChunkOptions,
    *,
    fallback_date: str = "",
    timer: ParseTimer | None = None,
    resume: ResumePoint | None = None,
) -> ParsedDocument:
    """Split a Markdown text into chunks; raise SourceError if `timer` runs out.

    `fallback_date` is used if the text itself has no date. With `resume`, which `can_resume` must admit, the chunks are those
    of the text from there on.
    """
    start = resume or _START
    outline = read_outline(
        text[start.offset :] if start.offset else text,
        source=source,
        max_headings=heading_limit(source) - start.headings,
        timer=timer,
    )
    front_lines = outline.lines[: outline.front_matter]
    if start.front_matter:
        front_lines = text.split("\n", start.front_matter)[: start.front_matter]
    front = metadata.parse_front_matter(front_lines)
    sections = read_sections(outline, _outer_sections(start.outer))
    base = metadata.PartialDatetime(metadata.day_from_filename(source) or front.date)
    own = sections[len(start.outer) :]
    title = start.title if start.has_title else front.title or _title(own, 1) or start.title or _title(own)
    title = title or PurePath(source).stem
    day = base.day or metadata.find_day(title)
    factory = _ChunkFactory(outline, source, options, front, start, timer)
    chunks, times = _build_chunks(factory, sections, base, fallback_date)
    undivided = outline.undivided_from
    return ParsedDocument(
        title=title,
        date=day or fallback_date,
        date_source=DATE_IN_TEXT if day else DATE_OF_FILE,
        chunks=chunks,
        dropped_tags=front.dropped_tags,
        undivided_from=undivided + start.line + 1 if undivided < len(outline.lines) else 0,
        resume=_find_resume_point(factory, sections, times, chunks, title),
    )


def can_resume(resume: ResumePoint, text: str, fallback_date: str) -> bool:
    """Return True if a text, whose beginning is known to be the same, can be parsed from a point on."""
    same_dates = not resume.fallback_date or resume.fallback_date == fallback_date
    return same_dates and 0 < resume.offset < len(text) and text[resume.offset - 1] == "\n"


_START = ResumePoint(0, 0, 0, 0, "", "", (), ("", ""))


def _outer_sections(outer: Sequence[EnclosingHeading]) -> list[Section]:
    """Return the headings around a point as sections without lines."""
    sections: list[Section] = []
    for index, heading in enumerate(outer):
        above = sections[-1].path if sections else ()
        path = (*above, heading.title) if heading.title else above
        sections.append(
            Section(first=-1, last=-1, body=-1, level=heading.level, title=heading.title, path=path, parent=index - 1)
        )
    return sections


def _find_resume_point(
    factory: _ChunkFactory,
    sections: list[Section],
    times: list[metadata.PartialDatetime],
    chunks: Sequence[Chunk],
    title: str,
) -> ResumePoint | None:
    """Return the last point from which this text could be parsed after something was appended to it."""
    outline, start = factory.outline, factory.start
    if outline.last_safe_heading < 0:
        return None
    heading = outline.headings[outline.last_safe_heading]
    index = next(index for index in range(len(sections) - 1, -1, -1) if sections[index].first == heading.first)
    before_it = sections[len(start.outer) : index]
    has_title = start.has_title or bool(factory.front.title or _title(before_it, 1))
    outer: list[EnclosingHeading] = []
    parent = sections[index].parent
    while parent >= 0:
        section = sections[parent]
        outer.append(EnclosingHeading(section.level, section.title, times[parent].day, times[parent].time))
        parent = section.parent
    line = start.line + heading.first
    before = [chunk for chunk in chunks if chunk.start_line <= line]
    latest = max(((chunk.date[:10], chunk.date_source) for chunk in before), default=("", ""))
    undated = next((chunk.date for chunk in before if chunk.date_source == DATE_OF_FILE), None)
    if undated == "":  # a date that was unknown may be known by then
        return None
    return ResumePoint(
        offset=start.offset + sum(map(len, outline.lines[: heading.first])) + heading.first,
        line=line,
        headings=start.headings + outline.last_safe_heading,
        front_matter=start.front_matter or outline.front_matter,
        outer=tuple(reversed(outer)),
        title=title if has_title else start.title or _title(before_it),
        latest=max(latest, start.latest),
        fallback_date=undated or start.fallback_date,
        has_title=has_title,
    )


class _ChunkFactory(Struct, frozen=True):
    """Builds the chunks of one file, or of its end from `start` on."""

    outline: Outline
    source: str
    options: ChunkOptions
    front: metadata.FrontMatter
    start: ResumePoint
    timer: ParseTimer | None = None

    def chunk(
        self, section: Section, piece: SectionPiece, *, number: int, date: tuple[str, str], anchor: Anchor | None
    ) -> Chunk:
        """Return a piece of a section; `date` is the section's date and the source of it."""
        if self.timer:
            self.timer.check()
        outline = self.outline
        holds_heading = piece.first < section.body
        above = section.path[:-1] if holds_heading and section.title else section.path
        return Chunk(
            source=self.source,
            heading=section.title,
            heading_level=section.level,
            heading_path=section.path,
            start_line=self.start.line + piece.first + 1,
            end_line=self.start.line + piece.last + 1,
            content=_raw_content(outline, piece),
            text=_visible_text(outline, piece),
            context=HEADING_SEPARATOR.join(above),
            date=date[0],
            type=(anchor.type if anchor else "") or self.front.type,
            tags=(anchor.tags if anchor else ()) or self.front.tags,
            anchor=anchor,
            piece=number,
            date_source=date[1],
        )


def _build_chunks(
    factory: _ChunkFactory, sections: list[Section], base: metadata.PartialDatetime, fallback_date: str
) -> tuple[tuple[Chunk, ...], list[metadata.PartialDatetime]]:
    outline, outer = factory.outline, factory.start.outer
    anchors = collect_anchors(outline, sections, len(outer))
    datetimes = [metadata.PartialDatetime(heading.day, heading.time) for heading in outer]
    # Parts of one line may agree in everything that makes up an id; only the first is kept.
    chunks: dict[tuple[int, int, str], Chunk] = {}
    for index, section in enumerate(sections[len(outer) :], len(outer)):
        section_time = (datetimes[section.parent] if section.parent >= 0 else base).refine(section.title)
        datetimes.append(section_time)
        if not outline.has_text(section.body, section.last):
            continue
        date = (section_time.to_iso(fallback_date), DATE_IN_TEXT if section_time.day else DATE_OF_FILE)
        for number, piece in enumerate(split_section(outline, section, factory.options)):
            anchor = anchors.get(index)
            if number == 1 and anchor is not None and anchor.covers:  # may be long, and one piece with it is enough
                anchor = anchors[index] = replace(anchor, covers=())
            chunk = factory.chunk(section, piece, number=number, date=date, anchor=anchor)
            chunks.setdefault((chunk.start_line, chunk.end_line, chunk.content_hash), chunk)
    return tuple(chunks.values()), datetimes


def collect_anchors(outline: Outline, sections: list[Section], index: int = 0) -> dict[int, Anchor]:
    """Return the first anchor of each section from `index` on, by section index, extended by the covers of later comments."""
    anchors: dict[int, Anchor] = {}
    extra: dict[int, list[str]] = {}
    undivided_from = outline.undivided_from
    for comment in outline.comments:
        if comment.line >= undivided_from:  # many entries: none of their anchors holds for all
            break
        while sections[index].last < comment.line:
            index += 1
        if index not in anchors and (anchor := metadata.parse_anchor(comment.text)):
            anchors[index] = anchor
        elif index in anchors and (hashes := metadata.parse_covers(comment.text)):
            extra.setdefault(index, []).extend(hashes)
    for section, covers in extra.items():
        unique = dict.fromkeys((*anchors[section].covers, *covers))
        anchors[section] = replace(anchors[section], covers=tuple(unique))
    return anchors


def _raw_content(outline: Outline, piece: SectionPiece) -> str:
    start, end = piece.cut or (0, None)
    return "\n".join([*outline.lines[piece.first : piece.last], outline.lines[piece.last][start:end]])


def _visible_text(outline: Outline, piece: SectionPiece) -> str:
    """Return the text as rendered: without comments and without lines left empty by them."""
    numbers = range(piece.first, piece.last + 1)
    if outline.hidden.keys().isdisjoint(numbers):
        text = _raw_content(outline, piece)
    else:
        visible = {
            number: outline.visible(number, *(piece.cut if piece.cut and number == piece.last else (0, None)))
            for number in numbers
        }
        text = "\n".join(line for number, line in visible.items() if number not in outline.hidden or line.strip())
    return _BLANK_RUN.sub("\n\n", text.strip())


def _title(sections: list[Section], max_level: int = 6) -> str:
    return next((section.title for section in sections if section.title and section.level <= max_level), "")
