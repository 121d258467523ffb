r"""Markdown to chunks: what a file is called, what day it speaks of, and the pieces that can be found.

The text is taken as `scan.read_text` returns it: no byte order mark, and lines end in `\n` alone. The work is done
next door, by concept: `lines` says what each line is, `sections` groups them, `split` cuts what is too large,
`anchors`, `frontmatter` and `dates` read what a text says of itself.

A chunk's own heading is in its text when the piece holds the heading's line, and in its context otherwise; so the
embedded text names it once in either case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath

from lorelog.core.document import BETWEEN_HEADINGS, Anchor, Chunk
from lorelog.core.options import ChunkOptions
from lorelog.ingest.anchors import parse_anchor, parse_covers
from lorelog.ingest.dates import Moment, day_of_name, find_day
from lorelog.ingest.frontmatter import FrontMatter, parse_front_matter
from lorelog.ingest.lines import Outline, read_outline
from lorelog.ingest.sections import Section, read_sections
from lorelog.ingest.split import Piece, split_section

_BLANK_RUN = re.compile(r"\n(?:[ \t]*\n){2,}")


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a Markdown file holds."""

    title: str
    date: str
    """ISO day: of the file's name, its front matter or its title, else the fallback."""
    chunks: tuple[Chunk, ...]


def chunk_markdown(text: str, source: str, options: ChunkOptions, *, fallback_date: str = "") -> ParsedDocument:
    """Cut a Markdown text into chunks. `fallback_date` is used where the text names no day itself."""
    outline = read_outline(text)
    front = parse_front_matter(outline.lines[: outline.front_matter])
    sections = read_sections(outline)
    base = Moment(day_of_name(source) or front.date)
    title = front.title or _first_title(sections) or PurePath(source).stem
    return ParsedDocument(
        title=title,
        date=base.day or find_day(title) or fallback_date,
        chunks=_chunks(_Reading(outline, source, options, front), sections, base, fallback_date),
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is the same for all sections of a file."""

    outline: Outline
    source: str
    options: ChunkOptions
    front: FrontMatter

    def chunk(self, section: Section, piece: Piece, number: int, date: str, anchor: Anchor | None) -> Chunk:
        outline = self.outline
        holds_heading = piece.first < section.body
        above = section.path[:-1] if holds_heading and section.title else section.path
        return Chunk(
            source=self.source,
            heading=section.title,
            heading_level=section.level,
            heading_path=section.path,
            start_line=piece.first + 1,
            end_line=piece.last + 1,
            content=_content(outline, piece),
            text=_text(outline, piece),
            context=BETWEEN_HEADINGS.join(above),
            date=date,
            type=(anchor.type if anchor else "") or self.front.type,
            tags=(anchor.tags if anchor else ()) or self.front.tags,
            anchor=anchor,
            piece=number,
        )


def _chunks(reading: _Reading, sections: list[Section], base: Moment, fallback_date: str) -> tuple[Chunk, ...]:
    outline = reading.outline
    anchors = _anchors(outline, sections)
    moments: list[Moment] = []
    # Parts of one line may be equal in all that makes an id; the first stands for the others.
    chunks: dict[tuple[int, int, str], Chunk] = {}
    for index, section in enumerate(sections):
        moment = (moments[section.parent] if section.parent >= 0 else base).narrowed(section.title)
        moments.append(moment)
        if not outline.has_text(section.body, section.last):
            continue
        date = moment.stamp(fallback_date)
        for number, piece in enumerate(split_section(outline, section, reading.options)):
            anchor = anchors.get(index)
            if number == 1 and anchor is not None and anchor.covers:  # may be long, and one piece is enough to tell it
                anchor = anchors[index] = replace(anchor, covers=())
            chunk = reading.chunk(section, piece, number, date, anchor)
            chunks.setdefault((chunk.start_line, chunk.end_line, chunk.content_hash), chunk)
    return tuple(chunks.values())


def _anchors(outline: Outline, sections: list[Section]) -> dict[int, Anchor]:
    """Return the first anchor of each section that has one, by the section's index, with what further comments say it covers."""
    anchors: dict[int, Anchor] = {}
    further: dict[int, list[str]] = {}
    index = 0
    for comment in outline.comments:
        while sections[index].last < comment.line:
            index += 1
        if index not in anchors and (anchor := parse_anchor(comment.text)):
            anchors[index] = anchor
        elif index in anchors and (covers := parse_covers(comment.text)):
            further.setdefault(index, []).extend(covers)
    for place, more in further.items():
        known = anchors[place]
        anchors[place] = replace(known, covers=tuple(dict.fromkeys((*known.covers, *more))))
    return anchors


def _content(outline: Outline, piece: Piece) -> str:
    if piece.cut is None:
        return "\n".join(outline.lines[piece.first : piece.last + 1])
    start, end = piece.cut
    return "\n".join([*outline.lines[piece.first : piece.last], outline.lines[piece.last][start:end]])


def _text(outline: Outline, piece: Piece) -> str:
    """Return what a reader of the rendered page would see: no comments, no lines left empty by them."""
    kept: list[str] = []
    for number in range(piece.first, piece.last + 1):
        cut = piece.cut if piece.cut and number == piece.last else (0, None)
        line = outline.visible(number, *cut)
        if number not in outline.hidden or line.strip():
            kept.append(line)
    text = "\n".join(kept).strip()
    return _BLANK_RUN.sub("\n\n", text) if "\n" in text else text


def _first_title(sections: list[Section]) -> str:
    titled = [section for section in sections if section.title]
    return next((section.title for section in titled if section.level == 1), titled[0].title if titled else "")
