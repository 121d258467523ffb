"""Reads bundles of the Open Knowledge Format, version 0.2: folders of Markdown whose front matter says who wrote and who verified a concept.

Who verified it there proves nothing here: the claims are kept as tags, and the entry's trust is computed like any other's.
Deprecated concepts and `index.md` and `log.md`, which are about the bundle, are left out. A date in `stale_after` is named in a tag. From the specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lorelog.ingest.importers.notes import MarkdownNote, matter_list, read_notes
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    clean_type,
    list_of,
    object_of,
    parse_time,
    text_of,
)

_RESERVED = frozenset({"index.md", "log.md"})
_SAMPLE_FILES = 20


class OkfSource:
    """A bundle of concepts."""

    name = "okf"
    title = "OKF bundle"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield bundles in the project that declare their version."""
        for path in (places.project, places.project / "okf", places.project / "knowledge"):
            if _declares_version(path):
                yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a folder declares OKF's version, or its first files have types and `generated` or `verified`."""
        if not path.is_dir():
            return False
        if _declares_version(path):
            return True
        for number, note in enumerate(read_notes(path)):
            if (
                isinstance(note, MarkdownNote)
                and note.matter.get("type")
                and {"generated", "verified"} & note.matter.keys()
            ):
                return True
            if number >= _SAMPLE_FILES:
                break
        return False

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the concepts."""
        for note in read_notes(path):
            if isinstance(note, SkippedItem):
                yield note
            elif note.path.name not in _RESERVED:
                yield _read_concept(note)


def _declares_version(path: Path) -> bool:
    try:
        with (path / "index.md").open("rb") as stream:
            return b"okf_version" in stream.read(1_000)
    except OSError:
        return False


def _read_concept(note: MarkdownNote) -> ImportedItem:
    matter = note.matter
    if not text_of(matter.get("type")):
        return SkippedItem(note.name, "its front matter has no type")
    if text_of(matter.get("status")) == "deprecated":
        return SkippedItem(note.name, "it is deprecated")
    if not note.text.strip():
        return SkippedItem(note.name, "it has no text")
    generated = object_of(matter.get("generated"))
    title, about = text_of(matter.get("title")), text_of(matter.get("description"))
    head = "\n\n".join(filter(None, (f"**{title}**" if title and title not in note.text[:300] else "", about)))
    stale = text_of(matter.get("stale_after"))
    known = text_of(object_of(matter.get("lorelog")).get("memory"))
    text = note.text if known or not head or (about and about in note.text) else f"{head}\n\n{note.text}"
    return ImportedEntry(
        text=text if known else "\n\n".join(filter(None, (text, *_origins(matter)))),
        kind="concept",
        place=note.name,
        type=clean_type(matter.get("type")).lower(),
        tags=clean_tags(
            *matter_list(matter.get("tags")),
            *(f"verified-by:{actor}" for actor in _verifiers(matter.get("verified"))),
            f"stale-after:{stale}" if stale else "",
        ),
        at=parse_time(generated.get("at")) or parse_time(matter.get("timestamp")) or note.at,
        author=text_of(generated.get("by")),
        key=note.name,
        known_id=known,
    )


def _origins(matter: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a concept is about and comes from, as lines of text: nothing else would keep it."""
    resource = text_of(matter.get("resource"))
    if resource:
        yield f"Resource: {resource}"
    for source in map(object_of, list_of(matter.get("sources"))):
        if text_of(source.get("resource")):
            yield f"Source: {' '.join(filter(None, (text_of(source.get('title')), text_of(source.get('resource')))))}"


def _verifiers(value: object) -> list[str]:
    events: list[Any] = [value] if isinstance(value, dict) else list_of(value)
    return [actor for event in events if (actor := text_of(object_of(event).get("by")))]


SOURCE = OkfSource()
