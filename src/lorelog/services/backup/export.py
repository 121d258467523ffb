"""Export memories and records as plain Markdown, or as one JSON object per line.

An export is for people and other programs; a backup is for `lorelog restore`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from lorelog.core.document import DATE_OF_FILE, GLOBAL_PROJECT, StoredChunk
from lorelog.core.errors import LorelogError
from lorelog.core.record import Record
from lorelog.services.records.exchange.formats import record_to_json

_HEADING_LINE = re.compile(r"\A#{1,6} [^\n]*\n")
_COMMENT = re.compile(r"\A\s*<!--.*?-->[ \t]*\n?", re.DOTALL)


def exported_projects(visible: Iterable[str], *, all_projects: bool, with_global: bool) -> tuple[str, ...] | None:
    """Return the projects to export; None for all. Global memories are private notes of a person: they are left out unless asked for."""
    if all_projects:
        return None
    return tuple(project for project in dict.fromkeys(visible) if with_global or project != GLOBAL_PROJECT)


class ExportCounts(Struct):
    """How much was exported."""

    memories: int = 0
    records: int = 0


def export_jsonl(
    memories: Iterable[StoredChunk],
    records: Iterable[Record],
    read_text: Callable[[str], str],
    counts: ExportCounts,
) -> Iterator[str]:
    """Yield one line per memory, then one per record."""
    for memory, text in _with_texts(memories, read_text, counts):
        chunk, anchor = memory.chunk, memory.chunk.anchor
        values = {
            "item": "memory",
            "memory": anchor.memory if anchor else "",
            "id": memory.id,
            "text": text,
            "type": chunk.type,
            "tags": list(chunk.tags),
            "date": chunk.date,
            "origin": anchor.origin if anchor else "",
            "project": memory.project,
            "source": chunk.source,
            "line": chunk.start_line,
        }
        yield json.dumps(values, ensure_ascii=False) + "\n"
    for record in records:
        counts.records += 1
        yield json.dumps({"item": "record", "record": record_to_json(record)}, ensure_ascii=False) + "\n"


def export_markdown(
    memories: Iterable[StoredChunk], read_text: Callable[[str], str], counts: ExportCounts
) -> Iterator[str]:
    """Yield the memories of each project, newest first and undated ones last, under headings for project, day and time."""
    by_project: dict[str, list[StoredChunk]] = {}
    for memory in memories:
        by_project.setdefault(memory.project, []).append(memory)
    for project in sorted(by_project):
        yield f"# {project if project != GLOBAL_PROJECT else 'Global'}\n\n"
        last = "none yet"
        for memory, text in _with_texts(sorted(by_project[project], key=_is_undated), read_text, counts):
            day, _, time = ("" if _is_undated(memory) else memory.chunk.date).partition("T")
            if day != last:
                yield f"## {day or 'Without a date'}\n\n"
                last = day
            details = [memory.chunk.type, *(f"#{tag}" for tag in memory.chunk.tags)]
            title = " ".join(filter(None, (time, *details))) or memory.chunk.heading or memory.id
            yield f"### {title}\n\n{text}\n\n"


def _is_undated(memory: StoredChunk) -> bool:
    return memory.chunk.date_source == DATE_OF_FILE


def _with_texts(
    memories: Iterable[StoredChunk], read_text: Callable[[str], str], counts: ExportCounts
) -> Iterator[tuple[StoredChunk, str]]:
    for memory in memories:
        try:
            text = read_text(memory.id)
        except LorelogError:  # its file is gone; the index still has its beginning
            text = memory.chunk.content
        text = _HEADING_LINE.sub("", text, count=1)
        while _COMMENT.match(text):
            text = _COMMENT.sub("", text, count=1)
        if text.strip():
            counts.memories += 1
            yield memory, text.strip()
