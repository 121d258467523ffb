"""Reads memd: Open Memory Format 1.0, and JSON lines of its batch files and search results.

memd's own files are not read; `memd export-omf` writes OMF. Claims about lifecycle and trust cannot be checked and are left
out. OMF documents of lorelog itself hold records too: `lorelog import FILE` reads those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import SourceError
from lorelog.ingest.importers.export_files import file_head
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    check_text,
    clean_tags,
    clean_type,
    list_of,
    object_of,
    parse_time,
    text_of,
)
from lorelog.ingest.transcripts.json_files import read_members, read_records
from lorelog.ingest.transcripts.turns import TranscriptStats

_INACTIVE_STATES = frozenset({"archived", "expired", "superseded", "deleted"})
_ADDING_TOOLS = frozenset({"memory.add", "memory.add_batch", "add"})


class MemdSource:
    """Exports and batch files of memd."""

    name = "memd"
    title = "memd"
    is_personal = False

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield its data folder, of which the user has to make an export."""
        if (places.home / ".memd" / "data").is_dir():
            yield places.home / ".memd" / "data"

    def accepts(self, path: Path) -> bool:
        """Return whether a file is OMF or a batch file, or a folder is memd's."""
        if path.is_dir():
            return ".memd" in path.parts[-2:]
        head = file_head(path)[:2_000]
        if not head.startswith("{"):
            return False
        return '"omf"' in head or ('"tool"' in head and '"memory.' in head) or '"chunk_id"' in head

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield memories."""
        if path.is_dir():
            raise SourceError(
                f"{path} holds memd's own files",
                hint="run 'memd export-omf --output memories.json', then 'lorelog import memd memories.json'",
            )
        if '"omf"' in file_head(path)[:2_000]:
            yield from _read_omf(path)
        else:
            yield from _read_lines(path)


def _read_omf(path: Path) -> Iterator[ImportedItem]:
    stats, number = TranscriptStats(), 0
    for name, value in read_members(str(path), frozenset({"memories"}), stats):
        if name == "memories":
            number += 1
            yield _checked(value, f"{path.name}, item {number}")
    if stats.broken:
        yield SkippedItem(f"{path.name}, item {number + 1}", "the document ends here unexpectedly")


def _read_lines(path: Path) -> Iterator[ImportedItem]:
    stats = TranscriptStats()
    for number, record in enumerate(read_records(str(path), stats), 1):
        place = f"{path.name}, record {number}"
        tool = text_of(record.get("tool")) or text_of(record.get("op"))
        if tool and tool not in _ADDING_TOOLS:
            yield SkippedItem(place, f"{tool} adds no memory")
            continue
        values = object_of(record.get("arguments")) or object_of(record.get("params")) or record
        several = list_of(values.get("chunks")) or list_of(values.get("memories")) or [values]
        yield from (_checked(value, place) for value in several)
    if stats.broken or stats.skipped:
        yield SkippedItem(path.name, f"{stats.broken + stats.skipped:,} lines are not JSON objects")


def _checked(value: object, place: str) -> ImportedItem:
    if not isinstance(value, dict):
        return SkippedItem(place, "it is not an object")
    entry = read_omf_memory(value, place)
    if isinstance(entry, ImportedEntry) and is_inactive(value):
        return SkippedItem(place, f"it is {text_of(value.get('status')).lower()} in memd")
    return entry


def is_inactive(item: Mapping[str, Any]) -> bool:
    """Return whether the other program had archived, replaced or deleted a memory."""
    return str(item.get("status")).lower() in _INACTIVE_STATES


def read_omf_memory(item: Mapping[str, Any], place: str) -> ImportedEntry | SkippedItem:
    """Return the memory of an OMF item, or of an object with memd's names."""
    extensions = object_of(item.get("extensions"))
    theirs, ours = object_of(extensions.get("memd")), object_of(extensions.get("lorelog"))
    content = item.get("content") if isinstance(item.get("content"), str) else item.get("text")
    problem = check_text(content) if isinstance(content, str) else "it has no content"
    if problem:
        return SkippedItem(place, problem.replace("it has no text", "it has no content"))
    kind = ours.get("type") or theirs.get("chunk_type") or item.get("chunk_type") or item.get("type")
    times = (item.get("created_at"), item.get("timestamp_created"), theirs.get("created_at"), item.get("date"))
    return ImportedEntry(
        text=str(content),
        kind="memory",
        place=place,
        type=clean_type(kind),
        tags=clean_tags(*list_of(item.get("tags"))),
        at=next((time for value in times if value and (time := parse_time(value))), None),
        author=text_of(item.get("agent_id")) or text_of(theirs.get("agent_id")),
        project=text_of(item.get("project_id")) or text_of(theirs.get("project_id")),
    )


SOURCE = MemdSource()
