"""The section around a line, subsections included: what a reader would call the whole entry.

Chunks end at the next heading of any level; a person who expands one wants what stands under its heading, down to the
next heading of the same or a higher level. Fences, comments and front matter do not bound it, as in `lines`.
"""

from __future__ import annotations

from lorelog.ingest.lines import Outline, is_blank, read_outline


def section_bounds(text: str, line: int, level: int) -> tuple[int, int]:
    """Return first and last line (1-based, inclusive) of the section of `level` that holds `line`.

    Level 0 is the preamble: from the top to the first heading.
    """
    return bounds_in(read_outline(text), line, level)


def bounds_in(outline: Outline, line: int, level: int) -> tuple[int, int]:
    """Return the same for a text whose lines have been classified."""
    lines, headings = outline.lines, outline.headings
    at = min(max(line - 1, 0), len(lines) - 1)
    first = 0
    if level:
        first = max((one.first for one in headings if one.first <= at and one.level <= level), default=0)
    bounding = (one.first for one in headings if one.first > max(at, first) and (one.level <= level or not level))
    last = min(bounding, default=len(lines)) - 1
    while last > first and is_blank(lines[last]):
        last -= 1
    return first + 1, last + 1
