"""Sections: from a heading to the line before the next heading of any level, under the headings that enclose it.

A section does not include its subsections, so that each line belongs to one section and an anchor speaks for the
words under its own heading only.
"""

from __future__ import annotations

from dataclasses import dataclass

from lorelog.ingest.lines import Heading, Outline, is_blank


@dataclass(frozen=True, slots=True)
class Section:
    """A run of lines, without blank ones at either end. Lines count from 0, both ends inclusive."""

    first: int
    last: int
    body: int
    """The first line after the heading; equal to `first` where there is none."""
    level: int
    title: str
    path: tuple[str, ...]
    """Titles from the outermost enclosing heading to the section's own; empty titles are left out."""
    parent: int
    """Index of the section whose heading encloses this one, or -1."""


def read_sections(outline: Outline) -> list[Section]:
    """Return all sections in file order, the preamble first if it has a line."""
    headings = outline.headings
    count = len(outline.lines)
    sections: list[Section] = []
    end = _last_line(outline, 0, headings[0].first if headings else count)
    first = next((number for number in range(end + 1) if not is_blank(outline.lines[number])), end + 1)
    if first <= end:
        sections.append(Section(first, end, first, 0, "", (), -1))
    enclosing: list[int] = []
    for index, heading in enumerate(headings):
        following = headings[index + 1].first if index + 1 < len(headings) else count
        while enclosing and sections[enclosing[-1]].level >= heading.level:
            enclosing.pop()
        parent = enclosing[-1] if enclosing else -1
        enclosing.append(len(sections))
        above = sections[parent].path if parent >= 0 else ()
        sections.append(_section(outline, heading, following, above, parent))
    return sections


def _section(outline: Outline, heading: Heading, following: int, above: tuple[str, ...], parent: int) -> Section:
    return Section(
        first=heading.first,
        last=_last_line(outline, heading.last, following),
        body=heading.last + 1,
        level=heading.level,
        title=heading.title,
        path=(*above, heading.title) if heading.title else above,
        parent=parent,
    )


def _last_line(outline: Outline, first: int, following: int) -> int:
    """Return the last line before `following` that is not blank, or `first` when there is none."""
    last = following - 1
    while last > first and is_blank(outline.lines[last]):
        last -= 1
    return last
