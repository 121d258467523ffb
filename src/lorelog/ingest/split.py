"""Splitting: an oversize section becomes pieces that each fit, cut where it hurts least.

Whole paragraphs and fences are packed greedily; a block that is itself too large is cut at line ends, a line that is
too large at sentence ends (`split_line`). A piece repeats the last lines of the one before it, so that a sentence next
to a cut is found with its neighbours; it never repeats all of it, for then the earlier piece would be redundant, and
it does not start inside a fence, where half a program would look like prose.

A heading is never a piece of its own: it leads the next piece if it fits there, and else is left to `Chunk.context`.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate

from lorelog.core.options import ChunkOptions
from lorelog.ingest.lines import Outline, is_blank
from lorelog.ingest.sections import Section
from lorelog.ingest.split_line import split_line


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines `first..last`; or, of the last line, only the columns `cut`."""

    first: int
    last: int
    cut: tuple[int, int] | None = None


def split_section(outline: Outline, section: Section, options: ChunkOptions) -> list[Piece]:
    """Return the pieces of a section in file order; none is longer than `max_chunk_size` characters."""
    limit = max(1, options.max_chunk_size)
    if sum(len(outline.lines[number]) + 1 for number in range(section.first, section.last + 1)) - 1 <= limit:
        return [Piece(section.first, section.last)]
    blocks = list(_blocks(outline, section))
    inside = {number for first, last, is_whole in blocks if is_whole for number in range(first + 1, last + 1)}
    packer = _Packer(outline, section, _Limits(limit, max(0, options.overlap_lines)), inside)
    for first, last, is_whole in blocks:
        packer.add_block(first, last, is_whole=is_whole)
    packer.flush()
    return packer.pieces


def _blocks(outline: Outline, section: Section) -> Iterator[tuple[int, int, bool]]:
    """Yield (first, last, is whole) of heading, paragraphs and fences; blank lines lie between them."""
    number = section.first
    if section.body > number:
        yield number, section.body - 1, True
        number = section.body
    while number <= section.last:
        if number in outline.whole:
            last = min(outline.whole[number], section.last)
            yield number, last, True
            number = last + 1
            continue
        start = number
        while number <= section.last and number not in outline.whole and not is_blank(outline.lines[number]):
            number += 1
        if number > start:
            yield start, number - 1, False
        else:
            number += 1


@dataclass(frozen=True, slots=True)
class _Limits:
    characters: int
    overlap_lines: int


class _Packer:
    """The piece in the making (`_first.._last`, new from `_fresh` on) and those already made."""

    def __init__(self, outline: Outline, section: Section, limits: _Limits, inside: AbstractSet[int]) -> None:
        self._outline = outline
        self._section = section
        self._limit = limits.characters
        self._overlap = limits.overlap_lines
        self._inside = inside
        lengths = (len(outline.lines[number]) + 1 for number in range(section.first, section.last + 1))
        self._offsets = [0, *accumulate(lengths)]
        self._first = self._last = self._fresh = -1
        self._previous: Piece | None = None
        self.pieces: list[Piece] = []

    def add_block(self, first: int, last: int, *, is_whole: bool) -> None:
        fits_alone = self._length(first, last) <= self._limit
        # A paragraph is also cut when only so can the heading stay with its beginning.
        keeps_heading = is_whole or first == last or self._fits(last) or not self._is_bare()
        if fits_alone and keeps_heading:
            self._add(first, last)
            return
        for number in range(first, last + 1):
            line = self._outline.lines[number]
            if len(line) > self._limit:
                self._add_long_line(number)
            elif not is_blank(line):
                self._add(number, number)

    def flush(self) -> None:
        """Finish the piece in the making. It is dropped when it would show nothing new."""
        if self._first < 0:
            return
        self._previous = None
        if not self._is_bare():
            self._previous = Piece(self._first, self._last)
            self.pieces.append(self._previous)
        self._first = -1

    def _add(self, first: int, last: int) -> None:
        if self._first >= 0 and self._fits(last):
            self._last = last
            return
        self.flush()
        self._first = self._overlapping_start(first, last)
        self._fresh = first
        self._last = last

    def _add_long_line(self, number: int) -> None:
        """Cut a line. Its first part takes along the heading and anchor that wait for text, if there is room."""
        room, lead = self._limit, -1
        if self._first >= 0 and self._is_bare():
            left = self._limit - self._length(self._first, number - 1) - 1
            if left >= max(1, self._limit // 4):
                room, lead = left, self._first
        else:
            self.flush()
        for start, end in split_line(self._outline.lines[number], room, self._limit):
            starts_here = number >= self._section.body
            if starts_here and self._outline.visible(number, start, end).strip():
                self.pieces.append(Piece(lead if lead >= 0 else number, number, (start, end)))
            lead = -1
        self._first = -1
        self._previous = None

    def _overlapping_start(self, first: int, last: int) -> int:
        """Return where a piece of these new lines starts: as many lines before them as allowed and possible."""
        if self._previous is None:
            return first
        lowest = max(self._previous.first + 1, self._section.body, self._previous.last - self._overlap + 1)
        for start in range(lowest, self._previous.last + 1):
            is_start = start not in self._inside and not is_blank(self._outline.lines[start])
            if is_start and self._length(start, last) <= self._limit:
                return start
        return first

    def _is_bare(self) -> bool:
        """Tell whether the piece in the making has nothing new to show yet: a heading, comments, repeated lines."""
        return self._first >= 0 and not self._outline.has_text(max(self._fresh, self._section.body), self._last)

    def _fits(self, last: int) -> bool:
        return self._first >= 0 and self._length(self._first, last) <= self._limit

    def _length(self, first: int, last: int) -> int:
        base = self._section.first
        return self._offsets[last - base + 1] - self._offsets[first - base] - 1
