"""Reads mem0: JSON of its platform or library, the Markdown that its plugin exports, and the library's `history.db`.

The library keeps texts in a vector store of the user's choice, and every change of them in `history.db`. The newest change of each
memory is its text; memories whose last change is a deletion are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import SourceError
from lorelog.ingest.importers.export_files import database_tables, file_head, read_array
from lorelog.ingest.importers.notes import matter_list, parse_matter
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
from lorelog.ingest.transcripts.json_files import SQLITE_MAGIC, open_database, open_stream, read_members, table_columns
from lorelog.ingest.transcripts.turns import TranscriptStats

_ARRAYS = frozenset({"results", "memories", "data"})
_MAX_LINE_BYTES = 4_000_000
_HEAD = ("id:", "created_at:", "type:", "confidence:")


class Mem0Source:
    """What mem0 kept for a user."""

    name = "mem0"
    title = "mem0"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the library's history, and exports of the plugin."""
        history = places.home / ".mem0" / "history.db"
        if history.is_file():
            yield history
        for folder in (places.project, places.home / "Downloads"):
            yield from sorted(folder.glob("mem0-export-*.md"))

    def accepts(self, path: Path) -> bool:
        """Return whether a path is one of its three forms."""
        head = file_head(path)
        if head.startswith(SQLITE_MAGIC.decode()):
            return "history" in database_tables(path) and (path.parent.name == ".mem0" or "memory_id" in head)
        if path.name.startswith("mem0-export-") and path.suffix == ".md":
            return True
        return (
            head[:1] in "[{"
            and '"memory"' in head
            and any(word in head for word in ('"hash"', '"user_id"', '"agent_id"'))
        )

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the memories."""
        head = file_head(path)
        if head.startswith(SQLITE_MAGIC.decode()):
            yield from _read_history(path)
        elif head.startswith("["):
            yield from _read_objects(path, read_array(path, path.name))
        elif head.startswith("{"):
            stats = TranscriptStats()
            members = read_members(str(path), _ARRAYS, stats)
            yield from _read_objects(path, (value for name, value in members if name in _ARRAYS))
            if stats.broken:
                yield SkippedItem(path.name, "the file ends unexpectedly")
        else:
            yield from _read_plugin_export(path)


def _read_objects(path: Path, values: Iterator[Any]) -> Iterator[ImportedItem]:
    for number, value in enumerate(values, 1):
        place = f"{path.name}, item {number}"
        if isinstance(value, SkippedItem):
            yield value
        elif not isinstance(value, dict):
            yield SkippedItem(place, "it is not an object")
        else:
            text = text_of(value.get("memory")) or text_of(value.get("text")) or text_of(value.get("data"))
            yield _make_entry(value, text, place)


def _make_entry(value: Mapping[str, Any], text: str, place: str) -> ImportedItem:
    if not text:
        return SkippedItem(place, "it has no text")
    metadata = object_of(value.get("metadata"))
    author = text_of(value.get("agent_id")) or text_of(value.get("actor_id")) or text_of(value.get("user_id"))
    identity = text_of(value.get("id"))
    return ImportedEntry(
        text=text,
        kind="memory",
        place=place,
        type=clean_type(value.get("type") or metadata.get("type")) or "fact",
        tags=clean_tags(*list_of(value.get("categories")), metadata.get("category")),
        at=parse_time(value.get("created_at")) or parse_time(value.get("updated_at")),
        author=author,
        key=identity,
        project=text_of(metadata.get("project")) or text_of(value.get("project")),
    )


def _read_history(path: Path) -> Iterator[ImportedItem]:
    with open_database(str(path)) as connection:
        columns = table_columns(connection).get("history", frozenset())
        if not {"memory_id", "new_memory", "event"} <= columns:
            raise SourceError(f"{path} has no history of memories", hint="name the file history.db of mem0")
        optional = [
            name if name in columns else "NULL" for name in ("created_at", "updated_at", "actor_id", "is_deleted")
        ]
        rows = connection.execute(
            f"SELECT memory_id, new_memory, event, {', '.join(optional)} FROM history ORDER BY rowid"  # noqa: S608  (fixed names)
        )
        last: dict[str, tuple[Any, ...]] = {}
        first_time: dict[str, Any] = {}
        for row in rows:
            identity = str(row[0])
            first_time.setdefault(identity, row[3])
            last[identity] = row
    for identity, (_, text, event, created, updated, actor, is_deleted) in last.items():
        place = f"history.db, memory {identity}"
        if event == "DELETE" or is_deleted:
            yield SkippedItem(place, "it was deleted in mem0")
            continue
        value = {"id": identity, "created_at": first_time[identity] or created or updated, "actor_id": actor}
        yield _make_entry(value, text_of(text), place)


def _read_plugin_export(path: Path) -> Iterator[ImportedItem]:
    """Yield the blocks of the plugin's export: front matter and text, one after the other."""
    matter: list[str] = []
    body: list[str] = []
    is_head, number = False, 0
    with open_stream(str(path)) as stream:
        lines = [
            line.decode("utf-8", "replace").rstrip("\r\n")
            for line in iter(lambda: stream.readline(_MAX_LINE_BYTES), b"")
        ]
    for position, line in enumerate((*lines, "---", "id: end")):
        following = lines[position + 1] if position + 1 < len(lines) else "id:"
        if line == "---" and not is_head and following.startswith(_HEAD):
            if matter:
                number += 1
                yield _make_block(path, matter, body, number)
            matter, body, is_head = [], [], True
        elif line == "---" and is_head:
            is_head = False
        else:
            (matter if is_head else body).append(line)


def _make_block(path: Path, matter: list[str], body: list[str], number: int) -> ImportedItem:
    values = parse_matter(matter)
    words = matter_list(values.get("categories"))
    files = [f"`{name}`" for name in matter_list(values.get("files"))]
    text = "\n".join(body).strip()
    text = f"{text}\n\nFiles: {', '.join(files)}" if text and files else text
    return _make_entry({**values, "categories": words}, text, f"{path.name}, block {number}")


SOURCE = Mem0Source()
