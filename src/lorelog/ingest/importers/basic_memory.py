"""Reads the notes of basic-memory: Markdown with observations (`- [category] text #tag (context)`) and relations (`- uses [[Target]]`).

A note is one entry, whole: its observations are about the note's subject. Categories and relations become tags, so that
`--tag category:decision` and `--tag link:brewing-methods` find it. From the documented format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lorelog.ingest.importers.notes import MarkdownNote, matter_list, read_notes, split_note
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    clean_type,
    text_of,
)

_OBSERVATION = re.compile(r"^\s*[-*] \[([^\]\n\[( ][^\]\n\[]{0,60})\] ", 8)
_RELATION = re.compile(r"\[\[([^\]|\n]{1,200})(?:\|[^\]\n]*)?\]\]")
_INLINE_TAG = re.compile(r"(?<![\w#&/])#([A-Za-z][\w/-]{1,60})")
_CHECKBOXES = frozenset({"x", "X", "-", "/"})
_SAMPLE_FILES = 50


class BasicMemorySource:
    """A folder of notes that basic-memory keeps."""

    name = "basic-memory"
    title = "basic-memory"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the folder in the home where it keeps notes by default."""
        path = places.home / "basic-memory"
        if path.is_dir():
            yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a folder has notes with permalinks."""
        if not path.is_dir():
            return False
        for number, note in enumerate(read_notes(path)):
            if isinstance(note, MarkdownNote) and note.matter.get("permalink"):
                return True
            if number >= _SAMPLE_FILES:
                break
        return False

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the notes."""
        for note in read_notes(path):
            if isinstance(note, SkippedItem):
                yield note
                continue
            if not note.text.strip():
                yield SkippedItem(note.name, "it has no text")
                continue
            yield from _read_note(note)


def _read_note(note: MarkdownNote) -> Iterator[ImportedItem]:
    title = text_of(note.matter.get("title")) or note.path.stem
    for heading, text in split_note(note):
        categories = [
            f"category:{word}" for word in dict.fromkeys(_OBSERVATION.findall(text)) if word not in _CHECKBOXES
        ]
        links = [f"link:{target}" for target in dict.fromkeys(_RELATION.findall(text))]
        yield ImportedEntry(
            text=text if text.lstrip().startswith("#") else f"**{title}**\n\n{text}",
            kind="note",
            place=f"{note.name}, {heading}" if heading else note.name,
            type=clean_type(note.matter.get("type")) or "note",
            tags=clean_tags(*matter_list(note.matter.get("tags")), *categories, *links, *_INLINE_TAG.findall(text)),
            at=note.at,
            key=f"{text_of(note.matter.get('permalink')) or note.name}#{heading}",
        )


SOURCE = BasicMemorySource()
